//! Whether this machine can carry the lab, asked before anything long is begun: facts are read first, then judged.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::host_packages;

/// Programs that the lab cannot install for itself, and how a person gets them.
const PROGRAMS: [(&str, &str); 6] = [
    ("go", "install Go 1.26 or later and put it in PATH"),
    ("cargo", "install Rust and put cargo in PATH"),
    ("apt-get", "use Debian 12"),
    ("dpkg-deb", "use Debian 12"),
    ("unshare", "install util-linux"),
    ("setpriv", "install util-linux"),
];
const MIB: u64 = 1 << 20;
/// Two nodes of 2 GiB, of which they touch half, and the control plane.
const MEMORY_MIB: u64 = 5 * 1024;
/// A finished cache is 3 GiB and Go's own build cache 3 GiB more.
const EMPTY_CACHE_DISK_MIB: u64 = 10 * 1024;
/// What a run writes when all is built.
const RUN_DISK_MIB: u64 = 2 * 1024;

/// What was seen of the machine.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Effective user.
    pub is_root: bool,
    /// The processor's architecture, in Rust's words.
    pub architecture: &'static str,
    /// Opening /dev/net/tun: its error text, None when it went well.
    pub tun_error: Option<String>,
    /// What `unshare` of the lab's namespaces said, None when it went well.
    pub namespace_error: Option<String>,
    /// Of `PROGRAMS`, those that are not there.
    pub lacking: Vec<String>,
    /// MemAvailable of /proc/meminfo.
    pub memory_mib: u64,
    /// Free for this user on the cache's file system.
    pub disk_mib: u64,
    /// Whether a disk for nodes was built already.
    pub is_cache_filled: bool,
}

/// Reads the facts and fails with everything that lacks.
///
/// # Errors
/// The machine cannot carry the lab: one line each, with what to do.
pub fn require(cache: &Cache) -> Result<()> {
    let lacks = check(&read(cache)?);
    if lacks.is_empty() {
        return Ok(());
    }
    bail!("this machine cannot carry the lab:\n  - {}", lacks.join("\n  - "));
}

/// What lacks, and what to do about it; empty when nothing does.
pub fn check(facts: &Facts) -> Vec<String> {
    let mut lacks = Vec::new();
    if !facts.is_root {
        lacks.push("not root: the lab makes namespaces, bridges and taps; run it as root (sudo)".to_string());
    }
    if facts.architecture != "x86_64" {
        lacks.push(format!(
            "this is {}: the nodes are x86_64 machines with x86_64 programs; use such a machine",
            facts.architecture
        ));
    }
    if let Some(error) = &facts.tun_error {
        lacks.push(format!("/dev/net/tun cannot be opened ({error}): the nodes' networks need it; `modprobe tun`, or give it to this container with --device /dev/net/tun"));
    }
    if let Some(error) = &facts.namespace_error {
        lacks.push(format!("namespaces cannot be made ({error}): run with CAP_SYS_ADMIN and CAP_NET_ADMIN, as in a privileged container"));
    }
    for (program, remedy) in PROGRAMS {
        if facts.lacking.iter().any(|lacking| lacking == program) {
            lacks.push(format!("no {program}: {remedy}"));
        }
    }
    if facts.memory_mib < MEMORY_MIB {
        lacks.push(format!(
            "{} MiB of memory are available, {MEMORY_MIB} are needed: end other programs",
            facts.memory_mib
        ));
    }
    let disk = if facts.is_cache_filled { RUN_DISK_MIB } else { EMPTY_CACHE_DISK_MIB };
    if facts.disk_mib < disk {
        lacks.push(format!("{} MiB are free for the cache, {disk} are needed: set ROCADE_LAB_CACHE to a folder on a larger disk", facts.disk_mib));
    }
    lacks
}

fn read(cache: &Cache) -> Result<Facts> {
    let tun = fs::File::options().read(true).write(true).open("/dev/net/tun");
    let missing = PROGRAMS.iter().filter(|(program, _)| !host_packages::is_installed(program));
    Ok(Facts {
        is_root: rustix::process::geteuid().is_root(),
        architecture: std::env::consts::ARCH,
        tun_error: tun.err().map(|error| error.to_string()),
        namespace_error: try_namespaces(),
        lacking: missing.map(|(program, _)| program.to_string()).collect(),
        memory_mib: read_memory_mib()?,
        disk_mib: read_disk_mib(cache.folder())?,
        is_cache_filled: cache.folder().join("disk").exists(),
    })
}

fn try_namespaces() -> Option<String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--net", "--pid", "--fork", "--mount-proc", "true"]);
    match unshare.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_string()),
        Err(error) => Some(error.to_string()),
    }
}

fn read_memory_mib() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kib.context("/proc/meminfo has no MemAvailable")? / 1024)
}

fn read_disk_mib(folder: &Path) -> Result<u64> {
    let stat =
        rustix::fs::statvfs(folder).with_context(|| format!("ask for free space of {}", folder.display()))?;
    Ok(stat.f_bavail * stat.f_frsize / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            is_root: true,
            architecture: "x86_64",
            tun_error: None,
            namespace_error: None,
            lacking: vec![],
            memory_mib: 16 * 1024,
            disk_mib: 50 * 1024,
            is_cache_filled: false,
        }
    }

    #[test]
    fn a_machine_with_everything_lacks_nothing() {
        assert!(check(&good()).is_empty());
    }

    #[test]
    fn each_missing_thing_is_one_line_that_names_it_and_a_remedy() {
        let tun = Some("No such file or directory".to_string());
        let cases = [
            (Facts { is_root: false, ..good() }, "root", "sudo"),
            (Facts { architecture: "aarch64", ..good() }, "aarch64", "use such a machine"),
            (Facts { tun_error: tun, ..good() }, "/dev/net/tun", "modprobe tun"),
            (Facts { namespace_error: Some("EPERM".into()), ..good() }, "namespaces", "CAP_SYS_ADMIN"),
            (Facts { lacking: vec!["go".into()], ..good() }, "no go", "install Go"),
            (Facts { memory_mib: 1000, ..good() }, "1000 MiB", "end other programs"),
            (Facts { disk_mib: 3000, ..good() }, "3000 MiB", "ROCADE_LAB_CACHE"),
        ];
        for (facts, thing, remedy) in cases {
            let lacks = check(&facts);
            assert_eq!(lacks.len(), 1, "{lacks:?}");
            assert!(lacks[0].contains(thing) && lacks[0].contains(remedy), "{lacks:?}");
        }
    }

    #[test]
    fn a_filled_cache_asks_for_less_disk() {
        assert!(check(&Facts { disk_mib: 3000, is_cache_filled: true, ..good() }).is_empty());
    }
}
