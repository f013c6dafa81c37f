//! What belongs together on a host, told from facts that were read one by one: bonds and children of a port's netdev,
//! representors, planes, and HCAs of one card, function or physical port. Reads nothing, judges nothing.

use std::collections::BTreeMap;

use crate::host::{Companion, FunctionKind, Hca, Host, Netdev, Planes, PlanesVerdict, Port, Relation};
use crate::names::{Guid, HcaName, PortNum};

/// ARPHRD_INFINIBAND (include/uapi/linux/if_arp.h).
const IPOIB: u16 = 32;
/// Kinds of interfaces that lie on one other.
const CHILD_KINDS: &[&str] = &["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"];
/// More functions than a card has: a GUID that stands on more tells nothing.
const MOST_PER_CARD: usize = 16;
/// How deep children of children are followed.
const MOST_LEVELS: usize = 8;

/// Fills all of it.
pub fn fill(host: &mut Host) {
    host.representors = host.netdevs.iter().filter(|n| is_representor(n)).map(|n| n.name.clone()).collect();
    for hca in &mut host.hcas {
        for port in &mut hca.ports {
            if let Some(netdev) = port.netdev.as_deref() {
                port.bond_members = members(&host.netdevs, netdev);
                port.child_netdevs = children(&host.netdevs, netdev);
            }
        }
        hca.planes = tell_planes(&host.netdevs, hca);
    }
    let companions: Vec<_> = Groups::of(&host.hcas).all_companions(host);
    for (hca, companions) in host.hcas.iter_mut().zip(companions) {
        hca.companions = companions;
    }
}

/// Whether an interface stands for a VF, an SF or the host's function of a switch: `pf0vf1`, `pf0sf88`, `c1pf0`
/// (Documentation/networking/switchdev.rst). An uplink is called `p0`.
fn is_representor(netdev: &Netdev) -> bool {
    let Some(name) = netdev.port_name.as_deref() else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let function = match name.strip_prefix('c').and_then(|rest| rest.split_once("pf")) {
        Some((controller, function)) if number(controller) => function,
        _ => match name.strip_prefix("pf") {
            Some(function) => function,
            None => return false,
        },
    };
    let split = function.split_once("vf").or_else(|| function.split_once("sf"));
    split.map_or(number(function), |(pf, of)| number(pf) && number(of))
}

/// Interfaces that belong to a bond.
fn members(netdevs: &[Netdev], bond: &str) -> Vec<String> {
    let is_bond = netdevs.iter().any(|n| n.name == bond && n.kind.as_deref() == Some("bond"));
    let members = netdevs.iter().filter(|n| is_bond && n.master.as_deref() == Some(bond));
    members.map(|n| n.name.clone()).collect()
}

/// Interfaces that lie on another, and on these.
fn children(netdevs: &[Netdev], name: &str) -> Vec<String> {
    let is_child =
        |n: &Netdev| n.link_type == IPOIB || n.kind.as_deref().is_some_and(|k| CHILD_KINDS.contains(&k));
    let mut found = Vec::new();
    let mut level = vec![name];
    for _ in 0..MOST_LEVELS {
        let on_level = |n: &&Netdev| n.parent.as_deref().is_some_and(|parent| level.contains(&parent));
        level = netdevs.iter().filter(|n| is_child(n)).filter(on_level).map(|n| n.name.as_str()).collect();
        found.extend(level.iter().map(|name| (*name).to_owned()));
        if level.is_empty() {
            break;
        }
    }
    found
}

/// Ports whose netdevs are uplinks of one switch on different functions share a card's traffic as its planes.
fn tell_planes(netdevs: &[Netdev], hca: &Hca) -> Option<Planes> {
    let uplink = |port: &Port| {
        let netdev = netdevs.iter().find(|n| Some(&n.name) == port.netdev.as_ref())?;
        let is_uplink = netdev.port_name.as_deref()?.strip_prefix('p')?.parse::<u32>().is_ok();
        is_uplink.then_some((netdev.switch_id.clone()?, netdev.pci_address?))
    };
    let mut uplinks: Vec<(PortNum, _)> =
        hca.ports.iter().filter_map(|port| Some((port.port, uplink(port)?))).collect();
    let switch = uplinks.first()?.1.0.clone();
    uplinks.retain(|(_, (id, _))| *id == switch);
    let mut functions: Vec<_> = uplinks.iter().map(|(_, (_, function))| *function).collect();
    functions.sort_unstable();
    functions.dedup();
    if functions.len() < 2 {
        return None;
    }
    let ports: Vec<PortNum> = uplinks.iter().map(|(port, _)| *port).collect();
    let is_up =
        |number: &&PortNum| hca.port(**number).is_some_and(|port| port.state.as_deref() == Some("ACTIVE"));
    let up = ports.iter().filter(is_up).count();
    let verdict = match up {
        0 => PlanesVerdict::Down,
        up if up == ports.len() => PlanesVerdict::Healthy,
        _ => PlanesVerdict::Degraded,
    };
    Some(Planes { ports, up: up as u32, verdict })
}

/// HCAs by what they may share.
struct Groups<'a> {
    by_function: BTreeMap<crate::names::PciAddress, Vec<&'a Hca>>,
    by_slot: BTreeMap<(u32, u8, u8), Vec<&'a Hca>>,
    by_image: BTreeMap<Guid, Vec<&'a Hca>>,
}

impl<'a> Groups<'a> {
    fn of(hcas: &'a [Hca]) -> Self {
        let mut groups =
            Groups { by_function: BTreeMap::new(), by_slot: BTreeMap::new(), by_image: BTreeMap::new() };
        for hca in hcas.iter().filter(|hca| hca.function != Some(FunctionKind::Sf)) {
            if let Some(address) = hca.pci_address {
                groups.by_function.entry(address).or_default().push(hca);
            }
            if hca.function != Some(FunctionKind::Pf) {
                continue;
            }
            if let Some(a) = hca.pci_address {
                groups.by_slot.entry((a.domain, a.bus, a.device)).or_default().push(hca);
            }
            if let Some(image) = hca.sys_image_guid.filter(|guid| guid.0 != 0) {
                groups.by_image.entry(image).or_default().push(hca);
            }
        }
        groups
    }

    fn all_companions(&self, host: &Host) -> Vec<Vec<Companion>> {
        host.hcas.iter().map(|hca| self.companions(host, hca)).collect()
    }

    /// The nearest relation to each other HCA, LAG members first.
    fn companions(&self, host: &Host, hca: &Hca) -> Vec<Companion> {
        let mut found = self.lag_members(host, hca);
        let part_of = |a: &Hca, b: &Hca| a.parent_hca.as_ref() == Some(&b.name);
        for other in host.hcas.iter().filter(|other| part_of(hca, other) || part_of(other, hca)) {
            add(&mut found, Relation::SplitPlane, other);
        }
        let function = hca.pci_address.filter(|_| hca.function != Some(FunctionKind::Sf));
        for other in self.others(hca, function.and_then(|address| self.by_function.get(&address))) {
            let same_node =
                other.node_guid.is_some_and(|guid| guid.0 != 0) && other.node_guid == hca.node_guid;
            let split = same_node && !other.software && !hca.software;
            add(&mut found, if split { Relation::SplitPlane } else { Relation::SameFunction }, other);
        }
        if hca.function == Some(FunctionKind::Pf) {
            let slot = hca.pci_address.and_then(|a| self.by_slot.get(&(a.domain, a.bus, a.device)));
            let image = hca.sys_image_guid.and_then(|guid| self.by_image.get(&guid));
            for other in self.others(hca, slot).chain(self.others(hca, image)) {
                add(&mut found, Relation::SameCard, other);
            }
        }
        found
    }

    /// Members of a bond that have no HCA of their own: the driver made one device of them all. Where each has its own,
    /// the bond spans cards and is none of theirs.
    fn lag_members(&self, host: &Host, hca: &Hca) -> Vec<Companion> {
        let members = hca.ports.iter().flat_map(|port| &port.bond_members);
        let lag_member = |name: &String| {
            let address =
                host.netdev(name)?.pci_address.filter(|address| Some(*address) != hca.pci_address)?;
            let has_own = self.by_function.contains_key(&address);
            (!has_own && hca.pci_address.is_some()).then(|| Companion {
                relation: Relation::LagMember,
                hca: None,
                pci_address: Some(address),
                netdev: Some(name.clone()),
            })
        };
        members.filter_map(lag_member).collect()
    }

    fn others<'b>(
        &self,
        hca: &'b Hca,
        group: Option<&'b Vec<&'a Hca>>,
    ) -> impl Iterator<Item = &'a Hca> + use<'a, 'b> {
        let group = group.filter(|group| group.len() <= MOST_PER_CARD).map(Vec::as_slice).unwrap_or_default();
        group.iter().copied().filter(|other| other.name != hca.name)
    }
}

fn add(found: &mut Vec<Companion>, relation: Relation, other: &Hca) {
    let name: &HcaName = &other.name;
    if !found.iter().any(|companion| companion.hca.as_ref() == Some(name)) {
        found.push(Companion {
            relation,
            hca: Some(name.clone()),
            pci_address: other.pci_address,
            netdev: None,
        });
    }
}

#[cfg(test)]
mod tests;
