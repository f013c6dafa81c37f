//! The command line: one variant a command, each with the arguments and the run function of its module.

use clap::{Parser, Subcommand, ValueEnum};

use crate::outcome::Outcome;

/// Turns a host's RoCE and InfiniBand HCAs into Kubernetes resources and proves that they work.
#[derive(Debug, Parser)]
#[command(name = "rocade", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked of rocade.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {}
    }

    /// The log level where RUST_LOG says nothing: services tell their rare changes, commands only what is odd.
    pub(crate) fn log_level(&self) -> &'static str {
        "warn"
    }
}

/// Form of a command's data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Aligned text for people.
    Table,
    /// One JSON document.
    Json,
}
