//! How far each HCA is from each accelerator, by their places in the PCI tree. Chooses nothing.

use crate::host::{Accelerator, Distance, Hca, Host};
use crate::names::PciAddress;

/// Fills the distances of every accelerator; HCAs without a PCI function have none.
pub fn fill(host: &mut Host) {
    for accelerator in &mut host.accelerators {
        let place = place_of_accelerator(accelerator);
        let hcas = host.hcas.iter().filter(|hca| hca.pci_address.is_some());
        accelerator.distances =
            hcas.map(|hca| (hca.name.to_string(), tell(&place, &place_of_hca(hca)))).collect();
    }
}

/// A place in the PCI tree.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Root bus, as `pci0000:48`.
    pub root: Option<&'a str>,
    /// Bridges above, the root port first.
    pub bridges: &'a [PciAddress],
    /// NUMA node.
    pub numa_node: Option<u32>,
}

/// Where an HCA is.
pub fn place_of_hca(hca: &Hca) -> Place<'_> {
    Place { root: hca.pci_root.as_deref(), bridges: &hca.pci_path, numa_node: hca.numa_node }
}

/// Where an accelerator is.
pub fn place_of_accelerator(accelerator: &Accelerator) -> Place<'_> {
    Place {
        root: accelerator.pci_root.as_deref(),
        bridges: &accelerator.pci_path,
        numa_node: accelerator.numa_node,
    }
}

/// The distance between two places. Below a common switch at most one bridge of each path (the switch's own port)
/// makes PIX; the root complexes of one socket can differ, so NUMA nodes decide between NODE and SYS.
pub fn tell(a: &Place<'_>, b: &Place<'_>) -> Distance {
    let common = a.bridges.iter().zip(b.bridges).take_while(|(a, b)| a == b).count();
    if common > 0 {
        let apart = a.bridges.len().max(b.bridges.len()) - common;
        return if apart <= 1 { Distance::Pix } else { Distance::Pxb };
    }
    match (a.root.is_some() && a.root == b.root, a.numa_node, b.numa_node) {
        (true, ..) => Distance::Phb,
        (false, Some(a), Some(b)) if a == b => Distance::Node,
        (false, Some(_), Some(_)) => Distance::Sys,
        (false, ..) => Distance::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Root and bridges of an accelerator, the same and the NUMA node of an HCA, and how far they are.
    type Case<'a> = (&'a str, &'a [u8], &'a str, &'a [u8], Option<u32>, Distance);

    /// `1` of a path is bridge 0000:00:01.0.
    fn bridges(path: &[u8]) -> Vec<PciAddress> {
        path.iter().map(|n| PciAddress { domain: 0, bus: 0, device: *n, function: 0 }).collect()
    }

    #[test]
    fn each_class_is_told() {
        let cases: &[Case<'_>] = &[
            // Root port 1, a switch's upstream port 2, its downstream ports 3 and 4.
            ("a", &[1, 2, 3], "a", &[1, 2, 4], Some(0), Distance::Pix),
            // Two functions of one card.
            ("a", &[1], "a", &[1], Some(0), Distance::Pix),
            // A switch below a switch.
            ("a", &[1, 2, 3], "a", &[1, 2, 4, 5, 6], Some(0), Distance::Pxb),
            ("a", &[1, 2, 3], "a", &[7, 8, 9], Some(0), Distance::Phb),
            ("a", &[], "a", &[], None, Distance::Phb),
            ("a", &[1], "b", &[7], Some(0), Distance::Node),
            ("a", &[1], "b", &[7], Some(1), Distance::Sys),
            ("a", &[1], "b", &[7], None, Distance::Unknown),
        ];
        for (root_a, path_a, root_b, path_b, numa_b, wanted) in cases {
            let (path_a, path_b) = (bridges(path_a), bridges(path_b));
            let a = Place { root: Some(root_a), bridges: &path_a, numa_node: Some(0) };
            let b = Place { root: Some(root_b), bridges: &path_b, numa_node: *numa_b };
            assert_eq!((tell(&a, &b), tell(&b, &a)), (*wanted, *wanted), "{a:?} {b:?}");
        }
    }
}
