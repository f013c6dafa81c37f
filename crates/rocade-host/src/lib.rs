//! Reads a host's RDMA facts, live or recorded. It fills the model and judges nothing; it writes nothing to a host.

#![deny(unsafe_code)]

mod again;
mod archive;
mod attributes;
mod capabilities;
mod counters;
mod cpus;
mod devices;
mod errno;
mod error;
#[allow(unsafe_code, reason = "an ioctl takes memory that the kernel writes to")]
mod ethtool;
pub mod events;
mod gids;
mod infiniband;
mod kernel;
mod netdevs;
mod netlink;
mod opened;
mod pci;
mod port_netdev;
#[allow(unsafe_code, reason = "memory is let go of by its address")]
mod program;
mod record;
mod root;
mod scope;
mod scrub;
mod statistics;
mod surroundings;

pub use again::is_as_before;
pub use archive::{Archive, Dir, Dump, Netlink, Node, WrongLine};
pub use capabilities::read_ipc_lock;
pub use cpus::{parse_cpus, read_cache_line, read_near_cpus, read_node_cpus};
pub use errno::Errno;
pub use error::Error;
pub use infiniband::{read_pkey_table, read_port_counters, read_port_states};
pub use netlink::{
    Address, DcbRecord, HealthRecord, Link, PauseRecord, PodRecord, RdmaDevice, RdmaPort, RdmaSystem,
    RouteRecord, RuleRecord, decode_netlink,
};
pub use opened::try_verbs;
pub use program::let_go_of_program;
pub use record::record;
pub use root::{Answer, Patience, Refusal, Root, Stat, read_patiently};
pub use scope::Scope;
pub use scrub::{Key, Scrubber};
pub use statistics::{StatisticsRecord, decode_statistics};
pub use surroundings::boot::read_boot_id;
pub use surroundings::pod::read_variables;

use std::collections::BTreeMap;

use rocade_core::host::{SCHEMA_VERSION, Unknown};
use rocade_core::{Host, NetnsMode};

/// All of a host. Total: what cannot be read is null and named in `unknown`, and nothing keeps the rest from being
/// read. Nothing is judged yet: see `rocade_core::judge`.
pub fn read_host(root: &Root) -> Host {
    read_parts(root, Scope::ALL)
}

/// As much of a host as is asked for.
pub fn read_parts(root: &Root, scope: Scope) -> Host {
    let mut unknown = Unknown::new();
    let told = if scope.lean { Told::default() } else { read_told(root, &mut unknown) };
    let netdevs = netdevs::read_netdevs(root, scope, &mut unknown);
    let devices = devices::CharDevices::read(root, scope, &mut unknown);
    let around = infiniband::Surroundings {
        root,
        scope,
        netdevs: &netdevs,
        devices: &devices,
        netlink: &told.netlink,
        parts: told.parts,
    };
    let hcas = infiniband::read_hcas(&around, &mut unknown);
    let mut host = Host {
        schema_version: SCHEMA_VERSION,
        kernel: told.kernel,
        rdma_core: told.rdma_core,
        netns_mode: told.netns_mode,
        orphan_uverbs: devices.orphans(&hcas),
        hcas,
        netdevs,
        rdma_cm: if scope.lean { None } else { devices::read_rdma_cm(root) },
        unknown,
        ..Host::default()
    };
    if scope.surroundings {
        host.nodes = devices.read_nodes(root);
        surroundings::read(root, &mut host);
    } else {
        if scope.roles {
            surroundings::read_for_roles(root, &mut host);
        }
        if scope.pod {
            host.nodes = devices.read_nodes(root);
            surroundings::read_for_pod(root, &mut host);
        }
    }
    if scope.counters {
        statistics::read(root, &mut host);
    }
    rocade_core::relate::fill(&mut host);
    rocade_core::distance::fill(&mut host);
    host
}

/// What the kernel tells of itself, and of its RDMA devices by netlink.
#[derive(Default)]
struct Told {
    kernel: Option<String>,
    rdma_core: Option<bool>,
    netns_mode: Option<NetnsMode>,
    netlink: port_netdev::NetlinkNetdevs,
    parts: BTreeMap<String, String>,
}

fn read_told(root: &Root, unknown: &mut Unknown) -> Told {
    let kernel = kernel::read_release(root, unknown);
    let (rdma_core, netns_mode) = kernel::read_rdma_core(root, unknown);
    let netlink = port_netdev::NetlinkNetdevs::read(root, rdma_core != Some(false), unknown);
    let parts = root.rdma_devices().unwrap_or_default();
    let parts = parts.into_iter().filter_map(|device| Some((device.name, device.parent?))).collect();
    Told { kernel, rdma_core, netns_mode, netlink, parts }
}
