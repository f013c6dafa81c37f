//! Completion queues, polled or waited for.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::time::Duration;

use crate::bindings::{ibv_comp_channel, ibv_cq, ibv_wc};
use crate::device::Device;
use crate::error::{VerbsError, check, null};

/// A completion queue.
pub struct CompletionQueue {
    pub(crate) raw: NonNull<ibv_cq>,
    poll: Poll,
    channel: Option<Channel>,
    device: Rc<Device>,
}

type Poll = unsafe extern "C" fn(*mut ibv_cq, i32, *mut ibv_wc) -> i32;

/// Room for so many completions of one poll.
const BATCH: usize = 32;

/// The completions of one poll, kept to be filled again.
pub struct Batch {
    entries: Box<[MaybeUninit<ibv_wc>; BATCH]>,
    filled: usize,
}

impl Batch {
    /// An empty one.
    pub fn new() -> Batch {
        Batch { entries: Box::new([const { MaybeUninit::uninit() }; BATCH]), filled: 0 }
    }

    /// The completions of the last poll, oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Completion> + '_ {
        // SAFETY: the first `filled` entries were written by the provider.
        self.entries[..self.filled].iter().map(|entry| Completion::of(unsafe { entry.assume_init_ref() }))
    }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

/// How a work request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The number that the request was posted with.
    pub wr_id: u64,
    /// `enum ibv_wc_status`; 0 is success.
    pub status: u32,
    /// Bytes that a receive got; meaningless for a send or an error.
    pub bytes: u32,
    /// The vendor's own code of an error; meaningless for a success.
    pub vendor_err: u32,
}

impl Completion {
    fn of(entry: &ibv_wc) -> Completion {
        Completion {
            wr_id: entry.wr_id,
            status: entry.status,
            bytes: entry.byte_len,
            vendor_err: entry.vendor_err,
        }
    }
}

impl CompletionQueue {
    /// Makes a queue of at least `entries`; with `events` it can be waited for.
    pub fn new(device: &Rc<Device>, entries: u32, events: bool) -> Result<Rc<CompletionQueue>, VerbsError> {
        let channel = events.then(|| Channel::new(device)).transpose()?;
        let raw_channel = channel.as_ref().map_or(ptr::null_mut(), |c| c.raw.as_ptr());
        let entries = i32::try_from(entries).unwrap_or(i32::MAX);
        // SAFETY: device and channel live as long as the queue that holds them.
        let raw = unsafe {
            let verbs = &device.library.verbs;
            verbs.ibv_create_cq(device.raw.as_ptr(), entries, ptr::null_mut(), raw_channel, 0)
        };
        let operand = || format!("{} for {entries} entries", device.name());
        let raw = NonNull::new(raw).ok_or_else(|| null("ibv_create_cq", operand()))?;
        // SAFETY: the provider filled in the operations of the device when it was opened.
        let poll = unsafe { device.raw.as_ref().ops.poll_cq }.unwrap_or(cannot_poll);
        Ok(Rc::new(CompletionQueue { raw, poll, channel, device: device.clone() }))
    }

    /// The oldest completion, if there is one.
    pub fn poll(&self) -> Result<Option<Completion>, VerbsError> {
        let mut wc = MaybeUninit::<ibv_wc>::uninit();
        // SAFETY: the queue lives; `wc` has room for the one entry asked for.
        match unsafe { (self.poll)(self.raw.as_ptr(), 1, wc.as_mut_ptr()) } {
            0 => Ok(None),
            // SAFETY: one entry was filled.
            1.. => Ok(Some(Completion::of(unsafe { wc.assume_init_ref() }))),
            negative => Err(self.poll_failed(negative)),
        }
    }

    /// Fills `batch` with the oldest completions, as many as there are and fit, and gives their number.
    #[inline]
    pub fn poll_many(&self, batch: &mut Batch) -> Result<usize, VerbsError> {
        batch.filled = 0;
        // SAFETY: the queue lives; the batch has room for as many entries as are asked for.
        let polled =
            unsafe { (self.poll)(self.raw.as_ptr(), BATCH as i32, batch.entries.as_mut_ptr().cast()) };
        match usize::try_from(polled) {
            Ok(filled) => {
                batch.filled = filled.min(BATCH);
                Ok(batch.filled)
            }
            Err(_) => Err(self.poll_failed(polled)),
        }
    }

    #[cold]
    fn poll_failed(&self, negative: i32) -> VerbsError {
        let source = io::Error::from_raw_os_error(-negative);
        VerbsError::Call { verb: "ibv_poll_cq", operand: self.device.name().to_string(), source }
    }

    /// The device that it is of.
    pub fn device(&self) -> &Rc<Device> {
        &self.device
    }

    /// Asks for an event at the next completion. What completed before is not told: poll once more, then wait.
    pub fn arm(&self) -> Result<(), VerbsError> {
        // SAFETY: as in `poll`.
        let result = unsafe {
            let ops = &(*self.device.raw.as_ptr()).ops;
            ops.req_notify_cq.map_or(libc::EOPNOTSUPP, |arm| arm(self.raw.as_ptr(), 0))
        };
        check("ibv_req_notify_cq", || self.device.name().to_string(), result)
    }

    /// Sleeps until an event that was asked for, and takes it; false after the timeout, and at once on a queue
    /// made without events.
    pub fn wait(&self, timeout: Duration) -> Result<bool, VerbsError> {
        let Some(channel) = &self.channel else { return Ok(false) };
        if !channel.is_readable_within(timeout)? {
            return Ok(false);
        }
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        let verbs = &self.device.library.verbs;
        // SAFETY: the channel lives, and both places outlive the call.
        let result = unsafe { verbs.ibv_get_cq_event(channel.raw.as_ptr(), &mut cq, &mut context) };
        check("ibv_get_cq_event", || self.device.name().to_string(), result)?;
        // SAFETY: the channel is this queue's alone, so the event is of this queue, which has not been destroyed.
        unsafe { verbs.ibv_ack_cq_events(cq, 1) };
        Ok(true)
    }

    /// The error that a completion tells of, after so many messages were done; `request` names what was posted.
    #[cold]
    pub(crate) fn failed(&self, completion: &Completion, request: &'static str, done: u64) -> VerbsError {
        VerbsError::Completion {
            request,
            status: completion.status,
            vendor_err: completion.vendor_err,
            text: self.status_text(completion.status),
            done,
        }
    }

    /// libibverbs' word for a status.
    fn status_text(&self, status: u32) -> String {
        // SAFETY: takes any number, and returns a constant string.
        let text = unsafe { CStr::from_ptr(self.device.library.verbs.ibv_wc_status_str(status)) };
        text.to_string_lossy().into_owned()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: its QPs hold an Rc of it, so none is left; each event was acknowledged when it was taken.
        unsafe { self.device.library.verbs.ibv_destroy_cq(self.raw.as_ptr()) };
    }
}

/// Stands in for a provider without the operation.
unsafe extern "C" fn cannot_poll(_: *mut ibv_cq, _: i32, _: *mut ibv_wc) -> i32 {
    -libc::EOPNOTSUPP
}

/// Where a queue's events come; destroyed after the queue, as a later field of it.
struct Channel {
    raw: NonNull<ibv_comp_channel>,
    device: Rc<Device>,
}

impl Channel {
    fn new(device: &Rc<Device>) -> Result<Channel, VerbsError> {
        // SAFETY: the device is open as long as it exists.
        let raw = unsafe { device.library.verbs.ibv_create_comp_channel(device.raw.as_ptr()) };
        let failed = || null("ibv_create_comp_channel", device.name().to_string());
        Ok(Channel { raw: NonNull::new(raw).ok_or_else(failed)?, device: device.clone() })
    }

    fn is_readable_within(&self, timeout: Duration) -> Result<bool, VerbsError> {
        // SAFETY: the channel lives.
        let fd = unsafe { self.raw.as_ref() }.fd;
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // Rounded up, so that the caller's clock has moved past its deadline after a timeout.
        let milliseconds = i32::try_from(timeout.as_millis() + 1).unwrap_or(i32::MAX);
        // SAFETY: one entry, which outlives the call.
        let ready = unsafe { libc::poll(&mut poll, 1, milliseconds) };
        match ready {
            0 => Ok(false),
            1.. => Ok(true),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
                source => {
                    let operand = format!("the completion channel of {}", self.device.name());
                    Err(VerbsError::Call { verb: "poll", operand, source })
                }
            },
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the queue that reports here was destroyed before its fields are dropped.
        unsafe { self.device.library.verbs.ibv_destroy_comp_channel(self.raw.as_ptr()) };
    }
}
