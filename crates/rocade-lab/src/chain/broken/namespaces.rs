//! What a container's borders do to a test: a device cgroup, and RDMA namespaces in exclusive mode.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::pingpong::run_pair;
use super::super::place::Place;
use super::super::pods::{NAMESPACE, pod};
use super::super::{Chain, Seen, both_streams, passed, wait_for};
use super::judge;
use crate::cluster::plan;

const POD: &str = "broken";

/// Before there is any other network namespace on the node, which the kernel wants for a change of the mode.
pub(super) fn exclusive(chain: &Chain) -> Result<Seen> {
    let node = plan::NODES[1];
    let line = "rdma system set netns exclusive && ip netns add alone && ip -n alone link set lo up; \
                ip netns exec alone rocade write-bw --timeout 20 127.0.0.1";
    let got = chain.cluster.node_sh(node, line)?;
    let undone = wait_for(Duration::from_secs(30), || {
        let undo = "ip netns del alone 2>/dev/null; rdma system set netns shared && rdma system";
        let said = both_streams(&chain.cluster.node_sh(node, undo)?);
        Ok(if said.contains("netns shared") { Ok(()) } else { Err(said) })
    });
    let said = both_streams(&got);
    undone?;
    ensure!(got.status.code() == Some(2), "exit code 2 wanted, {}\n{said}", got.status);
    judge("exclusive", &said, "(RDMA netns mode is exclusive)")?;
    let told = judge("exclusive", &said, "rdma dev set HCA netns PID")?;
    passed(told, "exit code 2, with the mode and how to hand an HCA over; shared again")
}

/// A Pod that was given the device files by their path instead of by the resource.
pub(super) fn device_cgroup(chain: &Chain) -> Result<Seen> {
    let mut by_path = placed(pod(POD, &json!({})));
    by_path["spec"]["hostNetwork"] = json!(true);
    by_path["spec"]["volumes"] = json!([{"name": "dev", "hostPath": {"path": "/dev/infiniband"}}]);
    by_path["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "dev", "mountPath": "/dev/infiniband"}]);
    with_pod(chain, by_path, || {
        let client = "rocade write-bw -d rxe1 --timeout 20 10.8.10.1";
        let (_, asked) = run_pair(
            chain,
            (Place::Node(plan::NODES[0]), "rocade write-bw -d rxe1 --timeout 20"),
            (Place::Pod(POD), client),
        )?;
        let said = both_streams(&asked);
        ensure!(asked.status.code() == Some(2), "exit code 2 wanted, {}\n{said}", asked.status);
        let told = judge("device cgroup", &said, "the container's device cgroup forbids to open it")?;
        passed(told, "exit code 2, and the device cgroup is named")
    })
}

/// On the client's node.
fn placed(mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": plan::NODES[1]});
    pod
}

fn with_pod(chain: &Chain, pod: Value, run: impl FnOnce() -> Result<Seen>) -> Result<Seen> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    chain.apply(&[namespace, pod])?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", POD];
    let seen = chain.kubectl(&wait).and_then(|_| run());
    let ended =
        chain.kubectl(&["-n", NAMESPACE, "delete", "pod", POD, "--grace-period=0", "--force", "--wait"]);
    let seen = seen?;
    ended.map(|_| seen)
}
