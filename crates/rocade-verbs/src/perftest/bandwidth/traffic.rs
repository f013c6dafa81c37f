//! The loop's own part: posting in turn over the QPs, several messages with one call, and taking what completes. It
//! allocates nothing and reads the clock once for several messages.

use rocade_core::pair::perf::statistics::Peak;

use super::super::clock;
use super::super::data::Pattern;
use super::super::receives::{NUMBER, RECEIVE, Receives, qp_of};
use super::super::silence::Silence;
use crate::cq::{Batch, Completion, CompletionQueue};
use crate::error::VerbsError;
use crate::mr::MemoryRegion;
use crate::ring::SendRing;

/// Messages that one call posts at most.
pub(super) const TOGETHER: u64 = 32;

/// What one end sends and receives.
pub(super) struct Traffic<'a> {
    pub(super) cq: &'a CompletionQueue,
    pub(super) region: &'a MemoryRegion,
    pub(super) batch: Batch,
    pub(super) silence: Silence<'a>,
    pub(super) sender: Option<Sender>,
    pub(super) receiver: Option<Receiver>,
    /// Sent ones that were done before the latest begin.
    pub(super) before: u64,
}

/// What a step came to.
pub(super) enum Seen {
    /// Nothing, and the clock was not read.
    Nothing,
    /// Nothing, at this time.
    Clock(u64),
    /// Completions, at this time.
    Completions(u64),
}

/// What an end sends.
pub(super) struct Sender {
    pub(super) lanes: Vec<Lane>,
    pub(super) message_bytes: usize,
    /// Messages of a QP that may be under way.
    pub(super) depth: u64,
    /// Lane that is looked at first.
    pub(super) first: usize,
    /// Messages a nanosecond, counted from `start`.
    pub(super) rate: Option<f64>,
    pub(super) start: u64,
    /// Of all QPs since `start`.
    pub(super) posted: u64,
    pub(super) done: u64,
    pub(super) fill: Option<Filler>,
    pub(super) peak: Option<Peak>,
}

/// One QP of a sender; messages are counted as its ring does.
pub(super) struct Lane {
    ring: SendRing,
    done: u64,
    target: u64,
}

/// What a sender fills its messages with, and where they lie in turn.
pub(super) struct Filler {
    pub(super) patterns: Vec<Pattern>,
    pub(super) places: Vec<Vec<usize>>,
}

/// What an end receives.
pub(super) struct Receiver {
    pub(super) receives: Receives,
    pub(super) message_bytes: u32,
    /// Of each QP, and of all.
    pub(super) received: Vec<u64>,
    pub(super) done: u64,
    pub(super) expected: Option<u64>,
    pub(super) patterns: Option<Vec<Pattern>>,
}

impl Traffic<'_> {
    /// Runs so many messages of each QP through.
    pub(super) fn warm_up(&mut self, count: u64) -> Result<(), VerbsError> {
        self.begin(Some(count), None);
        while !self.is_sent() {
            self.step()?;
        }
        Ok(())
    }

    /// From now on so many messages of each QP are sent, None for as many as go until [`Traffic::stop`]. Gives the time.
    pub(super) fn begin(&mut self, count: Option<u64>, peak: Option<Peak>) -> u64 {
        let start = clock::now();
        if let Some(sender) = &mut self.sender {
            self.before += sender.done;
            (sender.start, sender.posted, sender.done, sender.peak) = (start, 0, 0, peak);
            for lane in &mut sender.lanes {
                lane.target = count.map_or(NUMBER, |count| lane.ring.posted() + count);
            }
        }
        start
    }

    /// No more is sent but one last message of each QP that has one under way which makes no completion.
    pub(super) fn stop(&mut self) {
        for lane in self.sender.iter_mut().flat_map(|sender| &mut sender.lanes) {
            lane.target = lane.ring.posted() + u64::from(lane.ring.is_unsignalled());
        }
    }

    /// Messages that are done: sent ones of an end that sends.
    #[inline]
    pub(super) fn done(&self) -> u64 {
        match (&self.sender, &self.receiver) {
            (Some(sender), _) => sender.done,
            (None, Some(receiver)) => receiver.done,
            (None, None) => 0,
        }
    }

    /// Messages in both directions that are done since it was made, warm-up and all.
    pub(super) fn in_all(&self) -> u64 {
        let received = self.receiver.as_ref().map_or(0, |receiver| receiver.done);
        self.before + self.sender.as_ref().map_or(0, |sender| sender.done) + received
    }

    /// All that was to be sent is done.
    #[inline]
    pub(super) fn is_sent(&self) -> bool {
        self.sender.as_ref().is_none_or(|sender| sender.lanes.iter().all(|lane| lane.done >= lane.target))
    }

    /// That, and all that was to be received has come.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        self.receiver.as_ref().is_none_or(|receiver| Some(receiver.done) == receiver.expected)
            && self.is_sent()
    }

    /// Messages a second in the fastest stretch, where that was asked for.
    pub(super) fn peak(&self) -> Option<f64> {
        self.sender.as_ref()?.peak.as_ref()?.messages_per_second()
    }

    /// Posts what may be, and takes what completed.
    #[inline]
    pub(super) fn step(&mut self) -> Result<Seen, VerbsError> {
        if let Some(sender) = &mut self.sender {
            sender.post(self.region)?;
        }
        if self.cq.poll_many(&mut self.batch)? == 0 {
            return self.nothing();
        }
        self.silence.broken();
        let now = clock::now();
        let batch = std::mem::take(&mut self.batch);
        let taken = batch.iter().try_for_each(|completion| self.take(&completion));
        self.batch = batch;
        taken?;
        if let Some(sender) = &mut self.sender {
            sender.note(now);
        }
        Ok(Seen::Completions(now))
    }

    #[inline]
    fn nothing(&mut self) -> Result<Seen, VerbsError> {
        if self.sender.as_ref().is_some_and(Sender::is_held_back) {
            self.silence.broken();
            return Ok(Seen::Clock(clock::now()));
        }
        Ok(self.silence.goes_on()?.map_or(Seen::Nothing, Seen::Clock))
    }

    #[inline]
    fn take(&mut self, completion: &Completion) -> Result<(), VerbsError> {
        if completion.status != 0 {
            return Err(self.failed(completion));
        }
        match (&mut self.sender, &mut self.receiver) {
            (_, Some(receiver)) if completion.wr_id & RECEIVE != 0 => receiver.take(completion, self.region),
            (Some(sender), _) => {
                sender.take(completion);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn failed(&mut self, completion: &Completion) -> VerbsError {
        match &mut self.sender {
            Some(sender) if completion.wr_id & RECEIVE == 0 => {
                sender.take_failed(completion);
                self.cq.failed(completion, "message", 0)
            }
            _ => self.cq.failed(completion, "receive", 0),
        }
    }
}

impl Lane {
    pub(super) fn new(ring: SendRing) -> Lane {
        Lane { ring, done: 0, target: 0 }
    }
}

impl Sender {
    /// One chain for each QP that has room for one.
    #[inline]
    fn post(&mut self, region: &MemoryRegion) -> Result<(), VerbsError> {
        let mut allowed = match self.rate {
            None => u64::MAX,
            Some(rate) => self.allowed(rate),
        };
        for turn in 0..self.lanes.len() {
            let at = (self.first + turn).checked_sub(self.lanes.len()).unwrap_or(self.first + turn);
            let lane = &mut self.lanes[at];
            let posted = lane.ring.posted();
            let room = (self.depth - (posted - lane.done)).min(lane.target - posted.min(lane.target));
            let count = room.min(TOGETHER).min(allowed);
            if count == 0 {
                continue;
            }
            if let Some(fill) = &self.fill {
                fill.fill(region, at, posted..posted + count, self.message_bytes)?;
            }
            if let Some(peak) = &mut self.peak {
                peak.posted(clock::now(), self.posted);
            }
            lane.ring.post(count as usize, posted + count == lane.target)?;
            self.posted += count;
            allowed -= count;
            if allowed == 0 {
                // Whose turn it would have been is the first of the next time.
                self.first = if at + 1 == self.lanes.len() { 0 } else { at + 1 };
                break;
            }
        }
        Ok(())
    }

    #[cold]
    fn allowed(&self, rate: f64) -> u64 {
        let due = (clock::now() - self.start) as f64 * rate;
        (due as u64 + 1).saturating_sub(self.posted)
    }

    /// The rate alone is why nothing happens.
    fn is_held_back(&self) -> bool {
        self.rate.is_some() && self.posted == self.done
    }

    #[inline]
    fn take(&mut self, completion: &Completion) {
        let lane = &mut self.lanes[qp_of(completion.wr_id)];
        let number = completion.wr_id & NUMBER;
        self.done += number - lane.done;
        lane.done = number;
    }

    /// Those before it were good, whether they make completions or not.
    fn take_failed(&mut self, completion: &Completion) {
        let lane = &mut self.lanes[qp_of(completion.wr_id)];
        let good = good_before(completion.wr_id, lane.done, lane.ring.posted());
        self.done += good - lane.done;
        lane.done = good;
    }

    #[inline]
    fn note(&mut self, now: u64) {
        if let Some(peak) = &mut self.peak {
            peak.completed(now, self.done);
        }
    }
}

/// Messages of a QP that were good before one that failed: at least those known of, at most all that were posted.
fn good_before(failed: u64, known: u64, posted: u64) -> u64 {
    (failed & NUMBER).saturating_sub(1).clamp(known, posted)
}

impl Filler {
    fn fill(
        &self,
        region: &MemoryRegion,
        qp: usize,
        messages: std::ops::Range<u64>,
        bytes: usize,
    ) -> Result<(), VerbsError> {
        let places = &self.places[qp];
        for message in messages {
            let place = places[(message % places.len() as u64) as usize];
            self.patterns[qp].fill(region, place, message, bytes)?;
        }
        Ok(())
    }
}

impl Receiver {
    #[inline]
    fn take(&mut self, completion: &Completion, region: &MemoryRegion) -> Result<(), VerbsError> {
        if completion.bytes != self.message_bytes {
            return Err(VerbsError::Size { seen: completion.bytes, wanted: self.message_bytes });
        }
        let qp = qp_of(completion.wr_id);
        let place = self.receives.take(qp);
        if let Some(patterns) = &self.patterns {
            patterns[qp].compare(region, place, self.received[qp], self.message_bytes as usize)?;
        }
        self.received[qp] += 1;
        self.done += 1;
        self.receives.refill(qp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::receives::tag;
    use super::*;

    #[test]
    fn a_message_that_fails_tells_of_those_before_it_that_made_no_completion() {
        let (qp, known, posted) = (tag(3), 100, 228);
        assert_eq!(good_before(qp | 151, known, posted), 150);
        assert_eq!((good_before(qp | 1, 0, 128), good_before(qp | 101, known, posted)), (0, 100));
        // What a provider leaves out or makes up tells nothing.
        assert_eq!((good_before(0, known, posted), good_before(qp | 999, known, posted)), (known, posted));
    }
}
