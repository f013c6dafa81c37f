//! Writes and reads whose every byte is compared: in rounds of as many messages as may be under way, each with bytes of
//! its own. After a round both ends meet, the one that the data came to compares it, and they meet again, so that
//! nothing is overwritten before. What is timed is the moving alone.

use std::time::Duration;

use rocade_core::pair::Role;
use rocade_core::pair::perf::{Amount, Operation, Options, SizeResult, statistics};

use super::super::clock;
use super::super::conversation::Conversation;
use super::super::data::Pattern;
use super::super::{PROGRESS, Perftest, Progress};
use super::traffic::Traffic;
use crate::error::VerbsError;

impl Perftest {
    pub(super) fn run_compared(
        &mut self,
        message_bytes: u32,
        seed: u64,
        conversation: &mut Conversation<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<SizeResult>, VerbsError> {
        let depth = u64::from(self.depth(Some(seed)));
        let sender = self.is_sender().then(|| self.sender(message_bytes, None)).transpose()?;
        let is_sender = sender.is_some();
        let mut traffic = self.traffic(message_bytes, sender, None);
        if let Some(sender) = &mut traffic.sender {
            sender.depth = depth;
        }
        let run = self.run_rounds(&mut traffic, message_bytes, seed, conversation, progress);
        self.done += traffic.in_all();
        let (messages, time) = run?;
        Ok(is_sender.then(|| statistics::bandwidth(message_bytes, messages, time, None, None)))
    }

    /// Messages of all QPs, and the time in which they moved, ns.
    fn run_rounds(
        &self,
        traffic: &mut Traffic<'_>,
        message_bytes: u32,
        seed: u64,
        conversation: &mut Conversation<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(u64, u64), VerbsError> {
        let (depth, qps) = (u64::from(self.depth(Some(seed))), self.qps.len() as u64);
        let (mut done, mut time) = (0, 0);
        let mut progress_due = clock::now() + PROGRESS;
        loop {
            let count = match self.setup.options.amount {
                Amount::Iterations(all) => depth.min(all - done),
                Amount::Seconds(seconds) => {
                    let is_over = time >= u64::from(seconds) * 1_000_000_000;
                    let go_on = conversation.agree(!(is_over && self.setup.role == Role::Client))?;
                    if go_on { depth } else { 0 }
                }
            };
            if count == 0 {
                return Ok((done * qps, time));
            }
            self.fill_round(seed, done..done + count, message_bytes)?;
            conversation.before_size()?;
            let start = traffic.begin(Some(count), None);
            while !traffic.is_sent() {
                traffic.step()?;
            }
            let now = clock::now();
            time += now - start;
            if now >= progress_due && traffic.sender.is_some() {
                progress_due = now + PROGRESS;
                progress(self.progress(message_bytes, (done + count) * qps, time));
            }
            conversation.after_size()?;
            self.compare_round(seed, done..done + count, message_bytes)?;
            done += count;
        }
    }

    /// Of a round that has moved.
    fn progress(&self, message_bytes: u32, done: u64, time: u64) -> Progress {
        let Options { test, amount, qps, .. } = self.setup.options;
        let of = match amount {
            Amount::Iterations(count) => Some(count * u64::from(qps)),
            Amount::Seconds(_) => None,
        };
        Progress { test, message_bytes, done, of, elapsed: Duration::from_nanos(time) }
    }

    /// A writer fills what it is about to write; an end that is read from, what the other end is about to read.
    fn fill_round(&self, seed: u64, messages: std::ops::Range<u64>, bytes: u32) -> Result<(), VerbsError> {
        let (fills, area) = match self.setup.options.test.operation {
            Operation::Read => (self.is_answering(), Perftest::remote_area as Area),
            _ => (self.is_sender(), Perftest::own_area as Area),
        };
        if !fills {
            return Ok(());
        }
        self.each(messages, bytes, area, |test, qp, message, place| {
            let pattern = Pattern::new(seed, test.setup.role, qp);
            pattern.fill(&test.region, place, message, bytes as usize)
        })
    }

    /// A reader compares what it read; an end that is written to, what was written.
    fn compare_round(&self, seed: u64, messages: std::ops::Range<u64>, bytes: u32) -> Result<(), VerbsError> {
        let (compares, area) = match self.setup.options.test.operation {
            Operation::Read => (self.is_sender(), Perftest::own_area as Area),
            _ => (self.is_answering(), Perftest::remote_area as Area),
        };
        if !compares {
            return Ok(());
        }
        self.each(messages, bytes, area, |test, qp, message, place| {
            let pattern = Pattern::new(seed, test.setup.role.other(), qp);
            pattern.compare(&test.region, place, message, bytes as usize)
        })
    }

    /// The other end writes to, or reads from, this one.
    fn is_answering(&self) -> bool {
        self.setup.role == Role::Server || self.setup.options.bidirectional
    }

    fn own_area(&self, qp: usize) -> usize {
        self.layout.own_area(qp)
    }

    fn remote_area(&self, qp: usize) -> usize {
        self.layout.remote_area(qp)
    }

    /// With each QP, message and place of a round.
    fn each(
        &self,
        messages: std::ops::Range<u64>,
        bytes: u32,
        area: Area,
        with: impl Fn(&Perftest, usize, u64, usize) -> Result<(), VerbsError>,
    ) -> Result<(), VerbsError> {
        let offsets = self.layout.offsets(bytes);
        for qp in 0..self.qps.len() {
            for message in messages.clone() {
                let offset = offsets[(message % offsets.len() as u64) as usize];
                with(self, qp, message, area(self, qp) + offset)?;
            }
        }
        Ok(())
    }
}

type Area = fn(&Perftest, usize) -> usize;
