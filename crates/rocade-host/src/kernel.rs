//! The kernel's own facts: release, whether it has an RDMA core, how that treats network namespaces.

use std::path::Path;

use rocade_core::NetnsMode;
use rocade_core::host::Unknown;

use crate::attributes::read_text;
use crate::errno::Errno;
use crate::root::{Refusal, Root};

/// Kernel release, as `uname -r`, from /proc/version.
pub(crate) fn read_release(root: &Root, unknown: &mut Unknown) -> Option<String> {
    match read_text(root, Path::new("/proc/version")) {
        Ok(text) => text.split_whitespace().nth(2).map(str::to_owned),
        Err(refusal) => note(unknown, "kernel", refusal),
    }
}

/// Whether there is an RDMA core, and its namespace mode. Kernels before 5.1 do not tell the mode by netlink; the
/// parameter then says how the module was loaded.
pub(crate) fn read_rdma_core(root: &Root, unknown: &mut Unknown) -> (Option<bool>, Option<NetnsMode>) {
    let class = root.list("/sys/class/infiniband");
    match root.rdma_system() {
        Ok(system) => (Some(true), Some(mode(system.netns_mode == 1))),
        Err(Refusal::Errno(Errno::PROTONOSUPPORT)) if class.is_err() => (Some(false), None),
        Err(refusal) if class.is_ok() => (Some(true), read_parameter(root, refusal, unknown)),
        Err(refusal) => (note(unknown, "rdma_core", refusal), None),
    }
}

fn read_parameter(root: &Root, netlink: Refusal, unknown: &mut Unknown) -> Option<NetnsMode> {
    match read_text(root, Path::new("/sys/module/ib_core/parameters/netns_mode")).as_deref() {
        Ok("Y") => Some(NetnsMode::Shared),
        Ok("N") => Some(NetnsMode::Exclusive),
        // Kernels without the parameter know only the shared mode.
        Err(refusal) if refusal.is_absent() => Some(NetnsMode::Shared),
        _ => note(unknown, "netns_mode", netlink),
    }
}

fn mode(shared: bool) -> NetnsMode {
    if shared { NetnsMode::Shared } else { NetnsMode::Exclusive }
}

fn note<T>(unknown: &mut Unknown, field: &str, refusal: Refusal) -> Option<T> {
    unknown.insert(field.to_owned(), refusal.to_string());
    None
}
