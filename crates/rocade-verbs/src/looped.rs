//! Writes of a port to itself: two RC QPs of this process that are connected with each other, and the bytes compared.
//! It needs no other end, and so no connected stream. What a failure means is not told here.

use std::rc::Rc;
use std::time::Duration;

use rocade_core::pair::Endpoint;
use rocade_core::pair::perf::Operation;
use rocade_core::{GidIndex, HcaName, PortNum};

use crate::cq::CompletionQueue;
use crate::data::{compare, fill};
use crate::device::{Device, Mtu};
use crate::error::VerbsError;
use crate::library::Library;
use crate::mr::{Access, MemoryRegion};
use crate::pages::Pages;
use crate::pd::ProtectionDomain;
use crate::perftest::silence::Silence;
use crate::pingpong::{ACK_TIMEOUT, HOP_LIMIT, random_psn, read_gid};
use crate::qp::{Capacity, Path, QueuePair};
use crate::ring::{SendRing, Slot};

/// What is written over.
#[derive(Debug, Clone)]
pub struct Over {
    /// The HCA.
    pub hca: HcaName,
    /// Its port.
    pub port: PortNum,
    /// Index of the GID; None leads by LID, which only InfiniBand allows.
    pub gid_index: Option<GidIndex>,
    /// For each message.
    pub timeout: Duration,
}

/// Bytes of a message: several packets of any path MTU.
const MESSAGE: usize = 64 << 10;
/// Messages, each with bytes of its own, so that none is taken for the one before.
const MESSAGES: u64 = 4;
/// Completions that may be there at once: one a QP, should both fail.
const COMPLETIONS: u32 = 4;
const ACCESS: Access = Access { remote_write: true, remote_read: false, relaxed_ordering: false };

/// Writes some messages to this port itself and compares them. Gives the bytes that arrived as they were written. All
/// verbs objects are gone afterwards.
///
/// # Errors
/// What cannot be made, a completion with an error, silence for the timeout, or the first byte that differs.
pub fn write_looped(library: &Rc<Library>, over: &Over) -> Result<u64, VerbsError> {
    let device = Device::open(library, &over.hca)?;
    let pd = ProtectionDomain::new(&device)?;
    // Before the QPs, so that it goes after them: the HCA has let go of the memory by then.
    let region = Rc::new(MemoryRegion::with(&pd, 2 * MESSAGE, ACCESS, Pages::Usual)?);
    let cq = CompletionQueue::new(&device, COMPLETIONS, false)?;
    let writer = connected_with_itself(&device, &pd, &cq, over)?;
    let slot =
        Slot { local: 0..MESSAGE, remote_address: region.address() + MESSAGE as u64, rkey: region.rkey() };
    let mut ring = SendRing::new(&writer.0, &region, Operation::Write, &[slot], 0, 1, 0)?;
    let (mut wanted, mut seen) = (vec![0; MESSAGE], vec![0; MESSAGE]);
    for message in 0..MESSAGES {
        fill(message << 32, &mut wanted);
        region.write(0, &wanted)?;
        ring.post(1, true)?;
        wait(&cq, message, over)?;
        region.read(MESSAGE, &mut seen)?;
        compare(message, 0, &seen, &wanted)?;
    }
    Ok(MESSAGES * MESSAGE as u64)
}

/// Two QPs in RTS, the writing one first. Neither goes before the other: they are one pair.
fn connected_with_itself(
    device: &Rc<Device>,
    pd: &Rc<ProtectionDomain>,
    cq: &Rc<CompletionQueue>,
    over: &Over,
) -> Result<(Rc<QueuePair>, Rc<QueuePair>), VerbsError> {
    let port = device.port(over.port)?;
    let gid = read_gid(device, over.port, over.gid_index)?;
    let path = Path {
        port: over.port,
        gid_index: over.gid_index,
        mtu: port.active_mtu.unwrap_or(Mtu::BYTES_1024),
        service_level: 0,
        traffic_class: 0,
        hop_limit: HOP_LIMIT,
        ack_timeout: ACK_TIMEOUT,
        reads_as_responder: 1,
        reads_as_initiator: 1,
    };
    let capacity = Capacity { sends: 1, receives: 1, inline_bytes: 0 };
    let make = || {
        let qp = QueuePair::new(pd, cq, capacity)?;
        qp.to_init(over.port, 0, ACCESS)?;
        let endpoint = Endpoint { lid: port.lid, qpn: qp.number(), psn: random_psn(), gid };
        Ok::<_, VerbsError>((Rc::new(qp), endpoint))
    };
    let ((writer, of_writer), (taker, of_taker)) = (make()?, make()?);
    for (qp, own, other) in [(&taker, &of_taker, &of_writer), (&writer, &of_writer, &of_taker)] {
        qp.to_rtr(&path, other)?;
        qp.to_rts(&path, own.psn)?;
    }
    Ok((writer, taker))
}

/// Until the message under way has completed; `done` before it have.
fn wait(cq: &CompletionQueue, done: u64, over: &Over) -> Result<(), VerbsError> {
    let mut silence = Silence::new(cq, over.port, over.timeout, false);
    loop {
        match cq.poll()? {
            Some(completion) if completion.status != 0 => return Err(cq.failed(&completion, "write", done)),
            Some(_) => return Ok(()),
            None => silence.goes_on().map(drop).map_err(|error| error.after(done))?,
        }
    }
}
