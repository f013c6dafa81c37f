//! The loop: each end sends once its last send is done and a message has arrived; the client sends first.

use std::ops::Range;
use std::time::{Duration, Instant};

use rocade_core::pair::Role;
use rocade_core::pair::perf::pace::round_trip;

use super::data::{Check, constant_message};
use super::{Pingpong, Setup};
use crate::cq::Completion;
use crate::error::VerbsError;
use crate::perftest::silence::Silence;

/// Time and amount of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Payload moved, both directions together.
    pub bytes: u64,
    /// From the first send (client) or the wait for it (server) to the last completion.
    pub elapsed: Duration,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoFar {
    /// Round trips made.
    pub done: u32,
    /// As many as there will be.
    pub of: u32,
    /// Since the first send, or the wait for it.
    pub elapsed: Duration,
}

impl SoFar {
    /// Time so far over round trips so far, µs.
    pub fn round_trip_us(&self) -> f64 {
        self.elapsed.as_nanos() as f64 / f64::from(self.done.max(1)) / 1e3
    }
}

/// Distance of two looks at how far it is, and how many messages lie between two looks at the clock for it.
const PROGRESS: Duration = Duration::from_millis(200);
const CLOCKED: u32 = 16;
/// Numbers of the work requests.
const SEND: u64 = 2;
const RECEIVE: u64 = 1;

/// Where a run stands.
struct Progress<'a> {
    silence: Silence<'a>,
    sent: u32,
    received: u32,
    receives_posted: u32,
    /// What must complete before the next send.
    send_pending: bool,
    receive_pending: bool,
    check: Option<Check>,
}

impl Pingpong {
    /// Runs to the end of all round trips. With `check_data` a client fills each message with bytes of its own and
    /// compares what comes back, which any server returns as it came; a server compares what a client of either kind
    /// must send. A size other than ours is an error at once. `seen` hears how far it is, five times a second at most.
    pub fn run(&self, seen: &mut dyn FnMut(SoFar)) -> Result<Figures, VerbsError> {
        let bytes = self.setup.message_bytes as usize;
        let Setup { port, message_bytes, timeout, events, .. } = self.setup;
        let longest = round_trip(message_bytes, timeout);
        let mut progress = Progress {
            silence: Silence::new(self.qp.completions(), port, longest, events),
            sent: 0,
            received: 0,
            receives_posted: self.setup.rx_depth,
            send_pending: false,
            receive_pending: true,
            check: self.setup.check_data.then(|| Check::new(bytes)),
        };
        if self.setup.role == Role::Client {
            self.region.write(0, &constant_message(bytes))?;
            self.send(&mut progress)?;
        }
        let start = Instant::now();
        let mut due = PROGRESS;
        while progress.sent < self.setup.iterations || progress.received < self.setup.iterations {
            self.step(&mut progress)?;
            if progress.received.is_multiple_of(CLOCKED) && start.elapsed() >= due {
                let elapsed = start.elapsed();
                due = elapsed + PROGRESS;
                seen(SoFar { done: progress.received, of: self.setup.iterations, elapsed });
            }
        }
        let messages = 2 * u64::from(self.setup.iterations);
        Ok(Figures { bytes: messages * bytes as u64, elapsed: start.elapsed() })
    }

    pub(super) fn post_receives(&self, count: u32) -> Result<(), VerbsError> {
        (0..count).try_for_each(|_| self.qp.post_receive(RECEIVE, &self.region, self.receive_half()))
    }

    /// Takes one completion, and sends when nothing is pending any more.
    fn step(&self, progress: &mut Progress<'_>) -> Result<(), VerbsError> {
        let completion = self.next_completion(progress)?;
        let is_send = completion.wr_id == SEND;
        if completion.status != 0 {
            let request = if is_send { "send" } else { "receive" };
            return Err(self.qp.completions().failed(&completion, request, u64::from(progress.received)));
        }
        if is_send {
            progress.sent += 1;
            progress.send_pending = false;
        } else {
            self.take_message(progress, completion.bytes)?;
        }
        let all_posted = progress.sent >= self.setup.iterations;
        if progress.send_pending || progress.receive_pending || all_posted {
            return Ok(());
        }
        self.send(progress)
    }

    fn take_message(&self, progress: &mut Progress<'_>, bytes: u32) -> Result<(), VerbsError> {
        if bytes != self.setup.message_bytes {
            return Err(VerbsError::Size { seen: bytes, wanted: self.setup.message_bytes });
        }
        if let Some(check) = &mut progress.check {
            let is_server = self.setup.role == Role::Server;
            let copy = |into: &mut [u8]| self.region.read(self.receive_half().start, into);
            check.arrived(progress.received, is_server, copy)?;
        }
        progress.received += 1;
        progress.receive_pending = false;
        progress.receives_posted -= 1;
        if progress.receives_posted <= 1 {
            self.post_receives(self.setup.rx_depth - progress.receives_posted)?;
            progress.receives_posted = self.setup.rx_depth;
        }
        Ok(())
    }

    fn send(&self, progress: &mut Progress<'_>) -> Result<(), VerbsError> {
        if let (Some(check), Role::Client) = (&mut progress.check, self.setup.role) {
            self.region.write(0, check.next_message(progress.sent))?;
        }
        self.qp.post_send(SEND, &self.region, self.send_half())?;
        progress.send_pending = true;
        progress.receive_pending = true;
        Ok(())
    }

    /// Within the timeout, unless the port or the device is told to have failed.
    fn next_completion(&self, progress: &mut Progress<'_>) -> Result<Completion, VerbsError> {
        let queue = self.qp.completions();
        loop {
            if let Some(completion) = queue.poll()? {
                progress.silence.broken();
                return Ok(completion);
            }
            progress.silence.goes_on().map_err(|error| self.told(error).after(progress.received.into()))?;
        }
    }

    /// With the number of round trips that were wanted.
    fn told(&self, error: VerbsError) -> VerbsError {
        match error {
            VerbsError::Silence { seconds, done, .. } => {
                VerbsError::Silence { seconds, done, of: Some(self.setup.iterations.into()) }
            }
            other => other,
        }
    }

    /// The client sends from the first half of the region and receives into the second; the server sends back what it
    /// received, as the stock server does.
    fn send_half(&self) -> Range<usize> {
        match self.setup.role {
            Role::Client => 0..self.setup.message_bytes as usize,
            Role::Server => self.receive_half(),
        }
    }

    fn receive_half(&self) -> Range<usize> {
        let bytes = self.setup.message_bytes as usize;
        bytes..2 * bytes
    }
}
