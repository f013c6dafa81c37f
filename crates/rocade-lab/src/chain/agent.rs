//! The agent as rows meet it: another configuration, and what it tells of itself on a node.

use std::time::Duration;

use anyhow::{Context, Result};
use rocade_core::status::{GrantSeen, HcaSeen, ResourceSeen, Status};

use super::{Chain, wait_for};

/// For what the agent, the kubelet or a controller does by itself: only a hang reaches it.
pub(super) const SOON: Duration = Duration::from_secs(120);

/// Applies `deploy/NAME` and waits until its agents run on all nodes; gives what kubectl said.
pub(super) fn deploy(chain: &Chain, name: &str) -> Result<String> {
    let folder = chain.deployment.with_file_name(name);
    let output = chain.kubectl(&["apply", "-k", folder.to_str().context("a path in UTF-8")?])?;
    let rollout = ["-n", "kube-system", "rollout", "status", "daemonset/rocade-agent", "--timeout=180s"];
    Ok(output + &chain.kubectl(&rollout)?)
}

/// What the agent on a node tells, once `wanted` holds for it.
pub(super) fn wait_for_status(chain: &Chain, node: &str, wanted: impl Fn(&Status) -> bool) -> Result<Status> {
    wait_for(SOON, || {
        // With 1 it says that not all is served.
        let said = chain.node(node, "rocade status -o json || [ $? = 1 ]")?;
        let status: Status = serde_json::from_str(&said).with_context(|| said.clone())?;
        Ok(if wanted(&status) { Ok(status) } else { Err(said) })
    })
}

/// Waits until a metric of the agent on a node has a value. `sample` is its line without the value, or the start of it.
pub(super) fn wait_for_metric(chain: &Chain, node: &str, sample: &str, wanted: f64) -> Result<()> {
    wait_for(SOON, || {
        let metrics = read_metrics(chain, node)?;
        let seen = metrics.lines().find(|line| line.starts_with(sample));
        let value = seen.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(if value == Some(wanted) {
            Ok(())
        } else {
            Err(format!("{sample} {wanted} wanted, seen {seen:?} in\n{metrics}"))
        })
    })
}

/// All metrics of the agent on a node.
pub(super) fn read_metrics(chain: &Chain, node: &str) -> Result<String> {
    chain.node(node, "busybox wget -qO- http://127.0.0.1:9407/metrics")
}

/// All that the agent on a node has logged.
pub(super) fn read_log(chain: &Chain, node: &str) -> Result<String> {
    let only = format!("spec.nodeName={node}");
    let select = ["-l", "app.kubernetes.io/component=agent", "--field-selector", &only];
    let names = [&["-n", "kube-system", "get", "pods", "-o", "name"][..], &select].concat();
    let pod = chain.kubectl(&names)?;
    chain.kubectl(&["-n", "kube-system", "logs", pod.trim()])
}

/// The lists of a resource that the kubelet of a node took in since its log had `from` bytes: its time, and how many
/// devices it found Healthy in each. It tells so in manager.go, at level 2.
pub(super) fn lists_since(chain: &Chain, node: &str, from: usize, name: &str) -> Result<Vec<(String, u32)>> {
    let log = chain.cluster.kubelet_log(node)?;
    let name = format!("resourceName=\"{name}\"");
    let list = |line: &str| {
        let healthy = line.strip_suffix('\n')?.rsplit_once("healthyCount=")?.1.parse().ok()?;
        let time = line.split_whitespace().nth(1)?;
        line.contains(&name).then(|| (time.to_owned(), healthy))
    };
    Ok(log.get(from..).unwrap_or_default().split_inclusive('\n').filter_map(list).collect())
}

/// A resource of the configuration.
pub(super) fn resource<'s>(status: &'s Status, name: &str) -> Result<&'s ResourceSeen> {
    let mut all = status.resources.iter();
    all.find(|seen| seen.resource.to_string() == name).with_context(|| format!("no {name}: {status:?}"))
}

/// Whether a resource offers so many devices, as many of them Healthy, and the kubelet counts the Healthy ones.
pub(super) fn offers(status: &Status, name: &str, slots: u32, healthy: u32) -> bool {
    resource(status, name)
        .is_ok_and(|seen| (seen.slots, seen.healthy, seen.allocatable) == (slots, healthy, Some(healthy)))
}

/// What a Pod holds of a resource.
pub(super) fn grant<'s>(status: &'s Status, name: &str, pod: &str) -> Result<&'s GrantSeen> {
    let seen = resource(status, name)?;
    let held = seen.grants.iter().flatten().find(|grant| grant.pod == pod);
    held.with_context(|| format!("{pod} holds nothing of {name}: {:?}", seen.grants))
}

/// An HCA of the node.
pub(super) fn hca<'s>(status: &'s Status, name: &str) -> Result<&'s HcaSeen> {
    let mut all = status.hcas.iter();
    all.find(|seen| seen.hca.as_str() == name).with_context(|| format!("no {name}: {:?}", status.hcas))
}
