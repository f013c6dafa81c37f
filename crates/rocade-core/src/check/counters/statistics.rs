//! Rules about what drivers count of the rails' interfaces (`ethtool -S`): RDC513 to RDC519. RDC501 and RDC502 look at
//! these statistics as well.

use super::super::{Case, Rule, Sheet};
use super::kinds::{
    DISCARDS, EMPTY_QUEUES, Kind, OVERSIZED, PAUSE_STORMS, PCIE_ERRORS, PCIE_STALLED, PCIE_STALLS,
    PRIORITY_PAUSES,
};
use super::places::{interfaces, rail_netdevs};
use crate::finding::Severity;

pub(in super::super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC513",
        severity: Severity::Warning,
        title: "A rail's interface discards packets",
        why: "The port had no buffer for them, or could not send them in time. RoCE repeats what was lost and slows down. A \
              priority with PFC should lose nothing: discards there mean that PFC, its buffers or the mapping of the \
              priority are not the same on host and switch.",
        cure: "see that PFC and buffers cover RoCE's priority on host and switch (`mlnx_qos -i NETDEV`, `dcb pfc show`); if \
               they do, look for what makes the host slow: PCIe width, MaxReadReq, NUMA",
        judge: discards,
    },
    Rule {
        code: "RDC514",
        severity: Severity::Note,
        title: "A priority of a rail was paused",
        why: "PFC is meant to do that, so only growth says anything, and only beside bandwidth: received pauses (rx) say that \
              the switch or the other end could not take more, sent ones (tx) that this host could not. Durations are in \
              microseconds.",
        cure: "where bandwidth is missed: follow received pauses to the slow receiver; for sent ones see RDC516, PCIe width \
               and MaxReadReq of this host",
        judge: |case, sheet| judge_statistics(case, sheet, &PRIORITY_PAUSES),
    },
    Rule {
        code: "RDC515",
        severity: Severity::Warning,
        title: "An adapter sent pauses for so long that it counts as a storm",
        why: "An adapter that does not take packets for a long time stops its switch port, and that whole paths. At \
              tx_pause_storm_error_events it gave up pausing, and packets were lost.",
        cure: "find what held the host up then (a stopped virtual machine, a hung GPU or PCIe, a dead process with posted \
               receives); `dmesg` at that time",
        judge: |case, sheet| judge_statistics(case, sheet, &PAUSE_STORMS),
    },
    Rule {
        code: "RDC516",
        severity: Severity::Warning,
        title: "PCIe does not take what an adapter receives",
        why: "The adapter had data for memory and no credit of PCIe: the host is slower than the network. It then pauses or \
              discards. _events are seconds in which it waited for more than 30 % of the time.",
        cure: "see PCIe width and speed, MaxReadReq, relaxed ordering, NUMA and IOMMU (RDC401 to RDC408), and memory \
               bandwidth of that NUMA node",
        judge: stalls,
    },
    Rule {
        code: "RDC517",
        severity: Severity::Warning,
        title: "An adapter's PCIe link has bit errors",
        why: "Each of them makes the link recover. Loading the driver leaves a few behind, so only growth says anything.",
        cure: "reseat the card or try another slot; update firmware of card and server",
        judge: |case, sheet| judge_statistics(case, sheet, &PCIE_ERRORS),
    },
    Rule {
        code: "RDC518",
        severity: Severity::Warning,
        title: "Frames arrive that are longer than this end's MTU",
        why: "They are dropped: the other end has a larger MTU. Connections come up, and large messages never arrive.",
        cure: "ip link set dev NETDEV mtu MTU, the same on both ends and on the switches",
        judge: |case, sheet| judge_statistics(case, sheet, &OVERSIZED),
    },
    Rule {
        code: "RDC519",
        severity: Severity::Note,
        title: "An interface's receive queues were empty",
        why: "The host's own network stack took packets too slowly (TCP, storage, containers). RDMA has queues of its own.",
        cure: "give the interface longer or more queues (`ethtool -G`, `ethtool -L`), and CPUs of its NUMA node",
        judge: |case, sheet| judge_statistics(case, sheet, &EMPTY_QUEUES),
    },
];

/// From here on a second counts as one in which PCIe did not take it (the driver's own limit for its events).
const STALLED_PERCENT: u64 = 30;

fn judge_statistics(case: &Case<'_>, sheet: &mut Sheet<'_>, kind: &Kind) {
    if kind.total == u64::MAX && case.earlier().is_none() {
        return;
    }
    tell_unread(case, sheet);
    super::judge_places(case, sheet, interfaces(case), kind);
}

/// An old recording has none; of one interface the driver may not have answered.
fn tell_unread(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let netdevs = rail_netdevs(case);
    for host in std::iter::once(case.host).chain(case.earlier()) {
        for (_, netdev) in &netdevs {
            let why = |field: &str| {
                host.unknown.get(field).map(|why| format!("driver statistics could not be read ({why})"))
            };
            if let Some(why) = why(&format!("netdevs.{}.statistics", netdev.name)) {
                sheet.unjudged(&netdev.name, why);
            } else if let Some(why) = why("netdevs.statistics") {
                return sheet.unjudged("host", why);
            }
        }
    }
}

fn discards(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    judge_statistics(case, sheet, &DISCARDS);
    for finding in &mut sheet.findings {
        let dcb = case.host.netdev(&finding.subject).and_then(|netdev| netdev.dcb.as_ref());
        let lossless = dcb.and_then(|dcb| dcb.pfc_priorities.as_deref()).unwrap_or_default();
        for priority in lossless {
            if finding.seen.contains(&format!("rx_prio{priority}_")) {
                finding.seen.push_str(&format!("; priority {priority} has PFC and should lose nothing"));
                finding.severity = Severity::Warning;
            }
        }
    }
}

fn stalls(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    judge_statistics(case, sheet, &PCIE_STALLS);
    for (_, netdev) in rail_netdevs(case) {
        let Some(statistics) = &netdev.statistics else { continue };
        let stalled = PCIE_STALLED.iter().filter_map(|name| Some((name, *statistics.get(*name)?)));
        for (name, percent) in stalled.filter(|(_, percent)| *percent >= STALLED_PERCENT) {
            sheet.say(&netdev.name, format!("{name}: {percent} % of the last second"), "0 %");
        }
    }
}
