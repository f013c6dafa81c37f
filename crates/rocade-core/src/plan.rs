//! Which HCAs stand behind which resource, and for every HCA why it is in or out; what a container is granted.
//! Port state is not looked at: an HCA whose link is down stays offered, as the k8s-rdma-shared-dev-plugin offers it.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;

use crate::config::{Config, Resource, Sharing, Slots};
use crate::host::{Accessible, CharDevice, Hca, Host, LinkLayer, NetnsMode, Port, Transport};
use crate::names::{HcaName, PortNum, ResourceName};

mod netdevs;

/// A resource and the HCAs behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// As Pods ask for it.
    pub resource: ResourceName,
    /// Device IDs "0" to "slots - 1"; 0 while no HCA is in the pool.
    pub slots: u32,
    /// The HCAs in the pool.
    pub members: Vec<PoolMember>,
    /// The HCAs out of it, each with the first reason.
    pub left_out: Vec<LeftOut>,
    /// /dev/infiniband/rdma_cm, where it is there.
    pub rdma_cm: Option<String>,
}

/// An HCA of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolMember {
    /// Its name.
    pub hca: HcaName,
    /// The ports that the selectors meant: those with a named interface, otherwise all.
    pub ports: Vec<PortNum>,
    /// Paths of its device nodes that are there: issm and umad of all ports, then uverbs.
    pub nodes: Vec<String>,
}

/// An HCA that is not in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub hca: HcaName,
    /// The first thing that kept it out.
    pub reason: Reason,
}

/// Why an HCA is not in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A selector holds none of the HCA's values.
    Selector {
        /// Key of the selector, as in config.json.
        key: &'static str,
        /// What the selector lists.
        wanted: Vec<String>,
        /// What the HCA has.
        seen: Vec<String>,
    },
    /// RDMA devices belong to one network namespace each: a Pod could not use it by its device nodes.
    ExclusiveNetns,
    /// Its PCI function has no driver: it is going away.
    NoDriver,
    /// No port speaks InfiniBand or RoCE; what they speak instead.
    Transport(Transport),
    /// Every port has a GID table of length 0: RoCE is off, or the function is a switchdev manager.
    NoGidTable,
    /// A software HCA on an interface of this hardware HCA.
    SoftwareOn(HcaName),
    /// The node below /dev/infiniband that is not there.
    NoNode(String),
    /// The kernel made no verbs device for it.
    NoVerbs,
}

/// What a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Device nodes, each once; the same path on the host and in the container, permissions "rwm".
    pub nodes: Vec<String>,
    /// Name and value of the variable that tells what was granted: `mlx5_0:1,mlx5_1:1`.
    pub variable: (String, String),
}

/// Works out every pool of a configuration on a host, in the configuration's order.
pub fn plan(host: &Host, config: &Config) -> Vec<Pool> {
    config.resources.iter().map(|resource| plan_pool(host, resource)).collect()
}

impl Pool {
    /// Whether the kubelet may hand out this device ID.
    pub fn has_id(&self, id: &str) -> bool {
        // Parsing alone would also take "+1" and "01".
        id.parse::<u32>().is_ok_and(|n| n < self.slots && n.to_string() == id)
    }

    /// What a container of the pool gets, whichever ID it was given.
    pub fn grant(&self) -> Grant {
        let mut seen = BTreeSet::new();
        let all = self.members.iter().flat_map(|m| &m.nodes).chain(&self.rdma_cm);
        let nodes = all.filter(|node| seen.insert(*node)).cloned().collect();
        Grant { nodes, variable: (self.resource.grant_variable(), self.ports_text()) }
    }

    /// The HCAs and ports: `mlx5_0:1,mlx5_1:1`.
    pub fn ports_text(&self) -> String {
        let pair =
            |m: &PoolMember| m.ports.iter().map(|port| format!("{}:{port}", m.hca)).collect::<Vec<_>>();
        self.members.iter().flat_map(pair).collect::<Vec<_>>().join(",")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Selector { key, wanted, seen } if seen.is_empty() => {
                write!(f, "{key} wants {}, it has none", wanted.join(" or "))
            }
            Reason::Selector { key, wanted, seen } => {
                write!(f, "{key} wants {}, it has {}", wanted.join(" or "), seen.join(", "))
            }
            Reason::ExclusiveNetns => f.write_str("RDMA namespaces are exclusive, so Pods cannot share it"),
            Reason::NoDriver => f.write_str("no driver is bound to its PCI function"),
            Reason::Transport(transport) => write!(f, "it speaks {transport:?}, not InfiniBand or RoCE"),
            Reason::NoGidTable => {
                f.write_str("its GID table has length 0: RoCE is off, or it only manages a switch")
            }
            Reason::SoftwareOn(hca) => write!(f, "it is a software HCA on an interface of {hca}"),
            Reason::NoNode(path) => write!(f, "{path} is not there"),
            Reason::NoVerbs => f.write_str("the kernel made no verbs device for it (module ib_uverbs)"),
        }
    }
}

fn plan_pool(host: &Host, resource: &Resource) -> Pool {
    let (mut members, mut left_out) = (Vec::new(), Vec::new());
    for hca in &host.hcas {
        match check_selectors(host, resource, hca).or_else(|| check_fitness(host, hca)) {
            Some(reason) => left_out.push(LeftOut { hca: hca.name.clone(), reason }),
            None => members.push(PoolMember {
                hca: hca.name.clone(),
                ports: meant_ports(host, resource, hca),
                nodes: nodes(hca),
            }),
        }
    }
    Pool {
        resource: resource.name.clone(),
        slots: if members.is_empty() { 0 } else { slots(resource) },
        members,
        left_out,
        rdma_cm: host.rdma_cm.as_ref().filter(|d| is_there(d)).map(CharDevice::path),
    }
}

fn check_selectors(host: &Host, resource: &Resource, hca: &Hca) -> Option<Reason> {
    let id = |text: fn(u16, u16) -> u16| hca.pci_id.map(|p| format!("{:04x}", text(p.vendor, p.device)));
    let s = &resource.selectors;
    let values: [(&'static str, &Vec<String>, Vec<String>); 5] = [
        ("vendors", &s.vendors, id(|vendor, _| vendor).into_iter().collect()),
        ("deviceIDs", &s.device_ids, id(|_, device| device).into_iter().collect()),
        ("drivers", &s.drivers, hca.driver.iter().cloned().collect()),
        ("ifNames", &s.if_names, netdevs::of_hca(host, hca).into_iter().map(str::to_owned).collect()),
        ("linkTypes", &s.link_types, link_types(host, hca)),
    ];
    let mut failed = values
        .into_iter()
        .filter(|(_, wanted, seen)| !wanted.is_empty() && !wanted.iter().any(|w| seen.contains(w)));
    failed.next().map(|(key, wanted, seen)| Reason::Selector { key, wanted: wanted.clone(), seen })
}

fn check_fitness(host: &Host, hca: &Hca) -> Option<Reason> {
    if host.netns_mode == Some(NetnsMode::Exclusive) {
        return Some(Reason::ExclusiveNetns);
    }
    if hca.pci_address.is_some() && hca.driver.is_none() {
        return Some(Reason::NoDriver);
    }
    let foreign = |p: &Port| matches!(p.transport, Transport::Iwarp | Transport::Efa | Transport::Usnic);
    if let Some(first) = hca.ports.first().filter(|_| hca.ports.iter().all(foreign)) {
        return Some(Reason::Transport(first.transport));
    }
    if !hca.ports.is_empty() && hca.ports.iter().all(|p| p.gid_table_len == Some(0)) {
        return Some(Reason::NoGidTable);
    }
    if let Some(hardware) = hardware_below(host, hca) {
        return Some(Reason::SoftwareOn(hardware.name.clone()));
    }
    match &hca.uverbs {
        None => Some(Reason::NoVerbs),
        Some(uverbs) if !is_there(uverbs) => Some(Reason::NoNode(uverbs.path())),
        Some(_) => None,
    }
}

/// Of tokens alone for now.
fn slots(resource: &Resource) -> u32 {
    match resource.sharing {
        Sharing::Tokens(Slots::Fixed(slots)) => slots,
        Sharing::Tokens(Slots::Auto { .. }) | Sharing::Hca { .. } => 0,
    }
}

/// The hardware HCA on whose port's interface a software HCA was made: the interface was asked for to get that one.
fn hardware_below<'h>(host: &'h Host, hca: &Hca) -> Option<&'h Hca> {
    let netdevs = |h: &Hca| h.ports.iter().filter_map(|p| p.netdev.clone()).collect::<BTreeSet<_>>();
    let own = netdevs(hca);
    let hardware = |h: &&Hca| !h.software && !netdevs(h).is_disjoint(&own);
    if hca.software { host.hcas.iter().find(hardware) } else { None }
}

/// The link types of the HCA's interfaces, and `infiniband` also where there is no IPoIB interface. An Ethernet port
/// without interface has none: its interface is in use in another network namespace.
fn link_types(host: &Host, hca: &Hca) -> Vec<String> {
    let named = |link_type: u16| match link_type {
        1 => Some("ether"),
        32 => Some("infiniband"),
        _ => None,
    };
    let netdevs = netdevs::own(hca).into_iter().filter_map(|name| host.netdev(name));
    let mut types: BTreeSet<_> = netdevs.filter_map(|n| named(n.link_type)).collect();
    if hca.ports.iter().any(|p| p.link_layer == LinkLayer::InfiniBand) {
        types.insert("infiniband");
    }
    types.into_iter().map(str::to_owned).collect()
}

fn meant_ports(host: &Host, resource: &Resource, hca: &Hca) -> Vec<PortNum> {
    let named = |port: &&Port| {
        let names = netdevs::of_port(host, hca, port);
        resource.selectors.if_names.iter().any(|name| names.contains(name.as_str()))
    };
    let meant: Vec<_> = hca.ports.iter().filter(named).map(|p| p.port).collect();
    if meant.is_empty() { hca.ports.iter().map(|p| p.port).collect() } else { meant }
}

/// In the order of the k8s-rdma-shared-dev-plugin: issm, umad, uverbs.
fn nodes(hca: &Hca) -> Vec<String> {
    let issm = hca.ports.iter().filter_map(|p| p.issm.as_ref());
    let umad = hca.ports.iter().filter_map(|p| p.umad.as_ref());
    issm.chain(umad).chain(&hca.uverbs).filter(|d| is_there(d)).map(CharDevice::path).collect()
}

fn is_there(device: &CharDevice) -> bool {
    device.accessible == Accessible::Yes
}

#[cfg(test)]
mod tests;
