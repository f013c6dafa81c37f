//! What drivers count of interfaces (`ethtool -S`): totals beside the other rails, growth between two readings, and
//! what is no count.

use rocade_core::check::{Against, Report, check};
use rocade_core::{Host, Severity};

use super::{Recording, assert_found, assert_none_of};

const OF_INTERFACES: &[&str] =
    &["RDC501", "RDC502", "RDC509", "RDC513", "RDC514", "RDC515", "RDC516", "RDC517", "RDC518", "RDC519"];

/// The eight rails of the recorded host, each with these statistics but for one of them.
fn rails(all: &str, odd: &str) -> Recording {
    let host = Recording::of("roce-8rail-misconfigured");
    let netdevs = host.host();
    let rails = netdevs.hcas.iter().flat_map(|hca| &hca.ports).filter_map(|port| port.netdev.clone());
    let rails: Vec<String> = rails.collect();
    assert!(rails.len() >= 8 && rails.iter().any(|rail| rail == ODD), "{rails:?}");
    let record = |rail: &String| {
        let values = if rail == ODD { odd } else { all };
        format!(" {{\"netdev\":\"{rail}\",\"values\":{{{values}}}}}\n")
    };
    let records: String = rails.iter().map(record).collect();
    host.with("netlink links\n", &format!("ethtool statistics\n{records}netlink links\n"))
}

const ODD: &str = "enp52s0np0";

fn watched(earlier: &Host, now: &Recording) -> Report {
    check(&now.host(), &Against { earlier: Some(earlier), ..Against::default() })
}

#[test]
fn discards_of_one_rail_alone_are_told_beside_the_others() {
    let report = rails(r#""rx_discards_phy":3"#, r#""rx_discards_phy":4711"#).check();
    let seen = "rx_discards_phy 4711; at most 3 on the other rails";
    let finding = assert_found(&report, "RDC513", ODD, seen, "PFC and buffers");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(report.findings.iter().filter(|finding| finding.code == "RDC513").count(), 1);
}

#[test]
fn discards_that_all_rails_have_are_a_note_and_few_are_nothing() {
    let alike = rails(r#""rx_discards_phy":5000"#, r#""rx_discards_phy":5100"#).check();
    assert_eq!(assert_found(&alike, "RDC513", ODD, "5100", "").severity, Severity::Note);
    let few = r#""rx_discards_phy":99,"tx_pause_storm_error_events":0,"outbound_pci_stalled_wr":29,"rx_prio3_pause":4711,
        "rx_out_of_buffer":9999,"rx_oversize_pkts_phy":99,"link_down_events_phy":3,"rx_crc_errors_phy":7"#
        .replace('\n', "");
    assert_none_of(&rails(&few, &few).check(), OF_INTERFACES);
}

#[test]
fn statistics_that_stand_still_are_no_growth() {
    let full = r#""rx_discards_phy":99999,"rx_prio3_pause":99999,"tx_pause_storm_error_events":9"#;
    let now = rails(full, full);
    assert_none_of(&watched(&now.host(), &now), OF_INTERFACES);
}

/// Discards where PFC should leave none: buffers or PFC are not alike on host and switch.
#[test]
fn discards_in_a_priority_with_pfc_are_told_as_such() {
    let with = |value: u32| format!(r#""rx_prio3_discards":{value},"rx_prio0_discards":{value}"#);
    let before = rails(&with(0), &with(0)).host();
    let dcb = before.netdev(ODD).and_then(|netdev| netdev.dcb.as_ref()).unwrap();
    assert_eq!(dcb.pfc_priorities.as_deref(), Some(&[3][..]));
    let report = watched(&before, &rails(&with(0), &with(40)));
    let seen = "rx_prio0_discards grew by 40, rx_prio3_discards grew by 40 while watched; priority 3 has PFC";
    assert_found(&report, "RDC513", ODD, seen, "mlnx_qos");
    let other = r#""rx_prio3_discards":0,"rx_prio0_discards":40"#;
    let lossy = watched(&before, &rails(&with(0), other));
    assert!(!assert_found(&lossy, "RDC513", ODD, "rx_prio0_discards", "").seen.contains("has PFC"));
}

#[test]
fn pauses_of_a_priority_are_told_by_their_growth_alone() {
    let with = |value: u32| format!(r#""rx_prio3_pause":{value},"rx_prio3_pause_duration":{}"#, value * 9);
    let now = rails(&with(10), &with(4721));
    assert_none_of(&now.check(), &["RDC514"]);
    let report = watched(&rails(&with(10), &with(10)).host(), &now);
    let seen = "rx_prio3_pause grew by 4711, rx_prio3_pause_duration grew by 42399 while watched";
    assert_eq!(assert_found(&report, "RDC514", ODD, seen, "slow receiver").severity, Severity::Note);
}

/// Names of bnxt, ice, i40e, mlx4, cxgb4 and hns3.
#[test]
fn each_drivers_name_for_the_pauses_of_a_priority_is_known() {
    for name in [
        "rx_pfc_ena_frames_pri3",
        "pfc_pri3_tx_duration_us",
        "rx_priority_3_xoff.nic",
        "port.tx_priority_3_xoff",
        "port.rx_priority_3_xoff_rx",
        "rx_pause_prio_3",
        "TxPPP3Frames",
        "mac_rx_pfc_pri3_pkt_num",
    ] {
        let with = |value: u32| format!(r#""{name}":{value}"#);
        let report = watched(&rails(&with(1), &with(1)).host(), &rails(&with(1), &with(5)));
        assert_found(&report, "RDC514", ODD, &format!("{name} grew by 4"), "");
    }
}

#[test]
fn one_pause_storm_is_enough() {
    let report = rails(r#""tx_pause_storm_error_events":0"#, r#""tx_pause_storm_error_events":1"#).check();
    let finding = assert_found(&report, "RDC515", ODD, "tx_pause_storm_error_events 1", "dmesg");
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn what_pcie_does_not_take_is_told_by_seconds_and_by_the_last_second() {
    let seconds = rails(r#""outbound_pci_stalled_wr_events":0"#, r#""outbound_pci_stalled_wr_events":120"#);
    assert_found(&seconds.check(), "RDC516", ODD, "outbound_pci_stalled_wr_events 120", "MaxReadReq");
    let percent = |value: u32| format!(r#""outbound_pci_stalled_wr":{value}"#);
    let now = rails(&percent(0), &percent(45));
    assert_found(&now.check(), "RDC516", ODD, "outbound_pci_stalled_wr: 45 % of the last second", "NUMA");
    // It goes up and down: not a counter that was reset or grew.
    let before = rails(&percent(80), &percent(80)).host();
    let report = watched(&before, &now);
    assert_found(&report, "RDC516", ODD, "45 % of the last second", "");
    assert_none_of(&report, &["RDC509"]);
}

#[test]
fn bit_errors_of_pcie_frames_that_are_too_long_and_empty_queues_are_told_by_their_growth() {
    let with = |value: u32| {
        format!(
            r#""tx_pci_signal_integrity":{value},"rx_oversize_pkts_phy":{value},"rx_out_of_buffer":{value}"#
        )
    };
    let now = rails(&with(3), &with(4));
    assert_none_of(&now.check(), &["RDC517", "RDC518", "RDC519"]);
    let report = watched(&rails(&with(3), &with(3)).host(), &now);
    assert_found(&report, "RDC517", ODD, "tx_pci_signal_integrity grew by 1", "reseat");
    assert_found(&report, "RDC518", ODD, "rx_oversize_pkts_phy grew by 1", "mtu");
    assert_found(&report, "RDC519", ODD, "rx_out_of_buffer grew by 1", "ethtool -G");
}

#[test]
fn lost_links_and_damaged_frames_of_an_interface_are_judged_as_those_of_a_port() {
    let with = |value: u32| format!(r#""link_down_events_phy":{value},"rx_crc_errors_phy":{value}"#);
    let report = watched(&rails(&with(3), &with(3)).host(), &rails(&with(3), &with(5)));
    assert_found(&report, "RDC501", ODD, "link_down_events_phy grew by 2", "cable");
    assert_found(&report, "RDC502", ODD, "rx_crc_errors_phy grew by 2", "cable");
    let total = rails(&with(0), &with(300)).check();
    assert_found(&total, "RDC501", ODD, "link_down_events_phy 300; at most 0 on the other rails", "cable");
    assert_found(&total, "RDC502", ODD, "rx_crc_errors_phy 300", "cable");
}

#[test]
fn a_statistic_that_fell_was_reset_and_counts_from_zero() {
    let with = |value: u32| format!(r#""rx_discards_phy":{value},"rx_unknown_err_rate":{value}"#);
    let report = watched(&rails(&with(900), &with(900)).host(), &rails(&with(900), &with(3)));
    let finding = assert_found(&report, "RDC509", ODD, "rx_discards_phy from 900 to 3", "after the reset");
    assert!(!finding.seen.contains("rate"), "{finding}");
    assert_found(&report, "RDC513", ODD, "rx_discards_phy grew by 3", "");
}

#[test]
fn what_was_not_recorded_or_did_not_answer_is_not_judged() {
    let unjudged = |recording: Recording, code: &str| {
        let report = recording.check();
        assert_none_of(&report, OF_INTERFACES);
        let told = report.unjudged.into_iter().find(|unjudged| unjudged.code == code).unwrap();
        (told.subject, told.why)
    };
    let (subject, why) = unjudged(Recording::of("roce-8rail-misconfigured"), "RDC513");
    assert_eq!(
        (subject.as_str(), why.as_str()),
        ("host", "driver statistics could not be read (not recorded)")
    );
    let record = format!("{{\"netdev\":\"{ODD}\",\"values\":{{}}}}");
    let sick = rails("", "").with(&record, &record.replace("\"values\":{}", "\"failed\":\"EIO\""));
    let (subject, why) = unjudged(sick, "RDC515");
    assert_eq!((subject.as_str(), why.as_str()), (ODD, "driver statistics could not be read (EIO)"));
    let none = rails("", "").check();
    assert!(!none.unjudged.iter().any(|unjudged| unjudged.code == "RDC513"));
}

#[test]
fn the_members_of_a_bond_are_judged_each() {
    let record = |netdev: &str, value: u32| {
        format!(" {{\"netdev\":\"{netdev}\",\"values\":{{\"rx_discards_phy\":{value}}}}}\n")
    };
    let records = record("ens67f0np0", 0) + &record("ens67f1np1", 700);
    let report = Recording::of("seed-4hca-bond")
        .with("netlink links\n", &format!("ethtool statistics\n{records}netlink links\n"))
        .check();
    assert_found(&report, "RDC513", "ens67f1np1", "rx_discards_phy 700", "");
    assert!(!report.findings.iter().any(|f| f.code == "RDC513" && f.subject != "ens67f1np1"));
}
