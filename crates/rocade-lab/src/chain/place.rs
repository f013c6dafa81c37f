//! Where a command of the chain runs: on a node or in a Pod.

use std::net::IpAddr;
use std::process::Command;

use anyhow::{Context, Result};

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

    /// Its own address on the first rail: the node's, or the Pod's on its macvlan child.
    pub(super) fn rail_address(self, chain: &Chain) -> Result<IpAddr> {
        let said = self.run(chain, "ip -o -4 addr show dev eth1 scope global")?;
        let address = said.split_whitespace().skip_while(|word| *word != "inet").nth(1);
        let address = address.and_then(|it| it.split('/').next()).context("no address on eth1")?;
        address.parse().with_context(|| format!("{} has {said}", self.name()))
    }

    /// The node that it is, or that it runs on.
    pub(super) fn node(self, chain: &Chain) -> Result<String> {
        match self {
            Place::Node(node) => Ok(node.to_owned()),
            Place::Pod(pod) => pods::node_of(chain, pod),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Node(name) | Place::Pod(name) => name,
        }
    }
}
