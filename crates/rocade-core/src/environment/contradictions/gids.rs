//! Indexes, families and ranges that the user has set, and what the libraries would take by themselves.

use super::{user, warning};
use crate::environment::devices::Rail;
use crate::environment::gids::{Family, Taken, is_link_local, is_own, nccl_takes, ucx_takes};
use crate::environment::libraries::{Facts, version_in_words};
use crate::environment::{NcclSource, NcclVersion, Network, Reach};
use crate::finding::Finding;
use crate::gid::in_subnet;
use crate::host::{GidEntry, GidType, Port};
use crate::names::GidIndex;

/// An index that the user fixed and that is not that of an own address.
pub(super) fn fixed_index(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in ["NCCL_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "UCX_IB_GID_INDEX", "FI_VERBS_GID_IDX"] {
        let Some(index) = user(facts, name).and_then(|value| value.parse::<u32>().ok()) else { continue };
        let roce = facts.rails.iter().filter(|rail| rail.is_roce());
        let wrong: Vec<String> = roce
            .filter_map(|rail| {
                Some(format!("{} {}", rail.name(), what_is_wrong(facts, rail.port, GidIndex(index))?))
            })
            .collect();
        if !wrong.is_empty() {
            let seen = format!("index {index}: {}", wrong.join("; "));
            let cure = "leave it unset: an index is another one in each Pod";
            found.push(warning("RDC656", name, seen, "the index of an own address on every port", cure));
        }
    }
    found
}

fn what_is_wrong(facts: &Facts<'_>, port: &Port, index: GidIndex) -> Option<String> {
    let Some(entry) = port.gids.iter().find(|entry| entry.index == index) else {
        return Some("has no GID there".into());
    };
    let address = in_words(entry);
    match (entry.gid_type, is_own(facts.host, entry), is_link_local(entry)) {
        (Some(GidType::V1), ..) => Some(format!("has RoCE v1 there ({address})")),
        (_, false, _) => Some(format!("has {address} there, which is none of this namespace")),
        (_, true, true) => Some(format!("has the link-local {address} there")),
        (_, true, false) => None,
    }
}

fn in_words(entry: &GidEntry) -> String {
    entry.address.map_or_else(|| entry.gid.to_string(), |address| address.to_string())
}

/// Family and range that the user set.
pub(super) fn address_choice(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let own: Vec<&GidEntry> = facts.fabric.nccl_roce().filter_map(|rail| rail.own).collect();
    for (family, range) in
        [("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE"), ("NVSHMEM_IB_ADDR_FAMILY", "NVSHMEM_IB_ADDR_RANGE")]
    {
        if let Some(value) = user(facts, family) {
            let fits = |entry: &&GidEntry| Some(Family::of(entry)) == Family::of_variable(value);
            if Family::of_variable(value).is_none() || (!own.is_empty() && !own.iter().any(fits)) {
                let seen = format!("{value}: no own address is of it");
                found.push(warning(
                    "RDC657",
                    family,
                    seen,
                    "AF_INET or AF_INET6, as the own addresses",
                    "leave it unset",
                ));
            }
        }
        if let Some(value) = user(facts, range) {
            let network = parse_network(value);
            let outside = |entry: &&GidEntry| network.is_none_or(|net| !holds(net, entry));
            let names: Vec<String> =
                own.iter().filter(|entry| outside(entry)).map(|entry| in_words(entry)).collect();
            if network.is_none() {
                let seen = format!("{value} is no network: it is ignored");
                found.push(warning("RDC657", range, seen, "a network, as 10.0.0.0/8", "leave it unset"));
            } else if !names.is_empty() {
                let seen = format!("{value} does not hold {}", names.join(", "));
                found.push(warning(
                    "RDC657",
                    range,
                    seen,
                    "a network of all own addresses",
                    "leave it unset",
                ));
            }
        }
    }
    found
}

fn parse_network(text: &str) -> Option<Network> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

fn holds((network, prefix): Network, entry: &GidEntry) -> bool {
    entry.address.is_some_and(|address| in_subnet(address, network, prefix))
}

/// A GID that NCCL or UCX would take by itself and that is not the own address's.
pub(super) fn taken_by_itself(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let given = facts.given;
    let (_, range) = (facts.fabric.family, facts.fabric.range.as_ref().ok().copied());
    let indexed = user(facts, "NCCL_IB_GID_INDEX").is_some()
        || ((given.gid_index || given.reach == Reach::OwnFile) && facts.fabric.common_index().is_ok());
    for (rail, taken, own) in facts.fabric.mistaken(given, range) {
        if indexed {
            break;
        }
        let seen = match taken {
            Taken::Index(index) => {
                format!(
                    "NCCL {} takes index {index} ({}), the own address has {own}",
                    given.nccl,
                    at(rail.port, index)
                )
            }
            Taken::GivesUp => format!("NCCL {} gives up at an entry whose type cannot be read", given.nccl),
        };
        found.push(warning("RDC661", rail.name(), seen, "the GID of the own address", &cure(facts, rail)));
    }
    let ucx_indexed = given.gid_index || user(facts, "UCX_IB_GID_INDEX").is_some();
    for rail in facts.rails.iter().filter(|rail| rail.is_roce() && !ucx_indexed) {
        let (Some(own), index) = (rail.own, ucx_takes(rail.port)) else { continue };
        let entry = rail.port.gids.iter().find(|entry| entry.index == index);
        if !entry.is_some_and(|entry| is_own(facts.host, entry)) {
            let seen = format!(
                "UCX tries index {index} ({}) first, the own address has {}",
                at(rail.port, index),
                own.index
            );
            let cure = "UCX_IB_GID_INDEX in this Pod alone: `rocade env --gid-index`";
            found.push(warning("RDC661", rail.name(), seen, "the GID of the own address", cure));
        }
    }
    found
}

fn at(port: &Port, index: GidIndex) -> String {
    let entry = port.gids.iter().find(|entry| entry.index == index);
    entry.map_or("unset".to_owned(), |entry| {
        format!("{} on {}", in_words(entry), entry.netdev.as_deref().unwrap_or("?"))
    })
}

fn cure(facts: &Facts<'_>, rail: &Rail<'_>) -> String {
    let given = facts.given;
    let newer = NcclVersion::ASSUMED;
    let by_newer = facts.fabric.family.is_some_and(|family| {
        let range = facts.fabric.range.as_ref().ok().copied();
        let taken = nccl_takes(rail.port, family, range, newer);
        rail.own.is_some_and(|own| taken == Taken::Index(own.index))
    });
    let file = "write this Pod's own file: `rocade env -o nccl > /etc/nccl.conf`";
    let source = match given.nccl_source {
        NcclSource::Assumed => String::new(),
        ref known => format!(" ({})", version_in_words(known)),
    };
    if by_newer && given.nccl < newer {
        format!("NCCL {newer} or newer{source}, or {file}")
    } else {
        file.to_owned()
    }
}
