//! Bandwidth and latency tests over RC QPs, wire-compatible with perftest's ib_{write,read,send}_{bw,lat} in both roles.
//! In three steps, so that the caller can show each end's keys between them: [`Perftest::prepare`],
//! [`Perftest::connect`], [`Perftest::run`].

use std::rc::Rc;
use std::time::Duration;

use rocade_core::diagnose::Unlike;
use rocade_core::pair::perf::message::{Key, Memory};
use rocade_core::pair::perf::statistics::{PEAK_ITERATIONS, Peak, Samples};
use rocade_core::pair::perf::{Amount, Measure, Operation, Options, SizeResult, Test};
use rocade_core::pair::{Endpoint, Role};
use rocade_core::{Gid, GidIndex, HcaName, PortNum};

use crate::ah::AddressHandle;
use crate::cq::CompletionQueue;
use crate::device::{Device, Limits, Mtu};
use crate::error::VerbsError;
use crate::library::Library;
use crate::mr::{Access, MemoryRegion};
use crate::pages::Pages;
use crate::pd::ProtectionDomain;
use crate::pingpong::{random_psn, read_gid};
use crate::placement::Placement;
use crate::qp::{Capacity, Path, QueuePair};

mod bandwidth;
mod clock;
pub mod conversation;
mod data;
mod latency;
mod layout;
mod receives;
pub(crate) mod silence;

use conversation::{Conversation, Peer};
use layout::Layout;
use receives::Receives;

/// What a test is to be at this end.
#[derive(Debug, Clone)]
pub struct Setup {
    /// HCA to run over.
    pub hca: HcaName,
    /// Its port.
    pub port: PortNum,
    /// Index of the GID; None leaves out the global route header, which only InfiniBand allows.
    pub gid_index: Option<GidIndex>,
    /// This end's role.
    pub role: Role,
    /// What both ends do, checked ([`Options::check`]).
    pub options: Options,
    /// The larger of both ends' pages and lines: [`conversation::Greeting::memory`].
    pub memory: Memory,
    /// For each completion, or as long as what lies before it may take ([`Options::silence`]).
    pub timeout: Duration,
    /// Take the buffers from the host's reserve of 2 MiB pages.
    pub hugepages: bool,
    /// CPUs that the calling thread is held to until the test is dropped, as those near the HCA; None leaves it alone.
    pub cpus: Option<Vec<usize>>,
}

/// Memory that an end takes for a test at most, bytes: its buffers, where the larger of both ends' pages lies between two
/// QPs, its queues, and the times that its figures are made of. `options` are checked ([`Options::check`]).
pub fn memory_bytes(role: Role, options: &Options, memory: Memory) -> u64 {
    let layout = Layout::new(options, memory);
    let (sends, receives) = depths(options, &layout);
    let qp = Capacity { sends, receives, inline_bytes: options.inline_bytes };
    let count = match options.amount {
        Amount::Iterations(count) => Some(count),
        Amount::Seconds(_) => None,
    };
    let times = match options.test.measure {
        Measure::Latency => Samples::bytes(count),
        Measure::Bandwidth if role == Role::Server && !options.bidirectional => 0,
        Measure::Bandwidth => {
            let kept = count.filter(|count| *count <= PEAK_ITERATIONS);
            kept.map_or(0, |count| Peak::bytes(count * u64::from(options.qps)))
        }
    };
    layout.bytes() as u64 + u64::from(options.qps) * qp.memory_bytes() + times
}

/// How far a test is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The test.
    pub test: Test,
    /// Size of a message, bytes.
    pub message_bytes: u32,
    /// Messages of this end that are done, of all QPs; in a latency test those of the other end that have come.
    pub done: u64,
    /// Messages that there will be; None in a test by time.
    pub of: Option<u64>,
    /// Since the first of this size.
    pub elapsed: Duration,
}

impl Progress {
    /// Payload so far over time so far, 10⁹ bit/s.
    pub fn gbps(&self) -> f64 {
        let nanoseconds = self.elapsed.as_nanos().max(1) as f64;
        self.done as f64 * f64::from(self.message_bytes) * 8.0 / nanoseconds
    }

    /// Time so far over messages one way, µs; of reads over whole ones.
    pub fn us(&self) -> f64 {
        let parts = if self.test.operation == Operation::Read { 1.0 } else { 2.0 };
        self.elapsed.as_nanos() as f64 / parts / self.done.max(1) as f64 / 1e3
    }
}

/// Distance of two events of progress, ns.
const PROGRESS: u64 = 200_000_000;

/// What is seen of a run.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// How far it is: five times a second at most.
    Progress(Progress),
    /// The times of a latency test, before their figures are made.
    Samples(&'a Samples),
    /// What both ends print of a size, where that is known before the end.
    Found(&'a SizeResult),
}

/// One end of a test, from its verbs objects to its figures.
pub struct Perftest {
    setup: Setup,
    path: Path,
    layout: Layout,
    keys: Vec<Key>,
    remote: Vec<Key>,
    inline_bytes: u32,
    /// Messages that have gone well, of all sizes so far.
    done: u64,
    // Dropped in this order: the QPs first, so that the HCA has let go of the memory.
    receives: Option<Receives>,
    qps: Vec<Rc<QueuePair>>,
    cq: Rc<CompletionQueue>,
    region: Rc<MemoryRegion>,
    pd: Rc<ProtectionDomain>,
    device: Rc<Device>,
    #[expect(dead_code, reason = "holds the thread to its CPUs")]
    placement: Option<Placement>,
}

impl Perftest {
    /// Makes all verbs objects, with QPs in INIT. Of what was asked for and is more than the device has, it takes what
    /// there is: inline bytes, outstanding reads, MTU.
    pub fn prepare(library: &Rc<Library>, setup: Setup) -> Result<Perftest, VerbsError> {
        let options = &setup.options;
        let placement = setup.cpus.as_deref().map(Placement::pin).transpose()?;
        let device = Device::open(library, &setup.hca)?;
        let (port, limits) = (device.port(setup.port)?, device.limits()?);
        let gid = read_gid(&device, setup.port, setup.gid_index)?;
        let pd = ProtectionDomain::new(&device)?;
        let layout = Layout::new(options, setup.memory);
        let pages = if setup.hugepages { Pages::Huge } else { Pages::Usual };
        let region = Rc::new(MemoryRegion::with(&pd, layout.bytes(), access(options), pages)?);
        let (sends, receives) = depths(options, &layout);
        let entries = (options.qps.saturating_mul(sends + receives)).min(limits.cq_entries);
        let cq = CompletionQueue::new(&device, entries, options.events)?;
        let (qps, inline_bytes) = make_qps(&pd, &cq, options, sends, receives)?;
        for qp in &qps {
            qp.to_init(setup.port, options.pkey_index, access(options))?;
        }
        let path = path(&setup, &limits, port.active_mtu);
        let keys = make_keys(&qps, &region, &layout, &path, port.lid, setup.gid_index.map(|_| gid));
        let (remote, receives) = (vec![], None);
        Ok(Perftest {
            setup,
            path,
            layout,
            keys,
            remote,
            inline_bytes,
            done: 0,
            receives,
            qps,
            cq,
            region,
            pd,
            device,
            placement,
        })
    }

    /// This end's keys, one a QP.
    pub fn local(&self) -> &[Key] {
        &self.keys
    }

    /// The other end's, once they are known, also when [`Perftest::connect`] failed later on.
    pub fn remote(&self) -> &[Key] {
        &self.remote
    }

    /// Path MTU, bytes: this end's own until [`Perftest::connect`] has settled on one with the other end.
    pub fn mtu_bytes(&self) -> u32 {
        self.path.mtu.bytes()
    }

    /// Messages up to this size go inline, bytes.
    pub fn inline_bytes(&self) -> u32 {
        self.inline_bytes
    }

    /// Reads that a QP of this end may have under way.
    pub fn outstanding_reads(&self) -> u8 {
        self.path.reads_as_initiator
    }

    /// The opened device, whose events tell more of a failure.
    pub fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// Resolves the way to the other end's first QP as [`Perftest::connect`] does, but without a QP: for telling a way
    /// that does not resolve from a QP that cannot be bound.
    pub fn resolve(&self) -> Result<(), VerbsError> {
        let first = self.remote.first();
        first.map_or(Ok(()), |key| AddressHandle::new(&self.pd, &self.path, &endpoint(key)).map(drop))
    }

    /// Exchanges MTU and keys, and brings the QPs to RTS.
    pub fn connect(&mut self, conversation: &mut Conversation<'_>) -> Result<(), VerbsError> {
        let bytes = conversation.agree_mtu(self.path.mtu.bytes())?;
        self.path.mtu = Mtu::from_bytes(bytes).unwrap_or(self.path.mtu);
        self.remote = conversation.open(self.keys.clone())?;
        if self.remote.len() != self.qps.len() {
            let (here, there) = (self.qps.len().to_string(), Some(self.remote.len().to_string()));
            return Err(VerbsError::Unlike { what: Unlike::QueuePairs, here, there });
        }
        for ((qp, own), remote) in self.qps.iter().zip(&self.keys).zip(&self.remote) {
            let theirs = u8::try_from(remote.out_reads).unwrap_or(u8::MAX);
            let reads = theirs.min(self.path.reads_as_initiator);
            let path = Path { reads_as_initiator: reads, ..self.path };
            qp.to_rtr(&path, &endpoint(remote))?;
            qp.to_rts(&path, own.psn)?;
        }
        if self.setup.options.test.operation == Operation::Send {
            self.receives = Some(Receives::post_all(&self.qps, &self.region, &self.layout)?);
        }
        conversation.connected()
    }

    /// Runs all sizes, and returns what both ends print. What fails is told to another end that is rocade.
    ///
    /// With [`Options::data_seed`] between two ends of rocade every byte of every message is compared where it arrives:
    /// of writes and reads once as many messages as there may be under way are there, of sends at each receive. A stock
    /// tool fills its messages with what it likes, and nothing is compared.
    pub fn run(
        &mut self,
        mut conversation: Conversation<'_>,
        seen: &mut dyn FnMut(Event<'_>),
    ) -> Result<Vec<SizeResult>, VerbsError> {
        match self.run_sizes(&mut conversation, seen) {
            Ok(()) => conversation.finish().map_err(|error| error.midway().after(self.done)),
            Err(error) => {
                let error = error.midway().after(self.done);
                let of_rdma = error.failure().is_some_and(|failure| failure.is_of_rdma());
                conversation.fail(&error.to_string(), of_rdma);
                Err(error)
            }
        }
    }

    fn run_sizes(
        &mut self,
        conversation: &mut Conversation<'_>,
        seen: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), VerbsError> {
        for message_bytes in self.setup.options.sizes.each() {
            let measured = match self.setup.options.test.measure {
                Measure::Bandwidth => {
                    let progress = &mut |progress| seen(Event::Progress(progress));
                    self.run_bandwidth(message_bytes, conversation, progress)?
                }
                Measure::Latency => self.run_latency(message_bytes, conversation, seen)?,
            };
            conversation.after_size()?;
            if let Some(found) = conversation.tell(measured)? {
                seen(Event::Found(&found));
            }
        }
        Ok(())
    }

    /// Whether this end posts sends, writes or reads.
    fn is_sender(&self) -> bool {
        self.setup.role == Role::Client || self.setup.options.bidirectional
    }

    /// The seed of what is compared, which only two ends of rocade do.
    fn seed(&self, conversation: &Conversation<'_>) -> Option<u64> {
        self.setup.options.data_seed.filter(|_| matches!(conversation.peer(), Peer::Rocade { .. }))
    }
}

/// What the other end may do to the buffers. Memory that is polled for its last byte keeps its order.
fn access(options: &Options) -> Access {
    let is_write = options.test.operation == Operation::Write;
    Access {
        remote_write: options.test.operation != Operation::Read,
        remote_read: options.test.operation == Operation::Read,
        relaxed_ordering: !(is_write && options.test.measure == Measure::Latency),
    }
}

/// Sends and receives that a QP has room for.
fn depths(options: &Options, layout: &Layout) -> (u32, u32) {
    match options.test.operation {
        Operation::Send => (options.tx_depth, layout.receives()),
        _ => (options.tx_depth, 1),
    }
}

/// With as many inline bytes, up to what was asked for, as the provider gives.
fn make_qps(
    pd: &Rc<ProtectionDomain>,
    cq: &Rc<CompletionQueue>,
    options: &Options,
    sends: u32,
    receives: u32,
) -> Result<(Vec<Rc<QueuePair>>, u32), VerbsError> {
    let is_any_inline = options.sizes.each().iter().any(|bytes| *bytes <= options.inline_bytes);
    let mut inline_bytes = if is_any_inline { options.inline_bytes } else { 0 };
    let mut qps = Vec::with_capacity(options.qps as usize);
    while qps.len() < options.qps as usize {
        match QueuePair::new(pd, cq, Capacity { sends, receives, inline_bytes }) {
            Ok(qp) => qps.push(Rc::new(qp)),
            Err(_) if qps.is_empty() && inline_bytes > 0 => inline_bytes /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok((qps, inline_bytes))
}

fn path(setup: &Setup, limits: &Limits, active: Option<Mtu>) -> Path {
    let options = &setup.options;
    let active = active.unwrap_or(Mtu::BYTES_1024);
    let wanted = options.mtu_bytes.and_then(Mtu::from_bytes).unwrap_or(active);
    let reads = |limit: u8| match options.test.operation {
        Operation::Read => options.outstanding_reads.unwrap_or(limit).min(limit),
        _ => 1,
    };
    Path {
        port: setup.port,
        gid_index: setup.gid_index,
        mtu: wanted.min(active),
        service_level: options.service_level,
        traffic_class: options.traffic_class,
        hop_limit: options.hop_limit,
        ack_timeout: options.ack_timeout,
        reads_as_responder: reads(limits.reads_as_responder),
        reads_as_initiator: reads(limits.reads_as_initiator),
    }
}

fn make_keys(
    qps: &[Rc<QueuePair>],
    region: &MemoryRegion,
    layout: &Layout,
    path: &Path,
    lid: u16,
    gid: Option<Gid>,
) -> Vec<Key> {
    let key = |(at, qp): (usize, &Rc<QueuePair>)| Key {
        lid,
        out_reads: u16::from(path.reads_as_responder),
        qpn: qp.number(),
        psn: random_psn(),
        rkey: region.rkey(),
        vaddr: region.address() + layout.remote_area(at) as u64,
        gid,
        srqn: 0,
    };
    qps.iter().enumerate().map(key).collect()
}

fn endpoint(key: &Key) -> Endpoint {
    Endpoint { lid: key.lid, qpn: key.qpn, psn: key.psn, gid: key.gid.unwrap_or(Gid([0; 16])) }
}
