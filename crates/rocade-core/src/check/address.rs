//! Rules about addresses and routes of hosts with several rails: RDC32x.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::rails::is_of_fabric;
use super::{Case, Rule, Sheet, qos};
use crate::finding::Severity;
use crate::gid::in_subnet;
use crate::host::{Hca, Host, Netdev, Port, Transport};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC320",
        severity: Severity::Warning,
        title: "Strict reverse path filtering on a host with several rails",
        why: "rp_filter 1 drops packets that arrive on another interface than the route back would take: with several rails \
              that is most answers. The value in force is the greater of `all` and the interface's own.",
        cure: "sysctl -w net.ipv4.conf.all.rp_filter=2 (or 0, with 0 on each interface), and the same in /etc/sysctl.d",
        judge: reverse_path,
    },
    Rule {
        code: "RDC321",
        severity: Severity::Warning,
        title: "Several interfaces in one subnet without source routing",
        why: "All traffic leaves by the first interface, and ARP is answered by any: a GID resolves to the wrong rail, \
              connecting works, and then traffic times out.",
        cure: "give each rail a subnet of its own; or a table and a rule for each source (`ip rule add from ADDRESS table \
               N`) with arp_ignore 1 (or 2), arp_announce 2 and rp_filter 2 (or 0)",
        judge: one_subnet,
    },
    Rule {
        code: "RDC322",
        severity: Severity::Warning,
        title: "A rail carries the default route",
        why: "Everything that has no better route shares the rail with RDMA, and a driver reload cuts the host off.",
        cure: "route the host's own traffic over a management interface",
        judge: default_route,
    },
];

fn reverse_path(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let rails = rail_netdevs(case);
    if rails.len() < 2 {
        return;
    }
    let value = |netdev: &&&Netdev| case.host.interface_sysctl(&netdev.name, "rp_filter");
    if rails.iter().all(|netdev| value(&netdev).is_none()) {
        return sheet.unjudged("host", "rp_filter could not be read");
    }
    // A source rule for each address makes the strict filter right.
    let strict: Vec<&str> = rails
        .iter()
        .filter(|netdev| value(netdev) == Some(1) && !has_source_rules(case.host, netdev))
        .map(|netdev| netdev.name.as_str())
        .collect();
    let subject = if strict.len() == rails.len() { "host".to_owned() } else { strict.join(", ") };
    if !strict.is_empty() {
        let seen = format!("rp_filter 1 (strict) on {} of {} rails", strict.len(), rails.len());
        let finding = sheet.find(subject, seen, "2 (loose) or 0");
        if case.host.pod.is_some() {
            finding.cure = IN_POD.into();
        }
    }
}

fn one_subnet(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for netdevs in in_one_subnet(case).into_values().filter(|netdevs| netdevs.len() > 1) {
        let ruled = netdevs.iter().filter(|netdev| has_source_rules(case.host, netdev)).count();
        // One may go without: the main table is its own.
        let routed = ruled + 1 >= netdevs.len();
        let set = |netdev: &Netdev, name, good: &[i64]| {
            case.host.interface_sysctl(&netdev.name, name).is_some_and(|value| good.contains(&value))
        };
        let tuned = netdevs
            .iter()
            .all(|netdev| set(netdev, "arp_ignore", &[1, 2]) && set(netdev, "arp_announce", &[2]));
        if routed && tuned {
            continue;
        }
        let names: Vec<&str> = netdevs.iter().map(|netdev| netdev.name.as_str()).collect();
        let of = |name| {
            let value = netdevs.first().and_then(|netdev| case.host.interface_sysctl(&netdev.name, name));
            value.map_or_else(|| format!("{name} unknown"), |value| format!("{name} {value}"))
        };
        let seen = format!(
            "one subnet, source rules for {ruled} of {}, {}, {}",
            names.len(),
            of("arp_ignore"),
            of("arp_announce")
        );
        let finding =
            sheet.find(names.join(", "), seen, "a subnet for each, or source rules and ARP settings");
        // The rules are what traffic needs; ARP alone is a matter of who answers first.
        if routed {
            finding.severity = Severity::Note;
        }
        if case.host.pod.is_some() {
            finding.cure = IN_POD.into();
        }
    }
}

fn default_route(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if let Some((hca, netdev)) = case.default_route_rail() {
        let which = if case.rails().len() == 1 { "the only rail" } else { "the rail of" };
        let seen = format!("{which} {} carries the default route", hca.name);
        let finding = sheet.find(netdev, seen, "a management interface for it");
        // Where cards of another kind are the fabric, this one may be meant for it.
        if !is_of_fabric(case.host, hca) {
            finding.severity = Severity::Note;
        }
    }
}

/// A Pod's namespace has rules and settings of its own, which come with its networks.
const IN_POD: &str = "a subnet of its own for each rail; or chain `sbr` (a table and a rule for each source) and `tuning` \
                      (sysctl net.ipv4.conf.IFNAME.arp_ignore 1, arp_announce 2, rp_filter 2) in each network attachment";

/// The Pod's own interfaces of RoCE; none with the host's network, whose rules and settings are the host's matter.
fn pod_rails<'a>(case: &Case<'a>) -> Vec<&'a Netdev> {
    let host = case.host;
    let mut rails: Vec<&Netdev> = Vec::new();
    if host.initial_netns == Some(true) {
        return rails;
    }
    let roce = case.ports().filter(|(_, port)| port.transport == Transport::Roce);
    for gid in roce.flat_map(|(_, port)| &port.gids).filter(|gid| host.owns(gid)) {
        let netdev = gid.netdev.as_deref().and_then(|name| host.netdev(name));
        if let Some(netdev) = netdev.filter(|netdev| rails.iter().all(|known| known.name != netdev.name)) {
            rails.push(netdev);
        }
    }
    rails
}

fn rail_netdevs<'a>(case: &Case<'a>) -> Vec<&'a Netdev> {
    if case.host.pod.is_some() {
        return pod_rails(case);
    }
    let roce = case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Roce);
    roce.filter_map(|(_, port)| case.host.netdev(port.netdev.as_deref()?)).collect()
}

/// Interfaces of hardware (and bonds) by IPv4 subnet, where at least one belongs to an RDMA device.
fn in_one_subnet<'a>(case: &Case<'a>) -> BTreeMap<(IpAddr, u8), Vec<&'a Netdev>> {
    let host = case.host;
    let mut subnets: BTreeMap<(IpAddr, u8), Vec<&Netdev>> = BTreeMap::new();
    let hardware =
        |netdev: &&Netdev| netdev.link_type == 1 && (netdev.pci_address.is_some() || netdev.bond.is_some());
    let netdevs = match host.pod {
        Some(_) => pod_rails(case),
        None => host.netdevs.iter().filter(hardware).collect(),
    };
    for netdev in netdevs {
        for (address, prefix) in
            netdev.addresses.iter().filter(|(address, prefix)| address.is_ipv4() && *prefix < 32)
        {
            let known = subnets
                .keys()
                .find(|(other, p)| p == prefix && in_subnet(*address, *other, *prefix))
                .copied();
            let netdevs = subnets.entry(known.unwrap_or((*address, *prefix))).or_default();
            if !netdevs.iter().any(|other| other.name == netdev.name) {
                netdevs.push(netdev);
            }
        }
    }
    if host.pod.is_some() {
        return subnets;
    }
    let rdma = rdma_netdevs(case);
    subnets.retain(|_, netdevs| netdevs.iter().any(|netdev| rdma.contains(&netdev.name.as_str())));
    subnets
}

/// Interfaces of RDMA ports; where a device has none of its own (EFA), all of its driver's cards count.
fn rdma_netdevs<'a>(case: &Case<'a>) -> Vec<&'a str> {
    let ports = case.rails();
    if ports.iter().any(|(_, port)| port.transport == Transport::Efa) {
        return case.host.netdevs.iter().map(|netdev| netdev.name.as_str()).collect();
    }
    ports.iter().filter_map(|(_, port)| port.netdev.as_deref()).collect()
}

/// Whether each IPv4 address of the interface has a rule for it as source.
fn has_source_rules(host: &Host, netdev: &Netdev) -> bool {
    let mut addresses = netdev.addresses.iter().filter(|(address, _)| address.is_ipv4()).peekable();
    let ruled = |address: &IpAddr| {
        host.rules
            .iter()
            .any(|rule| rule.source.is_some_and(|(source, prefix)| in_subnet(*address, source, prefix)))
    };
    addresses.peek().is_some() && addresses.all(|(address, _)| ruled(address))
}

/// The HCA whose interface, or a child or member of it, carries the default route, and that interface.
pub(super) fn default_route_rail<'a>(case: &Case<'a>) -> Option<(&'a Hca, &'a str)> {
    let route = case.host.default_route_netdev.as_deref()?;
    let carries = |port: &Port| {
        port.netdev.as_deref() == Some(route)
            || port.child_netdevs.iter().any(|name| name == route)
            || qos::interfaces(case.host, port).iter().any(|netdev| netdev.name == route)
    };
    case.rails().into_iter().find(|(_, port)| carries(port)).map(|(hca, _)| (hca, route))
}
