//! The other names that the binary answers to, as links made by `rocade install`: under one of them it takes that
//! tool's options and prints lines of that tool's form. Owns which names these are; each tool is a module of its own.

mod ibdev2netdev;
pub(crate) mod number;
mod perftest;
mod show_gids;

use std::ffi::OsStr;
use std::path::Path;

use clap::Parser;
use clap::error::ErrorKind;
use rocade_core::pair::perf::Test;

use crate::outcome::{Outcome, report, tell};
use crate::pingpong;

/// A tool that the binary stands in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    IbvRcPingpong,
    Perftest(Test),
    Ibdev2netdev,
    ShowGids,
}

impl Link {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Link> {
        let others = [Link::IbvRcPingpong, Link::Ibdev2netdev, Link::ShowGids];
        Test::ALL.into_iter().map(Link::Perftest).chain(others)
    }

    /// The tool's file name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Link::IbvRcPingpong => "ibv_rc_pingpong",
            Link::Perftest(test) => test.stock_name(),
            Link::Ibdev2netdev => "ibdev2netdev",
            Link::ShowGids => "show_gids",
        }
    }

    /// The tool that a program was called as, by its first argument; None for rocade itself.
    pub(crate) fn of_program(program: &OsStr) -> Option<Link> {
        let name = Path::new(program).file_name()?;
        Link::all().find(|link| name == link.name())
    }

    /// Reads the command line as the tool's and does what it asks for.
    pub(crate) fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Link::IbvRcPingpong => Ok(pingpong::stock::run()),
            Link::Perftest(test) => perftest::run(test),
            Link::Ibdev2netdev => ibdev2netdev::run(&ibdev2netdev::Args::parse()),
            Link::ShowGids => show_gids::run(&show_gids::Args::parse()),
        }
    }
}

/// How a tool's command line ended that asks for help, or is wrong: with 1 where the tools themselves do. `tool` is
/// whose options they are.
pub(crate) fn unread(error: &clap::Error, tool: &str) -> Outcome {
    let _ = error.print();
    if error.kind() == ErrorKind::UnknownArgument {
        tell(&format!(
            "hint: rocade has the options of {tool}; where it lacks one take the tool itself: either can be the other end"
        ));
    }
    if error.use_stderr() { Outcome::Failed } else { Outcome::Good }
}

/// How a tool's run ended: whatever fails ends with 1, as with the tools themselves.
pub(crate) fn ended(result: anyhow::Result<Outcome>) -> Outcome {
    match report(result) {
        Outcome::CouldNotLook => Outcome::Failed,
        outcome => outcome,
    }
}
