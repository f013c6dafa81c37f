//! Which HCA is nearest to each GPU. By places in the PCI tree, and not where a virtual machine shows a tree that is
//! none: there the nearest may be the one that does not work.

use serde::Serialize;

use super::Given;
use super::devices::Rail;
use crate::host::{Accelerator, Distance, Host};
use crate::names::{HcaName, PciAddress};

/// Drivers of network interfaces that virtual machines alone have.
const GUEST_DRIVERS: &[&str] = &["virtio_net", "hv_netvsc", "vmxnet3", "xen-netfront", "ena", "gve"];

/// A GPU and the HCA nearest to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The GPU.
    pub gpu: PciAddress,
    /// The HCA.
    pub hca: HcaName,
    /// How far they are.
    pub distance: Distance,
}

/// The pairs, or why there are none.
#[derive(Debug)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    pub(super) none: Option<String>,
}

pub(super) fn pair(host: &Host, given: &Given<'_>, rails: &[Rail<'_>]) -> Pairs {
    let none = |why: &str| Pairs { pairs: Vec::new(), none: Some(why.into()) };
    if is_guest(host) {
        return none("a virtual machine's PCI tree is not the hardware's: distances say nothing here");
    }
    let is_here = |gpu: &&Accelerator| given.gpus.is_none_or(|gpus| gpus.contains(&gpu.pci_address));
    let mut pairs: Vec<Pair> = Vec::new();
    for gpu in host.accelerators.iter().filter(is_here) {
        let load = |rail: &Rail<'_>| pairs.iter().filter(|pair| pair.hca == rail.hca.name).count();
        let rank = |rail: &&Rail<'_>| (distance(gpu, rail), other_numa(gpu, rail), load(rail));
        let known = rails.iter().filter(|rail| distance(gpu, rail) != Distance::Unknown);
        if let Some(nearest) = known.min_by_key(rank) {
            let hca = nearest.hca.name.clone();
            pairs.push(Pair { gpu: gpu.pci_address, hca, distance: distance(gpu, nearest) });
        }
    }
    if pairs.is_empty() {
        none("no GPU whose distance to an HCA is known")
    } else {
        Pairs { pairs, none: None }
    }
}

/// The rails in the order of the GPUs that they are nearest to, then those that are nearest to none.
pub(super) fn nearest_first<'a>(rails: &[Rail<'a>], pairs: &Pairs) -> Vec<Rail<'a>> {
    let place = |rail: &Rail<'_>| pairs.pairs.iter().position(|pair| pair.hca == rail.hca.name);
    let mut ordered = rails.to_vec();
    ordered.sort_by_key(|rail| place(rail).unwrap_or(usize::MAX));
    ordered
}

/// Whether the host is a virtual machine; by the drivers of its interfaces where nothing else tells it.
pub(super) fn is_guest(host: &Host) -> bool {
    let by_driver = || {
        let drivers = host.netdevs.iter().filter_map(|netdev| netdev.driver.as_deref());
        drivers.into_iter().any(|driver| GUEST_DRIVERS.contains(&driver))
    };
    host.virtual_machine.unwrap_or_else(by_driver)
}

fn distance(gpu: &Accelerator, rail: &Rail<'_>) -> Distance {
    gpu.distances.get(rail.hca.name.as_str()).copied().unwrap_or(Distance::Unknown)
}

fn other_numa(gpu: &Accelerator, rail: &Rail<'_>) -> bool {
    gpu.numa_node.is_none() || gpu.numa_node != rail.hca.numa_node
}
