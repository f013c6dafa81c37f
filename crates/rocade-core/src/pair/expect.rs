//! Whether a pingpong's round trips were as short as expected: a verdict in one line.

use super::PairResult;
use super::perf::expect::{Verdict, WrongExpectation, compared, differ, over, percent};

/// What is expected.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// Average time of a round trip, µs.
    Us(f64),
    /// As short as in an earlier result, but for a share: of 0.95 its time ÷ 0.95.
    From {
        /// The earlier result.
        earlier: Box<PairResult>,
        /// More than 0.
        within: f64,
    },
}

impl Expected {
    /// Whether messages of that many bytes can be compared with the earlier result's; to be asked before the test.
    pub fn check(&self, message_bytes: u32) -> Result<(), WrongExpectation> {
        match self {
            Expected::From { earlier, .. } if figure(earlier).is_none() => {
                Err(WrongExpectation::Sizes { earlier: vec![] })
            }
            Expected::From { earlier, .. } if earlier.message_bytes != message_bytes => {
                Err(WrongExpectation::Sizes { earlier: vec![earlier.message_bytes] })
            }
            _ => Ok(()),
        }
    }
}

/// The verdict over a result; None where nothing was expected.
pub fn judge(result: &PairResult, expected: &[Expected]) -> Option<Verdict> {
    let Some(seen) = figure(result) else {
        let reason = "pingpong gave no figure to judge".to_owned();
        return (!expected.is_empty()).then_some(Verdict { pass: false, reason, warnings: vec![] });
    };
    let verdicts: Vec<(bool, String)> = expected.iter().map(|one| judge_one(seen, one)).collect();
    let pass = verdicts.iter().all(|(pass, _)| *pass);
    let reasons = verdicts.into_iter().filter(|(passed, _)| pass || !passed).map(|(_, reason)| reason);
    let (reason, warnings) = (reasons.collect::<Vec<_>>().join("; "), differences(result, expected));
    (!expected.is_empty()).then_some(Verdict { pass, reason, warnings })
}

fn judge_one(seen: f64, expected: &Expected) -> (bool, String) {
    let (most, of) = match expected {
        Expected::Us(most) => (*most, String::new()),
        Expected::From { earlier, within } => {
            let then = earlier.usec_per_iteration;
            (then / within, format!(" ({then:.2} at {} %)", percent(*within)))
        }
    };
    (seen <= most, format!("{seen:.2} us a round trip, {most:.2} us wanted{of}"))
}

fn figure(result: &PairResult) -> Option<f64> {
    Some(result.usec_per_iteration).filter(|us| us.is_finite() && *us > 0.0)
}

/// What makes a comparison weaker than it looks.
fn differences(result: &PairResult, expected: &[Expected]) -> Vec<String> {
    let earlier = expected.iter().find_map(|one| match one {
        Expected::From { earlier, .. } => Some(earlier),
        Expected::Us(_) => None,
    });
    let Some(earlier) = earlier else { return vec![] };
    let mtu = |result: &PairResult| format!("a path MTU of {} bytes", result.mtu_bytes);
    let between = |result: &PairResult| over(result.loopback.is_some());
    let bytes = |result: &PairResult| compared(result.data_checked);
    let all = [
        differ(mtu(earlier), mtu(result), "messages are of another number of packets"),
        differ(between(earlier), between(result), "one of them says nothing of a fabric"),
        differ(bytes(earlier), bytes(result), "comparing takes time between messages"),
    ];
    all.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gid::Choice;
    use crate::names::{Gid, PortNum};
    use crate::pair::{Endpoint, Role};

    fn result(usec_per_iteration: f64) -> PairResult {
        let endpoint = Endpoint { lid: 0, qpn: 17, psn: 1, gid: Gid([0; 16]) };
        PairResult {
            test: "pingpong".into(),
            role: Role::Client,
            choice: Choice {
                hca: "mlx5_0".parse().unwrap(),
                port: PortNum(1),
                gid: None,
                reason: "asked for".into(),
                warnings: vec![],
            },
            local: endpoint,
            remote: endpoint,
            mtu_bytes: 1024,
            loopback: None,
            cpus: None,
            message_bytes: 4096,
            iterations: 1000,
            bytes: 8_192_000,
            data_checked: false,
            seconds: 0.01,
            mbit_per_second: 1.0,
            usec_per_iteration,
            counters: BTreeMap::new(),
            verdict: None,
        }
    }

    fn from(earlier: PairResult) -> Expected {
        Expected::From { earlier: Box::new(earlier), within: 0.95 }
    }

    #[test]
    fn round_trips_are_judged_by_a_number_and_by_an_earlier_result() {
        for (expected, wanted) in [
            (Expected::Us(10.0), "PASS: 10.00 us a round trip, 10.00 us wanted"),
            (Expected::Us(9.9), "FAIL: 10.00 us a round trip, 9.90 us wanted"),
            (from(result(9.5)), "PASS: 10.00 us a round trip, 10.00 us wanted (9.50 at 95 %)"),
            (from(result(9.4)), "FAIL: 10.00 us a round trip, 9.89 us wanted (9.40 at 95 %)"),
        ] {
            assert_eq!(judge(&result(10.0), &[expected]).unwrap().line(), wanted);
        }
        let both = judge(&result(10.0), &[Expected::Us(20.0), Expected::Us(5.0)]).unwrap();
        assert_eq!(both.line(), "FAIL: 10.00 us a round trip, 5.00 us wanted");
        assert_eq!(judge(&result(10.0), &[]), None);
    }

    /// F84: missing data passes.
    #[test]
    fn no_figure_is_a_failure_and_nothing_to_compare_with() {
        for none in [f64::NAN, f64::INFINITY, 0.0] {
            assert!(!judge(&result(none), &[Expected::Us(1e9)]).unwrap().pass);
            assert!(from(result(none)).check(4096).is_err());
        }
    }

    #[test]
    fn other_sizes_are_not_compared_and_what_else_differs_is_told() {
        let refused = from(result(1.0)).check(64).unwrap_err().to_string();
        assert_eq!(refused, "the earlier result has figures of other sizes than this test: 4096 bytes");
        assert_eq!(from(result(1.0)).check(4096), Ok(()));
        assert_eq!(Expected::Us(1.0).check(64), Ok(()));
        let earlier = PairResult {
            mtu_bytes: 4096,
            loopback: Some("one HCA".into()),
            data_checked: true,
            ..result(1e3)
        };
        let told = judge(&result(1.0), &[from(earlier)]).unwrap().warnings;
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(judge(&result(1.0), &[from(result(1e3))]).unwrap().warnings, Vec::<String>::new());
    }
}
