//! Other plugins and other lists on the same node: a takeover from the k8s-rdma-shared-dev-plugin and back with Pods
//! running, and a list as long as anybody has asked for.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rocade_lab::native::pod_resources::Devices;
use rocade_lab::native::{NativeNode, Signal};

use crate::grants::Grants;
use crate::is_full;
use crate::rounds::{summary, times};

const MANY: &str = "rdma/many";
const MANY_SLOTS: usize = 64_000;

/// `ROCADE_NATIVE_MISHAPS` times the agent gives way to the plugin and that to the next agent, which in every other round
/// starts before the plugin ends. Both read the same config.json.
pub(crate) fn take_over(node: &mut NativeNode) -> Result<()> {
    let rounds = times("MISHAPS")?;
    let offered = node.wait_for_allocatable(is_full)?;
    let (mut grants, mut back, mut over) = (Grants::default(), Vec::new(), Vec::new());
    grants.admit(node, "takeover-first".to_owned())?;
    for round in 0..rounds {
        let in_round = || format!("takeover, round {round}");
        let begun = Instant::now();
        end(node)?;
        node.start_peer()?;
        admit(node, &mut grants, &offered, format!("by-plugin-{round}")).with_context(in_round)?;
        back.push(begun.elapsed());

        let begun = Instant::now();
        let before = node.sockets()?;
        if round % 2 == 0 {
            end(node)?;
            node.start_agent()?;
        } else {
            node.start_agent()?;
            node.wait_for_sockets(&before, offered.len())?;
            node.wait_for_ready()?;
            node.end_agent(Signal::Term)?;
        }
        node.wait_for_sockets(&before, offered.len())?;
        admit(node, &mut grants, &offered, format!("by-agent-{round}")).with_context(in_round)?;
        over.push(begun.elapsed());
        grants.thin(node)?;
    }
    grants.end(node)?;
    println!("  {rounds} times to the plugin: a new Pod running after {}", summary(&mut back));
    println!("  {rounds} times from the plugin: a new Pod running after {}", summary(&mut over));
    Ok(())
}

/// The kubelet takes a message of 4 MiB at most.
pub(crate) fn list_many(node: &mut NativeNode) -> Result<()> {
    let text = format!(
        r#"{{"configList": [{{"resourceName": "many", "rdmaHcaMax": {MANY_SLOTS}, "selectors": {{"ifNames": ["ens18np0"]}}}}]}}"#
    );
    let config = tempfile::NamedTempFile::new()?;
    std::fs::write(config.path(), text)?;
    end(node)?;
    node.start_agent_with(config.path())?;
    node.wait_for_allocatable(|devices| devices.get(MANY).is_some_and(|ids| ids.len() == MANY_SLOTS))?;
    node.run_probe("many", &[MANY])?;
    let held = node.granted("many")?;
    ensure!(held.get(MANY).is_some_and(|ids| ids.len() == 1), "the Pod holds {held:?}");
    node.remove_probe("many")?;
    node.end_agent(Signal::Term)?;
    node.start_agent()?;
    node.wait_for_allocatable(is_full).map(drop)
}

/// Ends what serves, and waits until the kubelet knows.
fn end(node: &mut NativeNode) -> Result<()> {
    node.end_agent(Signal::Term)?;
    node.wait_for_allocatable(|devices| !is_full(devices)).map(drop)
}

/// The same devices as before, a new Pod, and no Pod's grant another.
fn admit(node: &mut NativeNode, grants: &mut Grants, offered: &Devices, pod: String) -> Result<()> {
    let now = node.wait_for_allocatable(is_full)?;
    ensure!(now == *offered, "other devices than before");
    grants.admit(node, pod)?;
    grants.verify(node)?;
    node.require_agents()
}
