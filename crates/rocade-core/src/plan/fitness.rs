//! Whether Pods can use an HCA that a resource selects, and by which nodes. Port state is not looked at.

use super::{Pool, Reason, identity, netdevs};
use crate::config::{CharDevices, Dialect};
use crate::host::{CharDevice, Hca, Host, LinkLayer, Port, Transport};
use crate::names::PortNum;

/// Whether Pods could use the HCA at all.
pub(super) fn check(host: &Host, hca: &Hca) -> Option<Reason> {
    if let Some(whole) = identity::whole(host, hca) {
        return Some(Reason::HalfOf(whole.name.clone()));
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
    netdevs::hardware_below(host, hca).map(|hardware| Reason::SoftwareOn(hardware.name.clone()))
}

/// Whether the nodes that are asked for are there. That plugin's Pods have umad and issm where those are.
pub(super) fn check_nodes(
    host: &Host,
    dialect: Dialect,
    asked: CharDevices,
    hca: &Hca,
    ports: &[PortNum],
) -> Option<Reason> {
    let Some(uverbs) = &hca.uverbs else { return Some(Reason::NoVerbs) };
    if !uverbs.is_there() {
        return Some(Reason::NoNode(uverbs.path()));
    }
    if dialect == Dialect::ConfigJson {
        return None;
    }
    let halves = identity::other_halves(host, hca);
    let lacking = |kind: &'static str, of: fn(&Port) -> Option<&CharDevice>| {
        ports.iter().find_map(|number| {
            let all = std::iter::once(hca).chain(halves.iter().copied());
            let devices: Vec<_> = all.filter_map(|half| of(half.port(*number)?)).collect();
            match devices.first() {
                _ if devices.iter().any(|device| device.is_there()) => None,
                Some(device) => Some(Reason::NoNode(device.path())),
                None => Some(Reason::NoCharDevice { kind, port: *number }),
            }
        })
    };
    // Only where there can be a subnet manager: an Ethernet port has no issm.
    let infiniband = |n: &PortNum| hca.port(*n).is_some_and(|p| p.link_layer == LinkLayer::InfiniBand);
    let umad = if asked.umad { lacking("umad", |port| port.umad.as_ref()) } else { None };
    let issm = asked.issm && ports.iter().all(infiniband);
    umad.or_else(|| if issm { lacking("issm", |port| port.issm.as_ref()) } else { None })
}

/// In exclusive mode an HCA goes to one namespace, so only the first pool may offer it.
pub(super) fn check_offered<'p>(mut earlier: impl Iterator<Item = &'p Pool>, hca: &Hca) -> Option<Reason> {
    let offers = |pool: &&Pool| pool.members.iter().any(|member| member.hca == hca.name);
    earlier.find(offers).map(|pool| Reason::OfferedBy(pool.resource.clone()))
}

/// In the order of the k8s-rdma-shared-dev-plugin: issm, umad, uverbs.
pub(super) fn nodes(asked: CharDevices, hca: &Hca) -> Vec<String> {
    let issm = hca.ports.iter().filter(|_| asked.issm).filter_map(|p| p.issm.as_ref());
    let umad = hca.ports.iter().filter(|_| asked.umad).filter_map(|p| p.umad.as_ref());
    issm.chain(umad).chain(&hca.uverbs).filter(|d| d.is_there()).map(CharDevice::path).collect()
}
