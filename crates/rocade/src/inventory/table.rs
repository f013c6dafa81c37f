//! The inventory as a table: a row a port, at most 100 columns, nothing by colour.

use std::fmt::Write;
use std::net::IpAddr;

use rocade_core::{Accessible, CharDevice, GidEntry, GidType, Hca, Host, NetnsMode, Parent, Port, Usable};

use super::render_counts;
use crate::columns::lay_out;

const WIDTH: usize = 100;
const HEADING: [&str; 7] = ["HCA/PORT", "PARENT", "LINK", "NETDEV", "V2 GID INDEX", "DEVICES", "USABLE"];

pub(super) fn render(host: &Host) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    for hca in &host.hcas {
        rows.extend(hca.ports.iter().map(|port| render_port(host, hca, port)));
    }
    format!("{}\n{}", render_summary(host), lay_out(&rows, WIDTH))
}

fn render_port(host: &Host, hca: &Hca, port: &Port) -> [String; 7] {
    [
        format!("{}/{}", hca.name, port.port),
        render_parent(hca),
        render_link(port),
        render_netdev(port),
        render_addresses(host, port),
        render_devices(hca, port),
        render_verdict(port),
    ]
}

fn render_summary(host: &Host) -> String {
    let netns = match host.netns_mode {
        Some(NetnsMode::Shared) => "shared",
        Some(NetnsMode::Exclusive) => "exclusive",
        None => "unknown",
    };
    format!(
        "{}; kernel {}, RDMA namespaces {netns}",
        render_counts(host),
        host.kernel.as_deref().unwrap_or("unknown")
    )
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

fn render_link(port: &Port) -> String {
    let transport = serde_json::to_value(port.transport).ok();
    let transport = transport.as_ref().and_then(|t| t.as_str()).unwrap_or_default();
    let state = port.state.as_deref().unwrap_or("state unknown");
    let rate = port.rate_gbps.map_or_else(|| "rate unknown".into(), |rate| format!("{rate}G"));
    format!("{transport} {state} {rate}")
}

/// The port's netdev, and what RDMA netlink names where that is another one.
fn render_netdev(port: &Port) -> String {
    let own = port.netdev.as_deref().unwrap_or("-");
    match port.netlink_netdev.as_deref() {
        Some(netlink) if netlink != own => format!("{own} (netlink: {netlink})"),
        _ => own.to_owned(),
    }
}

/// Every RoCE v2 index by address, `10.8.10.4→3`; link-local ones only where there are no others.
fn render_addresses(host: &Host, port: &Port) -> String {
    let v2 = || port.gids.iter().filter(|g| g.gid_type == Some(GidType::V2));
    let routable = v2().any(|g| !g.gid.is_link_local());
    let mut by_address: Vec<(IpAddr, Vec<String>)> = Vec::new();
    for gid in v2().filter(|g| !routable || !g.gid.is_link_local()) {
        let Some(address) = gid.address else { continue };
        let index = render_index(host, port, gid);
        match by_address.iter_mut().find(|(known, _)| *known == address) {
            Some((_, indexes)) => indexes.push(index),
            None => by_address.push((address, vec![index])),
        }
    }
    let cells: Vec<String> = by_address.iter().map(|(a, i)| format!("{a}→{}", i.join(","))).collect();
    if cells.is_empty() { "-".into() } else { cells.join(" ") }
}

/// The index, with the netdev where it is not the port's own.
fn render_index(host: &Host, port: &Port, gid: &GidEntry) -> String {
    let foreign = if host.owns(gid) { "" } else { ":other-netns" };
    match gid.netdev.as_deref() {
        Some(netdev) if Some(netdev) != port.netdev.as_deref() || !foreign.is_empty() => {
            format!("{}({netdev}{foreign})", gid.index)
        }
        _ => gid.index.to_string(),
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
    match port.usable {
        Usable::Yes => "yes".into(),
        Usable::Limited => format!("limited: {}", port.reason),
        Usable::No => format!("no: {}", port.reason),
    }
}
