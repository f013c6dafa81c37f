//! What was expected of a test, and whether it came: a verdict in one line. Of several sizes the best counts, because
//! none but the best is limited by the fabric alone.

use serde::{Deserialize, Serialize};

use super::{Measure, Operation, PerfResult, SizeResult};
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
}

impl Verdict {
    /// As `PASS: …`.
    pub fn line(&self) -> String {
        format!("{}: {}", if self.pass { "PASS" } else { "FAIL" }, self.reason)
    }
}

fn verdict(pass: bool, reason: String) -> Verdict {
    Verdict { pass, reason }
}

/// Something was expected that the test does not measure.
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
    let pass = verdicts.iter().all(|verdict| verdict.pass);
    let reasons = verdicts.into_iter().filter(|verdict| pass || !verdict.pass).map(|verdict| verdict.reason);
    let reason = reasons.collect::<Vec<_>>().join("; ");
    (!expected.is_empty()).then_some(Verdict { pass, reason })
}

fn judge_one(result: &PerfResult, expected: &Expected, port_gbps: Option<f64>) -> Verdict {
    match expected {
        Expected::Gbps(wanted) => judge_gbps(result, *wanted, &format!("{wanted:.2} Gbit/s wanted")),
        Expected::RateShare(share) => match port_gbps {
            Some(rate) => {
                let wanted = format!("{} % of the port's {rate} Gbit/s wanted", share * 100.0);
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

/// Every size of both results; the worst in relation to what was wanted makes the line.
fn judge_from(result: &PerfResult, earlier: &PerfResult, within: f64) -> Verdict {
    let pairs = result.results.iter().filter_map(|now| {
        let then = earlier.results.iter().find(|then| then.message_bytes == now.message_bytes)?;
        match (average(now), average(then)) {
            (Some(now_gbps), Some(then_gbps)) => {
                let wanted = then_gbps * within;
                let words = format!(
                    "{now_gbps:.2} Gbit/s at {} bytes, {wanted:.2} wanted ({} % of {then_gbps:.2})",
                    now.message_bytes,
                    within * 100.0
                );
                Some((now_gbps / wanted, words))
            }
            _ => {
                let (now_us, then_us) = (now.latency.as_ref()?.p50_us, then.latency.as_ref()?.p50_us);
                let wanted = then_us / within;
                let words = format!(
                    "{now_us:.2} us at {} bytes, {wanted:.2} wanted ({then_us:.2} at {} %)",
                    now.message_bytes,
                    within * 100.0
                );
                Some((wanted / now_us, words))
            }
        }
    });
    match pairs.filter(|(ratio, _)| ratio.is_finite()).min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((ratio, words)) => verdict(ratio >= 1.0, words),
        None => verdict(false, "no size is in both this result and the earlier one".into()),
    }
}

#[cfg(test)]
mod tests;
