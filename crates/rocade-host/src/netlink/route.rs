//! Route netlink: the requests and what rocade keeps of the replies.

use std::net::IpAddr;

use netlink_packet_core::{Emitable, NetlinkDeserializable, NetlinkHeader};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use super::rdma::Request;
use super::{Address, Link};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;

/// ARPHRD_ETHER (include/uapi/linux/if_arp.h).
pub(crate) const ETHERNET: u16 = 1;

/// Asks for all interfaces of this network namespace.
pub(crate) fn links_request() -> Request {
    (RTM_GETLINK, true, emit(&LinkMessage::default()))
}

/// Asks for all their addresses.
pub(crate) fn addresses_request() -> Request {
    (RTM_GETADDR, true, emit(&AddressMessage::default()))
}

fn emit(message: &impl Emitable) -> Vec<u8> {
    let mut payload = vec![0; message.buffer_len()];
    message.emit(&mut payload);
    payload
}

/// The payload of a NEWLINK message; None if it is not one.
pub(crate) fn parse_link(payload: &[u8]) -> Option<Link> {
    let RouteNetlinkMessage::NewLink(message) = decode(RTM_NEWLINK, payload)? else { return None };
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        link_type: message.header.link_layer_type.into(),
        flags: message.header.flags.bits(),
        mtu: 0,
        mac: None,
        kind: None,
        master: None,
        lower: None,
        lower_is_foreign: false,
    };
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Address(mac) => link.mac = render_mac(&mac),
            LinkAttribute::Controller(index) => link.master = Some(index),
            LinkAttribute::Link(index) => link.lower = Some(index).filter(|lower| *lower != 0),
            LinkAttribute::LinkNetNsId(_) => link.lower_is_foreign = true,
            LinkAttribute::LinkInfo(infos) => link.kind = infos.iter().find_map(kind),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn decode(kind: u16, payload: &[u8]) -> Option<RouteNetlinkMessage> {
    let mut header = NetlinkHeader::default();
    header.message_type = kind;
    RouteNetlinkMessage::deserialize(&header, payload).ok()
}

fn kind(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(InfoKind::to_string(kind)),
        _ => None,
    }
}

fn render_mac(mac: &[u8]) -> Option<String> {
    let parts: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    (!parts.is_empty()).then(|| parts.join(":"))
}

/// The payload of a NEWADDR message; None if it is not one.
pub(crate) fn parse_address(payload: &[u8]) -> Option<Address> {
    let RouteNetlinkMessage::NewAddress(message) = decode(RTM_NEWADDR, payload)? else { return None };
    Some(Address {
        index: message.header.index,
        address: own_address(&message.attributes)?,
        prefix: message.header.prefix_len,
    })
}

/// On a point-to-point link ADDRESS is the peer's and LOCAL the own one (rtnetlink(7)).
fn own_address(attributes: &[AddressAttribute]) -> Option<IpAddr> {
    let local = attributes.iter().find_map(|a| match a {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        attributes.iter().find_map(|a| match a {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}
