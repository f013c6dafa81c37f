//! Reads a host's RDMA facts, live or recorded. It fills the model and judges nothing; it writes nothing to a host.

#![forbid(unsafe_code)]

mod scrub;
pub use scrub::{Key, Scrubber};

mod archive;
mod attributes;
mod devices;
mod errno;
mod error;
mod gids;
mod infiniband;
mod kernel;
mod netdevs;
mod netlink;
mod pci;
mod port_netdev;
mod record;
mod root;

pub use archive::{Archive, Dir, Dump, Netlink, Node, WrongLine};
pub use errno::Errno;
pub use error::Error;
pub use netlink::{Address, Link, RdmaDevice, RdmaPort, RdmaSystem};
pub use record::record;
pub use root::{Answer, Refusal, Root, Stat};

use rocade_core::Host;
use rocade_core::host::{SCHEMA_VERSION, Unknown};

/// All of a host. Total: what cannot be read is null and named in `unknown`, and nothing keeps the rest from being
/// read. Ports are not judged yet: see `rocade_core::usable::judge`.
pub fn read_host(root: &Root) -> Host {
    let mut unknown = Unknown::new();
    let kernel = kernel::read_release(root, &mut unknown);
    let (rdma_core, netns_mode) = kernel::read_rdma_core(root, &mut unknown);
    let netdevs = netdevs::read_netdevs(root, &mut unknown);
    let devices = devices::CharDevices::read(root, &mut unknown);
    let netlink = port_netdev::NetlinkNetdevs::read(root, rdma_core != Some(false), &mut unknown);
    let around = infiniband::Surroundings { root, netdevs: &netdevs, devices: &devices, netlink: &netlink };
    let hcas = infiniband::read_hcas(&around, &mut unknown);
    let rdma_cm = devices::read_rdma_cm(root);
    Host {
        schema_version: SCHEMA_VERSION,
        kernel,
        rdma_core,
        netns_mode,
        hcas,
        netdevs,
        rdma_cm,
        unknown,
        ..Host::default()
    }
}
