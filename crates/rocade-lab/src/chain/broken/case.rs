//! One test that is broken on purpose: what is changed for it and changed back, both ends' lines, and what must be said.

use std::process::Output;

use anyhow::{Result, ensure};

use super::{judge, quoted};
use crate::chain::pingpong::run_pair;
use crate::chain::place::Place;
use crate::chain::{Chain, Seen, both_streams, passed, text_of_success};
use crate::cluster::plan;

/// A server on the first node and a client on the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) what: &'static str,
    /// In this order, and undone in the opposite one.
    pub(super) changes: &'static [Change],
    pub(super) server: &'static str,
    pub(super) client: &'static str,
    pub(super) teller: Teller,
    /// What the teller says, in any order; of parts with a bar between them one.
    pub(super) wanted: &'static [&'static str],
    /// The teller's exit code. Nothing but 0 is without a hint.
    pub(super) code: i32,
}

/// A shell line that changes something, and the one that undoes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) at: At,
    pub(super) make: &'static str,
    pub(super) undo: &'static str,
}

/// Where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Server,
    Client,
    /// The bridges between the nodes.
    Lab,
}

/// The end whose words count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    Server,
    Client,
}

/// What a person would type.
pub(super) fn typed(cases: &[Case]) -> Vec<String> {
    cases.iter().map(|case| format!("{}  (server: {})", case.client, case.server)).collect()
}

/// Runs all of them; what was changed is undone whatever comes of it.
pub(super) fn run_all(chain: &Chain, cases: &[Case]) -> Result<Seen> {
    let (mut output, mut failed) = (String::new(), Vec::new());
    for case in cases {
        match case.run(chain) {
            Ok(told) => output += &told,
            Err(error) => failed.push(format!("{}: {error:#}", case.what)),
        }
    }
    ensure!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
    passed(output, format!("{} cases", cases.len()))
}

impl Case {
    fn run(&self, chain: &Chain) -> Result<String> {
        let [at, from] = plan::NODES.map(Place::Node);
        let lines = (format!("sh -c {}", quoted(self.server)), format!("sh -c {}", quoted(self.client)));
        let both = changed(chain, self.changes, || run_pair(chain, (at, &lines.0), (from, &lines.1)))?;
        self.judge(&both)
    }

    fn judge(&self, (served, asked): &(Output, Output)) -> Result<String> {
        let (teller, other) = match self.teller {
            Teller::Server => (served, asked),
            Teller::Client => (asked, served),
        };
        let said = both_streams(teller);
        ensure!(
            teller.status.code() == Some(self.code),
            "exit code {} wanted, {}\n{said}\nthe other end said\n{}",
            self.code,
            teller.status,
            both_streams(other)
        );
        if self.code == 0 {
            let missing = self.wanted.iter().find(|wanted| !said.contains(**wanted));
            ensure!(missing.is_none(), "{}: {missing:?} wanted, said\n{said}", self.what);
            return Ok(format!("{}: exit code 0\n", self.what));
        }
        let mut told = String::new();
        for wanted in self.wanted {
            told = judge(self.what, &said, wanted)?;
        }
        Ok(told)
    }
}

/// Makes the changes, runs, and undoes those that were made.
pub(super) fn changed<T>(chain: &Chain, changes: &[Change], run: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut made = 0;
    let making = changes.iter().try_for_each(|change| {
        made += 1;
        change.at.sh(chain, change.make)
    });
    let result = making.and_then(|()| run());
    let undone = changes[..made].iter().rev().map(|change| change.at.sh(chain, change.undo));
    let failed: Vec<String> = undone.filter_map(|result| Some(format!("{:#}", result.err()?))).collect();
    let result = result?;
    ensure!(failed.is_empty(), "not undone: {}", failed.join("; "));
    Ok(result)
}

impl At {
    fn sh(self, chain: &Chain, line: &str) -> Result<()> {
        match self {
            At::Server => chain.node(plan::NODES[0], line).map(drop),
            At::Client => chain.node(plan::NODES[1], line).map(drop),
            At::Lab => {
                let output = chain.cluster.command("sh").args(["-ec", line]).output()?;
                text_of_success(line, &output).map(drop)
            }
        }
    }
}
