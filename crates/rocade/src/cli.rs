//! The command line: one variant a command, each with the arguments and the run function of its module.

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum};

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

impl Cli {
    /// The arguments of a command that says nothing, and so needs neither log nor terminal.
    pub(crate) fn probe(&self) -> Option<&verify::Args> {
        match &self.command {
            Command::Verify(Later(args)) if args.is_probe() => Some(args),
            _ => None,
        }
    }
}

/// What can be asked of rocade.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what RDMA this host has, and what keeps a port from being used
    Inventory(Later<inventory::Args>),
    /// Judge this host: what is wrong, what was seen, what to do
    Check(Later<check::Args>),
    /// Show what a configuration would offer of this host, and why each HCA is in or out
    Plan(Later<plan::Args>),
    /// Record this host into a file that every reading command takes with --from
    Snapshot(Later<snapshot::Args>),
    /// Look at configurations of the agent without running it
    #[command(subcommand)]
    Config(config::Command),
    /// Say PASS or FAIL inside a Pod: what was granted, opens, has an address and can lock memory
    Verify(Later<verify::Args>),
    /// Tell the variables by which NCCL, UCX, NVSHMEM, libfabric and Gloo use the HCAs that were granted here
    Env(Later<env::Args>),
    /// Set those variables and become a program
    Exec(Later<exec::Args>),
    /// Judge manifests before they are applied: Pods, jobs, network attachments, configurations of the agent
    Lint(Later<lint::Args>),
    /// Offer this node's HCAs to the kubelet, as a configuration says
    #[command(version, disable_version_flag = true)]
    Agent(Later<agent::Args>),
    /// Show what the agent of this node offers, who has it, and what is wrong
    Status(Later<status::Args>),
    /// Send messages there and back over RDMA; either end may be ibv_rc_pingpong
    Pingpong(Later<pingpong::Args>),
    /// Measure how much is written over RDMA; either end may be ib_write_bw
    WriteBw(Later<perf::Args>),
    /// Measure how long a write takes; either end may be ib_write_lat
    WriteLat(Later<perf::Args>),
    /// Measure how much is read over RDMA; either end may be ib_read_bw
    ReadBw(Later<perf::Args>),
    /// Measure how long a read takes; either end may be ib_read_lat
    ReadLat(Later<perf::Args>),
    /// Measure how much is sent over RDMA; either end may be ib_send_bw
    SendBw(Later<perf::Args>),
    /// Measure how long a message takes; either end may be ib_send_lat
    SendLat(Later<perf::Args>),
    /// Be the waiting end of any of these tests, for many clients
    Serve(Later<serve::Args>),
    /// Put rocade into a directory, with links by which it stands in for other tools
    Install(Later<install::Args>),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self, terminal: Terminal, log: Level) -> anyhow::Result<Outcome> {
        match self {
            Command::Inventory(Later(args)) => inventory::run(&args, terminal),
            Command::Check(Later(args)) => check::run(&args),
            Command::Plan(Later(args)) => plan::run(&args),
            Command::Snapshot(Later(args)) => snapshot::run(&args),
            Command::Config(command) => config::run(&command),
            Command::Verify(Later(args)) => verify::run(&args),
            Command::Env(Later(args)) => env::run(&args),
            Command::Exec(Later(args)) => Ok(exec::run(&args)),
            Command::Lint(Later(args)) => lint::run(&args),
            Command::Agent(Later(args)) => agent::run(&args, log),
            Command::Status(Later(args)) => status::run(&args, terminal),
            Command::Pingpong(Later(args)) => pingpong::run(&args),
            Command::WriteBw(Later(args)) => perf::run(&args, test(Operation::Write, Measure::Bandwidth)),
            Command::WriteLat(Later(args)) => perf::run(&args, test(Operation::Write, Measure::Latency)),
            Command::ReadBw(Later(args)) => perf::run(&args, test(Operation::Read, Measure::Bandwidth)),
            Command::ReadLat(Later(args)) => perf::run(&args, test(Operation::Read, Measure::Latency)),
            Command::SendBw(Later(args)) => perf::run(&args, test(Operation::Send, Measure::Bandwidth)),
            Command::SendLat(Later(args)) => perf::run(&args, test(Operation::Send, Measure::Latency)),
            Command::Serve(Later(args)) => serve::run(&args),
            Command::Install(Later(args)) => install::run(&args),
        }
    }

    /// Form of the log.
    pub(crate) fn log_format(&self) -> Format {
        match self {
            Command::Agent(Later(args)) => args.log_format(),
            _ => Format::Text,
        }
    }

    /// The log level where RUST_LOG says nothing: services tell their rare changes, commands only what is odd.
    pub(crate) fn log_level(&self) -> &'static str {
        match self {
            Command::Agent(_) => "info",
            _ => "warn",
        }
    }
}

/// Arguments of a command that are not made before it is the one that was asked for. All that all commands understand takes
/// longer to make than what a probe does, and would stay in memory with a command that stays.
#[derive(Debug)]
pub(crate) struct Later<T>(pub(crate) T);

impl<T: Args> Args for Later<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(with_args::<T>)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Later)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// A command says what it is for, and not what its arguments are.
fn with_args<T: Args>(command: clap::Command) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    T::augment_args(command).about(about).long_about(None)
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
