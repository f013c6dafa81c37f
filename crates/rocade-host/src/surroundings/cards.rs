//! Network cards that no RDMA device sits on: they tell why there is none.

use std::collections::BTreeSet;
use std::path::Path;

use rocade_core::host::NetworkCard;
use rocade_core::{Host, PciAddress};

use crate::attributes::{Attributes, parse_number, read_link_name, read_text};
use crate::pci::{self, DEVICES};
use crate::root::Root;

/// PCI base class of network controllers, and the class of old InfiniBand cards.
const NETWORK: u32 = 0x02;
const OLD_INFINIBAND: u32 = 0x0c06;

pub(super) fn read(root: &Root, host: &mut Host) {
    let taken: BTreeSet<PciAddress> = host.hcas.iter().filter_map(|hca| hca.pci_address).collect();
    let names = match root.list(DEVICES) {
        Ok(names) => names,
        Err(refusal) => return drop(host.unknown.insert("network_cards".into(), refusal.to_string())),
    };
    let addresses = names.iter().filter_map(|name| name.to_str()?.parse().ok());
    host.network_cards = addresses
        .filter(|address| !taken.contains(address))
        .filter_map(|address| read_card(root, address))
        .collect();
}

fn read_card(root: &Root, pci_address: PciAddress) -> Option<NetworkCard> {
    let dir = Path::new(DEVICES).join(pci_address.to_string());
    let class = parse_number(&read_text(root, &dir.join("class")).ok()?)? >> 8;
    (class >> 8 == NETWORK || class == OLD_INFINIBAND).then_some(())?;
    let driver = read_link_name(root, &dir.join("driver")).ok();
    let pci_id = pci::read_id(&mut Attributes::of(root, dir));
    Some(NetworkCard { pci_address, pci_id, class: u16::try_from(class).ok()?, driver })
}
