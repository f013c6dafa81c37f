//! Node labels: hardware facts that do not flap, under one prefix with fixed keys, so that what selects nodes by them
//! does not lose one over a link that went down. How they reach the node is the agent's business.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::host::{Hca, Host, LinkLayer, NetnsMode, Port, RoleKind, Transport};

/// Before each of the keys.
pub const PREFIX: &str = "rdma.rocade.dev/";
/// NFD's own key for hosts with RDMA hardware: its built-in rule knows vendor 15b3 alone.
pub const NFD_CAPABLE: &str = "feature.node.kubernetes.io/custom-rdma.capable";
/// NFD's own key for hosts whose RDMA can be used: its built-in rule misses modules that are built in, and wants no HCA.
pub const NFD_AVAILABLE: &str = "feature.node.kubernetes.io/custom-rdma.available";

/// What ports showed since the host booted. It only grows until the next boot: a port that is down for a while says
/// nothing about the hardware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinceBoot {
    /// The most ports that were ACTIVE at once.
    pub ports_active: u32,
    /// The highest rate of an ACTIVE port, whole Gbit/s (10⁹ bit/s).
    pub rate_gbps: u32,
}

impl SinceBoot {
    /// With what a host shows now.
    #[must_use]
    pub fn saw(self, host: &Host) -> SinceBoot {
        let active: Vec<&Port> = capable(host).flat_map(|hca| &hca.ports).filter(|p| is_active(p)).collect();
        let rates = active.iter().filter_map(|port| port.rate_gbps).map(|rate| rate as u32);
        SinceBoot {
            ports_active: self.ports_active.max(u32::try_from(active.len()).unwrap_or(u32::MAX)),
            rate_gbps: self.rate_gbps.max(rates.max().unwrap_or(0)),
        }
    }
}

/// The labels of a host; none where nothing speaks InfiniBand or RoCE. `nfd_keys` adds NFD's own two.
pub fn labels(host: &Host, since_boot: SinceBoot, nfd_keys: bool) -> BTreeMap<String, String> {
    let hcas: Vec<&Hca> = capable(host).collect();
    if hcas.is_empty() {
        return BTreeMap::new();
    }
    let mut labels = BTreeMap::new();
    let mut set = |key: &str, value: String| labels.insert(format!("{PREFIX}{key}"), value);
    set("capable", "true".into());
    set("hcas", hcas.len().to_string());
    set("link-layer", joined(hcas.iter().flat_map(|hca| hca.ports.iter().filter_map(link_layer))));
    set("vendors", joined(hcas.iter().map(|hca| vendor(hca))));
    set("ports-active-at-boot", since_boot.ports_active.to_string());
    if since_boot.rate_gbps > 0 {
        set("rate-gbps", since_boot.rate_gbps.to_string());
    }
    if let Some(mode) = host.netns_mode {
        set("netns-mode", if mode == NetnsMode::Shared { "shared" } else { "exclusive" }.into());
    }
    if nfd_keys {
        labels.insert(NFD_CAPABLE.into(), "true".into());
        if host.rdma_cm.is_some() && hcas.iter().any(|hca| hca.uverbs.is_some()) {
            labels.insert(NFD_AVAILABLE.into(), "true".into());
        }
    }
    labels
}

/// HCAs of any vendor that speak what Pods use, but those that manage a switch and carry no traffic.
fn capable(host: &Host) -> impl Iterator<Item = &Hca> {
    let speaks =
        |port: &Port| matches!(port.transport, Transport::Infiniband | Transport::Roce | Transport::Opa);
    host.hcas.iter().filter(move |hca| hca.role.kind != RoleKind::Bridge && hca.ports.iter().any(speaks))
}

fn is_active(port: &Port) -> bool {
    port.state.as_deref() == Some("ACTIVE")
}

fn link_layer(port: &Port) -> Option<String> {
    match port.link_layer {
        LinkLayer::InfiniBand => Some("infiniband".into()),
        LinkLayer::Ethernet => Some("ethernet".into()),
        LinkLayer::Unknown => None,
    }
}

/// The PCI vendor id; `software` for rxe and siw, `other` for hardware that has none (VMBus).
fn vendor(hca: &Hca) -> String {
    match hca.pci_id {
        _ if hca.software => "software".into(),
        Some(id) => format!("{:04x}", id.vendor),
        None => "other".into(),
    }
}

/// Different values in order, in the characters of a label's value.
fn joined(values: impl Iterator<Item = String>) -> String {
    values.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests;
