//! A row that records a live node, as it is and scrubbed: both recordings say what the node says, and the scrubbed one
//! holds nothing that tells whose node it is.

use anyhow::{Context, Result, ensure};
use rocade_core::{Gid, Host, judge};
use rocade_host::{Archive, Key, Root, Scrubber, read_host};
use serde_json::Value;

use super::{Chain, Row, Seen, nodes, passed};
use crate::cluster::plan;

const NODE: &str = plan::NODES[0];
const KEY: &str = "the lab's key";

/// On a node that is Ready.
pub fn recording_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "a node's recording says what the node says, and scrubbed it tells nobody whose it is",
        typed: vec![
            "rocade snapshot --no-scrub --out -".into(),
            format!("rocade snapshot --key \"{KEY}\" --out -"),
        ],
        run: record_and_compare,
    }]
}

fn record_and_compare(chain: &Chain) -> Result<Seen> {
    let plain = chain.node(NODE, "rocade snapshot --no-scrub --out - 2>/dev/null")?;
    let scrubbed = chain.node(NODE, &format!("rocade snapshot --key \"{KEY}\" --out - 2>/dev/null"))?;
    let live = nodes::read_host(chain, NODE)?;
    let (plain, hidden) = (Archive::parse(plain.as_bytes())?, Archive::parse(scrubbed.as_bytes())?);
    compare(&still(&read(&plain))?, &still(&live)?).context("--no-scrub")?;
    let scrubber = Scrubber::of(&plain, &Key::from_secret(KEY.as_bytes()));
    compare(&still(&read(&hidden))?, &scrubber.replace_json(&still(&live)?)).context("scrubbed")?;
    let originals = originals(&live);
    ensure!(originals.len() > 6, "nothing to look for: {originals:?}");
    for original in &originals {
        ensure!(!scrubbed.contains(original.as_str()), "the scrubbed recording holds {original}");
    }
    let output =
        scrubbed.lines().filter(|line| line.contains("node_guid") || line.contains("address")).take(12);
    let output: Vec<&str> = output.collect();
    passed(output.join("\n"), format!("the same inventory; none of {} originals is left", originals.len()))
}

fn read(archive: &Archive) -> Host {
    let mut host = read_host(&Root::from(archive.clone()));
    judge(&mut host);
    host
}

/// Without what moves by itself between two looks.
fn still(host: &Host) -> Result<Value> {
    let mut host = host.clone();
    host.netdevs.iter_mut().for_each(|netdev| netdev.statistics = None);
    for hca in &mut host.hcas {
        hca.counters.clear();
        hca.ports.iter_mut().for_each(|port| port.counters.clear());
    }
    Ok(serde_json::to_value(host)?)
}

fn compare(got: &Value, wanted: &Value) -> Result<()> {
    let fields = wanted.as_object().context("a host")?;
    for (field, wanted) in fields {
        ensure!(got[field] == *wanted, "{field}: the recording says {}, the node {wanted}", got[field]);
    }
    Ok(())
}

/// Addresses, MACs and GIDs of the node, as they are written most often.
fn originals(host: &Host) -> Vec<String> {
    let own = host.netdevs.iter().filter(|netdev| netdev.name != "lo");
    let mut originals = Vec::new();
    for netdev in own {
        originals.extend(netdev.mac.iter().filter(|mac| Gid::from_mac(mac).is_some()).cloned());
        originals.extend(netdev.addresses.iter().map(|(address, _)| format!("\"{address}\"")));
    }
    let gids = host.hcas.iter().flat_map(|hca| &hca.ports).flat_map(|port| &port.gids);
    originals.extend(gids.map(|gid| gid.gid.to_string()));
    originals.extend(host.hcas.iter().filter_map(|hca| Some(hca.node_guid?.to_string())));
    originals.extend(host.hostname.clone());
    originals
}
