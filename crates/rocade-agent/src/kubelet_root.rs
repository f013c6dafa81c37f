//! Where the kubelet has its root directory. Its device-plugin directory is always at the same place, but plugins_registry
//! and pod-resources go with its root.

use std::fs;
use std::path::{Path, PathBuf};

/// Where distributions put it.
const KNOWN: [&str; 4] = [
    "/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/data/kubelet",
];

/// The root directory: of the kubelet that runs, where its process can be seen; else the first known place that has one
/// of the directories that a kubelet makes there; else the usual one.
pub fn find_kubelet_root() -> PathBuf {
    find(Path::new("/"))
}

fn find(root: &Path) -> PathBuf {
    let has = |dir: &&str| {
        let dir = root.join(dir.trim_start_matches('/'));
        ["pod-resources", "plugins_registry"].iter().any(|name| dir.join(name).is_dir())
    };
    let running = read_root_dir(&root.join("proc"));
    let known = || KNOWN.into_iter().find(has).unwrap_or(KNOWN[0]).into();
    running.unwrap_or_else(known)
}

/// `--root-dir` of a running kubelet; None where no process is one or it has no such flag.
fn read_root_dir(proc: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(proc).ok()?;
    let cmdlines = entries.flatten().filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    cmdlines.filter_map(|cmdline| parse_root_dir(&String::from_utf8_lossy(&cmdline))).next()
}

fn parse_root_dir(cmdline: &str) -> Option<PathBuf> {
    let mut words = cmdline.split('\0');
    if words.next()?.rsplit('/').next() != Some("kubelet") {
        return None;
    }
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix("--").or(word.strip_prefix('-')) else { continue };
        match flag.split_once('=') {
            Some(("root-dir", dir)) => return Some(dir.into()),
            None if flag == "root-dir" => return words.next().map(PathBuf::from),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_a_running_kubelet_counts_then_a_directory_that_is_there_then_the_usual_one() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(find(temp.path()), Path::new("/var/lib/kubelet"));
        fs::create_dir_all(temp.path().join("var/lib/k0s/kubelet/plugins_registry")).unwrap();
        assert_eq!(find(temp.path()), Path::new("/var/lib/k0s/kubelet"));
        fs::create_dir_all(temp.path().join("proc/7")).unwrap();
        let write = |text: &str| fs::write(temp.path().join("proc/7/cmdline"), text).unwrap();
        write("/usr/bin/kubelet\0--v=2\0--root-dir=/data/kubelet\0");
        assert_eq!(find(temp.path()), Path::new("/data/kubelet"));
        write("kubelet\0--root-dir\0/mnt/kubelet\0");
        assert_eq!(find(temp.path()), Path::new("/mnt/kubelet"));
        write("grep\0--root-dir=/x\0");
        assert_eq!(find(temp.path()), Path::new("/var/lib/k0s/kubelet"));
    }
}
