//! What the native node is made of: programs from Debian and from the cache, and one small image. Nothing of it is
//! installed on the machine.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::render;
use crate::cache::{self, Cache};
use crate::image::{Image, pack_layer};
use crate::{debian, kubernetes};

/// Has containerd 1.7, which runs on Debian 12's libc.
const CONTAINERD_SUITE: &str = "trixie";
/// Its runc runs on Debian 12's libc; a later one does not.
const RUNC_SUITE: &str = "bookworm";

/// Paths of the programs and of the image's archive.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) kubelet: PathBuf,
    pub(super) containerd: PathBuf,
    pub(super) ctr: PathBuf,
    pub(super) runc: PathBuf,
    pub(super) image: PathBuf,
}

/// Builds and fetches what the cache lacks.
pub(super) fn prepare(cache: &Cache, release: kubernetes::Release) -> Result<Parts> {
    let debian = debian::unpack(cache, CONTAINERD_SUITE, &["containerd", "busybox-static"])?;
    let runc = debian::unpack(cache, RUNC_SUITE, &["runc"])?;
    let image = write_image(cache, &debian.join("usr/bin/busybox"))?;
    Ok(Parts {
        kubelet: kubernetes::kubelet(cache, release)?,
        containerd: debian.join("usr/bin/containerd"),
        ctr: debian.join("usr/bin/ctr"),
        runc: runc.join("usr/sbin/runc"),
        image,
    })
}

fn write_image(cache: &Cache, busybox: &std::path::Path) -> Result<PathBuf> {
    let key = format!("image/native_{}.tar", cache::digest(&busybox.display().to_string())?);
    cache.entry(&key, |place| {
        let tree = tempfile::tempdir()?;
        for folder in ["bin", "dev", "etc", "proc", "sys", "tmp"] {
            fs::create_dir(tree.path().join(folder))?;
        }
        let to = tree.path().join("bin/busybox");
        fs::copy(busybox, &to).with_context(|| format!("copy {}", busybox.display()))?;
        symlink("busybox", tree.path().join("bin/sh"))?;
        let layer = tempfile::NamedTempFile::new()?;
        pack_layer(tree.path(), layer.path())?;
        let layers = vec![layer.path().to_path_buf()];
        Image { name: render::IMAGE, layers, entrypoint: &["/bin/busybox", "sleep", "1000000000"] }
            .write(place)
    })
}
