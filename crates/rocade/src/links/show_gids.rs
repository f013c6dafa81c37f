//! `show_gids`: the set GIDs, in lines of the form of the script in the vendor's driver package.

use std::fmt::Write;

use anyhow::bail;
use clap::Parser;
use rocade_core::{Gid, GidType, HcaName, Host};

use crate::inventory::tell_gaps;
use crate::outcome::{Advice, Outcome, print};
use crate::source::Source;

/// An interface without an address of its own has this one.
const BARE_LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Show the GIDs of RDMA ports with their index, type and netdev (rocade, for every vendor's HCA)
#[derive(Debug, Parser)]
#[command(name = "show_gids", version)]
pub(super) struct Args {
    /// Only those of this HCA
    hca: Option<HcaName>,
    #[command(flatten)]
    source: Source,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let host = args.source.read_ports()?;
    tell_gaps(&host);
    if let Some(name) = args.hca.as_ref().filter(|name| host.hca(name.as_str()).is_none()) {
        let names: Vec<&str> = host.hcas.iter().map(|hca| hca.name.as_str()).collect();
        bail!(Advice::new(format!("no HCA {name} here"), format!("HCAs of this host: {}", names.join(" "))));
    }
    print(&render(&host, args.hca.as_ref()))?;
    Ok(Outcome::Good)
}

fn render(host: &Host, only: Option<&HcaName>) -> String {
    let mut text = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n\
                    ---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
        .to_owned();
    let mut found = 0;
    for hca in host.hcas.iter().filter(|hca| only.is_none_or(|name| hca.name == *name)) {
        for port in &hca.ports {
            for entry in port.gids.iter().filter(|entry| entry.gid.0 != BARE_LINK_LOCAL) {
                let version = match entry.gid_type {
                    Some(GidType::V1) => "v1",
                    Some(GidType::V2) => "v2",
                    None => "",
                };
                let (netdev, address) = (entry.netdev.as_deref().unwrap_or(""), render_ipv4(entry.gid));
                let (hca, port, index, gid) = (&hca.name, port.port, entry.index, entry.gid);
                let _ = writeln!(text, "{hca}\t{port}\t{index}\t{gid}\t{address}\t{version}\t{netdev}");
                found += 1;
            }
        }
    }
    let _ = writeln!(text, "n_gids_found={found}");
    text
}

/// Any GID that begins with zeros is taken for one of IPv4, as the script does; others leave the column empty.
fn render_ipv4(gid: Gid) -> String {
    let [0, 0, .., a, b, c, d] = gid.0 else { return "\t".into() };
    format!("{a}.{b}.{c}.{d}  ")
}
