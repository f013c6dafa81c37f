//! CPUs: those near an HCA, those of a NUMA node, and the lines of their cache.

use std::path::Path;

use rocade_core::HcaName;

use crate::attributes::read_text;
use crate::errno::Errno;
use crate::root::{Answer, Refusal, Root};

/// CPUs that are nearest to the HCA's slot (…/device/local_cpulist). An HCA of software has no slot: ENOENT.
pub fn read_near_cpus(root: &Root, hca: &HcaName) -> Answer<Vec<u32>> {
    let device = root.member("/sys/class/infiniband", hca.as_str())?.join("device");
    read_list(root, &device.join("local_cpulist"))
}

/// CPUs of a NUMA node (/sys/devices/system/node/nodeN/cpulist).
pub fn read_node_cpus(root: &Root, node: u32) -> Answer<Vec<u32>> {
    read_list(root, Path::new(&format!("/sys/devices/system/node/node{node}/cpulist")))
}

/// Size of a line of the first CPU's first cache, bytes (/sys/devices/system/cpu/cpu0/cache/index0).
pub fn read_cache_line(root: &Root) -> Answer<u32> {
    let text = read_text(root, Path::new("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"))?;
    text.parse().map_err(|_| Refusal::Errno(Errno::INVAL))
}

fn read_list(root: &Root, path: &Path) -> Answer<Vec<u32>> {
    Ok(parse_cpus(&read_text(root, path)?).unwrap_or_default())
}

/// Numbers of a list as the kernel prints it (lib/bitmap-str.c), as `0-3,8`; None if it is none. Nothing in it is no
/// CPU.
pub fn parse_cpus(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel has more (CONFIG_NR_CPUS).
        if first > last || last >= 8192 {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_is_read_as_the_kernel_prints_it() {
        assert_eq!(parse_cpus("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_cpus("\n"), Some(vec![]));
        for wrong in ["a", "3-1", "1-", "-1", "0-4000000000", "0;1"] {
            assert_eq!(parse_cpus(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cpus_near_an_hca_are_those_of_its_slot() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/dgx-h100.host");
        let root = Root::open(file).unwrap();
        let near = read_near_cpus(&root, &"mlx5_0".parse().unwrap()).unwrap();
        assert_eq!((near.len(), near[55], near[56]), (112, 55, 112));
        assert!(read_near_cpus(&root, &"mlx5_99".parse().unwrap()).is_err());
    }
}
