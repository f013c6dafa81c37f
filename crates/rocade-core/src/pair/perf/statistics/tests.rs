//! Each figure against the plainest way to compute it.

use proptest::prelude::*;

use super::*;

fn samples(times: &[u32]) -> Samples {
    let mut samples = Samples::new(Some(times.len() as u64));
    times.iter().for_each(|time| samples.add(u64::from(*time)));
    samples
}

#[test]
fn stock_figures_are_those_that_perftest_computes() {
    // perftest sorts n - 1 deltas and drops the two longest: at n = 1000 m = 997, 99 % is the 989th and 99.9 % the second
    // longest.
    let times: Vec<u32> = (1..1000).rev().map(|n| n * 2000).collect();
    let found = samples(&times).latency(Operation::Write).unwrap();
    let stock = found.stock.unwrap();
    assert_eq!((stock.min_us, stock.max_us, stock.typical_us), (1.0, 998.0, 499.0));
    assert_eq!((stock.average_us, stock.p99_us, stock.p99_9_us), (499.0, 989.0, 998.0));
    assert_eq!((found.max_us, found.p99_us, found.p50_us), (999.0, 990.0, 500.0));
}

#[test]
fn deviations_of_less_than_a_microsecond_are_none_to_the_stock_tools() {
    let found = samples(&[1000, 1900, 1000, 1900, 1000, 1900]).latency(Operation::Read).unwrap();
    assert_eq!(found.stock.unwrap().stdev_us, 0.0);
    assert!((found.stdev_us - 0.45).abs() < 1e-9, "{}", found.stdev_us);
}

/// Above as many they are counted; the stock table has all its columns of them as well.
#[test]
fn more_messages_than_are_kept_one_by_one_have_stock_figures_too() {
    let mut counted = Samples::new(Some(KEPT + 1));
    (1..1000).for_each(|n| counted.add(n * 2000));
    let stock = counted.latency(Operation::Write).unwrap().stock.unwrap();
    for (seen, wanted) in [
        (stock.min_us, 1.0),
        (stock.max_us, 998.0),
        (stock.typical_us, 499.0),
        (stock.average_us, 499.0),
        (stock.p99_us, 989.0),
        (stock.p99_9_us, 998.0),
    ] {
        assert!((seen / wanted - 1.0_f64).abs() < 1.1e-3, "{seen} for {wanted}");
    }
}

#[test]
fn each_time_is_told_in_the_order_that_it_came() {
    let kept = samples(&[4000, 2000]);
    assert_eq!(kept.each_us(Operation::Write).collect::<Vec<_>>(), [2.0, 1.0]);
    assert_eq!(kept.each_us(Operation::Read).collect::<Vec<_>>(), [4.0, 2.0]);
    let mut counted = Samples::new(None);
    counted.add(4000);
    assert_eq!((counted.each_us(Operation::Read).count(), counted.count(), kept.count()), (0, 1, 2));
}

#[test]
fn a_read_counts_whole_and_a_write_half() {
    let read = samples(&[4000; 5]).latency(Operation::Read).unwrap();
    let send = samples(&[4000; 5]).latency(Operation::Send).unwrap();
    assert_eq!((read.p50_us, send.p50_us), (4.0, 2.0));
}

#[test]
fn two_samples_make_percentiles_and_no_stock_figures_and_none_makes_nothing() {
    let found = samples(&[2000, 6000]).latency(Operation::Read).unwrap();
    assert_eq!((found.p50_us, found.max_us, found.stock), (2.0, 6.0, None));
    assert!(samples(&[]).latency(Operation::Read).is_none());
    assert!(Samples::new(None).latency(Operation::Read).is_none());
}

#[test]
fn bandwidth_is_payload_over_time() {
    let found = bandwidth(65536, 5000, 1_000_000_000, Some(6000.0), None).bandwidth.unwrap();
    assert_eq!((found.average_gbps, found.peak_gbps), (2.62144, Some(3.145728)));
    assert_eq!(found.messages_per_second, 5000.0);
}

#[test]
fn a_stall_shows_in_the_slowest_interval() {
    let mut timeline = Timeline::new(0);
    let second = 1_000_000_000;
    let mut done = 0;
    for tick in 1..=500_u64 {
        // Nothing between 2 s and 3 s.
        done += if (200..300).contains(&(tick - 1)) { 0 } else { 10 };
        timeline.at(tick * second / 100, done);
    }
    let found = timeline.intervals(5 * second, done, 125_000).unwrap();
    assert_eq!((found.count, found.seconds), (5, 1.0));
    assert!(found.min_gbps.abs() < 1e-9, "{found:?}");
    assert!((found.max_gbps - 1.0).abs() < 1e-9 && (found.average_gbps - 0.8).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_test_too_short_for_two_intervals_has_none() {
    let mut timeline = Timeline::new(7);
    timeline.at(60_000_000, 10);
    assert!(timeline.intervals(90_000_000, 20, 64).is_none());
    assert!(Timeline::new(7).intervals(7, 0, 64).is_none());
}

/// Posts and completions.
type Run = (Vec<(u64, u64)>, Vec<(u64, u64)>);

/// Times go up, and completions come after their posts.
fn run() -> impl Strategy<Value = Run> {
    prop::collection::vec((1..50_u64, 1..5_u64, any::<bool>()), 1..60).prop_map(|steps| {
        let (mut time, mut posted, mut done) = (0, 0, 0);
        let (mut posts, mut completions) = (vec![], vec![]);
        for (pause, count, is_post) in steps {
            time += pause;
            if is_post || done == posted {
                posts.push((time, posted));
                posted += count;
            } else {
                done = posted.min(done + count);
                completions.push((time, done));
            }
        }
        (posts, completions)
    })
}

proptest! {
    #[test]
    fn the_peak_is_the_best_of_all_windows((posts, completions) in run()) {
        let windows = completions.iter().flat_map(|(end, done)| {
            let posts = posts.iter().filter(move |(start, before)| start < end && before < done);
            posts.map(move |(start, before)| (done - before) as f64 / (end - start) as f64 * 1e9)
        });
        let wanted = windows.fold(None, |best: Option<f64>, rate| Some(best.map_or(rate, |best| best.max(rate))));
        let found = Peak { posts: posts.clone(), completions }.messages_per_second();
        match (found, wanted) {
            (Some(found), Some(wanted)) => prop_assert!((found / wanted - 1.0).abs() < 1e-9, "{found} {wanted}"),
            (found, wanted) => prop_assert_eq!(found, wanted),
        }
    }

    #[test]
    fn a_histogram_agrees_with_the_samples_to_one_of_a_thousand(
        times in prop::collection::vec(1_000..4_000_000_000_u32, 1..300),
    ) {
        let mut counted = Samples::new(None);
        times.iter().for_each(|time| counted.add(u64::from(*time)));
        let counted = counted.latency(Operation::Write).unwrap();
        let kept = samples(&times).latency(Operation::Write).unwrap();
        for (counted, kept) in [
            (counted.min_us, kept.min_us),
            (counted.p50_us, kept.p50_us),
            (counted.p99_us, kept.p99_us),
            (counted.p99_99_us, kept.p99_99_us),
            (counted.max_us, kept.max_us),
            (counted.average_us, kept.average_us),
        ] {
            prop_assert!((counted / kept - 1.0).abs() < 2e-3, "{counted} {kept}");
        }
        prop_assert!(kept.min_us <= kept.p50_us && kept.p50_us <= kept.p90_us && kept.p99_99_us <= kept.max_us);
        let (Some(counted), Some(kept)) = (counted.stock, kept.stock) else {
            prop_assert!(times.len() < 3 && counted.stock.is_none() && kept.stock.is_none());
            return Ok(());
        };
        for (counted, kept) in [
            (counted.min_us, kept.min_us),
            (counted.max_us, kept.max_us),
            (counted.typical_us, kept.typical_us),
            (counted.average_us, kept.average_us),
            (counted.p99_us, kept.p99_us),
            (counted.p99_9_us, kept.p99_9_us),
        ] {
            prop_assert!((counted / kept - 1.0).abs() < 2e-3, "{counted} {kept}");
        }
        // Each deviation is cut to whole microseconds, of times that are known to one of a thousand.
        prop_assert!((counted.stdev_us - kept.stdev_us).abs() < 2.0 + kept.max_us * 2e-3);
    }

    #[test]
    fn a_timeline_of_any_length_keeps_the_average(
        ticks in prop::collection::vec((1..2_000_000_000_u64, 0..1000_u64), 1..200), repeat in 1..100_usize,
    ) {
        let mut timeline = Timeline::new(5);
        let (mut time, mut done) = (5, 0);
        for (pause, count) in std::iter::repeat_n(&ticks, repeat).flatten() {
            time += pause;
            done += count;
            timeline.at(time, done);
            prop_assert!(timeline.points.len() <= POINTS);
        }
        if let Some(found) = timeline.intervals(time, done, 1000) {
            let covered = found.seconds * f64::from(found.count);
            prop_assert!(covered <= (time - 5) as f64 / 1e9 + 1e-6);
            prop_assert!(found.average_gbps * covered <= done as f64 * 8e-6 + 1e-9);
            prop_assert!(found.min_gbps <= found.average_gbps + 1e-9);
            prop_assert!(found.average_gbps <= found.max_gbps + 1e-9);
        }
    }
}
