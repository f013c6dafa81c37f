//! `rocade-lab record TREE FILE`: a recorded host from a described one. TREE holds sys, proc and dev as plain files,
//! and beside them what plain files cannot say: fixture-errors.tsv (path, errno), fixture-netlink.json and
//! fixture-devnodes.tsv (path, type, major:minor, mode). The recording takes of it what `rocade snapshot` takes of a
//! live host.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rocade_host::{
    Address, Archive, Dump, Errno, Link, Netlink, Node, RdmaDevice, RdmaPort, RdmaSystem, Root, record,
};
use serde::Deserialize;

/// Records `tree` into `file`.
pub fn record_tree(tree: &Path, file: &Path) -> Result<()> {
    let mut whole = Archive::default();
    put_overlays(tree, &mut whole)?;
    for top in ["sys", "proc", "dev"] {
        put_dir(&tree.join(top), &Path::new("/").join(top), &mut whole)?;
    }
    whole.netlink = read_netlink(tree, &whole)?;
    let recorded = record(&Root::from(whole));
    fs::write(file, recorded.print()).with_context(|| format!("write {}", file.display()))
}

/// What stands in for plain files goes in first and is not overwritten.
fn put_overlays(tree: &Path, whole: &mut Archive) -> Result<()> {
    for row in read_rows(&tree.join("fixture-errors.tsv"))? {
        let [path, errno] = &row[..] else {
            bail!("fixture-errors.tsv: wanted path and errno, seen {row:?}")
        };
        let errno = Errno::from_name(errno).with_context(|| format!("fixture-errors.tsv: errno {errno}"))?;
        whole.put(Path::new(path), Node::Fail(errno));
    }
    for row in read_rows(&tree.join("fixture-devnodes.tsv"))? {
        let node = parse_device(&row).with_context(|| format!("fixture-devnodes.tsv: {row:?}"))?;
        whole.put(Path::new(&row[0]), node);
    }
    Ok(())
}

fn read_rows(file: &Path) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

fn parse_device(row: &[String]) -> Option<Node> {
    let [_, kind, numbers, mode] = row else { return None };
    let (major, minor) = numbers.split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    (kind == "c").then_some(Node::Char { major, minor, mode: u16::from_str_radix(mode, 8).ok()? })
}

fn put_dir(source: &Path, path: &Path, whole: &mut Archive) -> Result<()> {
    whole.put_dir(path, true);
    for entry in fs::read_dir(source).with_context(|| format!("list {}", source.display()))? {
        let entry = entry?;
        let (source, path) = (entry.path(), path.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            whole.put(&path, Node::Link(fs::read_link(&source)?));
        } else if kind.is_dir() {
            put_dir(&source, &path, whole)?;
        } else {
            let content = fs::read(&source).with_context(|| format!("read {}", source.display()))?;
            whole.put(&path, Node::File(content));
        }
    }
    Ok(())
}

/// fixture-netlink.json, as far as a recording keeps it.
#[derive(Deserialize)]
struct Described {
    rdma_sys: serde_json::Value,
    rdma_dev: Vec<DescribedDevice>,
    rdma_port: Vec<DescribedPort>,
    link: Vec<DescribedLink>,
    addr: Vec<DescribedAddress>,
}

#[derive(Deserialize)]
struct DescribedDevice {
    dev_index: u32,
    dev_name: String,
    node_type: u8,
    node_guid: Option<String>,
}

#[derive(Deserialize)]
struct DescribedPort {
    dev_name: String,
    port: u32,
    state: u8,
    phys_state: u8,
    ndev_name: Option<String>,
}

#[derive(Deserialize)]
struct DescribedLink {
    name: String,
    ifindex: u32,
    mtu: u32,
    address: String,
    kind: Option<String>,
    master: Option<String>,
}

#[derive(Deserialize)]
struct DescribedAddress {
    ifindex: u32,
    addr: String,
}

fn read_netlink(tree: &Path, whole: &Archive) -> Result<Netlink> {
    let file = tree.join("fixture-netlink.json");
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let described: Described = serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let root = Root::from(whole.clone());
    let links = described.link.iter().map(|link| convert_link(link, &described.link, &root));
    let addresses = described.addr.iter().map(convert_address).collect::<Result<_>>()?;
    let present = described.rdma_sys.is_object();
    let mode = described.rdma_sys["netns_mode"] == "shared";
    Ok(Netlink {
        rdma_system: rdma_answer(present, RdmaSystem { netns_mode: mode.into() })?,
        rdma_devices: rdma_answer(present, described.rdma_dev.iter().map(convert_device).collect())?,
        rdma_ports: rdma_answer(present, described.rdma_port.iter().map(convert_port).collect())?,
        links: Dump(Some(Ok(links.collect::<Result<_>>()?))),
        addresses: Dump(Some(Ok(addresses))),
    })
}

/// A kernel without RDMA refuses the socket.
fn rdma_answer<T>(present: bool, value: T) -> Result<Dump<T>> {
    let refusal = Errno::from_name("EPROTONOSUPPORT").context("EPROTONOSUPPORT has no number")?;
    Ok(Dump(Some(if present { Ok(value) } else { Err(refusal) })))
}

fn convert_device(device: &DescribedDevice) -> RdmaDevice {
    RdmaDevice {
        index: device.dev_index,
        name: device.dev_name.clone(),
        node_type: Some(device.node_type),
        node_guid: device.node_guid.as_deref().and_then(|guid| guid.parse().ok()),
        protocol: None,
    }
}

fn convert_port(port: &DescribedPort) -> RdmaPort {
    RdmaPort {
        device: port.dev_name.clone(),
        port: port.port,
        state: Some(port.state),
        phys_state: Some(port.phys_state),
        netdev: port.ndev_name.clone(),
    }
}

/// Flags, type and the lower interface stand in sysfs only.
fn convert_link(link: &DescribedLink, all: &[DescribedLink], root: &Root) -> Result<Link> {
    let dir = PathBuf::from("/sys/class/net").join(&link.name);
    let number = |file: &str| -> Option<u32> {
        let text = String::from_utf8(root.read(dir.join(file)).ok()?).ok()?;
        let text = text.trim();
        text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())
    };
    let lower = number("iflink").filter(|lower| *lower != link.ifindex);
    let names = root.list(&dir).unwrap_or_default();
    let is_here = names.iter().any(|name| name.as_encoded_bytes().starts_with(b"lower_") || name == "parent");
    let indexes: HashMap<&str, u32> = all.iter().map(|link| (link.name.as_str(), link.ifindex)).collect();
    Ok(Link {
        index: link.ifindex,
        name: link.name.clone(),
        link_type: number("type").unwrap_or(1).try_into().context("link type")?,
        flags: number("flags").with_context(|| format!("{}/flags is missing", dir.display()))?,
        mtu: link.mtu,
        mac: Some(link.address.clone()),
        kind: link.kind.clone(),
        master: link.master.as_deref().and_then(|master| indexes.get(master)).copied(),
        lower,
        lower_is_foreign: lower.is_some() && !is_here,
    })
}

fn convert_address(address: &DescribedAddress) -> Result<Address> {
    let parts = address.addr.split_once('/').context("address without prefix length")?;
    let wrong = || format!("address {}", address.addr);
    Ok(Address {
        index: address.ifindex,
        address: parts.0.parse().with_context(wrong)?,
        prefix: parts.1.parse().with_context(wrong)?,
    })
}
