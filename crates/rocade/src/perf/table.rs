//! A result for people: one row a size, then what else is to be known of it.

use std::fmt::Write;

use rocade_core::pair::perf::{Bandwidth, Latency, Measure, PerfResult, SizeResult};

use super::size::size_in_words;
use crate::columns::lay_out;

/// Rows and remarks.
pub(crate) fn render_result(result: &PerfResult) -> String {
    let options = &result.options;
    let bandwidth = options.test.measure == Measure::Bandwidth;
    let heading: &[&str] = if bandwidth { &BANDWIDTH } else { &LATENCY };
    let mut rows = vec![heading.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()];
    rows.extend(result.results.iter().filter_map(|size| match (&size.bandwidth, &size.latency) {
        (Some(bandwidth), _) => Some(bandwidth_row(size, bandwidth)),
        (None, Some(latency)) => Some(latency_row(size, latency)),
        (None, None) => None,
    }));
    let heading = render_heading(result);
    if rows.len() == 1 {
        return format!(
            "{heading}the other end measured; this one has no figures\n{}",
            render_remarks(result)
        );
    }
    heading + &lay_out(&rows) + &render_remarks(result)
}

/// As `write-bw with perftest 6.06: 2 QPs, both directions, path MTU 1024 bytes`.
fn render_heading(result: &PerfResult) -> String {
    let PerfResult { options, peer, path_mtu_bytes, .. } = result;
    let qps = if options.qps == 1 { "1 QP".to_owned() } else { format!("{} QPs", options.qps) };
    let directions = if options.bidirectional { ", both directions" } else { "" };
    format!("{} with {peer}: {qps}{directions}, path MTU {path_mtu_bytes} bytes\n", options.test)
}

/// The best size in one line, as `write-bw with perftest 6.06 over rxe0/1: 92.50 Gbit/s at 64K`, and whether no fabric was
/// in between.
pub(crate) fn render_line(result: &PerfResult) -> String {
    let best = render_best(result);
    result.loopback.as_ref().map_or(best.clone(), |loopback| format!("{best} ({loopback})"))
}

fn render_best(result: &PerfResult) -> String {
    let over = format!("{}/{}", result.choice.hca, result.choice.port);
    let start = format!("{} with {} over {over}", result.options.test, result.peer);
    let bandwidth = |size: &SizeResult| Some((size.bandwidth.as_ref()?.average_gbps, size.message_bytes));
    let latency = |size: &SizeResult| Some((size.latency.as_ref()?.p50_us, size.message_bytes));
    let fastest = result.results.iter().filter_map(bandwidth).max_by(|a, b| a.0.total_cmp(&b.0));
    let shortest = result.results.iter().filter_map(latency).min_by(|a, b| a.0.total_cmp(&b.0));
    match (fastest, shortest) {
        (Some((gbps, bytes)), _) => format!("{start}: {} Gbit/s at {}", figure(gbps), size_in_words(bytes)),
        (None, Some((us, bytes))) => format!("{start}: {} us at {}", figure(us), size_in_words(bytes)),
        (None, None) => format!("{start}: done, the client has the figures"),
    }
}

const BANDWIDTH: [&str; 7] =
    ["BYTES", "MESSAGES", "AVERAGE Gbit/s", "PEAK Gbit/s", "MESSAGES/s", "MIN–MAX Gbit/s", "OF INTERVALS"];
const LATENCY: [&str; 11] = [
    "BYTES",
    "MESSAGES",
    "MIN us",
    "P50 us",
    "AVERAGE us",
    "P90 us",
    "P99 us",
    "P99.9 us",
    "P99.99 us",
    "MAX us",
    "STDEV us",
];

fn bandwidth_row(size: &SizeResult, found: &Bandwidth) -> Vec<String> {
    let none = || "-".to_owned();
    let (range, of) = match &found.intervals {
        Some(all) => (
            format!("{}–{}", figure(all.min_gbps), figure(all.max_gbps)),
            format!("{} of {:.2} s", all.count, all.seconds),
        ),
        None => (none(), none()),
    };
    vec![
        size_in_words(size.message_bytes),
        size.messages.to_string(),
        figure(found.average_gbps),
        found.peak_gbps.map_or_else(none, figure),
        format!("{:.0}", found.messages_per_second),
        range,
        of,
    ]
}

fn latency_row(size: &SizeResult, found: &Latency) -> Vec<String> {
    let figures = [
        found.min_us,
        found.p50_us,
        found.average_us,
        found.p90_us,
        found.p99_us,
        found.p99_9_us,
        found.p99_99_us,
        found.max_us,
        found.stdev_us,
    ];
    let words = [size_in_words(size.message_bytes), size.messages.to_string()];
    words.into_iter().chain(figures.map(figure)).collect()
}

/// Two decimals, or as many as make three digits that say something.
fn figure(number: f64) -> String {
    match number.abs() {
        small if small > 0.0 && small < 0.1 => format!("{number:.6}"),
        _ => format!("{number:.2}"),
    }
}

fn render_remarks(result: &PerfResult) -> String {
    let mut text = String::new();
    if let Some(seed) = result.options.data_seed {
        let _ = writeln!(text, "every byte compared with the pattern of seed {seed}: all as sent");
    }
    if let Some(loopback) = &result.loopback {
        let _ = writeln!(text, "{loopback}");
    }
    if let Some(cpus) = &result.cpus {
        let _ = writeln!(text, "ran on CPUs {cpus}");
    }
    if !result.counters.is_empty() {
        let grown: Vec<String> =
            result.counters.iter().map(|(name, grown)| format!("{name} +{grown}")).collect();
        let _ =
            writeln!(text, "counters of {}/{}: {}", result.choice.hca, result.choice.port, grown.join(", "));
    }
    if let Some(verdict) = &result.verdict {
        let _ = writeln!(text, "{}", verdict.line());
        for warning in &verdict.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rocade_core::PortNum;
    use rocade_core::gid::Choice;
    use rocade_core::pair::Role;
    use rocade_core::pair::perf::expect::Verdict;
    use rocade_core::pair::perf::{Intervals, Operation, Options, Test};

    use super::*;

    fn result(measure: Measure, results: Vec<SizeResult>) -> PerfResult {
        PerfResult {
            role: Role::Client,
            options: Options::stock(Test { operation: Operation::Write, measure }),
            choice: Choice {
                hca: "rxe0".parse().unwrap(),
                port: PortNum(1),
                gid: None,
                reason: "asked for".into(),
                warnings: vec![],
            },
            remote: None,
            remote_gid: None,
            peer: "perftest 6.06".into(),
            path_mtu_bytes: 1024,
            loopback: Some("loopback, not fabric: both ends are on rxe0".into()),
            cpus: Some("0-3,8".into()),
            results,
            counters: BTreeMap::from([("sent_pkts".to_owned(), 320_000)]),
            verdict: Some(Verdict {
                pass: false,
                reason: "1.00 Gbit/s at 65536 bytes, 9.00 Gbit/s wanted".into(),
                warnings: vec!["not compared: 2 bytes (in the earlier result alone)".into()],
            }),
        }
    }

    fn size(bandwidth: Option<Bandwidth>, latency: Option<Latency>) -> SizeResult {
        SizeResult { message_bytes: 65536, messages: 5000, seconds: 1.0, bandwidth, latency }
    }

    const SLOW: Bandwidth =
        Bandwidth { average_gbps: 0.0407, peak_gbps: None, messages_per_second: 77.6, intervals: None };

    #[test]
    fn a_bandwidth_table_has_a_row_a_size_and_its_remarks() {
        let intervals =
            Some(Intervals { seconds: 0.5, count: 9, min_gbps: 0.9, average_gbps: 1.0, max_gbps: 1.1 });
        let fast =
            Bandwidth { average_gbps: 1.0, peak_gbps: Some(1.25), messages_per_second: 1907.35, intervals };
        let text =
            render_result(&result(Measure::Bandwidth, vec![size(Some(fast), None), size(Some(SLOW), None)]));
        assert_eq!(
            text,
            "write-bw with perftest 6.06: 1 QP, path MTU 1024 bytes\n\
             BYTES  MESSAGES  AVERAGE Gbit/s  PEAK Gbit/s  MESSAGES/s  MIN–MAX Gbit/s  OF INTERVALS\n\
             64K    5000      1.00            1.25         1907        0.90–1.10       9 of 0.50 s\n\
             64K    5000      0.040700        -            78          -               -\n\
             loopback, not fabric: both ends are on rxe0\n\
             ran on CPUs 0-3,8\n\
             counters of rxe0/1: sent_pkts +320000\n\
             FAIL: 1.00 Gbit/s at 65536 bytes, 9.00 Gbit/s wanted\n\
             warning: not compared: 2 bytes (in the earlier result alone)\n"
        );
    }

    #[test]
    fn a_latency_table_has_percentiles() {
        let latency = Latency {
            min_us: 1.87,
            average_us: 1.97,
            stdev_us: 0.3,
            p50_us: 1.93,
            p90_us: 2.0,
            p99_us: 2.31,
            p99_9_us: 4.0,
            p99_99_us: 12.5,
            max_us: 13.0,
            stock: None,
        };
        let text = render_result(&result(Measure::Latency, vec![size(None, Some(latency))]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["64K", "5000", "1.87", "1.93", "1.97", "2.00", "2.31", "4.00", "12.50", "13.00", "0.30"]
        );
        assert!(lines[1].contains("P99.9 us") && lines[1].ends_with("STDEV us"), "{text}");
    }

    #[test]
    fn a_line_tells_the_best_size() {
        let fast =
            SizeResult { message_bytes: 4096, ..size(Some(Bandwidth { average_gbps: 1.5, ..SLOW }), None) };
        let line = render_line(&result(Measure::Bandwidth, vec![size(Some(SLOW), None), fast]));
        let best = "write-bw with perftest 6.06 over rxe0/1: 1.50 Gbit/s at 4K";
        assert_eq!(line, format!("{best} (loopback, not fabric: both ends are on rxe0)"));
        let apart = PerfResult { loopback: None, ..result(Measure::Bandwidth, vec![]) };
        let line = render_line(&apart);
        assert!(line.ends_with(": done, the client has the figures"), "{line}");
    }

    #[test]
    fn an_end_without_figures_says_so() {
        let text = render_result(&result(Measure::Bandwidth, vec![size(None, None)]));
        assert!(text.contains("bytes\nthe other end measured; this one has no figures\n"), "{text}");
    }

    #[test]
    fn a_result_comes_back_from_its_json() {
        let whole = result(Measure::Bandwidth, vec![size(Some(SLOW), None)]);
        let text = serde_json::to_string_pretty(&whole).unwrap();
        assert_eq!(serde_json::from_str::<PerfResult>(&text).unwrap(), whole);
        for unit in ["\"average_gbps\"", "\"message_bytes\"", "\"path_mtu_bytes\"", "\"seconds\""] {
            assert!(text.contains(unit), "{unit} is not in {text}");
        }
    }
}
