//! The command line of ibv_rc_pingpong, letter by letter, for a link of that name. What the tool can do and rocade
//! cannot is refused, not passed over. Whatever fails ends with 1, as with the tool itself.

use anyhow::bail;
use clap::Parser;
use rocade_core::{HcaName, PortNum};
use rocade_verbs::device::Mtu;
use rocade_verbs::pingpong::HOP_LIMIT;

use super::expectation::Expectations;
use crate::cli::Output;
use crate::links::number::{number, within};
use crate::links::{ended, unread};
use crate::outcome::{Advice, Outcome};
use crate::perf::options::{TIMEOUT_SECONDS, Where};
use crate::tcp::Reach;

/// Send messages there and back over RDMA (rocade under the name of ibv_rc_pingpong)
#[derive(Debug, Parser)]
#[command(name = "ibv_rc_pingpong", version, args_override_self = true)]
pub(crate) struct Args {
    /// The end that waits; without it this end is the one
    host: Option<String>,
    /// TCP port of the exchange
    #[arg(short, long, value_parser = |text: &str| within(text, 1..=u16::MAX), default_value_t = 18515)]
    port: u16,
    /// HCA to use [default: the one that has the connection's address]
    #[arg(short = 'd', long)]
    ib_dev: Option<HcaName>,
    /// Port of the HCA
    #[arg(short, long, value_parser = |text: &str| within::<u32>(text, 1..=255), default_value_t = 1)]
    ib_port: u32,
    /// Bytes of a message
    #[arg(short, long, value_parser = |text: &str| within::<u32>(text, 1..=1 << 30), default_value_t = 4096)]
    size: u32,
    /// Path MTU in bytes
    #[arg(short, long, value_parser = mtu, default_value = "1024")]
    mtu: Mtu,
    /// Receives kept posted
    #[arg(short, long, value_parser = |text: &str| within::<u32>(text, 1..=1 << 20), default_value_t = 500)]
    rx_depth: u32,
    /// Round trips
    #[arg(short = 'n', long, value_parser = |text: &str| within(text, 1..=u32::MAX), default_value_t = 1000)]
    iters: u32,
    /// Service level
    #[arg(short = 'l', long, value_parser = |text: &str| within::<u8>(text, 0..=15), default_value_t = 0)]
    sl: u8,
    /// Sleep until something completes
    #[arg(short, long)]
    events: bool,
    /// GID index [default: the GID of the connection's address]
    #[arg(short, long, value_parser = number::<u32>)]
    gid_idx: Option<u32>,
    /// Check what arrives
    #[arg(short, long)]
    chk: bool,
    #[command(flatten)]
    refused: Refused,
}

/// Options that would change what is tested.
#[derive(Debug, clap::Args)]
struct Refused {
    /// On-demand paging: refused
    #[arg(short, long)]
    odp: bool,
    /// Implicit on-demand paging: refused
    #[arg(short = 'O', long)]
    iodp: bool,
    /// Prefetch with on-demand paging: refused
    #[arg(short = 'P', long)]
    prefetch: bool,
    /// Completion timestamps: refused
    #[arg(short, long)]
    ts: bool,
    /// Memory of the HCA: refused
    #[arg(short = 'j', long)]
    dm: bool,
    /// The newer way to post sends: refused
    #[arg(short = 'N', long = "new_send")]
    new_send: bool,
}

/// Reads the command line as the tool's, and runs the test as `rocade pingpong` does.
pub(crate) fn run() -> Outcome {
    match Args::try_parse() {
        Ok(args) => ended(args.run()),
        Err(error) => unread(&error, "ibv_rc_pingpong"),
    }
}

fn mtu(text: &str) -> Result<Mtu, String> {
    number::<u32>(text).and_then(|bytes| super::parse_mtu(&bytes.to_string()))
}

impl Args {
    fn run(self) -> anyhow::Result<Outcome> {
        if let Some(option) = self.refused.first() {
            bail!(Advice::new(
                format!("rocade has no {option}"),
                "leave the option out, or take ibv_rc_pingpong of ibverbs-utils; either can be the other end"
            ));
        }
        super::run(&super::Args {
            server: self.host,
            tcp_port: self.port,
            place: Where {
                hca: self.ib_dev,
                hca_port: Some(PortNum(self.ib_port)),
                gid_index: self.gid_idx,
                ipv6: false,
                cpus: None,
                numa: None,
                hugepages: false,
                timeout: TIMEOUT_SECONDS,
            },
            size: self.size,
            mtu: Some(self.mtu),
            rx_depth: self.rx_depth,
            iterations: self.iters,
            sl: self.sl,
            events: self.events,
            tclass: 0,
            dscp: None,
            pkey_index: 0,
            hop_limit: HOP_LIMIT,
            check: self.chk,
            reach: Reach::default(),
            expectations: Expectations::default(),
            output: Output::Table,
            as_stock: true,
        })
    }
}

impl Refused {
    fn first(&self) -> Option<&'static str> {
        let options = [
            (self.odp, "-o (on-demand paging)"),
            (self.iodp, "-O (implicit on-demand paging)"),
            (self.prefetch, "-P (prefetch)"),
            (self.ts, "-t (completion timestamps)"),
            (self.dm, "-j (memory of the HCA)"),
            (self.new_send, "-N (the newer way to post sends)"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}
