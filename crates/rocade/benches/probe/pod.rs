//! A made Pod: /sys, /dev and the network in namespaces of their own, with /dev/null and its like in place of verbs devices,
//! so that they open. Needs root, unshare, mknod and ip.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

#[path = "../../../rocade-host/benches/reading/made.rs"]
mod made;

/// What tells a process that it runs in a Pod.
pub(crate) const IN_KUBERNETES: (&str, &str) = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
/// The variable of its grant.
pub(crate) const GRANT: &str = "ROCADE_GRANT_RDMA_A";

/// Minors of character devices with major 1 that anybody may open: null, zero, full, random, urandom.
const MINORS: [u32; 5] = [3, 5, 7, 8, 9];

/// Lays the tree over this namespace, then becomes the program that is named after it.
const ENTER: &str = r#"
set -e
mkdir -p "$1/dev/shm"
for node in null zero urandom; do touch "$1/dev/$node"; mount --bind "/dev/$node" "$1/dev/$node"; done
mount --bind /dev/shm "$1/dev/shm"
mount --bind "$1/sys" /sys
mount --rbind "$1/dev" /dev
ip link set lo up
for n in $(seq 0 "$2"); do ip address add "10.0.$n.4/24" dev lo; done
ulimit -l 8192
shift 2
exec "$@"
"#;

/// Writes the tree of a Pod that sees so many HCAs (5 at most), `mlx5_0` and up, of which the first ones have a node.
pub(crate) fn lay_out(tree: &Path, granted: usize, seen: usize) -> io::Result<()> {
    made::lay_out(tree, seen)?;
    fs::create_dir_all(tree.join("dev/infiniband"))?;
    (0..seen).try_for_each(|n| make_own(tree, n, n < granted))
}

/// Gives an HCA's GIDs to `lo`, and its verbs device a number that opens, with a node where it is granted.
fn make_own(tree: &Path, n: usize, granted: bool) -> io::Result<()> {
    let hca = tree.join(format!("sys/class/infiniband/mlx5_{n}"));
    for index in 2..4 {
        fs::write(hca.join(format!("ports/1/gid_attrs/ndevs/{index}")), "lo\n")?;
    }
    let minor = MINORS[n];
    fs::write(tree.join(format!("sys/class/infiniband_verbs/uverbs{n}/dev")), format!("1:{minor}\n"))?;
    if !granted {
        return Ok(());
    }
    let node = tree.join(format!("dev/infiniband/uverbs{n}"));
    let made = Command::new("mknod").arg(&node).args(["c", "1", &minor.to_string()]).status()?;
    if made.success() { Ok(()) } else { Err(io::Error::other(format!("mknod {}: {made}", node.display()))) }
}

/// A command that is in the Pod, to be given the program and its arguments.
pub(crate) fn enter(tree: &Path, seen: usize) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--propagation", "private", "sh", "-c", ENTER, "sh"]);
    command.arg(tree).arg(seen.saturating_sub(1).to_string());
    command
}
