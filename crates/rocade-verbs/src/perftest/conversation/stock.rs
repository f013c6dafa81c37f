//! The messages of stock tools over the stream, and what in them tells that the other end was started otherwise.

use std::net::TcpStream;
use std::time::Duration;

use rocade_core::pair::perf::SizeResult;
use rocade_core::pair::perf::message::{
    KEY_BYTES_WITH_GID, Key, Memory, REPORT_FIELDS, Report, mtu_message, parse_mtu,
};
use rocade_core::pair::perf::order::Step;
use rocade_core::pair::{DONE, Role};

use super::Conversation;
use crate::error::{Ended, VerbsError};
use crate::exchange;

/// Sends a message and receives one of the same size: the client in this order, the server in the other.
pub(super) fn swap<const N: usize>(
    stream: &TcpStream,
    role: Role,
    own: &[u8; N],
    what: &str,
    timeout: Duration,
) -> Result<[u8; N], VerbsError> {
    let mut theirs = [0; N];
    swap_within(stream, role, own, &mut theirs, what, (timeout, Some(timeout)))?;
    Ok(theirs)
}

/// The same, with times for sending and for receiving.
fn swap_within(
    stream: &TcpStream,
    role: Role,
    own: &[u8],
    theirs: &mut [u8],
    what: &str,
    (timeout, wait): (Duration, Option<Duration>),
) -> Result<(), VerbsError> {
    let send = || exchange::send(stream, own, what, timeout);
    let mut receive = || exchange::fill(stream, theirs, what, wait);
    match role {
        Role::Client => {
            send()?;
            receive()
        }
        Role::Server => {
            receive()?;
            send()
        }
    }
}

pub(super) fn swap_memory(
    stream: &TcpStream,
    role: Role,
    own: Memory,
    timeout: Duration,
) -> Result<Memory, VerbsError> {
    let swap = |own: u32, most: u32, what| {
        let theirs = swap(stream, role, &own.to_be_bytes(), what, timeout)?;
        let bytes = u32::from_be_bytes(theirs);
        let is_likely = bytes.is_power_of_two() && bytes <= most;
        is_likely.then_some(bytes).ok_or_else(|| garbage(what, &theirs))
    };
    let page_bytes = swap(own.page_bytes, Memory::LARGEST.page_bytes, "the other end's size of a page")?;
    let line_bytes =
        swap(own.line_bytes, Memory::LARGEST.line_bytes, "the other end's size of a cache line")?;
    Ok(Memory { page_bytes, line_bytes })
}

pub(super) fn garbage(wanted: &str, seen: &[u8]) -> VerbsError {
    let (wanted, seen) = (wanted.to_owned(), seen.to_vec());
    VerbsError::Exchange { wanted, seen, end: Ended::Whole, source: None }
}

const KEY: &str = "the other end's key";
const REPORT: &str = "the other end's report";

impl Conversation<'_> {
    pub(super) fn swap_mtu(&self, own_bytes: u32) -> Result<u32, VerbsError> {
        let what = "the other end's MTU";
        let own =
            mtu_message(own_bytes).ok_or_else(|| garbage("an MTU to tell", &own_bytes.to_be_bytes()))?;
        let theirs = swap(self.stream, self.role, &own, what, self.timeout)?;
        parse_mtu(theirs).ok_or_else(|| garbage(what, &theirs))
    }

    fn swap_key(&self, own: &Key, wait: Option<Duration>) -> Result<Key, VerbsError> {
        let message = own.to_message();
        let mut theirs = vec![0; message.len()];
        swap_within(self.stream, self.role, &message, &mut theirs, KEY, (self.timeout, wait))?;
        Key::parse(&theirs).ok_or_else(|| garbage(KEY, &theirs))
    }

    pub(super) fn swap_keys(&mut self) -> Result<(), VerbsError> {
        let swap = |own| self.swap_key(own, Some(self.timeout));
        self.remote = self.own.iter().map(swap).collect::<Result<_, _>>()?;
        Ok(())
    }

    pub(super) fn swap_barrier(&self, wait: Option<Duration>) -> Result<(), VerbsError> {
        self.own.first().map_or(Ok(()), |own| self.swap_key(own, wait).map(drop))
    }

    pub(super) fn swap_report(&self, wait: Option<Duration>) -> Result<Report, VerbsError> {
        let own = self.measured.as_ref().map_or(Report::NOTHING, |found| Report::of(found, self.unit));
        let mut theirs = [[0; 8]; REPORT_FIELDS];
        for (own, theirs) in own.to_messages().iter().zip(&mut theirs) {
            swap_within(self.stream, self.role, own, theirs, REPORT, (self.timeout, wait))?;
        }
        Ok(Report::from_messages(&theirs))
    }

    pub(super) fn result_in(&self, report: &Report) -> Result<SizeResult, VerbsError> {
        report.result().ok_or_else(|| garbage(REPORT, report.to_messages().as_flattened()))
    }

    /// Only releases before 23.10 say it, and none waits for it. Best effort.
    pub(super) fn say_done(&self) {
        if self.order.closing.last() == Some(&Step::Barrier) {
            let _ = exchange::send(self.stream, DONE, "`done`", self.timeout);
        }
    }

    pub(super) fn look_for_key(&self) -> Result<(), VerbsError> {
        self.look_for_end()
    }

    /// Whether the connection is closed though messages are still due.
    pub(super) fn look_for_end(&self) -> Result<(), VerbsError> {
        let mut first = [0; KEY_BYTES_WITH_GID];
        let is_due = !self.order.closing.is_empty() || !self.order.found_each.is_empty();
        let error = |end, source| VerbsError::Exchange {
            wanted: "the other end to run".to_owned(),
            seen: vec![],
            end,
            source,
        };
        match exchange::peek(self.stream, &mut first) {
            Ok(Some(0)) if is_due => Err(error(Ended::Closed, None)),
            Ok(_) => Ok(()),
            Err(source) => Err(error(Ended::Broke, Some(source))),
        }
    }
}
