//! Each letter and long name, as what both ends do.

use clap::Parser;
use rocade_core::pair::perf::{Measure, Operation};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    what: What,
}

fn test(name: &str) -> Test {
    Test::ALL.into_iter().find(|test| test.name() == name).unwrap()
}

fn parse(line: &str) -> Line {
    Line::try_parse_from(["test"].into_iter().chain(line.split_whitespace())).unwrap()
}

fn settle(name: &str, line: &str) -> Options {
    parse(line).what.settle(test(name)).unwrap()
}

/// Options that a change of the stock ones makes.
fn changed(name: &str, change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::stock(test(name));
    change(&mut options);
    options
}

/// A command line, and what it changes.
type Case = (&'static str, fn(&mut Options));

#[test]
fn every_letter_of_a_bandwidth_test_means_what_it_means_in_the_stock_tools() {
    let cases: [Case; 22] = [
        ("-s 64", |o| o.sizes = Sizes::One(64)),
        ("--sizes 64,4K,1M", |o| o.sizes = Sizes::List(vec![64, 4096, 1 << 20])),
        ("-a", |o| o.sizes = Sizes::All),
        ("-s 64 -n 500", |o| (o.sizes, o.amount) = (Sizes::One(64), Amount::Iterations(500))),
        ("-s 64 -D 9", |o| (o.sizes, o.amount) = (Sizes::One(64), Amount::Seconds(9))),
        ("-s 64 -q 4", |o| (o.sizes, o.qps) = (Sizes::One(64), 4)),
        ("-s 64 -b", |o| (o.sizes, o.bidirectional) = (Sizes::One(64), true)),
        ("-s 64 -t 200", |o| (o.sizes, o.tx_depth) = (Sizes::One(64), 200)),
        ("-s 64 -Q 7", |o| (o.sizes, o.cq_moderation) = (Sizes::One(64), 7)),
        ("-Q 7", |o| o.cq_moderation = 7),
        ("-s 64 -I 64", |o| (o.sizes, o.inline_bytes) = (Sizes::One(64), 64)),
        ("-s 64 -m 2048", |o| (o.sizes, o.mtu_bytes) = (Sizes::One(64), Some(2048))),
        ("-s 64 --tclass 106", |o| (o.sizes, o.traffic_class) = (Sizes::One(64), 106)),
        ("-s 64 --dscp 26", |o| (o.sizes, o.traffic_class) = (Sizes::One(64), 104)),
        ("-s 64 -S 3", |o| (o.sizes, o.service_level) = (Sizes::One(64), 3)),
        ("-s 64 --pkey-index 2", |o| (o.sizes, o.pkey_index) = (Sizes::One(64), 2)),
        ("-s 64 -L 5", |o| (o.sizes, o.hop_limit) = (Sizes::One(64), 5)),
        ("-s 64 -u 18", |o| (o.sizes, o.ack_timeout) = (Sizes::One(64), 18)),
        ("-s 64 --warm-up", |o| (o.sizes, o.warm_up) = (Sizes::One(64), true)),
        ("-s 64 --rate-limit-gbps 2.5", |o| (o.sizes, o.rate_limit_gbps) = (Sizes::One(64), Some(2.5))),
        ("-s 64 -e", |o| (o.sizes, o.events) = (Sizes::One(64), true)),
        ("-s 64 --check=7", |o| (o.sizes, o.data_seed) = (Sizes::One(64), Some(7))),
    ];
    for (line, change) in cases {
        assert_eq!(settle("write-bw", line), changed("write-bw", change), "{line}");
    }
}

#[test]
fn letters_of_single_operations_reach_them() {
    assert_eq!(settle("read-bw", "-s 64 --outs 4").outstanding_reads, Some(4));
    assert_eq!(settle("send-bw", "-s 64 -r 100").rx_depth, 100);
    assert_eq!(settle("send-lat", "--check").data_seed, Some(1));
}

#[test]
fn without_options_a_test_is_the_stock_tools_with_a_completion_for_each_large_message() {
    for test in Test::ALL {
        let large = test.measure == Measure::Bandwidth;
        let wanted = changed(test.name(), |o| o.cq_moderation = if large { 1 } else { o.cq_moderation });
        assert_eq!(settle(test.name(), ""), wanted, "{test}");
    }
    assert_eq!(Options::stock(test("write-bw")).test.operation, Operation::Write);
}

#[test]
fn where_it_runs_is_read_from_the_stock_letters() {
    let place = parse("-d mlx5_2 -i 1 -x 3 --cpus 0-3 --hugepages --timeout 30").place;
    assert_eq!(place.hca.unwrap().as_str(), "mlx5_2");
    assert_eq!((place.hca_port, place.gid_index), (Some(PortNum(1)), Some(3)));
    assert_eq!((place.cpus.as_deref(), place.hugepages, place.timeout), (Some("0-3"), true, 30));
    assert_eq!(parse("-x 200").place.gid_index, Some(200));
}

#[test]
fn what_excludes_each_other_is_refused() {
    for line in [
        "-s 64 -a",
        "--sizes 1,2 -a",
        "--sizes 1,2 -s 3",
        "-n 5 -D 1",
        "--tclass 1 --dscp 1",
        "--dscp 64",
        "--cpus 1 --numa 0",
        "-m 1500",
        "-i 0",
        "-i 256",
        "-s 1G",
        "--sizes 1,x",
    ] {
        assert!(Line::try_parse_from(["test"].into_iter().chain(line.split_whitespace())).is_err(), "{line}");
    }
}

#[test]
fn what_does_not_go_with_a_test_is_refused_by_the_tests_name() {
    for (name, line, wanted) in [
        ("write-lat", "-q 2", "write-lat: 2 QPs in write-lat: only a bandwidth test has that"),
        ("write-lat", "-b", "write-lat: both directions in write-lat"),
        ("write-bw", "--outs 2", "write-bw: outstanding reads in write-bw"),
        ("read-bw", "-I 64", "read-bw: inline messages in read-bw"),
        ("send-bw", "-a -D 3", "send-bw: all sizes by time"),
    ] {
        let error = format!("{:#}", parse(line).what.settle(test(name)).unwrap_err());
        assert!(error.starts_with(wanted), "{error}");
    }
}
