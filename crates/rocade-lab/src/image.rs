//! Container images without a container engine: folders become layers, layers a docker-archive that
//! `ctr images import` takes. Owns what lies in the lab's images; the node disk's make-up is `disk`'s.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cache::{self, Cache};
use crate::command;
use crate::disk;

/// The product's image, as manifests name it.
pub const ROCADE: &str = "localhost/rocade:lab";
/// The image that holds a Pod's namespaces.
pub const PAUSE: &str = "localhost/pause:lab";

/// Programs of the base layer, as Debian places them, besides busybox's.
const PROGRAMS: [&str; 4] =
    ["usr/bin/ibv_rc_pingpong", "usr/bin/ibv_devices", "usr/bin/ibv_devinfo", "usr/bin/ucx_info"];
/// Loaded by name at run time, so no program lists it as needed: libibverbs, soft-RoCE's provider, UCX's verbs
/// transports.
const LOADED: [&str; 3] = [
    "usr/lib/x86_64-linux-gnu/libibverbs.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    "usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0",
];

/// An image: a name, layers (plain tar files, lowest first) and what it starts.
#[derive(Debug)]
pub struct Image<'a> {
    /// With registry and tag, such as [`ROCADE`].
    pub name: &'a str,
    /// Uncompressed.
    pub layers: Vec<PathBuf>,
    /// Program and arguments.
    pub entrypoint: &'a [&'a str],
}

impl Image<'_> {
    /// Writes the docker-archive to `place`.
    ///
    /// # Errors
    /// A layer cannot be read, or `tar` failed.
    pub fn write(&self, place: &Path) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (mut names, mut digests) = (Vec::new(), Vec::new());
        for (number, layer) in self.layers.iter().enumerate() {
            let name = format!("layer{number}.tar");
            digests.push(format!("sha256:{}", sha256(layer)?));
            symlink(layer, folder.path().join(&name))?;
            names.push(name);
        }
        let config = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        let manifest = json!([{"Config": "config.json", "RepoTags": [self.name], "Layers": names}]);
        fs::write(folder.path().join("config.json"), config.to_string())?;
        fs::write(folder.path().join("manifest.json"), manifest.to_string())?;
        let mut tar = Command::new("tar");
        tar.args(["--dereference", "-cf"]).arg(place).arg("-C").arg(folder.path());
        command::run(tar.args(["manifest.json", "config.json"]).args(&names)).map(drop)
    }
}

/// Packs the tree below `folder` as a layer, owned by root, the same bytes for the same tree.
///
/// # Errors
/// `tar` failed.
pub fn pack_layer(folder: &Path, place: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "-cf"]).arg(place);
    command::run(tar.arg("-C").arg(folder).arg(".")).map(drop)
}

/// Writes [`ROCADE`]'s archive to `place`: the base layer and, above it, the stripped `rocade` at /usr/bin/rocade.
///
/// # Errors
/// `rocade` is no program that `strip` takes, or packing failed.
pub fn write_rocade(cache: &Cache, rocade: &Path, place: &Path) -> Result<()> {
    let tree = tempfile::tempdir()?;
    fs::create_dir_all(tree.path().join("usr/bin"))?;
    command::run(Command::new("strip").arg("-o").arg(tree.path().join("usr/bin/rocade")).arg(rocade))?;
    let layer = tempfile::NamedTempFile::new()?;
    pack_layer(tree.path(), layer.path())?;
    let layers = vec![base_layer(cache)?, layer.path().to_path_buf()];
    Image { name: ROCADE, layers, entrypoint: &["/usr/bin/rocade"] }.write(place)
}

/// Busybox as sh and tools, libibverbs with soft-RoCE's provider alone, ibv_rc_pingpong, and the libraries of all.
/// It changes with Debian's versions only, so nodes have it from their disk.
///
/// # Errors
/// The node's root file system cannot be built or lacks one of these.
pub fn base_layer(cache: &Cache) -> Result<PathBuf> {
    let root = disk::root(cache)?;
    let recipe = cache::digest(&format!("{}{PROGRAMS:?}{LOADED:?}", root.display()))?;
    cache.entry(&format!("image/base_{recipe}.tar"), |place| {
        let tree = tempfile::tempdir()?;
        stage_base(&root, tree.path())?;
        pack_layer(tree.path(), place)
    })
}

/// Writes [`PAUSE`]'s archive to `place`; it shares the base layer, so it costs no space of its own.
///
/// # Errors
/// As [`base_layer`].
pub fn write_pause(cache: &Cache, place: &Path) -> Result<()> {
    let entrypoint = &["/usr/bin/busybox", "sleep", "1000000000"];
    Image { name: PAUSE, layers: vec![base_layer(cache)?], entrypoint }.write(place)
}

/// Links busybox's tools into the folder where it lies, except those that this folder or `other` has already.
///
/// # Errors
/// The folder has no busybox, or a link cannot be made.
pub fn link_busybox(folder: &Path, other: &Path) -> Result<()> {
    for tool in command::run_text(Command::new(folder.join("busybox")).arg("--list"))?.lines() {
        let place = folder.join(tool);
        if place.symlink_metadata().is_err() && other.join(tool).symlink_metadata().is_err() {
            symlink("busybox", place)?;
        }
    }
    Ok(())
}

fn stage_base(root: &Path, tree: &Path) -> Result<()> {
    for folder in
        ["dev", "etc/libibverbs.d", "proc", "sys", "tmp", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"]
    {
        fs::create_dir_all(tree.join(folder))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), tree.join(name))?;
    }
    fs::write(tree.join("etc/libibverbs.d/rxe.driver"), "driver rxe\n")?;
    fs::write(tree.join("etc/passwd"), "root:x:0:0:root:/:/bin/sh\n")?;
    fs::write(tree.join("etc/group"), "root:x:0:\n")?;
    let mut files: BTreeSet<PathBuf> = PROGRAMS.iter().chain(&LOADED).map(PathBuf::from).collect();
    for file in files.clone() {
        files.extend(needed_libraries(root, &root.join(file))?);
    }
    for extra in ["libgcc_s.so.1", "libm.so.6"] {
        files.insert(Path::new("usr/lib/x86_64-linux-gnu").join(extra));
    }
    files.insert("usr/lib64/ld-linux-x86-64.so.2".into());
    files.insert("usr/bin/busybox".into());
    for file in files {
        let to = tree.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(tree))?;
        fs::copy(root.join(&file), &to)
            .with_context(|| format!("copy {} from the node's root", file.display()))?;
    }
    link_busybox(&tree.join("usr/bin"), &tree.join("usr/sbin"))
}

/// What the dynamic loader of `root` would load for `file`, relative to `root`.
fn needed_libraries(root: &Path, file: &Path) -> Result<Vec<PathBuf>> {
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut loader = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    let text = command::run_text(loader.arg("--library-path").arg(&libraries).arg("--list").arg(file))?;
    let paths = text.lines().filter_map(|line| line.split_once("=> ")?.1.split(" (").next());
    Ok(paths.filter_map(|path| Path::new(path).strip_prefix(root).ok().map(Path::to_path_buf)).collect())
}

fn sha256(file: &Path) -> Result<String> {
    let text = command::run_text(Command::new("sha256sum").arg(file))?;
    text.split_whitespace().next().map(str::to_string).context("sha256sum said nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_names_each_layer_by_the_digest_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, layer, archive) =
            (folder.path().join("tree"), folder.path().join("l.tar"), folder.path().join("a.tar"));
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("file"), "content").unwrap();
        pack_layer(&tree, &layer).unwrap();
        Image { name: "localhost/x:1", layers: vec![layer], entrypoint: &["/file"] }.write(&archive).unwrap();
        let extracted = folder.path().join("out");
        fs::create_dir(&extracted).unwrap();
        command::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&extracted)).unwrap();
        let config: serde_json::Value =
            serde_json::from_slice(&fs::read(extracted.join("config.json")).unwrap()).unwrap();
        let digest = sha256(&extracted.join("layer0.tar")).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{digest}"));
    }
}
