//! The binary's entry: parses the command line, starts the log, runs one command and turns its outcome into an
//! exit code. What a command does lives in the module named after it.

#![forbid(unsafe_code)]

mod agent;
mod check;
mod cli;
mod columns;
mod config;
mod env;
mod evidence;
mod exec;
mod install;
mod inventory;
mod links;
mod lint;
mod log;
mod outcome;
mod perf;
mod pingpong;
mod plan;
mod serve;
mod snapshot;
mod source;
mod status;
mod tcp;
mod terminal;
mod verify;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::links::Link;
use crate::log::Format;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    if let Some(link) = std::env::args_os().next().and_then(|program| Link::of_program(&program)) {
        log::start("warn", Format::Text, false);
        return outcome::report(link.run()).into();
    }
    let cli = Cli::parse_from(agent::with_two_dashes(std::env::args_os()));
    if let Some(args) = cli.probe() {
        return outcome::report(verify::probe(args)).into();
    }
    let log = log::start(cli.command.log_level(), cli.command.log_format(), cli.no_color);
    outcome::report(cli.command.run(Terminal::of_stdout(cli.no_color), log)).into()
}
