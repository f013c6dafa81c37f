//! What sysfs says of the network interfaces beyond netlink: link, speed, place, bond and quality of service.

use std::path::Path;

use rocade_core::host::{Dcb, Pauses};
use rocade_core::{Host, Netdev};

use super::{bonds, qos};
use crate::attributes::{Attributes, parse_text, read_text};
use crate::netlink::DcbRecord;
use crate::root::Root;

const CLASS: &str = "/sys/class/net";

pub(super) fn read(root: &Root, host: &mut Host) {
    let dcb = root.dcb();
    if let Err(refusal) = dcb {
        host.unknown.insert("netdevs.dcb".into(), refusal.to_string());
    }
    let dcb = dcb.unwrap_or_default();
    let pauses = root.pauses();
    if let Err(refusal) = pauses {
        host.unknown.insert("netdevs.pauses".into(), refusal.to_string());
    }
    let pauses = pauses.unwrap_or_default();
    for netdev in &mut host.netdevs {
        if let Ok(dir) = root.member(CLASS, &netdev.name) {
            read_attributes(root, netdev, &dir);
        }
        if netdev.kind.as_deref() == Some("bond") {
            let text = read_text(root, &Path::new("/proc/net/bonding").join(&netdev.name));
            netdev.bond = text.ok().map(|text| bonds::parse(&text));
        }
        netdev.pauses = pauses
            .iter()
            .find(|record| record.netdev == netdev.name)
            .map(|record| Pauses { sent: record.sent, received: record.received })
            .filter(|pauses| pauses.sent.is_some() || pauses.received.is_some());
        netdev.dcb = dcb.iter().find(|record| record.netdev == netdev.name).map(convert);
    }
}

/// Which ports of which switch the interfaces are: planes of a card are told by it.
pub(super) fn read_switches(root: &Root, host: &mut Host) {
    for netdev in host.netdevs.iter_mut().filter(|netdev| netdev.pci_address.is_some()) {
        if let Ok(dir) = root.member(CLASS, &netdev.name) {
            read_switch(netdev, &mut Attributes::of(root, dir));
        }
    }
}

fn read_switch(netdev: &mut Netdev, files: &mut Attributes<'_>) {
    netdev.port_name = files.optional("port_name", "phys_port_name", parse_text);
    netdev.switch_id = files.optional("switch_id", "phys_switch_id", parse_text);
}

/// Virtual interfaces have no place, and know neither speed nor switch.
fn read_attributes(root: &Root, netdev: &mut Netdev, dir: &Path) {
    let mut files = Attributes::of(root, dir.to_owned());
    netdev.carrier = files.optional("carrier", "carrier", |text| Some(text == "1"));
    netdev.operstate = files.optional("operstate", "operstate", parse_text);
    // A bond's is the sum of its members'; -1 is unknown.
    let speed = |text: &str| text.parse().ok();
    netdev.speed_mbps = files.optional("speed", "speed", speed);
    if dir.starts_with("/sys/devices/virtual") {
        return;
    }
    read_switch(netdev, &mut files);
    netdev.qos = qos::read(root, dir);
}

fn convert(record: &DcbRecord) -> Dcb {
    let priorities = |mask: u8| (0..8).filter(|priority| mask >> priority & 1 == 1).collect();
    Dcb {
        dcbx: record.dcbx,
        pfc_priorities: record.pfc_enabled.map(priorities),
        pfc_max: record.pfc_cap,
        traffic_classes: record.prio_tc.clone(),
        bandwidths: record.tx_bw.clone(),
        apps: record
            .apps
            .iter()
            .map(|(selector, protocol, priority)| rocade_core::host::DcbApp {
                selector: *selector,
                protocol: *protocol,
                priority: *priority,
            })
            .collect(),
    }
}
