//! The nodes' kernel: the newest of Debian 13's backports, found through its meta-package, with the modules that
//! nodes use (unpacked: decompression is slow under emulation) and a small initramfs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache::{self, Cache};
use crate::command;
use crate::debian::{self, Suite};

const SUITE: &str = "trixie-backports";
const META_PACKAGE: &str = "linux-image-amd64";
const KERNEL_PARTS: [&str; 4] = ["linux-image-", "linux-modules-", "linux-binary-", "linux-base-"];
const INIT: &str = include_str!("kernel/initramfs-init.sh");

/// Loaded by the initramfs, in dependency order.
const BOOT_MODULES: [&str; 3] = ["virtio_blk", "virtio_net", "ext4"];

/// There for `modprobe` in a node.
const NODE_MODULES: [&str; 23] = [
    "virtio_console",
    "virtio_rng",
    "overlay",
    "rdma_rxe",
    "ib_uverbs",
    "ib_umad",
    "rdma_ucm",
    "veth",
    "macvlan",
    "ipvlan",
    "8021q",
    "bridge",
    "bonding",
    "dummy",
    "vrf",
    "sch_ingress",
    "cls_flower",
    "act_pedit",
    "act_skbedit",
    "sch_netem",
    "nf_tables",
    "nft_compat",
    "xt_comment",
];

/// A kernel as QEMU and the node disk take it.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// As `uname -r` says it.
    pub release: String,
    /// The compressed image.
    pub image: PathBuf,
    /// Mounts /dev/vda, unpacks the tar on /dev/vdb over it and starts /lab/init there.
    pub initramfs: PathBuf,
    /// A tree with `usr/lib/modules/RELEASE`, for the node's root file system.
    pub modules: PathBuf,
}

/// The newest kernel that the package lists know, from the cache or fetched and prepared.
///
/// # Errors
/// It cannot be fetched, or lacks a module that nodes need.
pub fn newest(cache: &Cache) -> Result<Kernel> {
    let suite = Suite::open(cache, SUITE)?;
    let packages = kernel_packages(&suite)?;
    let names: Vec<&str> = packages.iter().map(String::as_str).collect();
    let unpacked = debian::unpack(cache, SUITE, &names)?;
    let busybox = debian::unpack(cache, "trixie", &["busybox-static"])?;
    let recipe = cache::digest(&format!("{INIT}{BOOT_MODULES:?}{NODE_MODULES:?}"))?;
    let version = suite.versions(&[META_PACKAGE])?.concat().replace(META_PACKAGE, "").replace('=', "");
    let key = format!("kernel/{version}_{recipe}");
    let place = cache.entry(&key, |place| prepare(&unpacked, &busybox, place))?;
    Ok(Kernel {
        release: fs::read_to_string(place.join("release"))?,
        image: place.join("vmlinuz"),
        initramfs: place.join("initramfs"),
        modules: place.join("root"),
    })
}

/// The meta-package and those of the kernel below it; their number and names change between versions.
fn kernel_packages(suite: &Suite) -> Result<Vec<String>> {
    let mut found = vec![META_PACKAGE.to_string()];
    let mut open = found.clone();
    while let Some(package) = open.pop() {
        for name in suite.depends(&package)? {
            let is_part = KERNEL_PARTS.iter().any(|part| name.starts_with(part));
            if is_part && !found.contains(&name) {
                found.push(name.clone());
                open.push(name);
            }
        }
    }
    Ok(found)
}

fn prepare(unpacked: &Path, busybox: &Path, place: &Path) -> Result<()> {
    let modules =
        debian::find_below(unpacked, "lib/modules").context("the kernel's packages have no lib/modules")?;
    let release = fs::read_dir(&modules)?.flatten().next().context("no kernel release below lib/modules")?;
    let release = release.file_name().to_string_lossy().into_owned();
    fs::create_dir_all(place)?;
    let images = [modules.join(&release).join("vmlinuz"), unpacked.join(format!("boot/vmlinuz-{release}"))];
    let image =
        images.iter().find(|image| image.exists()).context("the kernel's packages have no vmlinuz")?;
    fs::copy(image, place.join("vmlinuz"))?;
    let dependencies = read_dependencies(&modules, &release)?;
    let order = plan_modules(&dependencies, &BOOT_MODULES)?;
    let all = plan_modules(&dependencies, &[&BOOT_MODULES[..], &NODE_MODULES[..]].concat())?;
    let root = place.join("root/usr/lib/modules").join(&release);
    for module in &all {
        unpack_module(&modules.join(&release).join(module), &root.join(plain(module)))?;
    }
    for list in ["modules.builtin", "modules.builtin.modinfo", "modules.order"] {
        let _ = fs::copy(modules.join(&release).join(list), root.join(list));
    }
    let base = tree_for_depmod(&place.join("root/usr/lib/modules"))?;
    command::run(Command::new("/usr/sbin/depmod").arg("-b").arg(base.path()).arg(&release))?;
    write_initramfs(busybox, &root, &order, place)?;
    fs::write(place.join("release"), release)?;
    Ok(())
}

/// modules.dep of the whole kernel: file → the files it needs, nearest first. Built-in ones need nothing.
fn read_dependencies(modules: &Path, release: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let base = tree_for_depmod(modules)?;
    let mut depmod = Command::new("/usr/sbin/depmod");
    let text = command::run_text(depmod.arg("--dry-run").arg("-b").arg(base.path()).arg(release))?;
    let builtin = fs::read_to_string(modules.join(release).join("modules.builtin")).unwrap_or_default();
    Ok(parse_dependencies(&text, &builtin))
}

/// depmod wants BASE/lib/modules, whereas the packages have usr/lib/modules.
fn tree_for_depmod(modules: &Path) -> Result<tempfile::TempDir> {
    let base = tempfile::tempdir()?;
    fs::create_dir(base.path().join("lib"))?;
    symlink(modules, base.path().join("lib/modules"))?;
    Ok(base)
}

/// A dry run writes modules.dep and then other lists, which have no file before a colon.
fn parse_dependencies(text: &str, builtin: &str) -> BTreeMap<String, Vec<String>> {
    let loadable = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file.to_string(), needs.split_whitespace().map(str::to_string).collect()));
    let built_in = builtin.lines().map(|file| (format!("builtin:{file}"), Vec::new()));
    loadable.chain(built_in).collect()
}

/// The files to load for `wanted`, each after what it needs; built-in ones drop out.
fn plan_modules(dependencies: &BTreeMap<String, Vec<String>>, wanted: &[&str]) -> Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    for name in wanted {
        let file = dependencies.keys().find(|file| module_name(file) == *name);
        let Some(file) = file else { bail!("the kernel has no module {name}") };
        if file.starts_with("builtin:") {
            continue;
        }
        for file in dependencies[file].iter().rev().chain([file]) {
            if !order.contains(file) {
                order.push(file.clone());
            }
        }
    }
    Ok(order)
}

fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// The path without its compression suffix.
fn plain(module: &str) -> &str {
    module.find(".ko").map_or(module, |at| &module[..at + 3])
}

fn unpack_module(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().context("a module lies in a folder")?;
    fs::create_dir_all(parent)?;
    let program = match from.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::copy(from, to).map(drop).with_context(|| format!("copy {}", from.display())),
    };
    let file = fs::File::create(to)?;
    let status = Command::new(program).arg("-dc").arg(from).stdout(file).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("{program} -dc {}: {status}", from.display());
    }
    Ok(())
}

fn write_initramfs(busybox: &Path, modules: &Path, order: &[String], place: &Path) -> Result<()> {
    let tree = tempfile::tempdir()?;
    for folder in ["bin", "dev", "modules", "root"] {
        fs::create_dir(tree.path().join(folder))?;
    }
    let program = debian::find_below(busybox, "bin/busybox").context("busybox-static has no busybox")?;
    fs::copy(program, tree.path().join("bin/busybox"))?;
    for (number, module) in order.iter().enumerate() {
        let name = format!("{number:02}_{}.ko", module_name(module));
        fs::copy(modules.join(plain(module)), tree.path().join("modules").join(name))?;
    }
    fs::write(tree.path().join("init"), INIT)?;
    let script = "chmod 755 init && find . | cpio --quiet -o -H newc -R 0:0 > \"$1\"";
    let mut pack = Command::new("sh");
    pack.args(["-ec", script, "sh"]).arg(place.join("initramfs")).current_dir(tree.path());
    command::run(&mut pack).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/net/veth.ko.xz:\n\
        kernel/rdma/rdma_rxe.ko.xz: kernel/rdma/ib_uverbs.ko.xz kernel/rdma/ib_core.ko.xz\n\
        kernel/rdma/ib_uverbs.ko.xz: kernel/rdma/ib_core.ko.xz\nkernel/rdma/ib_core.ko.xz:\n";

    #[test]
    fn a_module_is_loaded_after_what_it_needs_and_once() {
        let order = plan_modules(&parse_dependencies(DEP, ""), &["ib_uverbs", "rdma_rxe", "veth"]).unwrap();
        let names: Vec<String> = order.iter().map(|file| module_name(file)).collect();
        assert_eq!(names, ["ib_core", "ib_uverbs", "rdma_rxe", "veth"]);
        assert_eq!(plain(&order[0]), "kernel/rdma/ib_core.ko");
    }

    #[test]
    fn a_built_in_module_is_not_loaded_and_a_missing_one_is_an_error() {
        let dependencies = parse_dependencies(DEP, "kernel/fs/ext4/ext4.ko\n");
        assert!(plan_modules(&dependencies, &["ext4"]).unwrap().is_empty());
        assert!(plan_modules(&dependencies, &["mlx9"]).unwrap_err().to_string().contains("mlx9"));
    }
}
