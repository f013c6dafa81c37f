//! What stands in the directories of an RDMA device and of the device below it.

use std::path::Path;

use rocade_core::HcaName;
use rocade_core::host::{FunctionKind, Hca, Parent};

use super::Surroundings;
use crate::attributes::{Attributes, parse_number, parse_text, read_link_name, read_text};
use crate::counters::read_counters;
use crate::pci::{self, Place};
use crate::root::Root;

/// All but its ports.
pub(super) fn read_device(around: &Surroundings<'_>, name: HcaName, dir: &Path, place: &Place) -> Hca {
    // …/DEVICE/infiniband/NAME
    let device = dir.ancestors().nth(2).unwrap_or(dir);
    let mut hca = Hca::new(name);
    hca.parent = pci::read_parent(around.root, device);
    hca.pci_root = place.root.clone();
    hca.pci_path = place.bridges.clone();
    read_parent(around, &mut hca, device, place);
    read_attributes(around, &mut hca, dir);
    // rxe names its netdev in a file of its own; siw can only be told by where it lies.
    hca.software = hca.parent == Parent::None || read_text(around.root, &dir.join("parent")).is_ok();
    if !around.scope.lean {
        hca.parent_netdevs = read_parent_netdevs(around.root, device);
    }
    hca.parent_hca = around.parts.get(hca.name.as_str()).and_then(|parent| parent.parse().ok());
    hca.uverbs = around.devices.verbs(hca.name.as_str());
    hca.uverbs_abi = around.devices.verbs_abi(hca.name.as_str());
    if around.scope.counters {
        hca.counters = read_counters(around.root, dir, "hw_counters");
    }
    hca
}

/// Facts of the PCI function, or of the parent where there is none.
fn read_parent(around: &Surroundings<'_>, hca: &mut Hca, device: &Path, place: &Place) {
    let function = place.function.as_ref();
    let mut at = Attributes::of(around.root, function.map_or(device, |(_, dir)| dir).to_owned());
    if let Some((address, dir)) = function {
        hca.pci_address = Some(*address);
        hca.pci_id = pci::read_id(&mut at);
        hca.physical_function = pci::read_physical_function(around.root, dir);
        if around.scope.surroundings {
            hca.pcie = pci::read_link(&mut at);
            hca.pci_subsystem = pci::read_subsystem(&mut at);
            hca.iommu = pci::read_iommu(around.root, dir);
        }
    }
    if !around.scope.lean {
        hca.numa_node = pci::read_numa_node(&mut at);
    }
    hca.driver = read_link_name(around.root, &at.dir.join("driver")).ok();
    if hca.parent == Parent::Auxiliary {
        let number = read_text(around.root, &device.join("sfnum"));
        hca.sf_number = number.ok().and_then(|number| parse_number(&number));
    }
    hca.function = match (hca.parent, hca.physical_function) {
        (Parent::Auxiliary, _) => Some(FunctionKind::Sf),
        (_, Some(_)) => Some(FunctionKind::Vf),
        (Parent::Pci, None) => Some(FunctionKind::Pf),
        _ => None,
    };
    hca.unknown = at.unknown;
}

fn read_attributes(around: &Surroundings<'_>, hca: &mut Hca, dir: &Path) {
    let mut files = Attributes::of(around.root, dir.to_owned());
    files.unknown = std::mem::take(&mut hca.unknown);
    let number = |text: &str| text.split(':').next()?.parse().ok();
    let guid = |text: &str| text.parse().ok();
    hca.node_guid = files.needed("node_guid", "node_guid", guid);
    hca.sys_image_guid = files.needed("sys_image_guid", "sys_image_guid", guid);
    hca.node_type = files.needed("node_type", "node_type", number);
    if !around.scope.lean {
        hca.fw_version = files.optional("fw_version", "fw_ver", parse_text);
        hca.board_id = files.optional("board_id", "board_id", parse_text);
        hca.hca_type = files.optional("hca_type", "hca_type", parse_text);
        hca.hw_rev = files.optional("hw_rev", "hw_rev", parse_text);
    }
    hca.unknown = files.unknown;
}

fn read_parent_netdevs(root: &Root, device: &Path) -> Vec<String> {
    if device.starts_with("/sys/devices/virtual") {
        return Vec::new();
    }
    let names = root.list(device.join("net")).unwrap_or_default();
    names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
}
