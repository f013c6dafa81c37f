//! Rows of the environment of a job in the two Pods: what it names is what the Pod was granted, and UCX takes it.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::place::Place;
use super::pods::{NAMESPACE, PODS};
use super::{Chain, Row, Seen, both_streams, passed};
use crate::cluster::plan;

/// UCX's own list of what it would use.
const RESOURCES: &str = "ucx_info -p -u t";

pub(super) fn rows() -> Vec<Row<Chain>> {
    let inside = |what: &str| format!("kubectl exec -n {NAMESPACE} {} -- {what}  (and {})", PODS[0], PODS[1]);
    vec![
        Row {
            name: "inside: the environment names the granted HCA and this Pod's own address",
            typed: vec![inside("rocade env -o table"), inside("rocade env -o nccl")],
            run: named,
        },
        Row {
            name: "inside: UCX takes the device that the environment names, and no network of another",
            typed: vec![
                inside(&format!("rocade exec -- {RESOURCES}")),
                inside(&format!("env UCX_NET_DEVICES=rxe2:1 rocade exec -- {RESOURCES}")),
            ],
            run: taken_by_ucx,
        },
    ]
}

fn named(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        let pod = Place::Pod(name);
        let told: Value = serde_json::from_str(&pod.run(chain, "rocade env -q -o json")?)?;
        let network = plan::RAILS[0];
        let range = format!("{network}.0/24");
        for (variable, wanted) in [
            ("NCCL_IB_HCA", Some("=rxe1:1")),
            ("UCX_NET_DEVICES", Some("rxe1:1")),
            ("NCCL_IB_ADDR_FAMILY", Some("AF_INET")),
            ("NCCL_IB_ROCE_VERSION_NUM", Some("2")),
            ("NCCL_IB_ADDR_RANGE", Some(range.as_str())),
            ("NCCL_IB_GID_INDEX", None),
            ("NCCL_SOCKET_IFNAME", Some("=eth0")),
        ] {
            let seen = value(&told, variable)?;
            ensure!(seen.as_deref() == wanted, "{name}: {variable} is {seen:?}, wanted {wanted:?}");
        }
        let own = pod.rail_address(chain)?.to_string();
        ensure!(told["ports"][0]["address"] == own.as_str(), "{name}: {} instead of {own}", told["ports"]);
        let index = index_of(chain, pod, &own)?;
        let file = pod.run(chain, "rocade env -q -o nccl")?;
        ensure!(
            file.contains(&format!("NCCL_IB_GID_INDEX={index}\n")),
            "{name}: wanted index {index}:\n{file}"
        );
        output += &format!("{name}:\n{}{file}", pod.run(chain, "rocade env -o table")?);
    }
    passed(output, "rxe1 alone, the rail's network, sockets over eth0; an index in the Pod's own file only")
}

pub(super) fn value(told: &Value, name: &str) -> Result<Option<String>> {
    let variables = told["variables"].as_array().context("no variables")?;
    let found = variables.iter().find(|variable| variable["name"] == name);
    Ok(found.with_context(|| format!("{name} is not told"))?["value"].as_str().map(str::to_owned))
}

/// As the kernel's own files say it: the first RoCE v2 entry that holds the address.
fn index_of(chain: &Chain, pod: Place, address: &str) -> Result<String> {
    let octets: Vec<u8> = address.split('.').map(str::parse).collect::<Result<_, _>>()?;
    let [a, b, c, d] = octets[..] else { anyhow::bail!("{address} is not IPv4") };
    let gid = format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}");
    let line = format!(
        "cd /sys/class/infiniband/rxe1/ports/1 && for n in $(seq 0 255); do \
         grep -q {gid} gids/$n && grep -q v2 gid_attrs/types/$n && echo $n && break; done 2>/dev/null"
    );
    Ok(pod.run(chain, &line)?.trim().to_owned())
}

fn taken_by_ucx(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        let pod = Place::Pod(name);
        let said = pod.run(chain, &format!("rocade exec -- {RESOURCES}"))?;
        let devices = network_devices(&said);
        let only = !devices.is_empty() && devices.iter().all(|device| *device == "rxe1:1");
        ensure!(only, "{name}: UCX lists {devices:?}, wanted rxe1:1 alone\n{said}");
        let wrong =
            pod.command(chain, &format!("UCX_NET_DEVICES=rxe2:1 rocade exec -- {RESOURCES}"))?.output()?;
        let wrong = both_streams(&wrong);
        let devices = network_devices(&wrong);
        ensure!(
            devices.is_empty(),
            "{name}: with rxe2, which it was not granted, UCX lists {devices:?}\n{wrong}"
        );
        ensure!(wrong.contains("RDC652"), "{name}: nothing is said of rxe2\n{wrong}");
        output += &format!("{name}:\n{said}{wrong}");
    }
    passed(output, "rxe1:1 alone is UCX's network; with rxe2:1 it has none, which RDC652 says")
}

/// Devices of UCX's resources that lead to another host: `rc_verbs/rxe1:1`, `tcp/eth0`.
fn network_devices(said: &str) -> Vec<&str> {
    let words = said.split_whitespace().filter_map(|word| word.split_once('/'));
    let network = |transport: &str| ["rc", "ud", "dc", "tcp"].iter().any(|kind| transport.starts_with(kind));
    words.filter(|(transport, _)| network(transport)).map(|(_, device)| device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_networks_are_told_from_memory_and_this_process() {
        let said = "#\n#  resource 0  :  md 0  dev 0  flags -- self/memory\n#  resource 1  :  md 1  dev 1  flags -- \
                    tcp/eth0\n#  resource 4  :  md 4  dev 4  flags -- rc_verbs/rxe1:1\n";
        assert_eq!(network_devices(said), ["eth0", "rxe1:1"]);
    }
}
