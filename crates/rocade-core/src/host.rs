//! What a host has. One type per thing, filled by the reader of a live or recorded host and never again modelled
//! elsewhere. `None` always means "could not be read or does not apply"; `unknown` says which and why.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::Gid;

mod char_device;
mod hca;
mod netdev;
mod pci;
mod pod;
mod port;
mod schema;
mod system;

pub use char_device::{Accessible, CharDevice, OpenNode};
pub use hca::{
    Companion, FunctionKind, Hca, HealthReporter, Parent, Planes, PlanesVerdict, Relation, Role, RoleKind,
};
pub use netdev::{Bond, BondMember, Dcb, DcbApp, Netdev, Pauses, Qos, Route, Rule};
pub use pci::{
    Accelerator, Acs, Bridge, Distance, IommuGroup, NetworkCard, PcieLink, PcieSettings, PortType, Vpd,
};
pub use pod::{Pod, PodGrant, PodNetwork};
pub use port::{Counter, GidEntry, GidType, LinkLayer, Port, Transport, Usable, roce_path_mtu};
pub use schema::inventory_schema;
pub use system::{GpuDirect, Limit, Memlock, Module, Ofed, RemoteStorage};

/// Version of the JSON that `Host` serialises to; raised when a field changes its meaning or goes away.
pub const SCHEMA_VERSION: u32 = 1;

/// Field name → why it could not be read (errno name, or "not recorded").
pub type Unknown = BTreeMap<String, String>;

/// All that was found on one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Host {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Kernel release (second word from the end of /proc/version's start, as `uname -r`).
    pub kernel: Option<String>,
    /// Whether the kernel has its RDMA core loaded (it answers RDMA netlink, or has the class infiniband).
    pub rdma_core: Option<bool>,
    /// RDMA network namespace mode (RDMA netlink SYS_GET, else ib_core's parameter netns_mode).
    pub netns_mode: Option<NetnsMode>,
    /// What the kernel's command line or /etc/modprobe.d makes of that mode at the next boot, and which of them says it;
    /// None where nothing says it.
    pub netns_mode_at_boot: Option<(NetnsMode, String)>,
    /// Name of the host (/proc/sys/kernel/hostname).
    pub hostname: Option<String>,
    /// RDMA devices, by name in natural order (mlx5_2 before mlx5_10).
    pub hcas: Vec<Hca>,
    /// Network interfaces of this network namespace, by ifindex.
    pub netdevs: Vec<Netdev>,
    /// /dev/infiniband/rdma_cm (misc device); None when the module rdma_ucm offers none.
    pub rdma_cm: Option<CharDevice>,
    /// Verbs devices whose HCA is not in this namespace: with exclusive namespaces their class still shows them.
    pub orphan_uverbs: Vec<CharDevice>,
    /// Interfaces that stand for a VF or SF of an embedded switch, and carry no RDMA of their own.
    pub representors: Vec<String>,
    /// Character devices in /dev/infiniband, and what opens behind them; empty also where they were not read.
    pub nodes: Vec<OpenNode>,
    /// Whether this is the host's first network namespace; None where that cannot be told.
    pub initial_netns: Option<bool>,
    /// Modules that RDMA, network cards and GPUs depend on; empty also where they were not read.
    pub modules: Vec<Module>,
    /// The vendor's driver package.
    pub ofed: Option<Ofed>,
    /// Memory that this process may lock.
    pub memlock: Option<Memlock>,
    /// Command line of the kernel.
    pub cmdline: Option<String>,
    /// Whether the host is a virtual machine (CPU flag or DMI product); None where that cannot be told.
    pub virtual_machine: Option<bool>,
    /// Kernel settings that RDMA depends on, by path below /proc/sys (interface names may hold dots).
    pub sysctls: BTreeMap<String, i64>,
    /// CPU frequency governor → CPUs that have it; empty where there is no frequency scaling.
    pub governors: BTreeMap<String, u32>,
    /// PCI functions of network cards that no RDMA device sits on.
    pub network_cards: Vec<NetworkCard>,
    /// Providers of libibverbs on this file system (names of *.driver below /etc/libibverbs.d, as `mlx5`); None where
    /// there is no such directory.
    pub verbs_providers: Option<Vec<String>>,
    /// GPUs and other accelerators, by address.
    pub accelerators: Vec<Accelerator>,
    /// What GPUDirect needs.
    pub gpu_direct: GpuDirect,
    /// PCI bridges above HCAs and accelerators, by address.
    pub bridges: Vec<Bridge>,
    /// Interface of the default route with the lowest metric, IPv4 before IPv6.
    pub default_route_netdev: Option<String>,
    /// Routes, but for those to own addresses.
    pub routes: Vec<Route>,
    /// Routing rules.
    pub rules: Vec<Rule>,
    /// Mounts and sessions over the network.
    pub remote_storage: Vec<RemoteStorage>,
    /// Address of the cluster's API server as the kubelet is told, without port; None where there is no kubelet.
    pub api_server: Option<String>,
    /// The Pod that this is the inside of.
    pub pod: Option<Pod>,
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

    /// An interface's setting of /proc/sys/net/ipv4/conf as the kernel applies it: the greater of `all` and the
    /// interface's own (net/ipv4/devinet.c, for rp_filter, arp_ignore and arp_announce).
    pub fn interface_sysctl(&self, netdev: &str, setting: &str) -> Option<i64> {
        let of = |name: &str| self.sysctls.get(&format!("net/ipv4/conf/{name}/{setting}")).copied();
        of("all").into_iter().chain(of(netdev)).max()
    }

    /// Whether an interface of this namespace has the address; an IPv4-mapped one counts as IPv4.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.netdevs.iter().any(|netdev| netdev.addresses.iter().any(|(own, _)| *own == address))
    }

    /// The loaded or built-in module of that name.
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|m| m.name == name)
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetnsMode {
    /// Every namespace sees every HCA; what macvlan attachments need.
    Shared,
    /// An HCA belongs to one namespace.
    Exclusive,
}
