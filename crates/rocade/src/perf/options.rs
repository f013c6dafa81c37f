//! Options of the bandwidth and latency tests: the stock tools' letters beside long names, made into what both ends do.
//! Which of them go together is core's matter.

use std::time::Duration;

use anyhow::Context;
use clap::value_parser;
use rocade_core::pair::perf::{Amount, Options, Sizes, Test};
use rocade_core::{HcaName, PortNum};

use super::size::parse_size;
use crate::outcome::Advice;

/// Longest wait for the other end, where nobody says another.
pub(crate) const TIMEOUT_SECONDS: u64 = 10;
/// The stock tools' port.
pub(crate) const TCP_PORT: u16 = 18515;

/// What a test runs over.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Where {
    /// HCA to use [default: the one that has the connection's address]
    #[arg(short = 'd', long, alias = "ib-dev")]
    pub(crate) hca: Option<HcaName>,
    /// Port of the HCA [default: as for the HCA]
    #[arg(short = 'i', long, alias = "ib-port", value_parser = parse_hca_port)]
    pub(crate) hca_port: Option<PortNum>,
    /// GID index to use whatever it holds [default: the GID of the connection's address]
    #[arg(short = 'x', long)]
    pub(crate) gid_index: Option<u32>,
    /// Choose a GID of an IPv6 address, whatever the connection's is
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Run on these CPUs, as 0-3,8 [default: those near the HCA, of the ones that taskset, numactl or Slurm left]
    #[arg(long, value_name = "LIST", conflicts_with = "numa")]
    pub(crate) cpus: Option<String>,
    /// Run on the CPUs of this NUMA node
    #[arg(long, value_name = "NODE")]
    pub(crate) numa: Option<u32>,
    /// Take the buffers from hugepages
    #[arg(long, alias = "use_hugepages")]
    pub(crate) hugepages: bool,
    /// Longest wait for the other end once it is connected, and for the connection to a server
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..=86400), default_value_t = TIMEOUT_SECONDS)]
    pub(crate) timeout: u64,
}

impl Where {
    /// Longest wait for the other end.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// What the test is to be. None is the stock tools' default for the test.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct What {
    /// Bytes of a message, as 4096, 64K or 1M [default: 64K in bandwidth tests, 2 in latency tests]
    #[arg(short, long, value_parser = parse_size)]
    size: Option<u32>,
    /// Several sizes, as 64,4K,1M; with rocade at the other end
    #[arg(long, value_name = "LIST", value_parser = parse_size, value_delimiter = ',', conflicts_with_all = ["size", "all"])]
    sizes: Vec<u32>,
    /// All powers of two from 2 bytes to 8 MiB
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
    /// Messages of each QP and size [default: 5000 in write-bw, 1000 elsewhere]
    #[arg(short = 'n', long, alias = "iters")]
    iterations: Option<u64>,
    /// Time of each size instead
    #[arg(short = 'D', long, value_name = "SECONDS", conflicts_with = "iterations")]
    duration: Option<u32>,
    /// What is not counted at either end of such a time [default: a quarter]
    #[arg(short = 'f', long, value_name = "SECONDS", requires = "duration")]
    margin: Option<u32>,
    /// QPs; bandwidth only [default: 1]
    #[arg(short = 'q', long, alias = "qp")]
    qps: Option<u32>,
    /// Both ends send at once; bandwidth only
    #[arg(short, long)]
    bidirectional: bool,
    /// Sends that each QP has under way; bandwidth only [default: 128]
    #[arg(short, long)]
    tx_depth: Option<u32>,
    /// Receives that each QP keeps posted; sends only [default: 512]
    #[arg(short, long)]
    rx_depth: Option<u32>,
    /// Every so many sends make a completion; bandwidth only [default: 100, and 1 above 8 KiB]
    #[arg(short = 'Q', long, alias = "cq-mod")]
    cq_moderation: Option<u32>,
    /// Messages up to this size go inline [default: 220 in write-lat, 236 in send-lat, else 0]
    #[arg(short = 'I', long = "inline", alias = "inline_size", value_name = "BYTES")]
    inline_bytes: Option<u32>,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 [default: the smaller of both ports']
    #[arg(short, long, value_parser = parse_mtu)]
    mtu: Option<u32>,
    /// Traffic class: the TOS byte of RoCE v2's IP header [default: 0]
    #[arg(long)]
    tclass: Option<u8>,
    /// The same by its DSCP, 0 to 63
    #[arg(long, value_parser = value_parser!(u8).range(..=63), conflicts_with = "tclass")]
    dscp: Option<u8>,
    /// Service level [default: 0]
    #[arg(short = 'S', long)]
    sl: Option<u8>,
    /// Index of the partition key [default: 0]
    #[arg(long, alias = "pkey_index")]
    pkey_index: Option<u16>,
    /// Routers that a packet may pass, and one; on RoCE the kernel takes the route's own [default: 64]
    #[arg(short = 'L', long, alias = "hop_limit")]
    hop_limit: Option<u8>,
    /// Reads that a QP may have under way [default: as many as both HCAs can]
    #[arg(long)]
    outs: Option<u8>,
    /// A packet without an answer is sent again after 4.096 us · 2^N [default: 14]
    #[arg(short = 'u', long, alias = "qp-timeout", value_name = "N")]
    ack_timeout: Option<u8>,
    /// Send as many messages as may be under way ahead of what is measured
    #[arg(long, alias = "perform_warm_up")]
    warm_up: bool,
    /// Send no faster than this, 10⁹ bit/s; bandwidth only
    #[arg(long, value_name = "GBPS")]
    rate_limit_gbps: Option<f64>,
    /// Sleep until something completes, instead of polling
    #[arg(short, long)]
    events: bool,
    /// Fill every byte with a pattern made of the seed, and compare each that arrives; with rocade at the other end
    #[arg(long, value_name = "SEED", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    check: Option<u64>,
}

impl What {
    /// What both ends do, all of which goes together.
    pub(crate) fn settle(&self, test: Test) -> anyhow::Result<Options> {
        let stock = Options::stock(test);
        let sizes = match (self.size, self.all, self.sizes.as_slice()) {
            (_, true, _) => Sizes::All,
            (Some(bytes), ..) => Sizes::One(bytes),
            (None, false, []) => stock.sizes.clone(),
            (None, false, list) => Sizes::List(list.to_vec()),
        };
        let amount = match (self.duration, self.iterations) {
            (Some(seconds), _) => Amount::Seconds(seconds),
            (None, Some(count)) => Amount::Iterations(count),
            (None, None) => stock.amount,
        };
        let options = Options {
            sizes,
            amount,
            margin_seconds: self.margin,
            qps: self.qps.unwrap_or(stock.qps),
            bidirectional: self.bidirectional,
            tx_depth: self.tx_depth.unwrap_or(stock.tx_depth),
            rx_depth: self.rx_depth.unwrap_or(stock.rx_depth),
            cq_moderation: self.cq_moderation.unwrap_or(stock.cq_moderation),
            inline_bytes: self.inline_bytes.unwrap_or(stock.inline_bytes),
            mtu_bytes: self.mtu,
            traffic_class: self.tclass.or(self.dscp.map(|dscp| dscp << 2)).unwrap_or(stock.traffic_class),
            service_level: self.sl.unwrap_or(stock.service_level),
            pkey_index: self.pkey_index.unwrap_or(stock.pkey_index),
            hop_limit: self.hop_limit.unwrap_or(stock.hop_limit),
            outstanding_reads: self.outs,
            ack_timeout: self.ack_timeout.unwrap_or(stock.ack_timeout),
            warm_up: self.warm_up,
            rate_limit_gbps: self.rate_limit_gbps,
            events: self.events,
            data_seed: self.check,
            ..stock
        };
        let settled = options.settled(self.cq_moderation.is_some());
        settled.with_context(|| Advice::new(test.name(), format!("see `rocade {test} --help`")))
    }
}

pub(crate) fn parse_mtu(text: &str) -> Result<u32, String> {
    let mtu = text.parse().ok().filter(|mtu| matches!(mtu, 256 | 512 | 1024 | 2048 | 4096));
    mtu.ok_or_else(|| "an MTU is 256, 512, 1024, 2048 or 4096".to_owned())
}

/// A port number as libibverbs takes it, in a byte.
pub(crate) fn parse_hca_port(text: &str) -> Result<PortNum, String> {
    let port = text.parse().ok().filter(|port| (1..=255).contains(port));
    port.map(PortNum).ok_or_else(|| "a port of an HCA is 1 to 255".to_owned())
}

#[cfg(test)]
mod tests;
