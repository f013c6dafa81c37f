//! Counters: totals, growth between two readings, resets, full counters and those without a value.

use rocade_core::check::{Against, Report, check};
use rocade_core::{Host, Severity};

use super::{Recording, assert_found, assert_none_of};

const COUNTERS: &str = "infiniband/mlx5_3/ports/1/counters";
const DRIVER: &str = "infiniband/mlx5_3/ports/1/hw_counters";

fn seed() -> Recording {
    Recording::of("seed-4hca-bond")
}

fn watched(earlier: &Host, now: &Recording) -> Report {
    check(&now.host(), &Against { earlier: Some(earlier), ..Against::default() })
}

#[test]
fn growth_between_two_readings_is_told_by_its_amount() {
    let before = seed().within(COUNTERS, " text link_downed 0", " text link_downed 5").host();
    let now = seed().within(COUNTERS, " text link_downed 0", " text link_downed 7");
    assert_found(
        &watched(&before, &now),
        "RDC501",
        "mlx5_3/1",
        "link_downed grew by 2 while watched",
        "cable",
    );
}

#[test]
fn a_total_that_stands_still_is_no_growth() {
    let now = seed().within(COUNTERS, " text link_downed 0", " text link_downed 7");
    assert_none_of(&watched(&now.host(), &now), &["RDC501", "RDC509"]);
    assert_found(&now.check(), "RDC501", "mlx5_3/1", "link_downed 7; at most 0 on the other rails", "cable");
}

#[test]
fn a_counter_that_fell_was_reset_and_counts_from_zero() {
    let before = seed().within(DRIVER, " text out_of_sequence 0", " text out_of_sequence 900").host();
    let now = seed().within(DRIVER, " text out_of_sequence 0", " text out_of_sequence 3");
    let report = watched(&before, &now);
    let finding =
        assert_found(&report, "RDC509", "mlx5_3/1", "out_of_sequence from 900 to 3", "after the reset");
    assert_eq!(finding.severity, Severity::Note);
    assert_found(&report, "RDC504", "mlx5_3/1", "out_of_sequence grew by 3", "lossless");
}

#[test]
fn what_soft_roce_sent_again_is_a_loss() {
    let counters = "infiniband/rxe0/ports/1/hw_counters";
    let now = Recording::of("rxe-vm").within(
        counters,
        " text completer_retry_err 0",
        " text completer_retry_err 12",
    );
    let report = watched(&Recording::of("rxe-vm").host(), &now);
    assert_found(&report, "RDC504", "rxe0/1", "completer_retry_err grew by 12 while watched", "lossless");
}

#[test]
fn a_full_counter_is_told_as_full_and_not_as_a_count() {
    let full = seed().within(COUNTERS, " text symbol_error 0", " text symbol_error 65535");
    let report = full.check();
    assert_found(&report, "RDC507", "mlx5_3/1", "symbol_error stands at 65535: saturated", "reset");
    assert_none_of(&report, &["RDC502"]);
}

#[test]
fn a_counter_without_value_is_not_zero() {
    let report = Recording::of("soft-siw-and-old-rxe").check();
    let finding =
        assert_found(&report, "RDC508", "rxe0/1", "`N/A (no PMA)`: no value, not zero", "hw_counters");
    assert_eq!(finding.severity, Severity::Note);
    let growth =
        watched(&Recording::of("soft-siw-and-old-rxe").host(), &Recording::of("soft-siw-and-old-rxe"));
    assert_none_of(&growth, &["RDC501", "RDC502", "RDC509"]);
}

#[test]
fn what_all_rails_have_is_a_note() {
    let mut recording = Recording::of("dgx-h100");
    for hca in [0, 3, 4, 5, 6, 9, 10, 11] {
        let counters = format!("infiniband/mlx5_{hca}/ports/1/hw_counters");
        recording = recording.within(&counters, " text out_of_sequence 0", " text out_of_sequence 5000");
    }
    let report = recording.check();
    assert_eq!(assert_found(&report, "RDC504", "mlx5_3/1", "5000", "").severity, Severity::Note);
}

#[test]
fn marked_packets_without_notifications_mean_that_the_notification_point_is_off() {
    let marked =
        seed().within(DRIVER, " text np_ecn_marked_roce_packets 0", " text np_ecn_marked_roce_packets 9");
    let marked = Recording(marked.0).within(DRIVER, " text rp_cnp_ignored 0", " text rp_cnp_ignored 4");
    let report = marked.check();
    assert_found(&report, "RDC506", "mlx5_3/1", "np_cnp_sent 0", "roce_np");
    assert!(report.findings.iter().any(|f| f.code == "RDC506" && f.seen.contains("rp_cnp_ignored 4")));
}

#[test]
fn without_an_earlier_reading_the_baseline_is_the_earlier_one() {
    let before = seed().host();
    let now = seed().within(COUNTERS, " text link_downed 0", " text link_downed 1").host();
    let report = check(&now, &Against { baseline: Some(&before), ..Against::default() });
    assert_found(&report, "RDC501", "mlx5_3/1", "link_downed grew by 1 since the baseline", "");
}

#[test]
fn pause_frames_between_two_readings_are_told_by_their_direction() {
    let with = |received: u32| {
        let record = format!("{{\"netdev\":\"ens21np0\",\"sent\":3,\"received\":{received}}}");
        Recording::of("seed-4hca-bond")
            .with("netlink dcb\n", &format!("netlink pauses\n {record}\nnetlink dcb\n"))
    };
    let report = watched(&with(10).host(), &with(4721));
    assert_found(&report, "RDC512", "ens21np0", "pause frames received 4711 while watched", "other ends");
    let unread = watched(&seed().host(), &seed());
    assert_none_of(&unread, &["RDC512"]);
    assert!(unread.unjudged.iter().any(|one| one.code == "RDC512"));
}

#[test]
fn a_health_reporter_in_error_is_told_and_one_that_recovered_is_a_note() {
    let with = |healthy: bool| {
        let record = format!(
            "{{\"bus\":\"pci\",\"device\":\"0000:b7:00.0\",\"reporter\":\"fw_fatal\",\"healthy\":{healthy},\"errors\":2,\"recoveries\":1}}"
        );
        Recording::of("seed-4hca-bond")
            .with("netlink dcb\n", &format!("netlink health\n {record}\nnetlink dcb\n"))
            .check()
    };
    let seen = "fw_fatal is in error, errors 2, recoveries 1";
    assert_eq!(
        assert_found(&with(false), "RDC112", "mlx5_3", seen, "devlink health").severity,
        Severity::Warning
    );
    assert_eq!(assert_found(&with(true), "RDC112", "mlx5_3", "healthy", "").severity, Severity::Note);
    assert!(seed().check().unjudged.iter().any(|one| one.code == "RDC112"));
}

#[test]
fn counters_that_a_driver_keeps_for_the_whole_device_are_judged_as_its_own() {
    let counters = "infiniband/mlx4_0/hw_counters";
    let report = Recording::of("mlx4-dual-ib-eth")
        .within(counters, " text sq_num_to 0", " text sq_num_to 500")
        .check();
    assert_found(&report, "RDC504", "mlx4_0", "sq_num_to 500", "lossless");
}
