//! Rules that hold a host against the policy: what its groups expect. Codes lie in the families of what is expected.

use super::rails::is_of_fabric;
use super::{Case, Rule, Sheet, port_name, qos, why};
use crate::finding::Severity;
use crate::host::{Hca, Netdev, Port, Usable};
use crate::policy::{Group, PortExpectation, matches};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC150",
        severity: Severity::Error,
        title: "No group of the policy names this host",
        why: "A policy that expects nothing of a host would pass it, whatever it is like.",
        cure: "name the host under hosts of a group, or choose one with --group",
        judge: no_group,
    },
    Rule {
        code: "RDC151",
        severity: Severity::Error,
        title: "A kernel setting is not the expected one",
        why: "ARP, reverse path and neighbour table settings decide whether several rails work at all.",
        cure: "sysctl -w NAME=VALUE, and the same in /etc/sysctl.d",
        judge: sysctls,
    },
    Rule {
        code: "RDC153",
        severity: Severity::Error,
        title: "The RDMA namespace mode is not the expected one",
        why: "Shared pools need the shared mode, the RDMA CNI of SR-IOV the exclusive one.",
        cure: "`rdma system set netns shared` (or exclusive) while no other namespace holds an HCA, and `options ib_core \
               netns_mode=1` (or 0) in /etc/modprobe.d for the next boot",
        judge: netns_mode,
    },
    Rule {
        code: "RDC154",
        severity: Severity::Error,
        title: "The kernel is not of the expected release",
        why: "Drivers, and what they offer, come with the kernel: one host that differs behaves differently.",
        cure: "boot the expected kernel, or correct the policy",
        judge: kernel,
    },
    Rule {
        code: "RDC250",
        severity: Severity::Error,
        title: "Fewer usable ports than expected",
        why: "Jobs that span all rails fail or run at the speed that is left.",
        cure: "see what is wrong with each named port (`rocade inventory`), or correct count and select in the policy",
        judge: count,
    },
    Rule {
        code: "RDC251",
        severity: Severity::Error,
        title: "A port is slower than expected",
        why: "A collective runs at the speed of its slowest rail.",
        cure: "look at cable, transceiver and the switch port's speed; `mlxlink -d DEVICE` or `ethtool NETDEV` name the lanes",
        judge: rate,
    },
    Rule {
        code: "RDC252",
        severity: Severity::Error,
        title: "A netdev's MTU is not the expected one",
        why: "RoCE takes the largest of 256 to 4096 bytes that fits into the netdev's MTU; unlike ends waste bandwidth or fail.",
        cure: "ip link set dev NETDEV mtu MTU, and the same in the network configuration and on the switch",
        judge: mtu,
    },
    Rule {
        code: "RDC253",
        severity: Severity::Error,
        title: "Firmware is not the expected version",
        why: "Firmware decides congestion control, adaptive routing and known faults; a fleet is comparable only if it is one.",
        cure: "burn the expected firmware and reset the card in a maintenance window, or correct the policy",
        judge: firmware,
    },
    Rule {
        code: "RDC350",
        severity: Severity::Error,
        title: "PFC is not on exactly the expected priorities",
        why: "A rail that is lossless on another priority than its switch drops packets or stops others.",
        cure: "mlnx_qos -i NETDEV --pfc 0,0,0,1,0,0,0,0, or `dcb pfc set dev NETDEV prio-pfc all:off 3:on`",
        judge: pfc,
    },
    Rule {
        code: "RDC351",
        severity: Severity::Error,
        title: "ECN is not on for an expected priority",
        why: "Congestion control needs both roles on each port.",
        cure: "echo 1 > /sys/class/net/NETDEV/ecn/roce_np/enable/PRIORITY, the same in roce_rp",
        judge: ecn,
    },
    Rule {
        code: "RDC352",
        severity: Severity::Error,
        title: "RoCE's packets do not carry the expected DSCP, or DSCP is not trusted",
        why: "The network puts them into another queue than the lossless one.",
        cure: "echo TCLASS > /sys/class/infiniband/HCA/tc/1/traffic_class (four times the DSCP, plus 2 for ECN) and \
               cma_roce_tos alike; mlnx_qos -i NETDEV --trust dscp",
        judge: dscp,
    },
    Rule {
        code: "RDC450",
        severity: Severity::Error,
        title: "MaxReadReq is not the expected one",
        why: "It decides how fast the HCA fetches what it sends.",
        cure: "setpci -s ADDRESS CAP_EXP+8.w=5000:7000 for 4096, and the same at each boot",
        judge: max_read_request,
    },
];

fn no_group(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(policy) = case.against.policy.filter(|policy| !policy.groups.is_empty()) else { return };
    if case.groups.is_empty() {
        let names: Vec<&str> = policy.groups.iter().map(|group| group.name.as_str()).collect();
        let host = case.host.hostname.as_deref().unwrap_or("of unknown name");
        sheet.find("host", format!("{host} is in none of {}", names.join(", ")), "one that names it");
    }
}

fn netns_mode(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for wanted in case.groups.iter().filter_map(|group| group.netns_mode) {
        match case.host.netns_mode {
            None => sheet.unjudged("host", why(&case.host.unknown, "netns_mode")),
            Some(seen) if seen == wanted => {}
            Some(seen) => {
                sheet.find("host", format!("{seen:?}").to_lowercase(), format!("{wanted:?}").to_lowercase());
            }
        }
    }
}

fn sysctls(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (name, wanted) in case.groups.iter().flat_map(|group| &group.sysctls) {
        match case.host.sysctls.get(&name.replace('.', "/")).or_else(|| case.host.sysctls.get(name)) {
            None => sheet.unjudged("host", format!("{name} was not read")),
            Some(seen) if seen == wanted => {}
            Some(seen) => sheet.say("host", format!("{name} {seen}"), wanted.to_string()),
        }
    }
}

fn kernel(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for wanted in case.groups.iter().filter_map(|group| group.kernel.as_deref()) {
        match &case.host.kernel {
            None => sheet.unjudged("host", why(&case.host.unknown, "kernel")),
            Some(seen) if matches(wanted, seen) => {}
            Some(seen) => sheet.say("host", seen.as_str(), wanted),
        }
    }
}

fn count(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (group, expected) in expectations(case) {
        let meant = meant(case, expected);
        let wanted = expected.count.unwrap_or(1);
        let good = meant.iter().filter(|(_, port)| port.usable != Usable::No).count();
        if good >= wanted as usize {
            continue;
        }
        let bad: Vec<String> = meant
            .iter()
            .filter(|(_, port)| port.usable == Usable::No)
            .map(|(hca, port)| format!("{}: {}", port_name(hca, port), port.reason))
            .collect();
        let seen = match (meant.len(), expected.select.is_empty()) {
            (0, false) => format!("no port is meant: {}", expected.select.explain_none(case.host)),
            (0, true) => "no port of a rail".to_owned(),
            _ if bad.is_empty() => format!("{good} usable"),
            _ => format!("{good} usable; {}", bad.join("; ")),
        };
        sheet.find(format!("group {}", group.name), seen, format!("{wanted} usable"));
    }
}

fn rate(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.rate_gbps,
        |wanted, _, hca, port, sheet| {
            let name = port_name(hca, port);
            match port.rate_gbps {
                None => sheet.unjudged(name, why(&port.unknown, "rate_gbps")),
                Some(seen) if seen >= wanted => {}
                Some(seen) => sheet.say(name, format!("{seen} Gb/s"), format!("{wanted} Gb/s")),
            }
        },
    );
}

fn mtu(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.mtu,
        |wanted, _, hca, port, sheet| {
            let name = port.netdev.clone().unwrap_or_else(|| port_name(hca, port));
            match port.netdev_mtu {
                None => sheet.unjudged(name, "its MTU is not known in this network namespace"),
                Some(seen) if seen == wanted => {}
                Some(seen) => sheet.say(name, format!("MTU {seen}"), format!("MTU {wanted}")),
            }
        },
    );
}

fn firmware(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.firmware.as_deref(),
        |wanted, _, hca, _, sheet| match &hca.fw_version {
            None => sheet.unjudged(&hca.name, why(&hca.unknown, "fw_version")),
            Some(seen) if matches(wanted, seen) => {}
            Some(seen) => sheet.say(&hca.name, seen.as_str(), wanted),
        },
    );
}

fn pfc(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.pfc.as_ref(),
        |wanted, case, _, port, sheet| {
            for netdev in qos::interfaces(case.host, port) {
                match netdev.dcb.as_ref().and_then(|dcb| dcb.pfc_priorities.as_ref()) {
                    None => sheet.unjudged(&netdev.name, "PFC could not be read (DCB netlink)"),
                    Some(seen) if alike(seen, wanted) => {}
                    Some(seen) => {
                        sheet.say(&netdev.name, format!("PFC on {seen:?}"), format!("on {wanted:?}"))
                    }
                }
            }
        },
    );
}

fn ecn(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.ecn.as_ref(),
        |wanted, case, _, port, sheet| {
            for netdev in qos::interfaces(case.host, port) {
                let Some((notify, react)) = ecn_of(netdev) else {
                    sheet.unjudged(&netdev.name, "only the vendor's driver package shows ECN");
                    continue;
                };
                for priority in wanted {
                    for (role, on) in [("roce_np", notify), ("roce_rp", react)] {
                        if !on.contains(priority) {
                            sheet.say(
                                &netdev.name,
                                format!("ECN off on priority {priority} for {role}"),
                                "on",
                            );
                        }
                    }
                }
            }
        },
    );
}

fn ecn_of(netdev: &Netdev) -> Option<(&Vec<u8>, &Vec<u8>)> {
    let qos = netdev.qos.as_ref()?;
    Some((qos.ecn_notify.as_ref()?, qos.ecn_react.as_ref()?))
}

fn dscp(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.dscp,
        |wanted, case, hca, port, sheet| {
            match port.traffic_class.or(port.cm_default_tos) {
                None => {
                    sheet.unjudged(port_name(hca, port), "no traffic class is set, programs choose their own")
                }
                // The upper six bits of the traffic class are the DSCP (RFC 2474).
                Some(class) if class >> 2 == wanted => {}
                Some(class) => {
                    let seen = format!("traffic class {class}, DSCP {}", class >> 2);
                    sheet.say(port_name(hca, port), seen, format!("DSCP {wanted}"));
                }
            }
            for netdev in qos::interfaces(case.host, port) {
                match qos::trusted(netdev) {
                    None => sheet.unjudged(&netdev.name, "the trust mode could not be read"),
                    Some("dscp") => {}
                    Some(other) => sheet.say(&netdev.name, format!("trust {other}"), "trust dscp"),
                }
            }
        },
    );
}

fn max_read_request(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    each(
        case,
        sheet,
        |expected| expected.max_read_request,
        |wanted, _, hca, _, sheet| match hca.pcie_settings {
            None => {
                sheet.unjudged(&hca.name, "its PCIe settings could not be read: config space is for root")
            }
            Some(seen) if seen.max_read_request == wanted => {}
            Some(seen) => {
                sheet.say(&hca.name, format!("MaxReadReq {}", seen.max_read_request), wanted.to_string());
            }
        },
    );
}

fn alike(a: &[u8], b: &[u8]) -> bool {
    a.iter().all(|one| b.contains(one)) && b.iter().all(|one| a.contains(one))
}

/// Judges each meant port by one value of each expectation that gives it.
fn each<'a, V: Copy>(
    case: &Case<'a>,
    sheet: &mut Sheet<'_>,
    value: impl Fn(&'a PortExpectation) -> Option<V>,
    judge: impl Fn(V, &Case<'a>, &'a Hca, &'a Port, &mut Sheet<'_>),
) {
    for (_, expected) in expectations(case) {
        let Some(wanted) = value(expected) else { continue };
        for (hca, port) in meant(case, expected) {
            judge(wanted, case, hca, port, sheet);
        }
    }
}

fn expectations<'a>(case: &Case<'a>) -> Vec<(&'a Group, &'a PortExpectation)> {
    case.groups.iter().flat_map(|group| group.ports.iter().map(move |ports| (*group, ports))).collect()
}

fn meant<'a>(case: &Case<'a>, expected: &PortExpectation) -> Vec<(&'a Hca, &'a Port)> {
    if expected.select.is_empty() {
        return case.rails().into_iter().filter(|(hca, _)| is_of_fabric(case.host, hca)).collect();
    }
    case.ports().filter(|(hca, port)| expected.select.means(hca, port)).collect()
}
