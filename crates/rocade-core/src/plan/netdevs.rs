//! The interfaces by whose names an HCA may be asked for: those of its ports and its parent device, bonds of its ports,
//! their members that are no other HCA's own, and VLAN, macvlan, ipvlan and IPoIB children.

use std::collections::BTreeSet;

use crate::host::{Hca, Host, LinkLayer, Netdev, Port, Relation};

/// Every name that means this HCA.
pub(super) fn of_hca<'h>(host: &'h Host, hca: &'h Hca) -> BTreeSet<&'h str> {
    related(host, hca, own(hca))
}

/// Every name that means this port of the HCA.
pub(super) fn of_port<'h>(host: &'h Host, hca: &'h Hca, port: &'h Port) -> BTreeSet<&'h str> {
    related(host, hca, port_own(port).collect())
}

/// The interfaces of the HCA itself.
pub(super) fn own(hca: &Hca) -> BTreeSet<&str> {
    let ports = hca.ports.iter().flat_map(port_own);
    ports.chain(hca.parent_netdevs.iter().map(String::as_str)).collect()
}

fn port_own(port: &Port) -> impl Iterator<Item = &str> {
    port.netdev.iter().chain(&port.netlink_netdev).map(String::as_str)
}

/// Adds the members of bonds that are named, then all that lies on top. A bond above a name is not added: whether it
/// belongs to the HCA is its port's to say.
fn related<'h>(host: &'h Host, hca: &Hca, mut names: BTreeSet<&'h str>) -> BTreeSet<&'h str> {
    let named_bond =
        |name: &str| names.contains(name) && host.netdev(name).is_some_and(|n| is_kind(n, &["bond"]));
    let member =
        |n: &&Netdev| n.master.as_deref().is_some_and(named_bond) && !is_of_another(host, hca, &n.name);
    let members: Vec<_> = host.netdevs.iter().filter(member).map(|n| n.name.as_str()).collect();
    names.extend(members);
    loop {
        // A VXLAN is not among them: what it sends is encapsulated by the kernel and no RDMA.
        let child = |n: &&Netdev| is_kind(n, &["vlan", "macvlan", "ipvlan", "ipoib"]);
        let on_top = |n: &&Netdev| n.parent.as_deref().is_some_and(|p| names.contains(p));
        let found: Vec<_> =
            host.netdevs.iter().filter(child).filter(on_top).map(|n| n.name.as_str()).collect();
        let before = names.len();
        names.extend(found);
        if names.len() == before {
            return names;
        }
    }
}

/// A LAG's second function has no HCA of its own; a bond over two cards joins interfaces of two HCAs.
fn is_of_another(host: &Host, hca: &Hca, netdev: &str) -> bool {
    host.hcas.iter().any(|h| h.name != hca.name && h.parent_netdevs.iter().any(|n| n == netdev))
}

fn is_kind(netdev: &Netdev, kinds: &[&str]) -> bool {
    netdev.kind.as_deref().is_some_and(|kind| kinds.contains(&kind))
}

/// How wanted interfaces lead to the HCA where they are not its ports' own: `bond0 = mlx5_bond_0 (LAG)`.
pub(super) fn ways(host: &Host, hca: &Hca, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let wanted = of_hca(host, hca).into_iter().filter(|name| is_wanted(name));
    wanted.filter_map(|name| Some(format!("{name} = {} ({})", hca.name, way(host, hca, name)?))).collect()
}

fn way(host: &Host, hca: &Hca, name: &str) -> Option<String> {
    let netdev = host.netdev(name)?;
    let is_lag = hca.companions.iter().any(|companion| companion.relation == Relation::LagMember);
    let through_bond = |bond: &str| match is_lag {
        true => "LAG".to_owned(),
        false => format!("member of {bond}"),
    };
    match netdev.kind.as_deref() {
        Some("bond") => Some(if is_lag { "LAG".to_owned() } else { "a bond over several HCAs".to_owned() }),
        Some(kind) => netdev.parent.as_ref().map(|parent| format!("{kind} on {parent}")),
        None if own(hca).contains(name) => None,
        None => netdev.master.as_deref().map(through_bond),
    }
}

/// The hardware HCA on whose port's interface a software HCA was made: the interface was asked for to get that one.
pub(super) fn hardware_below<'h>(host: &'h Host, hca: &Hca) -> Option<&'h Hca> {
    let netdevs = |h: &Hca| h.ports.iter().filter_map(|p| p.netdev.clone()).collect::<BTreeSet<_>>();
    let own = netdevs(hca);
    let hardware = |h: &&Hca| !h.software && !netdevs(h).is_disjoint(&own);
    if hca.software { host.hcas.iter().find(hardware) } else { None }
}

/// The link types of the HCA's interfaces, and `infiniband` also where there is no IPoIB interface. An Ethernet port
/// without interface has none: its interface is in use in another network namespace.
pub(super) fn link_types(host: &Host, hca: &Hca) -> Vec<String> {
    let named = |link_type: u16| match link_type {
        1 => Some("ether"),
        32 => Some("infiniband"),
        _ => None,
    };
    let netdevs = own(hca).into_iter().filter_map(|name| host.netdev(name));
    let mut types: BTreeSet<_> = netdevs.filter_map(|n| named(n.link_type)).collect();
    if hca.ports.iter().any(|p| p.link_layer == LinkLayer::InfiniBand) {
        types.insert("infiniband");
    }
    types.into_iter().map(str::to_owned).collect()
}
