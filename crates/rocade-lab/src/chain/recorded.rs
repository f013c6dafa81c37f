//! Rows that need no cluster: what the binary says of recorded hosts.

use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{Binary, Row, Seen, passed};
use crate::command;

/// In the demo's order.
pub fn recorded_rows() -> Vec<Row<Binary>> {
    vec![
        Row {
            name: "a recorded host: four HCAs, one a bond",
            typed: vec!["rdma link; ibdev2netdev; show_gids".into(), typed("seed-4hca-bond")],
            run: four_hcas_and_a_bond,
        },
        Row {
            name: "a recorded host: InfiniBand and Ethernet, two ports down",
            typed: vec![
                "ibv_devinfo -v; cat /sys/class/infiniband/*/ports/*/state".into(),
                typed("ib-hdr-mixed"),
            ],
            run: infiniband_and_ethernet,
        },
    ]
}

fn typed(host: &str) -> String {
    format!("rocade inventory --from fixtures/hosts/{host}.host")
}

fn four_hcas_and_a_bond(bench: &Binary) -> Result<Seen> {
    let (table, host) = inventory(bench, "seed-4hca-bond")?;
    let ports: Vec<String> = ports(&host).map(|(hca, port)| render(hca, port)).collect();
    let wanted = [
        "mlx5_0 ens18np0 10.8.10.4=3",
        "mlx5_3 ens21np0 10.8.21.4=3",
        "mlx5_4 ens20np0 10.8.20.4=3",
        "mlx5_bond_0 bond0 10.20.0.10=3",
    ];
    ensure!(ports == wanted, "seen {ports:?}, wanted {wanted:?}");
    let bond = ports_of(&host, "mlx5_bond_0").next().map(|port| port["netlink_netdev"].clone());
    ensure!(bond == Some("ens67f0np0".into()), "RDMA netlink's name for the bond: seen {bond:?}");
    passed(table, "4 HCAs; the bond by its own name and netlink's; index 3 for each address")
}

fn infiniband_and_ethernet(bench: &Binary) -> Result<Seen> {
    let (table, host) = inventory(bench, "ib-hdr-mixed")?;
    let usable: Vec<_> = ports(&host)
        .filter(|(_, port)| port["usable"] == "yes")
        .map(|(hca, port)| format!("{} {}", hca["name"], port["transport"]).replace('"', ""))
        .collect();
    ensure!(usable == ["mlx5_0 infiniband", "mlx5_2 roce"], "usable: {usable:?}");
    for hca in ["mlx5_1", "mlx5_3"] {
        let reason = ports_of(&host, hca).next().map(|port| port["reason"].clone());
        ensure!(reason == Some("port DOWN".into()), "{hca}: {reason:?}");
    }
    passed(table, "one InfiniBand and one RoCE port usable, the other two with their reason")
}

/// The table that a person reads, and the same as JSON.
fn inventory(bench: &Binary, host: &str) -> Result<(String, Value)> {
    let ask = |more: &[&str]| {
        let file = bench.recorded_hosts.join(format!("{host}.host"));
        let mut inventory = Command::new(&bench.rocade);
        command::run_text(inventory.args(["inventory", "--from"]).arg(file).args(more))
    };
    Ok((ask(&[])?, serde_json::from_str(&ask(&["-o", "json"])?)?))
}

/// `HCA NETDEV ADDRESS=INDEX…` of the RoCE v2 GIDs that are not link-local.
fn render(hca: &Value, port: &Value) -> String {
    let gids = port["gids"].as_array().into_iter().flatten();
    let routable = gids.filter(|gid| gid["type"] == "RoCE v2" && !text(&gid["address"]).starts_with("fe80"));
    let gids: Vec<_> = routable.map(|gid| format!("{}={}", text(&gid["address"]), gid["index"])).collect();
    format!("{} {} {}", text(&hca["name"]), text(&port["netdev"]), gids.join(" "))
}

fn ports(host: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    let hcas = host["hcas"].as_array().into_iter().flatten();
    hcas.flat_map(|hca| hca["ports"].as_array().into_iter().flatten().map(move |port| (hca, port)))
}

fn ports_of<'a>(host: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    ports(host).filter(move |(hca, _)| hca["name"] == name).map(|(_, port)| port)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}
