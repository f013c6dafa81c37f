//! What is wrong at one place of a configuration, before it is known where that is; and the nearest of several words.

use crate::finding::{Finding, Severity};

/// What is wrong, as a finding has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    /// A code of [`CODES`].
    pub(super) code: &'static str,
    pub(super) seen: String,
    pub(super) wanted: String,
    pub(super) cure: String,
}

/// The codes that configurations have.
const CODES: [&str; 17] = [
    "RDC701", "RDC702", "RDC703", "RDC704", "RDC705", "RDC706", "RDC707", "RDC708", "RDC709", "RDC710",
    "RDC711", "RDC712", "RDC713", "RDC714", "RDC715", "RDC716", "RDC717",
];

/// Parts the fields where an error has room for one text alone; no text of a configuration holds it unescaped.
const SEPARATOR: char = '\u{1f}';

impl Wrong {
    pub(super) fn new(code: &'static str, seen: impl Into<String>, wanted: impl Into<String>) -> Self {
        Wrong { code, seen: seen.into(), wanted: wanted.into(), cure: String::new() }
    }

    pub(super) fn with_cure(self, cure: impl Into<String>) -> Self {
        Wrong { cure: cure.into(), ..self }
    }

    /// The finding, told of `subject`.
    pub(super) fn finding(self, severity: Severity, subject: String) -> Finding {
        let Wrong { code, seen, wanted, cure } = self;
        Finding { code, severity, subject, seen, wanted, cure }
    }

    /// One text, for serde's and garde's errors.
    pub(super) fn pack(&self) -> String {
        [self.code, &self.seen, &self.wanted, &self.cure].join(&SEPARATOR.to_string())
    }

    /// What [`Wrong::pack`] made; None for other text.
    pub(super) fn unpack(text: &str) -> Option<Wrong> {
        let fields: Vec<&str> = text.split(SEPARATOR).collect();
        let [code, seen, wanted, cure] = fields[..] else { return None };
        let code = CODES.iter().find(|known| **known == code)?;
        Some(Wrong::new(code, seen, wanted).with_cure(cure))
    }
}

/// A value in messages: control characters escaped, and so the separator too.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", text.escape_debug())
}

/// The word that takes the fewest changes; None where nothing is alike.
pub(crate) fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let near = words.iter().map(|known| (distance(&word, &known.to_ascii_lowercase()), *known));
    let (changes, known) = near.min_by_key(|(changes, _)| *changes)?;
    (changes * 2 <= known.len().max(word.len())).then_some(known)
}

/// Edit distance: insertions, deletions and replacements that make one of the other.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let wrong = Wrong::new("RDC714", quoted("a\u{1f}b"), "c").with_cure("d");
        assert_eq!(Wrong::unpack(&wrong.pack()), Some(wrong));
        for text in ["", "RDC714", "RDC999\u{1f}a\u{1f}b\u{1f}c", "a\u{1f}b\u{1f}c\u{1f}d\u{1f}e"] {
            assert_eq!(Wrong::unpack(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_nearest_word_is_told_only_where_one_is_alike() {
        assert_eq!(nearest("ifName", &["vendors", "ifNames"]), Some("ifNames"));
        assert_eq!(nearest("Infiniband", &["infiniband", "ethernet"]), Some("infiniband"));
        assert_eq!(nearest("quantity", &["hca", "tokens"]), None);
        assert_eq!(nearest("a", &[]), None);
    }
}
