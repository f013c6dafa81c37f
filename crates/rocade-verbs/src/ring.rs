//! Work requests that are made once and posted again and again, several with one call: posting one allocates nothing
//! and builds nothing.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use rocade_core::pair::perf::Operation;

use crate::bindings::{self as ffi, ibv_recv_wr, ibv_send_wr, ibv_sge};
use crate::error::{VerbsError, errno_of};
use crate::mr::MemoryRegion;
use crate::qp::{PostReceive, PostSend, QueuePair};

/// One request of a ring: a part of our region, and for a write or read where it goes to or comes from.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Bytes of the region.
    pub local: Range<usize>,
    /// Address at the other end; unused by a send.
    pub remote_address: u64,
    /// Key of the other end's memory; unused by a send.
    pub rkey: u32,
}

/// Sends, writes or reads of one QP, in a circle.
pub struct SendRing {
    circle: Circle<ibv_send_wr>,
    post: PostSend,
    signals: Signals,
    qp: Rc<QueuePair>,
    #[expect(dead_code, reason = "keeps the memory that the requests name")]
    region: Rc<MemoryRegion>,
}

/// Receives of one QP, in a circle.
pub struct ReceiveRing {
    circle: Circle<ibv_recv_wr>,
    post: PostReceive,
    qp: Rc<QueuePair>,
    #[expect(dead_code, reason = "keeps the memory that the requests name")]
    region: Rc<MemoryRegion>,
}

impl SendRing {
    /// Makes the requests. Those up to the QP's inline size and `inline_bytes` go inline (never reads); every
    /// `moderation`-th of those posted is signalled. The `wr_id` of each is `tag` with the number of messages posted up to
    /// it, as one that fails completes in any case. `slots` is not empty.
    ///
    /// # Errors
    /// A slot lies outside of the region.
    pub fn new(
        qp: &Rc<QueuePair>,
        region: &Rc<MemoryRegion>,
        operation: Operation,
        slots: &[Slot],
        inline_bytes: u32,
        moderation: u32,
        tag: u64,
    ) -> Result<SendRing, VerbsError> {
        let limit = inline_bytes.min(qp.max_inline_bytes());
        let entries =
            slots.iter().map(|slot| region.entry(slot.local.clone())).collect::<Result<Vec<_>, _>>()?;
        let requests = slots.iter().zip(&entries).map(|(slot, entry)| {
            let inline = operation != Operation::Read && entry.length <= limit;
            send_request(operation, slot, inline)
        });
        let circle = Circle::new(requests.collect(), entries);
        let post = qp.post_send_operation();
        let (qp, region) = (qp.clone(), region.clone());
        let signals = Signals { moderation: moderation.max(1), unsignalled: 0, tag, posted: 0 };
        Ok(SendRing { circle, post, signals, qp, region })
    }

    /// Posts the next `count` requests, at most as many as there are; with `is_last` the last of them is signalled
    /// whatever its number.
    ///
    /// # Errors
    /// ibv_post_send: ENOMEM where more are under way than the QP has room for.
    #[inline]
    pub fn post(&mut self, count: usize, is_last: bool) -> Result<(), VerbsError> {
        let (first, last) = self.circle.take(count);
        self.signals.mark(first, count, is_last);
        let mut bad = ptr::null_mut();
        // SAFETY: the QP lives, as do the requests, which form a chain that ends at `last`; the provider copies them.
        let result = unsafe { (self.post)(self.qp.raw.as_ptr(), first, &mut bad) };
        self.circle.close(last);
        if result != 0 { Err(post_failed("ibv_post_send", &self.qp, result)) } else { Ok(()) }
    }

    /// Messages posted since it was made.
    #[inline]
    pub fn posted(&self) -> u64 {
        self.signals.posted
    }

    /// Whether the latest message makes no completion.
    pub fn is_unsignalled(&self) -> bool {
        self.signals.unsignalled > 0
    }
}

impl ReceiveRing {
    /// Makes the requests; a completion's `wr_id` is `tag`. `slots` is not empty.
    ///
    /// # Errors
    /// A slot lies outside of the region.
    pub fn new(
        qp: &Rc<QueuePair>,
        region: &Rc<MemoryRegion>,
        slots: &[Range<usize>],
        tag: u64,
    ) -> Result<ReceiveRing, VerbsError> {
        let entries = slots.iter().map(|slot| region.entry(slot.clone())).collect::<Result<Vec<_>, _>>()?;
        let request = || ibv_recv_wr { wr_id: tag, num_sge: 1, ..Default::default() };
        let circle = Circle::new(slots.iter().map(|_| request()).collect(), entries);
        Ok(ReceiveRing { circle, post: qp.post_receive_operation(), qp: qp.clone(), region: region.clone() })
    }

    /// Posts the next `count` receives, at most as many as there are.
    ///
    /// # Errors
    /// ibv_post_recv: ENOMEM where more are posted than the QP has room for.
    #[inline]
    pub fn post(&mut self, count: usize) -> Result<(), VerbsError> {
        let (first, last) = self.circle.take(count);
        let mut bad = ptr::null_mut();
        // SAFETY: as in `SendRing::post`.
        let result = unsafe { (self.post)(self.qp.raw.as_ptr(), first, &mut bad) };
        self.circle.close(last);
        if result != 0 { Err(post_failed("ibv_post_recv", &self.qp, result)) } else { Ok(()) }
    }
}

/// Which messages make a completion, and what it tells.
struct Signals {
    /// Every n-th does.
    moderation: u32,
    unsignalled: u32,
    /// Put over the message's number in `wr_id`.
    tag: u64,
    posted: u64,
}

impl Signals {
    /// Numbers those of the chain, and marks the ones that make a completion.
    #[inline]
    fn mark(&mut self, first: *mut ibv_send_wr, count: usize, is_last: bool) {
        let mut at = first;
        for left in (0..count).rev() {
            self.posted += 1;
            self.unsignalled += 1;
            // SAFETY: the chain has `count` requests, which nobody else reaches.
            let request = unsafe { &mut *at };
            request.wr_id = self.tag | self.posted;
            if self.unsignalled == self.moderation || (is_last && left == 0) {
                self.unsignalled = 0;
                request.send_flags |= ffi::IBV_SEND_SIGNALED;
            } else {
                request.send_flags &= !ffi::IBV_SEND_SIGNALED;
            }
            at = request.next;
        }
    }
}

#[cold]
fn post_failed(verb: &'static str, qp: &QueuePair, result: i32) -> VerbsError {
    let source = errno_of(result).unwrap_or_else(io::Error::last_os_error);
    VerbsError::Call { verb, operand: qp.operand(), source }
}

fn send_request(operation: Operation, slot: &Slot, inline: bool) -> ibv_send_wr {
    let mut request = ibv_send_wr {
        num_sge: 1,
        opcode: match operation {
            Operation::Write => ffi::IBV_WR_RDMA_WRITE,
            Operation::Read => ffi::IBV_WR_RDMA_READ,
            Operation::Send => ffi::IBV_WR_SEND,
        },
        send_flags: if inline { ffi::IBV_SEND_INLINE } else { 0 },
        ..Default::default()
    };
    request.wr.rdma.remote_addr = slot.remote_address;
    request.wr.rdma.rkey = slot.rkey;
    request
}

/// Requests whose `next` leads around; a part of them is handed out as a chain that ends.
struct Circle<R: Request> {
    /// Reached through this pointer alone, as the requests point at each other and at the entries.
    requests: NonNull<R>,
    entries: NonNull<ibv_sge>,
    length: usize,
    next: usize,
}

/// What a send and a receive request have alike.
trait Request {
    fn lead(&mut self, next: *mut Self);
    fn set_entry(&mut self, entry: *mut ibv_sge);
}

impl Request for ibv_send_wr {
    fn lead(&mut self, next: *mut Self) {
        self.next = next;
    }
    fn set_entry(&mut self, entry: *mut ibv_sge) {
        self.sg_list = entry;
    }
}

impl Request for ibv_recv_wr {
    fn lead(&mut self, next: *mut Self) {
        self.next = next;
    }
    fn set_entry(&mut self, entry: *mut ibv_sge) {
        self.sg_list = entry;
    }
}

impl<R: Request> Circle<R> {
    /// Of as many requests as entries, not none.
    fn new(requests: Vec<R>, entries: Vec<ibv_sge>) -> Circle<R> {
        assert!(!requests.is_empty() && requests.len() == entries.len(), "a ring of nothing");
        let length = requests.len();
        let (requests, entries) = (leak(requests), leak(entries));
        let circle = Circle { requests, entries, length, next: 0 };
        for at in 0..length {
            // SAFETY: both indexes are inside of what was just made.
            unsafe {
                (*circle.request(at)).set_entry(entries.as_ptr().add(at));
                (*circle.request(at)).lead(circle.request((at + 1) % length));
            }
        }
        circle
    }

    /// The next `count` as a chain that ends: its first and its last. `close` is due before the next one.
    fn take(&mut self, count: usize) -> (*mut R, *mut R) {
        assert!(count > 0 && count <= self.length, "{count} requests of a ring of {}", self.length);
        let end = self.next + count - 1;
        let last = if end < self.length { end } else { end - self.length };
        let ends = (self.request(self.next), self.request(last));
        self.next = if last + 1 == self.length { 0 } else { last + 1 };
        // SAFETY: inside of the circle.
        unsafe { (*ends.1).lead(ptr::null_mut()) };
        ends
    }

    /// Makes a circle of it again after the chain that ends with `last`.
    fn close(&mut self, last: *mut R) {
        // SAFETY: `last` is of this circle, and `next` the one after it.
        unsafe { (*last).lead(self.request(self.next)) };
    }

    fn request(&self, at: usize) -> *mut R {
        debug_assert!(at < self.length);
        // SAFETY: callers keep `at` below the length.
        unsafe { self.requests.as_ptr().add(at) }
    }
}

impl<R: Request> Drop for Circle<R> {
    fn drop(&mut self) {
        // SAFETY: both were leaked in `new` with this length; providers copy requests when they are posted.
        unsafe {
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(self.requests.as_ptr(), self.length)));
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(self.entries.as_ptr(), self.length)));
        }
    }
}

fn leak<T>(items: Vec<T>) -> NonNull<T> {
    NonNull::from(Box::leak(items.into_boxed_slice())).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(length: usize) -> Circle<ibv_send_wr> {
        let requests = (0..length).map(|n| ibv_send_wr { wr_id: n as u64, ..Default::default() });
        Circle::new(requests.collect(), vec![ibv_sge::default(); length])
    }

    /// Walks a chain as a provider does.
    fn walk(first: *mut ibv_send_wr) -> Vec<u64> {
        let mut seen = Vec::new();
        let mut at = first;
        while let Some(request) = NonNull::new(at) {
            // SAFETY: of the circle that the test holds.
            let request = unsafe { request.as_ref() };
            seen.push(request.wr_id);
            at = request.next;
        }
        seen
    }

    #[test]
    fn chains_of_any_length_follow_each_other_around_and_each_ends() {
        for length in 1..6 {
            let mut circle = circle(length);
            let mut wanted = (0..length as u64).cycle();
            for count in (1..=length).chain((1..=length).rev()).cycle().take(50) {
                let (first, last) = circle.take(count);
                let expected: Vec<u64> = wanted.by_ref().take(count).collect();
                assert_eq!(walk(first), expected, "{count} of {length}");
                circle.close(last);
            }
        }
    }

    /// The numbers that completions of so many chains would tell.
    fn signalled(moderation: u32, chains: &[(usize, bool)]) -> Vec<u64> {
        let mut circle = circle(7);
        let mut signals = Signals { moderation, unsignalled: 0, tag: 1 << 40, posted: 0 };
        let (mut told, mut all) = (Vec::new(), Vec::new());
        for &(count, is_last) in chains {
            let (first, last) = circle.take(count);
            signals.mark(first, count, is_last);
            let mut at = first;
            while let Some(request) = NonNull::new(at) {
                // SAFETY: of the circle above.
                let request = unsafe { request.as_ref() };
                all.push(request.wr_id);
                if request.send_flags & ffi::IBV_SEND_SIGNALED != 0 {
                    assert_eq!(request.wr_id >> 40, 1);
                    told.push(request.wr_id & 0xff_ffff);
                }
                at = request.next;
            }
            circle.close(last);
        }
        // One that fails tells its number too.
        assert!(all.iter().zip(1..).all(|(wr_id, number)| *wr_id == 1 << 40 | number), "{all:?}");
        told
    }

    #[test]
    fn every_nth_message_is_signalled_whatever_the_chains_and_the_last_one_always() {
        assert_eq!(signalled(1, &[(3, false)]), [1, 2, 3]);
        assert_eq!(signalled(4, &[(3, false), (7, false), (2, true)]), [4, 8, 12]);
        assert_eq!(signalled(4, &[(7, false), (3, true)]), [4, 8, 10]);
        assert_eq!(signalled(100, &[(7, false); 40]), [100, 200]);
        assert_eq!(signalled(100, &[(7, true), (7, false), (7, true)]), [7, 21]);
    }

    #[test]
    fn each_request_has_an_entry_of_its_own() {
        let circle = circle(3);
        // SAFETY: inside of the circle.
        let entries: Vec<_> = (0..3).map(|at| unsafe { (*circle.request(at)).sg_list as usize }).collect();
        assert!(entries[0] < entries[1] && entries[1] < entries[2]);
    }
}
