//! Rows of what the agent may do on a node, as the kernel has it, and what it tells of itself there.

use anyhow::{Context, Result, ensure};
use rocade_core::status::Status;

use super::{Chain, Row, Seen, passed};
use crate::cluster::plan;

/// The agent's process on a node, in the shell of the node.
const PID: &str = "grep -lx rocade /proc/[0-9]*/comm | cut -d/ -f3";
/// The Pods of the agent.
const SELECTOR: &str = "app.kubernetes.io/component=agent";

pub(super) fn rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "the agent serves without a capability, on a root that it cannot write, and without a token",
            typed: vec![
                format!("grep ^Cap /proc/$({PID})/status  (on each node)"),
                format!("cat /proc/$({PID})/mounts"),
            ],
            run: without_privileges,
        },
        Row {
            name: "rocade status tells what is offered and that the kubelet counts the same",
            typed: vec!["kubectl -n kube-system exec POD -- rocade status -o json".into()],
            run: status,
        },
    ]
}

fn without_privileges(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for node in plan::NODES {
        let capabilities = chain.node(node, &format!("grep ^Cap /proc/$({PID})/status"))?;
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            let none = format!("{set}:\t0000000000000000");
            ensure!(capabilities.lines().any(|line| line == none), "{node}: wanted no {set}: {capabilities}");
        }
        let mounts = chain.node(node, &format!("cat /proc/$({PID})/mounts"))?;
        let options = |place: &str| {
            let of = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            of.rev()
                .find(|fields| fields.get(1) == Some(&place))
                .and_then(|fields| fields.get(3).map(|o| (*o).to_owned()))
        };
        for place in ["/", "/dev", "/var/lib/kubelet/pod-resources", "/k8s-rdma-shared-dev-plugin"] {
            let seen = options(place).with_context(|| format!("{node}: no {place} in {mounts}"))?;
            ensure!(seen.split(',').any(|option| option == "ro"), "{node}: {place} is {seen}");
        }
        ensure!(!mounts.contains("serviceaccount"), "{node}: the agent has a token: {mounts}");
        output += &format!("{node}:\n{capabilities}");
    }
    passed(output, "no capability in any set; /, /dev and pod-resources are read-only; no token")
}

fn status(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for pod in pods(chain)? {
        let exec = ["-n", "kube-system", "exec", &pod, "--", "rocade", "status"];
        output += &chain.kubectl(&exec)?;
        let document = chain.kubectl(&[&exec[..], &["-o", "json"]].concat())?;
        let status: Status = serde_json::from_str(&document).with_context(|| document.clone())?;
        ensure!(status.unserved().is_empty(), "{pod}: {:?}", status.unserved());
        for resource in &status.resources {
            ensure!(resource.allocatable == Some(100), "{pod}: {document}");
        }
    }
    passed(output, "each resource is watched, and the kubelet counts 100 as well")
}

fn pods(chain: &Chain) -> Result<Vec<String>> {
    let pods = chain.kubectl_json(&["-n", "kube-system", "get", "pods", "-l", SELECTOR])?;
    let items = pods["items"].as_array().context("a list of Pods")?;
    Ok(items.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect())
}
