//! What a lab could leave behind on the machine: its processes with their namespaces, mounts and interfaces. Read
//! before and after, and compared.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cache::Cache;

/// All of these on the machine at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces(BTreeSet<String>);

impl Traces {
    /// Reads them as root, of every process: a lab's are those that name one of the cache's run folders on their
    /// command line, as the holder does, which ends all others.
    ///
    /// # Errors
    /// /proc or /sys cannot be read.
    pub fn read(cache: &Cache) -> Result<Self> {
        let runs = cache.folder().join("run").display().to_string();
        let mut found = BTreeSet::new();
        for process in fs::read_dir("/proc").context("list /proc")?.flatten() {
            // A process may end while it is looked at.
            let Ok(line) = fs::read(process.path().join("cmdline")) else { continue };
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&runs) {
                let words: String = line.chars().take(60).collect();
                found.insert(format!("process {} {words}", process.file_name().to_string_lossy()));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
        found
            .extend(mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(|at| format!("mount {at}")));
        for interface in fs::read_dir("/sys/class/net").context("list /sys/class/net")?.flatten() {
            found.insert(format!("interface {}", interface.file_name().to_string_lossy()));
        }
        // Other names of namespaces that would outlive their processes.
        for kept in fs::read_dir(Path::new("/run/netns")).into_iter().flatten().flatten() {
            found.insert(format!("kept namespace {}", kept.path().display()));
        }
        Ok(Self(found))
    }

    /// What is there now and was not in `before`.
    pub fn beyond<'a>(&'a self, before: &'a Traces) -> Vec<&'a str> {
        self.0.difference(&before.0).map(String::as_str).collect()
    }
}
