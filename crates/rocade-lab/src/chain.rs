//! The chain from an HCA to two Pods that talk RDMA, as rows: what a person types, and what must come back. The demo
//! prints the rows, the tests assert them; neither has steps of its own. Owns what a row is; the rows are below.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::command;

mod agent;
mod agreement;
mod asked;
mod broken;
mod environment;
mod families;
mod limits;
mod link;
mod looped;
mod matrix;
mod nodes;
mod peers;
mod pingpong;
mod place;
mod pods;
mod privileges;
mod recorded;
mod recording;
mod resources;
mod serving;
mod stocknames;
mod survival;
mod timing;
mod verified;
mod watching;

pub use agreement::agreement_rows;
pub use asked::asked_rows;
pub use broken::{broken_rows, exclusive_rows};
pub use limits::limit_rows;
pub use link::link_rows;
pub use matrix::matrix_rows;
pub use pingpong::unproven_rows;
pub use recorded::recorded_rows;
pub use recording::recording_rows;
pub use serving::serving_rows;
pub use stocknames::stock_name_rows;
pub use survival::{reported_rows, survival_rows};
pub use timing::timing_rows;
pub use verified::verified_rows;
pub use watching::watching_rows;

/// One step over a bench of type `C`.
pub struct Row<C> {
    /// What it shows, in a few words.
    pub name: &'static str,
    /// What a person would type.
    pub typed: Vec<String>,
    /// Does it and judges it: an error is a failed row.
    pub run: fn(&C) -> Result<Seen>,
}

/// What came back of a row that did not fail.
#[derive(Debug)]
pub enum Seen {
    /// It holds.
    Passed {
        /// The output, as it came.
        output: String,
        /// What of it was held against what was wanted.
        verdict: String,
    },
    /// It cannot be shown on this bench.
    NotProven {
        /// Why not, and what was shown instead.
        reason: String,
    },
}

/// What rows without a cluster need.
#[derive(Debug)]
pub struct Binary {
    /// The product's program.
    pub rocade: PathBuf,
    /// fixtures/hosts.
    pub recorded_hosts: PathBuf,
}

/// What rows on a cluster need. Rows run in their order; each builds on those before.
#[derive(Debug)]
pub struct Chain {
    /// Two Ready nodes that have the product and its image.
    pub cluster: Cluster,
    /// Folder that `kubectl apply -k` takes: deploy/lab.
    pub deployment: PathBuf,
}

impl Binary {
    /// The program as it was built, and the recorded hosts of this checkout.
    pub fn of(rocade: &Path) -> Self {
        Self { rocade: rocade.to_path_buf(), recorded_hosts: checkout().join("fixtures/hosts") }
    }
}

impl Chain {
    /// On a running cluster, with the deployment of this checkout.
    pub fn on(cluster: Cluster) -> Self {
        Self { cluster, deployment: checkout().join("deploy/lab") }
    }

    /// kubectl's stdout; an error unless it exits 0.
    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        command::run_text(self.cluster.kubectl_command().args(arguments))
    }

    /// kubectl's `-o json`.
    fn kubectl_json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&text).context("kubectl printed no JSON")
    }

    /// `kubectl apply -f -` of objects.
    fn apply(&self, objects: &[Value]) -> Result<String> {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let mut apply = self.cluster.kubectl_command();
        let output = feed(apply.args(["apply", "-f", "-"]), &list.to_string())?;
        text_of_success("kubectl apply", &output)
    }

    /// stdout of a node's shell line; an error unless it exits 0.
    fn node(&self, node: &str, line: &str) -> Result<String> {
        text_of_success(&format!("on {node}: {line}"), &self.cluster.node_sh(node, line)?)
    }
}

/// All rows on a cluster, in the order of the common guide.
pub fn cluster_rows() -> Vec<Row<Chain>> {
    let parts = [
        nodes::rows(),
        vec![pingpong::host_to_host()],
        resources::rows(),
        privileges::rows(),
        pods::rows(),
        environment::rows(),
        looped::rows(),
        pingpong::rows(),
    ];
    parts.into_iter().flatten().collect()
}

/// Passed, with what came back and what of it was judged.
fn passed(output: impl Into<String>, verdict: impl Into<String>) -> Result<Seen> {
    Ok(Seen::Passed { output: output.into(), verdict: verdict.into() })
}

fn text_of_success(what: &str, output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("{what}: {}\n{}", output.status, both_streams(output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn both_streams(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
}

fn feed(command: &mut Command, text: &str) -> Result<Output> {
    use std::io::Write;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {}", command::shown(command)))?;
    child.stdin.take().context("no stdin")?.write_all(text.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// Asks again until `look` gives a value; its last word is in the error when `limit` has passed.
fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let begun = Instant::now();
    loop {
        match look()? {
            Ok(value) => return Ok(value),
            Err(seen) if begun.elapsed() > limit => bail!("after {} s: {seen}", limit.as_secs()),
            Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}

fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
