//! The native node's own groups in each cgroup hierarchy of the machine, and their end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Groups are named so, with the number of the process that owns them.
const PREFIX: &str = "rocade-native-";

/// The kernel empties a group a moment after its processes ended.
const EMPTY_LIMIT: Duration = Duration::from_secs(10);

/// The name of this process's group.
pub(crate) fn name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Removes groups of that name, whose processes have ended.
pub(crate) fn remove(name: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left: Vec<_> = groups()?.into_iter().filter(|group| group.ends_with(name)).collect();
        let results = left.iter().map(|group| remove_tree(group));
        let Some(error) = results.filter_map(Result::err).next() else { return Ok(()) };
        if begun.elapsed() > EMPTY_LIMIT {
            bail!("removing the cgroups {name}: {error}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Removes groups that processes left which were killed.
pub(super) fn sweep() -> Result<()> {
    for group in groups()? {
        let owner = group.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove_tree(&group).with_context(|| format!("remove {}", group.display()))?;
        }
    }
    Ok(())
}

/// All groups of native nodes on this machine.
pub fn groups() -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
    let mut found = Vec::new();
    for line in mounts.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, place, "cgroup" | "cgroup2", ..] = words[..] else { continue };
        let entries = fs::read_dir(place).with_context(|| format!("list {place}"))?.flatten();
        let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX));
        found.extend(ours.map(|e| e.path()));
    }
    Ok(found)
}

fn remove_tree(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
