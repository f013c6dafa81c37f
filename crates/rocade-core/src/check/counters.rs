//! Rules about counters: RDC5xx. With an earlier reading they judge growth, otherwise totals, and those against the
//! other rails: a total says nothing about when.

use super::rails::At;
use super::{Against, Case, Rule, Sheet, port_name, qos};
use crate::finding::Severity;
use crate::host::{Counter, Hca, Port, Transport};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC501",
        severity: Severity::Warning,
        title: "A link went down or was retrained",
        why: "Each loss of the link breaks the connections over it or makes them wait. A link that flaps looks healthy \
              between two flaps.",
        cure: "look at cable, transceiver and switch port; find the times in `dmesg`",
        judge: |case, sheet| judge_kind(case, sheet, &FLAPS),
    },
    Rule {
        code: "RDC502",
        severity: Severity::Warning,
        title: "Packets arrive damaged",
        why: "Bit errors on the way: a bad cable, a dirty or loose connector, a failing transceiver.",
        cure: "reseat, clean or change cable and transceiver; with FEC look at the effective bit error rate (`mlxlink -c`)",
        judge: |case, sheet| judge_kind(case, sheet, &DAMAGE),
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
              (PFC) are counted by the driver alone: `ethtool -S`.",
        cure: "see PCIe width and MaxReadReq of this host where it sends them, the other ends where it receives them; use \
               PFC on one priority instead of pauses of the link",
        judge: pauses,
    },
];

/// Counters that say the same.
struct Kind {
    names: &'static [&'static str],
    /// Totals below this say nothing by themselves; u64::MAX where only growth says anything.
    total: u64,
}

const FLAPS: Kind = Kind { names: &["link_downed", "link_error_recovery"], total: 2 };
const DAMAGE: Kind = Kind {
    names: &[
        "symbol_error",
        "port_rcv_errors",
        "local_link_integrity_errors",
        "excessive_buffer_overrun_errors",
        "port_rcv_remote_physical_errors",
        "rx_icrc_encapsulated",
        "rx_roce_errors",
        "ip4InTruncatedPkts",
    ],
    total: 100,
};
const DROPS: Kind = Kind {
    names: &[
        "port_xmit_discards",
        "rx_roce_discards",
        "tx_roce_discards",
        "rx_drops",
        "ip4InDiscards",
        "ip6InDiscards",
        "oos_drop_count",
        "res_oob_drop_count",
    ],
    total: 100,
};
const LOSS: Kind = Kind {
    names: &[
        "out_of_sequence",
        "packet_seq_err",
        "local_ack_timeout_err",
        "implied_nak_seq_err",
        "roce_adp_retrans",
        "roce_adp_retrans_to",
        "seq_err_naks_rcvd",
        "to_retransmits",
        "tcpRetransSegs",
        "retrans_bytes",
        "retrans_timeout_events",
        "rq_num_oos",
        "sq_num_oos",
        "sq_num_to",
    ],
    total: 100,
};
const BROKEN: Kind = Kind {
    names: &[
        "req_transport_retries_exceeded",
        "req_rnr_retries_exceeded",
        "req_remote_access_errors",
        "resp_remote_access_errors",
        "max_retry_exceeded",
        "retry_exceeded_err",
        "retry_rnr_exceeded_err",
        "unresponsive_remote_events",
        "sq_num_tree",
        "sq_num_rree",
    ],
    total: 1,
};
const SLOW_RECEIVER: Kind =
    Kind { names: &["rnr_nak_retry_err", "out_of_buffer", "rnr_naks_rcvd"], total: 10_000 };
const WAITED: Kind = Kind { names: &["port_xmit_wait"], total: u64::MAX };

/// A port, or a device whose driver keeps counters for all its ports together.
struct Place<'a> {
    name: String,
    counters: Vec<&'a Counter>,
    /// The same at the earlier reading.
    before: &'a [Counter],
    /// Whether totals say something: a port that is not ACTIVE has a finding of its own, which tells how often it went
    /// down.
    up: bool,
    /// The port; None for a device.
    at: Option<At<'a>>,
}

/// A counter of a place, and the same at the earlier reading.
struct Reading<'a> {
    name: &'a str,
    now: u64,
    before: Option<u64>,
    saturated: bool,
}

impl Reading<'_> {
    /// What it grew; all of it after a reset.
    fn growth(&self) -> Option<u64> {
        self.before.map(|before| self.now.checked_sub(before).unwrap_or(self.now))
    }
}

fn judge_kind(case: &Case<'_>, sheet: &mut Sheet<'_>, kind: &Kind) {
    for place in places(case) {
        let readings = readings(&place);
        let of_kind: Vec<&Reading<'_>> =
            readings.iter().filter(|r| kind.names.contains(&r.name) && !r.saturated).collect();
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
    let others = place.at.and_then(|(hca, port)| others(case, hca, port, kind));
    let largest = readings.iter().map(|r| r.now).max().unwrap_or(0);
    let most = others.map_or_else(String::new, |most| format!("; at most {most} on the other rails"));
    let finding = sheet.find(&place.name, format!("{}{most}", totals.join(", ")), "no growth: see --watch");
    // All rails alike: what a long uptime gathers.
    if others.is_some_and(|most| most >= largest / 2) {
        finding.severity = Severity::Note;
    }
}

/// The largest of the same counters on the rails of the same kind; None without others.
fn others(case: &Case<'_>, hca: &Hca, port: &Port, kind: &Kind) -> Option<u64> {
    let is_own = |h: &Hca, p: &Port| h.name == hca.name && p.port == port.port;
    let ports = case.alike.iter().find(|ports| ports.iter().any(|(h, p)| is_own(h, p)))?;
    let others = ports.iter().filter(|(h, p)| !is_own(h, p));
    others.map(|(_, p)| kind.names.iter().filter_map(|name| p.counter(name)?.value).max().unwrap_or(0)).max()
}

fn congestion(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for place in places(case) {
        let readings = readings(&place);
        let of = |name: &str| readings.iter().find(|r| r.name == name).map(|r| r.growth().unwrap_or(r.now));
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
    for place in places(case) {
        let readings = readings(&place);
        let fallen: Vec<String> = readings
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

/// All ports, and the devices with counters of their own that no port has.
fn places<'a>(case: &Case<'a>) -> Vec<Place<'a>> {
    let earlier = |hca: &Hca| case.earlier().and_then(|host| host.hca(hca.name.as_str()));
    let ports = case.ports().map(|(hca, port)| Place {
        name: port_name(hca, port),
        counters: port.counters.iter().collect(),
        before: earlier(hca).and_then(|hca| hca.port(port.port)).map_or(&[], |port| &port.counters),
        up: port.state.as_deref() == Some("ACTIVE"),
        at: Some((hca, port)),
    });
    let own = case.host.hcas.iter().filter(|hca| case.is_own(hca) && !hca.counters.is_empty());
    let devices = own.map(|hca| {
        let on_port =
            |counter: &&Counter| hca.ports.iter().any(|port| port.counter(file_name(counter)).is_some());
        Place {
            name: hca.name.to_string(),
            counters: hca.counters.iter().filter(|counter| !on_port(counter)).collect(),
            before: earlier(hca).map_or(&[], |hca| &hca.counters),
            up: true,
            at: None,
        }
    });
    ports.chain(devices).collect()
}

fn readings<'a>(place: &Place<'a>) -> Vec<Reading<'a>> {
    let all = place.counters.iter().filter_map(|counter| {
        let before = place.before.iter().find(|c| c.file == counter.file).and_then(|c| c.value);
        Some(Reading { name: file_name(counter), now: counter.value?, before, saturated: counter.saturated })
    });
    all.filter(|reading| reading.name != "lifespan").collect()
}

fn file_name(counter: &Counter) -> &str {
    counter.file.rsplit('/').next().unwrap_or(&counter.file)
}

fn since(against: &Against<'_>) -> &'static str {
    if against.earlier.is_some() { "while watched" } else { "since the baseline" }
}
