//! Replacements for names and serial numbers: a letter for a letter, a digit for a digit, all else as it is, so that
//! they keep their length and look.

use super::key::Key;

/// Names that every machine has.
const EVERYONES: &[&str] =
    &["localhost", "localhost4", "localhost6", "(none)", "default", "kube-system", "N/A"];

/// A dotted name, label by label: a host is the same with and without its domain.
pub(super) fn replace_name(key: &Key, name: &str) -> String {
    if EVERYONES.contains(&name) {
        return name.to_owned();
    }
    name.split('.').map(|label| replace_word(key, label)).collect::<Vec<_>>().join(".")
}

/// One serial number or label. Nothing but zeros stays: it says that there is none.
pub(super) fn replace_word(key: &Key, word: &str) -> String {
    if word.trim_start_matches("0x").bytes().all(|b| b == b'0') || EVERYONES.contains(&word) {
        return word.to_owned();
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return format!("0x{}", replace_hex(key, hex));
    }
    let mut first = true;
    let replace = |(at, c): (usize, char)| {
        let random = key.hash(&format!("word {at}"), word.as_bytes());
        let turned = turn(c, random, first);
        first &= turned == c;
        turned
    };
    word.char_indices().map(replace).collect()
}

/// Another character of the same kind; where it `must_differ`, never the same.
fn turn(c: char, random: u64, must_differ: bool) -> char {
    let (base, size) = match c {
        '0'..='9' => (b'0', 10),
        'a'..='z' => (b'a', 26),
        'A'..='Z' => (b'A', 26),
        // Nothing of another script may stay.
        _ if c.is_alphanumeric() => return 'x',
        _ => return c,
    };
    let by = if must_differ { 1 + random % (size - 1) } else { random % size };
    char::from(base + ((u64::from(c as u8 - base) + by) % size) as u8)
}

/// A word of hexadecimal digits stays one.
pub(super) fn replace_hex(key: &Key, word: &str) -> String {
    if word.bytes().all(|b| b == b'0') {
        return word.to_owned();
    }
    let mut first = true;
    let replace = |(at, c): (usize, char)| {
        let Some(digit) = c.to_digit(16) else { return c };
        let random = key.hash(&format!("hex {at}"), word.as_bytes()) as u32;
        let by = if first { 1 + random % 15 } else { random % 16 };
        first = false;
        char::from_digit((digit + by) % 16, 16).unwrap_or(c)
    };
    word.char_indices().map(replace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_look_and_a_host_is_known_with_its_domain() {
        let key = Key::from_secret(b"a key");
        let short = replace_name(&key, "gpu-node-17");
        let long = replace_name(&key, "gpu-node-17.example.org");
        assert_eq!(long.split('.').next(), Some(short.as_str()));
        assert!(short != "gpu-node-17" && short.len() == 11 && &short[3..4] == "-", "{short}");
        for kept in ["localhost", "0x00000000", "N/A", ""] {
            assert_eq!(replace_name(&key, kept), kept);
        }
    }

    #[test]
    fn no_word_is_replaced_by_itself() {
        let key = Key::from_secret(b"a key");
        for n in 0..200 {
            let word = n.to_string();
            assert!(n == 0 || replace_word(&key, &word) != word, "{word}");
            let hex = format!("{n:x}");
            assert!(n == 0 || replace_hex(&key, &hex) != hex, "{hex}");
        }
    }
}
