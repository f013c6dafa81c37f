//! Which ports a job may use: granted, openable, in a state in which RDMA can start. What stands in /sys is no ground:
//! with shared namespaces every HCA of the host does.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChosenPort, gids};
use crate::host::{GidEntry, Hca, Host, LinkLayer, NetnsMode, Port, RoleKind, Usable};
use crate::pod::{Held, Opens, Tried, held};

/// A port that may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rail<'a> {
    pub(super) hca: &'a Hca,
    pub(super) port: &'a Port,
    /// The GID of this namespace's address that counts; None on InfiniBand, and where all are link-local.
    pub(super) own: Option<&'a GidEntry>,
    /// Whether NCCL may use it beside the others.
    pub(super) nccl: bool,
}

impl Rail<'_> {
    /// `mlx5_2:1`, as NCCL and UCX spell it.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.hca.name, self.port.port)
    }

    pub(super) fn is_roce(&self) -> bool {
        self.port.link_layer == LinkLayer::Ethernet
    }

    pub(super) fn told(&self) -> ChosenPort {
        ChosenPort {
            hca: self.hca.name.clone(),
            port: self.port.port,
            link_layer: self.port.link_layer.clone(),
            gid_index: self.own.map(|own| own.index),
            address: self.own.and_then(|own| own.address),
            netdev: self.own.and_then(|own| own.netdev.clone()),
            nccl: self.nccl,
        }
    }
}

/// The ports, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Devices<'a> {
    pub(super) rails: Vec<Rail<'a>>,
    pub(super) left_out: BTreeMap<String, String>,
    /// HCAs of which it is not known whether they open here.
    pub(super) unsure: Vec<String>,
}

/// Their names as NCCL and UCX spell them, where no variable narrows them down.
pub(crate) fn usable_ports(host: &Host, tried: &Tried) -> Vec<String> {
    choose(host, tried, &BTreeMap::new()).rails.iter().map(Rail::name).collect()
}

pub(super) fn choose<'a>(host: &'a Host, tried: &Tried, variables: &BTreeMap<String, String>) -> Devices<'a> {
    let held = held(host, tried);
    let ports = granted_ports(variables);
    let mut devices = Devices::default();
    for one in &held {
        match why_not(one) {
            Some(why) => drop(devices.left_out.insert(one.hca.name.to_string(), why)),
            None => take_ports(one, &ports, &mut devices),
        }
    }
    if nothing_says_which(host, &held) {
        leave_other_roles(&mut devices);
    }
    devices
}

fn why_not(held: &Held<'_>) -> Option<String> {
    match (held.granted, &held.opens) {
        (Some(false), _) => Some("it was not granted".into()),
        (_, Opens::No(why)) => Some(why.clone()),
        _ => None,
    }
}

fn take_ports<'a>(held: &Held<'a>, granted: &BTreeMap<String, BTreeSet<u32>>, devices: &mut Devices<'a>) {
    let hca = held.hca;
    if let Opens::Unknown(why) = &held.opens {
        devices.unsure.push(format!("{}: {why}", hca.name));
    }
    for port in &hca.ports {
        let is_granted = granted.get(hca.name.as_str()).is_none_or(|ports| ports.contains(&port.port.0));
        let why = match (port.usable, is_granted) {
            (_, false) => "another port of the HCA was granted".to_owned(),
            (Usable::No, true) => port.reason.clone(),
            (_, true) => {
                devices.rails.push(Rail { hca, port, own: None, nccl: true });
                continue;
            }
        };
        devices.left_out.insert(format!("{}:{}", hca.name, port.port), why);
    }
}

/// Ports by HCA, where the grant names them: `mlx5_0:1,mlx5_1:1`.
fn granted_ports(variables: &BTreeMap<String, String>) -> BTreeMap<String, BTreeSet<u32>> {
    let mut ports: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let grants = variables.iter().filter(|(name, _)| name.starts_with("ROCADE_GRANT_"));
    for (hca, port) in grants.flat_map(|(_, value)| value.split(',')).filter_map(|part| part.split_once(':'))
    {
        if let Ok(port) = port.trim().parse() {
            ports.entry(hca.trim().to_owned()).or_default().insert(port);
        }
    }
    ports
}

/// Whether neither a grant, nor the nodes that are there, nor a namespace of its own tells which HCAs are meant.
fn nothing_says_which(host: &Host, held: &[Held<'_>]) -> bool {
    let own_namespace = host.netns_mode == Some(NetnsMode::Exclusive) && host.initial_netns == Some(false);
    !own_namespace && held.iter().all(|one| one.granted.is_none() && !matches!(one.opens, Opens::No(_)))
}

/// Of all HCAs of a host, jobs use its rails.
fn leave_other_roles(devices: &mut Devices<'_>) {
    let is_rail = |rail: &Rail<'_>| rail.hca.role.kind == RoleKind::Fabric;
    if !devices.rails.iter().any(is_rail) {
        return;
    }
    for rail in devices.rails.iter().filter(|rail| !is_rail(rail)) {
        let role = &rail.hca.role;
        let why =
            format!("nothing says what was granted, and it is no rail: {} ({})", role.kind, role.ground);
        devices.left_out.insert(rail.name(), why);
    }
    devices.rails.retain(is_rail);
}

/// The own addresses of a rail of one family that reach further than one Ethernet segment.
pub(super) fn routable<'a>(
    host: &'a Host,
    rail: &Rail<'a>,
    family: gids::Family,
) -> impl Iterator<Item = &'a GidEntry> {
    rail.port
        .gids
        .iter()
        .filter(move |gid| gids::is_own(host, gid) && !gids::is_link_local(gid))
        .filter(move |gid| gids::Family::of(gid) == family)
}
