//! How names, binary content and runs of equal entries are spelled in the text form. Each pair of functions is
//! inverse to each other.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Zero bytes in a row from which on they are counted instead of written.
const MIN_ZEROS: usize = 8;

/// A name or path as one word: bytes that would part words or lines, or that are no text, as `%20`. Two dots in a
/// row would read as a run.
pub(super) fn print_name(name: &OsStr) -> String {
    let mut out = String::new();
    let mut last_dot = false;
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            let dotted = c == '.' && last_dot;
            if c == '%' || c.is_whitespace() || c.is_control() || dotted {
                let mut bytes = [0; 4];
                print_escaped(c.encode_utf8(&mut bytes).as_bytes(), &mut out);
            } else {
                out.push(c);
            }
            last_dot = c == '.' && !dotted;
        }
        print_escaped(chunk.invalid(), &mut out);
    }
    out
}

fn print_escaped(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "%{byte:02x}");
    }
}

pub(super) fn parse_name(word: &str) -> Option<OsString> {
    let mut bytes = Vec::new();
    let mut parts = word.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        bytes.push(parse_byte(hex)?);
        bytes.extend(rest.bytes());
    }
    Some(OsString::from_vec(bytes))
}

/// Like a name, but as part of the path or link target, where dots climb.
pub(super) fn print_path(path: &OsStr) -> String {
    print_name(path).replace(".%2e", "..")
}

/// Hexadecimal, with long runs of zero bytes as `0*4000`; `-` for nothing.
pub(super) fn print_bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    let mut words: Vec<String> = vec![];
    let mut hex = String::new();
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        let zeros = rest.iter().take_while(|b| **b == 0).count();
        if zeros >= MIN_ZEROS {
            words.extend((!hex.is_empty()).then(|| std::mem::take(&mut hex)));
            words.push(format!("0*{zeros}"));
            rest = &rest[zeros..];
        } else {
            let _ = write!(hex, "{first:02x}");
            rest = tail;
        }
    }
    words.extend((!hex.is_empty()).then_some(hex));
    words.join(" ")
}

/// `limit` bounds the result: a count may claim anything.
pub(super) fn parse_bytes(text: &str, limit: usize) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(vec![]);
    }
    let mut bytes = vec![];
    for word in text.split(' ') {
        if let Some(count) = word.strip_prefix("0*") {
            let length = bytes.len().checked_add(count.parse().ok()?).filter(|length| *length <= limit)?;
            bytes.resize(length, 0);
        } else {
            for at in (0..word.len()).step_by(2) {
                bytes.push(parse_byte(word.get(at..at + 2)?)?);
            }
        }
    }
    (bytes.len() <= limit && !bytes.is_empty()).then_some(bytes)
}

fn parse_byte(hex: &str) -> Option<u8> {
    let plain = hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}

/// A name that stands for a table's index: decimal, no leading zero.
pub(super) fn parse_index(name: &OsStr) -> Option<u32> {
    let text = name.to_str()?;
    let index: u32 = text.parse().ok()?;
    (index.to_string() == text).then_some(index)
}

/// `4..254`: the entries 4 to 254 are alike.
pub(super) fn parse_run(word: &str) -> Option<(u32, u32)> {
    let (first, last) = word.split_once("..")?;
    let (first, last) = (parse_index(OsStr::new(first))?, parse_index(OsStr::new(last))?);
    (first < last).then_some((first, last))
}
