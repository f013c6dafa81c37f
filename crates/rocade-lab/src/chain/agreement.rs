//! Rows that hold the inventory against the tools that people used before it, on a live node: rdma link, ibv_devinfo,
//! ip and the kernel's GID files, before and after each change of a spare interface. Owns the
//! changes; what the tools say is parsed and compared in `tools`.

mod tools;

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use rocade_core::Host;

use super::{Chain, Row, Seen, nodes, passed};
use crate::cluster::plan;
use crate::statistics;

const NODE: &str = plan::NODES[0];
/// An interface that nothing else on the node uses, with a soft-RoCE HCA on it.
const SET_UP: &str = "ip link add spare0 type veth peer name spare1 && ip link set spare1 up \
    && ip link set spare0 up && ip addr add 10.99.0.1/24 dev spare0 && rdma link add rxe9 type rxe netdev spare0 \
    && ip netns add elsewhere";
const TEAR_DOWN: &str = "rdma link delete rxe9; ip netns delete elsewhere; ip link delete spare0";

/// Something done to the node and undone afterwards.
struct Change {
    name: &'static str,
    make: &'static str,
    /// What the inventory must say of the HCA rxe9 then; None: that there is none.
    wanted: Option<fn(&Host) -> Result<()>>,
    undo: &'static str,
}

const CHANGES: [Change; 7] = [
    Change {
        name: "as it is",
        make: "true",
        wanted: Some(|host| own_index(host, "10.99.0.1")),
        undo: "true",
    },
    Change {
        name: "a VLAN",
        make: "ip link add link spare0 name spare0.7 type vlan id 7 && ip addr add 10.99.7.1/24 dev spare0.7 \
            && ip link set spare0.7 up",
        wanted: Some(|host| own_index(host, "10.99.7.1")),
        undo: "ip link delete spare0.7",
    },
    Change {
        name: "a macvlan in another namespace",
        make: "ip link add mv9 link spare0 type macvlan mode bridge && ip link set mv9 netns elsewhere \
            && ip -n elsewhere addr add 10.99.9.1/24 dev mv9 && ip -n elsewhere link set mv9 up",
        wanted: Some(|host| foreign_index(host, "10.99.9.1")),
        undo: "ip -n elsewhere link delete mv9",
    },
    Change {
        name: "another address",
        make: "ip addr add 10.99.0.2/24 dev spare0",
        wanted: Some(|host| own_index(host, "10.99.0.2")),
        undo: "ip addr delete 10.99.0.2/24 dev spare0",
    },
    Change {
        name: "another name",
        make: "ip link set spare0 down && ip link set spare0 name renamed0 && ip link set renamed0 up",
        wanted: Some(|host| netdev_and_state(host, "renamed0", "ACTIVE")),
        undo: "ip link set renamed0 down && ip link set renamed0 name spare0 && ip link set spare0 up",
    },
    Change {
        name: "the netdev down",
        make: "ip link set spare0 down",
        wanted: Some(|host| netdev_and_state(host, "spare0", "DOWN")),
        undo: "ip link set spare0 up",
    },
    Change {
        name: "the HCA removed",
        make: "rdma link delete rxe9",
        wanted: None,
        undo: "rdma link add rxe9 type rxe netdev spare0",
    },
];

/// On a node that is Ready; they leave it as they found it.
pub fn agreement_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "the inventory agrees with rdma link, ibv_devinfo, ip and the GID files, whatever changes",
            typed: CHANGES
                .iter()
                .map(|change| format!("{}; rocade inventory -o json", change.make))
                .collect(),
            run: agree_through_changes,
        },
        Row {
            name: "what drivers count of the rails' interfaces is what ethtool shows",
            typed: vec!["ethtool -S eth1".into(), "rocade inventory -o json".into()],
            run: statistics_agree,
        },
    ]
}

fn agree_through_changes(chain: &Chain) -> Result<Seen> {
    // A row that failed before it tore down leaves nothing that this one meets.
    chain.node(NODE, &format!("({TEAR_DOWN}) 2>/dev/null; {SET_UP}"))?;
    let mut output = String::new();
    let result = CHANGES.iter().try_for_each(|change| {
        let told = agree_through(chain, change).with_context(|| format!("with {}", change.name))?;
        let _ = writeln!(output, "{}: {told}", change.name);
        Ok(())
    });
    let torn_down = chain.node(NODE, TEAR_DOWN);
    result.and(torn_down)?;
    let told = agree(chain, &nodes::read_host(chain, NODE)?).context("with everything undone")?;
    passed(format!("{output}undone: {told}"), format!("one answer from all in {} states", CHANGES.len() + 1))
}

fn agree_through(chain: &Chain, change: &Change) -> Result<String> {
    chain.node(NODE, change.make)?;
    let host = nodes::read_host(chain, NODE)?;
    match change.wanted {
        Some(wanted) => wanted(&host)?,
        None => ensure!(host.hca("rxe9").is_none(), "rxe9 is still listed"),
    }
    let told = agree(chain, &host)?;
    chain.node(NODE, change.undo)?;
    Ok(told)
}

fn statistics_agree(chain: &Chain) -> Result<Seen> {
    let ethtool = |netdev: &str| chain.node(NODE, &format!("ethtool -S {netdev}"));
    let mut output = String::new();
    for rail in 1..=plan::RAILS.len() {
        let netdev = format!("eth{rail}");
        let (before, host, after) = (ethtool(&netdev)?, nodes::read_host(chain, NODE)?, ethtool(&netdev)?);
        let ours = host.netdev(&netdev).and_then(|netdev| netdev.statistics.as_ref());
        let ours = ours.with_context(|| format!("{netdev} has no statistics: {:?}", host.unknown))?;
        let count = statistics::compare(ours, &before, &after).with_context(|| netdev.clone())?;
        let _ = writeln!(output, "{netdev}: {count} names, as {ours:?}");
    }
    passed(output, "each value between those that ethtool gave before and after")
}

/// Asks every tool and compares; gives what was compared.
fn agree(chain: &Chain, host: &Host) -> Result<String> {
    let links = tools::compare_rdma_link(host, &chain.node(NODE, "rdma -j link")?).context("rdma link")?;
    tools::compare_devinfo(host, &chain.node(NODE, "ibv_devinfo -v")?).context("ibv_devinfo -v")?;
    let netdevs = tools::compare_ip(host, &chain.node(NODE, "ip -j -d addr")?).context("ip addr")?;
    let gids =
        tools::compare_gid_files(host, &chain.node(NODE, tools::READ_GID_FILES)?).context("GID files")?;
    Ok(format!("{links} ports, {gids} GIDs, {netdevs} interfaces"))
}

/// The RoCE v2 GID of an address on rxe9, and whether it is of the node's own namespace.
fn entry(host: &Host, address: &str) -> Result<bool> {
    let address: std::net::IpAddr = address.parse()?;
    let gids =
        host.hca("rxe9").and_then(|hca| hca.ports.first()).map(|port| &port.gids).context("no rxe9")?;
    let entry = gids.iter().find(|gid| gid.address == Some(address));
    Ok(host.owns(entry.with_context(|| format!("rxe9 has no GID of {address}: {gids:?}"))?))
}

fn own_index(host: &Host, address: &str) -> Result<()> {
    ensure!(entry(host, address)?, "the GID of {address} is called another namespace's");
    Ok(())
}

fn foreign_index(host: &Host, address: &str) -> Result<()> {
    ensure!(!entry(host, address)?, "the GID of {address} is called this namespace's");
    Ok(())
}

fn netdev_and_state(host: &Host, netdev: &str, state: &str) -> Result<()> {
    let port = host.hca("rxe9").and_then(|hca| hca.ports.first()).context("no rxe9")?;
    let seen = (port.netdev.as_deref(), port.state.as_deref());
    ensure!(seen == (Some(netdev), Some(state)), "rxe9 has {seen:?}, wanted {netdev} and {state}");
    Ok(())
}
