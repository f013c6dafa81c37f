//! The other names that the binary answers to, as links made by `rocade install`: under one of them it takes that
//! tool's options and prints lines of that tool's form. Owns which names these are; each tool is a module of its own.

mod ibdev2netdev;
mod perftest;
mod show_gids;

use std::ffi::OsStr;
use std::path::Path;

use clap::Parser;
use rocade_core::pair::perf::Test;

use crate::outcome::Outcome;
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
            Link::IbvRcPingpong => pingpong::stock::Args::parse().run(),
            Link::Perftest(test) => perftest::run(test),
            Link::Ibdev2netdev => ibdev2netdev::run(&ibdev2netdev::Args::parse()),
            Link::ShowGids => show_gids::run(&show_gids::Args::parse()),
        }
    }
}
