//! The row of neighbours on one node: each port's table holds the GIDs of all of them, under indexes that differ from Pod
//! to Pod, and are given anew when one has gone.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::super::agent::SOON;
use super::super::pingpong::run_pair;
use super::super::place::Place;
use super::super::pods::{NAMESPACE, RESOURCE, pod};
use super::super::{Chain, Row, Seen, both_streams, passed, wait_for};
use super::kinds::{NEIGHBOURS, RANGE, TWO_RAILS, at};
use super::{Container, TEST, Wanted};

/// Comes after the first of the neighbours has gone.
const LATER: &str = "near-4";
/// The port's table, as its files have it.
const TABLE: &str = "cd /sys/class/infiniband/rxe1/ports/1/gids && grep . [0-9] [0-9][0-9]";

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "verify: a Pod is told the GID of its own address among those of its neighbours, also after Pods came and went",
        typed: vec![
            format!("rocade verify; rocade env -o nccl  (in {})", NEIGHBOURS.join(", ")),
            format!("kubectl delete pod POD; kubectl apply -f -  (the first of them; {LATER})"),
            format!("rocade pingpong 10.8.10.65  (from {LATER} to another node)"),
        ],
        run: neighbours,
    }]
}

fn neighbours(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    let mut stand = Vec::new();
    for name in NEIGHBOURS {
        stand.push((told_own(chain, name, &mut output)?, name));
    }
    stand.sort_unstable();
    let [(_, first), (index, middle), _] = stand[..] else { bail!("not three: {stand:?}") };
    leave(chain, first, middle)?;
    chain.apply(&[at(0, "rail1", pod(LATER, &json!({RESOURCE: "1"})))])?;
    chain.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", LATER])?;
    let later = told_own(chain, LATER, &mut output)?;
    ensure!(later < index, "{LATER} has not the place of {first}: {later}, {stand:?}");
    let after = told_own(chain, middle, &mut output)?;
    ensure!(after == index, "{middle} moved from {index} to {after}");
    output += &used(chain, later)?;
    passed(
        output,
        format!("{stand:?}, each with the others around it; {LATER} has {later} and connects by it"),
    )
}

/// Ends a Pod, and waits until the table that another one sees has its GID no more.
fn leave(chain: &Chain, name: &'static str, other: &'static str) -> Result<()> {
    let own = Place::Pod(name).rail_address(chain)?;
    chain.kubectl(&["-n", NAMESPACE, "delete", "pod", "--timeout=60s", name])?;
    wait_for(SOON, || {
        let table = table(chain, other)?;
        let gone = table.iter().all(|(_, address)| *address != own);
        Ok(if gone { Ok(()) } else { Err(format!("{own} is still there: {table:?}")) })
    })
}

/// Index of the Pod's own address, as the kernel's files have it, where verify and env tell the same.
fn told_own(chain: &Chain, name: &'static str, output: &mut String) -> Result<u32> {
    let own = Place::Pod(name).rail_address(chain)?;
    let first = table(chain, name)?.into_iter().find(|(_, address)| *address == own);
    let (index, _) = first.with_context(|| format!("{name}: no GID of {own}"))?;
    let told = Container(name, TEST).ask(chain, "")?;
    let found = ["note RDC609", "note RDC613"];
    *output += &told.hold(&Wanted { exit: 0, found: &found, devices: &["rxe1:1"], range: Some(RANGE) })?;
    let port = &told.hca("rxe1")?["ports"][0];
    let gids = port["gids"].as_array().context("no GIDs")?;
    ensure!(gids.first().is_some_and(|gid| gid["index"] == index), "{name}: wanted index {index}: {port}");
    // The bench's stand-in for steering has the Pod's address on the rail once more (rail-cni.sh).
    ensure!(gids.iter().all(|gid| gid["address"] == own.to_string()), "{name}: GIDs of others: {port}");
    let file = Place::Pod(name).run(chain, "rocade env -q -o nccl")?;
    ensure!(file.contains(&format!("NCCL_IB_GID_INDEX={index}\n")), "{name}: wanted index {index}:\n{file}");
    Ok(index)
}

/// IPv4 GIDs of the first rail's port by index.
fn table(chain: &Chain, name: &'static str) -> Result<Vec<(u32, Ipv4Addr)>> {
    let said = Place::Pod(name).run(chain, TABLE)?;
    let entry = |line: &str| {
        let (index, gid) = line.split_once(':')?;
        let gid: rocade_core::Gid = gid.parse().ok()?;
        Some((index.parse().ok()?, gid.ipv4()?))
    };
    Ok(said.lines().filter_map(entry).collect())
}

/// A connection to the other node takes that GID.
fn used(chain: &Chain, index: u32) -> Result<String> {
    let (at, from) = (Place::Pod(TWO_RAILS), Place::Pod(LATER));
    let asks = format!("rocade pingpong -n 20 {}", at.rail_address(chain)?);
    let (served, asked) = run_pair(chain, (at, "rocade pingpong -n 20"), (from, &asks))?;
    let said = both_streams(&asked);
    ensure!(served.status.success() && asked.status.success(), "{}\n{said}", both_streams(&served));
    let own = from.rail_address(chain)?;
    ensure!(said.contains(&format!("GID index {index} ({own})")), "wanted index {index} of {own}: {said}");
    Ok(said)
}
