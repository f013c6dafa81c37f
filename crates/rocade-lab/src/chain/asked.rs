//! Rows of what is off by default: what the cluster sees of a node through the API server, and grants by CDI names. They
//! give the agent another configuration.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::agent::{self, SOON};
use super::place::Place;
use super::pods::{NAMESPACE, pod};
use super::{Chain, Row, Seen, passed, wait_for};
use crate::cluster::plan;

/// Keeps Pods away until the agent takes it off.
const TAINT: &str = "rdma.rocade.dev/not-ready";

/// After all rows that need the configuration of `deploy/lab`.
pub fn asked_rows() -> Vec<Row<Chain>> {
    let node = plan::NODES[0];
    vec![
        Row {
            name: "the start-up taint goes once all is offered, and labels tell the hardware",
            typed: vec![
                format!("kubectl taint node {node} {TAINT}=:NoSchedule"),
                "kubectl apply -k deploy/lab-asked".into(),
                format!("kubectl get node {node} -o yaml"),
            ],
            run: taint_and_labels,
        },
        Row {
            name: "a rail that goes down degrades the node: condition, event, and nothing of it to be had",
            typed: vec![
                "ip link set eth2 down  (on node1)".into(),
                format!("kubectl get node {node} -o yaml; kubectl get events.events.k8s.io"),
                "ip link set eth2 up".into(),
            ],
            run: degraded,
        },
        Row {
            name: "a container with two resources gets both HCAs by CDI names",
            typed: vec![
                "kubectl apply -f -  (a Pod with rdma/hca_eth1 and rdma/hca_eth2)".into(),
                format!("kubectl exec -n {NAMESPACE} both-rails -- ls /dev/infiniband"),
            ],
            run: both_rails,
        },
    ]
}

fn taint_and_labels(chain: &Chain) -> Result<Seen> {
    let node = plan::NODES[0];
    chain.kubectl(&["taint", "--overwrite", "node", node, &format!("{TAINT}=:NoSchedule")])?;
    let output = agent::deploy(chain, "lab-asked")?;
    let seen = wait_for(SOON, || {
        let seen = chain.kubectl_json(&["get", "node", node])?;
        let taints = seen["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let labels = &seen["metadata"]["labels"];
        let tainted = taints.iter().any(|taint| taint["key"] == TAINT);
        let done = !tainted && labels["rdma.rocade.dev/hcas"] == "2" && condition(&seen)["status"] == "False";
        Ok(if done {
            Ok(seen)
        } else {
            Err(format!("taints {taints:?}, labels {labels}, {}", condition(&seen)))
        })
    })?;
    let labels = &seen["metadata"]["labels"];
    for (key, wanted) in
        [("capable", "true"), ("vendors", "software"), ("link-layer", "ethernet"), ("netns-mode", "shared")]
    {
        ensure!(labels[format!("rdma.rocade.dev/{key}")] == wanted, "{key}: {labels}");
    }
    passed(format!("{output}{labels}"), "the taint is gone, RdmaDegraded is False, the labels are rocade's")
}

fn condition(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "RdmaDegraded"));
    found.cloned().unwrap_or(Value::Null)
}

fn degraded(chain: &Chain) -> Result<Seen> {
    let node = plan::NODES[0];
    let wait = |status: &'static str, allocatable: &'static str| {
        wait_for(SOON, || {
            let seen = chain.kubectl_json(&["get", "node", node])?;
            let (condition, count) = (condition(&seen), &seen["status"]["allocatable"]["rdma/hca_eth2"]);
            let done = condition["status"] == status && count == allocatable;
            Ok(if done { Ok(condition) } else { Err(format!("{condition}, allocatable {count}")) })
        })
    };
    chain.node(node, "ip link set eth2 down")?;
    let down = wait("True", "0");
    chain.node(node, "ip link set eth2 up")?;
    let down = down?;
    ensure!(down["message"].as_str().is_some_and(|why| why.contains("rxe2")), "{down}");
    let event = wait_for(SOON, || {
        let events = chain.kubectl_json(&["-n", "default", "get", "events.events.k8s.io"])?;
        let all = events["items"].as_array().cloned().unwrap_or_default();
        let found =
            all.iter().find(|event| event["reason"] == "RdmaHcaDown" && event["regarding"]["name"] == node);
        Ok(found.cloned().ok_or_else(|| events.to_string()))
    })?;
    wait("False", "100")?;
    passed(
        format!("{down}\n{}", event["note"]),
        "True with the HCA, an event, 0 to be had; False and 100 again",
    )
}

fn both_rails(chain: &Chain) -> Result<Seen> {
    let name = "both-rails";
    chain.apply(&[pod(name, &json!({"rdma/hca_eth1": "1", "rdma/hca_eth2": "1"}))])?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", name];
    chain.kubectl(&wait)?;
    let place = Place::Pod(name);
    let listed = place.run(chain, "ls /dev/infiniband")?;
    let names: Vec<_> = listed.split_whitespace().collect();
    ensure!(names == ["rdma_cm", "uverbs0", "uverbs1"], "seen {names:?}");
    let node = place.node(chain)?;
    let spec = chain.node(&node, "cat /var/run/cdi/rocade.dev-hca.json")?;
    ensure!(spec.contains("rocade.dev/hca"), "{node}: {spec}");
    let granted = place.run(chain, "env | grep ROCADE_GRANT | sort")?;
    ensure!(granted.lines().count() == 2, "{granted}");
    passed(
        format!("{spec}\n{listed}{granted}"),
        "uverbs of both rails and rdma_cm, by the names of the spec file",
    )
}
