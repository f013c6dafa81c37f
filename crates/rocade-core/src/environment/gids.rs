//! GIDs of own addresses, and which GID NCCL and UCX take when they choose themselves.

use std::net::{IpAddr, Ipv6Addr};

use super::{NcclVersion, Network};
use crate::gid::in_subnet;
pub(super) use crate::gid::is_link_local;
use crate::host::{GidEntry, GidType, Host, Port};
use crate::names::{Gid, GidIndex};

/// Family of an address, as `NCCL_IB_ADDR_FAMILY` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) const BOTH: [Family; 2] = [Family::V4, Family::V6];

    pub(super) fn of(entry: &GidEntry) -> Family {
        Family::of_gid(&entry.gid)
    }

    fn of_gid(gid: &Gid) -> Family {
        if gid.ipv4().is_some() { Family::V4 } else { Family::V6 }
    }

    pub(super) fn of_address(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Exactly these two are known to NCCL.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Family::V4 => "AF_INET",
            Family::V6 => "AF_INET6",
        }
    }

    pub(super) fn of_variable(value: &str) -> Option<Family> {
        Family::BOTH.into_iter().find(|family| family.variable() == value)
    }
}

/// Whether an entry is a RoCE v2 GID of an address of this namespace: the address is the key, and the interface that it
/// names must have it. The table also holds those of the host and of other Pods.
pub(super) fn is_own(host: &Host, entry: &GidEntry) -> bool {
    entry.gid_type == Some(GidType::V2) && host.owns(entry)
}

/// What a library takes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Index(GidIndex),
    /// It gives up at an entry whose type cannot be read.
    GivesUp,
}

/// The index that NCCL takes when it has none: the first v2 entry of the first address that fits the family and the
/// range (src/transport/net_ib, ncclIbGetGidIndex). Up to 2.20 it is 0.
pub(super) fn nccl_takes(port: &Port, family: Family, range: Option<Network>, version: NcclVersion) -> Taken {
    let mut taken = GidIndex(0);
    if !version.chooses_gid() {
        return Taken::Index(taken);
    }
    for next in (1..table_len(port)).map(GidIndex) {
        let (now, new) = (Slot::of(port, taken), Slot::of(port, next));
        if new.family != family || !new.is_in(range) {
            continue;
        }
        if now.family != family {
            taken = next;
            continue;
        }
        if !new.valid {
            continue;
        }
        let types_known = now.gid_type.is_some() && new.gid_type.is_some();
        if !types_known && !version.skips_unreadable_types() {
            return Taken::GivesUp;
        }
        if new.gid_type == Some(GidType::V2) && (now.gid_type != new.gid_type || !now.valid) {
            taken = next;
        }
    }
    Taken::Index(taken)
}

/// The index that UCX takes when it has none: of v2/IPv4, v2/IPv6, v2/link-local, v1/IPv4, v1/IPv6, v1/link-local the
/// first kind that there is, its lowest index; else 0 (src/uct/ib/base/ib_device.c, uct_ib_device_select_gid).
pub(super) fn ucx_takes(port: &Port) -> GidIndex {
    let kind = |entry: &GidEntry| {
        let version = match entry.gid_type? {
            GidType::V2 => 0,
            GidType::V1 => 3,
        };
        let scope = match (Family::of(entry), is_link_local(entry)) {
            (Family::V4, _) => 0,
            (Family::V6, false) => 1,
            (Family::V6, true) => 2,
        };
        Some((version + scope, entry.index))
    };
    port.gids.iter().filter_map(kind).min().map_or(GidIndex(0), |(_, index)| index)
}

fn table_len(port: &Port) -> u32 {
    let last = port.gids.last().map_or(0, |entry| entry.index.0 + 1);
    port.gid_table_len.unwrap_or(0).max(last)
}

/// A place of a table, set or not.
struct Slot {
    family: Family,
    /// Neither unset nor link-local.
    valid: bool,
    address: IpAddr,
    gid_type: Option<GidType>,
}

impl Slot {
    /// An unset entry reads as zeros, and its type as EINVAL.
    fn of(port: &Port, index: GidIndex) -> Slot {
        let entry = port.gids.iter().find(|entry| entry.index == index);
        let gid = entry.map_or(Gid([0; 16]), |entry| entry.gid);
        let address = gid.ipv4().map_or_else(|| IpAddr::V6(Ipv6Addr::from(gid.0)), IpAddr::V4);
        Slot {
            family: Family::of_gid(&gid),
            valid: gid.0 != [0; 16] && !gid.is_link_local(),
            address,
            gid_type: entry.and_then(|entry| entry.gid_type),
        }
    }

    fn is_in(&self, range: Option<Network>) -> bool {
        range.is_none_or(|(network, prefix)| in_subnet(self.address, network, prefix))
    }
}
