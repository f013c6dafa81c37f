//! One message under way: how long each takes there and back, or a read takes whole.

use std::rc::Rc;
use std::time::Duration;

use rocade_core::pair::Role;
use rocade_core::pair::perf::statistics::Samples;
use rocade_core::pair::perf::{Amount, Operation, SizeResult, Test};

use super::conversation::{Conversation, Peer};
use super::data::Pattern;
use super::receives::{RECEIVE, Receives, tag};
use super::silence::{LOOK, Silence, look};
use super::{Event, PROGRESS, Perftest, Progress, clock};
use crate::cq::{Batch, Completion, CompletionQueue};
use crate::error::VerbsError;
use crate::mr::{Byte, MemoryRegion};
use crate::ring::{SendRing, Slot};

impl Perftest {
    /// One size at this end; None if it measures nothing.
    pub(super) fn run_latency(
        &mut self,
        message_bytes: u32,
        conversation: &mut Conversation<'_>,
        seen: &mut dyn FnMut(Event<'_>),
    ) -> Result<Option<SizeResult>, VerbsError> {
        let operation = self.setup.options.test.operation;
        if operation == Operation::Read && self.setup.role == Role::Server {
            self.fill_for_reader(message_bytes, conversation)?;
            conversation.before_size()?;
            return Ok(None);
        }
        let mut receives = self.receives.take();
        if let Some(receives) = &mut receives {
            receives.drop_old(&self.cq)?;
        }
        let mut turn = self.turn(message_bytes, receives, conversation, seen)?;
        conversation.before_size()?;
        let result = match operation {
            Operation::Read => turn.read(conversation),
            Operation::Write => turn.ping_pong(self.setup.role == Role::Server, conversation),
            Operation::Send => turn.ping_pong(self.setup.role == Role::Client, conversation),
        };
        let (receives, arrived) = (turn.receives.take(), turn.arrived);
        let result = result.map(|()| turn.result());
        self.receives = receives;
        self.done += arrived;
        match result? {
            None if self.setup.role == Role::Client && self.setup.options.sizes.each().len() == 1 => {
                Err(VerbsError::uncounted(&self.setup.options))
            }
            found => Ok(found),
        }
    }

    fn turn<'a>(
        &'a self,
        message_bytes: u32,
        receives: Option<Receives>,
        conversation: &Conversation<'_>,
        seen: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Turn<'a>, VerbsError> {
        let (options, bytes) = (&self.setup.options, message_bytes as usize);
        let (own, remote) = (self.layout.own_area(0), self.layout.remote_area(0));
        let slot =
            Slot { local: own..own + bytes, remote_address: self.remote[0].vaddr, rkey: self.remote[0].rkey };
        let ring = SendRing::new(
            &self.qps[0],
            &self.region,
            options.test.operation,
            &[slot],
            self.inline_bytes,
            1,
            tag(0),
        )?;
        // A stock end goes on to its next, larger size without a word, and may have written to it already.
        if matches!(conversation.peer(), Peer::Rocade { .. }) {
            self.region.fill(remote..remote + bytes, 0)?;
        }
        let (of, limit) = match options.amount {
            Amount::Iterations(count) => (Some(count), None),
            Amount::Seconds(seconds) => (None, Some(u64::from(seconds) * 1_000_000_000)),
        };
        let is_write = options.test.operation == Operation::Write;
        let longest = options.silence(message_bytes, self.setup.timeout);
        let patterns =
            |seed| (Pattern::new(seed, self.setup.role, 0), Pattern::new(seed, self.setup.role.other(), 0));
        Ok(Turn {
            test: options.test,
            message_bytes,
            seen,
            progress_due: 0,
            cq: &self.cq,
            region: &self.region,
            batch: Batch::new(),
            silence: Silence::new(&self.cq, self.setup.port, longest, options.events),
            ring,
            receives,
            flags: is_write.then(|| self.flags(own + bytes - 1, remote + bytes - 1)).transpose()?,
            patterns: self.seed(conversation).map(patterns),
            places: (own, remote),
            is_pending: false,
            arrived: 0,
            of,
            limit,
            margin: options.margin_nanoseconds(),
            start: 0,
            end: 0,
            look_due: 0,
            window: (0, u64::MAX),
            samples: Samples::new(of),
        })
    }

    fn flags(&self, own: usize, remote: usize) -> Result<(Byte, Byte), VerbsError> {
        Ok((self.region.byte(own)?, self.region.byte(remote)?))
    }

    /// A reader compares what it reads with this, each time.
    fn fill_for_reader(&self, bytes: u32, conversation: &Conversation<'_>) -> Result<(), VerbsError> {
        let Some(seed) = self.seed(conversation) else { return Ok(()) };
        let pattern = Pattern::new(seed, self.setup.role, 0);
        pattern.fill(&self.region, self.layout.remote_area(0), 0, bytes as usize)
    }
}

/// What the loop of one size works with.
struct Turn<'a> {
    test: Test,
    message_bytes: u32,
    seen: &'a mut dyn FnMut(Event<'_>),
    progress_due: u64,
    cq: &'a CompletionQueue,
    region: &'a Rc<MemoryRegion>,
    batch: Batch,
    silence: Silence<'a>,
    ring: SendRing,
    receives: Option<Receives>,
    /// Last byte of what we write, and of what is written to us.
    flags: Option<(Byte, Byte)>,
    /// Of our messages, and of the other end's.
    patterns: Option<(Pattern, Pattern)>,
    /// Where ours lie, and where the other end's writes go.
    places: (usize, usize),
    /// Our last message is under way.
    is_pending: bool,
    /// Messages that came.
    arrived: u64,
    of: Option<u64>,
    limit: Option<u64>,
    /// Of a test by time, ns.
    margin: u64,
    start: u64,
    end: u64,
    look_due: u64,
    /// When samples count, ns.
    window: (u64, u64),
    samples: Samples,
}

impl Turn<'_> {
    fn begin(&mut self) {
        self.start = clock::now();
        self.look_due = self.start + LOOK;
        self.progress_due = self.start + PROGRESS;
        if let Some(limit) = self.limit {
            self.window = (self.start + self.margin, self.start + limit - self.margin);
        }
    }

    /// Sends when the other end's message has come, one end first.
    fn ping_pong(&mut self, is_first: bool, peer: &Conversation<'_>) -> Result<(), VerbsError> {
        self.begin();
        let mut before = None;
        let mut sent = 0;
        loop {
            let is_all_sent = self.of.is_some_and(|of| sent == of);
            let is_all_there = self.of.is_some_and(|of| self.arrived == of);
            if is_all_sent && is_all_there {
                return self.finish_pending(peer);
            }
            let is_to_wait = !is_all_there && (!is_first || sent > 0);
            if is_to_wait && !self.wait_for(self.arrived + 1, peer)? {
                return self.finish_pending(peer);
            }
            if !is_all_sent {
                self.finish_pending(peer)?;
                let now = self.post(sent)?;
                self.sample(&mut before, now);
                sent += 1;
            }
            if let Some(receives) = &mut self.receives {
                receives.refill(0)?;
            }
        }
    }

    /// Reads one after the other.
    fn read(&mut self, peer: &Conversation<'_>) -> Result<(), VerbsError> {
        self.begin();
        let mut before = None;
        let mut sent = 0;
        while self.of.is_none_or(|of| sent < of) && !self.is_over() {
            if self.patterns.is_some() {
                self.region.fill(self.places.0..self.places.0 + self.message_bytes as usize, 0)?;
            }
            let now = self.post_read()?;
            self.sample(&mut before, now);
            self.finish_pending(peer)?;
            if let Some((_, theirs)) = &self.patterns {
                theirs.compare(self.region, self.places.0, 0, self.message_bytes as usize)?;
            }
            sent += 1;
            self.arrived = sent;
        }
        Ok(())
    }

    #[inline]
    fn sample(&mut self, before: &mut Option<u64>, now: u64) {
        if let Some(before) = before.replace(now)
            && (self.window.0..self.window.1).contains(&now)
        {
            self.samples.add(now - before);
        }
        self.end = now;
        if now >= self.progress_due {
            self.tell(now);
        }
    }

    #[cold]
    fn tell(&mut self, now: u64) {
        self.progress_due = now + PROGRESS;
        let Turn { test, message_bytes, arrived: done, of, start, .. } = *self;
        let elapsed = Duration::from_nanos(now - start);
        (self.seen)(Event::Progress(Progress { test, message_bytes, done, of, elapsed }));
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.limit.is_some_and(|limit| self.end.saturating_sub(self.start) > limit)
    }

    #[inline]
    fn post_read(&mut self) -> Result<u64, VerbsError> {
        let now = clock::now();
        self.ring.post(1, true)?;
        self.is_pending = true;
        Ok(now)
    }

    /// Posts our next message, counted from 0, and gives the time of it.
    #[inline]
    fn post(&mut self, message: u64) -> Result<u64, VerbsError> {
        if let Some((own, _)) = &self.patterns {
            own.fill(self.region, self.places.0, message, self.message_bytes as usize)?;
        }
        let now = clock::now();
        if let Some((own, _)) = &self.flags {
            own.store((message + 1) as u8);
        }
        self.ring.post(1, true)?;
        self.is_pending = true;
        Ok(now)
    }

    /// Until so many messages have come; false where the time of the test was up before.
    #[inline]
    fn wait_for(&mut self, arrived: u64, peer: &Conversation<'_>) -> Result<bool, VerbsError> {
        loop {
            let has_come = match &self.flags {
                Some((_, theirs)) => theirs.load() == arrived as u8,
                None => self.arrived >= arrived,
            };
            if has_come {
                self.silence.broken();
                return self.came(arrived).map(|()| true);
            }
            if (self.flags.is_none() || self.is_pending) && self.take_completions()? {
                continue;
            }
            if let Some(now) = self.silence.goes_on()? {
                if self.limit.is_some_and(|limit| now - self.start > limit) {
                    return Ok(false);
                }
                look(peer, now, &mut self.look_due)?;
            }
        }
    }

    /// Until our last message is done.
    #[inline]
    fn finish_pending(&mut self, peer: &Conversation<'_>) -> Result<(), VerbsError> {
        while self.is_pending {
            if !self.take_completions()?
                && let Some(now) = self.silence.goes_on()?
            {
                look(peer, now, &mut self.look_due)?;
            }
        }
        Ok(())
    }

    /// Whether there were any.
    #[inline]
    fn take_completions(&mut self) -> Result<bool, VerbsError> {
        if self.cq.poll_many(&mut self.batch)? == 0 {
            return Ok(false);
        }
        self.silence.broken();
        let batch = std::mem::take(&mut self.batch);
        let taken = batch.iter().try_for_each(|completion| self.take(&completion));
        self.batch = batch;
        taken.map(|()| true)
    }

    #[inline]
    fn take(&mut self, completion: &Completion) -> Result<(), VerbsError> {
        if completion.status != 0 {
            return Err(self.failed(completion));
        }
        if completion.wr_id & RECEIVE == 0 {
            self.is_pending = false;
            return Ok(());
        }
        if completion.bytes != self.message_bytes {
            return Err(VerbsError::Size { seen: completion.bytes, wanted: self.message_bytes });
        }
        self.arrived += 1;
        Ok(())
    }

    /// The message of this number, from 1, is there.
    #[inline]
    fn came(&mut self, number: u64) -> Result<(), VerbsError> {
        self.arrived = number;
        let place = match &mut self.receives {
            Some(receives) => receives.take(0),
            None => self.places.1,
        };
        let Some((_, theirs)) = &self.patterns else { return Ok(()) };
        // What a write ends with is its number.
        let bytes = self.message_bytes as usize - usize::from(self.flags.is_some());
        theirs.compare(self.region, place, number - 1, bytes)
    }

    #[cold]
    fn failed(&self, completion: &Completion) -> VerbsError {
        let request = if completion.wr_id & RECEIVE == 0 { "message" } else { "receive" };
        self.cq.failed(completion, request, 0)
    }

    /// Of a test by time only what is counted of it; None where that is nothing.
    fn result(self) -> Option<SizeResult> {
        let (messages, from, to) = match self.limit {
            Some(_) => (self.samples.count(), self.window.0, self.end.min(self.window.1)),
            None => (self.arrived, self.start, self.end),
        };
        (self.seen)(Event::Samples(&self.samples));
        Some(SizeResult {
            message_bytes: self.message_bytes,
            messages,
            seconds: to.saturating_sub(from) as f64 / 1e9,
            bandwidth: None,
            latency: Some(self.samples.latency(self.test.operation)?),
        })
    }
}
