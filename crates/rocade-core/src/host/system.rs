//! The host around its HCAs: modules, limits, kernel settings, GPUDirect, storage that goes over the network.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kernel module, loaded or built in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Name, with underscores.
    pub name: String,
    /// Whether it was loaded as a module; None where that cannot be told (/proc/modules is unreadable). A built-in one
    /// has a directory below /sys/module only if it has parameters or a version.
    pub loaded: Option<bool>,
    /// Its version; modules of the kernel's own tree mostly have none.
    pub version: Option<String>,
    /// Whether it says that it was built outside the kernel's tree (…/taint has `O`); None before Linux 3.8.
    pub out_of_tree: Option<bool>,
}

/// The vendor's driver package, as far as the kernel can tell: the name that `ofed_info -s` prints lies in no file that
/// a kernel has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ofed {
    /// Release, as `23.10-3.2.2`, from the version of the RDMA drivers; None with the kernel's own.
    pub release: Option<String>,
    /// Whether the RDMA drivers are not the kernel's own.
    pub out_of_tree: bool,
}

/// A resource limit (getrlimit(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// None.
    Unlimited,
    /// Bytes.
    #[serde(untagged)]
    Bytes(u64),
}

/// Memory that this process may lock (RLIMIT_MEMLOCK): registering memory needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memlock {
    /// In force.
    pub soft: Limit,
    /// What the process may raise it to.
    pub hard: Limit,
}

/// What a GPU needs so that an HCA reads and writes its memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuDirect {
    /// Whether NVIDIA's driver is loaded.
    pub nvidia: bool,
    /// Whether NVIDIA's driver is the open one (/proc/driver/nvidia/version); None where that cannot be read.
    pub nvidia_open: Option<bool>,
    /// Whether its peer memory module is loaded (nvidia_peermem, nv_peer_mem).
    pub nvidia_peermem: bool,
    /// Clients of peer memory (/sys/kernel/mm/memory_peers, only with the vendor's driver package).
    pub memory_peers: Vec<String>,
    /// Whether DMA-BUF can be used: Linux 5.12 or newer, and a driver that exports it. None where that cannot be told.
    pub dmabuf: Option<bool>,
}

/// A mount or session over the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemoteStorage {
    /// What it is: `nfs4`, `lustre`, `nvme`.
    pub kind: String,
    /// Where it is seen: the mount point, or `nvme0`.
    pub name: String,
    /// What carries it, as it says: `rdma`, `tcp`; None where it does not.
    pub transport: Option<String>,
    /// Address of the server.
    pub server: Option<IpAddr>,
    /// Own address that it is bound to.
    pub client: Option<IpAddr>,
}
