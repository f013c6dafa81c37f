//! A bandwidth or latency test between two ends: which it is, what both ends must do alike, and what an end found. The
//! words of it alone; its messages on the wire are below, and running it is not this room's.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Role;
use crate::gid::Choice;
use crate::host::GidType;
use crate::names::{Gid, HcaName, Pkey, PortNum};

pub mod block;
mod both;
pub mod expect;
pub mod message;
pub mod negotiation;
pub mod order;
pub mod pace;
mod settle;
pub mod statistics;

pub use both::of_both;
pub use settle::Contradiction;

/// The RDMA operation that a test is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// RDMA WRITE: the other end's CPU does nothing.
    Write,
    /// RDMA READ: likewise, in the other direction.
    Read,
    /// SEND into receives that the other end posted.
    Send,
}

/// What a test measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Many messages under way.
    Bandwidth,
    /// One message under way.
    Latency,
}

/// One of the six tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Test {
    /// Its operation.
    pub operation: Operation,
    /// Its measure.
    pub measure: Measure,
}

impl Test {
    /// All of them, in the order of the commands.
    pub const ALL: [Test; 6] = [
        Test { operation: Operation::Write, measure: Measure::Bandwidth },
        Test { operation: Operation::Write, measure: Measure::Latency },
        Test { operation: Operation::Read, measure: Measure::Bandwidth },
        Test { operation: Operation::Read, measure: Measure::Latency },
        Test { operation: Operation::Send, measure: Measure::Bandwidth },
        Test { operation: Operation::Send, measure: Measure::Latency },
    ];

    /// The command's name, as `write-bw`.
    pub fn name(self) -> &'static str {
        match (self.operation, self.measure) {
            (Operation::Write, Measure::Bandwidth) => "write-bw",
            (Operation::Write, Measure::Latency) => "write-lat",
            (Operation::Read, Measure::Bandwidth) => "read-bw",
            (Operation::Read, Measure::Latency) => "read-lat",
            (Operation::Send, Measure::Bandwidth) => "send-bw",
            (Operation::Send, Measure::Latency) => "send-lat",
        }
    }

    /// The stock tool that makes the same test, as `ib_write_bw`.
    pub fn stock_name(self) -> &'static str {
        match (self.operation, self.measure) {
            (Operation::Write, Measure::Bandwidth) => "ib_write_bw",
            (Operation::Write, Measure::Latency) => "ib_write_lat",
            (Operation::Read, Measure::Bandwidth) => "ib_read_bw",
            (Operation::Read, Measure::Latency) => "ib_read_lat",
            (Operation::Send, Measure::Bandwidth) => "ib_send_bw",
            (Operation::Send, Measure::Latency) => "ib_send_lat",
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sizes of messages, bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sizes {
    /// One size; all that a stock tool does without `-a`.
    One(u32),
    /// 2¹ to 2²³, as a stock tool's `-a`.
    All,
    /// These in turn; between two ends of rocade only.
    List(Vec<u32>),
}

impl Sizes {
    /// Each size in turn.
    pub fn each(&self) -> Vec<u32> {
        match self {
            Sizes::One(bytes) => vec![*bytes],
            Sizes::All => (1..=23).map(|power| 1 << power).collect(),
            Sizes::List(sizes) => sizes.clone(),
        }
    }

    /// The largest of them; 0 for an empty list.
    pub fn largest(&self) -> u32 {
        self.each().into_iter().max().unwrap_or(0)
    }
}

/// How much of each size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Messages of each QP.
    Iterations(u64),
    /// Time, s; what is counted begins and ends a margin away from its ends.
    Seconds(u32),
}

/// What both ends of a test do alike. A client of rocade tells a server of rocade; the two ends of a test with a stock
/// tool must be started so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The test.
    pub test: Test,
    /// Sizes of messages.
    pub sizes: Sizes,
    /// How much of each.
    pub amount: Amount,
    /// What is not counted at either end of a test by time, s; None for a quarter of it.
    #[serde(default)]
    pub margin_seconds: Option<u32>,
    /// QPs, not 0; 1 in a latency test.
    pub qps: u32,
    /// Both ends send at once; bandwidth only.
    pub bidirectional: bool,
    /// Sends that each QP may have under way, not 0.
    pub tx_depth: u32,
    /// Receives that each QP keeps posted, not 0; for sends only.
    pub rx_depth: u32,
    /// Every n-th send of a QP makes a completion, not 0; in a test of several sizes see [`Options::moderation`].
    pub cq_moderation: u32,
    /// Messages up to this size go inline, bytes; as far as the provider can.
    pub inline_bytes: u32,
    /// Path MTU, bytes; None for the smaller of both ports'.
    pub mtu_bytes: Option<u32>,
    /// Traffic class of the global route header: the IP header's TOS byte, which is DSCP × 4 and two bits of ECN.
    pub traffic_class: u8,
    /// Service level, 0 to 15.
    pub service_level: u8,
    /// Index into the port's pkey table.
    pub pkey_index: u16,
    /// Routers that a packet may pass, and one. On RoCE the kernel takes that of its route to the other end's address
    /// instead, which is 64 unless the route has another (drivers/infiniband/core/verbs.c, ib_resolve_unicast_gid_dmac).
    pub hop_limit: u8,
    /// Reads that a QP may have under way; None for as many as both devices can.
    pub outstanding_reads: Option<u8>,
    /// Time until a packet without an answer is sent again: 4.096 µs · 2ⁿ; 0 is for ever.
    pub ack_timeout: u8,
    /// As many messages as there may be under way go ahead of what is measured.
    pub warm_up: bool,
    /// Limit of what one end sends, 10⁹ bit/s.
    pub rate_limit_gbps: Option<f64>,
    /// Sleep until something completes, instead of polling.
    pub events: bool,
    /// Seed of the pattern that every byte is filled with and compared to; None leaves data unchecked.
    pub data_seed: Option<u64>,
}

impl Options {
    /// Whether both ends post sends, writes or reads; otherwise the client alone does.
    pub fn both_post(&self) -> bool {
        self.bidirectional || self.test.measure == Measure::Latency && self.test.operation != Operation::Read
    }

    /// What a stock tool does without options (perftest 6.06).
    pub fn stock(test: Test) -> Options {
        let bandwidth = test.measure == Measure::Bandwidth;
        let many = bandwidth && test.operation == Operation::Write;
        Options {
            test,
            sizes: Sizes::One(if bandwidth { 65536 } else { 2 }),
            amount: Amount::Iterations(if many { 5000 } else { 1000 }),
            margin_seconds: None,
            qps: 1,
            bidirectional: false,
            tx_depth: if bandwidth { 128 } else { 1 },
            rx_depth: if test.operation == Operation::Send { 512 } else { 1 },
            cq_moderation: if bandwidth { 100 } else { 1 },
            inline_bytes: match (test.measure, test.operation) {
                (Measure::Latency, Operation::Write) => 220,
                (Measure::Latency, Operation::Send) => 236,
                _ => 0,
            },
            mtu_bytes: None,
            traffic_class: 0,
            service_level: 0,
            pkey_index: 0,
            hop_limit: 64,
            outstanding_reads: None,
            ack_timeout: 14,
            warm_up: false,
            rate_limit_gbps: None,
            events: false,
            data_seed: None,
        }
    }
}

impl Options {
    /// What is not counted at either end of a test by time, ns; 0 of a test by number.
    pub fn margin_nanoseconds(&self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match (self.amount, self.margin_seconds) {
            (Amount::Iterations(_), _) => 0,
            (Amount::Seconds(_), Some(margin)) => u64::from(margin) * SECOND,
            (Amount::Seconds(seconds), None) => u64::from(seconds) * SECOND / 4,
        }
    }
}

/// What one end tells of itself, for the other end's result and diagnosis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndFacts {
    /// Name of its host, or of its Pod.
    pub host: String,
    /// Its HCA.
    pub hca: HcaName,
    /// The HCA's port.
    pub port: PortNum,
    /// `ethernet`, `infiniband` or None where it was not read.
    pub link_layer: Option<String>,
    /// Netdev of its GID, or of its port.
    pub netdev: Option<String>,
    /// Its GID; None where the LID is enough.
    pub gid: Option<Gid>,
    /// The GID's RoCE version.
    pub gid_type: Option<GidType>,
    /// MTU of the netdev of its GID, bytes.
    #[serde(default)]
    pub netdev_mtu_bytes: Option<u32>,
    /// Active MTU of its port, bytes.
    pub active_mtu_bytes: Option<u32>,
    /// Rate of its port, 10⁹ bit/s.
    pub rate_gbps: Option<f64>,
    /// Its partition key; 0x0000 where the entry in use is unset. None on Ethernet.
    #[serde(default)]
    pub pkey: Option<Pkey>,
    /// LID of its port's subnet manager, 0 where there is none. None on Ethernet.
    #[serde(default)]
    pub sm_lid: Option<u16>,
    /// What its kernel drew when it started, the same in all of a host's containers (/proc/sys/kernel/random/boot_id).
    #[serde(default)]
    pub boot_id: Option<String>,
}

/// What was found of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeResult {
    /// Size of a message, bytes.
    pub message_bytes: u32,
    /// Messages counted, of all QPs; in both directions where both ends sent.
    pub messages: u64,
    /// Time in which they went, s.
    pub seconds: f64,
    /// In a bandwidth test.
    pub bandwidth: Option<Bandwidth>,
    /// In a latency test.
    pub latency: Option<Latency>,
}

/// How fast messages went.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Payload over the whole time, 10⁹ bit/s; the sum of both directions where both ends sent.
    pub average_gbps: f64,
    /// The fastest stretch from a post to a completion, as the stock tools define it; None where it was not kept.
    pub peak_gbps: Option<f64>,
    /// Messages a second over the whole time.
    pub messages_per_second: f64,
    /// Figures of equal stretches of time, where the test was long enough for two.
    pub intervals: Option<Intervals>,
}

/// Bandwidth of stretches of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Length of one, s.
    pub seconds: f64,
    /// How many.
    pub count: u32,
    /// The slowest, 10⁹ bit/s.
    pub min_gbps: f64,
    /// The mean.
    pub average_gbps: f64,
    /// The fastest.
    pub max_gbps: f64,
}

/// How long messages took, µs: half a round trip of writes and sends, the whole of a read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The shortest.
    pub min_us: f64,
    /// The mean.
    pub average_us: f64,
    /// Standard deviation.
    pub stdev_us: f64,
    /// Half of them took at most this.
    pub p50_us: f64,
    /// 90 of 100.
    pub p90_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p99_9_us: f64,
    /// 9999 of 10 000.
    pub p99_99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The same samples by the stock tools' definitions, which give the mean alone of a test by time; None of fewer than
    /// three.
    pub stock: Option<StockLatency>,
}

/// Figures as perftest defines them: sorted, the two longest left out, so that `max` is the second longest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StockLatency {
    /// The shortest, µs.
    pub min_us: f64,
    /// The second longest.
    pub max_us: f64,
    /// Median of the rest.
    pub typical_us: f64,
    /// Mean of the rest.
    pub average_us: f64,
    /// Root of the mean square deviation, each deviation cut to whole µs.
    pub stdev_us: f64,
    /// At index ⌈0.99 m⌉ of m.
    pub p99_us: f64,
    /// At index ⌈0.999 m⌉ of m.
    pub p99_9_us: f64,
}

/// Result of one end of a bandwidth or latency test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PerfResult {
    /// This end's role.
    pub role: Role,
    /// What both ends did.
    #[serde(flatten)]
    pub options: Options,
    /// What this end ran over.
    #[serde(flatten)]
    pub choice: Choice,
    /// What the other end told of itself; None of a stock tool.
    pub remote: Option<EndFacts>,
    /// The other end's GID; None where the LID was enough.
    pub remote_gid: Option<Gid>,
    /// What the other end is, as `rocade 0.1.0` or `perftest 6.06`.
    pub peer: String,
    /// Path MTU in use, bytes.
    pub path_mtu_bytes: u32,
    /// Whether no fabric was in between, and how that is known, as `one HCA`.
    pub loopback: Option<String>,
    /// CPUs that this end's thread was held to, as 0-3,8; None where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// One entry a size, in the order made.
    pub results: Vec<SizeResult>,
    /// Growth of this end's port counters during the test, those that grew.
    pub counters: BTreeMap<String, u64>,
    /// Whether what was expected of it came; None where nothing was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<expect::Verdict>,
}
