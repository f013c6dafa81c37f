//! What rdma link, ibv_devinfo, ip and the kernel's GID files say, held against the inventory value by value. An
//! error names the value, both answers and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use rocade_core::{Gid, GidType, Host, LinkLayer, Port};
use serde::Deserialize;

/// Prints every set entry of every GID table with its file, and type and netdev of those that have them; the kernel
/// refuses to read these two of others.
pub(super) const READ_GID_FILES: &str = "cd /sys/class/infiniband && \
    grep -s . */ports/*/gids/* */ports/*/gid_attrs/types/* */ports/*/gid_attrs/ndevs/* | grep -v '(0000:){7}0000$' -E";

/// A port in the tools' words: `rxe1/1`.
type Place = String;

fn ports(host: &Host) -> BTreeMap<Place, &Port> {
    let ports = host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    ports.map(|(hca, port)| (format!("{}/{}", hca.name, port.port), port)).collect()
}

#[derive(Deserialize)]
struct RdmaLink {
    ifname: String,
    port: u32,
    state: String,
    physical_state: String,
    netdev: Option<String>,
}

/// `rdma -j link`: the same ports with the same state, physical state and netdev. Gives their number.
pub(super) fn compare_rdma_link(host: &Host, said: &str) -> Result<usize> {
    let links: Vec<RdmaLink> = serde_json::from_str(said).with_context(|| format!("not its JSON: {said}"))?;
    let theirs: BTreeMap<Place, _> = links
        .iter()
        .map(|link| {
            let physical = link.physical_state.replace('_', "").to_lowercase();
            (format!("{}/{}", link.ifname, link.port), (link.state.clone(), physical, link.netdev.clone()))
        })
        .collect();
    let ours: BTreeMap<Place, _> = ports(host)
        .into_iter()
        .map(|(place, port)| {
            let physical = port.phys_state.as_deref().unwrap_or("unread").to_lowercase();
            (place, (port.state.clone().unwrap_or_default(), physical, port.netlink_netdev.clone()))
        })
        .collect();
    same(&ours, &theirs)?;
    Ok(ours.len())
}

/// `ibv_devinfo -v`: the same HCAs with the same GUIDs, and ports with the same state, link layer, GIDs and types.
pub(super) fn compare_devinfo(host: &Host, said: &str) -> Result<()> {
    let (mut theirs, mut gids) = (BTreeMap::new(), BTreeMap::new());
    let (mut hca, mut port) = (String::new(), String::new());
    for line in said.lines() {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        match key {
            "hca_id" => hca = value.to_owned(),
            "port" => port = format!("{hca}/{value}"),
            "node_guid" | "sys_image_guid" => drop(theirs.insert(format!("{hca} {key}"), value.to_owned())),
            "state" | "link_layer" | "active_mtu" => {
                let word = value.split(' ').next().unwrap_or_default().trim_start_matches("PORT_");
                theirs.insert(format!("{port} {key}"), word.to_owned());
            }
            _ if key.starts_with("GID[") => {
                let index = key.trim_start_matches("GID[").trim_end_matches(']').trim();
                gids.insert(format!("{port} {index}"), parse_devinfo_gid(value)?);
            }
            _ => {}
        }
    }
    same(&facts(host), &theirs)?;
    let ours: BTreeMap<_, _> = ports(host)
        .into_iter()
        .flat_map(|(place, port)| {
            port.gids.iter().map(move |gid| (format!("{place} {}", gid.index), (gid.gid, gid.gid_type)))
        })
        .collect();
    same(&ours, &gids)
}

fn facts(host: &Host) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for hca in &host.hcas {
        let guids = [("node_guid", hca.node_guid), ("sys_image_guid", hca.sys_image_guid)];
        facts.extend(guids.map(|(key, guid)| {
            (format!("{} {key}", hca.name), guid.map_or_else(String::new, |guid| guid.to_string()))
        }));
    }
    for (place, port) in ports(host) {
        let layer = match port.link_layer {
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::InfiniBand => "InfiniBand",
            LinkLayer::Unknown => "Unspecified",
        };
        facts.insert(format!("{place} link_layer"), layer.to_owned());
        facts.insert(format!("{place} state"), port.state.clone().unwrap_or_default());
        facts.insert(
            format!("{place} active_mtu"),
            port.active_mtu.map_or_else(String::new, |mtu| mtu.to_string()),
        );
    }
    facts
}

/// `::ffff:10.8.10.1, RoCE v2`, or all eight groups and no type on other transports.
fn parse_devinfo_gid(value: &str) -> Result<(Gid, Option<GidType>)> {
    let (address, kind) = value.split_once(", ").unwrap_or((value, ""));
    let address: Ipv6Addr = address.parse().with_context(|| format!("no GID: {value}"))?;
    let kind = match kind {
        "RoCE v2" => Some(GidType::V2),
        "IB/RoCE v1" | "RoCE v1" => Some(GidType::V1),
        _ => None,
    };
    Ok((Gid(address.octets()), kind))
}

#[derive(Deserialize)]
struct IpLink {
    ifname: String,
    ifindex: u32,
    mtu: u32,
    flags: Vec<String>,
    address: Option<String>,
    master: Option<String>,
    linkinfo: Option<LinkInfo>,
    #[serde(default)]
    addr_info: Vec<AddressInfo>,
}

#[derive(Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

#[derive(Deserialize)]
struct AddressInfo {
    local: Option<IpAddr>,
    prefixlen: u8,
}

/// `ip -j -d addr`: the same interfaces with the same index, MTU, kind, master, hardware and IP addresses, up or not.
/// Gives their number.
pub(super) fn compare_ip(host: &Host, said: &str) -> Result<usize> {
    let links: Vec<IpLink> = serde_json::from_str(said).with_context(|| format!("not its JSON: {said}"))?;
    let theirs: BTreeMap<String, _> = links
        .into_iter()
        .map(|link| {
            let up = link.flags.iter().any(|flag| flag == "UP");
            let addresses: BTreeSet<_> =
                link.addr_info.iter().filter_map(|it| Some((it.local?, it.prefixlen))).collect();
            let kind = link.linkinfo.and_then(|info| info.info_kind);
            (link.ifname, (link.ifindex, link.mtu, up, link.address, link.master, kind, addresses))
        })
        .collect();
    let ours: BTreeMap<String, _> = host
        .netdevs
        .iter()
        .cloned()
        .map(|dev| {
            let addresses: BTreeSet<_> = dev.addresses.into_iter().collect();
            (dev.name, (dev.ifindex, dev.mtu, dev.up, dev.mac, dev.master, dev.kind, addresses))
        })
        .collect();
    same(&ours, &theirs)?;
    Ok(ours.len())
}

/// The kernel's files: the same set entries with the same type and netdev. Gives their number.
pub(super) fn compare_gid_files(host: &Host, said: &str) -> Result<usize> {
    let mut theirs: BTreeMap<String, (String, String, String)> = BTreeMap::new();
    let lines = said.lines().filter_map(|line| line.split_once(':'));
    for (file, value) in lines {
        let parts: Vec<&str> = file.split('/').collect();
        let (hca, port, index) = (parts[0], parts[2], parts[parts.len() - 1]);
        let entry = theirs.entry(format!("{hca}/{port} {index}")).or_default();
        let value = value.to_owned();
        match parts[parts.len() - 2] {
            "gids" => entry.0 = value,
            "types" => entry.1 = value,
            _ => entry.2 = value,
        }
    }
    let ours: BTreeMap<_, _> = ports(host)
        .into_iter()
        .flat_map(|(place, port)| {
            port.gids.iter().map(move |gid| {
                let kind = match gid.gid_type {
                    Some(GidType::V1) => "IB/RoCE v1",
                    Some(GidType::V2) => "RoCE v2",
                    None => "",
                };
                let netdev = gid.netdev.clone().unwrap_or_default();
                (format!("{place} {}", gid.index), (gid.gid.to_string(), kind.to_owned(), netdev))
            })
        })
        .collect();
    same(&ours, &theirs)?;
    Ok(ours.len())
}

/// The first key by which two tables differ is the error.
fn same<V: PartialEq + std::fmt::Debug>(
    ours: &BTreeMap<String, V>,
    theirs: &BTreeMap<String, V>,
) -> Result<()> {
    ensure!(!theirs.is_empty(), "the tool names nothing");
    for key in ours.keys().chain(theirs.keys()) {
        let (our, their) = (ours.get(key), theirs.get(key));
        ensure!(our == their, "{key}: the inventory says {our:?}, it says {their:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_of_ibv_devinfo_is_read_in_either_of_its_forms() {
        let v2 = parse_devinfo_gid("::ffff:10.8.10.1, RoCE v2").unwrap();
        assert_eq!(
            (v2.0.to_string().as_str(), v2.1),
            ("0000:0000:0000:0000:0000:ffff:0a08:0a01", Some(GidType::V2))
        );
        let v1 = parse_devinfo_gid("fe80:0000:0000:0000:5054:00ff:fe12:3456, IB/RoCE v1").unwrap();
        assert_eq!(
            (v1.0.to_string().as_str(), v1.1),
            ("fe80:0000:0000:0000:5054:00ff:fe12:3456", Some(GidType::V1))
        );
        assert!(parse_devinfo_gid("none").is_err());
    }

    #[test]
    fn a_value_that_only_one_side_has_is_a_difference() {
        let one = BTreeMap::from([("rxe1/1".to_owned(), 1)]);
        let two = BTreeMap::from([("rxe1/1".to_owned(), 1), ("rxe2/1".to_owned(), 2)]);
        assert!(same(&one, &one).is_ok());
        let error = same(&one, &two).unwrap_err().to_string();
        assert_eq!(error, "rxe2/1: the inventory says None, it says Some(2)");
        assert!(same(&two, &one).is_err() && same(&BTreeMap::<_, u8>::new(), &BTreeMap::new()).is_err());
    }
}
