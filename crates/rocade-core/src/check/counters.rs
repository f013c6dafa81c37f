//! Rules about counters: RDC5xx; those about the statistics of interfaces are in `statistics`. With an earlier reading they judge growth, otherwise totals, and those against the
//! other rails: a total says nothing about when.

use super::{Against, Case, Rule, Sheet, port_name, qos};
use crate::finding::Severity;
use crate::host::{Counter, Transport};

mod kinds;
mod places;
mod statistics;

use kinds::{BROKEN, DAMAGE, DAMAGED_FRAMES, DROPS, FLAPS, Kind, LINK_LOSSES, LOSS, SLOW_RECEIVER, WAITED};
use places::{Place, Reading, file_name, interfaces, places};
pub(super) use statistics::RULES as OF_INTERFACES;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC501",
        severity: Severity::Warning,
        title: "A link went down or was retrained",
        why: "Each loss of the link breaks the connections over it or makes them wait. A link that flaps looks healthy \
              between two flaps.",
        cure: "look at cable, transceiver and switch port; find the times in `dmesg`",
        judge: |case, sheet| {
            judge_kind(case, sheet, &FLAPS);
            judge_places(case, sheet, interfaces(case), &LINK_LOSSES);
        },
    },
    Rule {
        code: "RDC502",
        severity: Severity::Warning,
        title: "Packets arrive damaged",
        why: "Bit errors on the way: a bad cable, a dirty or loose connector, a failing transceiver.",
        cure: "reseat, clean or change cable and transceiver; with FEC look at the effective bit error rate (`mlxlink -c`)",
        judge: |case, sheet| {
            judge_kind(case, sheet, &DAMAGE);
            judge_places(case, sheet, interfaces(case), &DAMAGED_FRAMES);
        },
    },
    Rule {
        code: "RDC503",
        severity: Severity::Warning,
        title: "Packets are dropped in the adapter",
        why: "The adapter had no room: the host takes packets too slowly, or flow control does not cover RoCE's priority.",
        cure: "see that PFC and buffers cover the priority of RoCE on host and switch, and PCIe width and MaxReadReq",
        judge: |case, sheet| judge_kind(case, sheet, &DROPS),
    },
    Rule {
        code: "RDC504",
        severity: Severity::Warning,
        title: "Packets are lost on the way",
        why: "The sender repeats what was lost, and bandwidth falls. With adaptive routing out_of_sequence alone grows \
              normally; timeouts and sequence errors do not.",
        cure: "see that the path is lossless (PFC, ECN, trust) on every switch; look for a bad link along it",
        judge: |case, sheet| judge_kind(case, sheet, &LOSS),
    },
    Rule {
        code: "RDC505",
        severity: Severity::Warning,
        title: "Connections broke",
        why: "Retries ran out or the other end refused: each of these ended a connection.",
        cure: "see the job's errors; test the pair with `rocade pingpong`, and its path's counters",
        judge: |case, sheet| judge_kind(case, sheet, &BROKEN),
    },
    Rule {
        code: "RDC506",
        severity: Severity::Warning,
        title: "Congestion notifications are not sent or not heeded",
        why: "ECN-marked packets without notifications sent, or notifications ignored: congestion control does not work on \
              this port, and others pay for it.",
        cure: "switch ECN on for RoCE's priority in both roles: ecn/roce_np/enable/N and ecn/roce_rp/enable/N",
        judge: congestion,
    },
    Rule {
        code: "RDC507",
        severity: Severity::Warning,
        title: "A counter stands at its maximum",
        why: "The classic counters do not wrap: the true count is unknown, and growth cannot be seen until they are reset.",
        cure: "reset them: `perfquery -x -r LID PORT` on InfiniBand, otherwise by reloading the driver",
        judge: saturated,
    },
    Rule {
        code: "RDC508",
        severity: Severity::Note,
        title: "A port's counters have no value",
        why: "`N/A (no PMA)` is not zero: the driver has no such counters, and nothing can be told from them.",
        cure: "use the driver's own counters (hw_counters, ethtool -S) where there are any",
        judge: no_value,
    },
    Rule {
        code: "RDC509",
        severity: Severity::Note,
        title: "A counter fell since the earlier reading",
        why: "Counters only grow: they were reset, or the driver was reloaded, so the growth in between is unknown.",
        cure: "compare with a reading after the reset",
        judge: reset,
    },
    Rule {
        code: "RDC510",
        severity: Severity::Note,
        title: "A receiver was not ready",
        why: "The application posted receives too late: the network is not to blame.",
        cure: "look at the application and at what else runs on its CPUs",
        judge: |case, sheet| judge_kind(case, sheet, &SLOW_RECEIVER),
    },
    Rule {
        code: "RDC511",
        severity: Severity::Note,
        title: "A port waited to send",
        why: "It had data and no credit: congestion beyond this port.",
        cure: "look for the slow receiver or the oversubscribed link",
        judge: |case, sheet| judge_kind(case, sheet, &WAITED),
    },
    Rule {
        code: "RDC512",
        severity: Severity::Note,
        title: "A link was paused",
        why: "Pause frames stop the whole link: sent ones say that this host took packets too slowly, received ones that the \
              switch or the other end did. Only growth says anything, so it needs two readings. Pauses of one priority \
              (PFC) have a finding of their own.",
        cure: "see PCIe width and MaxReadReq of this host where it sends them, the other ends where it receives them; use \
               PFC on one priority instead of pauses of the link",
        judge: pauses,
    },
];

fn judge_kind(case: &Case<'_>, sheet: &mut Sheet<'_>, kind: &Kind) {
    judge_places(case, sheet, places(case), kind);
}

fn judge_places(case: &Case<'_>, sheet: &mut Sheet<'_>, places: Vec<Place<'_>>, kind: &Kind) {
    for place in places {
        let of_kind: Vec<&Reading<'_>> =
            place.readings.iter().filter(|r| kind.has(r.name) && !r.saturated).collect();
        if case.earlier().is_some() {
            let grown: Vec<String> = of_kind
                .iter()
                .filter_map(|r| Some((r.name, r.growth().filter(|growth| *growth > 0)?)))
                .map(|(name, growth)| format!("{name} grew by {growth}"))
                .collect();
            if !grown.is_empty() {
                sheet.say(place.name, format!("{} {}", grown.join(", "), since(case.against)), "no growth");
            }
        } else if place.up && of_kind.iter().any(|r| r.now >= kind.total) {
            judge_totals(case, sheet, &place, kind, &of_kind);
        }
    }
}

fn judge_totals(
    case: &Case<'_>,
    sheet: &mut Sheet<'_>,
    place: &Place<'_>,
    kind: &Kind,
    readings: &[&Reading<'_>],
) {
    let totals: Vec<String> =
        readings.iter().filter(|r| r.now > 0).map(|r| format!("{} {}", r.name, r.now)).collect();
    let others = place.others(case, kind);
    let largest = readings.iter().map(|r| r.now).max().unwrap_or(0);
    let most = others.map_or_else(String::new, |most| format!("; at most {most} on the other rails"));
    let finding = sheet.find(&place.name, format!("{}{most}", totals.join(", ")), "no growth: see --watch");
    // All rails alike: what a long uptime gathers.
    if others.is_some_and(|most| most.saturating_mul(2) >= largest) {
        finding.severity = Severity::Note;
    }
}

fn congestion(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for place in places(case) {
        let of =
            |name: &str| place.readings.iter().find(|r| r.name == name).map(|r| r.growth().unwrap_or(r.now));
        if let (Some(marked @ 1..), Some(0)) = (of("np_ecn_marked_roce_packets"), of("np_cnp_sent")) {
            let seen =
                format!("np_ecn_marked_roce_packets {marked}, np_cnp_sent 0: the notification point is off");
            sheet.say(&place.name, seen, "a notification for marked packets");
        }
        if let Some(ignored @ 1..) = of("rp_cnp_ignored") {
            let seen = format!("rp_cnp_ignored {ignored}: the reaction point is off, or of another priority");
            sheet.say(&place.name, seen, "0");
        }
    }
}

/// Counters of traffic: on old cards they have 32 bits and are full within minutes.
const TRAFFIC: &[&str] = &["port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets"];

fn saturated(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports() {
        let full: Vec<&Counter> = port.counters.iter().filter(|counter| counter.saturated).collect();
        let texts: Vec<String> = full
            .iter()
            .filter_map(|counter| Some(format!("{} stands at {}", file_name(counter), counter.value?)))
            .collect();
        if texts.is_empty() {
            continue;
        }
        let seen = format!("{}: saturated, true count unknown", texts.join(", "));
        let finding = sheet.find(port_name(hca, port), seen, "counters below their maximum");
        if full.iter().all(|counter| TRAFFIC.contains(&file_name(counter))) {
            finding.severity = Severity::Note;
        }
    }
}

fn no_value(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports() {
        let Some(text) =
            port.counters.iter().find_map(|c| c.why.as_deref().filter(|why| why.starts_with("N/A")))
        else {
            continue;
        };
        let (all, without) =
            (port.counters.len(), port.counters.iter().filter(|c| c.value.is_none()).count());
        sheet.find(
            port_name(hca, port),
            format!("{without} of {all} counters read `{text}`: no value, not zero"),
            "numbers",
        );
    }
}

fn reset(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for place in places(case).into_iter().chain(interfaces(case)) {
        let fallen: Vec<String> = place
            .readings
            .iter()
            .filter_map(|r| Some((r, r.before.filter(|before| *before > r.now)?)))
            .map(|(r, before)| format!("{} from {before} to {}", r.name, r.now))
            .collect();
        if !fallen.is_empty() {
            let seen = format!("{} {}: reset", fallen.join(", "), since(case.against));
            sheet.say(place.name, seen, "counters that only grow");
        }
    }
}

fn pauses(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(earlier) = case.earlier() else { return };
    let roce: Vec<_> =
        case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Roce).collect();
    let unread = [case.host, earlier].into_iter().find_map(|host| host.unknown.get("netdevs.pauses"));
    if let Some(why) = unread.filter(|_| !roce.is_empty()) {
        return sheet.unjudged("host", format!("pause frames could not be read ({why})"));
    }
    for netdev in roce.iter().flat_map(|(_, port)| qos::interfaces(case.host, port)) {
        let before = earlier.netdev(&netdev.name).and_then(|netdev| netdev.pauses);
        let (Some(now), Some(before)) = (netdev.pauses, before) else { continue };
        let growth =
            |now: Option<u64>, before: Option<u64>| now?.checked_sub(before?).filter(|growth| *growth > 0);
        let sent = growth(now.sent, before.sent).map(|growth| format!("sent {growth}"));
        let received = growth(now.received, before.received).map(|growth| format!("received {growth}"));
        let grown: Vec<String> = sent.into_iter().chain(received).collect();
        if !grown.is_empty() {
            sheet.say(
                &netdev.name,
                format!("pause frames {} {}", grown.join(", "), since(case.against)),
                "none",
            );
        }
    }
}

fn since(against: &Against<'_>) -> &'static str {
    if against.earlier.is_some() { "while watched" } else { "since the baseline" }
}
