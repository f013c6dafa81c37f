//! Family, version, range and index, for NCCL and for NVSHMEM, which chooses as NCCL does.

use super::{Facts, NOTHING};
use crate::environment::gids::Family;
use crate::environment::sheet::Sheet;
use crate::environment::{Given, Library, Reach};

/// Names of the variables by which a library chooses a GID as NCCL does.
pub(super) struct GidVariables {
    family: &'static str,
    version: &'static str,
    range: &'static str,
    index: &'static str,
    /// Whether its own version of these counts, as NCCL's.
    versioned: bool,
}

pub(super) const NCCL: GidVariables = GidVariables {
    family: "NCCL_IB_ADDR_FAMILY",
    version: "NCCL_IB_ROCE_VERSION_NUM",
    range: "NCCL_IB_ADDR_RANGE",
    index: "NCCL_IB_GID_INDEX",
    versioned: true,
};

pub(super) const NVSHMEM: GidVariables = GidVariables {
    family: "NVSHMEM_IB_ADDR_FAMILY",
    version: "NVSHMEM_IB_ROCE_VERSION_NUM",
    range: "NVSHMEM_IB_ADDR_RANGE",
    index: "NVSHMEM_IB_GID_INDEX",
    versioned: false,
};

pub(super) fn fill_gid(facts: &Facts<'_>, sheet: &mut Sheet<'_>, library: Library, names: &GidVariables) {
    let (given, fabric) = (facts.given, facts.fabric);
    let unset = unset_ground(facts, names);
    let set = |value: Option<String>| if unset.is_none() { value } else { None };
    let why = |ground: String| unset.clone().unwrap_or(ground);
    let family = fabric.family.map(Family::variable);
    let family_why = if family.is_some() {
        "the family of the ports' own addresses"
    } else {
        "all own addresses are link-local"
    };
    sheet.put(library, names.family, "N7", set(family.map(str::to_owned)), why(family_why.into()));
    sheet.put(
        library,
        names.version,
        "N6",
        set(family.map(|_| "2".to_owned())),
        why("version 1 is not routed".into()),
    );
    let range = match &fabric.range {
        Ok((network, prefix)) => (Some(format!("{network}/{prefix}")), range_ground(given).to_owned()),
        Err(why) => (None, why.clone()),
    };
    sheet.put(library, names.range, "N8", set(range.0), why(range.1));
    let (index, ground) = index(facts, library == Library::Nccl);
    sheet.put(library, names.index, "P4", index, ground);
}

fn range_ground(given: &Given<'_>) -> &'static str {
    match (given.range, given.reach) {
        (Some(_), _) => "asked for",
        (None, Reach::Handed) => "the network that holds the ports' own addresses",
        (None, Reach::OwnFile) => "the network of the ports' own addresses in this Pod",
    }
}

/// Why none of family, version and range is set.
fn unset_ground(facts: &Facts<'_>, names: &GidVariables) -> Option<String> {
    if facts.nccl_rails().next().is_none() {
        return Some(NOTHING.to_owned());
    }
    if !facts.has_roce() {
        return Some("InfiniBand ports need none".to_owned());
    }
    let version = facts.given.nccl;
    (names.versioned && !version.chooses_gid())
        .then(|| format!("NCCL {version} does not know it: it came with 2.21"))
}

/// An index, where one may be given and all ports have the same.
pub(super) fn index(facts: &Facts<'_>, has_own_file: bool) -> (Option<String>, String) {
    let given = facts.given;
    let may = given.gid_index || (given.reach == Reach::OwnFile && has_own_file);
    if !facts.has_roce() {
        let why = if facts.rails.is_empty() { NOTHING } else { "InfiniBand ports need none" };
        return (None, why.to_owned());
    }
    match (may, facts.fabric.common_index()) {
        (true, Ok(index)) => {
            (Some(index.to_string()), "the index of the own address, the same on all ports".into())
        }
        (true, Err(each)) => (None, format!("the ports differ, and one index counts for all: {each}")),
        (false, Ok(index)) => (
            None,
            format!("{index} is right in this Pod and may be wrong in the next; asked for with --gid-index"),
        ),
        (false, Err(each)) => (None, format!("the ports differ, and one index counts for all: {each}")),
    }
}
