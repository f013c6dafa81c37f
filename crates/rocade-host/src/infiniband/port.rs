//! What stands in the directory of a port.

use std::path::{Path, PathBuf};

use rocade_core::host::{Hca, roce_path_mtu};
use rocade_core::names::Pkey;
use rocade_core::{HcaName, LinkLayer, Port, PortNum, Transport};

use super::Surroundings;
use crate::attributes::{Attributes, parse_number, read_text};
use crate::counters::read_counters;
use crate::devices::Kind;
use crate::gids::{read_gids, read_indexes};
use crate::port_netdev::{PortView, find_netdev};
use crate::root::Root;

/// A port; `single` says that its HCA has no other.
pub(super) fn read_port(around: &Surroundings<'_>, hca: &Hca, dir: &Path, number: u32, single: bool) -> Port {
    let mut files = Attributes::of(around.root, dir.join("ports").join(number.to_string()));
    let mut port = Port::new(PortNum(number));
    let link_layer = files.needed("link_layer", "link_layer", parse_link_layer);
    port.link_layer = link_layer.unwrap_or(LinkLayer::Unknown);
    port.transport = tell_transport(&port.link_layer, hca);
    port.state = files.needed("state", "state", parse_word);
    if !around.scope.lean {
        port.phys_state = files.needed("phys_state", "phys_state", parse_word);
        if let Some((rate, width, speed)) = files.needed("rate_gbps", "rate", parse_rate) {
            (port.rate_gbps, port.width, port.speed) = (Some(rate), width, speed);
        }
    }
    let lid = |text: &str| parse_number(text).and_then(|lid| u16::try_from(lid).ok());
    port.lid = files.needed("lid", "lid", lid);
    port.sm_lid = files.needed("sm_lid", "sm_lid", lid);
    let indexes = read_indexes(&mut files);
    // A table of length 0 says by itself that RoCE is off.
    port.gid_table_len = indexes.as_ref().map(|indexes| indexes.len() as u32);
    match indexes {
        Some(indexes) if around.scope.gids => {
            port.gids = read_gids(&mut files, &indexes, port.transport);
            port.gids_set = Some(match port.transport {
                // There an entry is a hardware address.
                Transport::Iwarp => 0,
                _ => port.gids.len() as u32,
            });
        }
        Some(_) => drop(files.unknown.insert("gids".into(), "not asked for".into())),
        None => {}
    }
    let view = PortView { hca, dir, number, single, link_layer: &port.link_layer, gids: &port.gids };
    port.netdev = find_netdev(around, &view);
    let netdev = port.netdev.as_deref().and_then(|name| around.netdevs.iter().find(|d| d.name == name));
    port.netdev_mtu = netdev.map(|netdev| netdev.mtu);
    let name = hca.name.as_str();
    port.netlink_netdev = around.netlink.netdev(name, number).map(str::to_owned);
    port.umad = around.devices.mad(name, number, Kind::Umad);
    port.issm = around.devices.mad(name, number, Kind::Issm);
    if around.scope.counters {
        for set in ["counters", "hw_counters"] {
            port.counters.extend(read_counters(around.root, &files.dir, set));
        }
    }
    if around.scope.surroundings {
        read_more(&mut files, &mut port);
        read_defaults(around.root, hca, dir, &mut port);
    }
    tell_mtu(hca, &mut port, &mut files);
    port.unknown = files.unknown;
    port
}

/// Directory of a port.
pub(super) fn dir_of(hca: &HcaName, port: PortNum) -> PathBuf {
    Path::new(super::CLASS).join(hca.as_str()).join("ports").join(port.to_string())
}

/// The table of partition keys as it stands; what cannot be read is left out.
pub(super) fn read_pkeys(root: &Root, dir: &Path) -> Vec<(u32, Pkey)> {
    let names = root.list(dir.join("pkeys")).unwrap_or_default();
    let mut indexes: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    indexes.sort_unstable();
    let key = |index: u32| read_text(root, &dir.join("pkeys").join(index.to_string())).ok()?.parse().ok();
    indexes.into_iter().filter_map(|index| Some((index, key(index)?))).collect()
}

/// Reads the port's state again; true when it is another one.
pub(super) fn read_state(root: &Root, hca: &HcaName, port: &mut Port) -> bool {
    let dir = dir_of(hca, port.port);
    let word = |file| read_text(root, &dir.join(file)).ok().and_then(|text| parse_word(&text));
    let state = word("state");
    if state == port.state {
        return false;
    }
    port.state = state;
    port.phys_state = word("phys_state");
    true
}

fn read_more(files: &mut Attributes<'_>, port: &mut Port) {
    port.lmc = files.needed("lmc", "lid_mask_count", |text| text.parse().ok());
    port.cap_mask = files.needed("cap_mask", "cap_mask", parse_number);
    let mut indexes: Vec<u32> = match files.root.list(files.dir.join("pkeys")) {
        Ok(names) => names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect(),
        Err(refusal) if refusal.is_absent() => Vec::new(),
        Err(refusal) => {
            files.refused("pkeys", refusal);
            Vec::new()
        }
    };
    indexes.sort_unstable();
    let keys = indexes.iter().filter_map(|index| {
        files.needed("pkeys", &format!("pkeys/{index}"), |text| text.parse::<Pkey>().ok())
    });
    port.pkeys = keys.filter(|key| key.0 != 0).collect();
    port.limited_member = (!port.pkeys.is_empty()).then(|| port.pkeys.iter().all(|key| key.is_limited()));
}

/// Defaults for connections: by configfs (a directory that someone has to make) and by the vendor's driver package.
fn read_defaults(root: &Root, hca: &Hca, dir: &Path, port: &mut Port) {
    let configured = format!("/sys/kernel/config/rdma_cm/{}/ports/{}", hca.name, port.port);
    let configured = |file: &str| read_text(root, &Path::new(&configured).join(file)).ok();
    port.cm_default_mode = configured("default_roce_mode").filter(|mode| !mode.is_empty());
    port.cm_default_tos = configured("default_roce_tos").and_then(|tos| tos.parse().ok());
    let class = read_text(root, &dir.join("tc").join(port.port.to_string()).join("traffic_class"));
    port.traffic_class = class.ok().and_then(|text| text.strip_prefix("Global tclass=")?.trim().parse().ok());
}

fn tell_mtu(hca: &Hca, port: &mut Port, files: &mut Attributes<'_>) {
    const ONLY_DRIVER: &str = "only the driver tells it, through verbs";
    files.unknown.insert("max_mtu".into(), ONLY_DRIVER.into());
    match (port.transport, port.netdev_mtu) {
        (Transport::Roce, Some(mtu)) => port.active_mtu = roce_path_mtu(mtu, hca.software),
        (Transport::Roce, None) => drop(files.unknown.insert("active_mtu".into(), "no netdev here".into())),
        _ => drop(files.unknown.insert("active_mtu".into(), ONLY_DRIVER.into())),
    }
}

fn parse_link_layer(text: &str) -> Option<LinkLayer> {
    match text {
        "InfiniBand" => Some(LinkLayer::InfiniBand),
        "Ethernet" => Some(LinkLayer::Ethernet),
        "Unknown" => Some(LinkLayer::Unknown),
        _ => None,
    }
}

/// The GID types do not tell: their text `IB/RoCE v1` stands on InfiniBand, iWARP and EFA ports as well.
fn tell_transport(link_layer: &LinkLayer, hca: &Hca) -> Transport {
    match (hca.node_type, link_layer, hca.driver.as_deref()) {
        (Some(4), ..) => Transport::Iwarp,
        (Some(5 | 6), ..) => Transport::Usnic,
        (.., Some("efa")) => Transport::Efa,
        (_, LinkLayer::InfiniBand, Some("hfi1")) => Transport::Opa,
        (_, LinkLayer::InfiniBand, _) => Transport::Infiniband,
        (_, LinkLayer::Ethernet, _) => Transport::Roce,
        (_, LinkLayer::Unknown, _) => Transport::Unknown,
    }
}

/// `4: ACTIVE` → `ACTIVE`.
fn parse_word(text: &str) -> Option<String> {
    text.split_once(": ").map(|(_, word)| word.to_owned())
}

/// `400 Gb/sec (4X NDR)` → 400, 4, NDR. Old kernels do not name the slowest speed.
fn parse_rate(text: &str) -> Option<(f64, Option<u32>, Option<String>)> {
    let (number, rest) = text.split_once(" Gb/sec")?;
    let rate = number.parse::<f64>().ok().filter(|rate| rate.is_finite())?;
    let lanes = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or_default();
    let (width, speed) = lanes.split_once(' ').unwrap_or((lanes, ""));
    let width = width.strip_suffix('X').and_then(|width| width.parse().ok());
    Some((rate, width, (!speed.is_empty()).then(|| speed.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_old_and_new_kernels_are_read() {
        let cases = [
            ("400 Gb/sec (4X NDR)", Some((400.0, Some(4), Some("NDR".to_owned())))),
            ("2.5 Gb/sec (1X)", Some((2.5, Some(1), None))),
            ("10 Gb/sec", Some((10.0, None, None))),
            ("fast", None),
        ];
        for (text, rate) in cases {
            assert_eq!(parse_rate(text), rate, "{text}");
        }
    }
}
