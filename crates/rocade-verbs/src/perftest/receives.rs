//! Receives that each QP keeps posted, whatever the size of the message that comes into one.

use std::ops::Range;
use std::rc::Rc;

use super::layout::Layout;
use crate::cq::CompletionQueue;
use crate::error::VerbsError;
use crate::mr::MemoryRegion;
use crate::qp::QueuePair;
use crate::ring::ReceiveRing;

/// In the `wr_id` of a receive; a send has the number of its message below, and both the QP between.
pub(super) const RECEIVE: u64 = 1 << 63;
const QP_AT: u32 = 40;
/// The number of a message.
pub(super) const NUMBER: u64 = (1 << QP_AT) - 1;

/// As many are posted again at once.
const TOGETHER: u32 = 16;

/// What goes into the `wr_id` of a QP's requests.
pub(super) fn tag(qp: usize) -> u64 {
    (qp as u64) << QP_AT
}

/// The QP of such a request.
#[inline]
pub(super) fn qp_of(wr_id: u64) -> usize {
    ((wr_id & !RECEIVE) >> QP_AT) as usize
}

/// Those of all QPs.
pub(super) struct Receives {
    lanes: Vec<Lane>,
    together: u32,
}

struct Lane {
    ring: ReceiveRing,
    slots: Vec<Range<usize>>,
    /// Slot of the next message.
    next: usize,
    taken: u32,
}

impl Receives {
    /// Posts all of them.
    pub(super) fn post_all(
        qps: &[Rc<QueuePair>],
        region: &Rc<MemoryRegion>,
        layout: &Layout,
    ) -> Result<Receives, VerbsError> {
        let lane = |(at, qp): (usize, &Rc<QueuePair>)| {
            let slots = layout.receive_slots(at);
            let mut ring = ReceiveRing::new(qp, region, &slots, RECEIVE | tag(at))?;
            ring.post(slots.len())?;
            Ok(Lane { ring, slots, next: 0, taken: 0 })
        };
        let lanes = qps.iter().enumerate().map(lane).collect::<Result<Vec<_>, VerbsError>>()?;
        Ok(Receives { lanes, together: TOGETHER.min(layout.receives().div_ceil(2)) })
    }

    /// Where the message lies that a QP got last; its receive is used up.
    #[inline]
    pub(super) fn take(&mut self, qp: usize) -> usize {
        let lane = &mut self.lanes[qp];
        let start = lane.slots[lane.next].start;
        lane.next = if lane.next + 1 == lane.slots.len() { 0 } else { lane.next + 1 };
        lane.taken += 1;
        start
    }

    /// Posts those of a QP again that were used up, once there are some.
    #[inline]
    pub(super) fn refill(&mut self, qp: usize) -> Result<(), VerbsError> {
        let lane = &mut self.lanes[qp];
        if lane.taken < self.together {
            return Ok(());
        }
        lane.ring.post(std::mem::take(&mut lane.taken) as usize)
    }

    /// Takes what completed after the end of the size before, so that it is not counted again, and posts all again.
    pub(super) fn drop_old(&mut self, cq: &CompletionQueue) -> Result<(), VerbsError> {
        while let Some(old) = cq.poll()? {
            if old.status == 0 && old.wr_id & RECEIVE != 0 {
                self.take(qp_of(old.wr_id));
            }
        }
        self.refill_all()
    }

    /// Posts all again that were used up.
    pub(super) fn refill_all(&mut self) -> Result<(), VerbsError> {
        let mut taken = self.lanes.iter_mut().filter(|lane| lane.taken > 0);
        taken.try_for_each(|lane| lane.ring.post(std::mem::take(&mut lane.taken) as usize))
    }
}
