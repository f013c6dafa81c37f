//! Where a command of the chain runs: on a node or in a Pod.

use std::process::Command;

use anyhow::Result;

use super::{Chain, pods, text_of_success};

/// A node or a Pod of the demo's namespace, by name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Node(&'static str),
    Pod(&'static str),
}

impl Place {
    /// A shell line there, as a command of this machine.
    pub(super) fn command(self, chain: &Chain, line: &str) -> Result<Command> {
        match self {
            Place::Node(node) => {
                let mut command = chain.cluster.node_command(node)?;
                command.arg(line);
                Ok(command)
            }
            Place::Pod(pod) => {
                let mut command = chain.cluster.kubectl_command();
                command.args(["exec", "-n", pods::NAMESPACE, pod, "--", "sh", "-c", line]);
                Ok(command)
            }
        }
    }

    /// stdout of the line; an error unless it exits 0.
    pub(super) fn run(self, chain: &Chain, line: &str) -> Result<String> {
        text_of_success(&format!("{}: {line}", self.name()), &self.command(chain, line)?.output()?)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Node(name) | Place::Pod(name) => name,
        }
    }
}
