//! Reliably connected queue pairs: their states, and posting to them.

use std::ffi::c_int;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rocade_core::pair::Endpoint;
use rocade_core::{GidIndex, PortNum};

use crate::bindings::{self as ffi, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_recv_wr, ibv_send_wr};
use crate::cq::CompletionQueue;
use crate::device::{Mtu, port_number};
use crate::error::{VerbsError, check, errno_of, null};
use crate::mr::{Access, MemoryRegion};
use crate::pd::ProtectionDomain;

/// A queue pair of type RC whose sends and receives complete on one queue.
pub struct QueuePair {
    pub(crate) raw: NonNull<ibv_qp>,
    max_inline_bytes: u32,
    pd: Rc<ProtectionDomain>,
    cq: Rc<CompletionQueue>,
}

/// The way to the other end's QP, and how patient ours is on it.
#[derive(Debug, Clone, Copy)]
pub struct Path {
    /// Port of ours.
    pub port: PortNum,
    /// GID of ours, for a global route header; without it the LID leads.
    pub gid_index: Option<GidIndex>,
    /// Path MTU.
    pub mtu: Mtu,
    /// Service level.
    pub service_level: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Routers that a packet may pass, and one.
    pub hop_limit: u8,
    /// Time until a packet without an answer is sent again, 7 times in all: 4.096 µs · 2ⁿ; 0 is for ever.
    pub ack_timeout: u8,
    /// Reads that our QP answers at once.
    pub reads_as_responder: u8,
    /// Reads that our QP may have under way.
    pub reads_as_initiator: u8,
}

/// Room of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Outstanding sends, writes and reads.
    pub sends: u32,
    /// Outstanding receives.
    pub receives: u32,
    /// Bytes of a message that may go inline, at least.
    pub inline_bytes: u32,
}

/// The QP itself, and the requests that [`crate::ring`] keeps for it, bytes.
const QP_BYTES: u64 = 16 << 10;
/// A request with its completion: 64 to 256 bytes in a provider's queues, 64 to 128 in a completion queue.
const REQUEST_BYTES: u64 = 384;
/// No provider has more inline.
const MOST_INLINE: u32 = 1024;

impl Capacity {
    /// Memory that a QP of this room takes with its part of a completion queue, bytes: about what those providers take
    /// that take most.
    pub fn memory_bytes(&self) -> u64 {
        let send = REQUEST_BYTES + u64::from(self.inline_bytes.min(MOST_INLINE));
        QP_BYTES + u64::from(self.sends) * send + u64::from(self.receives) * REQUEST_BYTES
    }
}

pub(crate) type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub(crate) type PostReceive =
    unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// Stand in for a provider without the operation.
unsafe extern "C" fn cannot_send(_: *mut ibv_qp, _: *mut ibv_send_wr, _: *mut *mut ibv_send_wr) -> c_int {
    libc::EOPNOTSUPP
}
unsafe extern "C" fn cannot_receive(_: *mut ibv_qp, _: *mut ibv_recv_wr, _: *mut *mut ibv_recv_wr) -> c_int {
    libc::EOPNOTSUPP
}

/// A receive that finds none posted makes the sender wait 0.64 ms (code 12) before it tries again.
const MIN_RNR_TIMER: u8 = 12;
const RETRIES: u8 = 7;
/// 7 is for ever.
const RNR_RETRIES: u8 = 7;

impl QueuePair {
    /// Makes one with room for that many outstanding sends and receives of one piece each.
    ///
    /// # Errors
    /// ibv_create_qp: EINVAL or ENOMEM where the device cannot give that room, inline bytes included.
    pub fn new(
        pd: &Rc<ProtectionDomain>,
        cq: &Rc<CompletionQueue>,
        capacity: Capacity,
    ) -> Result<QueuePair, VerbsError> {
        let mut attributes = ffi::ibv_qp_init_attr {
            send_cq: cq.raw.as_ptr(),
            recv_cq: cq.raw.as_ptr(),
            qp_type: ffi::IBV_QPT_RC,
            ..Default::default()
        };
        attributes.cap = ffi::ibv_qp_cap {
            max_send_wr: capacity.sends,
            max_recv_wr: capacity.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: capacity.inline_bytes,
        };
        // SAFETY: PD and CQ live as long as the QP that holds them; the attributes outlive the call.
        let raw = unsafe { pd.device.library.verbs.ibv_create_qp(pd.raw.as_ptr(), &mut attributes) };
        let Capacity { sends, receives, inline_bytes } = capacity;
        let operand = || {
            let name = pd.device.name();
            format!("{name} for {sends} sends and {receives} receives, {inline_bytes} bytes inline")
        };
        let raw = NonNull::new(raw).ok_or_else(|| null("ibv_create_qp", operand()))?;
        // What the provider gives beyond what was asked for.
        let max_inline_bytes = attributes.cap.max_inline_data;
        Ok(QueuePair { raw, max_inline_bytes, pd: pd.clone(), cq: cq.clone() })
    }

    /// Messages of so many bytes may go inline.
    pub fn max_inline_bytes(&self) -> u32 {
        self.max_inline_bytes
    }

    /// Its number, 24 bits.
    pub fn number(&self) -> u32 {
        // SAFETY: the QP lives as long as `self`.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// The queue that its work requests complete on.
    pub fn completions(&self) -> &CompletionQueue {
        &self.cq
    }

    /// RESET → INIT on a port, within the partition at an index of its pkey table, with what is allowed from remote:
    /// receives can be posted.
    pub fn to_init(&self, port: PortNum, pkey_index: u16, access: Access) -> Result<(), VerbsError> {
        let attributes = ibv_qp_attr {
            qp_state: ffi::IBV_QPS_INIT,
            port_num: port_number(port),
            pkey_index,
            qp_access_flags: access.remote_flags(),
            ..Default::default()
        };
        let mask = ffi::IBV_QP_STATE | ffi::IBV_QP_PKEY_INDEX | ffi::IBV_QP_PORT | ffi::IBV_QP_ACCESS_FLAGS;
        self.modify("INIT", attributes, mask)
    }

    /// INIT → RTR: bound to the other end, and receiving.
    ///
    /// # Errors
    /// ibv_modify_qp refuses it, or the GID's index is beyond the byte that verbs have for it.
    pub fn to_rtr(&self, path: &Path, remote: &Endpoint) -> Result<(), VerbsError> {
        let attributes = ibv_qp_attr {
            qp_state: ffi::IBV_QPS_RTR,
            path_mtu: path.mtu.raw(),
            dest_qp_num: remote.qpn,
            rq_psn: remote.psn,
            max_dest_rd_atomic: path.reads_as_responder,
            min_rnr_timer: MIN_RNR_TIMER,
            ah_attr: address(path, remote)?,
            ..Default::default()
        };
        let mask = ffi::IBV_QP_STATE
            | ffi::IBV_QP_AV
            | ffi::IBV_QP_PATH_MTU
            | ffi::IBV_QP_DEST_QPN
            | ffi::IBV_QP_RQ_PSN
            | ffi::IBV_QP_MAX_DEST_RD_ATOMIC
            | ffi::IBV_QP_MIN_RNR_TIMER;
        self.modify("RTR", attributes, mask)
    }

    /// RTR → RTS: sending as well, from this packet sequence number on.
    pub fn to_rts(&self, path: &Path, psn: u32) -> Result<(), VerbsError> {
        let attributes = ibv_qp_attr {
            qp_state: ffi::IBV_QPS_RTS,
            sq_psn: psn,
            timeout: path.ack_timeout,
            retry_cnt: RETRIES,
            rnr_retry: RNR_RETRIES,
            max_rd_atomic: path.reads_as_initiator,
            ..Default::default()
        };
        let mask = ffi::IBV_QP_STATE
            | ffi::IBV_QP_TIMEOUT
            | ffi::IBV_QP_RETRY_CNT
            | ffi::IBV_QP_RNR_RETRY
            | ffi::IBV_QP_SQ_PSN
            | ffi::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("RTS", attributes, mask)
    }

    /// Posts a send of a part of a region; it goes inline when the provider has room for it. ENOMEM: as many as the QP
    /// has room for are under way.
    pub fn post_send(&self, wr_id: u64, region: &MemoryRegion, part: Range<usize>) -> Result<(), VerbsError> {
        let mut entry = region.entry(part)?;
        let inline = if entry.length <= self.max_inline_bytes { ffi::IBV_SEND_INLINE } else { 0 };
        let mut request = ibv_send_wr {
            wr_id,
            sg_list: &mut entry,
            num_sge: 1,
            opcode: ffi::IBV_WR_SEND,
            send_flags: ffi::IBV_SEND_SIGNALED | inline,
            ..Default::default()
        };
        let mut bad = ptr::null_mut();
        // SAFETY: request and entry outlive the call, which copies them. The memory is that of a registered region; if
        // the region goes before the request is done, its key dies with it, and the HCA ends the request with an error.
        let result = unsafe { self.post_send_operation()(self.raw.as_ptr(), &mut request, &mut bad) };
        check("ibv_post_send", || self.operand(), result)
    }

    /// Posts a receive into a part of a region. ENOMEM: as for a send.
    pub fn post_receive(
        &self,
        wr_id: u64,
        region: &MemoryRegion,
        part: Range<usize>,
    ) -> Result<(), VerbsError> {
        let mut entry = region.entry(part)?;
        let mut request = ibv_recv_wr { wr_id, sg_list: &mut entry, num_sge: 1, ..Default::default() };
        let mut bad = ptr::null_mut();
        // SAFETY: as in `post_send`.
        let result = unsafe { self.post_receive_operation()(self.raw.as_ptr(), &mut request, &mut bad) };
        check("ibv_post_recv", || self.operand(), result)
    }

    pub(crate) fn post_send_operation(&self) -> PostSend {
        // SAFETY: the QP lives, and with it its context, whose operations the provider filled in.
        unsafe { (*self.raw.as_ref().context).ops.post_send }.unwrap_or(cannot_send)
    }

    pub(crate) fn post_receive_operation(&self) -> PostReceive {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ref().context).ops.post_recv }.unwrap_or(cannot_receive)
    }

    fn modify(
        &self,
        to: &'static str,
        mut attributes: ibv_qp_attr,
        mask: ibv_qp_attr_mask,
    ) -> Result<(), VerbsError> {
        let verbs = &self.pd.device.library.verbs;
        // SAFETY: the QP lives, and the attributes outlive the call.
        let result = unsafe { verbs.ibv_modify_qp(self.raw.as_ptr(), &mut attributes, mask as i32) };
        match errno_of(result) {
            None => Ok(()),
            Some(source) => {
                Err(VerbsError::Transition { hca: self.pd.device.name().to_string(), to, source })
            }
        }
    }

    pub(crate) fn operand(&self) -> String {
        format!("QP 0x{:06x} on {}", self.number(), self.pd.device.name())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: made in `new` and not destroyed since; afterwards the HCA touches no memory for it.
        unsafe { self.pd.device.library.verbs.ibv_destroy_qp(self.raw.as_ptr()) };
    }
}

pub(crate) fn address(path: &Path, remote: &Endpoint) -> Result<ffi::ibv_ah_attr, VerbsError> {
    let mut address = ffi::ibv_ah_attr {
        dlid: remote.lid,
        sl: path.service_level,
        port_num: port_number(path.port),
        ..Default::default()
    };
    // A GID of the other end without one of ours cannot be routed to; the stock tool sends all zeros for "none".
    if let Some(index) = path.gid_index.filter(|_| !remote.gid.is_zero()) {
        address.is_global = 1;
        address.grh = ffi::ibv_global_route {
            dgid: ffi::ibv_gid { raw: remote.gid.0 },
            sgid_index: u8::try_from(index.0).map_err(|_| VerbsError::GidBeyondByte { index: index.0 })?,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
            ..Default::default()
        };
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_verbs_cannot_carry_is_an_error_and_not_another_index() {
        let remote = Endpoint { lid: 0, qpn: 1, psn: 1, gid: rocade_core::Gid([1; 16]) };
        let path = |index| Path {
            port: PortNum(1),
            gid_index: Some(GidIndex(index)),
            mtu: Mtu::BYTES_1024,
            service_level: 0,
            traffic_class: 0,
            hop_limit: 64,
            ack_timeout: 14,
            reads_as_responder: 1,
            reads_as_initiator: 1,
        };
        assert_eq!(address(&path(255), &remote).unwrap().grh.sgid_index, 255);
        assert!(matches!(address(&path(256), &remote), Err(VerbsError::GidBeyondByte { index: 256 })));
    }
}
