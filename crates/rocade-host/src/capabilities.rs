//! What this process may do beside its user's rights.

use std::path::Path;

use crate::attributes::read_text;
use crate::root::Root;

/// CAP_IPC_LOCK (include/uapi/linux/capability.h).
const IPC_LOCK: u32 = 14;
/// The mapping of the first user namespace: the kernel asks for the capability there (drivers/infiniband/core/umem.c).
const FIRST_NAMESPACE: [&str; 3] = ["0", "0", "4294967295"];

/// Whether this process may register memory without limit: it has CAP_IPC_LOCK in effect, and is of the first user
/// namespace. None where that cannot be read.
pub fn read_ipc_lock(root: &Root) -> Option<bool> {
    let status = read_text(root, Path::new("/proc/self/status")).ok()?;
    let mapping = read_text(root, Path::new("/proc/self/uid_map")).ok()?;
    parse_ipc_lock(&status, &mapping)
}

fn parse_ipc_lock(status: &str, mapping: &str) -> Option<bool> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    let is_first = mapping.split_whitespace().eq(FIRST_NAMESPACE);
    Some(is_first && effective >> IPC_LOCK & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_counts_in_effect_and_in_the_first_user_namespace_alone() {
        let first = "         0          0 4294967295";
        for (effective, mapping, wanted) in [
            ("000001ffffffffff", first, Some(true)),
            ("00000000a80465fb", first, Some(true)),
            ("00000000a80425fb", first, Some(false)),
            ("0000000000000000", first, Some(false)),
            ("000001ffffffffff", "         0     100000      65536", Some(false)),
            ("?", first, None),
        ] {
            let status = format!("Name:\trocade\nCapPrm:\t000001ffffffffff\nCapEff:\t{effective}\n");
            assert_eq!(parse_ipc_lock(&status, mapping), wanted, "{effective} {mapping}");
        }
        assert_eq!(parse_ipc_lock("Name:\trocade\n", first), None);
    }
}
