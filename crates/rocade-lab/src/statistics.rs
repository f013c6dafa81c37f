//! What rocade says that drivers count of an interface, held against `ethtool -S`: each value between those that ethtool
//! gave before and after, and nothing left out that a person would look for. Asks nobody.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

/// Names with one of these tell of trouble, whatever the driver.
const WANTED: [&str; 4] = ["drop", "discard", "error", "pause"];

/// Holds what rocade said against what `ethtool -S` said before and after. Gives the number of names.
///
/// # Errors
/// A value that ethtool did not give, a name that it has and rocade has not, or nothing to compare.
pub fn compare(ours: &BTreeMap<String, u64>, before: &str, after: &str) -> Result<usize> {
    let (before, after) = (parse(before), parse(after));
    for (name, value) in ours {
        let sum = |theirs: &[(&str, u64)]| {
            let alike: Vec<u64> =
                theirs.iter().filter(|(n, _)| stands_for(name, n)).map(|(_, v)| *v).collect();
            (!alike.is_empty()).then(|| alike.iter().sum::<u64>())
        };
        let (least, most) =
            sum(&before).zip(sum(&after)).with_context(|| format!("ethtool has no {name}"))?;
        ensure!((least..=most).contains(value), "{name}: {value}, ethtool says {least} and then {most}");
    }
    for (name, _) in after.iter().filter(|(name, _)| WANTED.iter().any(|word| name.contains(word))) {
        let total = name.replace(|c: char| c.is_ascii_digit(), "");
        let kept = ours.keys().any(|ours| stands_for(ours, name) || *ours == total);
        ensure!(kept, "ethtool has {name}, which is left out of {ours:?}");
    }
    ensure!(!ours.is_empty(), "nothing to compare: ethtool says {after:?}");
    Ok(ours.len())
}

/// `     rx_drops: 0`; the name may hold a colon.
fn parse(said: &str) -> Vec<(&str, u64)> {
    let line = |line| -> Option<(&str, u64)> {
        let (name, value) = str::rsplit_once(line, ": ")?;
        Some((name.trim(), value.parse().ok()?))
    };
    said.lines().filter_map(line).collect()
}

/// Whether `rx*_drops` stands for `rx3_drops`, or a name for itself.
fn stands_for(ours: &str, theirs: &str) -> bool {
    let Some((before, after)) = ours.split_once('*') else { return ours == theirs };
    let number = theirs.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "NIC statistics:\n     rx_drops: 3\n     rx0_drops: 1\n     rx1_drops: 2\n     [0]: tx_errors: 4\n     [1]: tx_errors: 5\n     rx_kicks: 9\n";

    fn ours(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
        all.iter().map(|(name, value)| (name.to_string(), *value)).collect()
    }

    #[test]
    fn values_sums_and_names_are_compared() {
        let same = [("rx_drops", 3), ("[*]: tx_errors", 9)];
        assert_eq!(compare(&ours(&same), SAID, SAID).unwrap(), 2);
        let error = |all: &[(&str, u64)]| compare(&ours(all), SAID, SAID).unwrap_err().to_string();
        assert_eq!(error(&[("rx_drops", 4), same[1]]), "rx_drops: 4, ethtool says 3 and then 3");
        assert_eq!(error(&[("tx_drops", 0)]), "ethtool has no tx_drops");
        assert!(error(&same[..1]).starts_with("ethtool has [0]: tx_errors, which is left out"));
        assert!(compare(&ours(&[]), "NIC statistics:\n", "NIC statistics:\n").is_err());
        assert_eq!(compare(&ours(&same), SAID, &SAID.replace("drops: 3", "drops: 7")).unwrap(), 2);
    }
}
