//! Rules that compare the rails of one host with each other: RDC22x. Settings of PCIe, quality of service and counters
//! are compared in their own families.

use std::fmt::Display;

use super::rails::{At, tie, unlike};
use super::{Case, Rule, Sheet, port_name};
use crate::finding::Severity;
use crate::host::{Hca, Transport};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC220",
        severity: Severity::Warning,
        title: "A rail's MTU is unlike the others'",
        why: "RoCE takes the largest path MTU (256 to 4096 bytes) that fits into the netdev's: a rail at 1500 sends four \
              times the packets, and ends that differ waste bandwidth or fail.",
        cure: "ip link set dev NETDEV mtu MTU, also in the network configuration and on the switch",
        judge: mtu,
    },
    Rule {
        code: "RDC221",
        severity: Severity::Warning,
        title: "A rail's firmware is unlike the others'",
        why: "Cards of one kind with unlike firmware behave unlike: congestion control, adaptive routing, known faults.",
        cure: "burn the version of the other rails and reset the card in a maintenance window",
        judge: firmware,
    },
    Rule {
        code: "RDC222",
        severity: Severity::Warning,
        title: "A rail is slower than the others",
        why: "A collective runs at the speed of its slowest rail.",
        cure: "look at cable, transceiver and the switch port's speed",
        judge: rate,
    },
    Rule {
        code: "RDC223",
        severity: Severity::Note,
        title: "A RoCE port's path MTU is below 4096",
        why: "The netdev's MTU leaves no room for more: smaller packets cost some bandwidth and message rate (about 5 % at \
              1024). Both ends and all switches have to be equal.",
        cure: "where the network carries jumbo frames: ip link set dev NETDEV mtu 4200 or more, on switch and peers as well",
        judge: path_mtu,
    },
    Rule {
        code: "RDC224",
        severity: Severity::Note,
        title: "InfiniBand rails lie in unlike subnets",
        why: "Ports with unlike subnet prefixes reach each other only by a router, if at all: a job that takes every HCA \
              fails for some pairs.",
        cure: "test and group HCAs by subnet; give jobs those of one subnet",
        judge: subnets,
    },
];

fn mtu(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let of = |(_, port): &At<'_>| match port.transport {
            Transport::Roce if port.state.as_deref() == Some("ACTIVE") => {
                Some((port.netdev.clone()?, port.netdev_mtu?))
            }
            _ => None,
        };
        report(sheet, "MTU ", "", &ports.iter().filter_map(of).collect::<Vec<_>>());
    }
}

fn firmware(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let of = |hca: &Hca| Some((hca.name.to_string(), hca.fw_version.clone()?));
        report(sheet, "firmware ", "", &each_hca(ports).into_iter().filter_map(of).collect::<Vec<_>>());
    }
}

fn rate(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let active = ports.iter().filter(|(_, port)| port.state.as_deref() == Some("ACTIVE"));
        let rates: Vec<(String, u64)> = active
            .filter_map(|(hca, port)| Some((port_name(hca, port), (port.rate_gbps? * 10.0) as u64)))
            .collect();
        let most = rates.iter().map(|(_, rate)| *rate).max().unwrap_or(0);
        // Ports without a cable of the full rate all alike are no odd ones.
        if unlike(&rates).is_none() {
            continue;
        }
        let text = |tenths: u64| format!("{} Gb/s", tenths as f64 / 10.0);
        for (name, rate) in rates.iter().filter(|(_, rate)| *rate < most) {
            sheet.find(name, text(*rate), format!("{} as the other rails", text(most)));
        }
    }
}

fn path_mtu(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Roce) {
        let Some(active) = port.active_mtu.filter(|mtu| *mtu < 4096) else { continue };
        let netdev = port.netdev.as_deref().unwrap_or("its netdev");
        let mtu = port.netdev_mtu.map_or_else(String::new, |mtu| format!(" ({netdev} has {mtu})"));
        sheet.find(
            port_name(hca, port),
            format!("{active} bytes{mtu}"),
            "4096 bytes, which an MTU of 4200 carries",
        );
    }
}

fn subnets(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let infiniband = case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Infiniband);
    let prefixes: Vec<(String, String)> = infiniband
        .filter(|(_, port)| port.state.as_deref() == Some("ACTIVE"))
        .filter_map(|(hca, port)| {
            let gid = port.gids.first()?.gid.to_string();
            Some((port_name(hca, port), gid.get(..19)?.to_owned()))
        })
        .collect();
    let mut distinct: Vec<&str> = prefixes.iter().map(|(_, prefix)| prefix.as_str()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() > 1 {
        let of = |prefix: &str| {
            let ports: Vec<&str> =
                prefixes.iter().filter(|(_, p)| p == prefix).map(|(name, _)| name.as_str()).collect();
            format!("{prefix} {}", ports.join(", "))
        };
        let seen: Vec<String> = distinct.into_iter().map(of).collect();
        sheet.find("host", seen.join("; "), "one subnet prefix on ports that talk to each other");
    }
}

/// Writes a finding for each odd one, or one for all where no value leads.
pub(super) fn report<V: Ord + Clone + Display>(
    sheet: &mut Sheet<'_>,
    what: &str,
    unit: &str,
    values: &[(String, V)],
) {
    if let Some(found) = unlike(values) {
        for (subject, value) in found.odd {
            sheet.find(
                subject,
                format!("{what}{value}{unit}"),
                format!("{}{unit} as the other rails", found.usual),
            );
        }
    } else if let Some(seen) = tie(values) {
        // Two ports of a card may well serve two networks.
        sheet.find("host", format!("{what}differs: {seen}"), "the same on all rails").severity =
            Severity::Note;
    }
}

/// The HCAs of ports, each once.
pub(super) fn each_hca<'a>(ports: &[At<'a>]) -> Vec<&'a Hca> {
    let mut hcas: Vec<&Hca> = ports.iter().map(|(hca, _)| *hca).collect();
    hcas.dedup_by(|a, b| a.name == b.name);
    hcas
}
