//! Rows on the nodes themselves, before any part of Kubernetes that is rocade's.

use std::time::Duration;

use anyhow::{Result, ensure};
use rocade_core::Host;

use super::{Chain, Row, Seen, passed};
use crate::cluster::plan;

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "both nodes are Ready",
            typed: vec!["kubectl get nodes -o wide".into()],
            run: nodes_ready,
        },
        Row {
            name: "RDMA namespaces are shared, as macvlan needs",
            typed: vec!["rdma system  (on each node)".into()],
            run: namespaces_shared,
        },
        Row {
            name: "each node lists its two rails",
            typed: vec!["rdma link; show_gids  (on each node)".into(), "rocade inventory".into()],
            run: inventory_of_nodes,
        },
    ]
}

fn nodes_ready(chain: &Chain) -> Result<Seen> {
    chain.cluster.wait_nodes_ready(Duration::from_secs(120))?;
    passed(chain.kubectl(&["get", "nodes", "-o", "wide"])?, "2 of 2 Ready")
}

fn namespaces_shared(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for node in plan::NODES {
        let said = chain.node(node, "rdma system")?;
        ensure!(said.starts_with("netns shared"), "{node}: seen {said}, wanted netns shared");
        output += &format!("{node}: {said}");
    }
    passed(output, "shared on both")
}

fn inventory_of_nodes(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for (at, node) in plan::NODES.iter().enumerate() {
        let host = read_host(chain, node)?;
        let names: Vec<_> = host.hcas.iter().map(|hca| hca.name.as_str()).collect();
        ensure!(names == ["rxe1", "rxe2"], "{node} has {names:?}, wanted rxe1 and rxe2");
        for rail in 1..=plan::RAILS.len() {
            let (name, address) = (format!("rxe{rail}"), plan::rail_address(at + 1, rail));
            index_in_kernel_files(chain, node, &name, &host, &address)?;
        }
        output += &format!("{node}:\n{}", chain.node(node, "rocade inventory")?);
    }
    passed(output, "rxe1 and rxe2 on both; each address at the GID index of the kernel's own files")
}

/// The whole of what rocade says of a node.
pub(super) fn read_host(chain: &Chain, node: &str) -> Result<Host> {
    Ok(serde_json::from_str(&chain.node(node, "rocade inventory -o json")?)?)
}

/// Holds the index that the inventory gives for an address against the kernel's files.
fn index_in_kernel_files(chain: &Chain, node: &str, name: &str, host: &Host, address: &str) -> Result<()> {
    let gids = host.hca(name).and_then(|hca| hca.ports.first()).map(|port| &port.gids);
    let wanted: std::net::IpAddr = address.parse()?;
    let entry = gids.into_iter().flatten().find(|gid| gid.address == Some(wanted));
    let Some(entry) = entry else { anyhow::bail!("{node}: {name} has no GID of {address}") };
    let port = format!("/sys/class/infiniband/{name}/ports/1");
    let line =
        format!("cat {port}/gids/{0} {port}/gid_attrs/types/{0} {port}/gid_attrs/ndevs/{0}", entry.index);
    let seen = chain.node(node, &line)?;
    let told = format!("{}\nRoCE v2\n{}\n", entry.gid, entry.netdev.as_deref().unwrap_or("none"));
    ensure!(seen == told, "{node}: {name} index {}: rocade says {told}, the kernel says {seen}", entry.index);
    Ok(())
}
