//! Waiting for something to happen, within bounds: the other end may have died, the port gone down.

use std::thread;
use std::time::Duration;

use rocade_core::PortNum;

use super::clock;
use super::conversation::Conversation;
use crate::cq::CompletionQueue;
use crate::error::VerbsError;

/// Looks in vain before the clock is read and other threads may run: some tens of microseconds.
const LOOKS: u32 = 1024;
/// The same where a software HCA's part of the kernel waits for the only CPU there is. An instruction that makes a spin
/// loop cheaper is in neither: it delays what is measured, and an emulated CPU much more.
const LOOKS_ALONE: u32 = 64;
/// Looks in vain, a power of two, before that part may run.
const LOOKS_TO_GIVE_WAY: u32 = 4;
/// Events are looked for at such a distance, ns.
const EVENTS: u64 = 20_000_000;

/// While nothing happens, the other end's connection is looked at with such a distance, ns.
pub(super) const LOOK: u64 = 200_000_000;

/// Whether the other end has given up or gone, where it is time to look; when the next time is, is kept in `due`.
pub(super) fn look(conversation: &Conversation<'_>, now: u64, due: &mut u64) -> Result<(), VerbsError> {
    if now < *due {
        return Ok(());
    }
    *due = now + LOOK;
    conversation.look()
}

/// How long nothing has happened.
pub(crate) struct Silence<'a> {
    cq: &'a CompletionQueue,
    port: PortNum,
    timeout: Duration,
    events: bool,
    is_armed: bool,
    /// Looks in vain since the last pause, and how many there are between two.
    looks: u32,
    between: u32,
    /// Bits of `looks` that are all 0 when other threads may run.
    gives_way: u32,
    since: Option<u64>,
    event_due: u64,
}

impl<'a> Silence<'a> {
    /// Of QPs on that port. With `events` it sleeps on the queue, which must have been made with them.
    pub(crate) fn new(
        cq: &'a CompletionQueue,
        port: PortNum,
        timeout: Duration,
        events: bool,
    ) -> Silence<'a> {
        let is_alone =
            cq.device().is_software() && thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        let (between, gives_way) = match (events, is_alone) {
            (true, _) => (1, u32::MAX),
            (false, true) => (LOOKS_ALONE, LOOKS_TO_GIVE_WAY - 1),
            (false, false) => (LOOKS, u32::MAX),
        };
        Silence {
            cq,
            port,
            timeout,
            events,
            is_armed: false,
            looks: 0,
            between,
            gives_way,
            since: None,
            event_due: 0,
        }
    }

    /// Something happened.
    #[inline]
    pub(crate) fn broken(&mut self) {
        self.looks = 0;
        self.since = None;
    }

    /// Nothing happened at one more look. Gives the time where the clock was read, so that the caller may look at other
    /// things too.
    ///
    /// # Errors
    /// Nothing happened for the timeout, or an event says that nothing will. Messages before it are the caller's to add
    /// ([`VerbsError::after`]).
    #[inline]
    pub(crate) fn goes_on(&mut self) -> Result<Option<u64>, VerbsError> {
        self.looks += 1;
        if self.looks < self.between {
            if self.looks & self.gives_way == 0 {
                thread::yield_now();
            }
            return Ok(None);
        }
        self.pause().map(Some)
    }

    #[cold]
    fn pause(&mut self) -> Result<u64, VerbsError> {
        self.looks = 0;
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        let left = self.timeout.saturating_sub(Duration::from_nanos(now - since));
        if left.is_zero() {
            return Err(VerbsError::Silence { seconds: self.timeout.as_secs(), done: 0, of: None });
        }
        if now >= self.event_due {
            self.event_due = now + EVENTS;
            self.look_for_event()?;
        }
        if !self.events {
            thread::yield_now();
        } else if self.is_armed {
            self.is_armed = !self.cq.wait(left.min(Duration::from_nanos(EVENTS)))?;
        } else {
            // What completed before makes no event: the caller looks once more before it sleeps.
            self.cq.arm()?;
            self.is_armed = true;
        }
        Ok(now)
    }

    fn look_for_event(&self) -> Result<(), VerbsError> {
        while let Some(event) = self.cq.device().take_event()? {
            if event.ends_a_test_on(self.port) {
                let on = event.port.map_or_else(
                    || self.cq.device().name().to_string(),
                    |port| self.cq.device().port_name(port),
                );
                return Err(VerbsError::Event { event: event.text, on, done: 0 });
            }
        }
        Ok(())
    }
}
