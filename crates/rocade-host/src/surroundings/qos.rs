//! Quality of service as the vendor's driver package shows it: /sys/class/net/NAME/qos and …/ecn.

use std::path::Path;
use std::str::FromStr;

use rocade_core::host::Qos;

use crate::attributes::{parse_number, read_text};
use crate::root::Root;

/// None without the package.
pub(super) fn read(root: &Root, dir: &Path) -> Option<Qos> {
    let file = |file: &str| read_text(root, &dir.join(file)).ok();
    let trust = file("qos/trust")?;
    Some(Qos {
        trust: Some(trust).filter(|trust| !trust.is_empty()),
        dscp_priorities: file("qos/dscp2prio").and_then(|text| parse_table(&text)),
        priority_buffers: file("qos/prio2buffer").and_then(|text| parse_table(&text)),
        buffer_sizes: file("qos/buffer_size").and_then(|text| parse_table(&text)),
        ecn_notify: read_enabled(root, &dir.join("ecn/roce_np/enable")),
        ecn_react: read_enabled(root, &dir.join("ecn/roce_rp/enable")),
        cnp_dscp: file("ecn/roce_np/cnp_dscp").and_then(|text| text.parse().ok()),
        cnp_priority: file("ecn/roce_np/cnp_802p_prio").and_then(|text| text.parse().ok()),
        cnp_interval_us: file("ecn/roce_np/min_time_between_cnps").and_then(|text| parse_number(&text)),
    })
}

/// Second column of the rows that begin with a number; they stand in the order of that number.
fn parse_table<T: FromStr>(text: &str) -> Option<Vec<T>> {
    let mut column = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(index) = words.next().and_then(|word| word.parse::<usize>().ok()) else { continue };
        if index != column.len() {
            return None;
        }
        column.push(words.next()?.parse().ok()?);
    }
    (!column.is_empty()).then_some(column)
}

/// Priorities whose file says 1.
fn read_enabled(root: &Root, dir: &Path) -> Option<Vec<u8>> {
    let on =
        |priority: &u8| read_text(root, &dir.join(priority.to_string())).ok().is_some_and(|text| text == "1");
    root.list(dir).ok().map(|_| (0..8).filter(on).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_whatever_its_headings() {
        let text = "Port buffer size = 524160\nBuffer\tSize\txoff\n0\t262016\t0\n1\t0\t0\n";
        assert_eq!(parse_table::<u64>(text), Some(vec![262016, 0]));
        assert_eq!(parse_table::<u8>("dscp\tprio\n1\t0\n"), None);
    }
}
