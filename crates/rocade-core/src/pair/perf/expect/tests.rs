//! Verdicts over results that the tests build.

use std::collections::BTreeMap;

use super::super::{Bandwidth, Latency, Options, Test};
use super::*;
use crate::gid::Choice;
use crate::names::PortNum;
use crate::pair::Role;

fn test(name: &str) -> Test {
    Test::ALL.into_iter().find(|test| test.name() == name).unwrap()
}

/// Sizes with the average of a bandwidth test, or the median of a latency test.
fn result(name: &str, figures: &[(u32, f64)]) -> PerfResult {
    let test = test(name);
    let size = |(message_bytes, figure): &(u32, f64)| SizeResult {
        message_bytes: *message_bytes,
        messages: 5000,
        seconds: 1.0,
        bandwidth: (test.measure == Measure::Bandwidth).then_some(Bandwidth {
            average_gbps: *figure,
            peak_gbps: None,
            messages_per_second: 1.0,
            intervals: None,
        }),
        latency: (test.measure == Measure::Latency).then_some(Latency {
            min_us: 0.1,
            average_us: 1e6,
            stdev_us: 0.0,
            p50_us: *figure,
            p90_us: 1e6,
            p99_us: 1e6,
            p99_9_us: 1e6,
            p99_99_us: 1e6,
            max_us: 1e6,
            stock: None,
        }),
    };
    PerfResult {
        role: Role::Client,
        options: Options::stock(test),
        choice: Choice {
            hca: "mlx5_0".parse().unwrap(),
            port: PortNum(1),
            gid: None,
            reason: "asked for".into(),
            warnings: vec![],
        },
        remote: None,
        remote_gid: None,
        peer: "perftest 6.06".into(),
        path_mtu_bytes: 4096,
        loopback: None,
        cpus: None,
        results: figures.iter().map(size).collect(),
        counters: BTreeMap::new(),
        verdict: None,
    }
}

fn line(result: &PerfResult, expected: Expected) -> String {
    judge(result, &[expected], Some(400.0)).unwrap().line()
}

/// F83: one size is below line rate where others are not.
#[test]
fn the_best_size_counts_and_is_named() {
    let bandwidth = result("write-bw", &[(65536, 190.0), (1 << 20, 392.5), (8 << 20, 388.0)]);
    for (expected, wanted) in [
        (Expected::Gbps(380.0), "PASS: 392.50 Gbit/s at 1048576 bytes, 380.00 Gbit/s wanted"),
        (Expected::Gbps(392.5), "PASS: 392.50 Gbit/s at 1048576 bytes, 392.50 Gbit/s wanted"),
        (Expected::Gbps(395.0), "FAIL: 392.50 Gbit/s at 1048576 bytes, 395.00 Gbit/s wanted"),
        (
            Expected::RateShare(0.9),
            "PASS: 392.50 Gbit/s at 1048576 bytes, 90 % of the port's 400 Gbit/s wanted",
        ),
        (
            Expected::RateShare(0.99),
            "FAIL: 392.50 Gbit/s at 1048576 bytes, 99 % of the port's 400 Gbit/s wanted",
        ),
    ] {
        assert_eq!(line(&bandwidth, expected), wanted);
    }
    let latency = result("write-lat", &[(2, 2.5), (64, 2.1)]);
    assert_eq!(line(&latency, Expected::Us(2.2)), "PASS: 2.10 us at 64 bytes, 2.20 us wanted (median)");
    assert_eq!(line(&latency, Expected::Us(2.0)), "FAIL: 2.10 us at 64 bytes, 2.00 us wanted (median)");
}

#[test]
fn an_earlier_result_judges_each_size_and_the_worst_is_named() {
    let earlier = |name, figures: &[(u32, f64)]| Expected::From {
        earlier: Box::new(result(name, figures)),
        within: 0.95,
    };
    let host = || earlier("write-bw", &[(64, 10.0), (4096, 100.0), (8192, 7.0)]);
    assert_eq!(
        line(&result("write-bw", &[(64, 9.6), (4096, 97.0)]), host()),
        "PASS: 9.60 Gbit/s at 64 bytes, 9.50 wanted (95 % of 10.00)"
    );
    assert_eq!(
        line(&result("write-bw", &[(64, 12.0), (4096, 94.0)]), host()),
        "FAIL: 94.00 Gbit/s at 4096 bytes, 95.00 wanted (95 % of 100.00)"
    );
    let host = || earlier("send-lat", &[(2, 1.9)]);
    assert_eq!(
        line(&result("send-lat", &[(2, 2.0)]), host()),
        "PASS: 2.00 us at 2 bytes, 2.00 wanted (1.90 at 95 %)"
    );
    assert_eq!(
        line(&result("send-lat", &[(2, 2.1)]), host()),
        "FAIL: 2.10 us at 2 bytes, 2.00 wanted (1.90 at 95 %)"
    );
}

#[test]
fn a_server_that_a_stock_tool_reads_from_need_measure_nothing() {
    let server = PerfResult { role: Role::Server, remote: None, ..result("read-lat", &[]) };
    assert_eq!(judge(&server, &[], None), None);
    assert_eq!(line(&server, Expected::Gbps(0.0)), "FAIL: nothing was measured");
    let client = PerfResult { role: Role::Client, ..server };
    assert_eq!(judge(&client, &[], None).unwrap().line(), "FAIL: nothing was measured");
}

/// F84: a skipped or empty matrix counted as passed.
#[test]
fn nothing_measured_or_nothing_to_compare_is_a_failure() {
    let nothing = result("write-bw", &[]);
    assert_eq!(judge(&nothing, &[], None).unwrap().line(), "FAIL: nothing was measured");
    assert_eq!(line(&nothing, Expected::Gbps(0.0)), "FAIL: nothing was measured");
    let other = Expected::From { earlier: Box::new(result("write-bw", &[(2, 1.0)])), within: 0.95 };
    let measured = result("write-bw", &[(64, 9.6)]);
    assert_eq!(line(&measured, other), "FAIL: no size is in both this result and the earlier one");
    let unknown = judge(&measured, &[Expected::RateShare(0.9)], None).unwrap();
    assert_eq!(unknown.line(), "FAIL: the rate of the port is not known");
    assert_eq!(
        line(&result("write-bw", &[(64, f64::NAN)]), Expected::Gbps(0.0)),
        "FAIL: write-bw gave no figure to judge"
    );
    assert_eq!(judge(&measured, &[], None), None);
}

#[test]
fn of_several_expectations_only_those_that_failed_are_named() {
    let measured = result("write-bw", &[(64, 9.6)]);
    let both = judge(&measured, &[Expected::Gbps(9.0), Expected::Gbps(10.0)], None).unwrap();
    assert_eq!(both.line(), "FAIL: 9.60 Gbit/s at 64 bytes, 10.00 Gbit/s wanted");
}

#[test]
fn what_a_test_does_not_measure_is_refused_before_it_runs() {
    let earlier = Expected::From { earlier: Box::new(result("write-bw", &[])), within: 0.95 };
    for (expected, name, wanted) in [
        (Expected::Us(2.0), "write-bw", "write-bw measures no latency"),
        (Expected::Gbps(2.0), "send-lat", "send-lat measures no bandwidth"),
        (Expected::RateShare(0.9), "send-lat", "send-lat measures no bandwidth"),
        (earlier, "read-bw", "the earlier result is of write-bw, this test is read-bw"),
    ] {
        assert_eq!(expected.check(test(name)).unwrap_err().to_string(), wanted);
    }
    assert_eq!(Expected::Us(2.0).check(test("read-lat")), Ok(()));
}

fn from(earlier: PerfResult) -> Expected {
    Expected::From { earlier: Box::new(earlier), within: 0.95 }
}

/// A sum of both directions of an earlier test, or the figure of several QPs, is no measure of one.
#[test]
fn an_earlier_result_of_another_kind_is_refused_before_the_test_and_fails_after_it() {
    let now = result("write-bw", &[(65536, 100.0)]);
    type Change = fn(&mut PerfResult);
    let cases: [(Change, &str); 3] = [
        (
            |earlier| earlier.options.bidirectional = true,
            "the earlier result is of both directions, this test of one direction",
        ),
        (|earlier| earlier.options.qps = 4, "the earlier result is of 4 QPs, this test of 1 QP"),
        (
            |earlier| earlier.results[0].message_bytes = 64,
            "the earlier result has figures of other sizes than this test: 64 bytes",
        ),
    ];
    for (change, wanted) in cases {
        let mut earlier = now.clone();
        change(&mut earlier);
        let expected = from(earlier);
        assert_eq!(expected.check_alike(&now.options).unwrap_err().to_string(), wanted);
        assert!(!judge(&now, &[expected], None).unwrap().pass, "{wanted}");
    }
    assert_eq!(from(now.clone()).check_alike(&now.options), Ok(()));
    assert_eq!(Expected::Gbps(1.0).check_alike(&now.options), Ok(()));
    let empty = from(result("write-bw", &[(65536, f64::NAN)])).check_alike(&now.options);
    assert_eq!(
        empty.unwrap_err().to_string(),
        "the earlier result has figures of other sizes than this test: none"
    );
}

/// F84: missing data passes.
#[test]
fn a_size_without_a_figure_fails_where_the_earlier_result_has_one() {
    let earlier = || from(result("write-bw", &[(64, 10.0), (4096, 100.0)]));
    for missing in [f64::NAN, f64::INFINITY, 0.0] {
        let now = result("write-bw", &[(64, 10.0), (4096, missing)]);
        let wanted = "FAIL: no figure at 4096 bytes, where the earlier result has one";
        assert_eq!(line(&now, earlier()), wanted, "{missing}");
    }
    let mut now = result("write-bw", &[(64, 10.0), (4096, 100.0)]);
    now.results[0].bandwidth = None;
    assert_eq!(line(&now, earlier()), "FAIL: no figure at 64 bytes, where the earlier result has one");
}

#[test]
fn what_makes_a_comparison_weaker_is_told_beside_the_verdict() {
    let now = result("write-bw", &[(64, 10.0), (4096, 100.0), (8192, 100.0)]);
    let mut earlier = result("write-bw", &[(2, 1.0), (64, 10.0), (4096, 100.0), (8192, f64::NAN)]);
    earlier.path_mtu_bytes = 1024;
    earlier.loopback = Some("one HCA".into());
    earlier.options.data_seed = Some(1);
    earlier.options.rate_limit_gbps = Some(5.0);
    let verdict = judge(&now, &[from(earlier)], None).unwrap();
    assert!(verdict.pass);
    let wanted = [
        "the earlier result is of a path MTU of 1024 bytes, this one of a path MTU of 4096 bytes: ",
        "the earlier result is of a loopback, this one of a fabric: one of them",
        "the earlier result is of messages whose bytes were compared, this one of messages whose bytes were not ",
        "the earlier result is of a rate limit of 5 Gbit/s, this one of no rate limit: ",
        "not compared: 8192 bytes (not in the earlier result)",
        "not compared: 2 bytes (in the earlier result alone)",
    ];
    assert_eq!(verdict.warnings.len(), wanted.len(), "{:?}", verdict.warnings);
    for (warning, wanted) in verdict.warnings.iter().zip(wanted) {
        assert!(warning.starts_with(wanted), "{warning}");
    }
    let alike = judge(&now, &[from(now.clone())], None).unwrap();
    assert_eq!(alike.warnings, Vec::<String>::new());
}
