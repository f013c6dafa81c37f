//! The host's name, and what its next boot makes of the RDMA namespace mode: the kernel's command line before
//! /etc/modprobe.d, as ib_core takes them.

use std::path::Path;

use rocade_core::{Host, NetnsMode};

use crate::attributes::read_text;
use crate::root::Root;

/// Name of the host.
pub(crate) const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// Options of modules.
pub(crate) const MODPROBE: &str = "/etc/modprobe.d";

pub(super) fn read(root: &Root, host: &mut Host) {
    host.hostname = read_text(root, Path::new(HOSTNAME)).ok().filter(|name| !name.is_empty());
    let on_line = host.cmdline.as_deref().and_then(|line| parse_options(line, "ib_core.netns_mode="));
    host.netns_mode_at_boot =
        on_line.map(|mode| (mode, "/proc/cmdline".to_owned())).or_else(|| read_modprobe(root));
}

/// What the kernel drew when it started, the same in all of its containers (random(4)); None where it does not say.
pub fn read_boot_id(root: &Root) -> Option<String> {
    read_text(root, Path::new("/proc/sys/kernel/random/boot_id")).ok().filter(|id| !id.is_empty())
}

/// Of a file of module options what is read: the rest says nothing of RDMA.
pub(crate) fn keep_ib_core(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let kept = text.lines().filter(|line| is_of_ib_core(line)).map(|line| format!("{line}\n"));
    kept.collect::<String>().into_bytes()
}

/// Later files, in the order of their names, win (modprobe.d(5)).
fn read_modprobe(root: &Root) -> Option<(NetnsMode, String)> {
    let mut found = None;
    for name in root.list(MODPROBE).unwrap_or_default() {
        let file = Path::new(MODPROBE).join(&name);
        if file.extension().is_none_or(|extension| extension != "conf") {
            continue;
        }
        let Ok(content) = root.read(&file) else { continue };
        let text = String::from_utf8_lossy(&content);
        for line in text.lines().filter(|line| is_of_ib_core(line)) {
            if let Some(mode) = parse_options(line, "netns_mode=") {
                found = Some((mode, file.display().to_string()));
            }
        }
    }
    found
}

fn is_of_ib_core(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("options") && matches!(words.next(), Some("ib_core" | "ib-core"))
}

/// A boolean as the kernel's parameters write it (kernel/params.c).
fn parse_options(text: &str, key: &str) -> Option<NetnsMode> {
    let value = text.split_whitespace().filter_map(|word| word.strip_prefix(key)).next_back()?;
    match value {
        "1" | "Y" | "y" | "on" => Some(NetnsMode::Shared),
        "0" | "N" | "n" | "off" => Some(NetnsMode::Exclusive),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_boot_is_read_and_where_it_does_not_say_there_is_none() {
        let temp = tempfile::tempdir().unwrap();
        let random = temp.path().join("proc/sys/kernel/random");
        let root = Root::live(temp.path()).unwrap();
        assert_eq!(read_boot_id(&root), None);
        std::fs::create_dir_all(&random).unwrap();
        std::fs::write(random.join("boot_id"), "8e8a1cf2-0c9d-4d8e-9f51-7a4e1f2c3b4d\n").unwrap();
        assert_eq!(read_boot_id(&root).as_deref(), Some("8e8a1cf2-0c9d-4d8e-9f51-7a4e1f2c3b4d"));
    }

    #[test]
    fn only_the_options_of_ib_core_are_kept_and_read() {
        let text = "# options ib_core netns_mode=1\noptions other key=secret\noptions ib_core netns_mode=0\n";
        assert_eq!(keep_ib_core(text.as_bytes()), b"options ib_core netns_mode=0\n");
        assert_eq!(parse_options("options ib_core netns_mode=0", "netns_mode="), Some(NetnsMode::Exclusive));
        assert_eq!(
            parse_options("ro ib_core.netns_mode=Y quiet", "ib_core.netns_mode="),
            Some(NetnsMode::Shared)
        );
        assert_eq!(parse_options("quiet", "ib_core.netns_mode="), None);
    }
}
