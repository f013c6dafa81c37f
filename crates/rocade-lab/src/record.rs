//! `rocade-lab record TREE FILE`: a recorded host from a described one. TREE holds sys, proc and dev as plain files,
//! and beside them what plain files cannot say: fixture-errors.tsv (path, errno), fixture-netlink.json,
//! fixture-devnodes.tsv (path, type, major:minor, mode) and, for a Pod, fixture-pod.json. Driver statistics may stand in
//! fixture-netlink.json as `"ethtool": {NETDEV: {NAME: VALUE…} or ERRNO…}`. The recording takes of it what
//! `rocade snapshot` takes of a live host.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rocade_host::{
    Address, Archive, DcbRecord, Dump, Errno, Link, Netlink, Node, PodRecord, RdmaDevice, RdmaPort,
    RdmaSystem, Root, RouteRecord, RuleRecord, StatisticsRecord, decode_statistics, record,
};
use serde::Deserialize;

/// Records `tree` into `file`.
pub fn record_tree(tree: &Path, file: &Path) -> Result<()> {
    let mut whole = Archive::default();
    put_overlays(tree, &mut whole)?;
    for top in ["sys", "proc", "dev", "etc"] {
        if tree.join(top).exists() || top != "etc" {
            put_dir(&tree.join(top), &Path::new("/").join(top), &mut whole)?;
        }
    }
    let described = read_described(tree)?;
    whole.statistics = described.ethtool.iter().map(convert_statistics).collect::<Result<_>>()?;
    whole.netlink = convert_netlink(described, &whole)?;
    whole.pod = read_pod(tree)?;
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
    route: Vec<DescribedRoute>,
    rule: Vec<DescribedRule>,
    dcb: Vec<DescribedDcb>,
    #[serde(default)]
    ethtool: BTreeMap<String, DescribedStatistics>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DescribedStatistics {
    Values(BTreeMap<String, u64>),
    Failed(Errno),
}

#[derive(Deserialize)]
struct DescribedRoute {
    family: String,
    table: u32,
    #[serde(rename = "type")]
    kind: String,
    dst: String,
    oif: Option<u32>,
    gateway: Option<IpAddr>,
    metric: Option<u32>,
    prefsrc: Option<IpAddr>,
}

#[derive(Deserialize)]
struct DescribedRule {
    family: String,
    priority: u32,
    src: Option<String>,
    dst: Option<String>,
    iif: Option<String>,
    oif: Option<String>,
    table: u32,
}

#[derive(Deserialize)]
struct DescribedDcb {
    ifname: String,
    dcbx: Option<u8>,
    pfc: Option<DescribedPfc>,
    ets: Option<DescribedEts>,
    #[serde(default)]
    app: Vec<DescribedApp>,
}

#[derive(Deserialize)]
struct DescribedPfc {
    cap: u8,
    en: u8,
}

#[derive(Deserialize)]
struct DescribedEts {
    prio_tc: Vec<u8>,
    tx_bw: Vec<u8>,
}

#[derive(Deserialize)]
struct DescribedApp {
    selector: u8,
    protocol: u16,
    priority: u8,
}

/// fixture-pod.json, as far as a recording keeps it.
#[derive(Deserialize)]
struct DescribedPod {
    namespace: String,
    name: String,
    #[serde(default)]
    resources: DescribedResources,
    granted: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
struct DescribedResources {
    #[serde(default)]
    limits: BTreeMap<String, String>,
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

fn read_described(tree: &Path) -> Result<Described> {
    let file = tree.join("fixture-netlink.json");
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}", file.display()))
}

fn convert_netlink(described: Described, whole: &Archive) -> Result<Netlink> {
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
        routes: Dump(Some(Ok(described.route.iter().map(convert_route).collect::<Result<_>>()?))),
        rules: Dump(Some(Ok(described.rule.iter().map(convert_rule).collect::<Result<_>>()?))),
        dcb: Dump(Some(Ok(described.dcb.into_iter().map(convert_dcb).collect()))),
        // Nobody described these.
        ..Netlink::default()
    })
}

fn read_pod(tree: &Path) -> Result<Option<PodRecord>> {
    let file = tree.join("fixture-pod.json");
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let pod: DescribedPod = serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
    Ok(Some(PodRecord {
        name: pod.name,
        namespace: pod.namespace,
        resources: pod.resources.limits,
        granted: pod.granted,
    }))
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
        parent: None,
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

fn convert_route(route: &DescribedRoute) -> Result<RouteRecord> {
    Ok(RouteRecord {
        table: route.table,
        kind: route.kind.clone(),
        destination: parse_prefix(&route.dst, &route.family)?,
        gateway: route.gateway,
        interface: route.oif,
        metric: route.metric,
        source: route.prefsrc,
    })
}

fn convert_rule(rule: &DescribedRule) -> Result<RuleRecord> {
    let prefix = |text: &Option<String>| match text.as_deref() {
        None | Some("all") => Ok(None),
        Some(text) => parse_prefix(text, &rule.family).map(Some),
    };
    Ok(RuleRecord {
        ipv6: rule.family == "inet6",
        priority: rule.priority,
        source: prefix(&rule.src)?,
        destination: prefix(&rule.dst)?,
        input: rule.iif.clone(),
        output: rule.oif.clone(),
        table: rule.table,
    })
}

/// `default`, an address, or an address and its prefix length.
fn parse_prefix(text: &str, family: &str) -> Result<(IpAddr, u8)> {
    let (any, whole) = match family {
        "inet6" => (IpAddr::from([0; 16]), 128),
        _ => (IpAddr::from([0; 4]), 32),
    };
    let wrong = || format!("prefix {text}");
    match text.split_once('/') {
        None if text == "default" => Ok((any, 0)),
        None => Ok((text.parse().with_context(wrong)?, whole)),
        Some((address, length)) => {
            Ok((address.parse().with_context(wrong)?, length.parse().with_context(wrong)?))
        }
    }
}

/// As a driver gives them: names of 32 bytes, values of 8.
fn convert_statistics((netdev, described): (&String, &DescribedStatistics)) -> Result<StatisticsRecord> {
    let values = match described {
        DescribedStatistics::Failed(_) => None,
        DescribedStatistics::Values(values) => {
            let too_long = values.keys().find(|name| name.len() > 32);
            ensure!(too_long.is_none(), "{netdev}: {too_long:?} is longer than 32 bytes");
            let name = |name: &String| name.bytes().chain(std::iter::repeat(0)).take(32).collect::<Vec<u8>>();
            let names: Vec<u8> = values.keys().flat_map(name).collect();
            let numbers: Vec<u8> = values.values().flat_map(|value| value.to_ne_bytes()).collect();
            decode_statistics(&names, &numbers)
        }
    };
    let failed = match described {
        DescribedStatistics::Failed(errno) => Some(*errno),
        DescribedStatistics::Values(_) => None,
    };
    Ok(StatisticsRecord { netdev: netdev.clone(), values, failed })
}

fn convert_dcb(dcb: DescribedDcb) -> DcbRecord {
    let (prio_tc, tx_bw) = dcb.ets.map(|ets| (ets.prio_tc, ets.tx_bw)).unzip();
    DcbRecord {
        netdev: dcb.ifname,
        dcbx: dcb.dcbx,
        pfc_cap: dcb.pfc.as_ref().map(|pfc| pfc.cap),
        pfc_enabled: dcb.pfc.map(|pfc| pfc.en),
        prio_tc,
        tx_bw,
        apps: dcb.app.iter().map(|app| (app.selector, app.protocol, app.priority)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_driver_has_statistics_as_a_live_one() {
        let tree = tempfile::tempdir().unwrap();
        for netdev in ["ens1", "ens2"] {
            let dir = tree.path().join("sys/class/net").join(netdev);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("flags"), "0x1003\n").unwrap();
        }
        for (file, content) in [
            ("fixture-errors.tsv", ""),
            ("fixture-devnodes.tsv", ""),
            (
                "fixture-netlink.json",
                r#"{"rdma_sys": null, "rdma_dev": [], "rdma_port": [], "addr": [], "route": [], "rule": [], "dcb": [],
                    "link": [{"name": "ens1", "ifindex": 2, "mtu": 1500, "address": "02:00:00:00:00:01"},
                             {"name": "ens2", "ifindex": 3, "mtu": 1500, "address": "02:00:00:00:00:02"}],
                    "ethtool": {"ens1": {"rx_prio3_discards": 7, "rx_packets": 9, "rx0_drops": 1, "rx1_drops": 2},
                                "ens2": "EOPNOTSUPP"}}"#,
            ),
        ] {
            fs::write(tree.path().join(file), content).unwrap();
        }
        for top in ["proc", "dev"] {
            fs::create_dir(tree.path().join(top)).unwrap();
        }
        let file = tree.path().join("recorded.host");
        record_tree(tree.path(), &file).unwrap();
        let text = fs::read_to_string(file).unwrap();
        let wanted = "\nethtool statistics\n {\"netdev\":\"ens1\",\"values\":{\"rx*_drops\":3,\"rx_prio3_discards\":7}}\n \
                      {\"netdev\":\"ens2\",\"failed\":\"EOPNOTSUPP\"}\n";
        assert!(text.contains(wanted), "{text}");
    }
}
