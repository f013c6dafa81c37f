//! The device that an HCA sits on: its bus, and the facts of the PCI function at or above it.

use std::path::{Path, PathBuf};

use rocade_core::{Hca, LinkLayer, Parent, PciAddress, PciId, PcieLink};

use crate::attributes::{Attributes, parse_number, parse_text, read_link_name};
use crate::root::Root;

/// Field of the vital product data by which a ConnectX function says that it manages an NVSwitch.
const SWITCH_MANAGEMENT: &[u8] = b"SMDL=SW_MNG";
const MELLANOX: u16 = 0x15b3;

/// Bus of the device at a path without links.
pub(crate) fn read_parent(root: &Root, device: &Path) -> Parent {
    if device.starts_with("/sys/devices/virtual") {
        return Parent::None;
    }
    match read_link_name(root, &device.join("subsystem")).as_deref() {
        Ok("pci") => Parent::Pci,
        Ok("auxiliary") => Parent::Auxiliary,
        Ok("virtio") => Parent::Virtio,
        Ok("vmbus") => Parent::Vmbus,
        _ => Parent::Other,
    }
}

/// The nearest PCI function at or above a device, and its directory.
pub(crate) fn find_function(device: &Path) -> Option<(PciAddress, PathBuf)> {
    device.ancestors().find_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir.to_owned())))
}

/// Vendor and device id.
pub(crate) fn read_id(files: &mut Attributes<'_>) -> Option<PciId> {
    let half = |text: &str| parse_number(text).and_then(|id| u16::try_from(id).ok());
    let vendor = files.needed("pci_id", "vendor", half)?;
    Some(PciId { vendor, device: files.needed("pci_id", "device", half)? })
}

/// The link now and at most. Kernels before 4.13 and conventional PCI have no such files.
pub(crate) fn read_link(files: &mut Attributes<'_>) -> Option<PcieLink> {
    let link = PcieLink {
        speed: files.optional("pcie", "current_link_speed", parse_text),
        width: files.optional("pcie", "current_link_width", parse_number),
        max_speed: files.optional("pcie", "max_link_speed", parse_text),
        max_width: files.optional("pcie", "max_link_width", parse_number),
        ..PcieLink::default()
    };
    (link.speed.is_some() || link.width.is_some() || link.max_speed.is_some()).then_some(link)
}

/// NUMA node; the kernel says -1 where the firmware named none.
pub(crate) fn read_numa_node(files: &mut Attributes<'_>) -> Option<u32> {
    let node = |text: &str| text.parse::<i32>().ok();
    files.optional("numa_node", "numa_node", node).and_then(|node| u32::try_from(node).ok())
}

/// The PF of a VF.
pub(crate) fn read_physical_function(root: &Root, function: &Path) -> Option<PciAddress> {
    read_link_name(root, &function.join("physfn")).ok()?.parse().ok()
}

/// Fills whether the function manages an NVSwitch. Reading vital product data is slow, so only those functions are
/// asked that can: ConnectX, InfiniBand, no VF.
pub(crate) fn read_switch_management(root: &Root, hca: &mut Hca, dir: &Path) {
    let vendor = hca.pci_id.map(|id| id.vendor);
    let infiniband = hca.ports.iter().any(|port| port.link_layer == LinkLayer::InfiniBand);
    let Some((_, function)) = find_function(dir) else { return };
    if vendor != Some(MELLANOX) || !infiniband || hca.physical_function.is_some() {
        return;
    }
    hca.switch_management = match root.read(function.join("vpd")) {
        Ok(vpd) => Some(vpd.windows(SWITCH_MANAGEMENT.len()).any(|part| part == SWITCH_MANAGEMENT)),
        Err(refusal) => {
            hca.unknown.insert("switch_management".into(), refusal.to_string());
            None
        }
    };
}
