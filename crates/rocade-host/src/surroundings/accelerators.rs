//! GPUs and other accelerators, by PCI class.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use rocade_core::Host;
use rocade_core::PciAddress;
use rocade_core::host::Accelerator;

use crate::attributes::{Attributes, parse_number, read_link_name, read_text};
use crate::pci::{self, DEVICES, Place};
use crate::root::Root;

/// Display controllers count only of makers of GPUs: a server's console is one too.
const GPU_VENDORS: &[u32] = &[0x10de, 0x1002, 0x8086];
const DISPLAY_CLASSES: &[u16] = &[0x0300, 0x0302, 0x0380];
const PROCESSING_ACCELERATOR: u16 = 0x1200;

pub(super) fn read(root: &Root, host: &mut Host) {
    let names = match root.list(DEVICES) {
        Ok(names) => names,
        Err(refusal) if refusal.is_absent() => return,
        Err(refusal) => return drop(host.unknown.insert("accelerators".into(), refusal.to_string())),
    };
    let accelerator = |name: &std::ffi::OsString| read_accelerator(root, name.to_str()?);
    host.accelerators = names.iter().filter_map(accelerator).collect();
}

/// Whether the PCI function of that name is one.
pub(crate) fn is_accelerator(root: &Root, name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| tell_class(root, name).is_some())
}

fn read_accelerator(root: &Root, name: &str) -> Option<Accelerator> {
    let pci_address: PciAddress = name.parse().ok()?;
    let class = tell_class(root, name)?;
    let dir = root.member(DEVICES, name).ok()?;
    let place = Place::of(&dir);
    let mut files = Attributes::of(root, dir);
    Some(Accelerator {
        pci_address,
        pci_id: pci::read_id(&mut files),
        class,
        driver: read_link_name(root, &files.dir.join("driver")).ok(),
        numa_node: pci::read_numa_node(&mut files),
        pci_root: place.root,
        pci_path: place.bridges,
        iommu: pci::read_iommu(root, &files.dir),
        distances: BTreeMap::new(),
        unknown: files.unknown,
    })
}

/// Class and subclass, `0x030200` → 0x0302, of a function that is an accelerator.
fn tell_class(root: &Root, name: &str) -> Option<u16> {
    let file = |file: &str| parse_number(&read_text(root, &Path::new(DEVICES).join(name).join(file)).ok()?);
    let class = u16::try_from(file("class")? >> 8).ok()?;
    let is_gpu = || file("vendor").is_some_and(|vendor| GPU_VENDORS.contains(&vendor));
    (class == PROCESSING_ACCELERATOR || DISPLAY_CLASSES.contains(&class) && is_gpu()).then_some(class)
}
