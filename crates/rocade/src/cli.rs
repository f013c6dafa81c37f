//! The command line: one variant a command, each with the arguments and the run function of its module.

use std::ffi::OsString;

use clap::{Parser, Subcommand, ValueEnum};

use rocade_core::pair::perf::{Measure, Operation, Test};

use crate::log::{Format, Level};
use crate::outcome::Outcome;
use crate::terminal::Terminal;
use crate::{
    agent, check, config, env, exec, install, inventory, lint, perf, pingpong, plan, serve, snapshot, status,
    verify,
};

/// Turns a host's RoCE and InfiniBand HCAs into Kubernetes resources and proves that they work.
#[derive(Debug, Parser)]
#[command(name = "rocade", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// No colours, as with the variable NO_COLOR; they never say what words do not
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

/// The command line of commands that are read without the others: what is made of what all of them understand would stay in
/// memory with a command that stays, and takes longer than all that a probe does.
#[derive(Debug, Parser)]
#[command(name = "rocade", version)]
struct PartCli<C: Subcommand> {
    #[command(subcommand)]
    command: C,
    /// No colours, as with the variable NO_COLOR; they never say what words do not
    #[arg(long, global = true)]
    no_color: bool,
}

/// Commands that probes run, again and again.
#[derive(Debug, Subcommand)]
pub(crate) enum Probing {
    /// Say PASS or FAIL inside a Pod: what was granted, opens, has an address and can lock memory
    Verify(verify::Args),
}

/// Commands that stay.
#[derive(Debug, Subcommand)]
pub(crate) enum Resident {
    /// Offer this node's HCAs to the kubelet, as a configuration says
    #[command(version, disable_version_flag = true)]
    Agent(agent::Args),
}

impl Cli {
    /// Reads a command line; ends the process, as clap does, with help, version or an error.
    pub(crate) fn read(args: Vec<OsString>) -> Cli {
        let first = args.get(1).and_then(|name| name.to_str()).unwrap_or_default();
        if Resident::has_subcommand(first) {
            PartCli::parse_from(args).whole(Command::Resident)
        } else if Probing::has_subcommand(first) {
            PartCli::parse_from(args).whole(Command::Probing)
        } else {
            Cli::parse_from(args)
        }
    }

    /// The arguments of a command that says nothing, and so needs neither log nor terminal.
    pub(crate) fn probe(&self) -> Option<&verify::Args> {
        match &self.command {
            Command::Probing(Probing::Verify(args)) if args.is_probe() => Some(args),
            _ => None,
        }
    }
}

impl<C: Subcommand> PartCli<C> {
    fn whole(self, command: fn(C) -> Command) -> Cli {
        Cli { command: command(self.command), no_color: self.no_color }
    }
}

/// What can be asked of rocade.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what RDMA this host has, and what keeps a port from being used
    Inventory(inventory::Args),
    /// Judge this host: what is wrong, what was seen, what to do
    Check(check::Args),
    /// Show what a configuration would offer of this host, and why each HCA is in or out
    Plan(plan::Args),
    /// Record this host into a file that every reading command takes with --from
    Snapshot(snapshot::Args),
    /// Look at configurations of the agent without running it
    #[command(subcommand)]
    Config(config::Command),
    #[command(flatten)]
    Probing(Probing),
    /// Tell the variables by which NCCL, UCX, NVSHMEM, libfabric and Gloo use the HCAs that were granted here
    Env(env::Args),
    /// Set those variables and become a program
    Exec(exec::Args),
    /// Judge manifests before they are applied: Pods, jobs, network attachments, configurations of the agent
    Lint(lint::Args),
    #[command(flatten)]
    Resident(Resident),
    /// Show what the agent of this node offers, who has it, and what is wrong
    Status(status::Args),
    /// Send messages there and back over RDMA; either end may be ibv_rc_pingpong
    Pingpong(pingpong::Args),
    /// Measure how much is written over RDMA; either end may be ib_write_bw
    WriteBw(perf::Args),
    /// Measure how long a write takes; either end may be ib_write_lat
    WriteLat(perf::Args),
    /// Measure how much is read over RDMA; either end may be ib_read_bw
    ReadBw(perf::Args),
    /// Measure how long a read takes; either end may be ib_read_lat
    ReadLat(perf::Args),
    /// Measure how much is sent over RDMA; either end may be ib_send_bw
    SendBw(perf::Args),
    /// Measure how long a message takes; either end may be ib_send_lat
    SendLat(perf::Args),
    /// Be the waiting end of any of these tests, for many clients
    Serve(serve::Args),
    /// Put rocade into a directory, with links by which it stands in for other tools
    Install(install::Args),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self, terminal: Terminal, log: Level) -> anyhow::Result<Outcome> {
        match self {
            Command::Inventory(args) => inventory::run(&args, terminal),
            Command::Check(args) => check::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Snapshot(args) => snapshot::run(&args),
            Command::Config(command) => config::run(&command),
            Command::Probing(Probing::Verify(args)) => verify::run(&args),
            Command::Env(args) => env::run(&args),
            Command::Exec(args) => Ok(exec::run(&args)),
            Command::Lint(args) => lint::run(&args),
            Command::Resident(Resident::Agent(args)) => agent::run(&args, log),
            Command::Status(args) => status::run(&args, terminal),
            Command::Pingpong(args) => pingpong::run(&args),
            Command::WriteBw(args) => perf::run(&args, test(Operation::Write, Measure::Bandwidth)),
            Command::WriteLat(args) => perf::run(&args, test(Operation::Write, Measure::Latency)),
            Command::ReadBw(args) => perf::run(&args, test(Operation::Read, Measure::Bandwidth)),
            Command::ReadLat(args) => perf::run(&args, test(Operation::Read, Measure::Latency)),
            Command::SendBw(args) => perf::run(&args, test(Operation::Send, Measure::Bandwidth)),
            Command::SendLat(args) => perf::run(&args, test(Operation::Send, Measure::Latency)),
            Command::Serve(args) => serve::run(&args),
            Command::Install(args) => install::run(&args),
        }
    }

    /// Form of the log.
    pub(crate) fn log_format(&self) -> Format {
        match self {
            Command::Resident(Resident::Agent(args)) => args.log_format(),
            _ => Format::Text,
        }
    }

    /// The log level where RUST_LOG says nothing: services tell their rare changes, commands only what is odd.
    pub(crate) fn log_level(&self) -> &'static str {
        match self {
            Command::Resident(Resident::Agent(_)) => "info",
            _ => "warn",
        }
    }
}

const fn test(operation: Operation, measure: Measure) -> Test {
    Test { operation, measure }
}

/// Form of a command's data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned text for people.
    Table,
    /// One JSON document.
    Json,
}
