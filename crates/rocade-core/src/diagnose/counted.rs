//! What a port counted between two readings.

use std::collections::BTreeMap;

use crate::host::Counter;

/// Counter → how much it grew: of the whole port, other connections included. One that was not read twice, stood at its
/// most, or became smaller (it was reset) is not among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted(BTreeMap<String, u64>);

impl Counted {
    /// From the counters before and after.
    pub fn between(before: &[Counter], after: &[Counter]) -> Counted {
        let grown = after.iter().filter_map(|now| {
            let was = before.iter().find(|was| was.file == now.file).filter(|was| !was.saturated)?;
            let grown = now.value?.checked_sub(was.value?)?;
            Some((now.file.rsplit('/').next()?.to_owned(), grown))
        });
        Counted(grown.collect())
    }

    /// Growth of a counter by the name of its file, as `out_of_sequence`; None where it is not known.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    /// Those of the names that grew, with their growth.
    pub(super) fn grown<'a>(&self, names: &'a [&'a str]) -> Vec<(&'a str, u64)> {
        names.iter().filter_map(|name| Some((*name, self.of(name).filter(|grown| *grown > 0)?))).collect()
    }

    /// Those of the names that grew in words, as `packet_seq_err 3 more`; None where none did.
    pub(super) fn grown_in_words(&self, names: &[&str]) -> Option<String> {
        let grown = self.grown(names);
        let words: Vec<String> = grown.iter().map(|(name, grown)| format!("{name} +{grown}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
