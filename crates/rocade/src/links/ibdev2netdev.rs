//! `ibdev2netdev`: a line for each port with its netdev, of the form of the script in the vendor's driver package, for
//! every vendor's HCA.

use std::fmt::Write;

use clap::Parser;
use rocade_core::{Hca, Host, Port};

use crate::inventory::tell_gaps;
use crate::outcome::{Outcome, print};
use crate::source::Source;

/// PCI vendor of ConnectX and BlueField, whose device ids the script writes as `MT4129`.
const MELLANOX: u16 = 0x15b3;

/// Show the netdev of each RDMA port, and whether it has a link (rocade, for every vendor's HCA)
#[derive(Debug, Parser)]
#[command(name = "ibdev2netdev", version)]
pub(super) struct Args {
    /// Also show the PCI address, card, firmware and port state
    #[arg(short)]
    verbose: bool,
    #[command(flatten)]
    source: Source,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let host = args.source.read_shown()?;
    tell_gaps(&host);
    print(&render(&host, args.verbose))?;
    Ok(Outcome::Good)
}

fn render(host: &Host, verbose: bool) -> String {
    let mut text = String::new();
    for hca in &host.hcas {
        for port in &hca.ports {
            let (netdev, link) = render_netdev(host, port);
            let _ = if verbose {
                let state = port.state.as_deref().unwrap_or("NA");
                writeln!(text, "{} port {} ({state:6}) ==> {netdev} ({link})", render_card(hca), port.port)
            } else {
                writeln!(text, "{} port {} ==> {netdev} ({link})", hca.name, port.port)
            };
        }
    }
    text
}

/// The port's own netdev, a bond rather than its members, and whether that has a link. Both are empty without one.
fn render_netdev<'a>(host: &Host, port: &'a Port) -> (&'a str, &'static str) {
    let Some(name) = port.netdev.as_deref() else { return ("", "") };
    let link = host.netdev(name).and_then(|netdev| netdev.carrier) == Some(true);
    (name, if link { "Up" } else { "Down" })
}

/// `0000:5e:00.0 mlx5_0 (MT4123 - MCX653106A-ECAT) ConnectX-6 VPI adapter card fw 20.28.1002`; part and description
/// are in the card's VPD, which only root can read.
fn render_card(hca: &Hca) -> String {
    let device = match &hca.pci_id {
        Some(id) if id.vendor == MELLANOX => format!("MT{}", id.device),
        Some(id) => id.to_string(),
        None => "NA".into(),
    };
    let vpd = hca.vpd.as_ref();
    let part = vpd.and_then(|vpd| vpd.part_number.as_deref()).unwrap_or("NA");
    let description = vpd.and_then(|vpd| vpd.name.as_deref()).unwrap_or("");
    let address = hca.pci_address.map_or_else(|| "NA".into(), |address| address.to_string());
    let firmware = hca.fw_version.as_deref().unwrap_or("NA");
    format!("{address} {} ({device} - {part}) {description} fw {firmware}", hca.name)
}
