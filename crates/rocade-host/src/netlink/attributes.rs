//! Netlink attributes as a map from kind to bytes; of one that is repeated the last counts.

use std::collections::BTreeMap;

use netlink_packet_core::{NlaBuffer, NlasIterator};

pub(super) struct Attributes<'a>(BTreeMap<u16, &'a [u8]>);

impl<'a> Attributes<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Option<Self> {
        Some(Attributes(split(payload)?.into_iter().collect()))
    }

    pub(super) fn raw(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.get(&kind).copied()
    }

    pub(super) fn bytes<const N: usize>(&self, kind: u16) -> Option<[u8; N]> {
        self.raw(kind)?.try_into().ok()
    }

    pub(super) fn byte(&self, kind: u16) -> Option<u8> {
        self.bytes::<1>(kind).map(|[b]| b)
    }

    pub(super) fn word(&self, kind: u16) -> Option<u32> {
        self.bytes(kind).map(u32::from_ne_bytes)
    }

    pub(super) fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.raw(kind)?;
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// All attributes in their order.
pub(super) fn split(payload: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut found = Vec::new();
    for attribute in NlasIterator::new(payload) {
        let attribute: NlaBuffer<&[u8]> = attribute.ok()?;
        let end = usize::from(attribute.length());
        found.push((attribute.kind(), attribute.into_inner().get(4..end)?));
    }
    Some(found)
}

/// Adds an attribute, padded to four bytes, behind what is so already.
pub(super) fn put(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// One attribute alone.
#[cfg(test)]
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, kind, value);
    bytes
}
