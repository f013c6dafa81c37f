//! What is saved of a cluster when something failed: each process's log, and what nodes and API server still answer.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Cluster, plan};

/// A node or API server that hangs must not hold up the rest.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Copies and asks; what cannot be had is said in the file that it would have filled.
pub(super) fn collect(cluster: &Cluster, place: &Path) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("make {}", place.display()))?;
    for log in fs::read_dir(cluster.holder.folder().join("logs"))?.flatten() {
        fs::copy(log.path(), place.join(log.file_name()))?;
    }
    let in_nodes = [("dmesg", "dmesg"), ("rdma-link", "rdma link; rdma dev; ibv_devices; ip -s addr; ps")];
    for (at, node) in plan::NODES.iter().enumerate() {
        for (name, script) in in_nodes {
            let mut command = super::ssh::command(&cluster.holder, at + 1);
            save(command.arg(script), &place.join(format!("{node}-{name}.log")));
        }
    }
    let asked: [(&str, &[&str]); 3] = [
        ("nodes", &["describe", "nodes"]),
        ("pods", &["describe", "pods", "--all-namespaces"]),
        ("events", &["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"]),
    ];
    for (name, arguments) in asked {
        save(cluster.kubectl_command().args(arguments), &place.join(format!("kubectl-{name}.log")));
    }
    let pods = cluster.kubectl(&["get", "pods", "-n", "kube-system", "-o", "name"])?;
    for pod in String::from_utf8_lossy(&pods.stdout).lines() {
        let mut command = cluster.kubectl_command();
        command.args(["logs", "-n", "kube-system", "--all-containers", pod]);
        save(&mut command, &place.join(format!("{}.log", pod.replace('/', "-"))));
    }
    Ok(())
}

fn save(command: &mut Command, place: &Path) {
    if let Err(error) = try_save(command, place) {
        let _ = fs::write(place, format!("rocade-lab could not get this: {error:#}\n"));
    }
}

fn try_save(command: &mut Command, place: &Path) -> Result<()> {
    let file = fs::File::create(place)?;
    let mut child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > ANSWER_LIMIT {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("no answer within {} s", ANSWER_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
