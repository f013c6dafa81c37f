//! Rows of what must not happen: a Pod without the resource, and one that asks for more than there is.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use super::place::Place;
use super::pods::{NAMESPACE, RESOURCE, pod};
use super::{Chain, Row, Seen, both_streams, passed, peers, wait_for};

/// After the rows of the guide, whose namespace and label they use.
pub fn limit_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "a Pod without the resource has no device node and cannot open one that it makes",
            typed: vec![
                "mknod /tmp/uverbs0 c 231 192; cat /tmp/uverbs0  (in a Pod without the resource)".into(),
            ],
            run: without_the_resource,
        },
        Row {
            name: "a Pod that asks for more than there is stays Pending, with the scheduler's reason",
            typed: vec![format!("kubectl apply -f -  (a Pod with {RESOURCE}: \"101\")")],
            run: more_than_there_is,
        },
        peers::row(),
    ]
}

fn without_the_resource(chain: &Chain) -> Result<Seen> {
    let name = "no-rdma";
    chain.apply(&[pod(name, &json!({}))])?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", name];
    chain.kubectl(&wait)?;
    let place = Place::Pod(name);
    let listed = place.run(chain, "ls -A /dev/infiniband 2>&1 || true")?;
    ensure!(listed.contains("No such file"), "wanted no /dev/infiniband, seen {listed}");
    place.run(chain, "mknod /tmp/uverbs0 c 231 192")?;
    let opened = place.command(chain, "cat /tmp/uverbs0")?.output()?;
    let said = both_streams(&opened);
    ensure!(!opened.status.success() && said.contains("Operation not permitted"), "opening it: {said}");
    passed(listed + &said, "no /dev/infiniband; the made node is there and opening it is not permitted")
}

fn more_than_there_is(chain: &Chain) -> Result<Seen> {
    let name = "too-many";
    chain.apply(&[pod(name, &json!({RESOURCE: "101"}))])?;
    let message = wait_for(Duration::from_secs(60), || {
        let pod = chain.kubectl_json(&["-n", NAMESPACE, "get", "pod", name])?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|it| it["type"] == "PodScheduled" && it["status"] == "False");
        Ok(scheduled
            .and_then(|it| it["message"].as_str().map(str::to_owned))
            .ok_or(pod["status"].to_string()))
    })?;
    ensure!(message.contains(&format!("Insufficient {RESOURCE}")), "the scheduler's reason: {message}");
    let phase = chain.kubectl(&["-n", NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}"])?;
    ensure!(phase == "Pending", "phase {phase}, wanted Pending");
    passed(message, "Pending, for want of the resource")
}
