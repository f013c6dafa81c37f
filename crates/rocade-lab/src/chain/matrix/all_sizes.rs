//! The row of all sizes up to 8 MiB with as many messages under way as there are by default, of which the largest take far
//! longer than any timeout on soft-RoCE.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};
use rocade_core::pair::perf::Sizes;

use super::super::pingpong::{gid_index, run_pair};
use super::super::place::Place;
use super::super::{Chain, Row, Seen, both_streams, passed};
use crate::cluster::plan;

/// Of each size: of 8 MiB they are 839 MB.
const MESSAGES: u32 = 100;

pub(super) fn row() -> Row<Chain> {
    Row {
        name: "all sizes up to 8 MiB, 100 messages of each under way",
        typed: vec!["ib_write_bw -a -n 100 …  (other end: rocade write-bw -a -n 100 … ADDRESS)".into()],
        run,
    }
}

fn run(chain: &Chain) -> Result<Seen> {
    let [at, from] = plan::NODES.map(Place::Node);
    let (index, address) = (gid_index(chain, at)?.0, plan::rail_address(1, 1));
    let stock = format!("ib_write_bw -F -d rxe1 -x {index} -a -n {MESSAGES}");
    let rocade = format!("rocade write-bw -d rxe1 -a -n {MESSAGES}");
    let mut table = String::new();
    for (server, client) in [
        (stock.clone(), format!("{rocade} {address}")),
        (rocade.clone(), format!("{stock} {address}")),
        (rocade.clone(), format!("{rocade} {address}")),
    ] {
        let (served, asked) = run_pair(chain, (at, &server), (from, &client))?;
        for (line, output) in [(&server, &served), (&client, &asked)] {
            ensure!(output.status.success(), "`{line}`: {}\n{}", output.status, both_streams(output));
        }
        let rows = both_streams(&asked);
        let seen = Sizes::All.each().len();
        let found = rows.lines().filter(|row| row.split_whitespace().count() >= 5).count();
        ensure!(found >= seen, "{found} rows of {seen} sizes:\n{rows}");
        let largest = rows.lines().rev().find(|row| row.trim_start().starts_with('8'));
        let largest = largest.with_context(|| format!("no row of 8 MiB:\n{rows}"))?;
        writeln!(table, "{client}: {}", largest.trim())?;
    }
    passed(table, format!("3 pairs of ends, {} sizes each", Sizes::All.each().len()))
}
