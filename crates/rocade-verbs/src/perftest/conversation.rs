//! The exchange of a bandwidth or latency test over a connected stream, with perftest or with rocade at the other end:
//! what is due when is `rocade_core::pair::perf::order`'s, the bytes are `message`'s and `block`'s. Each message has its
//! timeout; the first after a run has a time of its own, which is `pace`'s.

use std::cell::Cell;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rocade_core::pair::Role;
use rocade_core::pair::perf::message::{Key, Memory, Report, Unit};
use rocade_core::pair::perf::order::{Order, Step};
use rocade_core::pair::perf::{EndFacts, Measure, Options, SizeResult, of_both};

use crate::error::VerbsError;
use crate::exchange;

mod greet;
mod own;
mod stock;
#[cfg(test)]
mod tests;
mod unlike;

pub use greet::{Greeting, Own, Peer, greet};

/// One end's part of the exchange, from after the greeting to the end.
pub struct Conversation<'a> {
    stream: &'a TcpStream,
    role: Role,
    timeout: Duration,
    unit: Unit,
    greeting: &'a Greeting,
    order: Order,
    own: Vec<Key>,
    remote: Vec<Key>,
    /// What this end found of the latest size.
    measured: Option<SizeResult>,
    /// What both ends print.
    found: Vec<SizeResult>,
    /// When the run of the latest size began.
    began: Instant,
    /// The other end has spoken since.
    is_heard: bool,
    /// When a closed connection was first seen.
    closed_since: Cell<Option<Instant>>,
}

/// Seven retries of an HCA, each after four times 4.096 µs · 2¹⁴ at most.
const GRACE: Duration = Duration::from_secs(2);

impl<'a> Conversation<'a> {
    /// After [`greet`] over the same stream. `unit` is that of stock tables at this end; a stock server prints a
    /// client's figures in its own unit whatever they are in.
    pub fn new(
        stream: &'a TcpStream,
        role: Role,
        greeting: &'a Greeting,
        unit: Unit,
        timeout: Duration,
    ) -> Conversation<'a> {
        let options = &greeting.options;
        let order = match greeting.peer {
            Peer::Rocade { .. } => Order::own(),
            Peer::Stock { .. } => Order::stock(options),
        };
        let (own, remote, found) = (vec![], vec![], vec![]);
        Conversation {
            stream,
            role,
            timeout,
            unit,
            greeting,
            order,
            own,
            remote,
            measured: None,
            found,
            began: Instant::now(),
            is_heard: true,
            closed_since: Cell::new(None),
        }
    }

    /// What both ends do.
    pub fn options(&self) -> &Options {
        &self.greeting.options
    }

    /// What the other end is.
    pub fn peer(&self) -> &Peer {
        &self.greeting.peer
    }

    /// The larger of both ends' pages and lines.
    pub fn memory(&self) -> Memory {
        self.greeting.memory
    }

    /// Tells the other end this end's path MTU, bytes; the smaller of both is to be used, and returned.
    pub fn agree_mtu(&mut self, own_bytes: u32) -> Result<u32, VerbsError> {
        let theirs = if self.is_own() { self.swap_mtu_block(own_bytes) } else { self.swap_mtu(own_bytes) }?;
        Ok(theirs.min(own_bytes))
    }

    /// Tells the other end of this one, and learns of it; None of a stock tool, which hears nothing.
    pub fn exchange_facts(&mut self, own: &EndFacts) -> Result<Option<EndFacts>, VerbsError> {
        if self.is_own() { self.swap_facts(own).map(Some) } else { Ok(None) }
    }

    /// Exchanges keys, one a QP, up to where each end connects its QPs.
    pub fn open(&mut self, own: Vec<Key>) -> Result<Vec<Key>, VerbsError> {
        self.own = own;
        self.walk(|order| &order.opening)?;
        self.check_keys()?;
        Ok(self.remote.clone())
    }

    /// To be called once all QPs are connected: the other end's are on return.
    pub fn connected(&mut self) -> Result<(), VerbsError> {
        self.walk(|order| &order.connected)
    }

    /// To be called ahead of each size, with its receives posted: where a tool has it so, the other end's are on return.
    pub fn before_size(&mut self) -> Result<(), VerbsError> {
        self.walk(|order| &order.before_each)?;
        (self.began, self.is_heard) = (Instant::now(), false);
        Ok(())
    }

    /// To be called once this end has run a size, or at once by an end that runs nothing itself: where a tool has it so,
    /// the other end has run it too on return.
    pub fn after_size(&mut self) -> Result<(), VerbsError> {
        self.walk(|order| &order.after_each)
    }

    /// Tells what this end found of a size, None if it measured nothing; returns what both ends print of it, None if
    /// that is known at the end only, or never.
    pub fn tell(&mut self, measured: Option<SizeResult>) -> Result<Option<SizeResult>, VerbsError> {
        let known = self.found.len();
        self.measured = measured;
        self.walk(|order| &order.found_each)?;
        let is_told = self.order.found_each.iter().any(|step| matches!(step, Step::Report | Step::Results));
        if !is_told {
            self.found.extend(self.measured.clone());
        }
        Ok(self.found.get(known).cloned())
    }

    /// The last messages; what both ends print, one a size.
    pub fn finish(mut self) -> Result<Vec<SizeResult>, VerbsError> {
        self.walk(|order| &order.closing)?;
        if !self.is_own() {
            self.say_done();
        }
        Ok(self.found)
    }

    /// Tells another end that is rocade why this one gives up, so that it need not wait for its timeout, and whether RDMA
    /// itself failed. Best effort.
    pub fn fail(&self, reason: &str, of_rdma: bool) {
        if self.is_own() {
            own::send_failed(self.stream, reason, Some(of_rdma));
        }
    }

    /// Looks, without waiting, whether the other end has closed or given up, or is elsewhere in its exchange: an error
    /// that explains why nothing happens. For use while a run is silent, or has failed.
    ///
    /// An end that sends is told of a closed connection only once its HCA has had the time to give up, as that tells
    /// more: where no packet comes through, both ends fail, and one of them first.
    pub fn look(&self) -> Result<(), VerbsError> {
        if self.is_own() {
            self.look_for_reason()?;
        }
        let seen = self.look_at_stream();
        if !matches!(seen, Err(VerbsError::Exchange { .. })) || !self.sends() {
            return seen;
        }
        let now = Instant::now();
        let since = self.closed_since.get().unwrap_or(now);
        self.closed_since.set(Some(since));
        if now - since < GRACE { Ok(()) } else { seen }
    }

    fn sends(&self) -> bool {
        let Options { bidirectional, test, .. } = self.options();
        self.role == Role::Client || *bidirectional || test.measure == Measure::Latency
    }

    /// Whether, without waiting, the other end has written something that is not read yet, has closed, or the connection
    /// broke: in the middle of a run the other end has then come to its end.
    pub fn has_spoken(&self) -> bool {
        !matches!(exchange::peek(self.stream, &mut [0]), Ok(None))
    }

    /// Between two ends of rocade: both hear whether both go on.
    pub fn agree(&mut self, go_on: bool) -> Result<bool, VerbsError> {
        self.swap_go_on(go_on, self.wait())
    }

    fn is_own(&self) -> bool {
        matches!(self.greeting.peer, Peer::Rocade { .. })
    }

    /// Longest wait for the other end's next word; None for as long as the connection lives.
    fn wait(&self) -> Option<Duration> {
        let (options, is_stock) = (self.options(), !self.is_own());
        match self.is_heard {
            true => Some(options.slack(self.timeout)),
            false => options.patience(self.role, is_stock, self.timeout, self.began.elapsed()),
        }
    }

    fn walk(&mut self, of: impl Fn(&Order) -> &Vec<Step>) -> Result<(), VerbsError> {
        for step in of(&self.order).clone() {
            let wait = self.wait();
            match (step, self.is_own()) {
                (Step::Keys, true) => self.swap_key_blocks()?,
                (Step::Keys, false) => self.swap_keys()?,
                (Step::Barrier, true) => self.swap_barrier_block(wait)?,
                (Step::Barrier, false) => self.swap_barrier(wait)?,
                (Step::Report, _) => {
                    let theirs = self.swap_report(wait)?;
                    self.take_report(theirs)?;
                }
                (Step::Results, _) => {
                    let theirs = self.swap_results(wait)?;
                    self.found.extend(of_both(self.options(), self.role, self.measured.clone(), theirs));
                }
            }
            self.is_heard = true;
        }
        Ok(())
    }

    /// A one-way server has measured nothing and prints the client's; a one-way client does without what its server
    /// happens to have in memory.
    fn take_report(&mut self, theirs: Report) -> Result<(), VerbsError> {
        let both_send = self.options().bidirectional;
        if !both_send && self.role == Role::Client {
            return self.check_empty(&theirs);
        }
        let theirs = self.check_report(&theirs)?;
        let found = of_both(self.options(), self.role, self.measured.clone(), Some(theirs));
        self.found.extend(found);
        Ok(())
    }
}
