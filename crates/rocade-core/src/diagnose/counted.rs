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

    /// All that grew.
    pub fn all_grown(&self) -> BTreeMap<String, u64> {
        self.0.iter().filter(|(_, grown)| **grown > 0).map(|(name, grown)| (name.clone(), *grown)).collect()
    }

    /// Those of the names that grew, as `packet_seq_err +3`; None where none did.
    pub(super) fn grown_in_words(&self, names: &[&str]) -> Option<String> {
        let grown = names.iter().filter_map(|name| Some((name, self.of(name).filter(|grown| *grown > 0)?)));
        let words: Vec<String> = grown.map(|(name, grown)| format!("{name} +{grown}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
