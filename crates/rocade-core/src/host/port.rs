//! One port of an HCA with its GID table and counters.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CharDevice, Unknown};
use crate::names::{Gid, GidIndex, Pkey, PortNum};

/// One port of an HCA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Lanes of the link (…/rate).
    pub width: Option<u32>,
    /// Speed of a lane by its name, as NDR (…/rate); None where old kernels do not name it.
    pub speed: Option<String>,
    /// Local identifier on InfiniBand; 0 elsewhere.
    pub lid: Option<u16>,
    /// LID of the subnet manager; 0 where there is none.
    pub sm_lid: Option<u16>,
    /// Low bits of the LID that the port takes any value of (…/lid_mask_count).
    pub lmc: Option<u8>,
    /// Capability mask (…/cap_mask, ib_mad.h): bit 1 subnet manager, bit 10 none can run here.
    pub cap_mask: Option<u32>,
    /// The set partition keys in the order of the table (…/pkeys); empty also where they were not read.
    pub pkeys: Vec<Pkey>,
    /// Whether all of them are of limited membership (0x7fff): limited members do not talk to each other. None where
    /// there are none.
    pub limited_member: Option<bool>,
    /// The largest path MTU that the port can do, bytes: only the driver tells it.
    pub max_mtu: Option<u32>,
    /// Path MTU now, bytes: on RoCE what fits the netdev's MTU (include/rdma/ib_addr.h iboe_get_mtu), elsewhere only the
    /// driver tells it.
    pub active_mtu: Option<u32>,
    /// The netdev of the port: by its GID table (a bond is named by itself), else by the parent's net directory.
    pub netdev: Option<String>,
    /// What RDMA netlink names, when it names one; a LAG's member where `netdev` is the bond.
    pub netlink_netdev: Option<String>,
    /// MTU of `netdev`, bytes.
    pub netdev_mtu: Option<u32>,
    /// Members of the bond that `netdev` is.
    pub bond_members: Vec<String>,
    /// VLAN, macvlan and IPoIB children of `netdev` in this namespace, and theirs.
    pub child_netdevs: Vec<String>,
    /// Entries of the GID table, set or not.
    pub gid_table_len: Option<u32>,
    /// The set entries, by index.
    pub gids: Vec<GidEntry>,
    /// How many entries of the GID table carry an address (on iWARP none does); None where the table was not read.
    pub gids_set: Option<u32>,
    /// The management char device.
    pub umad: Option<CharDevice>,
    /// The subnet manager's char device.
    pub issm: Option<CharDevice>,
    /// Counters of the port (…/counters, …/hw_counters), by file; empty where there are none or they were not read.
    pub counters: Vec<Counter>,
    /// What connections by rdma_cm take when nobody chooses: `RoCE v2` or `IB/RoCE v1` (configfs rdma_cm,
    /// default_roce_mode). None where no one made the directory: then the kernel's default holds.
    pub cm_default_mode: Option<String>,
    /// The same for the type of service (default_roce_tos).
    pub cm_default_tos: Option<u8>,
    /// Traffic class forced on all connections (…/tc/N/traffic_class, only with the vendor's driver package).
    pub traffic_class: Option<u8>,
    /// Whether an RC test over InfiniBand or RoCE v2 can start on this port as it is.
    pub usable: Usable,
    /// Why not `usable: yes`; empty with yes.
    pub reason: String,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub unknown: Unknown,
}

impl Port {
    /// A port of which nothing but its number is known.
    pub fn new(port: PortNum) -> Port {
        Port {
            port,
            link_layer: LinkLayer::Unknown,
            transport: Transport::Unknown,
            state: None,
            phys_state: None,
            rate_gbps: None,
            width: None,
            speed: None,
            lid: None,
            sm_lid: None,
            lmc: None,
            cap_mask: None,
            pkeys: Vec::new(),
            limited_member: None,
            max_mtu: None,
            active_mtu: None,
            netdev: None,
            netlink_netdev: None,
            netdev_mtu: None,
            bond_members: Vec::new(),
            child_netdevs: Vec::new(),
            gid_table_len: None,
            gids: Vec::new(),
            gids_set: None,
            umad: None,
            issm: None,
            counters: Vec::new(),
            cm_default_mode: None,
            cm_default_tos: None,
            traffic_class: None,
            usable: Usable::No,
            reason: "not judged".into(),
            unknown: Unknown::new(),
        }
    }

    /// The value of a counter by the name of its file without directory, as `link_downed`.
    pub fn counter(&self, name: &str) -> Option<&Counter> {
        self.counters.iter().find(|c| c.file.rsplit('/').next() == Some(name))
    }
}

/// A counter of a port or a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The file that holds it, below the port's or device's directory: `counters/link_downed`.
    pub file: String,
    /// Its value; None where the kernel gives none.
    pub value: Option<u64>,
    /// Whether it stands at the most that it can hold (the classic counters do not wrap): the true count is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub saturated: bool,
    /// Why there is no value: `N/A (no PMA)`, or an errno.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// …/link_layer of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LinkLayer {
    /// InfiniBand (and Omni-Path, which says the same).
    InfiniBand,
    /// Ethernet.
    Ethernet,
    /// The kernel says Unknown (EFA), or it could not be read.
    Unknown,
}

/// What runs over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GidType {
    /// `IB/RoCE v1`: also what InfiniBand, iWARP and EFA ports say.
    #[serde(rename = "IB/RoCE v1")]
    V1,
    /// `RoCE v2`.
    #[serde(rename = "RoCE v2")]
    V2,
}

/// Verdict over a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Usable {
    /// An RC test can start as is.
    Yes,
    /// It can, with the restriction that `reason` states.
    Limited,
    /// It cannot, for the stated reason.
    No,
}

/// The kernel's rule for RoCE: the largest path MTU, bytes, that fits the interface's MTU with all headers
/// (include/rdma/ib_addr.h iboe_get_mtu; rxe counts 80 bytes of them, drivers/infiniband/sw/rxe/rxe_param.h). None where
/// not even the least fits.
pub fn roce_path_mtu(netdev_mtu: u32, software: bool) -> Option<u32> {
    let room = netdev_mtu.saturating_sub(if software { 80 } else { 96 });
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| *mtu <= room)
}

#[cfg(test)]
mod tests {
    use super::roce_path_mtu;

    #[test]
    fn the_path_mtu_is_what_the_kernel_derives() {
        let rows = [
            (9000, Some(4096)),
            (4192, Some(4096)),
            (4191, Some(2048)),
            (1500, Some(1024)),
            (351, None),
            (0, None),
        ];
        for (netdev, wanted) in rows {
            assert_eq!(roce_path_mtu(netdev, false), wanted, "{netdev}");
        }
        assert_eq!((roce_path_mtu(4176, true), roce_path_mtu(4175, true)), (Some(4096), Some(2048)));
    }
}
