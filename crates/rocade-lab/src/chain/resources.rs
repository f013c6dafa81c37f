//! Rows of the agent: applied, and its resources in the nodes' status.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Chain, Row, Seen, passed, text_of_success, wait_for};
use crate::cluster::plan;

/// The guide's own filter.
const FILTER: &str = r#"with_entries(select(.key|startswith("rdma/")))"#;

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "the agent runs on both nodes",
            typed: vec![
                "kubectl apply -k deploy/lab".into(),
                "kubectl -n kube-system rollout status daemonset/rocade-agent".into(),
                "kubectl -n kube-system get configmap rdma-devices -o yaml".into(),
            ],
            run: agent_runs,
        },
        Row {
            name: "capacity: 100 of each rail",
            typed: vec![typed("capacity")],
            run: |c| count(c, "capacity"),
        },
        Row {
            name: "allocatable: 100 of each rail",
            typed: vec![typed("allocatable")],
            run: |c| count(c, "allocatable"),
        },
    ]
}

fn typed(part: &str) -> String {
    format!("kubectl get node node1 -o json | jq '.status.{part} | {FILTER}'  (and node2)")
}

fn agent_runs(chain: &Chain) -> Result<Seen> {
    let folder = chain.deployment.to_str().context("the checkout's path is not UTF-8")?;
    let mut output = chain.kubectl(&["apply", "-k", folder])?;
    let rollout = ["-n", "kube-system", "rollout", "status", "daemonset/rocade-agent", "--timeout=120s"];
    output += &chain.kubectl(&rollout)?;
    let config = chain.kubectl_json(&["-n", "kube-system", "get", "configmap", "rdma-devices"])?;
    let config = config["data"]["config.json"].as_str().context("the ConfigMap has no key config.json")?;
    for rail in 1..=plan::RAILS.len() {
        ensure!(config.contains(&format!("hca_eth{rail}")), "config.json has no hca_eth{rail}: {config}");
    }
    passed(output + config, "2 of 2 Pods ready; configuration in kube-system/rdma-devices")
}

fn count(chain: &Chain, part: &str) -> Result<Seen> {
    let wanted = serde_json::json!({"rdma/hca_eth1": "100", "rdma/hca_eth2": "100"});
    let mut output = String::new();
    for node in plan::NODES {
        output += &wait_for(Duration::from_secs(60), || {
            let said = jq(chain, node, &format!(".status.{part} | {FILTER}"))?;
            let seen: serde_json::Value = serde_json::from_str(&said)?;
            Ok(if seen == wanted { Ok(format!("{node}: {said}")) } else { Err(format!("{node}: {said}")) })
        })?;
    }
    passed(output, r#""100" of rdma/hca_eth1 and rdma/hca_eth2 on both"#)
}

fn jq(chain: &Chain, node: &str, filter: &str) -> Result<String> {
    let mut kubectl = chain.cluster.kubectl_command();
    kubectl.args(["get", "node", node, "-o", "json"]);
    let json = crate::command::run_text(&mut kubectl)?;
    text_of_success("jq", &super::feed(std::process::Command::new("jq").arg(filter), &json)?)
}
