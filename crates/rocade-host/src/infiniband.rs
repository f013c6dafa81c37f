//! The RDMA devices: /sys/class/infiniband downward, whatever the vendor. GID tables are read in `gids`, the netdev
//! of a port is found in `port_netdev`.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rocade_core::host::Unknown;
use rocade_core::{Hca, HcaName, LinkLayer, Netdev, Port, PortNum, Transport};

use crate::attributes::{Attributes, parse_number, parse_text, read_link_name, read_text};
use crate::devices::{CharDevices, Kind};
use crate::gids::read_gids;
use crate::pci;
use crate::port_netdev::{NetlinkNetdevs, PortView, find_netdev};
use crate::root::Root;

const CLASS: &str = "/sys/class/infiniband";

/// What the ports of all HCAs are read against.
pub(crate) struct Surroundings<'a> {
    pub(crate) root: &'a Root,
    pub(crate) netdevs: &'a [Netdev],
    pub(crate) devices: &'a CharDevices,
    pub(crate) netlink: &'a NetlinkNetdevs,
}

/// All HCAs, by name. One that is listed but gone is named in `unknown`.
pub(crate) fn read_hcas(around: &Surroundings<'_>, unknown: &mut Unknown) -> Vec<Hca> {
    let names = match around.root.list(CLASS) {
        Ok(names) => names,
        Err(refusal) if refusal.is_absent() => return Vec::new(),
        Err(refusal) => {
            unknown.insert("hcas".into(), refusal.to_string());
            return Vec::new();
        }
    };
    let mut hcas = Vec::new();
    for name in names {
        match read_hca(around, &name) {
            Ok(hca) => hcas.push(hca),
            Err(why) => drop(unknown.insert(format!("hcas.{}", name.to_string_lossy()), why)),
        }
    }
    hcas.sort_by(|a, b| compare_natural(a.name.as_str(), b.name.as_str()));
    hcas
}

fn read_hca(around: &Surroundings<'_>, name: &OsStr) -> Result<Hca, String> {
    let root = around.root;
    let hca_name: HcaName = name.to_str().ok_or("name is not UTF-8")?.parse().map_err(|e| format!("{e}"))?;
    let dir = root.realpath(Path::new(CLASS).join(name)).map_err(|refusal| refusal.to_string())?;
    let ports = match root.list(dir.join("ports")) {
        Ok(ports) => ports,
        Err(refusal) if refusal.is_absent() => return Err(format!("{refusal}: listed, but gone")),
        Err(refusal) => return Err(refusal.to_string()),
    };
    let mut numbers: Vec<u32> = ports.iter().filter_map(|port| port.to_str()?.parse().ok()).collect();
    numbers.sort_unstable();

    let mut hca = read_device(around, hca_name, &dir);
    for number in &numbers {
        let port = read_port(around, &hca, &dir, *number, numbers.len());
        hca.ports.push(port);
    }
    pci::read_switch_management(root, &mut hca, &dir);
    Ok(hca)
}

fn read_device(around: &Surroundings<'_>, name: HcaName, dir: &Path) -> Hca {
    let root = around.root;
    // …/DEVICE/infiniband/NAME
    let device = dir.ancestors().nth(2).unwrap_or(dir);
    let parent = pci::read_parent(root, device);
    let function = pci::find_function(device);
    let mut at = Attributes::of(root, function.as_ref().map_or(device, |(_, dir)| dir).to_owned());
    let (pci_id, pcie, physical_function) = match &function {
        Some((_, function)) => {
            (pci::read_id(&mut at), pci::read_link(&mut at), pci::read_physical_function(root, function))
        }
        None => (None, None, None),
    };
    let numa_node = pci::read_numa_node(&mut at);
    let mut files = Attributes::of(root, dir.to_owned());
    files.unknown = at.unknown;
    let number = |text: &str| text.split(':').next()?.parse().ok();
    let guid = |text: &str| text.parse().ok();
    Hca {
        pci_address: function.map(|(address, _)| address),
        parent,
        pci_id,
        driver: read_link_name(root, &at.dir.join("driver")).ok(),
        numa_node,
        node_guid: files.needed("node_guid", "node_guid", guid),
        sys_image_guid: files.needed("sys_image_guid", "sys_image_guid", guid),
        fw_version: files.optional("fw_version", "fw_ver", parse_text),
        board_id: files.optional("board_id", "board_id", parse_text),
        hca_type: files.optional("hca_type", "hca_type", parse_text),
        hw_rev: files.optional("hw_rev", "hw_rev", parse_text),
        node_type: files.needed("node_type", "node_type", number),
        physical_function,
        // rxe names its netdev in a file of its own; siw can only be told by where it lies.
        software: parent == rocade_core::Parent::None || read_text(root, &dir.join("parent")).is_ok(),
        switch_management: Some(false),
        pcie,
        parent_netdevs: read_parent_netdevs(root, device),
        uverbs: around.devices.verbs(name.as_str()),
        ports: Vec::new(),
        unknown: files.unknown,
        ..Hca::new(name.clone())
    }
}

fn read_parent_netdevs(root: &Root, device: &Path) -> Vec<String> {
    if device.starts_with("/sys/devices/virtual") {
        return Vec::new();
    }
    let names = root.list(device.join("net")).unwrap_or_default();
    names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

fn read_port(around: &Surroundings<'_>, hca: &Hca, dir: &Path, number: u32, ports: usize) -> Port {
    let mut files = Attributes::of(around.root, dir.join("ports").join(number.to_string()));
    let link_layer = files.needed("link_layer", "link_layer", parse_link_layer).unwrap_or(LinkLayer::Unknown);
    let transport = tell_transport(&link_layer, hca);
    let (gid_table_len, gids) = read_gids(&mut files, transport);
    let view = PortView { hca, dir, number, single: ports == 1, link_layer: &link_layer, gids: &gids };
    let netdev = find_netdev(around, &view);
    let name = hca.name.as_str();
    let lid = |text: &str| parse_number(text).and_then(|lid| u16::try_from(lid).ok());
    Port {
        link_layer,
        transport,
        state: files.needed("state", "state", parse_state),
        phys_state: files.needed("phys_state", "phys_state", parse_state),
        rate_gbps: files.needed("rate_gbps", "rate", parse_rate),
        lid: files.needed("lid", "lid", lid),
        sm_lid: files.needed("sm_lid", "sm_lid", lid),
        netdev_mtu: netdev
            .as_deref()
            .and_then(|n| around.netdevs.iter().find(|d| d.name == n))
            .map(|d| d.mtu),
        netdev,
        netlink_netdev: around.netlink.netdev(name, number).map(str::to_owned),
        gid_table_len,
        gids,
        umad: around.devices.mad(name, number, Kind::Umad),
        issm: around.devices.mad(name, number, Kind::Issm),
        unknown: files.unknown,
        ..Port::new(PortNum(number))
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
fn parse_state(text: &str) -> Option<String> {
    text.split_once(": ").map(|(_, word)| word.to_owned())
}

/// `400 Gb/sec (4X NDR)` → 400.
fn parse_rate(text: &str) -> Option<f64> {
    let (number, _) = text.split_once(" Gb/sec")?;
    number.parse::<f64>().ok().filter(|rate| rate.is_finite())
}

/// mlx5_2 before mlx5_10: digits compare as numbers.
fn compare_natural(a: &str, b: &str) -> Ordering {
    let key = |text: &str| {
        let parts = text.as_bytes().chunk_by(|x, y| x.is_ascii_digit() == y.is_ascii_digit());
        parts.map(|part| (part[0].is_ascii_digit().then_some(part.len()), part.to_vec())).collect::<Vec<_>>()
    };
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

/// The netdev that rxe says it lies on.
pub(crate) fn read_software_netdev(root: &Root, dir: &Path) -> Option<String> {
    read_text(root, &PathBuf::from(dir).join("parent")).ok().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_people_count() {
        let mut names = ["mlx5_10", "mlx5_bond_0", "mlx5_2", "rxe0", "mlx4_0"];
        names.sort_by(|a, b| compare_natural(a, b));
        assert_eq!(names, ["mlx4_0", "mlx5_2", "mlx5_10", "mlx5_bond_0", "rxe0"]);
    }

    #[test]
    fn rates_of_old_and_new_kernels_are_read() {
        let cases = [("400 Gb/sec (4X NDR)", Some(400.0)), ("2.5 Gb/sec (1X)", Some(2.5)), ("fast", None)];
        for (text, rate) in cases {
            assert_eq!(parse_rate(text), rate, "{text}");
        }
    }
}
