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
    channel: Option<Channel>,
    device: Rc<Device>,
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
        Ok(Rc::new(CompletionQueue { raw, channel, device: device.clone() }))
    }

    /// The oldest completion, if there is one.
    pub fn poll(&self) -> Result<Option<Completion>, VerbsError> {
        let mut wc = MaybeUninit::<ibv_wc>::uninit();
        // SAFETY: the queue's device stays open, and its provider fills every operation of an open device that it
        // supports; `wc` has room for the one entry asked for.
        let polled = unsafe {
            let ops = &(*self.device.raw.as_ptr()).ops;
            ops.poll_cq.map_or(-libc::EOPNOTSUPP, |poll| poll(self.raw.as_ptr(), 1, wc.as_mut_ptr()))
        };
        match polled {
            0 => Ok(None),
            1.. => {
                // SAFETY: one entry was filled.
                let wc = unsafe { wc.assume_init() };
                Ok(Some(Completion { wr_id: wc.wr_id, status: wc.status, bytes: wc.byte_len }))
            }
            negative => {
                let source = io::Error::from_raw_os_error(-negative);
                Err(VerbsError::Call { verb: "ibv_poll_cq", operand: self.device.name().to_string(), source })
            }
        }
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

    /// libibverbs' word for a status.
    pub fn status_text(&self, status: u32) -> String {
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
