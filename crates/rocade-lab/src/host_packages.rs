//! Programs that the lab needs on the test machine itself, installed from the machine's own release where they lack.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cache::Cache;
use crate::command;

/// A program and the package that has it.
const NEEDED: [(&str, &str); 14] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mmdebstrap", "mmdebstrap"),
    ("mkfs.ext4", "e2fsprogs"),
    ("depmod", "kmod"),
    ("cpio", "cpio"),
    ("xz", "xz-utils"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ssh", "openssh-client"),
    ("openssl", "openssl"),
    ("strip", "binutils"),
    ("nsenter", "util-linux"),
    ("gpgv", "gpgv"),
    ("jq", "jq"),
];

/// Installs what lacks, fetching the machine's package lists anew only when the install fails with the present ones.
///
/// # Errors
/// apt-get could not install them.
pub fn install(cache: &Cache) -> Result<()> {
    let lacking: Vec<&str> =
        NEEDED.iter().filter(|(program, _)| !is_installed(program)).map(|(_, package)| *package).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    cache.steps().run(&format!("installing {}", lacking.join(" ")), || {
        if apt_install(&lacking).is_ok() {
            return Ok(());
        }
        command::run(Command::new("apt-get").args(["-q", "update"]))?;
        apt_install(&lacking)
    })
}

/// Whether `program` is in a folder of PATH or where Debian keeps administrators' programs.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).to_path_buf()));
    folders.iter().any(|folder| folder.join(program).is_file())
}

fn apt_install(packages: &[&str]) -> Result<()> {
    let mut install = Command::new("apt-get");
    install.args(["-q", "install", "-y", "--no-install-recommends"]).args(packages);
    command::run(install.env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}
