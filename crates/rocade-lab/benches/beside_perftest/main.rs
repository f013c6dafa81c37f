//! rocade's bandwidth and latency tests beside perftest of Debian 13, on two soft-RoCE nodes that run nothing else: stock
//! at both ends and rocade at both ends in turn, with the same options. Prints for each measure the median of the paired
//! ratios and its interval; exit code 1 where a goal is missed, 2 where something could not be measured.
//! `ROCADE_BENCH_ROUNDS` pairs of each (12; of what differs most, 6); `ROCADE_ROWS=write-lat,start` those whose names hold one of the words.

mod cells;
mod ends;
mod table;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use rocade_lab::cache::Cache;
use rocade_lab::cluster::{Cluster, Options};
use rocade_lab::steps::Steps;
use rocade_lab::{interrupt, paired, product};

use cells::{Cell, Tool};
use ends::Ends;
use table::Row;

/// Processes of a session share what the kernel gives to it as a whole, and this is that share's nice value.
const SESSION: &str = "/proc/self/autogroup";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("beside_perftest: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let rounds = std::env::var("ROCADE_BENCH_ROUNDS").map_or(Ok(12), |text| text.parse());
    let rounds: usize = rounds.context("ROCADE_BENCH_ROUNDS must be a number")?;
    ensure!(rounds >= paired::LEAST, "ROCADE_BENCH_ROUNDS must be {} or more", paired::LEAST);
    let mut cells = cells::all();
    if let Ok(words) = std::env::var("ROCADE_ROWS") {
        cells.retain(|cell| words.split(',').any(|word| cell.name().contains(word)));
    }
    interrupt::install()?;
    let cache = Cache::open(Steps::new())?;
    let rocade = product::build(cache.steps())?;
    // The nodes' machines come before what else runs here; without autogroups there is nothing to set.
    let _ = fs::write(SESSION, "-15");
    let measured =
        measure(&cache, &Options { rocade: Some(rocade), without_kubernetes: true }, &cells, rounds);
    let _ = fs::write(SESSION, "0");
    Ok(table::print(&measured?))
}

fn measure(cache: &Cache, options: &Options, cells: &[Cell], rounds: usize) -> Result<Vec<Row>> {
    let cluster = Cluster::start(cache, options)?;
    let mut ends = Ends::open(&cluster)?;
    println!("rocade beside {}; {rounds} pairs of each; {}", ends.version()?, ends.machines()?);
    let mut rows: Vec<Vec<Row>> = cells.iter().map(Cell::rows).collect();
    for round in 0..rounds {
        cache.steps().note(&format!("round {} of {rounds}", round + 1));
        for (cell, rows) in cells.iter().zip(&mut rows).filter(|(cell, _)| round < cell.rounds(rounds)) {
            cluster.nice_cpus(cell.nice_of_cpus())?;
            let order =
                if round % 2 == 0 { [Tool::Stock, Tool::Rocade] } else { [Tool::Rocade, Tool::Stock] };
            for tool in order {
                let figures =
                    cell.measure(&mut ends, tool).with_context(|| format!("{}, {tool:?}", cell.name()));
                let figures = figures.map_err(|error| cluster.with_logs(error))?;
                rows.iter_mut().zip(figures).for_each(|(row, figure)| row.add(tool, figure));
            }
        }
    }
    cluster.stop()?;
    Ok(rows.into_iter().flatten().collect())
}
