//! What netlink tells, as decoded records: the same on a live host (`socket`) and in an archive. Raw bytes are
//! decoded in `rdma`, `route`, `route_table` and `dcb`.

use std::net::IpAddr;

use rocade_core::Guid;
use serde::{Deserialize, Serialize};

mod attributes;
pub(crate) mod dcb;
pub(crate) mod generic;
pub(crate) mod rdma;
pub(crate) mod route;
pub(crate) mod route_table;
pub(crate) mod socket;

/// How many of the decoders make something of a datagram as the kernel sends it, whatever it answers: for captures and
/// fuzzing.
pub fn decode_netlink(datagram: &[u8]) -> usize {
    let mut payloads = Vec::new();
    // What came before a fault is decoded too.
    let _ = socket::parse_datagram(datagram, true, &mut payloads);
    let decoded = |payload: &Vec<u8>| {
        let made = [
            rdma::parse_system(payload).is_some(),
            rdma::parse_device(payload).is_some(),
            rdma::parse_port(payload).is_some(),
            route::parse_link(payload).is_some(),
            route::parse_address(payload).is_some(),
            route_table::parse_route(payload).is_some(),
            route_table::parse_rule(payload).is_some(),
            dcb::parse_dcb(payload).is_some(),
        ];
        made.into_iter().filter(|made| *made).count()
    };
    payloads.iter().map(decoded).sum()
}

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
    /// The device that this one is a part of (a device for subnet management alone): told from Linux 6.11 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
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

/// A route, one a next hop (route netlink GETROUTE, `ip route show table all`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteRecord {
    /// Routing table: 254 main, 255 local.
    pub table: u32,
    /// RTN_ kind in iproute2's word: unicast, local, blackhole.
    pub kind: String,
    /// Destination and prefix length.
    pub destination: (IpAddr, u8),
    /// The next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// Index of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<u32>,
    /// Metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// Preferred source address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpAddr>,
}

/// A routing rule (route netlink GETRULE, `ip rule`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleRecord {
    /// Whether it is of IPv6.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ipv6: bool,
    /// The lowest is asked first.
    pub priority: u32,
    /// Source and prefix length; None is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<(IpAddr, u8)>,
    /// Destination and prefix length; None is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<(IpAddr, u8)>,
    /// Interface that packets come in by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Interface that a socket is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The table that it leads to.
    pub table: u32,
}

/// Data centre bridging of an interface (route netlink GETDCB, `dcb`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DcbRecord {
    /// Name of the interface.
    pub netdev: String,
    /// DCB_CAP_DCBX_ bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dcbx: Option<u8>,
    /// How many priorities can have flow control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_cap: Option<u8>,
    /// Bit mask of the priorities that have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pfc_enabled: Option<u8>,
    /// Traffic class of each priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prio_tc: Option<Vec<u8>>,
    /// Bandwidth of each traffic class, percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_bw: Option<Vec<u8>>,
    /// Application priorities: selector, protocol, priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apps: Vec<(u8, u16, u8)>,
}

/// Pause frames of an interface (ethtool netlink PAUSE_GET, `pauses`): those of the whole link, not of one priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseRecord {
    /// Name of the interface.
    pub netdev: String,
    /// Frames that it sent; None where the driver does not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Frames that it received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
}

/// A health reporter of a device (devlink HEALTH_REPORTER_GET, `health`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthRecord {
    /// Bus of the device, as `pci`.
    pub bus: String,
    /// The device on it, as `0000:4d:00.0`.
    pub device: String,
    /// Name of the reporter, as `fw_fatal`.
    pub reporter: String,
    /// Whether its state is healthy.
    pub healthy: bool,
    /// Errors that it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Recoveries that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recoveries: Option<u64>,
}

/// What a cluster knows of the Pod that was recorded: its specification is not to be had from inside.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodRecord {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Resource → quantity that it asked for.
    pub resources: std::collections::BTreeMap<String, String>,
    /// HCAs that it was granted, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub granted: Option<Vec<String>>,
}

#[cfg(test)]
mod tests;
