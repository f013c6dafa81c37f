//! The command line of ib_write_bw and its five sisters (perftest 6.06, and what later versions renamed), letter by
//! letter. Each takes the others' letters too, as their one parser does; what does not go with a test is refused when it
//! is settled.

use std::net::IpAddr;

use anyhow::{Context, bail};
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser, ValueEnum};
use rocade_core::pair::perf::{Amount, Measure, Operation, Options, Sizes, Test};
use rocade_core::{HcaName, PortNum};

use crate::links::number::{number, size, within};
use crate::outcome::Advice;
use crate::perf::options::{TCP_PORT, parse_mtu};
use crate::perf::refused::Refusal;

/// Measure RDMA between two ends (rocade under the name of a perftest tool)
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, infer_long_args = true)]
pub(crate) struct Args {
    /// The end that waits; without it this end is the one
    pub(super) host: Option<String>,
    /// Sizes from 2 to 2^23
    #[arg(short, long)]
    all: bool,
    /// Both ends send
    #[arg(short, long)]
    bidirectional: bool,
    /// Connection type: RC
    #[arg(short, long, default_value = "RC")]
    connection: String,
    /// HCA [default: the one that has the connection's address]
    #[arg(short = 'd', long)]
    pub(super) ib_dev: Option<HcaName>,
    /// Time of a test in seconds
    #[arg(short = 'D', long, value_parser = number::<u32>)]
    duration: Option<u32>,
    /// Sleep until something completes
    #[arg(short, long)]
    events: bool,
    /// No warning about the CPU's frequency: none is given in any case
    #[arg(short = 'F', long = "CPU-freq")]
    cpu_freq: bool,
    /// Port of the HCA
    #[arg(short, long, value_parser = hca_port, default_value = "1")]
    pub(super) ib_port: PortNum,
    /// Messages up to this size go inline
    #[arg(short = 'I', long = "inline_size", value_parser = number::<u32>)]
    inline_size: Option<u32>,
    /// What is not counted at either end of a test by time, in seconds
    #[arg(short = 'f', long, value_parser = number::<u32>)]
    margin: Option<u32>,
    /// Print each latency, sorted
    #[arg(short = 'H', long = "report-histogram", alias = "report-histogrm")]
    pub(super) report_histogram: bool,
    /// Print each latency, in the order that they came
    #[arg(short = 'U', long = "report-unsorted")]
    pub(super) report_unsorted: bool,
    /// Choose a GID of an IPv6 address
    #[arg(long)]
    pub(super) ipv6: bool,
    /// Exchange over IPv6: as the address of the other end has it in any case
    #[arg(long = "ipv6-addr")]
    ipv6_addr: bool,
    /// Hop limit
    #[arg(short = 'L', long = "hop_limit", value_parser = number::<u8>)]
    hop_limit: Option<u8>,
    /// Path MTU in bytes; the port's own for what is none
    #[arg(short, long, value_parser = number::<u32>)]
    mtu: Option<u32>,
    /// Messages of each QP
    #[arg(short = 'n', long, value_parser = number::<u64>)]
    iters: Option<u64>,
    /// No peak bandwidth
    #[arg(short = 'N', long = "noPeak")]
    pub(super) no_peak: bool,
    /// Outstanding reads
    #[arg(short, long, value_parser = number::<u8>)]
    outs: Option<u8>,
    /// TCP port of the exchange
    #[arg(short, long, value_parser = |text: &str| within(text, 1..=u16::MAX), default_value_t = TCP_PORT)]
    pub(super) port: u16,
    /// QPs
    #[arg(short, long, value_parser = number::<u32>)]
    qp: Option<u32>,
    /// Every so many sends make a completion
    #[arg(short = 'Q', long = "cq-mod", value_parser = number::<u32>)]
    cq_mod: Option<u32>,
    /// Receives kept posted
    #[arg(short, long, value_parser = number::<u32>)]
    rx_depth: Option<u32>,
    /// Bytes of a message, with K or M
    #[arg(short, long, value_parser = size)]
    size: Option<u32>,
    /// Service level
    #[arg(short = 'S', long, value_parser = number::<u8>)]
    sl: Option<u8>,
    /// Sends under way
    #[arg(short, long, value_parser = number::<u32>)]
    tx_depth: Option<u32>,
    /// ACK timeout: 4.096 us · 2^N
    #[arg(short = 'u', long, value_parser = number::<u8>)]
    qp_timeout: Option<u8>,
    /// Say the version and nothing else
    #[arg(short = 'V', long)]
    pub(super) version: bool,
    /// Fail below this bandwidth, in the unit of the report
    #[arg(short = 'w', long = "limit_bw")]
    pub(super) limit_bw: Option<f64>,
    /// GID index [default: the GID of the connection's address]
    #[arg(short = 'x', long, value_parser = number::<u32>)]
    pub(super) gid_index: Option<u32>,
    /// Fail below this message rate, 10^6 messages a second
    #[arg(short = 'y', long = "limit_msgrate")]
    pub(super) limit_msgrate: Option<f64>,
    /// Write the report to a file as JSON
    #[arg(long = "out_json")]
    out_json: bool,
    /// The file
    #[arg(long = "out_json_file", default_value = "perftest_out.json")]
    out_json_file: String,
    /// Print one number: bandwidth, message_rate or latency
    #[arg(long, value_enum)]
    pub(super) output: Option<Number>,
    /// Messages ahead of what is measured
    #[arg(long = "perform_warm_up")]
    warm_up: bool,
    /// Index of the partition key
    #[arg(long = "pkey_index", value_parser = number::<u16>)]
    pkey_index: Option<u16>,
    /// Limit of what is sent
    #[arg(long = "rate_limit")]
    rate_limit: Option<f64>,
    /// Its unit: g for Gbit/s, M for MiB/s
    #[arg(long = "rate_units", default_value = "g")]
    rate_units: String,
    /// How it is kept: SW
    #[arg(long = "rate_limit_type")]
    rate_limit_type: Option<String>,
    /// Bandwidth in 10^9 bit/s, not in 2^20 bytes a second
    #[arg(long = "report_gbits")]
    pub(super) report_gbits: bool,
    /// Retries of rdma_cm, which is not used
    #[arg(long = "retry_count", value_parser = number::<u32>)]
    retry_count: Option<u32>,
    /// Address of this host to connect from, or to listen on
    #[arg(long = "source_ip", alias = "bind_source_ip")]
    pub(super) source_ip: Option<IpAddr>,
    /// Traffic class
    #[arg(long, value_parser = number::<u8>)]
    tclass: Option<u8>,
    /// Buffers from hugepages
    #[arg(long = "use_hugepages")]
    pub(super) use_hugepages: bool,
    /// The older way to post sends, which is the only one here
    #[arg(long = "use_old_post_send")]
    use_old_post_send: bool,
    #[command(flatten)]
    refusal: Refusal<false>,
}

fn hca_port(text: &str) -> Result<PortNum, String> {
    within(text, 1..=255).map(PortNum)
}

/// What `--output` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Number {
    Bandwidth,
    MessageRate,
    Latency,
}

impl Args {
    /// The tool's command line.
    pub(super) fn command(test: Test) -> Command {
        <Args as CommandFactory>::command().name(test.stock_name())
    }

    /// Reads it; what would change what is tested is refused with the reason.
    pub(super) fn read(test: Test, matches: &ArgMatches) -> anyhow::Result<Args> {
        let args = Args::from_arg_matches(matches)?;
        args.refusal.check(test)?;
        if let Some((what, why, hint)) = args.refused_value() {
            bail!(Advice::new(format!("rocade has no {what}: {why}"), hint));
        }
        let bandwidth = test.measure == Measure::Bandwidth;
        if args.output.is_some_and(|number| (number == Number::Latency) == bandwidth) {
            let fitting = if bandwidth { "bandwidth or message_rate" } else { "latency" };
            bail!(Advice::new(
                format!("{} measures something else", test.stock_name()),
                format!("give --output={fitting}")
            ));
        }
        Ok(args)
    }

    /// A value that would change what is tested: what it is, why it is refused, and what to give instead.
    fn refused_value(&self) -> Option<(String, &'static str, &'static str)> {
        if self.connection != "RC" {
            let (why, hint) = ("it tests RC alone", "give -c RC, or leave it out");
            return Some((format!("connection type {}", self.connection), why, hint));
        }
        if !matches!(self.rate_units.as_str(), "g" | "M") {
            let (why, hint) =
                ("a limit is of what is sent, and not of packets", "give --rate_units=g, or M for MiB/s");
            return Some((format!("--rate_units={}", self.rate_units), why, hint));
        }
        let kind = self.rate_limit_type.as_deref().filter(|kind| *kind != "SW")?;
        let (why, hint) =
            ("a limit is kept by this process, and not by the HCA", "give --rate_limit_type=SW");
        Some((format!("--rate_limit_type={kind}"), why, hint))
    }

    /// An MTU that is none of RDMA's: the tools go on with the port's own.
    pub(super) fn odd_mtu(&self) -> Option<u32> {
        self.mtu.filter(|mtu| parse_mtu(&mtu.to_string()).is_err())
    }

    /// The file for the report.
    pub(super) fn json_file(&self) -> Option<&str> {
        self.out_json.then_some(self.out_json_file.as_str())
    }

    /// What this end does; the stock tools lower some of it, and in latency tests pass over depths, without a word.
    pub(super) fn settle(&self, test: Test) -> anyhow::Result<Options> {
        let stock = Options::stock(test);
        let bandwidth = test.measure == Measure::Bandwidth;
        let sized = self.size.map_or_else(|| stock.sizes.clone(), Sizes::One);
        let counted = self.iters.map_or(stock.amount, Amount::Iterations);
        let depth = |given: Option<u32>, usual| given.filter(|_| bandwidth).unwrap_or(usual);
        let inline = self.inline_size.filter(|_| test.operation != Operation::Read);
        let bits = if self.rate_units == "M" { f64::from(8 << 20) } else { 1e9 };
        let options = Options {
            sizes: if self.all { Sizes::All } else { sized },
            amount: self.duration.map_or(counted, Amount::Seconds),
            margin_seconds: self.margin,
            qps: self.qp.unwrap_or(stock.qps),
            bidirectional: self.bidirectional,
            tx_depth: depth(self.tx_depth, stock.tx_depth),
            rx_depth: self.rx_depth.unwrap_or(stock.rx_depth),
            cq_moderation: depth(self.cq_mod, stock.cq_moderation),
            inline_bytes: inline.unwrap_or(stock.inline_bytes),
            mtu_bytes: self.mtu.filter(|_| self.odd_mtu().is_none()),
            traffic_class: self.tclass.unwrap_or(stock.traffic_class),
            service_level: self.sl.unwrap_or(stock.service_level),
            pkey_index: self.pkey_index.unwrap_or(stock.pkey_index),
            hop_limit: self.hop_limit.unwrap_or(stock.hop_limit),
            outstanding_reads: self.outs,
            ack_timeout: self.qp_timeout.unwrap_or(stock.ack_timeout),
            warm_up: self.warm_up,
            rate_limit_gbps: self.rate_limit.map(|rate| rate * bits / 1e9),
            events: self.events,
            ..stock
        };
        let settled = options.settled(self.cq_mod.is_some());
        settled.with_context(|| Advice::new(test.stock_name(), format!("see `{} --help`", test.stock_name())))
    }
}
