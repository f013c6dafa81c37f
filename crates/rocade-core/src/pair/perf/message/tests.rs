//! Against what Debian's perftest 6.06 sent over soft-RoCE (-x 1 -n 50).

use proptest::prelude::*;

use super::*;

const CLIENT: &[u8; 108] =
    b"0000:0001:000013:d34eb0:000005d7:00007f99cc267000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:01:00000000:\0";

const CLIENT_REPORT: [u64; 5] =
    [0x10000, 0x32, 0x4041_f8b7_c0be_da7d, 0x403f_06a8_03af_e28c, 0x3f40_443d_48a1_4a10];

/// Of a server that only received: what its stack held.
const SERVER_REPORT: [u64; 5] = [0x7ffe_f425_ee04, 0x7f54_fc83_ead0, 0x6, 0x7f54_fc3c_10e1, 0x7ffe_f425_eec8];

fn messages(report: [u64; 5]) -> [[u8; 8]; 5] {
    report.map(u64::to_be_bytes)
}

#[test]
fn a_stock_tool_reads_our_version_and_we_read_its() {
    let own = Announcement::own();
    assert_eq!(&own[..5], b"6.06\0");
    let parsed = Announcement::parse(&own).unwrap();
    assert_eq!((parsed.number(), parsed.dialect), (6.06, Some(DIALECT)));
    let stock = Announcement::parse(b"6.06\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    assert_eq!((stock.version.as_str(), stock.dialect), ("6.06", None));
}

#[test]
fn what_is_no_version_is_refused() {
    for bytes in
        [b"SSH-2.0-OpenSSH_", b"0000:000012:29a6", &[0; 16], &[b'6'; 16], b"inf\0\0\0\0\0\0\0\0\0\0\0\0\0"]
    {
        assert_eq!(Announcement::parse(bytes), None, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_captured_key_is_read_and_written_back() {
    let key = Key::parse(CLIENT).unwrap();
    assert_eq!((key.lid, key.out_reads, key.qpn, key.psn), (0, 1, 0x13, 0xd34eb0));
    assert_eq!((key.rkey, key.vaddr, key.srqn), (0x5d7, 0x7f99_cc26_7000, 0));
    assert_eq!(key.gid, Some(Gid::from_address("10.9.0.1".parse().unwrap())));
    assert_eq!(key.to_message(), CLIENT);
}

#[test]
fn a_key_without_a_gid_has_the_other_length() {
    let key = Key { gid: None, lid: 7, ..Key::parse(CLIENT).unwrap() };
    let message = key.to_message();
    assert_eq!(message, b"0007:0001:000013:d34eb0:000005d7:00007f99cc267000:00000000\0");
    assert_eq!((message.len(), Key::parse(&message)), (KEY_BYTES, Some(key)));
}

#[test]
fn an_mtu_is_a_digit_and_a_nul() {
    assert_eq!(mtu_message(1024), Some(*b"3\0"));
    for bytes in [256, 512, 1024, 2048, 4096] {
        assert_eq!(mtu_message(bytes).and_then(parse_mtu), Some(bytes));
    }
    assert_eq!((mtu_message(1500), parse_mtu(*b"6\0"), parse_mtu(*b"33")), (None, None, None));
}

#[test]
fn a_captured_report_is_read_and_written_back() {
    let report = Report::from_messages(&messages(CLIENT_REPORT));
    assert_eq!(report.to_messages(), messages(CLIENT_REPORT));
    let result = report.result().unwrap();
    let bandwidth = result.bandwidth.unwrap();
    assert_eq!((result.message_bytes, result.messages), (65536, 50));
    // The tool's table: 35.94 and 31.03 MB/s, 0.000496 Mpps.
    assert_eq!(format!("{:.2}", bandwidth.average_gbps * 1e9 / f64::from(8 << 20)), "31.03");
    assert_eq!(format!("{:.2}", bandwidth.peak_gbps.unwrap() * 1e9 / f64::from(8 << 20)), "35.94");
    assert_eq!(format!("{:.6}", bandwidth.messages_per_second / 1e6), "0.000496");
}

#[test]
fn what_a_receiving_servers_stack_held_is_no_result() {
    assert_eq!(Report::from_messages(&messages(SERVER_REPORT)).result(), None);
    assert_eq!(Report::NOTHING.result(), None);
}

#[test]
fn only_hosts_memory_is_likely() {
    let likely = |page_bytes, line_bytes| Memory { page_bytes, line_bytes }.is_likely();
    assert!(likely(4096, 64) && likely(65536, 128));
    assert!(
        !likely(0, 64)
            && !likely(4096, 0)
            && !likely(3000, 64)
            && !likely(1 << 31, 64)
            && !likely(4096, 1 << 20)
    );
}

fn keys() -> impl Strategy<Value = Key> {
    let ids = (any::<u16>(), any::<u16>(), 0..=MAX_24, 0..=MAX_24, any::<u32>());
    (ids, any::<u64>(), any::<Option<[u8; 16]>>(), any::<u32>()).prop_map(|(ids, vaddr, gid, srqn)| {
        let (lid, out_reads, qpn, psn, rkey) = ids;
        Key { lid, out_reads, qpn, psn, rkey, vaddr, gid: gid.map(Gid), srqn }
    })
}

proptest! {
    #[test]
    fn every_key_comes_back(key in keys()) {
        let message = key.to_message();
        prop_assert_eq!(message.len(), Key::message_bytes(key.gid.is_some()));
        prop_assert_eq!(Key::parse(&message), Some(key));
    }

    #[test]
    fn a_key_with_one_byte_changed_is_refused_or_means_something_else(at in 0..108_usize, byte: u8) {
        let mut message = *CLIENT;
        message[at] = byte;
        let same = message.eq_ignore_ascii_case(CLIENT);
        prop_assert_eq!(Key::parse(&message) == Key::parse(CLIENT), same);
    }

    #[test]
    fn a_report_in_either_unit_comes_back(
        size in 1..=1_u32 << 31,
        messages in 1..=1_u64 << 40,
        rate in 1e-3..1e9_f64,
        peak in prop::option::of(1.0..4.0_f64),
        gigabits: bool,
    ) {
        let average_gbps = rate * f64::from(size) * 8.0 / 1e9;
        let peak_gbps = peak.map(|factor| factor * average_gbps);
        let bandwidth = Bandwidth { average_gbps, peak_gbps, messages_per_second: rate, intervals: None };
        let seconds = messages as f64 / rate;
        let sent = SizeResult { message_bytes: size, messages, seconds, bandwidth: Some(bandwidth), latency: None };
        let unit = if gigabits { Unit::Gigabits } else { Unit::Mebibytes };
        let read = Report::from_messages(&Report::of(&sent, unit).to_messages()).result().unwrap();
        prop_assert_eq!((read.message_bytes, read.messages), (size, messages));
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        let read = read.bandwidth.unwrap();
        prop_assert!(close(read.average_gbps, average_gbps) && close(read.messages_per_second, rate));
        prop_assert!(close(read.peak_gbps.unwrap_or(1.0), peak_gbps.unwrap_or(1.0)));
    }

    #[test]
    fn a_report_beside_what_was_found_of_the_same_traffic_tells_its_unit(
        gbps in 1e-4..800.0_f64,
        unlike in 0.4..2.5_f64,
        slower in 0.03..30.0_f64,
        peak_alone: bool,
        gigabits: bool,
    ) {
        let found = |gbps: f64| SizeResult {
            message_bytes: 4096,
            messages: 50,
            seconds: 1.0,
            bandwidth: Some(Bandwidth {
                average_gbps: gbps,
                peak_gbps: Some(gbps),
                messages_per_second: 1.0,
                intervals: None,
            }),
            latency: None,
        };
        let unit = if gigabits { Unit::Gigabits } else { Unit::Mebibytes };
        let report = |unlike: f64| {
            let report = Report::of(&found(gbps * unlike), unit);
            if peak_alone { Report { average: 0.0, rate: 0.0, ..report } } else { report }
        };
        for expected in [Unit::Gigabits, Unit::Mebibytes] {
            prop_assert_eq!(report(unlike).unit_beside(&found(gbps), expected), unit);
            prop_assert_eq!(Report::NOTHING.unit_beside(&found(gbps), expected), expected);
        }
        // Packets are lost one way.
        prop_assert_eq!(report(slower).unit_beside(&found(gbps), unit), unit);
    }

    #[test]
    fn any_five_fields_make_a_result_with_finite_figures_or_none(fields: [u64; 5]) {
        if let Some(result) = Report::from_messages(&messages(fields)).result() {
            let bandwidth = result.bandwidth.unwrap();
            prop_assert!(bandwidth.average_gbps.is_finite() && result.seconds.is_finite());
        }
    }
}
