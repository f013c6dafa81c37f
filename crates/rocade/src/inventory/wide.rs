//! The inventory with every column, a line a port, however wide that gets.

use std::fmt::{Display, Write};

use rocade_core::{Accessible, CharDevice, Hca, Host, Parent, PcieLink, Port};

use super::cells::{
    render_indexes, render_netdev, render_rate, render_state, render_transport, render_usable,
};
use super::render_summary;
use crate::columns::lay_out;

const HEADING: [&str; 21] = [
    "HCA/PORT",
    "PCI",
    "ID",
    "DRIVER",
    "FIRMWARE",
    "BOARD",
    "NUMA",
    "PCIE",
    "NETDEV",
    "MTU",
    "PATH MTU",
    "TRANSPORT",
    "STATE",
    "PHYSICAL",
    "RATE",
    "LID/SM",
    "GIDS",
    "V2 GID INDEX",
    "DEVICES",
    "ROLE",
    "USABLE",
];

pub(super) fn render(host: &Host) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    for hca in &host.hcas {
        rows.extend(hca.ports.iter().map(|port| render_port(host, hca, port)));
    }
    format!("{}\n{}", render_summary(host), lay_out(&rows))
}

fn render_port(host: &Host, hca: &Hca, port: &Port) -> [String; 21] {
    let indexes = render_indexes(host, port).join(" ");
    [
        format!("{}/{}", hca.name, port.port),
        render_parent(hca),
        or_dash(hca.pci_id.as_ref()),
        or_dash(hca.driver.as_ref()),
        or_dash(hca.fw_version.as_ref()),
        or_dash(hca.board_id.as_ref()),
        or_dash(hca.numa_node),
        hca.pcie.as_ref().map_or_else(|| "-".into(), render_pcie),
        render_netdev(port),
        or_dash(port.netdev_mtu),
        or_dash(port.active_mtu),
        render_transport(port.transport).to_owned(),
        render_state(port).to_owned(),
        or_dash(port.phys_state.as_ref()),
        render_rate(port),
        render_lids(port),
        format!("{}/{}", port.gids.len(), or_dash(port.gid_table_len)),
        if indexes.is_empty() { "-".into() } else { indexes },
        render_devices(hca, port),
        format!("{} ({})", hca.role.kind, hca.role.ground),
        render_verdict(port),
    ]
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn render_parent(hca: &Hca) -> String {
    let kind = match hca.parent {
        Parent::Pci => "",
        Parent::Auxiliary => " (SF)",
        Parent::Virtio => " (virtio)",
        Parent::Vmbus => " (VMBus)",
        Parent::None => "virtual",
        Parent::Other => " (other bus)",
    };
    let mut text = hca.pci_address.map_or_else(String::new, |address| address.to_string()) + kind;
    if let Some(pf) = hca.physical_function {
        let _ = write!(text, " VF of {pf}");
    }
    text.trim_start().to_owned()
}

/// `x16 32.0GT/s`, and what it could be where that is more.
fn render_pcie(link: &PcieLink) -> String {
    let side = |width: Option<u32>, speed: &Option<String>| {
        let speed = speed.as_deref().map(|it| it.trim_end_matches(" PCIe").replace(' ', ""));
        format!("x{} {}", or_dash(width), or_dash(speed))
    };
    let (now, most) = (side(link.width, &link.speed), side(link.max_width, &link.max_speed));
    if now == most { now } else { format!("{now} (of {most})") }
}

fn render_lids(port: &Port) -> String {
    match (port.lid, port.sm_lid) {
        (None | Some(0), None | Some(0)) => "-".into(),
        (lid, sm_lid) => format!("{}/{}", or_dash(lid), or_dash(sm_lid)),
    }
}

/// What a test needs; issm, which only a subnet manager opens, stands in the JSON.
fn render_devices(hca: &Hca, port: &Port) -> String {
    let devices = [&hca.uverbs, &port.umad].into_iter().flatten().map(render_device);
    let text = devices.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "-".into() } else { text }
}

fn render_device(device: &CharDevice) -> String {
    let note = match device.accessible {
        Accessible::Yes => "",
        Accessible::Missing => "(missing)",
        Accessible::Other => "(other number)",
        Accessible::Unknown => "(unknown)",
    };
    format!("{}{note}", device.node)
}

fn render_verdict(port: &Port) -> String {
    let word = render_usable(port.usable);
    if port.reason.is_empty() { word.to_owned() } else { format!("{word}: {}", port.reason) }
}
