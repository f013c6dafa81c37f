//! What a lab could leave behind on the machine: namespaces with the processes in them, mounts and interfaces. Read
//! before and after, and compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// All of these on the machine at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// Reads them as root, of every process.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn read() -> Result<Self> {
        let mut found = BTreeSet::new();
        for process in fs::read_dir("/proc").context("list /proc")?.flatten() {
            // A process may end while it is looked at.
            for kind in ["pid", "mnt", "net"] {
                if let Ok(namespace) = fs::read_link(process.path().join("ns").join(kind)) {
                    found.insert(format!("namespace {}", namespace.display()));
                }
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
        found
            .extend(mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(|at| format!("mount {at}")));
        for interface in fs::read_dir("/sys/class/net").context("list /sys/class/net")?.flatten() {
            found.insert(format!("interface {}", interface.file_name().to_string_lossy()));
        }
        for kept in
            ["/run/netns", "/var/run/netns"].map(Path::new).iter().filter_map(|it| fs::read_dir(it).ok())
        {
            found.extend(kept.flatten().map(|it| format!("kept namespace {}", it.path().display())));
        }
        Ok(Self(found))
    }

    /// What is there now and was not in `before`.
    pub fn beyond<'a>(&'a self, before: &'a Traces) -> Vec<&'a str> {
        self.0.difference(&before.0).map(String::as_str).collect()
    }
}
