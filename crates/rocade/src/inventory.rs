//! `rocade inventory`: what RDMA a host has, in the view that was asked for. Each view is a module of its own.

mod cells;
mod gids;
mod table;
mod topology;
mod wide;

use anyhow::Context;
use clap::ValueEnum;
use rocade_core::absence::absence;
use rocade_core::{Host, NetnsMode, Usable};

use crate::outcome::{Outcome, print};
use crate::source::Source;
use crate::terminal::Terminal;

/// What of a host is shown, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum View {
    /// A line a port
    Table,
    /// A line a port, with every column
    Wide,
    /// A line for each GID that is set
    Gids,
    /// How far each HCA is from each GPU
    Topology,
    /// All that is known, as JSON; docs/schema/inventory.schema.json describes it
    Json,
    /// The same as YAML
    Yaml,
}

/// Arguments of `rocade inventory`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// What to show, and how
    #[arg(short, long, value_enum, default_value_t = View::Table)]
    output: View,
}

/// Reads, judges and prints. A host without RDMA is an answer, not a failure.
pub(crate) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Outcome> {
    let host = match args.output {
        View::Json | View::Yaml => args.source.read()?,
        View::Gids => args.source.read_ports()?,
        View::Table | View::Wide | View::Topology => args.source.read_shown()?,
    };
    tell_gaps(&host);
    print(&render(&host, args.output, terminal)?)?;
    Ok(Outcome::Good)
}

/// Says on stderr which HCAs could not be read, and why there is none where there is none.
pub(crate) fn tell_gaps(host: &Host) {
    for (hca, why) in unread_hcas(host) {
        eprintln!("rocade: {hca} is listed, but cannot be read: {why}");
    }
    if let Some(absence) = absence(host) {
        eprintln!("rocade: no RDMA device: {}\nhint: {}", absence.reason, absence.cure);
    }
}

/// Views for people show nothing of a host without an HCA; documents are whole documents always.
fn render(host: &Host, view: View, terminal: Terminal) -> anyhow::Result<String> {
    Ok(match view {
        View::Json => format!("{}\n", serde_json::to_string_pretty(host)?),
        View::Yaml => serde_saphyr::to_string(host).context("write YAML")?,
        _ if host.hcas.is_empty() => String::new(),
        View::Table => table::render(host, terminal),
        View::Wide => wide::render(host),
        View::Gids => gids::render(host),
        View::Topology => topology::render(host),
    })
}

/// HCAs that the kernel lists and that are gone, or of which a recording holds nothing.
fn unread_hcas(host: &Host) -> impl Iterator<Item = (&str, &str)> {
    let named =
        host.unknown.iter().filter_map(|(field, why)| Some((field.strip_prefix("hcas.")?, why.as_str())));
    named.filter(|(name, _)| !name.starts_with("ports."))
}

/// `4 HCAs, 4 ports, 3 usable; kernel 6.8.0, RDMA namespaces shared`.
fn render_summary(host: &Host) -> String {
    let ports = || host.hcas.iter().flat_map(|hca| &hca.ports);
    let usable = ports().filter(|port| port.usable != Usable::No).count();
    let netns = match host.netns_mode {
        Some(NetnsMode::Shared) => "shared",
        Some(NetnsMode::Exclusive) => "exclusive",
        None => "unknown",
    };
    format!(
        "{}, {}, {usable} usable; kernel {}, RDMA namespaces {netns}",
        count(host.hcas.len(), "HCA"),
        count(ports().count(), "port"),
        host.kernel.as_deref().unwrap_or("unknown")
    )
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
