//! One size of a bandwidth test: what each end posts and expects, and the figures of it.

use rocade_core::pair::Role;
use rocade_core::pair::perf::statistics::{self, PEAK_ITERATIONS, Peak, Timeline};
use rocade_core::pair::perf::{Amount, Operation, Options, SizeResult, Test};

use super::conversation::{Conversation, Peer};
use super::data::Pattern;
use super::receives::tag;
use super::silence::{LOOK, Silence, look};
use super::{PROGRESS, Perftest, Progress};
use crate::cq::Batch;
use crate::error::VerbsError;
use crate::ring::{SendRing, Slot};

mod compared;
mod traffic;

use traffic::{Filler, Lane, Receiver, Seen, Sender, TOGETHER, Traffic};

/// A receiver of a test by time leaves once nothing has come for so long after its end, ns.
const QUIET: u64 = 100_000_000;

impl Perftest {
    /// One size at this end; None if it measures nothing.
    pub(super) fn run_bandwidth(
        &mut self,
        message_bytes: u32,
        conversation: &mut Conversation<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<SizeResult>, VerbsError> {
        let (seed, operation) = (self.seed(conversation), self.setup.options.test.operation);
        if let Some(seed) = seed.filter(|_| operation != Operation::Send) {
            return self.run_compared(message_bytes, seed, conversation, progress);
        }
        let is_stock = matches!(conversation.peer(), Peer::Stock { .. });
        let warm_up = self.warm_up(is_stock);
        let sender = self.is_sender().then(|| self.sender(message_bytes, seed)).transpose()?;
        let receiver = self.receiver(message_bytes, seed, warm_up)?;
        let mut traffic = self.traffic(message_bytes, sender, receiver);
        conversation.before_size()?;
        let result = match (&traffic.sender, &traffic.receiver) {
            (None, None) => Ok(None),
            _ => {
                let drains = !(is_stock && operation == Operation::Send);
                traffic.warm_up(warm_up).and_then(|()| {
                    measure(&mut traffic, &self.setup.options, message_bytes, drains, conversation, progress)
                })
            }
        };
        let done = traffic.in_all();
        let receives = traffic.receiver.map(|receiver| receiver.receives);
        self.receives = receives.or(self.receives.take());
        self.done += done;
        result
    }

    /// Messages of each QP ahead of what is measured. A stock receiver does not expect any.
    fn warm_up(&self, is_stock: bool) -> u64 {
        let options = &self.setup.options;
        let is_possible = !(is_stock && options.test.operation == Operation::Send);
        if options.warm_up && is_possible { u64::from(options.tx_depth) } else { 0 }
    }

    fn traffic(&self, message_bytes: u32, sender: Option<Sender>, receiver: Option<Receiver>) -> Traffic<'_> {
        let options = &self.setup.options;
        let longest = options.silence(message_bytes, self.setup.timeout);
        Traffic {
            cq: &self.cq,
            region: &self.region,
            batch: Batch::new(),
            silence: Silence::new(&self.cq, self.setup.port, longest, options.events),
            sender,
            receiver,
            before: 0,
        }
    }

    fn patterns(&self, seed: u64, filler: Role) -> Vec<Pattern> {
        (0..self.qps.len()).map(|qp| Pattern::new(seed, filler, qp)).collect()
    }

    /// A message is filled anew only where the one that lay there is done.
    fn depth(&self, seed: Option<u64>) -> u32 {
        let depth = self.setup.options.tx_depth;
        seed.map_or(depth, |_| depth.min(self.layout.apart() as u32))
    }

    fn sender(&self, message_bytes: u32, seed: Option<u64>) -> Result<Sender, VerbsError> {
        let depth = self.depth(seed);
        let lane = |at| Ok(Lane::new(self.send_ring(at, message_bytes, depth)?));
        let places = |at| {
            let area = self.layout.own_area(at);
            self.layout.offsets(message_bytes).iter().map(|offset| area + offset).collect()
        };
        let fill = seed.map(|seed| Filler {
            patterns: self.patterns(seed, self.setup.role),
            places: (0..self.qps.len()).map(places).collect(),
        });
        let rate = self.setup.options.rate_limit_gbps;
        Ok(Sender {
            lanes: (0..self.qps.len()).map(lane).collect::<Result<_, VerbsError>>()?,
            message_bytes: message_bytes as usize,
            depth: u64::from(depth),
            first: 0,
            rate: rate.map(|gbps| gbps / 8.0 / f64::from(message_bytes)),
            start: 0,
            posted: 0,
            done: 0,
            fill,
            peak: None,
        })
    }

    /// Of an end that sends arrive at. What came after the end of the size before is not counted again.
    fn receiver(
        &mut self,
        message_bytes: u32,
        seed: Option<u64>,
        warm_up: u64,
    ) -> Result<Option<Receiver>, VerbsError> {
        let is_receiver = self.setup.role == Role::Server || self.setup.options.bidirectional;
        let Some(mut receives) = self.receives.take() else { return Ok(None) };
        receives.drop_old(&self.cq)?;
        if !is_receiver {
            self.receives = Some(receives);
            return Ok(None);
        }
        let options = &self.setup.options;
        let expected = match options.amount {
            Amount::Iterations(count) => Some((count + warm_up) * u64::from(options.qps)),
            Amount::Seconds(_) => None,
        };
        Ok(Some(Receiver {
            receives,
            message_bytes,
            received: vec![0; self.qps.len()],
            done: 0,
            expected,
            patterns: seed.map(|seed| self.patterns(seed, self.setup.role.other())),
        }))
    }

    /// Requests of one QP for messages of a size.
    fn send_ring(&self, at: usize, message_bytes: u32, depth: u32) -> Result<SendRing, VerbsError> {
        let (options, remote) = (&self.setup.options, self.remote[at]);
        let (own, bytes) = (self.layout.own_area(at), message_bytes as usize);
        let offsets = self.layout.offsets(message_bytes);
        let slot = |offset: usize| Slot {
            local: own + offset..own + offset + bytes,
            remote_address: remote.vaddr.wrapping_add(offset as u64),
            rkey: remote.rkey,
        };
        // Long enough for any chain, and a whole number of rounds through the offsets.
        let rounds = (TOGETHER as usize).div_ceil(offsets.len());
        let slots: Vec<Slot> = (0..rounds).flat_map(|_| offsets.iter().copied().map(slot)).collect();
        let (operation, moderation) = (options.test.operation, options.moderation(message_bytes).min(depth));
        SendRing::new(&self.qps[at], &self.region, operation, &slots, self.inline_bytes, moderation, tag(at))
    }
}

/// When a test by time begins to count, stops counting, and ends, ns.
#[derive(Clone, Copy)]
struct Window {
    from: u64,
    to: u64,
    end: u64,
}

impl Window {
    fn new(start: u64, seconds: u32, margin: u64) -> Window {
        let end = start + u64::from(seconds) * 1_000_000_000;
        Window { from: start + margin, to: end - margin, end }
    }
}

/// From the first post, or the wait for the first message, to the last completion.
fn measure(
    traffic: &mut Traffic<'_>,
    options: &Options,
    message_bytes: u32,
    drains: bool,
    conversation: &Conversation<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<SizeResult>, VerbsError> {
    let of = match options.amount {
        Amount::Iterations(count) => Some(count),
        Amount::Seconds(_) => None,
    };
    let total = of.map(|count| count * u64::from(options.qps));
    let peak = of.filter(|count| *count <= PEAK_ITERATIONS).and(total).map(Peak::new);
    let start = traffic.begin(of, peak);
    let mut record = Record::new(start, options, message_bytes, total);
    let mut heard = start;
    let mut look_due = start + LOOK;
    let mut is_over = false;
    loop {
        let now = match traffic.step()? {
            Seen::Nothing => continue,
            Seen::Clock(now) => {
                look(conversation, now, &mut look_due)?;
                now
            }
            Seen::Completions(now) => {
                heard = now;
                record.add(now, traffic.done(), progress);
                now
            }
        };
        match record.window {
            None if traffic.is_complete() => break,
            Some(window) if now >= window.end => {
                if !is_over {
                    traffic.stop();
                    is_over = true;
                }
                let is_drained = !drains || traffic.is_sent();
                let has_ended = || now - heard > QUIET || conversation.has_spoken();
                if is_drained && (traffic.receiver.is_none() || has_ended()) {
                    break;
                }
            }
            _ => {}
        }
    }
    if let Some(receiver) = &mut traffic.receiver {
        receiver.receives.refill_all()?;
    }
    match record.result(traffic.peak()) {
        None if traffic.sender.is_some() && options.sizes.each().len() == 1 => {
            Err(VerbsError::uncounted(options))
        }
        found => Ok(found),
    }
}

/// What the loop writes down.
struct Record {
    start: u64,
    window: Option<Window>,
    test: Test,
    message_bytes: u32,
    of: Option<u64>,
    timeline: Timeline,
    /// Time and number of the first and the last messages that are counted.
    first: Option<(u64, u64)>,
    last: (u64, u64),
    progress_due: u64,
}

impl Record {
    fn new(start: u64, options: &Options, message_bytes: u32, of: Option<u64>) -> Record {
        let test = options.test;
        let window = match options.amount {
            Amount::Seconds(seconds) => Some(Window::new(start, seconds, options.margin_nanoseconds())),
            Amount::Iterations(_) => None,
        };
        let first = window.is_none().then_some((start, 0));
        let timeline = Timeline::new(start);
        let progress_due = start + PROGRESS;
        Record { start, window, test, message_bytes, of, timeline, first, last: (start, 0), progress_due }
    }

    /// By `now` so many messages were done.
    #[inline]
    fn add(&mut self, now: u64, done: u64, progress: &mut dyn FnMut(Progress)) {
        match self.window {
            Some(window) if now > window.to => return,
            Some(window) if now >= window.from && self.first.is_none() => {
                self.first = Some((now, done));
                self.timeline = Timeline::beginning_with(now, done);
            }
            _ => {}
        }
        self.last = (now, done);
        self.timeline.at(now, done);
        if now >= self.progress_due {
            self.progress_due = now + PROGRESS;
            let elapsed = std::time::Duration::from_nanos(now - self.start);
            let Record { test, message_bytes, of, .. } = *self;
            progress(Progress { test, message_bytes, done, of, elapsed });
        }
    }

    /// None where nothing was done between two completions that are counted, which only happens in a test by time: of a
    /// stock sender whose time is another, an end that receives has nothing to count.
    fn result(self, peak: Option<f64>) -> Option<SizeResult> {
        let (first, (end, done)) = (self.first?, self.last);
        let messages = done.checked_sub(first.1).filter(|messages| *messages > 0)?;
        let intervals = self.timeline.intervals(end, done, self.message_bytes);
        Some(statistics::bandwidth(self.message_bytes, messages, end - first.0, peak, intervals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// What is found of a test of 4 s, of which 1 s to 3 s are counted, with 10 more messages done at each of the times.
    fn found(tenths: &[u64]) -> Option<SizeResult> {
        let options = Options { amount: Amount::Seconds(4), ..Options::stock(Test::ALL[0]) };
        let mut record = Record::new(0, &options, 65536, None);
        for (time, done) in tenths.iter().zip((10..).step_by(10)) {
            record.add(time * SECOND / 10, done, &mut |_| ());
        }
        record.result(None)
    }

    #[test]
    fn a_test_by_time_counts_from_the_first_completion_within_to_the_last() {
        let found = found(&[5, 11, 20, 29, 35]).unwrap();
        assert_eq!((found.messages, found.seconds), (20, 1.8));
    }

    #[test]
    fn completions_before_and_after_what_is_counted_or_a_single_one_within_are_nothing_to_show() {
        for tenths in [&[][..], &[5, 35], &[5, 20, 35]] {
            assert!(found(tenths).is_none(), "{tenths:?}");
        }
    }
}
