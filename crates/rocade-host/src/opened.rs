//! Tries the verbs devices of a live host: a node that is there may still be refused (device cgroup, rights, namespace).
//! Opens verbs nodes alone and closes them at once; what it means is core's matter.

use rocade_core::Host;
use rocade_core::pod::Tried;
use rustix::fs::{Mode, OFlags};

use crate::errno::Errno;
use crate::root::Root;

/// Tries each HCA's verbs device whose node may be there. Empty for a recorded host, where nothing can be tried.
///
/// Only uverbs nodes are opened: opening issm sets a bit on the port, and umad is of no use here. No context is made
/// (drivers/infiniband/core/uverbs_main.c ib_uverbs_open: a driver is asked only by a later command).
pub fn try_verbs(root: &Root, host: &Host) -> Tried {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let there = |hca: &&rocade_core::Hca| hca.uverbs.as_ref().is_some_and(|device| device.is_there());
    let tried = host.hcas.iter().filter(there).filter_map(|hca| {
        let path = root.local(hca.uverbs.as_ref()?.path())?;
        let refused = rustix::fs::open(path, flags, Mode::empty()).err();
        Some((hca.name.clone(), refused.map(|errno| Errno::from(errno).to_string())))
    });
    tried.collect()
}
