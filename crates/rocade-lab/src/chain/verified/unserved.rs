//! The row of a node whose agent is gone: what Pods hold stays good, and what new Pods come to.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::agent::SOON;
use super::super::pods::{NAMESPACE, RESOURCE, pod};
use super::super::{Chain, Row, Seen, passed, wait_for};
use super::kinds::{RANGE, TWO_RAILS, at, wait_allocatable};
use super::{Container, TEST, Told, Wanted};
use crate::cluster::plan;

const NODE: &str = plan::NODES[1];
/// Left to the scheduler.
const SCHEDULED: &str = "asks-scheduler";
/// Brought to the node past the scheduler.
const BOUND: &str = "asks-kubelet";
/// A label that no node has.
const NOWHERE: &str = "rocade.dev/nowhere";

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "verify: with the agent gone a grant stays good, a new Pod waits, and one with nodeName fails",
        typed: vec![
            "kubectl -n kube-system patch daemonset rocade-agent  (to nodes that there are not)".into(),
            format!("rocade verify  (in {TWO_RAILS}, which holds its grants)"),
            "kubectl apply -f -  (two Pods, one of them with nodeName)".into(),
        ],
        run: unserved,
    }]
}

fn unserved(chain: &Chain) -> Result<Seen> {
    let before = Container(TWO_RAILS, TEST).ask(chain, "")?;
    place_agents(chain, &json!("none"))?;
    let told = without_agent(chain, &before);
    let undone = place_agents(chain, &Value::Null);
    let told = told?;
    undone?;
    wait_allocatable(chain, NODE, "100")?;
    chain.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", SCHEDULED])?;
    let found = ["note RDC609", "note RDC613"];
    let wanted = Wanted { exit: 0, found: &found, devices: &["rxe1:1"], range: Some(RANGE) };
    let reason = Container(SCHEDULED, TEST).ask(chain, "")?.hold(&wanted)?;
    passed(told, format!("the grant holds; Pending, then {reason}; UnexpectedAdmissionError with nodeName"))
}

fn place_agents(chain: &Chain, label: &Value) -> Result<()> {
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": {NOWHERE: label}}}}}).to_string();
    chain.kubectl(&["-n", "kube-system", "patch", "daemonset", "rocade-agent", "-p", &patch]).map(drop)
}

fn without_agent(chain: &Chain, before: &Told) -> Result<String> {
    wait_allocatable(chain, NODE, "0")?;
    let now = Container(TWO_RAILS, TEST).ask(chain, "")?;
    ensure!(now.exit == 0 && now.verdict == before.verdict, "before {}\nnow {}", before.said, now.said);
    let scheduled = at(1, "rail1", pod(SCHEDULED, &json!({RESOURCE: "1"})));
    let mut bound = at(1, "rail1", pod(BOUND, &json!({RESOURCE: "1"})));
    bound["spec"]["nodeName"] = json!(NODE);
    chain.apply(&[scheduled, bound])?;
    let waits = wait_for(SOON, || {
        let status = status(chain, SCHEDULED)?;
        let told = status["conditions"][0]["message"].as_str().unwrap_or_default().to_owned();
        let waits = status["phase"] == "Pending" && told.contains(&format!("Insufficient {RESOURCE}"));
        Ok(if waits { Ok(told) } else { Err(status.to_string()) })
    })?;
    let failed = wait_for(SOON, || {
        let status = status(chain, BOUND)?;
        let failed = status["phase"] == "Failed" && status["reason"] == "UnexpectedAdmissionError";
        Ok(if failed { Ok(status["message"].to_string()) } else { Err(status.to_string()) })
    })?;
    Ok(format!("{waits}\n{failed}\n"))
}

fn status(chain: &Chain, name: &str) -> Result<Value> {
    Ok(chain.kubectl_json(&["-n", NAMESPACE, "get", "pod", name])?["status"].clone())
}
