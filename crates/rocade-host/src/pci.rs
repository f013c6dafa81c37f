//! The device that an HCA or accelerator sits on: its bus, the facts of its PCI function, its place in the tree, and
//! the bridges above it. Config space is decoded in `config`, vital product data in `vpd`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocade_core::host::{Bridge, FunctionKind, IommuGroup, Unknown};
use rocade_core::{Hca, LinkLayer, Parent, PciAddress, PciId, PcieLink};

use crate::attributes::{Attributes, parse_number, parse_text, read_link_name, read_text};
use crate::root::Root;

mod config;
mod vpd;

use config::Config;

const MELLANOX: u16 = 0x15b3;
pub(crate) const DEVICES: &str = "/sys/bus/pci/devices";

/// Where a PCI function is in the device tree.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// The function and its directory.
    pub(crate) function: Option<(PciAddress, PathBuf)>,
    /// Root bus, as `pci0000:48`.
    pub(crate) root: Option<String>,
    /// Bridges above, the root port first.
    pub(crate) bridges: Vec<PciAddress>,
}

impl Place {
    /// Of the nearest PCI function at or above a device, by the device's path without links.
    pub(crate) fn of(device: &Path) -> Place {
        let mut place = Place::default();
        let mut dir = PathBuf::from("/");
        let mut above = None;
        for part in device.iter().skip(1).filter_map(|part| part.to_str()) {
            dir.push(part);
            match part.parse() {
                Ok(address) => {
                    if let Some((bridge, _)) = place.function.replace((address, dir.clone())) {
                        place.bridges.push(bridge);
                    } else {
                        place.root = above.map(str::to_owned).filter(|name| name.starts_with("pci"));
                    }
                }
                Err(_) if place.function.is_some() => break,
                Err(_) => above = Some(part),
            }
        }
        place
    }
}

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

/// Vendor and device id.
pub(crate) fn read_id(files: &mut Attributes<'_>) -> Option<PciId> {
    let vendor = files.needed("pci_id", "vendor", parse_half)?;
    Some(PciId { vendor, device: files.needed("pci_id", "device", parse_half)? })
}

/// Those of the board.
pub(crate) fn read_subsystem(files: &mut Attributes<'_>) -> Option<PciId> {
    let vendor = files.optional("pci_subsystem", "subsystem_vendor", parse_half)?;
    Some(PciId { vendor, device: files.optional("pci_subsystem", "subsystem_device", parse_half)? })
}

fn parse_half(text: &str) -> Option<u16> {
    parse_number(text).and_then(|id| u16::try_from(id).ok())
}

/// The link now and at most. Kernels before 4.13 and conventional PCI have no such files.
pub(crate) fn read_link(files: &mut Attributes<'_>) -> Option<PcieLink> {
    let mut link = PcieLink {
        speed: files.optional("pcie", "current_link_speed", parse_text),
        width: files.optional("pcie", "current_link_width", parse_number),
        max_speed: files.optional("pcie", "max_link_speed", parse_text),
        max_width: files.optional("pcie", "max_link_width", parse_number),
        ..PcieLink::default()
    };
    (link.speed.is_some() || link.width.is_some() || link.max_speed.is_some()).then_some(())?;
    let bridge = files.dir.parent().filter(|dir| Place::of(dir).function.is_some());
    let above = |file: &str| read_text(files.root, &bridge?.join(file)).ok();
    link.parent_max_speed = above("max_link_speed").filter(|speed| !speed.is_empty());
    link.parent_max_width = above("max_link_width").and_then(|width| parse_number(&width));
    Some(link)
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

/// Group and its type.
pub(crate) fn read_iommu(root: &Root, function: &Path) -> Option<IommuGroup> {
    let group = read_link_name(root, &function.join("iommu_group")).ok()?.parse().ok()?;
    let kind = read_text(root, Path::new(&format!("/sys/kernel/iommu_groups/{group}/type")));
    Some(IommuGroup { group, kind: kind.ok().filter(|kind| !kind.is_empty()) })
}

/// Fills what stands in config space. A VF's own registers say nothing.
pub(crate) fn read_settings(root: &Root, hca: &mut Hca, function: &Path) {
    if hca.function == Some(FunctionKind::Vf) {
        return;
    }
    match read_config(root, function).and_then(|config| config.settings().map_err(str::to_owned)) {
        Ok(settings) => hca.pcie_settings = Some(settings),
        Err(why) => drop(hca.unknown.insert("pcie_settings".into(), why)),
    }
}

fn read_config(root: &Root, function: &Path) -> Result<Config, String> {
    root.read(function.join("config")).map(Config::new).map_err(|refusal| refusal.to_string())
}

/// The bridges at these addresses.
pub(crate) fn read_bridges(root: &Root, addresses: BTreeSet<PciAddress>) -> Vec<Bridge> {
    addresses.into_iter().map(|address| read_bridge(root, address)).collect()
}

fn read_bridge(root: &Root, pci_address: PciAddress) -> Bridge {
    let mut unknown = Unknown::new();
    let config = read_config(root, &Path::new(DEVICES).join(pci_address.to_string()));
    let mut keep = |field: &str, why: String| drop(unknown.insert(field.to_owned(), why));
    let (mut port_type, mut settings, mut acs) = (None, None, None);
    match config {
        Ok(config) => {
            port_type = config.port_type().map_err(|why| keep("port_type", why.into())).ok();
            settings = config.settings().map_err(|why| keep("settings", why.into())).ok();
            acs = config.acs().map_err(|why| keep("acs", why.into())).ok();
        }
        Err(why) => {
            ["port_type", "settings", "acs"].map(|field| keep(field, why.clone())).into_iter().collect()
        }
    }
    Bridge { pci_address, port_type, settings, acs, unknown }
}

/// Fills name, part number and whether the function manages an NVSwitch. Reading vital product data is slow, so for
/// the latter alone only those functions are asked that can: ConnectX, InfiniBand, no VF.
pub(crate) fn read_vpd(root: &Root, hca: &mut Hca, function: &Path, whole: bool) {
    let mellanox = hca.pci_id.is_some_and(|id| id.vendor == MELLANOX);
    let infiniband = hca.ports.iter().any(|port| port.link_layer == LinkLayer::InfiniBand);
    let may_manage = mellanox && infiniband && hca.physical_function.is_none();
    hca.switch_management = (!may_manage).then_some(false);
    if !(may_manage || whole && hca.function == Some(FunctionKind::Pf)) {
        return;
    }
    match root.read(function.join("vpd")) {
        Ok(bytes) => {
            hca.vpd = vpd::parse_vpd(&bytes).filter(|_| whole);
            hca.switch_management = Some(may_manage && vpd::is_switch_management(&bytes));
        }
        Err(refusal) => {
            let asked = [(may_manage, "switch_management"), (whole && !refusal.is_absent(), "vpd")];
            for (_, field) in asked.into_iter().filter(|(is_asked, _)| *is_asked) {
                hca.unknown.insert(field.into(), refusal.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> (Option<String>, Option<String>, Vec<String>) {
        let place = Place::of(Path::new(path));
        let bridges = place.bridges.iter().map(PciAddress::to_string).collect();
        (place.function.map(|(address, _)| address.to_string()), place.root, bridges)
    }

    #[test]
    fn a_functions_place_is_its_root_and_the_bridges_above() {
        let below_switch =
            "/sys/devices/pci0000:48/0000:48:01.0/0000:49:00.0/0000:4a:00.0/mlx5_core.sf.4/infiniband";
        let bridges = vec!["0000:48:01.0".to_owned(), "0000:49:00.0".to_owned()];
        assert_eq!(place(below_switch), (Some("0000:4a:00.0".into()), Some("pci0000:48".into()), bridges));
        let below_vmbus = "/sys/devices/LNXSYSTM:00/VMBUS:00/47505500-0001/pci0101:00/0101:00:00.0";
        assert_eq!(place(below_vmbus), (Some("0101:00:00.0".into()), Some("pci0101:00".into()), Vec::new()));
        assert_eq!(place("/sys/devices/virtual/infiniband/rxe0"), (None, None, Vec::new()));
    }
}
