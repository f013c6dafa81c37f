//! What was expected of a test, and whether it came: a verdict in one line. Of several sizes the best counts, because
//! none but the best is limited by the fabric alone.

use serde::{Deserialize, Serialize};

use super::{Measure, Operation, Options, PerfResult, SizeResult};
use crate::pair::Role;

/// What is expected.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Average bandwidth of the best size, 10⁹ bit/s.
    Gbps(f64),
    /// The same as a part of the slower port's rate: 0.9 is 90 %.
    RateShare(f64),
    /// Median latency of the best size, µs.
    Us(f64),
    /// Each size that an earlier result has too, as good but for a share: of 0.95 bandwidth × 0.95, median latency
    /// ÷ 0.95.
    From {
        /// The earlier result.
        earlier: Box<PerfResult>,
        /// More than 0.
        within: f64,
    },
}

/// Whether the expected came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether all of it did.
    pub pass: bool,
    /// Figure, what was wanted, and of which size.
    pub reason: String,
    /// Where this test and an earlier one that it was compared with are not alike, and sizes that were not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Verdict {
    /// As `PASS: …`.
    pub fn line(&self) -> String {
        format!("{}: {}", if self.pass { "PASS" } else { "FAIL" }, self.reason)
    }
}

fn verdict(pass: bool, reason: String) -> Verdict {
    Verdict { pass, reason, warnings: vec![] }
}

/// Something was expected that the test does not measure, or that cannot be compared with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongExpectation {
    /// Bandwidth of a latency test, or latency of a bandwidth test.
    #[error("{test} measures no {wanted}")]
    Measure {
        /// The test.
        test: String,
        /// What was expected.
        wanted: &'static str,
    },
    /// The earlier result is of another test.
    #[error("the earlier result is of {earlier}, this test is {test}")]
    Test {
        /// The earlier test.
        earlier: String,
        /// This one.
        test: String,
    },
    /// The earlier result is of a test whose figures are others by nature.
    #[error("the earlier result is of {earlier}, this test of {now}")]
    Unlike {
        /// As `4 QPs`.
        earlier: String,
        /// Of this one.
        now: String,
    },
    /// No size of the test has a figure in the earlier result.
    #[error("the earlier result has figures of other sizes than this test: {}", in_bytes(.earlier))]
    Sizes {
        /// Its sizes, bytes.
        earlier: Vec<u32>,
    },
}

impl Expected {
    /// Whether the test measures what is expected; to be asked before it runs.
    pub fn check(&self, test: super::Test) -> Result<(), WrongExpectation> {
        let bandwidth = test.measure == Measure::Bandwidth;
        match self {
            Expected::Gbps(_) | Expected::RateShare(_) if !bandwidth => {
                Err(WrongExpectation::Measure { test: test.to_string(), wanted: "bandwidth" })
            }
            Expected::Us(_) if bandwidth => {
                Err(WrongExpectation::Measure { test: test.to_string(), wanted: "latency" })
            }
            Expected::From { earlier, .. } if earlier.options.test != test => Err(WrongExpectation::Test {
                earlier: earlier.options.test.to_string(),
                test: test.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether a test of these options can be compared with the earlier result; to be asked before it runs, where this
    /// end alone says what is run.
    pub fn check_alike(&self, options: &Options) -> Result<(), WrongExpectation> {
        let Expected::From { earlier, .. } = self else { return Ok(()) };
        alike(earlier, options)?;
        if options.sizes.each().iter().any(|bytes| figure_at(earlier, *bytes).is_some()) {
            return Ok(());
        }
        let sizes = earlier.results.iter().filter(|size| figure(size).is_some());
        Err(WrongExpectation::Sizes { earlier: sizes.map(|size| size.message_bytes).collect() })
    }
}

/// A sum of both directions is no figure of one, and several QPs reach what one does not.
fn alike(earlier: &PerfResult, options: &Options) -> Result<(), WrongExpectation> {
    let then = &earlier.options;
    let unlike = |earlier: String, now: String| Err(WrongExpectation::Unlike { earlier, now });
    let directions = |both: bool| if both { "both directions" } else { "one direction" }.to_owned();
    let qps = |count: u32| if count == 1 { "1 QP".to_owned() } else { format!("{count} QPs") };
    if then.bidirectional != options.bidirectional {
        return unlike(directions(then.bidirectional), directions(options.bidirectional));
    }
    if then.qps != options.qps {
        return unlike(qps(then.qps), qps(options.qps));
    }
    Ok(())
}

fn in_bytes(sizes: &[u32]) -> String {
    let words: Vec<String> = sizes.iter().map(u32::to_string).collect();
    if words.is_empty() { "none".to_owned() } else { format!("{} bytes", words.join(", ")) }
}

/// The verdict over a result. Without any figure it fails: a test that measured nothing proves nothing. Of an end that a
/// stock tool reads from nothing else can be, and it fails only if figures are expected.
pub fn judge(result: &PerfResult, expected: &[Expected], port_gbps: Option<f64>) -> Option<Verdict> {
    if result.results.is_empty() {
        let test = result.options.test;
        let is_read_from = test.operation == Operation::Read && test.measure == Measure::Latency;
        if is_read_from && result.role == Role::Server && result.remote.is_none() && expected.is_empty() {
            return None;
        }
        return Some(verdict(false, "nothing was measured".into()));
    }
    let verdicts: Vec<Verdict> = expected.iter().map(|one| judge_one(result, one, port_gbps)).collect();
    let warnings = verdicts.iter().flat_map(|verdict| verdict.warnings.clone()).collect();
    let pass = verdicts.iter().all(|verdict| verdict.pass);
    let reasons = verdicts.into_iter().filter(|verdict| pass || !verdict.pass).map(|verdict| verdict.reason);
    let reason = reasons.collect::<Vec<_>>().join("; ");
    (!expected.is_empty()).then_some(Verdict { pass, reason, warnings })
}

fn judge_one(result: &PerfResult, expected: &Expected, port_gbps: Option<f64>) -> Verdict {
    match expected {
        Expected::Gbps(wanted) => judge_gbps(result, *wanted, &format!("{wanted:.2} Gbit/s wanted")),
        Expected::RateShare(share) => match port_gbps {
            Some(rate) => {
                let wanted = format!("{} % of the port's {rate} Gbit/s wanted", percent(*share));
                judge_gbps(result, share * rate, &wanted)
            }
            None => verdict(false, "the rate of the port is not known".into()),
        },
        Expected::Us(wanted) => {
            let best = best(result, |size| Some(-size.latency.as_ref()?.p50_us));
            let Some((bytes, negative)) = best else { return nothing(result) };
            let seen = -negative;
            verdict(seen <= *wanted, format!("{seen:.2} us at {bytes} bytes, {wanted:.2} us wanted (median)"))
        }
        Expected::From { earlier, within } => judge_from(result, earlier, *within),
    }
}

fn judge_gbps(result: &PerfResult, least: f64, wanted: &str) -> Verdict {
    match best(result, average) {
        Some((bytes, seen)) => verdict(seen >= least, format!("{seen:.2} Gbit/s at {bytes} bytes, {wanted}")),
        None => nothing(result),
    }
}

fn average(size: &SizeResult) -> Option<f64> {
    Some(size.bandwidth.as_ref()?.average_gbps)
}

/// The size with the greatest figure.
fn best(result: &PerfResult, figure: impl Fn(&SizeResult) -> Option<f64>) -> Option<(u32, f64)> {
    let figures = result.results.iter().filter_map(|size| Some((size.message_bytes, figure(size)?)));
    figures.filter(|(_, figure)| figure.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn nothing(result: &PerfResult) -> Verdict {
    verdict(false, format!("{} gave no figure to judge", result.options.test))
}

/// What a size is judged by: average bandwidth, or median latency.
fn figure(size: &SizeResult) -> Option<f64> {
    let found = average(size).or_else(|| Some(size.latency.as_ref()?.p50_us));
    found.filter(|figure| figure.is_finite() && *figure > 0.0)
}

fn figure_at(result: &PerfResult, bytes: u32) -> Option<f64> {
    figure(result.results.iter().find(|size| size.message_bytes == bytes)?)
}

/// Every size of both results; the worst in relation to what was wanted makes the line.
fn judge_from(result: &PerfResult, earlier: &PerfResult, within: f64) -> Verdict {
    if let Err(unlike) = alike(earlier, &result.options) {
        return verdict(false, unlike.to_string());
    }
    let mut worst: Option<(f64, String)> = None;
    for now in &result.results {
        let bytes = now.message_bytes;
        let Some(then) = figure_at(earlier, bytes) else { continue };
        let Some(seen) = figure(now) else {
            return verdict(false, format!("no figure at {bytes} bytes, where the earlier result has one"));
        };
        let compared = compare(result.options.test.measure, bytes, seen, then, within);
        if worst.as_ref().is_none_or(|(ratio, _)| compared.0 < *ratio) {
            worst = Some(compared);
        }
    }
    match worst {
        Some((ratio, reason)) => {
            Verdict { pass: ratio >= 1.0, reason, warnings: differences(result, earlier) }
        }
        None => verdict(false, "no size is in both this result and the earlier one".into()),
    }
}

/// Of a part of one, without what its binary form adds.
pub(in crate::pair) fn percent(share: f64) -> f64 {
    (share * 1e5).round() / 1e3
}

/// How good it is in relation to what is wanted, where 1 is enough; in words.
fn compare(measure: Measure, bytes: u32, now: f64, then: f64, within: f64) -> (f64, String) {
    let percent = percent(within);
    match measure {
        Measure::Bandwidth => {
            let wanted = then * within;
            let seen = format!("{now:.2} Gbit/s at {bytes} bytes");
            (now / wanted, format!("{seen}, {wanted:.2} wanted ({percent} % of {then:.2})"))
        }
        Measure::Latency => {
            let wanted = then / within;
            let seen = format!("{now:.2} us at {bytes} bytes");
            (wanted / now, format!("{seen}, {wanted:.2} wanted ({then:.2} at {percent} %)"))
        }
    }
}

/// What two results differ in, if they do, and what that means.
pub(crate) fn differ(earlier: String, now: String, means: &str) -> Option<String> {
    let words = || format!("the earlier result is of {earlier}, this one of {now}: {means}");
    (earlier != now).then(words)
}

/// What a test ran over, for [`differ`].
pub(crate) fn over(loopback: bool) -> String {
    if loopback { "a loopback" } else { "a fabric" }.to_owned()
}

/// What was done with the bytes of its messages.
pub(crate) fn compared(were: bool) -> String {
    format!("messages whose bytes were {}compared", if were { "" } else { "not " })
}

/// What makes the comparison weaker than it looks.
fn differences(result: &PerfResult, earlier: &PerfResult) -> Vec<String> {
    let mtu = |result: &PerfResult| format!("a path MTU of {} bytes", result.path_mtu_bytes);
    let between = |result: &PerfResult| over(result.loopback.is_some());
    let bytes = |result: &PerfResult| compared(result.options.data_seed.is_some());
    let limit = |result: &PerfResult| match result.options.rate_limit_gbps {
        Some(gbps) => format!("a rate limit of {gbps} Gbit/s"),
        None => "no rate limit".to_owned(),
    };
    let mut all: Vec<String> = [
        differ(mtu(earlier), mtu(result), "headers take another share"),
        differ(between(earlier), between(result), "one of them says nothing of a fabric"),
        differ(bytes(earlier), bytes(result), "comparing takes time between messages"),
        differ(limit(earlier), limit(result), "it bounds the figure"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let alone = |of: &PerfResult, other: &PerfResult| -> Vec<u32> {
        let sizes = of.results.iter().map(|size| size.message_bytes);
        sizes.filter(|bytes| figure_at(other, *bytes).is_none()).collect()
    };
    for (sizes, place) in [
        (alone(result, earlier), "not in the earlier result"),
        (alone(earlier, result), "in the earlier result alone"),
    ] {
        if !sizes.is_empty() {
            all.push(format!("not compared: {} ({place})", in_bytes(&sizes)));
        }
    }
    all
}

#[cfg(test)]
mod tests;
