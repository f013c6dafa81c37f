//! Replacements within files that are no text: vital product data, PCI config space, and known addresses in any
//! other bytes.

use std::collections::HashMap;

use super::Scrubber;
use super::text::Kind;
use super::words::{replace_hex, replace_word};

/// Where the extended capabilities of config space start, and the one that holds a serial number (PCIe 7.9.3).
const EXTENDED: usize = 0x100;
const DEVICE_SERIAL: u16 = 3;

/// Tags of vital product data (PCI 3.0 appendix I).
const READ_ONLY: u8 = 0x90;
const READ_WRITE: u8 = 0x91;

/// A field of vital product data.
pub(super) struct Field {
    pub(super) keyword: [u8; 2],
    /// Where its content lies.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Field {
    /// Serial number, asset tag, or a maker's own field that holds an identifier and no text.
    pub(super) fn tells_the_device(&self, vpd: &[u8]) -> bool {
        let content = &vpd[self.start..self.end];
        match &self.keyword {
            b"SN" | b"YA" => true,
            [b'V' | b'Y', _] => content.len() >= 12 && content.iter().all(u8::is_ascii_hexdigit),
            _ => false,
        }
    }
}

/// The fields of vital product data, as far as it can be read.
pub(super) fn parse_vpd(vpd: &[u8]) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut at = 0;
    while let Some(tag @ 0x80..) = vpd.get(at).copied() {
        let Some([low, high]) = vpd.get(at + 1..at + 3) else { break };
        let end = (at + 3 + usize::from(u16::from_le_bytes([*low, *high]))).min(vpd.len());
        at += 3;
        while matches!(tag, READ_ONLY | READ_WRITE) && at + 3 <= end {
            let start = at + 3;
            let next = (start + usize::from(vpd[at + 2])).min(end);
            fields.push(Field { keyword: [vpd[at], vpd[at + 1]], start, end: next });
            at = next;
        }
        at = end;
    }
    fields
}

impl Scrubber {
    /// Vital product data; its checksum stays right.
    pub(super) fn replace_vpd(&self, vpd: &[u8]) -> Vec<u8> {
        let mut out = vpd.to_vec();
        for field in parse_vpd(vpd).iter().filter(|field| field.tells_the_device(vpd)) {
            let Ok(content) = str::from_utf8(&vpd[field.start..field.end]) else {
                out[field.start..field.end].fill(b'x');
                continue;
            };
            let replacement = match field.keyword {
                [b'V' | b'Y', b'0'..=b'9'] => replace_hex(&self.key, content),
                _ => self.replace_serial(content),
            };
            if replacement.len() == content.len() {
                out[field.start..field.end].copy_from_slice(replacement.as_bytes());
            }
        }
        let mut out = self.replace_bytes_within(&out);
        for field in parse_vpd(vpd).iter().filter(|field| field.keyword == *b"RV" && field.start < field.end)
        {
            let sum = |bytes: &[u8]| bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
            let was_right = sum(&vpd[..=field.start]) == 0;
            let rest = sum(&out[..field.start]);
            out[field.start] = if was_right { rest.wrapping_neg() } else { out[field.start] };
        }
        out
    }

    /// A serial number as people write it.
    pub(super) fn replace_serial(&self, serial: &str) -> String {
        let word = serial.trim();
        serial.replacen(word, &replace_word(&self.key, word), usize::from(!word.is_empty()))
    }

    /// Config space; of its capabilities only the device's serial number names it.
    pub(super) fn replace_config(&self, config: &[u8]) -> Vec<u8> {
        let mut out = config.to_vec();
        let mut at = EXTENDED;
        // A chain that loops ends when as many were seen as there is room for.
        for _ in 0..config.len() / 4 {
            let word = |at: usize| config.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
            let Some(header) = word(at).filter(|header| *header != 0) else { break };
            if let (DEVICE_SERIAL, Some(serial)) = (header as u16, config.get(at + 4..at + 12)) {
                let mut guid = [0; 8];
                guid.copy_from_slice(serial);
                guid.reverse();
                let mut replacement = self.addresses.guid(guid);
                replacement.reverse();
                out[at + 4..at + 12].copy_from_slice(&replacement);
            }
            at = (header >> 20) as usize & !3;
            if at < EXTENDED {
                break;
            }
        }
        self.replace_bytes_within(&out)
    }

    /// Any bytes: stretches of text as text, and known MACs, GUIDs and GIDs in either byte order.
    pub(super) fn replace_bytes_within(&self, content: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(content.len());
        for stretch in content.chunk_by(|a, b| is_text(*a) == is_text(*b)) {
            match str::from_utf8(stretch) {
                Ok(words) if is_text(stretch[0]) && stretch.len() >= 6 => {
                    let replacement = self.replace(words, Kind::Version);
                    let fits = replacement.len() == words.len();
                    text.extend_from_slice(if fits { replacement.as_bytes() } else { stretch });
                }
                _ => text.extend_from_slice(stretch),
            }
        }
        replace_known(&self.raw, text)
    }
}

fn is_text(byte: u8) -> bool {
    (b' '..=b'~').contains(&byte)
}

fn replace_known(known: &HashMap<Vec<u8>, Vec<u8>>, mut content: Vec<u8>) -> Vec<u8> {
    let mut starts = [false; 256];
    known.keys().for_each(|from| starts[usize::from(from[0])] = true);
    let mut at = 0;
    while at < content.len() {
        let window = |length: &usize| known.get(content.get(at..at + length)?);
        let found = if starts[usize::from(content[at])] { [16, 8, 6].iter().find_map(window) } else { None };
        at += match found {
            Some(replacement) => {
                let end = at + replacement.len();
                content[at..end].copy_from_slice(replacement);
                replacement.len()
            }
            None => 1,
        };
    }
    content
}
