//! What the inventory takes on a live node, against the tools that it replaces, and how soon the kubelet knows of a link
//! that went down: the cluster's rows, with the product as it is released. Run by `make bench`; needs what the cluster
//! needs.

use std::process::ExitCode;

use anyhow::{Result, bail};
use rocade_lab::cache::Cache;
use rocade_lab::chain::{self, Chain, Seen};
use rocade_lab::cluster::{Cluster, Options};
use rocade_lab::steps::Steps;
use rocade_lab::{interrupt, product};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    interrupt::install()?;
    let cache = Cache::open(Steps::new())?;
    let rocade = product::build(cache.steps())?;
    let cluster = Cluster::start(&cache, &Options { rocade: Some(rocade.clone()), ..Options::default() })?;
    product::give(&cache, &cluster, &rocade)?;
    let chain = Chain::on(cluster);
    for row in chain::timing_rows().into_iter().chain(chain::link_rows()) {
        match (row.run)(&chain).map_err(|error| chain.cluster.with_logs(error))? {
            Seen::Passed { verdict, .. } => println!("{verdict}"),
            Seen::NotProven { reason } => bail!("{}: not proven: {reason}", row.name),
        }
    }
    chain.cluster.stop()
}
