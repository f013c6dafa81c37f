//! The nodes' disk: a Debian 13 root file system with containerd and the RDMA tools, the kernel's modules, kubelet,
//! and the images that never change. Each node starts from it copy-on-write; what differs per run is `seed`'s.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::cache::{self, Cache};
use crate::command;
use crate::debian::{self, Suite};
use crate::kernel::Kernel;
use crate::{image, kubernetes};

const SUITE: &str = "trixie";
const PACKAGES: [&str; 14] = [
    "containerd",
    "runc",
    "containernetworking-plugins",
    "rdma-core",
    "ibverbs-utils",
    "ibverbs-providers",
    "perftest",
    "ucx-utils",
    "iproute2",
    "kmod",
    "busybox-static",
    "ethtool",
    "pciutils",
    "dropbear-bin",
];
/// The tests of the release before, with the libraries that they need, in a tree of their own.
const OLDER_SUITE: &str = "bookworm";
const OLDER_PACKAGES: [&str; 13] = [
    "perftest",
    "ibverbs-utils",
    "ibverbs-providers",
    "libibverbs1",
    "librdmacm1",
    "libibumad3",
    "libnl-3-200",
    "libnl-route-3-200",
    "libpci3",
    "libudev1",
    "zlib1g",
    "libgcc-s1",
    "libc6",
];
const OLDER_PLACE: &str = "opt/debian12";
const OLDER_RUN: &str = include_str!("disk/debian12.sh");
/// Room for container layers and logs; the file is sparse.
const DISK_BYTES: u64 = 3 << 30;
/// Runs in a mount namespace of its own; $1 is the tree, $2 a folder with image archives.
const PRELOAD: &str = include_str!("disk/preload-images.sh");

/// The root file system as a folder, keyed by the versions of its main packages.
///
/// # Errors
/// mmdebstrap failed.
pub fn root(cache: &Cache) -> Result<PathBuf> {
    let suite = Suite::open(cache, SUITE)?;
    let versions = suite.versions(&PACKAGES)?;
    let key = format!("root/{SUITE}_{}", cache::digest(&versions.join("\n"))?);
    cache.entry(&key, |place| {
        let mut sources = tempfile::NamedTempFile::new()?;
        writeln!(sources, "{}", suite.source()?)?;
        let mut debstrap = command::contained("mmdebstrap");
        debstrap.args([
            "--quiet",
            "--mode=root",
            "--variant=minbase",
            "--aptopt=Acquire::Languages \"none\"",
        ]);
        for option in network_options()? {
            debstrap.arg(format!("--aptopt={option}"));
        }
        for unneeded in ["man", "locale", "doc", "info", "bash-completion"] {
            debstrap.arg(format!("--dpkgopt=path-exclude=/usr/share/{unneeded}/*"));
        }
        debstrap.arg(format!("--include={}", PACKAGES.join(",")));
        command::run(debstrap.arg(SUITE).arg(place).arg(sources.path())).map(drop)
    })
}

/// The disk of all nodes, an ext4 image, keyed by everything in it.
///
/// # Errors
/// A part cannot be built, or mkfs.ext4 failed.
pub fn disk(cache: &Cache, kernel: &Kernel) -> Result<PathBuf> {
    let root = root(cache)?;
    let kubelet = kubernetes::binary(cache, "kubelet")?;
    let base = image::base_layer(cache)?;
    let older = debian::unpack(cache, OLDER_SUITE, &OLDER_PACKAGES)?;
    let parts = [&root, &kubelet, &base, &older, &kernel.modules].map(|path| path.display().to_string());
    let content = format!("{}{PRELOAD}{OLDER_RUN}{DISK_BYTES}", parts.join("\n"));
    let key = format!("disk/{}.ext4", cache::digest(&content)?);
    cache.entry(&key, |place| {
        // Below the cache as the root is, so that files are shared with it instead of copied.
        let tree = place.with_extension("tree");
        cache::remove(&tree)?;
        stage(&root, &kubelet, kernel, &tree)?;
        stage_older(&older, &tree)?;
        preload(cache, &tree)?;
        File::create(place)?.set_len(DISK_BYTES)?;
        let mut mkfs = command::contained("/usr/sbin/mkfs.ext4");
        mkfs.args(["-q", "-F", "-O", "^has_journal", "-E", "root_owner=0:0", "-d"]).arg(&tree);
        command::run(mkfs.arg(place))?;
        cache::remove(&tree)
    })
}

fn stage(root: &Path, kubelet: &Path, kernel: &Kernel, tree: &Path) -> Result<()> {
    let mut link = Command::new("cp");
    command::run(link.args(["-a", "--link", "--no-target-directory"]).arg(root).arg(tree))?;
    command::run(Command::new("cp").arg("-a").arg(kernel.modules.join("usr")).arg(tree))?;
    fs::create_dir_all(tree.join("usr/local/bin"))?;
    fs::copy(kubelet, tree.join("usr/local/bin/kubelet"))?;
    image::link_busybox(&tree.join("usr/bin"), &tree.join("usr/sbin"))
}

/// `debian12 COMMAND` runs it there.
fn stage_older(older: &Path, tree: &Path) -> Result<()> {
    let place = tree.join(OLDER_PLACE);
    fs::create_dir_all(place.parent().unwrap_or(tree))?;
    command::run(Command::new("cp").args(["-a", "--no-target-directory"]).arg(older).arg(place))?;
    let program = tree.join("usr/local/bin/debian12");
    fs::write(&program, OLDER_RUN)?;
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}

/// Lets the tree's own containerd take the images, so that no node spends time on it.
fn preload(cache: &Cache, tree: &Path) -> Result<()> {
    let images = tempfile::tempdir()?;
    image::write_pause(cache, &images.path().join("pause.tar"))?;
    let mut load = command::contained("sh");
    load.args(["-ec", PRELOAD, "sh"]).arg(tree).arg(images.path());
    let said = command::run_text(&mut load)?;
    if !said.contains(image::PAUSE) {
        bail!("the node's containerd did not keep {}: it lists\n{said}", image::PAUSE);
    }
    Ok(())
}

/// How the machine's apt reaches the network (proxies, certificates), for an apt that does not read its files.
fn network_options() -> Result<Vec<String>> {
    let dump = command::run_text(Command::new("apt-config").arg("dump"))?;
    let reaches = |line: &&str| {
        ["Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until"]
            .iter()
            .any(|it| line.starts_with(it))
            && !line.contains("\"\"")
    };
    Ok(dump.lines().filter(reaches).map(|line| line.trim_end_matches(';').to_string()).collect())
}
