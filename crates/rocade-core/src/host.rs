//! What a host has. One type per thing, filled by the reader of a live or recorded host and never again modelled
//! elsewhere. `None` always means "could not be read or does not apply"; `unknown` says which and why.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::names::{Gid, GidIndex, Guid, HcaName, PciAddress, PciId, PortNum};

/// Version of the JSON that `Host` serialises to; raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Field name → why it could not be read (errno name, or "not recorded").
pub type Unknown = BTreeMap<String, String>;

/// All that was found on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Kernel release (second word from the end of /proc/version's start, as `uname -r`).
    pub kernel: Option<String>,
    /// Whether the kernel has its RDMA core loaded (it answers RDMA netlink, or has the class infiniband).
    pub rdma_core: Option<bool>,
    /// RDMA network namespace mode (RDMA netlink SYS_GET, else ib_core's parameter netns_mode).
    pub netns_mode: Option<NetnsMode>,
    /// RDMA devices, by name in natural order (mlx5_2 before mlx5_10).
    pub hcas: Vec<Hca>,
    /// Network interfaces of this network namespace, by ifindex.
    pub netdevs: Vec<Netdev>,
    /// /dev/infiniband/rdma_cm (misc device); None when the module rdma_ucm offers none.
    pub rdma_cm: Option<CharDevice>,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: Unknown,
}

impl Host {
    /// The HCA of that name.
    pub fn hca(&self, name: &str) -> Option<&Hca> {
        self.hcas.iter().find(|h| h.name.as_str() == name)
    }

    /// The interface of that name in this namespace.
    pub fn netdev(&self, name: &str) -> Option<&Netdev> {
        self.netdevs.iter().find(|n| n.name == name)
    }

    /// Whether a RoCE GID belongs to this network namespace. In shared mode a GID table holds those of all
    /// namespaces, and a netdev name (`eth0`) may be that of another one, so the address has to agree too.
    pub fn owns(&self, gid: &GidEntry) -> bool {
        let Some(netdev) = gid.netdev.as_deref().and_then(|name| self.netdev(name)) else { return false };
        let has = |address| netdev.addresses.iter().any(|(own, _)| *own == address);
        // Without addresses (route netlink not to be had) the name is all there is.
        self.unknown.contains_key("netdevs.addresses")
            || gid.address.is_some_and(has)
            || netdev.mac.as_deref().and_then(Gid::from_mac) == Some(gid.gid)
    }
}

/// How RDMA devices relate to network namespaces (include/rdma/ib_verbs.h, `rdma system`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetnsMode {
    /// Every namespace sees every HCA; what macvlan attachments need.
    Shared,
    /// An HCA belongs to one namespace.
    Exclusive,
}

/// One RDMA device: an entry of /sys/class/infiniband.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hca {
    /// Name of the entry.
    pub name: HcaName,
    /// The PCI function it sits on, also when an auxiliary device (SF) lies between.
    pub pci_address: Option<PciAddress>,
    /// What kind of device is its direct parent.
    pub parent: Parent,
    /// Vendor and device id of the PCI function.
    pub pci_id: Option<PciId>,
    /// Driver bound to the PCI function (or to the parent where there is none), as `mlx5_core`.
    pub driver: Option<String>,
    /// NUMA node; None also when the kernel says -1 (unknown to the firmware).
    pub numa_node: Option<u32>,
    /// Node GUID (…/node_guid).
    pub node_guid: Option<Guid>,
    /// System image GUID (…/sys_image_guid): equal on ports of one card.
    pub sys_image_guid: Option<Guid>,
    /// Firmware version (…/fw_ver); None when empty, as with rxe.
    pub fw_version: Option<String>,
    /// Board id (…/board_id), as MT_0000000838; absent on many drivers.
    pub board_id: Option<String>,
    /// Free text (…/hca_type), as MT4129; absent on many drivers.
    pub hca_type: Option<String>,
    /// Hardware revision (…/hw_rev).
    pub hw_rev: Option<String>,
    /// Number of …/node_type: 1 CA, 4 iWARP (RNIC), 5 usNIC, 6 usNIC UDP, 7 unspecified (EFA).
    pub node_type: Option<u32>,
    /// The PF of this VF (…/device/physfn).
    pub physical_function: Option<PciAddress>,
    /// Whether it is made of software over a netdev: rxe, siw.
    pub software: bool,
    /// Whether it manages an NVSwitch and carries no traffic (VPD says `SMDL=SW_MNG`); None where VPD cannot be
    /// read.
    pub switch_management: Option<bool>,
    /// PCIe link of the function, now and at most.
    pub pcie: Option<PcieLink>,
    /// All netdevs below the parent device (…/device/net/), sorted; a port's own netdev is in the port.
    pub parent_netdevs: Vec<String>,
    /// The verbs char device; None when the kernel made none.
    pub uverbs: Option<CharDevice>,
    /// Ports by number.
    pub ports: Vec<Port>,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: Unknown,
}

impl Hca {
    /// The port of that number.
    pub fn port(&self, port: PortNum) -> Option<&Port> {
        self.ports.iter().find(|p| p.port == port)
    }
}

/// Direct parent of an HCA in the device tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Parent {
    /// A PCI function.
    Pci,
    /// An auxiliary device: a scalable function.
    Auxiliary,
    /// A virtio device.
    Virtio,
    /// A Hyper-V VMBus device.
    Vmbus,
    /// None: software HCAs (rxe, siw) lie in devices/virtual.
    None,
    /// A bus that this version does not know.
    Other,
}

/// PCIe link speed (kernel's words, as `32.0 GT/s PCIe`) and width in lanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PcieLink {
    /// …/current_link_speed.
    pub speed: Option<String>,
    /// …/current_link_width.
    pub width: Option<u32>,
    /// …/max_link_speed.
    pub max_speed: Option<String>,
    /// …/max_link_width.
    pub max_width: Option<u32>,
}

/// A character device and whether its node can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CharDevice {
    /// Name below /dev/infiniband, as `uverbs0`.
    pub node: String,
    /// Number of the kernel's device (…/dev of its class entry).
    pub major: u32,
    /// Number of the kernel's device.
    pub minor: u32,
    /// What /dev/infiniband holds under that name.
    pub accessible: Accessible,
}

impl CharDevice {
    /// Path of the node on the host.
    pub fn path(&self) -> String {
        format!("/dev/infiniband/{}", self.node)
    }
}

/// State of a device node below /dev/infiniband.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accessible {
    /// There, a character device of the right number.
    Yes,
    /// Not there.
    Missing,
    /// There, but not this character device.
    Other,
    /// Could not be looked at.
    Unknown,
}

/// One port of an HCA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Number of the port.
    pub port: PortNum,
    /// …/link_layer.
    pub link_layer: LinkLayer,
    /// What speaks over the port, by link layer, node type and driver.
    pub transport: Transport,
    /// The kernel's word, as ACTIVE, DOWN, INIT (…/state without its number).
    pub state: Option<String>,
    /// The kernel's word, as LinkUp, Polling, Disabled (…/phys_state without its number).
    pub phys_state: Option<String>,
    /// Signalling rate of the port, 10⁹ bit/s (…/rate).
    pub rate_gbps: Option<f64>,
    /// Local identifier on InfiniBand; 0 elsewhere.
    pub lid: Option<u16>,
    /// LID of the subnet manager; 0 where there is none.
    pub sm_lid: Option<u16>,
    /// The netdev of the port: by its GID table (a bond is named by itself), else by the parent's net directory.
    pub netdev: Option<String>,
    /// What RDMA netlink names, when it names one; a LAG's member where `netdev` is the bond.
    pub netlink_netdev: Option<String>,
    /// MTU of `netdev`, bytes.
    pub netdev_mtu: Option<u32>,
    /// Entries of the GID table, set or not.
    pub gid_table_len: Option<u32>,
    /// The set entries, by index.
    pub gids: Vec<GidEntry>,
    /// The management char device.
    pub umad: Option<CharDevice>,
    /// The subnet manager's char device.
    pub issm: Option<CharDevice>,
    /// Whether an RC test over InfiniBand or RoCE v2 can start on this port as it is.
    pub usable: Usable,
    /// Why not `usable: yes`; empty with yes.
    pub reason: String,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: Unknown,
}

/// …/link_layer of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkLayer {
    /// InfiniBand (and Omni-Path, which says the same).
    InfiniBand,
    /// Ethernet.
    Ethernet,
    /// The kernel says Unknown (EFA), or it could not be read.
    Unknown,
}

/// What runs over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// InfiniBand.
    Infiniband,
    /// RDMA over converged Ethernet.
    Roce,
    /// iWARP, over TCP.
    Iwarp,
    /// Amazon's SRD; no RC.
    Efa,
    /// Cisco usNIC; no RDMA operations.
    Usnic,
    /// Omni-Path.
    Opa,
    /// None of these could be told.
    Unknown,
}

/// One set entry of a GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GidEntry {
    /// Its index.
    pub index: GidIndex,
    /// Its value.
    pub gid: Gid,
    /// …/gid_attrs/types/N; None where the kernel does not say.
    #[serde(rename = "type")]
    pub gid_type: Option<GidType>,
    /// …/gid_attrs/ndevs/N, None on InfiniBand. The name may be one of another namespace: see [`Host::owns`].
    pub netdev: Option<String>,
    /// The address that a RoCE GID stands for; None on other transports.
    pub address: Option<IpAddr>,
}

/// Type of a GID, in the kernel's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GidType {
    /// `IB/RoCE v1`: also what InfiniBand, iWARP and EFA ports say.
    #[serde(rename = "IB/RoCE v1")]
    V1,
    /// `RoCE v2`.
    #[serde(rename = "RoCE v2")]
    V2,
}

/// Verdict over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usable {
    /// An RC test can start as is.
    Yes,
    /// It can, with the restriction that `reason` states.
    Limited,
    /// It cannot, for the stated reason.
    No,
}

/// A network interface of this namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Kernel's kind of a virtual interface, as bond, vlan, macvlan; None for a physical one.
    pub kind: Option<String>,
    /// The bond or bridge that this interface belongs to.
    pub master: Option<String>,
    /// Interface that a VLAN, macvlan or IPoIB child lies on, when it is of this namespace.
    pub parent: Option<String>,
    /// Addresses with their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
}
