//! What a node could leave on the machine when it ends, in whatever way it ends.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rocade_lab::cache::Cache;
use rocade_lab::native::cgroups;
use rocade_lab::steps::Steps;
use rocade_lab::traces::Traces;

use crate::HOLD;

/// Sysctls that a kubelet writes where it can.
const SYSCTLS: [&str; 4] =
    ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];

/// The machine as it was.
#[derive(Debug)]
pub(crate) struct Before {
    traces: Traces,
    sysctls: Vec<String>,
    places: BTreeSet<&'static str>,
}

impl Before {
    pub(crate) fn read() -> Result<Before> {
        Ok(Before { traces: traces()?, sysctls: sysctls(), places: places() })
    }

    /// Starts a node in a process of its own and sends that a signal which ends it.
    pub(crate) fn end_process(&self, signal: &str) -> Result<()> {
        let mut process =
            Command::new(std::env::current_exe()?).env(HOLD, "1").stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        BufReader::new(process.stdout.take().context("no stdout")?).read_line(&mut said)?;
        Command::new("kill").args([signal, &process.id().to_string()]).status()?;
        process.wait()?;
        ensure!(said == "up\n", "the process said {said:?}");
        self.nothing_beyond()
    }

    /// The kernel takes namespaces down a moment after their last process.
    pub(crate) fn nothing_beyond(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let (now, groups) = (traces()?, cgroups::groups()?);
            let left = now.beyond(&self.traces);
            if left.is_empty() && groups.is_empty() {
                break;
            }
            ensure!(begun.elapsed() < Duration::from_secs(20), "left behind: {left:?} {groups:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        ensure!(sysctls() == self.sysctls, "sysctls were {:?} and are {:?}", self.sysctls, sysctls());
        ensure!(places() == self.places, "there were {:?} and are {:?}", self.places, places());
        Ok(())
    }
}

fn traces() -> Result<Traces> {
    Traces::read(&Cache::open(Steps::new())?)
}

/// Those that kubelet and containerd make where they can.
fn places() -> BTreeSet<&'static str> {
    let places = ["/var/lib/kubelet", "/dev/infiniband", "/etc/cni", "/var/log/pods", "/var/log/containers"];
    places.into_iter().filter(|place| Path::new(place).exists()).collect()
}

fn sysctls() -> Vec<String> {
    let read = |key: &&str| fs::read_to_string(Path::new("/proc/sys").join(key)).unwrap_or_default();
    SYSCTLS.iter().map(read).collect()
}
