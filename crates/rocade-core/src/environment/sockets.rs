//! The interface for connections that are not RDMA: bootstrap, out-of-band exchange, Gloo.

use std::net::IpAddr;

use super::gids::Family;
use crate::host::{Host, Netdev};

/// ARPHRD_LOOPBACK (include/uapi/linux/if_arp.h).
const LOOPBACK: u16 = 772;

/// The interface, with its family and the ground.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SocketInterface {
    pub(super) name: String,
    pub(super) family: Option<Family>,
    pub(super) why: String,
}

/// That of the default route; without one, the only one that has an address. Never one whose addresses are link-local:
/// a peer elsewhere does not reach it.
pub(super) fn choose(host: &Host) -> Result<SocketInterface, String> {
    let told = |netdev: &Netdev, why: &str| SocketInterface {
        name: netdev.name.clone(),
        family: family(netdev),
        why: why.to_owned(),
    };
    let default = host.default_route_netdev.as_deref().and_then(|name| host.netdev(name));
    // Without addresses (route netlink not to be had) the route is all there is.
    let blind = host.unknown.contains_key("netdevs.addresses");
    if let Some(netdev) = default.filter(|netdev| blind || reaches(netdev)) {
        return Ok(told(netdev, "it carries the default route"));
    }
    let mut able = host.netdevs.iter().filter(|n| n.up && n.link_type != LOOPBACK && reaches(n));
    match (able.next(), able.next(), default) {
        (Some(only), None, _) => {
            Ok(told(only, "no default route over a usable interface; it alone has an address"))
        }
        (Some(_), Some(_), None) => Err("no default route, and several interfaces have addresses".into()),
        (Some(_), Some(_), Some(netdev)) => {
            Err(format!("the default route is over {}, whose addresses are link-local", netdev.name))
        }
        (None, ..) => Err("no interface has an address that is not link-local".into()),
    }
}

/// Whether it has an address that others reach.
pub(super) fn reaches(netdev: &Netdev) -> bool {
    family(netdev).is_some()
}

fn family(netdev: &Netdev) -> Option<Family> {
    let global = netdev.addresses.iter().filter(|(address, _)| !is_link_local(*address));
    global.map(|(address, _)| Family::of_address(*address)).min_by_key(|family| *family == Family::V6)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    }
}
