//! What netlink tells, as decoded records: the same on a live host (`socket`) and in an archive. Raw bytes are
//! decoded in `rdma` and `route`.

use std::net::IpAddr;

use rocade_core::Guid;
use serde::{Deserialize, Serialize};

pub(crate) mod rdma;
pub(crate) mod route;
pub(crate) mod socket;

/// Settings of the RDMA subsystem (RDMA netlink SYS_GET, `rdma system`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaSystem {
    /// 1 shared, 0 exclusive.
    pub netns_mode: u8,
}

/// An RDMA device (RDMA netlink GET, `rdma dev`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaDevice {
    /// Index of the device in the RDMA core.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// enum rdma_node_type: 1 CA, 4 RNIC, 7 unspecified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_type: Option<u8>,
    /// Node GUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_guid: Option<Guid>,
    /// `ib`, `roce`, `iw`, `usnic`: told by kernels from 5.1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// A port of an RDMA device (RDMA netlink PORT_GET, `rdma link`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmaPort {
    /// Name of the device.
    pub device: String,
    /// Number of the port.
    pub port: u32,
    /// enum ib_port_state: 4 ACTIVE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<u8>,
    /// enum ib_port_phys_state: 5 LinkUp.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phys_state: Option<u8>,
    /// Name of the netdev; None where there is none in the asking network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
}

/// A network interface (route netlink GETLINK, `ip link`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// ARP hardware type.
    pub link_type: u16,
    /// IFF_ flags.
    pub flags: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// Hardware address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// IFLA_INFO_KIND: bond, vlan, macvlan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Index of the bond or bridge it belongs to (IFLA_MASTER).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<u32>,
    /// Index of the interface it lies on (IFLA_LINK).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower: Option<u32>,
    /// Whether `lower` is an index of another network namespace (IFLA_LINK_NETNSID is there).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_is_foreign: bool,
}

/// An address of an interface (route netlink GETADDR, `ip address`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Index of the interface.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of its prefix, bits.
    pub prefix: u8,
}

#[cfg(test)]
mod tests;
