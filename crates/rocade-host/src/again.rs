//! Whether a host is still as it was when it was read, so that nothing has to be read again in whole.

use rocade_core::host::Netdev;
use rocade_core::{Host, Port};

use crate::infiniband::has_gids_in_place;
use crate::read_parts;
use crate::root::Root;
use crate::scope::Scope;

/// Whether a test would choose as from `before`, which was read with its GIDs: the same HCAs, ports and interfaces with the
/// same addresses, and each GID at its index. Of GID tables, long and nearly empty, the entries that were set are read alone:
/// one is set anew with an address or an interface, and moves only where it leaves its place.
pub fn is_as_before(root: &Root, before: &Host) -> bool {
    let now = read_parts(root, Scope::GRANTS);
    same(&now.netdevs, &before.netdevs, is_same_netdev)
        && same(&now.hcas, &before.hcas, |a, b| a.name == b.name && same(&a.ports, &b.ports, is_same_port))
        && before.hcas.iter().all(|hca| hca.ports.iter().all(|port| has_gids_in_place(root, &hca.name, port)))
}

fn same<T>(now: &[T], before: &[T], is_same: impl Fn(&T, &T) -> bool) -> bool {
    now.len() == before.len() && now.iter().zip(before).all(|(now, before)| is_same(now, before))
}

fn is_same_netdev(a: &Netdev, b: &Netdev) -> bool {
    let of = |it: &Netdev| (it.ifindex, it.mtu, it.flags);
    a.name == b.name && of(a) == of(b) && a.master == b.master && a.mac == b.mac && a.addresses == b.addresses
}

fn is_same_port(a: &Port, b: &Port) -> bool {
    let of = |it: &Port| (it.port, it.lid, it.sm_lid, it.gid_table_len);
    of(a) == of(b) && a.state == b.state && a.link_layer == b.link_layer
}
