//! What an HCA is called in device IDs, and which RDMA devices are halves of one. Names of HCAs are given anew by udev
//! and at every load of a driver; a PCI function stays where it is.

use crate::host::{FunctionKind, Hca, Host, Relation};
use crate::names::HcaName;

/// Longest ID of an HCA: a share's number fits behind it within the 63 characters of a Kubernetes name.
const LONGEST: usize = 56;

/// The HCA's ID. Scalable functions and software share their card's function, but come and go beside it, and so the
/// card keeps the bare address.
pub(crate) fn id(host: &Host, hca: &Hca) -> String {
    let Some(address) = hca.pci_address else { return shorten(hca.name.to_string()) };
    let shares = |other: &&Hca| other.pci_address == Some(address) && is_the_functions(other);
    if is_the_functions(hca) && host.hcas.iter().filter(shares).count() == 1 {
        return address.to_string();
    }
    shorten(format!("{address}-{}", hca.name))
}

/// The devices that are granted with this one, since they are halves of its physical ports.
pub(super) fn other_halves<'h>(host: &'h Host, hca: &Hca) -> Vec<&'h Hca> {
    let others = split(hca).filter_map(|name| host.hca(name.as_str()));
    others.filter(|other| whole(host, other).is_some_and(|whole| whole.name == hca.name)).collect()
}

/// The device that this one is granted with: the parent that RDMA netlink names, else the half that has verbs, else
/// the first.
pub(super) fn whole<'h>(host: &'h Host, hca: &Hca) -> Option<&'h Hca> {
    let rank = |h: &Hca| (h.parent_hca.is_some(), h.uverbs.is_none());
    let at = |h: &Hca| host.hcas.iter().position(|other| other.name == h.name);
    let halves = split(hca).filter_map(|name| host.hca(name.as_str()));
    halves.min_by_key(|h| (rank(h), at(h))).filter(|h| (rank(h), at(h)) < (rank(hca), at(hca)))
}

fn split(hca: &Hca) -> impl Iterator<Item = &HcaName> {
    let halves = hca.companions.iter().filter(|companion| companion.relation == Relation::SplitPlane);
    halves.filter_map(|companion| companion.hca.as_ref())
}

fn is_the_functions(hca: &Hca) -> bool {
    !hca.software && hca.function != Some(FunctionKind::Sf)
}

/// Cuts what is too long, and puts a hash of the whole (FNV-1a) in place of the rest.
fn shorten(id: String) -> String {
    if id.len() <= LONGEST {
        return id;
    }
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut end = LONGEST - 17;
    while !id.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash:016x}", &id[..end])
}
