//! `rocade inventory`: what RDMA a host has, as a table or as JSON.

mod table;

use rocade_core::{Host, Usable};

use crate::cli::Output;
use crate::outcome::{Outcome, print};
use crate::source::Source;

/// Arguments of `rocade inventory`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Reads, judges and prints. A host without RDMA is an answer, not a failure.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let host = args.source.read()?;
    for (hca, why) in unread_hcas(&host) {
        eprintln!("rocade: {hca} is listed, but cannot be read: {why}");
    }
    if host.hcas.is_empty() {
        eprintln!("rocade: no RDMA device: {}", why_none(&host));
    }
    match args.output {
        Output::Table if host.hcas.is_empty() => {}
        Output::Table => print(&table::render(&host))?,
        Output::Json => print(&format!("{}\n", serde_json::to_string_pretty(&host)?))?,
    }
    Ok(Outcome::Good)
}

/// HCAs that the kernel lists and that are gone, or of which a recording holds nothing.
fn unread_hcas(host: &Host) -> impl Iterator<Item = (&str, &str)> {
    let named =
        host.unknown.iter().filter_map(|(field, why)| Some((field.strip_prefix("hcas.")?, why.as_str())));
    named.filter(|(name, _)| !name.starts_with("ports."))
}

fn why_none(host: &Host) -> String {
    if let Some(why) = host.unknown.get("hcas") {
        return format!("/sys/class/infiniband cannot be listed ({why})");
    }
    if unread_hcas(host).next().is_some() {
        return "none that is listed can be read".into();
    }
    let reason = match host.rdma_core {
        Some(false) => "the kernel's RDMA core is not loaded (module ib_core)",
        Some(true) => {
            "the RDMA core is loaded, but no driver made a device here (no hardware, driver not bound, or devices \
             of another network namespace)"
        }
        None => "whether the kernel has an RDMA core could not be told",
    };
    reason.into()
}

/// `4 HCAs, 4 ports, 3 usable`.
fn render_counts(host: &Host) -> String {
    let ports = || host.hcas.iter().flat_map(|hca| &hca.ports);
    let usable = ports().filter(|port| port.usable != Usable::No).count();
    format!("{} HCAs, {} ports, {usable} usable", host.hcas.len(), ports().count())
}
