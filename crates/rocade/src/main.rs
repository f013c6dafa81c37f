//! The binary's entry: parses the command line, starts the log, runs one command and turns its outcome into an
//! exit code. What a command does lives in the module named after it.

#![forbid(unsafe_code)]

mod agent;
mod check;
mod cli;
mod columns;
mod config;
mod install;
mod inventory;
mod links;
mod outcome;
mod pingpong;
mod snapshot;
mod source;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::cli::Cli;
use crate::links::Link;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    if let Some(link) = std::env::args_os().next().and_then(|program| Link::of_program(&program)) {
        start_log("warn", false);
        return outcome::report(link.run());
    }
    let cli = Cli::parse();
    start_log(cli.command.log_level(), cli.no_color);
    outcome::report(cli.command.run(Terminal::of_stdout(cli.no_color)))
}

/// Logs go to stderr, at RUST_LOG's levels where it is set and can be read.
fn start_log(default_level: &str, no_color: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let colour = std::io::stderr().is_terminal() && terminal::may_colour(no_color);
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}
