//! Becoming another program, on a kernel that seems older than it is. Owns the filter and the note of the moment; which
//! program, and in which namespaces, is the caller's business.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// socket(2) on x86_64, the only machine that the bench runs on (asm/unistd_64.h).
const SOCKET: i64 = 41;
/// The first and the third argument for RDMA netlink (linux/socket.h, linux/netlink.h).
const AF_NETLINK: u64 = 16;
const NETLINK_RDMA: u64 = 20;

/// Makes a socket of RDMA netlink fail with EINVAL, from now on and in the programs that this one becomes: a kernel
/// from before it answers so, and the k8s-rdma-shared-dev-plugin goes on without it then. Where the kernel has no
/// RDMA at all, the answer is another one and the plugin ends.
///
/// # Errors
/// The kernel takes no filter.
pub fn hide_rdma_netlink() -> Result<()> {
    let is =
        |argument, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let rule = SeccompRule::new(vec![is(0, AF_NETLINK)?, is(2, NETLINK_RDMA)?])?;
    let refusal = SeccompAction::Errno(rustix::io::Errno::INVAL.raw_os_error().unsigned_abs());
    let rules = [(SOCKET, vec![rule])].into_iter().collect();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refusal, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program).context("filter RDMA netlink away")
}

/// Writes to `stamp` when this happens, as [`read_stamp`] reads it, and becomes `command`.
///
/// # Errors
/// The file cannot be written or the program does not start. Never comes back otherwise.
pub fn launch(command: &mut Command, stamp: Option<&Path>) -> Result<()> {
    if let Some(stamp) = stamp {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        fs::write(stamp, now.as_nanos().to_string()).with_context(|| format!("write {}", stamp.display()))?;
    }
    Err(command.exec()).context("start the program")
}

/// When the program was started that left `stamp`.
///
/// # Errors
/// There is no such file or it holds something else.
pub fn read_stamp(stamp: &Path) -> Result<SystemTime> {
    let text = fs::read_to_string(stamp).with_context(|| format!("read {}", stamp.display()))?;
    Ok(UNIX_EPOCH + Duration::from_nanos(text.parse().context("a stamp is a number")?))
}
