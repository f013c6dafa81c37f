//! Why a test between two ends failed, in a sentence with a cure, from what this end saw and knows of both. Pure: the
//! evidence is gathered elsewhere. What is unknown is never a ground: a rule that meets `None` says nothing.

use serde::{Deserialize, Serialize};

use crate::gid::{Choice, Connection, NoChoice};
use crate::host::{Host, Memlock};
use crate::pair::perf::Operation;

mod before;
mod counted;
mod end;
mod infiniband;
mod open;
mod path;
mod status;
#[cfg(test)]
mod tests;

pub use counted::Counted;
pub use end::End;
pub(crate) use infiniband::keeps_apart;
pub(crate) use open::in_words;
pub use open::{LibrarySaid, read_library_output};
pub use path::packet_bytes;

/// What is known about a failed test. Fill what is known with `Evidence { …, ..Evidence::of(failure, &host) }`.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    /// What failed, and how.
    pub failure: Failure,
    /// This end's host, with its ports judged ([`crate::judge`]).
    pub host: &'a Host,
    /// What this end ran over; None before it was chosen.
    pub choice: Option<&'a Choice>,
    /// The TCP connection to the other end; None before there was one.
    pub connection: Option<Connection>,
    /// What the work requests do, [`Operation::Send`] in a pingpong; None before there were any.
    pub operation: Option<Operation>,
    /// Whether this end posts sends, writes or reads itself.
    pub sends: Option<bool>,
    /// This end.
    pub local: End,
    /// The other end, as far as it told or its tool is known.
    pub remote: End,
    /// What the other end's address answered to plain datagrams after the failure; None where it was not asked.
    pub reach: Option<Reach>,
    /// What the port counted since the test began, of all connections together.
    pub counted: Counted,
    /// Memory that this process may lock; None where that is not known.
    pub memlock: Option<Memlock>,
    /// Whether the process has CAP_IPC_LOCK in the first user namespace's sense (CapEff bit 14): then `memlock` does
    /// not bind it.
    pub ipc_lock: Option<bool>,
    /// Errno's name by which the HCA's node refused to open when it was tried; None where it opened, or was not tried.
    pub node_refused: Option<String>,
    /// What libibverbs wrote to stderr while it looked for devices; empty where it was not caught.
    pub library_said: &'a str,
}

impl<'a> Evidence<'a> {
    /// A failure of which nothing else is known.
    pub fn of(failure: Failure, host: &'a Host) -> Evidence<'a> {
        Evidence {
            failure,
            host,
            choice: None,
            connection: None,
            operation: None,
            sends: None,
            local: End::default(),
            remote: End::default(),
            reach: None,
            counted: Counted::default(),
            memlock: None,
            ipc_lock: None,
            node_refused: None,
            library_said: "",
        }
    }
}

/// How far a test came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The other end's name into addresses.
    NameResolution,
    /// The TCP connection.
    Tcp,
    /// What both ends tell each other over it.
    Exchange,
    /// Choosing, opening and registering what RDMA needs at this end.
    Opening,
    /// Bringing the QP to RTR and RTS.
    Transition,
    /// Nothing has arrived yet.
    FirstPacket,
    /// Something had arrived.
    Later,
}

/// Whether UDP datagrams to a port where nothing listens, sent from one GID's address to the other's and not to be
/// fragmented, were answered with "port unreachable".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// A small one was: the addresses reach each other.
    pub small: bool,
    /// Size of the IP packet of the large one, bytes: as large as RDMA's; None where none was sent.
    pub large_bytes: Option<u32>,
    /// It was.
    pub large: bool,
}

/// A state of a QP on its way to work (infiniband/verbs.h, `enum ibv_qp_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Bound to a port and a partition key.
    Init,
    /// Bound to the other end, and receiving.
    Rtr,
    /// Sending as well.
    Rts,
}

/// What failed, in the order of a test. Each tells its [`Phase`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The other end's name has no address.
    Resolve {
        /// As it was given.
        name: String,
    },
    /// No TCP connection came about.
    Tcp {
        /// As it was given.
        server: String,
        /// TCP port.
        port: u16,
        /// Linux errno; ETIMEDOUT also where the time given for it was up.
        errno: i32,
    },
    /// The exchange over TCP went wrong.
    Exchange(Exchange),
    /// The same, once both ends were connected: the test ran, or had run.
    Midway {
        /// What went wrong.
        exchange: Exchange,
        /// Messages before it; 0 also of an end that counts none.
        done: u64,
    },
    /// No HCA, port and GID can be chosen.
    NoChoice(NoChoice),
    /// libibverbs cannot be loaded.
    Library {
        /// The dynamic linker's words.
        reason: String,
    },
    /// libibverbs does not offer the HCA.
    NotOffered {
        /// The HCA.
        hca: String,
        /// What it offers.
        offered: Vec<String>,
    },
    /// A verb that makes, opens or registers an object failed.
    Verb {
        /// Its name, as `ibv_reg_mr`.
        verb: String,
        /// Linux errno.
        errno: i32,
        /// Memory that it had to pin for this request, bytes; None where that is not known.
        bytes: Option<u64>,
    },
    /// The QP could not be brought to a state.
    Transition {
        /// The state.
        to: State,
        /// Linux errno of ibv_modify_qp.
        errno: i32,
    },
    /// A work request completed with a status other than success.
    Completion {
        /// `enum ibv_wc_status` (infiniband/verbs.h).
        status: u32,
        /// Messages, or round trips, that had arrived before it.
        done: u64,
    },
    /// Nothing completed, or nothing arrived, for the whole timeout.
    Silence {
        /// Messages, or round trips, that had arrived before it.
        done: u64,
    },
    /// A message of another size than ours arrived.
    Size {
        /// Its bytes.
        seen: u32,
    },
    /// A received byte is not what was to come.
    Data,
    /// The HCA told, unasked, of a failure while the test ran.
    Event {
        /// libibverbs' words for it, as `port error`.
        event: String,
        /// HCA, or HCA/port.
        on: String,
        /// Messages, or round trips, before it.
        done: u64,
    },
}

/// How the exchange over TCP went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// Bytes came that are not what was to come.
    Garbage {
        /// What was to come, as `the other end's address`.
        wanted: String,
        /// The first of them, as many as were kept.
        seen: Vec<u8>,
    },
    /// The other end closed the connection.
    Closed {
        /// What was to come.
        wanted: String,
        /// What had come of it.
        seen: Vec<u8>,
    },
    /// The time was up.
    Timeout {
        /// What was to come.
        wanted: String,
        /// What had come of it.
        seen: Vec<u8>,
        /// The time, seconds.
        seconds: u64,
    },
    /// The connection broke.
    Broken {
        /// What was to come, or go.
        wanted: String,
        /// What had come of it.
        seen: Vec<u8>,
        /// Linux errno.
        errno: i32,
    },
    /// The other end speaks a version of the protocol that cannot be spoken with.
    Version {
        /// What it announced, as `6.28`.
        theirs: String,
    },
    /// Both ends were started with options that do not fit each other.
    Unlike {
        /// What differs.
        what: Unlike,
        /// At this end.
        here: String,
        /// At the other end; None where only that they differ is known.
        there: Option<String>,
    },
    /// The other end, which is rocade too, said why it will not.
    Refused {
        /// Its words.
        reason: String,
    },
    /// The other end, which is rocade too, gave up a test that was under way.
    GaveUp {
        /// Why, in its words.
        reason: String,
        /// Whether RDMA itself failed there.
        of_rdma: bool,
    },
}

/// What both ends must be started alike with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlike {
    /// The test itself: write, read, send; bandwidth, latency.
    Test,
    /// Size of a message.
    Size,
    /// Number of QPs.
    QueuePairs,
    /// One direction, or both.
    Direction,
    /// Number of messages.
    Iterations,
    /// Messages for a number, or for a time.
    Duration,
    /// Addressing by LID alone, or by GID.
    Addressing,
}

/// The cause as far as the evidence goes, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// How far the test came.
    pub phase: Phase,
    /// One sentence.
    pub cause: String,
    /// What to do.
    pub cure: String,
}

impl Failure {
    /// How far the test came.
    pub fn phase(&self) -> Phase {
        match self {
            Failure::Resolve { .. } => Phase::NameResolution,
            Failure::Tcp { .. } => Phase::Tcp,
            Failure::Exchange(Exchange::GaveUp { of_rdma: true, .. }) => Phase::Later,
            Failure::Exchange(_) => Phase::Exchange,
            Failure::NoChoice(_)
            | Failure::Library { .. }
            | Failure::NotOffered { .. }
            | Failure::Verb { .. }
            | Failure::Transition { to: State::Init, .. } => Phase::Opening,
            Failure::Transition { .. } => Phase::Transition,
            Failure::Completion { done: 0, .. } | Failure::Silence { done: 0 } => Phase::FirstPacket,
            Failure::Completion { .. }
            | Failure::Silence { .. }
            | Failure::Midway { .. }
            | Failure::Size { .. }
            | Failure::Data
            | Failure::Event { .. } => Phase::Later,
        }
    }

    /// Whether RDMA itself was tried and failed (exit code 1); else the test could not be made (exit code 2).
    pub fn is_of_rdma(&self) -> bool {
        self.phase() >= Phase::Transition
    }
}

/// Cause and cure, before the phase is put to them.
type Said = (String, String);

fn because(cause: impl Into<String>, cure: impl Into<String>) -> Said {
    (cause.into(), cure.into())
}

/// Facts that alone explain a failure come first, then what the errno or status means.
pub fn diagnose(evidence: &Evidence<'_>) -> Diagnosis {
    let (cause, cure) = match &evidence.failure {
        Failure::Resolve { name } => before::unresolved(name),
        Failure::Tcp { server, port, errno } => before::unconnected(server, *port, *errno),
        Failure::Exchange(exchange) => before::exchange_failed(evidence, exchange),
        Failure::Midway { exchange, done } => before::broken_off(evidence, exchange, *done),
        Failure::NoChoice(why) => open::nothing_chosen(evidence, why),
        Failure::Library { reason } => open::unloaded(reason),
        Failure::NotOffered { hca, offered } => open::not_offered(evidence, hca, offered),
        Failure::Verb { verb, errno, bytes } => open::verb_failed(evidence, verb, *errno, *bytes),
        Failure::Transition { to: State::Init, errno } => open::init_failed(evidence, *errno),
        Failure::Transition { errno, .. } => status::transition_failed(evidence, *errno),
        Failure::Completion { status, done } => status::completion_failed(evidence, *status, *done),
        Failure::Silence { done } => status::silent(evidence, *done),
        Failure::Size { seen } => status::other_size(evidence, *seen),
        Failure::Data => because(
            "data arrived changed, though every packet's checksum was right",
            "suspect memory, the PCIe path or the IOMMU of one of the hosts; try each against a third",
        ),
        Failure::Event { event, on, done } => status::told_of(event, on, *done),
    };
    Diagnosis { phase: evidence.failure.phase(), cause, cure }
}

/// Linux errno values (include/uapi/asm-generic/errno*.h), equal on x86_64 and aarch64.
mod errno {
    pub(super) const ENOMEM: i32 = 12;
    pub(super) const ENODEV: i32 = 19;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const EADDRNOTAVAIL: i32 = 99;
    pub(super) const ENETUNREACH: i32 = 101;
    pub(super) const ECONNRESET: i32 = 104;
    pub(super) const ETIMEDOUT: i32 = 110;
    pub(super) const ECONNREFUSED: i32 = 111;
    pub(super) const EHOSTUNREACH: i32 = 113;
}
