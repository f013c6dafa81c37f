//! How near a GID or netdev is to a connection, by the addresses of this network namespace.

use std::net::IpAddr;

use super::Connection;
use crate::host::{GidEntry, Host};

/// The nearest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nearness {
    ConnectionAddress,
    PeerSubnet,
    OwnAddress,
    LinkLocal,
    /// Only ever by a forced index.
    Foreign,
}

pub(super) fn nearness_of_gid(host: &Host, entry: &GidEntry, connection: Option<Connection>) -> Nearness {
    if !host.owns(entry) {
        return Nearness::Foreign;
    }
    let netdev = entry.netdev.as_deref().and_then(|name| host.netdev(name));
    let of_entry = |(address, _): &&(IpAddr, u8)| Some(*address) == entry.address;
    let address = netdev.and_then(|n| n.addresses.iter().find(of_entry)).copied();
    match near(address, connection) {
        Nearness::ConnectionAddress => Nearness::ConnectionAddress,
        _ if is_link_local(entry) => Nearness::LinkLocal,
        nearness => nearness,
    }
}

pub(super) fn nearness_of_netdev(
    host: &Host,
    netdev: Option<&str>,
    connection: Option<Connection>,
) -> Nearness {
    let netdev = netdev.and_then(|name| host.netdev(name));
    near(netdev.into_iter().flat_map(|n| n.addresses.iter().copied()), connection)
}

/// fe80::/10 or 169.254.0.0/16.
pub(crate) fn is_link_local(entry: &GidEntry) -> bool {
    entry.gid.is_link_local() || entry.gid.ipv4().is_some_and(|v4| v4.is_link_local())
}

fn near(addresses: impl IntoIterator<Item = (IpAddr, u8)>, connection: Option<Connection>) -> Nearness {
    let Some(connection) = connection else { return Nearness::OwnAddress };
    let (local, peer) = (connection.local.to_canonical(), connection.peer.to_canonical());
    let nearness = |(address, prefix)| match address {
        _ if address == local => Nearness::ConnectionAddress,
        _ if in_subnet(peer, address, prefix) => Nearness::PeerSubnet,
        _ => Nearness::OwnAddress,
    };
    addresses.into_iter().map(nearness).min().unwrap_or(Nearness::OwnAddress)
}

pub(crate) fn in_subnet(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => same_prefix(a.to_bits().into(), n.to_bits().into(), 32, prefix),
        (IpAddr::V6(a), IpAddr::V6(n)) => same_prefix(a.to_bits(), n.to_bits(), 128, prefix),
        _ => false,
    }
}

/// Whether two addresses of `width` bits agree in their first `prefix` bits.
fn same_prefix(a: u128, b: u128, width: u8, prefix: u8) -> bool {
    let rest = width.saturating_sub(prefix);
    (a ^ b).checked_shr(rest.into()).unwrap_or(0) == 0
}
