//! The GID table of a port. One read an entry finds the set ones; only those are asked for type and netdev.

use rocade_core::{Gid, GidEntry, GidIndex, GidType, Transport};

use crate::attributes::{Attributes, read_text, to_text};
use crate::root::Answer;

/// Indexes of the table, set or not; None where it cannot be listed.
pub(crate) fn read_indexes(port: &mut Attributes<'_>) -> Option<Vec<u32>> {
    let names = match port.root.list(port.dir.join("gids")) {
        Ok(names) => names,
        Err(refusal) => {
            port.refused("gids", refusal);
            return None;
        }
    };
    let mut indexes: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    indexes.sort_unstable();
    Some(indexes)
}

/// What stands in the file of an unset entry.
const UNSET: &[u8] = b"0000:0000:0000:0000:0000:0000:0000:0000\n";

/// The set entries at these indexes. An unset entry reads as zero, on InfiniBand also as the bare prefix fe80::; its
/// type and netdev fail with EINVAL.
pub(crate) fn read_gids(port: &mut Attributes<'_>, indexes: &[u32], transport: Transport) -> Vec<GidEntry> {
    // Tables are long and nearly empty: an unset entry costs its reading and no more.
    let mut file = port.dir.join("gids");
    let entry = |index: &u32| {
        file.push(index.to_string());
        let answer = port.root.read(&file);
        file.pop();
        match answer {
            Ok(content) if content == UNSET => None,
            answer => read_entry(port, *index, answer, transport),
        }
    };
    indexes.iter().filter_map(entry).collect()
}

fn read_entry(
    port: &mut Attributes<'_>,
    index: u32,
    answer: Answer<Vec<u8>>,
    transport: Transport,
) -> Option<GidEntry> {
    let gid: Gid = port.parsed("gids", answer.map(to_text), |text| text.parse().ok())?;
    if gid.is_zero() || transport != Transport::Roce && gid.is_bare_prefix() {
        return None;
    }
    let attribute = |kind: &str| {
        let path = port.dir.join("gid_attrs").join(kind).join(index.to_string());
        read_text(port.root, &path).ok()
    };
    Some(GidEntry {
        index: GidIndex(index),
        gid,
        gid_type: attribute("types").as_deref().and_then(parse_type),
        netdev: match transport {
            // There the file always fails.
            Transport::Infiniband | Transport::Opa => None,
            _ => attribute("ndevs").filter(|name| !name.is_empty()),
        },
        address: gid.address().filter(|_| transport == Transport::Roce),
    })
}

fn parse_type(text: &str) -> Option<GidType> {
    match text {
        "IB/RoCE v1" => Some(GidType::V1),
        "RoCE v2" => Some(GidType::V2),
        _ => None,
    }
}
