//! Which netdev a port belongs to. sysfs has no such link: the GID table, RDMA netlink and the parent device's
//! netdevs each tell a part, and a bond hides its members.

use std::collections::BTreeMap;
use std::path::Path;

use rocade_core::host::Unknown;
use rocade_core::{GidEntry, Hca, LinkLayer, Netdev};

use crate::attributes::{parse_number, read_text};
use crate::infiniband::{Surroundings, read_software_netdev};
use crate::root::Root;

/// ARPHRD_INFINIBAND (include/uapi/linux/if_arp.h).
const IPOIB: u16 = 32;

/// The netdev of each port by RDMA netlink, as far as the kernel names one.
#[derive(Default)]
pub(crate) struct NetlinkNetdevs(Option<BTreeMap<(String, u32), Option<String>>>);

impl NetlinkNetdevs {
    /// Asks RDMA netlink. A kernel without RDMA has no ports; that is no gap in knowledge.
    pub(crate) fn read(root: &Root, has_rdma: bool, unknown: &mut Unknown) -> Self {
        match root.rdma_ports() {
            Ok(ports) => {
                NetlinkNetdevs(Some(ports.into_iter().map(|p| ((p.device, p.port), p.netdev)).collect()))
            }
            Err(refusal) => {
                if has_rdma {
                    unknown.insert("hcas.ports.netlink_netdev".into(), refusal.to_string());
                }
                NetlinkNetdevs(None)
            }
        }
    }

    /// The netdev named for a port.
    pub(crate) fn netdev(&self, hca: &str, port: u32) -> Option<&str> {
        self.port(hca, port)?.as_deref()
    }

    /// Some where netlink told of the port at all.
    fn port(&self, hca: &str, port: u32) -> Option<&Option<String>> {
        self.0.as_ref()?.get(&(hca.to_owned(), port))
    }
}

/// What is known of a port when its netdev is looked for.
pub(crate) struct PortView<'a> {
    pub(crate) hca: &'a Hca,
    /// Directory of the HCA.
    pub(crate) dir: &'a Path,
    pub(crate) number: u32,
    /// Whether the HCA has only this port.
    pub(crate) single: bool,
    pub(crate) link_layer: &'a LinkLayer,
    pub(crate) gids: &'a [GidEntry],
}

/// The netdev of a port, in the words of this network namespace.
pub(crate) fn find_netdev(around: &Surroundings<'_>, port: &PortView<'_>) -> Option<String> {
    let netlink = around.netlink.netdev(port.hca.name.as_str(), port.number);
    if *port.link_layer != LinkLayer::Ethernet {
        return netlink.map(str::to_owned).or_else(|| find_by_parent(around, port));
    }
    let with_gids = netdevs_of_gids(around, port);
    let has_gids = |name: &str| with_gids.iter().any(|n| n.name == name);
    let own = netlink.into_iter().map(str::to_owned).chain(port.hca.parent_netdevs.iter().cloned());
    // The function's own netdev, or the bond that it is a member of, whichever carries the GIDs.
    let carrier = own.clone().find_map(|name| {
        let bond = master(around.netdevs, &name).filter(|bond| has_gids(bond));
        bond.map(str::to_owned).or_else(|| has_gids(&name).then_some(name))
    });
    carrier
        .or_else(|| {
            read_software_netdev(around.root, port.dir).filter(|name| find(around.netdevs, name).is_some())
        })
        .or_else(|| netlink.map(|name| master(around.netdevs, name).unwrap_or(name).to_owned()))
        .or_else(|| with_gids.first().map(|netdev| netdev.name.clone()))
        .or_else(|| match around.netlink.port(port.hca.name.as_str(), port.number) {
            // The kernel knows of none in this namespace.
            Some(None) => None,
            _ => find_by_parent(around, port),
        })
}

/// The netdevs of this namespace that stand in the GID table, in its order.
fn netdevs_of_gids<'a>(around: &Surroundings<'a>, port: &PortView<'_>) -> Vec<&'a Netdev> {
    let mut netdevs: Vec<&Netdev> = Vec::new();
    // Entries of one netdev mostly stand together, and a host may have as many netdevs as HCAs.
    let mut last = None;
    for gid in port.gids {
        let is_named = |netdev: &&Netdev| Some(&netdev.name) == gid.netdev.as_ref();
        let netdev = last
            .filter(is_named)
            .or_else(|| gid.netdev.as_deref().and_then(|name| find(around.netdevs, name)));
        last = netdev.or(last);
        // A name alone is not enough: a netdev of another namespace may have the same.
        let own = |n: &&Netdev| {
            n.addresses.iter().any(|(own, _)| Some(*own) == gid.address)
                || n.mac.as_deref().and_then(rocade_core::Gid::from_mac) == Some(gid.gid)
        };
        if let Some(netdev) = netdev.filter(own).filter(|n| !netdevs.iter().any(|seen| seen.name == n.name)) {
            netdevs.push(netdev);
        }
    }
    netdevs
}

/// A netdev of the parent device whose dev_port (dev_id on drivers that predate it) is this port's. A child of
/// another netdev and a representor have the same number and are not meant.
fn find_by_parent(around: &Surroundings<'_>, port: &PortView<'_>) -> Option<String> {
    let ipoib = *port.link_layer == LinkLayer::InfiniBand;
    let fits = |name: &&String| {
        let netdev = find(around.netdevs, name);
        netdev.is_some_and(|n| (n.link_type == IPOIB) == ipoib && n.parent.is_none())
    };
    let candidates: Vec<&String> = port.hca.parent_netdevs.iter().filter(fits).collect();
    if let ([only], true) = (&candidates[..], port.single) {
        return Some(resolve_bond(around, only));
    }
    let device = port.dir.ancestors().nth(2)?;
    let at = |name: &str, file: &str| {
        let text = read_text(around.root, &device.join("net").join(name).join(file)).ok()?;
        parse_number(&text)
    };
    let number = |file: &str| {
        let mut matching = candidates
            .iter()
            .filter(|name| at(name, file).is_some_and(|n| n.checked_add(1) == Some(port.number)));
        matching.next().filter(|_| matching.next().is_none()).copied()
    };
    number("dev_port").or_else(|| number("dev_id")).map(|name| resolve_bond(around, name))
}

fn resolve_bond(around: &Surroundings<'_>, name: &str) -> String {
    master(around.netdevs, name).unwrap_or(name).to_owned()
}

/// The bond that a netdev is a member of.
fn master<'a>(netdevs: &'a [Netdev], name: &str) -> Option<&'a str> {
    let master = find(netdevs, find(netdevs, name)?.master.as_deref()?)?;
    (master.kind.as_deref() == Some("bond")).then_some(master.name.as_str())
}

fn find<'a>(netdevs: &'a [Netdev], name: &str) -> Option<&'a Netdev> {
    netdevs.iter().find(|netdev| netdev.name == name)
}
