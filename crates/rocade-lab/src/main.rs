//! The bench's own commands. Data on stdout, steps and errors on stderr; exit code 2 when the lab itself failed.
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

use rocade_lab::cache::Cache;
use rocade_lab::cluster::{Cluster, Options};
use rocade_lab::steps::{Steps, tell};
use rocade_lab::{demo, holder, interrupt, launch, preflight, product, record};

#[derive(Parser)]
#[command(about = "rocade's bench: two soft-RoCE nodes with a real Kubernetes (development only)")]
struct Arguments {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Subcommand)]
enum Lab {
    /// Build what lacks, start the cluster and leave it running
    Up {
        /// A rocade program to use instead of building it
        #[arg(long)]
        rocade: Option<PathBuf>,
    },
    /// End the cluster and everything that belongs to it
    Down,
    /// Nodes, Pods and processes of the running cluster
    Status,
    /// A shell in a node, or one command
    Sh {
        /// node1 or node2
        node: String,
        /// Passed to the node's shell; none opens an interactive one
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Make a recorded host of a described one: sys, proc and dev as plain files and fixture-* beside them
    Record {
        /// Directory that holds them
        tree: PathBuf,
        /// File to write
        file: PathBuf,
    },
    /// Show the chain step by step, from recorded hosts to Pods that talk RDMA
    Demo {
        /// Leave the cluster running
        #[arg(long)]
        keep: bool,
    },
    /// Become another program
    #[command(hide = true)]
    Launch {
        /// Have sockets of RDMA netlink fail, as on a kernel from before it
        #[arg(long)]
        hide_rdma_netlink: bool,
        /// Where to write when that was, in nanoseconds since 1970
        #[arg(long)]
        stamp: Option<PathBuf>,
        /// Passed as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        program: Vec<String>,
    },
    /// kubectl on the running cluster
    #[command(disable_help_flag = true)]
    Kubectl {
        /// Passed as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            tell(&format!("rocade-lab: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// False when the demo had a row that failed.
fn run(command: Lab) -> Result<bool> {
    if let Lab::Launch { hide_rdma_netlink, stamp, program } = command {
        if hide_rdma_netlink {
            launch::hide_rdma_netlink()?;
        }
        let launched = launch::launch(Command::new(&program[0]).args(&program[1..]), stamp.as_deref());
        return launched.map(|()| true);
    }
    interrupt::install()?;
    let cache = Cache::open(Steps::new())?;
    match command {
        Lab::Launch { .. } => Ok(()),
        Lab::Demo { keep } => return demo::run_demo(&cache, keep),
        Lab::Up { rocade } => up(&cache, rocade),
        Lab::Down => down(&cache),
        Lab::Record { tree, file } => record::record_tree(&tree, &file),
        Lab::Status => status(&running(&cache)?),
        Lab::Sh { node, command } => sh(&running(&cache)?, &node, &command),
        Lab::Kubectl { arguments } => replace(running(&cache)?.kubectl_command().args(arguments)),
    }
    .map(|()| true)
}

fn up(cache: &Cache, rocade: Option<PathBuf>) -> Result<()> {
    if Cluster::attach(cache).is_some() {
        bail!("a lab is up already: use it, or end it with `rocade-lab down`");
    }
    preflight::require(cache)?;
    let rocade = rocade.map_or_else(|| product::build(cache.steps()), Ok)?;
    let cluster = Cluster::start(cache, &Options { rocade: Some(rocade.clone()), ..Options::default() })?;
    product::give(cache, &cluster, &rocade)?;
    cluster.detach()?;
    cache.steps().note("the lab is up: rocade-lab status, sh NODE, kubectl …; rocade-lab down ends it");
    Ok(())
}

fn down(cache: &Cache) -> Result<()> {
    if let Some(cluster) = Cluster::attach(cache) {
        cache.steps().run("taking the lab down", || cluster.stop())?;
    } else {
        cache.steps().note("no lab is up");
    }
    // What labs that were killed left behind: files only, their processes ended with them.
    holder::sweep(cache)
}

fn status(cluster: &Cluster) -> Result<()> {
    for arguments in [vec!["get", "nodes", "-o", "wide"], vec!["get", "pods", "-A", "-o", "wide"]] {
        cluster.kubectl_command().args(arguments).status()?;
    }
    print!("{}", cluster.processes()?);
    Ok(())
}

fn sh(cluster: &Cluster, node: &str, command: &[String]) -> Result<()> {
    let mut ssh = cluster.node_command(node)?;
    if !command.is_empty() {
        ssh.arg(command.join(" "));
    }
    replace(&mut ssh)
}

fn running(cache: &Cache) -> Result<Cluster> {
    Cluster::attach(cache).context("no lab is up: start it with `rocade-lab up`")
}

/// Becomes `command`, so that its streams, signals and exit code are this program's.
fn replace(command: &mut Command) -> Result<()> {
    Err(command.exec()).context("start nsenter (util-linux)")
}
