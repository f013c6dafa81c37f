//! Network interfaces of this namespace with what RDMA over them depends on: bonds, quality of service, routes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::PciAddress;

/// A network interface of this namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Netdev {
    /// Interface name.
    pub name: String,
    /// Interface index in this namespace.
    pub ifindex: u32,
    /// MTU, bytes.
    pub mtu: u32,
    /// ARP hardware type: 1 Ethernet, 32 InfiniBand (IPoIB), 772 loopback.
    pub link_type: u16,
    /// Hardware address, as `52:54:00:12:34:56`; 20 bytes on IPoIB.
    pub mac: Option<String>,
    /// Administratively up (IFF_UP).
    pub up: bool,
    /// IFF_ flags (include/uapi/linux/if.h).
    pub flags: u32,
    /// Whether there is a link; None while the interface is down (the kernel does not say).
    pub carrier: Option<bool>,
    /// Operational state in the kernel's word: up, down, dormant, lowerlayerdown, unknown.
    pub operstate: Option<String>,
    /// Speed, 10⁶ bit/s; None where the driver does not say, and while there is no link.
    pub speed_mbps: Option<u32>,
    /// Kernel's kind of a virtual interface, as bond, vlan, macvlan; None for a physical one.
    pub kind: Option<String>,
    /// The bond or bridge that this interface belongs to.
    pub master: Option<String>,
    /// Interface that a VLAN, macvlan or IPoIB child lies on, when it is of this namespace.
    pub parent: Option<String>,
    /// Whether it lies on an interface of another namespace (a Pod's macvlan).
    pub parent_is_foreign: bool,
    /// The PCI function that it is the interface of.
    pub pci_address: Option<PciAddress>,
    /// Driver of the device that it is the interface of, as `virtio_net`; None for a virtual one.
    pub driver: Option<String>,
    /// …/phys_port_name: `p0` of an uplink, `pf0vf1` of a representor.
    pub port_name: Option<String>,
    /// …/phys_switch_id: equal on the ports of one switch.
    pub switch_id: Option<String>,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// State of the bond that this interface is.
    pub bond: Option<Bond>,
    /// Settings that only the vendor's driver package shows (…/qos, …/ecn).
    pub qos: Option<Qos>,
    /// Pause frames of the whole link (ethtool); None where the driver does not count them, or unread.
    pub pauses: Option<Pauses>,
    /// What the driver counts of errors, drops, pauses and stalls (`ethtool -S`), name → value in its own words; what
    /// it counts for each queue is one sum, whose name has `*` for the queue's number. Read of the interfaces of ports;
    /// None where the driver has none, or unread.
    pub statistics: Option<BTreeMap<String, u64>>,
    /// Data centre bridging, by netlink; None where the driver has none, or unread.
    pub dcb: Option<Dcb>,
}

/// A bond (/proc/net/bonding/NAME).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bond {
    /// The kernel's words, as `IEEE 802.3ad Dynamic link aggregation`.
    pub mode: Option<String>,
    /// The active member of an active-backup bond.
    pub active: Option<String>,
    /// Whether the bond has a link.
    pub mii_up: Option<bool>,
    /// Ports in the active aggregator of an 802.3ad bond.
    pub aggregated_ports: Option<u32>,
    /// Its members.
    pub members: Vec<BondMember>,
}

/// A member of a bond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BondMember {
    /// Interface name.
    pub netdev: String,
    /// Whether it has a link.
    pub mii_up: Option<bool>,
    /// How often it lost its link.
    pub link_failures: Option<u64>,
    /// Its aggregator of an 802.3ad bond; a member that differs from the others carries nothing.
    pub aggregator: Option<u32>,
}

/// Files of the vendor's driver package below /sys/class/net/NAME.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Qos {
    /// qos/trust: `pcp` or `dscp`.
    pub trust: Option<String>,
    /// qos/dscp2prio: the priority of each of the 64 DSCP values.
    pub dscp_priorities: Option<Vec<u8>>,
    /// qos/prio2buffer: the buffer of each priority.
    pub priority_buffers: Option<Vec<u8>>,
    /// qos/buffer_size: size of each buffer, bytes.
    pub buffer_sizes: Option<Vec<u64>>,
    /// Priorities with ecn/roce_np/enable/N on: congestion is notified.
    pub ecn_notify: Option<Vec<u8>>,
    /// Priorities with ecn/roce_rp/enable/N on: notifications are reacted to.
    pub ecn_react: Option<Vec<u8>>,
    /// ecn/roce_np/cnp_dscp.
    pub cnp_dscp: Option<u8>,
    /// ecn/roce_np/cnp_802p_prio.
    pub cnp_priority: Option<u8>,
    /// ecn/roce_np/min_time_between_cnps, microseconds.
    pub cnp_interval_us: Option<u32>,
}

/// Data centre bridging of an interface (RTM_GETDCB, include/uapi/linux/dcbnl.h).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dcb {
    /// DCB_CAP_DCBX_ bits: 1 host, 2 lldpd managed, 4 CEE, 8 IEEE.
    pub dcbx: Option<u8>,
    /// Priorities with priority flow control on.
    pub pfc_priorities: Option<Vec<u8>>,
    /// How many priorities can have it at once.
    pub pfc_max: Option<u8>,
    /// Traffic class of each priority.
    pub traffic_classes: Option<Vec<u8>>,
    /// Bandwidth of each traffic class, percent.
    pub bandwidths: Option<Vec<u8>>,
    /// Application priorities; one of selector 5 means that DSCP is trusted.
    pub apps: Vec<DcbApp>,
}

/// Pause frames (IEEE 802.3 annex 31B): flow control of the whole link, not that of one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pauses {
    /// Sent: this end could not take more.
    pub sent: Option<u64>,
    /// Received: the other end could not.
    pub received: Option<u64>,
}

/// A row of the application priority table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DcbApp {
    /// What `protocol` is: 1 EtherType, 2 TCP port, 3 UDP port, 5 DSCP.
    pub selector: u8,
    /// The value.
    pub protocol: u16,
    /// Its priority.
    pub priority: u8,
}

/// A route of this namespace (RTM_GETROUTE); those to own addresses (table local) are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Routing table: 254 is main.
    pub table: u32,
    /// Kind in iproute2's word: unicast, blackhole, unreachable.
    pub kind: String,
    /// Destination and prefix length; length 0 is the default route.
    pub destination: (IpAddr, u8),
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// The interface; None for kinds without, and for several next hops.
    pub netdev: Option<String>,
    /// Metric: the lowest wins.
    pub metric: Option<u32>,
    /// Preferred source address.
    pub source: Option<IpAddr>,
}

/// A routing rule (RTM_GETRULE).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Whether it is of IPv6.
    pub ipv6: bool,
    /// The lowest is asked first.
    pub priority: u32,
    /// Source that it is for; None is all.
    pub source: Option<(IpAddr, u8)>,
    /// Destination that it is for; None is all.
    pub destination: Option<(IpAddr, u8)>,
    /// Interface that packets come in by.
    pub input: Option<String>,
    /// Interface that a socket is bound to.
    pub output: Option<String>,
    /// The table that it leads to.
    pub table: u32,
}
