//! Rules about quality of service on RoCE rails: RDC31x. Which priority RoCE's packets take follows from their DSCP and
//! the mapping of the port.

use super::compare::report;
use super::rails::{At, unlike};
use super::{Case, Rule, Sheet, port_name};
use crate::finding::Severity;
use crate::host::{Dcb, Host, Netdev, Port, Transport};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC310",
        severity: Severity::Warning,
        title: "PFC does not cover the priority of RoCE's packets",
        why: "The rail is lossless on one priority, and its traffic is on another: under load packets are dropped.",
        cure: "switch PFC on for that priority alone, on host and switch: `mlnx_qos -i NETDEV --pfc 0,0,0,1,0,0,0,0`, or \
               `dcb pfc set dev NETDEV prio-pfc all:off 3:on`",
        judge: pfc,
    },
    Rule {
        code: "RDC311",
        severity: Severity::Warning,
        title: "ECN is off on the priority of RoCE's packets",
        why: "Congestion control (DCQCN) needs both roles: the notification point at the receiver, the reaction point at \
              the sender. Without it PFC alone stops whole paths.",
        cure: "echo 1 > /sys/class/net/NETDEV/ecn/roce_np/enable/PRIORITY, the same in roce_rp",
        judge: ecn,
    },
    Rule {
        code: "RDC312",
        severity: Severity::Warning,
        title: "A rail does not trust DSCP as the others do",
        why: "With trust pcp the DSCP of RoCE v2 packets chooses no priority, and untagged packets all take priority 0.",
        cure: "mlnx_qos -i NETDEV --trust dscp, or `dcb app add dev NETDEV dscp-prio DSCP:PRIORITY`",
        judge: trust,
    },
    Rule {
        code: "RDC313",
        severity: Severity::Warning,
        title: "rdma_cm takes RoCE v1 by default",
        why: "Connections by rdma_cm then use RoCE v1, which is not routed and which the other end may not take.",
        cure: "cma_roce_mode -d HCA -p PORT -m 2, at each boot",
        judge: cm_mode,
    },
    Rule {
        code: "RDC314",
        severity: Severity::Warning,
        title: "A rail's traffic class is unlike the others'",
        why: "Its packets take another priority through the network than those of the other rails.",
        cure: "echo TCLASS > /sys/class/infiniband/HCA/tc/1/traffic_class, and cma_roce_tos -d HCA -t TCLASS",
        judge: traffic_class,
    },
    Rule {
        code: "RDC315",
        severity: Severity::Note,
        title: "Congestion notifications carry another DSCP than 48",
        why: "Switches put DSCP 48 before all else by convention: notifications in a crowded queue come too late.",
        cure: "echo 48 > /sys/class/net/NETDEV/ecn/roce_np/cnp_dscp, or configure the switches alike",
        judge: cnp_dscp,
    },
    Rule {
        code: "RDC316",
        severity: Severity::Note,
        title: "A rail has no lossless priority, or several",
        why: "One lossless priority, the same on host and switch, is what RoCE is usually run on. None works where the \
              adapter repeats selectively; several share the buffers.",
        cure: "decide for one priority, often 3",
        judge: lossless_count,
    },
];

/// What a rail's port marks its packets with, and what its interface makes of it.
struct Marking<'a> {
    netdev: &'a Netdev,
    class: u8,
    dscp: u8,
    priority: u8,
}

fn pfc(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in roce(case) {
        if port.traffic_class.or(port.cm_default_tos).is_none() {
            continue;
        }
        let markings = markings(case.host, port);
        if markings.is_empty() {
            sheet.unjudged(
                port_name(hca, port),
                "the priority of its DSCP could not be read (DCB, or qos of the vendor's driver package)",
            );
        }
        for Marking { netdev, class, dscp, priority } in markings {
            let Some(lossless) = netdev.dcb.as_ref().and_then(|dcb| dcb.pfc_priorities.as_ref()) else {
                sheet.unjudged(&netdev.name, "PFC could not be read (DCB netlink)");
                continue;
            };
            if !lossless.is_empty() && !lossless.contains(&priority) {
                let seen = format!(
                    "PFC is on priority {}; traffic class {class} is DSCP {dscp}, priority {priority}",
                    list(lossless)
                );
                sheet.find(&netdev.name, seen, format!("PFC on priority {priority}"));
            }
        }
    }
    for (what, subject, value, usual) in odd_priorities(case, |dcb| dcb.pfc_priorities.clone()) {
        sheet.find(subject, format!("{what} {value}"), format!("{usual} as the other rails"));
    }
}

/// Rails without a known traffic class, whose lossless priorities are unlike the others'.
fn odd_priorities(
    case: &Case<'_>,
    of: impl Fn(&Dcb) -> Option<Vec<u8>>,
) -> Vec<(&'static str, String, String, String)> {
    let mut found = Vec::new();
    for ports in &case.alike {
        let marked = |port: &Port| port.traffic_class.or(port.cm_default_tos).is_some();
        let values: Vec<(String, String)> = ports
            .iter()
            .filter(|(_, port)| port.transport == Transport::Roce && !marked(port))
            .flat_map(|(_, port)| interfaces(case.host, port))
            .filter_map(|netdev| Some((netdev.name.clone(), list(&of(netdev.dcb.as_ref()?)?))))
            .collect();
        if let Some(unlike) = unlike(&values) {
            found.extend(
                unlike
                    .odd
                    .into_iter()
                    .map(|(name, value)| ("PFC is on priority", name, value, unlike.usual.clone())),
            );
        }
    }
    found
}

fn ecn(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let netdevs: Vec<&Netdev> = ports.iter().flat_map(|(_, port)| interfaces(case.host, port)).collect();
        let roles = |netdev: &Netdev| {
            Some((netdev.qos.as_ref()?.ecn_notify.clone()?, netdev.qos.as_ref()?.ecn_react.clone()?))
        };
        // ECN that no rail uses is a choice; one that is off where others have it on is none.
        let used =
            netdevs.iter().filter_map(|n| roles(n)).flat_map(|(notify, react)| [notify, react].concat());
        let mut used: Vec<u8> = used.collect();
        used.sort_unstable();
        used.dedup();
        for (_, port) in ports {
            for netdev in interfaces(case.host, port) {
                let Some((notify, react)) = roles(netdev) else { continue };
                let marked = markings(case.host, port)
                    .iter()
                    .find(|m| m.netdev.name == netdev.name)
                    .map(|m| m.priority);
                let wanted: Vec<u8> = match marked {
                    Some(priority) => vec![priority],
                    None if used.len() == 1 => used.clone(),
                    None => continue,
                };
                for priority in
                    wanted.into_iter().filter(|priority| marked.is_some() || used.contains(priority))
                {
                    let off = match (notify.contains(&priority), react.contains(&priority)) {
                        (true, true) => continue,
                        (false, false) => "both roles (roce_np, roce_rp)",
                        (false, true) => "roce_np",
                        (true, false) => "roce_rp",
                    };
                    sheet.find(
                        &netdev.name,
                        format!("ECN off on priority {priority} for {off}"),
                        "on for both roles",
                    );
                }
            }
        }
    }
}

fn trust(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let netdevs = ports.iter().flat_map(|(_, port)| interfaces(case.host, port));
        let trusts: Vec<(String, String)> =
            netdevs.filter_map(|netdev| Some((netdev.name.clone(), trusted(netdev)?.to_owned()))).collect();
        report(sheet, "trust ", "", &trusts);
    }
}

fn cm_mode(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in roce(case).filter(|(_, port)| port.cm_default_mode.as_deref() == Some("IB/RoCE v1")) {
        sheet.find(port_name(hca, port), "rdma_cm default mode is IB/RoCE v1", "RoCE v2");
    }
}

fn traffic_class(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for ports in &case.alike {
        let of = |(hca, port): &At<'_>| Some((port_name(hca, port), port.traffic_class?));
        report(sheet, "traffic class ", "", &ports.iter().filter_map(of).collect::<Vec<_>>());
        let of = |(hca, port): &At<'_>| Some((port_name(hca, port), port.cm_default_tos?));
        report(sheet, "default type of service ", "", &ports.iter().filter_map(of).collect::<Vec<_>>());
    }
}

fn cnp_dscp(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (_, port) in roce(case) {
        for netdev in interfaces(case.host, port) {
            if let Some(dscp) = netdev.qos.as_ref().and_then(|qos| qos.cnp_dscp).filter(|dscp| *dscp != 48) {
                sheet.find(&netdev.name, format!("CNP DSCP {dscp}"), "48");
            }
        }
    }
}

fn lossless_count(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (_, port) in roce(case) {
        for netdev in interfaces(case.host, port) {
            let Some(lossless) = netdev.dcb.as_ref().and_then(|dcb| dcb.pfc_priorities.as_ref()) else {
                continue;
            };
            if lossless.len() != 1 {
                let seen = if lossless.is_empty() {
                    "PFC is off".into()
                } else {
                    format!("PFC is on priorities {}", list(lossless))
                };
                sheet.find(&netdev.name, seen, "one lossless priority");
            }
        }
    }
}

fn roce<'a>(case: &Case<'a>) -> impl Iterator<Item = At<'a>> {
    case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Roce)
}

/// The physical interfaces of a port: the members of a bond, which have the settings.
pub(super) fn interfaces<'a>(host: &'a Host, port: &'a Port) -> Vec<&'a Netdev> {
    let members = port.bond_members.iter().filter_map(|name| host.netdev(name));
    let own =
        port.netdev.as_deref().filter(|_| port.bond_members.is_empty()).and_then(|name| host.netdev(name));
    members.chain(own).collect()
}

fn markings<'a>(host: &'a Host, port: &'a Port) -> Vec<Marking<'a>> {
    let Some(class) = port.traffic_class.or(port.cm_default_tos) else { return Vec::new() };
    // The upper six bits of the traffic class are the DSCP (RFC 2474).
    let dscp = class >> 2;
    let marking =
        |netdev: &'a Netdev| Some(Marking { netdev, class, dscp, priority: priority_of(netdev, dscp)? });
    interfaces(host, port).into_iter().filter_map(marking).collect()
}

/// The priority that the interface gives to a DSCP; None where DSCP is not trusted or the mapping is not known.
pub(super) fn priority_of(netdev: &Netdev, dscp: u8) -> Option<u8> {
    if trusted(netdev) != Some("dscp") {
        return None;
    }
    let mapped =
        netdev.qos.as_ref().and_then(|qos| qos.dscp_priorities.as_ref()?.get(usize::from(dscp)).copied());
    let app = |dcb: &Dcb| {
        dcb.apps.iter().find(|a| a.selector == 5 && a.protocol == u16::from(dscp)).map(|a| a.priority)
    };
    mapped.or_else(|| netdev.dcb.as_ref().and_then(app))
}

/// `dscp` or `pcp`: any DSCP row in the application table means dscp (net/dcb).
pub(super) fn trusted(netdev: &Netdev) -> Option<&str> {
    if let Some(trust) = netdev.qos.as_ref().and_then(|qos| qos.trust.as_deref()) {
        return Some(trust);
    }
    let dscp = netdev.dcb.as_ref()?.apps.iter().any(|app| app.selector == 5);
    Some(if dscp { "dscp" } else { "pcp" })
}

fn list(priorities: &[u8]) -> String {
    match priorities {
        [] => "none".into(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}
