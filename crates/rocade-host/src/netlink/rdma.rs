//! RDMA netlink: the requests and the decoding of replies. Numbers from include/uapi/rdma/rdma_netlink.h.

use rocade_core::Guid;

use super::attributes::Attributes;
use super::{RdmaDevice, RdmaPort, RdmaSystem};

/// RDMA_NL_NLDEV in the client half of a message type.
const NLDEV: u16 = 5 << 10;
const GET: u16 = NLDEV + 1;
const PORT_GET: u16 = NLDEV + 5;
const SYS_GET: u16 = NLDEV + 6;

const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const NODE_GUID: u16 = 6;
const PORT_STATE: u16 = 12;
const PORT_PHYS_STATE: u16 = 13;
const DEV_NODE_TYPE: u16 = 14;
const NDEV_NAME: u16 = 51;
const SYS_NETNS_MODE: u16 = 66;
const DEV_PROTOCOL: u16 = 67;
const PARENT_NAME: u16 = 100;

/// A request: message type, whether it asks for a dump, payload.
pub(crate) type Request = (u16, bool, Vec<u8>);

/// Asks for the settings of the subsystem.
pub(crate) fn system_request() -> Request {
    (SYS_GET, false, Vec::new())
}

/// Asks for all devices.
pub(crate) fn devices_request() -> Request {
    (GET, true, Vec::new())
}

/// Asks for all ports of one device.
pub(crate) fn ports_request(device: u32) -> Request {
    let mut attribute = Vec::from(8u16.to_ne_bytes());
    attribute.extend(DEV_INDEX.to_ne_bytes());
    attribute.extend(device.to_ne_bytes());
    (PORT_GET, true, attribute)
}

/// The payload of a SYS_GET reply; None if it is not one.
pub(crate) fn parse_system(payload: &[u8]) -> Option<RdmaSystem> {
    Some(RdmaSystem { netns_mode: Attributes::of(payload)?.byte(SYS_NETNS_MODE)? })
}

/// The payload of a GET reply.
pub(crate) fn parse_device(payload: &[u8]) -> Option<RdmaDevice> {
    let attributes = Attributes::of(payload)?;
    Some(RdmaDevice {
        index: attributes.word(DEV_INDEX)?,
        name: attributes.text(DEV_NAME)?,
        node_type: attributes.byte(DEV_NODE_TYPE),
        node_guid: attributes.bytes(NODE_GUID).map(|b| Guid(u64::from_ne_bytes(b))),
        protocol: attributes.text(DEV_PROTOCOL),
        parent: attributes.text(PARENT_NAME),
    })
}

/// The payload of a PORT_GET reply.
pub(crate) fn parse_port(payload: &[u8]) -> Option<RdmaPort> {
    let attributes = Attributes::of(payload)?;
    Some(RdmaPort {
        device: attributes.text(DEV_NAME)?,
        port: attributes.word(PORT_INDEX)?,
        state: attributes.byte(PORT_STATE),
        phys_state: attributes.byte(PORT_PHYS_STATE),
        netdev: attributes.text(NDEV_NAME),
    })
}
