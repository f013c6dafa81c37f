//! What is kept of a driver's own statistics: those whose name tells of trouble, and of the queues' one sum over all of
//! them. Drivers name some hundreds for a port and some dozens more for each queue; most count traffic. Pure: bytes as
//! the kernel gives them (`ethtool`) to names and values.

use std::collections::{BTreeMap, HashSet};

use super::Statistics;

/// Bytes that each name takes (ETH_GSTRING_LEN).
pub(crate) const NAME_LEN: usize = 32;

/// A name that holds none of these counts what is as it should be.
const TROUBLE: &[&str] = &[
    "_err",
    "bad",
    "buf",
    "corrected",
    "crc",
    "discard",
    "drop",
    "error",
    "fault",
    "fcs",
    "jabber",
    "link_down",
    "lost",
    "marked",
    "miss",
    "oob",
    "out_of",
    "over",
    "pause",
    "pfc",
    "ppp",
    "signal_integrity",
    "stall",
    "storm",
    "symbol",
    "timeout",
    "too_",
    "trunc",
    "xoff",
];

/// What a number after it counts: priorities, traffic classes, lanes, buffer groups. All else is numbered by queue.
const NO_QUEUES: &[&str] = &["prio", "priority", "pri", "pripause", "ppp", "cos", "tc", "pg", "lane", "bg"];

/// What is kept of an answer: names of NAME_LEN bytes each (ETHTOOL_GSTRINGS), and as many values of 8 bytes in the
/// machine's order (ETHTOOL_GSTATS). None where they are not as many: then the driver's set changed in between.
pub fn decode_statistics(names: &[u8], values: &[u8]) -> Option<BTreeMap<String, u64>> {
    let names: Vec<String> = names.chunks_exact(NAME_LEN).map(parse_name).collect();
    let values =
        values.chunks_exact(8).map(|bytes| bytes.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b)));
    if names.len() != values.len() {
        return None;
    }
    let known: HashSet<&str> = names.iter().map(String::as_str).collect();
    let mut kept = Statistics::new();
    for (name, value) in names.iter().zip(values).filter(|(name, _)| tells_of_trouble(name)) {
        match Numbered::of(name).filter(|numbered| known.contains(numbered.with("0").as_str())) {
            None => drop(kept.insert(name.clone(), value)),
            // The driver adds them up itself.
            Some(numbered) if known.contains(numbered.with("").as_str()) => {}
            Some(numbered) => {
                let sum = kept.entry(numbered.with("*")).or_default();
                *sum = sum.saturating_add(value);
            }
        }
    }
    Some(kept)
}

/// Up to the first zero; some drivers fill up with blanks.
fn parse_name(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).trim().to_owned()
}

fn tells_of_trouble(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TROUBLE.iter().any(|word| name.contains(word))
}

/// A name around the number of a queue, as `rx_queue_3_drops`. There is a queue 0, which tells the name from one like
/// `rx_64_bytes`.
struct Numbered<'a> {
    before: &'a str,
    after: &'a str,
}

impl<'a> Numbered<'a> {
    fn of(name: &'a str) -> Option<Numbered<'a>> {
        let at = name.find(|c: char| c.is_ascii_digit())?;
        let (before, rest) = name.split_at(at);
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let word = before.trim_end_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
        (!NO_QUEUES.iter().any(|other| word.ends_with(other))).then_some(Numbered { before, after })
    }

    fn with(&self, number: &str) -> String {
        format!("{}{number}{}", self.before, self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel gives them.
    fn answer(statistics: &[(&str, u64)]) -> (Vec<u8>, Vec<u8>) {
        let name = |name: &str| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(NAME_LEN, 0);
            bytes
        };
        let names = statistics.iter().flat_map(|(n, _)| name(n)).collect();
        (names, statistics.iter().flat_map(|(_, value)| value.to_ne_bytes()).collect())
    }

    fn decode(statistics: &[(&str, u64)]) -> Vec<(String, u64)> {
        let (names, values) = answer(statistics);
        decode_statistics(&names, &values).unwrap().into_iter().collect()
    }

    fn assert_kept(given: &[(&str, u64)], kept: &[(&str, u64)]) {
        let kept: Vec<(String, u64)> = kept.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        assert_eq!(decode(given), kept);
    }

    /// Names of mlx5 (en_stats.c).
    #[test]
    fn discards_pauses_and_stalls_of_a_port_are_kept_and_traffic_is_not() {
        assert_kept(
            &[
                ("rx_packets", 1),
                ("rx_out_of_buffer", 2),
                ("rx_discards_phy", 3),
                ("rx_64_bytes_phy", 4),
                ("rx_prio3_bytes", 5),
                ("rx_prio3_discards", 6),
                ("rx_prio3_pause", 7),
                ("tx_prio3_pause_duration", 8),
                ("tx_pause_storm_error_events", 9),
                ("outbound_pci_stalled_wr_events", 10),
                ("rx_pci_signal_integrity", 11),
                ("link_down_events_phy", 12),
                ("rx_err_lane_0_phy", 13),
            ],
            &[
                ("link_down_events_phy", 12),
                ("outbound_pci_stalled_wr_events", 10),
                ("rx_discards_phy", 3),
                ("rx_err_lane_0_phy", 13),
                ("rx_out_of_buffer", 2),
                ("rx_pci_signal_integrity", 11),
                ("rx_prio3_discards", 6),
                ("rx_prio3_pause", 7),
                ("tx_pause_storm_error_events", 9),
                ("tx_prio3_pause_duration", 8),
            ],
        );
    }

    /// Names of bnxt, ice, cxgb4, virtio_net and mlx5.
    #[test]
    fn priorities_stay_apart_and_queues_are_added_up() {
        assert_kept(
            &[
                ("rx_pfc_ena_frames_pri0", 1),
                ("tx_priority_0_xoff.nic", 2),
                ("rx_discard_packets_cos0", 3),
                ("RxPPP0Frames       ", 4),
                ("[0]: rx_discards", 5),
                ("[1]: rx_discards", 6),
                ("rx_queue_0_drops", 7),
                ("rx_queue_12_drops", 8),
                ("rx_queue_0_packets", 9),
            ],
            &[
                ("RxPPP0Frames", 4),
                ("[*]: rx_discards", 11),
                ("rx_discard_packets_cos0", 3),
                ("rx_pfc_ena_frames_pri0", 1),
                ("rx_queue_*_drops", 15),
                ("tx_priority_0_xoff.nic", 2),
            ],
        );
    }

    #[test]
    fn queues_are_left_out_where_the_driver_adds_them_up() {
        let given = [("rx_buff_alloc_err", 5), ("rx0_buff_alloc_err", 2), ("rx1_buff_alloc_err", 3)];
        assert_kept(&given, &[("rx_buff_alloc_err", 5)]);
    }

    #[test]
    fn a_sum_over_queues_stops_at_the_largest_number() {
        assert_kept(&[("rx0_drops", u64::MAX), ("rx1_drops", 1)], &[("rx*_drops", u64::MAX)]);
    }

    #[test]
    fn a_set_that_changed_between_the_questions_is_told() {
        let (names, values) = answer(&[("rx_drops", 1), ("tx_drops", 2)]);
        assert_eq!(decode_statistics(&names, &values[..8]), None);
        assert_eq!(decode_statistics(&names[..NAME_LEN], &values), None);
        assert_eq!(decode_statistics(&[], &[]), Some(BTreeMap::new()));
    }

    #[test]
    fn a_name_without_end_and_one_that_is_no_text_are_read() {
        let long = "rx_drops_of_a_name_of_32_bytes__";
        assert_eq!(long.len(), NAME_LEN);
        assert_kept(&[(long, 1)], &[(long, 1)]);
        let (mut names, values) = answer(&[("rx_drops", 1)]);
        names[0] = 0xff;
        assert_eq!(decode_statistics(&names, &values).unwrap().keys().next().unwrap(), "\u{fffd}x_drops");
    }
}
