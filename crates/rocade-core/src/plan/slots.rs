//! How many device IDs a pool has.

use std::fmt;

use serde::Serialize;

use super::PoolMember;
use crate::config::{Resource, Sharing, Slots};
use crate::host::{GidEntry, Host, LinkLayer, Port};

/// Why a pool has no device ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoSlots {
    /// No HCA is in the pool.
    NoHca,
    /// The configuration has the resource no more.
    Removed,
    /// The configuration gives 0 of them.
    Zero,
    /// InfiniBand has no limit to count: a number must be given.
    NotCountable,
    /// The GID table of a port could not be read.
    Unread {
        /// HCA and port: `mlx5_0/1`.
        port: String,
        /// Errno, or `not recorded`.
        why: String,
    },
    /// The GID table of a port has no room left.
    Full {
        /// HCA and port: `mlx5_0/1`.
        port: String,
        /// Entries of the table.
        entries: u32,
        /// Those that are the host's own.
        own: u32,
    },
}

/// Whether slots are counted by GID tables.
pub(super) fn is_auto(resource: &Resource) -> bool {
    matches!(resource.sharing, Sharing::Tokens(Slots::Auto { .. }))
}

/// Number of device IDs. In exclusive mode one Pod can have an HCA, and a token is worth all of them.
pub(super) fn count(
    host: &Host,
    resource: &Resource,
    members: &[PoolMember],
    exclusive: bool,
) -> Result<u32, NoSlots> {
    if members.is_empty() {
        return Err(NoSlots::NoHca);
    }
    let hcas = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let count = match resource.sharing {
        Sharing::Tokens(Slots::Fixed(slots)) if exclusive => slots.min(1),
        Sharing::Tokens(Slots::Fixed(slots)) => slots,
        Sharing::Tokens(Slots::Auto { .. }) if exclusive => 1,
        Sharing::Tokens(Slots::Auto { gids_per_pod }) => count_by_gids(host, members, gids_per_pod)?,
        Sharing::Hca { .. } if exclusive => hcas,
        Sharing::Hca { share } => hcas.saturating_mul(share),
    };
    if count == 0 { Err(NoSlots::Zero) } else { Ok(count) }
}

fn count_by_gids(host: &Host, members: &[PoolMember], gids_per_pod: u32) -> Result<u32, NoSlots> {
    let mut fewest = None;
    for (member, port) in ports(host, members).filter(|(_, port)| port.link_layer == LinkLayer::Ethernet) {
        let name = format!("{}/{}", member.hca, port.port);
        let Some((entries, own)) = table(host, port) else {
            let why = port.unknown.get("gids").map_or("not read", String::as_str).to_owned();
            return Err(NoSlots::Unread { port: name, why });
        };
        let slots = entries.saturating_sub(own) / gids_per_pod.max(1);
        if slots == 0 {
            return Err(NoSlots::Full { port: name, entries, own });
        }
        fewest = Some(fewest.map_or(slots, |fewest: u32| fewest.min(slots)));
    }
    fewest.ok_or(NoSlots::NotCountable)
}

pub(super) fn ports<'a>(
    host: &'a Host,
    members: &'a [PoolMember],
) -> impl Iterator<Item = (&'a PoolMember, &'a Port)> {
    members.iter().flat_map(|member| {
        let hca = host.hca(member.hca.as_str());
        member.ports.iter().filter_map(move |number| Some((member, hca?.port(*number)?)))
    })
}

/// Entries of a port's GID table, and those that are the host's own; None where it was not read.
pub(super) fn table(host: &Host, port: &Port) -> Option<(u32, u32)> {
    port.gids_set?;
    let own = port.gids.iter().filter(|gid| is_the_hosts(host, gid)).count();
    Some((port.gid_table_len?, u32::try_from(own).unwrap_or(u32::MAX)))
}

/// Interfaces for Pods are made and go with them: what they put into the table is not the host's, so that the number
/// of slots is the same whoever runs when it is counted.
fn is_the_hosts(host: &Host, gid: &GidEntry) -> bool {
    let for_pods = |kind: &str| matches!(kind, "macvlan" | "macvtap" | "ipvlan" | "ipvtap");
    let netdev = gid.netdev.as_deref().and_then(|name| host.netdev(name));
    host.owns(gid) && !netdev.and_then(|n| n.kind.as_deref()).is_some_and(for_pods)
}

impl fmt::Display for NoSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSlots::NoHca => f.write_str("no HCA is in the pool"),
            NoSlots::Removed => f.write_str(
                "the configuration has it no more; it goes with the Pods that hold its devices",
            ),
            NoSlots::Zero => f.write_str("the configuration gives it 0 slots"),
            NoSlots::NotCountable => f.write_str(
                "slots are counted by the GID tables of RoCE ports, and no port here is one: give a number, as 100",
            ),
            NoSlots::Unread { port, why } => {
                write!(f, "slots are counted by GID tables, and that of {port} could not be read ({why})")
            }
            NoSlots::Full { port, entries, own } => {
                write!(f, "the GID table of {port} has {entries} entries, {own} of them the host's own: no room for a Pod")
            }
        }
    }
}
