//! Rows of HCAs that write to themselves in the two Pods: the bytes arrive, and the kernel's own counters say that it was
//! the HCA.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::place::Place;
use super::pods::{NAMESPACE, PODS};
use super::{Chain, Row, Seen, passed};
use crate::cluster::plan;

/// Four messages of 64 KiB.
const BYTES: u64 = 256 << 10;
/// The largest path MTU there is.
const MTU: u64 = 4096;

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "inside: what the granted HCA writes to itself arrives, and its port counts the packets",
        typed: vec![format!(
            "kubectl exec -n {NAMESPACE} {} -- rocade verify --traffic  (and {})",
            PODS[0], PODS[1]
        )],
        run: writes_to_itself,
    }]
}

fn writes_to_itself(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        let pod = Place::Pod(name);
        let node = pod.node(chain)?;
        let before = sent_packets(chain, &node)?;
        let told = pod.run(chain, "rocade verify --traffic --register 64MiB -o json")?;
        let sent = sent_packets(chain, &node)? - before;
        let told: Value = serde_json::from_str(&told)?;
        ensure!(
            told["pass"] == true && told["hcas"].as_array().is_some_and(|hcas| hcas.len() == 1),
            "{told}"
        );
        let traffic = &told["hcas"][0]["ports"][0]["traffic"];
        ensure!(traffic["shown"] == "proven" && traffic["bytes"] == BYTES, "{name}: {told}");
        ensure!(sent >= BYTES / MTU, "{name}: {node} counted {sent} packets, wanted {}", BYTES / MTU);
        output += &format!("{name}:\n{}", pod.run(chain, "rocade verify --traffic")?);
    }
    for node in plan::NODES {
        let told: Value =
            serde_json::from_str(&chain.node(node, "rocade verify --traffic -o json || true")?)?;
        for own in told["hcas"].as_array().context("no HCAs")? {
            let traffic = &own["ports"][0]["traffic"];
            let counted = traffic["counted"]["sent_pkts"].as_u64();
            let enough = counted.is_some_and(|counted| counted >= BYTES / MTU);
            ensure!(traffic["shown"] == "proven" && enough, "{node}: {own}");
        }
    }
    passed(output, "PASS, proven; the nodes count as many packets as the bytes fill")
}

/// By the kernel's counter, which a Pod's own view of /sys has not.
fn sent_packets(chain: &Chain, node: &str) -> Result<u64> {
    let file = "/sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts";
    chain.node(node, &format!("cat {file}"))?.trim().parse().context("sent_pkts is a number")
}
