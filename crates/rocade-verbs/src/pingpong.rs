//! `pingpong`: messages there and back over one RC QP, wire-compatible with ibv_rc_pingpong
//! (libibverbs/examples/rc_pingpong.c) in both roles. In three steps, so that the caller can show each end's address
//! between them: [`Pingpong::prepare`], [`Pingpong::connect`], [`Pingpong::run`].

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use rocade_core::pair::{Endpoint, Role};
use rocade_core::{Gid, GidIndex, HcaName, PortNum};

use crate::cq::CompletionQueue;
use crate::device::{Device, Mtu};
use crate::error::VerbsError;
use crate::library::Library;
use crate::mr::{Access, MemoryRegion};
use crate::pages::Pages;
use crate::pd::ProtectionDomain;
use crate::placement::Placement;
use crate::qp::{Capacity, Path, QueuePair};

mod data;
mod handshake;
mod run;

use handshake::shake_hands;
pub use run::{Figures, SoFar};

/// What a run is to be.
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
    /// Size of a message, bytes, not 0. Not exchanged: it must be the other end's.
    pub message_bytes: u32,
    /// Path MTU; None for 1024 bytes, or the port's if that is smaller. Not exchanged.
    pub mtu: Option<Mtu>,
    /// Receives kept posted, not 0.
    pub rx_depth: u32,
    /// Round trips, not 0. Not exchanged.
    pub iterations: u32,
    /// Service level.
    pub service_level: u8,
    /// Traffic class of the global route header: the IP header's TOS byte on RoCE v2.
    pub traffic_class: u8,
    /// Index into the port's pkey table.
    pub pkey_index: u16,
    /// Routers that a packet may pass, and one. On RoCE the kernel takes the route's instead.
    pub hop_limit: u8,
    /// Sleep until something completes, instead of polling.
    pub events: bool,
    /// Compare each received byte with what was to come: see [`Pingpong::run`].
    pub check_data: bool,
    /// For each message of the exchange, and for each completion.
    pub timeout: Duration,
    /// Take the buffers from the host's reserve of 2 MiB pages.
    pub hugepages: bool,
    /// CPUs that the calling thread is held to until the run is dropped; None leaves it alone.
    pub cpus: Option<Vec<usize>>,
}

impl Setup {
    /// Memory that a run takes, bytes: its buffers and its queues.
    pub fn memory_bytes(&self) -> u64 {
        2 * u64::from(self.message_bytes) + self.capacity().memory_bytes()
    }

    fn capacity(&self) -> Capacity {
        Capacity { sends: 1, receives: self.rx_depth, inline_bytes: 0 }
    }
}

/// One end of a run, from its verbs objects to its figures.
pub struct Pingpong {
    setup: Setup,
    local: Endpoint,
    remote: Option<Endpoint>,
    path: Path,
    // Dropped in this order: the QP first, so that the HCA has let go of the memory.
    qp: QueuePair,
    region: MemoryRegion,
    #[expect(dead_code, reason = "holds the thread to its CPUs")]
    placement: Option<Placement>,
}

/// On RoCE the kernel takes the route's instead.
pub const HOP_LIMIT: u8 = 64;
/// 4.096 µs · 2¹⁴ = 67 ms.
pub(crate) const ACK_TIMEOUT: u8 = 14;

impl Pingpong {
    /// Makes all verbs objects: a QP in INIT with its receives posted.
    pub fn prepare(library: &Rc<Library>, setup: Setup) -> Result<Pingpong, VerbsError> {
        let placement = setup.cpus.as_deref().map(Placement::pin).transpose()?;
        let device = Device::open(library, &setup.hca)?;
        let port = device.port(setup.port)?;
        let mtu = choose_mtu(&device, &setup, port.active_mtu)?;
        let gid = read_gid(&device, setup.port, setup.gid_index)?;
        let pd = ProtectionDomain::new(&device)?;
        let pages = if setup.hugepages { Pages::Huge } else { Pages::Usual };
        let region = MemoryRegion::with(&pd, 2 * setup.message_bytes as usize, Access::default(), pages)?;
        let cq = CompletionQueue::new(&device, setup.rx_depth + 1, setup.events)?;
        let qp = QueuePair::new(&pd, &cq, setup.capacity())?;
        qp.to_init(setup.port, setup.pkey_index, Access::default())?;
        let local = Endpoint { lid: port.lid, qpn: qp.number(), psn: random_psn(), gid };
        let path = Path {
            port: setup.port,
            gid_index: setup.gid_index,
            mtu,
            service_level: setup.service_level,
            traffic_class: setup.traffic_class,
            hop_limit: setup.hop_limit,
            ack_timeout: ACK_TIMEOUT,
            reads_as_responder: 1,
            reads_as_initiator: 1,
        };
        let pingpong = Pingpong { setup, local, remote: None, path, qp, region, placement };
        pingpong.post_receives(pingpong.setup.rx_depth)?;
        Ok(pingpong)
    }

    /// This end's address.
    pub fn local(&self) -> &Endpoint {
        &self.local
    }

    /// The other end's address, once it is known, also when [`Pingpong::connect`] failed later on.
    pub fn remote(&self) -> Option<&Endpoint> {
        self.remote.as_ref()
    }

    /// The path MTU that was settled on, bytes.
    pub fn mtu_bytes(&self) -> u32 {
        self.path.mtu.bytes()
    }

    /// Exchanges addresses over the stream and brings the QP to RTS.
    pub fn connect(&mut self, stream: &TcpStream) -> Result<(), VerbsError> {
        let (role, local, timeout) = (self.setup.role, self.local, self.setup.timeout);
        shake_hands(stream, role, &local, timeout, |remote| {
            self.remote = Some(remote);
            self.bind(&remote)
        })
    }

    fn bind(&self, remote: &Endpoint) -> Result<(), VerbsError> {
        self.qp.to_rtr(&self.path, remote)?;
        self.qp.to_rts(&self.path, self.local.psn)
    }
}

fn choose_mtu(device: &Device, setup: &Setup, active: Option<Mtu>) -> Result<Mtu, VerbsError> {
    match (setup.mtu, active) {
        (Some(wanted), Some(active)) if wanted > active => Err(VerbsError::MtuTooLarge {
            port: device.port_name(setup.port),
            wanted: wanted.bytes(),
            active: active.bytes(),
        }),
        (Some(wanted), _) => Ok(wanted),
        (None, active) => Ok(active.unwrap_or(Mtu::BYTES_1024).min(Mtu::BYTES_1024)),
    }
}

/// All zero without an index.
pub(crate) fn read_gid(device: &Device, port: PortNum, index: Option<GidIndex>) -> Result<Gid, VerbsError> {
    let Some(index) = index else { return Ok(Gid([0; 16])) };
    device
        .gid(port, index)?
        .ok_or_else(|| VerbsError::UnsetGid { port: device.port_name(port), index: index.0 })
}

/// 24 bits that differ from run to run, so that packets of an earlier one are not taken for this one's.
pub(crate) fn random_psn() -> u32 {
    RandomState::new().build_hasher().finish() as u32 & 0xff_ffff
}
