//! The binary's entry: parses the command line, starts the log, runs one command and turns its outcome into an
//! exit code. What a command does lives in the module named after it.

#![forbid(unsafe_code)]

mod agent;
mod cli;
mod columns;
mod inventory;
mod outcome;
mod pingpong;
mod snapshot;
mod source;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.command.log_level());
    outcome::report(cli.command.run())
}

/// Logs go to stderr, at RUST_LOG's levels where it is set and can be read.
fn start_log(default_level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let colour =
        std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}
