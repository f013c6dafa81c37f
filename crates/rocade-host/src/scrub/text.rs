//! Finds in any text what must be replaced, by its form alone: addresses as people and kernels write them, and the
//! known ones also as bare hexadecimal digits, in either byte order. What a file means is not known here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Scrubber;
use super::addresses::IPOIB;
use super::words::{replace_hex, replace_word};

/// Length of a UUID with its dashes.
const UUID: usize = 36;

/// What may be taken for an address in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Anything.
    Plain,
    /// A version: four numbers with dots in between are none.
    Version,
    /// Free text: any word may be a name.
    Free,
}

impl Scrubber {
    /// The text with names, serial numbers and addresses replaced.
    pub(super) fn replace(&self, text: &str, kind: Kind) -> String {
        let mut out = String::with_capacity(text.len());
        self.replace_words(text, &self.words, kind, &mut out);
        out
    }

    fn replace_words(&self, text: &str, words: &[(String, String)], kind: Kind, out: &mut String) {
        let Some(((word, replacement), fewer)) = words.split_first() else {
            return self.replace_addresses(text, kind, out);
        };
        let mut rest = text;
        while let Some(at) = find_word(rest, word) {
            self.replace_words(&rest[..at], fewer, kind, out);
            out.push_str(replacement);
            rest = &rest[at + word.len()..];
        }
        self.replace_words(rest, fewer, kind, out);
    }

    fn replace_addresses(&self, text: &str, kind: Kind, out: &mut String) {
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let token = next_token(&text[at..]);
            if token.is_empty() {
                out.push(c);
                at += c.len_utf8();
                continue;
            }
            let after = &text[at + token.len()..];
            let dashed = at > 0 && text.as_bytes()[at - 1] == b'-';
            // An address behind a dash is part of a version more often than not; a known one is not.
            let kind = if dashed && kind == Kind::Plain { Kind::Version } else { kind };
            match token.len() {
                UUID if is_uuid(token) => out.push_str(&replace_hex(&self.key, token)),
                _ if token.contains([':', '.', '-']) => {
                    out.push_str(&self.replace_run(token, parse_prefix(after), kind));
                }
                _ => out.push_str(&self.replace_plain_word(token, kind)),
            }
            at += token.len();
        }
    }

    /// Digits, colons and dots in a row: an address, or several things with colons in between
    /// (`ip=10.0.0.5::10.0.0.1:255.255.255.0:`).
    fn replace_run(&self, run: &str, prefix: Option<u8>, kind: Kind) -> String {
        let inner = run.trim_matches([':', '.']);
        for part in [run, run.trim_end_matches('.'), inner] {
            if let Some(replacement) = self.replace_address(part, prefix, kind) {
                return run.replacen(part, &replacement, 1);
            }
        }
        let piece = |piece: &str| match self.replace_address(piece, None, kind) {
            Some(replacement) => replacement,
            None => {
                let words = piece.split('.').map(|word| self.replace_plain_word(word, kind));
                words.collect::<Vec<_>>().join(".")
            }
        };
        run.split(':').map(piece).collect::<Vec<_>>().join(":")
    }

    fn replace_address(&self, token: &str, prefix: Option<u8>, kind: Kind) -> Option<String> {
        let groups = |by: char, width: usize| parse_groups(token, by, width);
        let replacement = match (groups(':', 2), groups('-', 2), groups('.', 4), groups(':', 4)) {
            (Some(bytes), ..) => print_groups(&self.replace_bytes(&bytes)?, ":", 1),
            (_, Some(bytes), ..) => print_groups(&self.addresses.mac(bytes.try_into().ok()?), "-", 1),
            (_, _, Some(bytes), _) => print_groups(&self.addresses.mac(bytes.try_into().ok()?), ".", 2),
            (.., Some(bytes)) => match bytes.len() {
                8 => print_groups(&self.addresses.guid(bytes.try_into().ok()?), ":", 2),
                16 => print_groups(&self.addresses.gid(bytes.try_into().ok()?), ":", 2),
                _ => return None,
            },
            _ => return self.replace_ip(token, prefix, kind),
        };
        Some(if token.contains(|c: char| c.is_ascii_uppercase()) {
            replacement.to_uppercase()
        } else {
            replacement
        })
    }

    fn replace_bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match bytes.len() {
            6 => Some(self.addresses.mac(bytes.try_into().ok()?).to_vec()),
            8 => Some(self.addresses.guid(bytes.try_into().ok()?).to_vec()),
            IPOIB => Some(self.addresses.ipoib(bytes.try_into().ok()?).to_vec()),
            _ => None,
        }
    }

    fn replace_ip(&self, token: &str, prefix: Option<u8>, kind: Kind) -> Option<String> {
        if let Ok(v4) = token.parse::<Ipv4Addr>() {
            let is_known = || self.hex.contains_key(&print_groups(&v4.octets(), "", 1));
            return (kind != Kind::Version || is_known())
                .then(|| self.replace_net(v4.into(), prefix).to_string());
        }
        let v6 = token.parse::<Ipv6Addr>().ok()?;
        Some(self.replace_net(v6.into(), prefix).to_string())
    }

    /// An address, or with the length of a prefix perhaps a subnet, whose other bits are zero and stay so.
    pub(super) fn replace_net(&self, address: IpAddr, prefix: Option<u8>) -> IpAddr {
        let replacement = self.addresses.ip(address);
        match (address, replacement, prefix) {
            (IpAddr::V4(from), IpAddr::V4(to), Some(prefix @ 0..32)) => {
                let host = u32::MAX >> prefix;
                if from.to_bits() & host == 0 {
                    Ipv4Addr::from_bits(to.to_bits() & !host).into()
                } else {
                    to.into()
                }
            }
            (IpAddr::V6(from), IpAddr::V6(to), Some(prefix @ 0..128)) => {
                let host = u128::MAX >> prefix;
                if from.to_bits() & host == 0 {
                    Ipv6Addr::from_bits(to.to_bits() & !host).into()
                } else {
                    to.into()
                }
            }
            _ => replacement,
        }
    }

    fn replace_plain_word(&self, word: &str, kind: Kind) -> String {
        let replacement = self.replace_hex(word);
        if kind == Kind::Free && replacement == word { replace_word(&self.key, word) } else { replacement }
    }

    /// A word that holds known addresses as bare digits (`enx0c42a1036700`, `0A080A04`).
    pub(super) fn replace_hex(&self, word: &str) -> String {
        if let Some(replacement) = self.replace_named_by_address(word) {
            return replacement;
        }
        let lower = word.to_ascii_lowercase();
        let mut out = String::with_capacity(word.len());
        while let Some(c) = word[out.len()..].chars().next() {
            let at = out.len();
            let known = [32, 16, 12, 8].iter().find_map(|length| {
                let digits = lower.get(at..at + length)?;
                let replacement = self.hex.get(digits)?;
                (*length > 8 || is_alone(&lower, at, at + length)).then_some((at + length, replacement))
            });
            match known {
                Some((end, replacement)) if word[at..end].contains(|c: char| c.is_ascii_uppercase()) => {
                    out.push_str(&replacement.to_uppercase());
                }
                Some((_, replacement)) => out.push_str(replacement),
                None => out.push(c),
            }
        }
        out
    }

    /// A device named by its address, as systemd and rdma-core do it, also where the address stands nowhere else.
    fn replace_named_by_address(&self, name: &str) -> Option<String> {
        let (kind, digits) = name.split_once('x')?;
        if !["en", "ib", "iw", "opa", "roce", "sl", "usnic", "wl", "ww"].contains(&kind) {
            return None;
        }
        let bytes = parse_groups(digits, '\0', digits.len())?;
        Some(format!("{kind}x{}", print_groups(&self.replace_bytes(&bytes)?, "", 1)))
    }
}

/// Where a word stands that is not part of a longer one.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).map(|(at, _)| at).find(|at| {
        let after = &text[at + word.len()..];
        !text[..*at].ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// What the text starts with: a run that may be an address, or a word, or nothing.
fn next_token(text: &str) -> &str {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let length = |is_part: &dyn Fn(u8) -> bool| text.bytes().take_while(|b| is_part(*b)).count();
    let ends = |end: usize| !text.as_bytes().get(end).is_some_and(|b| is_word(*b));
    let dash_at = |at: usize| text.as_bytes().get(at) == Some(&b'-');
    if dash_at(8) && text.get(..UUID).is_some_and(is_uuid) && ends(UUID) {
        return &text[..UUID];
    }
    if dash_at(2) && text.get(..17).is_some_and(|mac| parse_groups(mac, '-', 2).is_some()) && ends(17) {
        return &text[..17];
    }
    let run = &text[..length(&|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')];
    if ends(run.len()) {
        return run;
    }
    match run.rfind([':', '.']) {
        Some(last) => &run[..=last],
        None => &text[..length(&is_word)],
    }
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// Groups of so many hexadecimal digits with a sign in between; None where any is longer or shorter, or where there
/// is but one.
fn parse_groups(text: &str, by: char, width: usize) -> Option<Vec<u8>> {
    if by != '\0' && text.len() <= width || width == 0 || !width.is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    let mut bytes = Vec::new();
    for group in text.split(by) {
        if group.len() != width || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let byte = |at: usize| u8::from_str_radix(&group[at..at + 2], 16).ok();
        bytes.extend((0..width).step_by(2).filter_map(byte));
    }
    Some(bytes)
}

/// Inverse of [`parse_groups`], with so many bytes a group.
pub(super) fn print_groups(bytes: &[u8], by: &str, width: usize) -> String {
    let group = |group: &[u8]| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(width).map(group).collect::<Vec<_>>().join(by)
}

/// `/24` after an address.
fn parse_prefix(after: &str) -> Option<u8> {
    let digits = after.strip_prefix('/')?;
    digits[..digits.bytes().take_while(u8::is_ascii_digit).count()].parse().ok()
}

/// Whether no further hexadecimal digits stand before or after; `0x` is none.
fn is_alone(text: &str, start: usize, end: usize) -> bool {
    let is_digit = |c: char| c.is_ascii_hexdigit();
    let before = &text[..start];
    (before == "0x" || !before.ends_with(is_digit)) && !text[end..].starts_with(is_digit)
}
