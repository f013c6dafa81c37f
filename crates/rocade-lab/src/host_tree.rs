//! A recorded host laid out as files, for programs that read no recordings. What a file system cannot hold is stood in
//! for: a file whose reading fails is a link to itself, which fails as well (with ELOOP).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context, Result};
use rocade_host::{Archive, Node};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

/// Writes `sys` and `dev/infiniband` of the host recorded in `host` below `folder` (as root, for the device nodes), and
/// gives the names of its netdevs, lo left out.
///
/// # Errors
/// The recording cannot be read or the tree not be written.
pub fn lay_out(host: &Path, folder: &Path) -> Result<Vec<String>> {
    let text = fs::read(host).with_context(|| format!("read {}", host.display()))?;
    let archive = Archive::parse(&text).with_context(|| format!("read {}", host.display()))?;
    let mut result = Ok(());
    let mut netdevs = Vec::new();
    archive.visit(&mut |path, node| {
        let of_interest = path.starts_with("/sys") || path.starts_with("/dev/infiniband");
        if result.is_ok() && of_interest {
            let place = folder.join(path.strip_prefix("/").unwrap_or(path));
            result = write(&place, node).with_context(|| format!("lay out {}", place.display()));
        }
        let is_netdev = path.parent() == Some(Path::new("/sys/class/net")) && matches!(node, Node::Link(_));
        netdevs
            .extend(path.file_name().filter(|_| is_netdev).map(|name| name.to_string_lossy().into_owned()));
    });
    netdevs.retain(|name| name != "lo");
    result.map(|()| netdevs)
}

fn write(place: &Path, node: &Node) -> io::Result<()> {
    fs::create_dir_all(place.parent().unwrap_or(place))?;
    match node {
        Node::Dir(_) => fs::create_dir_all(place),
        Node::File(content) => {
            fs::write(place, content)?;
            modalias(content).map_or(Ok(()), |line| fs::write(place.with_file_name("modalias"), line))
        }
        Node::Link(target) => symlink(target, place),
        Node::Fail(_) => symlink(place.file_name().unwrap_or_default(), place),
        Node::Char { major, minor, .. } => {
            let (mode, number) = (Mode::from_raw_mode(0o666), makedev(*major, *minor));
            Ok(mknodat(CWD, place, FileType::CharacterDevice, mode, number)?)
        }
        Node::Skipped => Ok(()),
    }
}

/// The kernel shows a PCI function's alias in a file of its own besides its uevent; recordings have the uevent alone.
fn modalias(content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    text.lines().find_map(|line| line.strip_prefix("MODALIAS=")).map(|alias| format!("{alias}\n"))
}
