//! Limits and kernel settings: locked memory, command line, sysctls, CPU frequency governors, virtual or not.

use std::path::Path;

use rocade_core::Host;
use rocade_core::host::{Limit, Memlock};

use crate::attributes::read_text;
use crate::root::{Refusal, Root};

/// Settings of the whole host, below /proc/sys.
pub(crate) const SETTINGS: &[&str] = &[
    "kernel/numa_balancing",
    "net/ipv4/neigh/default/gc_thresh1",
    "net/ipv4/neigh/default/gc_thresh2",
    "net/ipv4/neigh/default/gc_thresh3",
    "vm/zone_reclaim_mode",
];
/// Settings of each interface, of `all` and of `default`, below /proc/sys/net/ipv4/conf.
pub(crate) const INTERFACE_SETTINGS: &[&str] = &["accept_local", "arp_announce", "arp_ignore", "rp_filter"];

/// Only the first network namespace has it (net/core/neighbour.c).
const OF_FIRST_NETNS: &str = "net/ipv4/neigh/default/gc_thresh1";
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

pub(super) fn read(root: &Root, host: &mut Host) {
    read_memlock(root, host);
    host.cmdline = match read_text(root, Path::new("/proc/cmdline")) {
        Ok(text) => Some(text),
        Err(refusal) => note(host, "cmdline", refusal),
    };
    for setting in SETTINGS {
        read_sysctl(root, host, setting.to_string());
    }
    let netdevs: Vec<String> = host.netdevs.iter().map(|netdev| netdev.name.clone()).collect();
    for netdev in ["all", "default"].into_iter().chain(netdevs.iter().map(String::as_str)) {
        for setting in INTERFACE_SETTINGS {
            read_sysctl(root, host, format!("net/ipv4/conf/{netdev}/{setting}"));
        }
    }
    host.initial_netns = tell_netns(host);
    read_governors(root, host);
    host.virtual_machine = read_machine(root);
}

/// Which network namespace this is, where nothing else is asked of the settings.
pub(super) fn read_netns(root: &Root, host: &mut Host) {
    for setting in [OF_FIRST_NETNS, "net/ipv4/conf/all/rp_filter"] {
        read_sysctl(root, host, setting.to_owned());
    }
    host.initial_netns = tell_netns(host);
}

fn note<T>(host: &mut Host, field: &str, refusal: Refusal) -> Option<T> {
    host.unknown.insert(field.to_owned(), refusal.to_string());
    None
}

/// The limit of locked memory.
pub(super) fn read_memlock(root: &Root, host: &mut Host) {
    host.memlock = match read_text(root, Path::new("/proc/self/limits")) {
        Ok(text) => parse_memlock(&text),
        Err(refusal) => note(host, "memlock", refusal),
    };
}

/// `Max locked memory         65536                67108864             bytes`.
fn parse_memlock(text: &str) -> Option<Memlock> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    let mut words = line.split_whitespace();
    Some(Memlock { soft: parse_limit(words.next()?)?, hard: parse_limit(words.next()?)? })
}

fn parse_limit(word: &str) -> Option<Limit> {
    if word == "unlimited" { Some(Limit::Unlimited) } else { word.parse().ok().map(Limit::Bytes) }
}

fn read_sysctl(root: &Root, host: &mut Host, setting: String) {
    let answer = read_text(root, &Path::new("/proc/sys").join(&setting));
    match answer.as_deref().map(|text| text.trim().parse()) {
        Ok(Ok(value)) => drop(host.sysctls.insert(setting, value)),
        Ok(Err(_)) => drop(host.unknown.insert(format!("sysctls.{setting}"), "not a number".into())),
        // An interface may go while it is read.
        Err(refusal) if refusal.is_absent() && setting.starts_with("net/ipv4/conf/") => {}
        Err(refusal) => note(host, &format!("sysctls.{setting}"), *refusal).unwrap_or_default(),
    }
}

fn tell_netns(host: &Host) -> Option<bool> {
    if host.sysctls.contains_key(OF_FIRST_NETNS) {
        return Some(true);
    }
    let why = host.unknown.get(&format!("sysctls.{OF_FIRST_NETNS}"))?;
    let has_others = host.sysctls.contains_key("net/ipv4/conf/all/rp_filter");
    (why == "ENOENT" && has_others).then_some(false)
}

fn read_governors(root: &Root, host: &mut Host) {
    let policies = match root.list(POLICIES) {
        Ok(policies) => policies,
        Err(refusal) if refusal.is_absent() => return,
        Err(refusal) => return note(host, "governors", refusal).unwrap_or_default(),
    };
    for policy in policies {
        if let Ok(governor) = read_text(root, &Path::new(POLICIES).join(policy).join("scaling_governor")) {
            *host.governors.entry(governor).or_default() += 1;
        }
    }
}

/// By what the firmware calls the machine; firmware of a virtual one is its maker's.
fn read_machine(root: &Root) -> Option<bool> {
    let of = |file: &str| read_text(root, &Path::new("/sys/class/dmi/id").join(file)).ok();
    let (vendor, product) = (of("sys_vendor")?, of("product_name")?);
    let makers = [
        "QEMU",
        "VMware",
        "Xen",
        "Amazon EC2",
        "Google",
        "Alibaba Cloud",
        "OpenStack",
        "innotek",
        "DigitalOcean",
    ];
    let made = makers.iter().any(|maker| vendor.contains(maker)) && !product.contains("metal");
    Some(made || product.contains("Virtual Machine") || product.contains("KVM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_and_hard_limit_are_told_apart() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max locked memory         65536                unlimited            bytes     \n";
        let wanted = Memlock { soft: Limit::Bytes(65536), hard: Limit::Unlimited };
        assert_eq!(parse_memlock(text), Some(wanted));
    }
}
