//! The messages of stock tools over the stream.

use std::net::TcpStream;
use std::time::Duration;

use rocade_core::pair::perf::message::{
    KEY_BYTES_WITH_GID, Key, Memory, REPORT_FIELDS, Report, mtu_message, parse_mtu,
};
use rocade_core::pair::perf::negotiation;
use rocade_core::pair::perf::order::Step;
use rocade_core::pair::{DONE, Role};

use super::{Conversation, Peer};
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

pub(super) const KEY: &str = "the other end's key";
pub(super) const REPORT: &str = "the other end's report";
const OPTIONS: &str = "the block of options of perftest 6.28";
/// The rest of a block follows in the same segment, or is not sent.
const REST: Duration = Duration::from_millis(500);

impl Conversation<'_> {
    pub(super) fn swap_mtu(&self, own_bytes: u32) -> Result<u32, VerbsError> {
        let what = "the other end's MTU";
        let own =
            mtu_message(own_bytes).ok_or_else(|| garbage("an MTU to tell", &own_bytes.to_be_bytes()))?;
        let theirs = swap(self.stream, self.role, &own, what, self.timeout)?;
        let theirs = parse_mtu(theirs).ok_or_else(|| garbage(what, &theirs))?;
        self.negotiate()?;
        Ok(theirs)
    }

    /// Perftest 6.28 sends all its options, and ends unless it gets the same.
    fn negotiate(&self) -> Result<(), VerbsError> {
        let Peer::Stock { version } = self.peer() else { return Ok(()) };
        if version != negotiation::VERSION {
            return Ok(());
        }
        let own = negotiation::block(self.options(), self.unit);
        let send = |block: &[u8]| exchange::send(self.stream, block, OPTIONS, self.timeout);
        let theirs = match self.role {
            Role::Client => {
                send(&own)?;
                self.receive_options()?
            }
            Role::Server => {
                let theirs = self.receive_options()?;
                send(&negotiation::answer(&theirs))?;
                theirs
            }
        };
        if let Some((what, here, there)) = negotiation::difference(&own, &theirs) {
            return Err(VerbsError::Unlike { what, here: here.to_string(), there: Some(there.to_string()) });
        }
        match (self.role, theirs.len()) {
            // It has read so much of ours, and takes the rest for the next message.
            (Role::Client, negotiation::SHORT) => {
                Err(VerbsError::Version { theirs: format!("{version}, built without mlx5") })
            }
            _ => Ok(()),
        }
    }

    fn receive_options(&self) -> Result<Vec<u8>, VerbsError> {
        let mut theirs = vec![0; negotiation::SHORT];
        exchange::fill(self.stream, &mut theirs, OPTIONS, Some(self.timeout))?;
        let mut rest = [0; negotiation::LONG - negotiation::SHORT];
        match exchange::fill(self.stream, &mut rest, OPTIONS, Some(REST.min(self.timeout))) {
            Ok(()) => theirs.extend(rest),
            Err(VerbsError::Exchange { seen, end: Ended::TimeUp { .. }, .. }) if seen.is_empty() => {}
            Err(error) => return Err(error),
        }
        Ok(theirs)
    }

    fn swap_key(&self, own: &Key, wait: Option<Duration>) -> Result<Key, VerbsError> {
        let message = own.to_message();
        let mut theirs = vec![0; message.len()];
        let swapped = swap_within(self.stream, self.role, &message, &mut theirs, KEY, (self.timeout, wait));
        match swapped {
            Ok(()) => Key::parse(&theirs)
                .ok_or_else(|| self.instead_of_key(own, &theirs).unwrap_or_else(|| garbage(KEY, &theirs))),
            Err(VerbsError::Exchange { wanted, seen, end, source }) => Err(self
                .instead_of_key(own, &seen)
                .unwrap_or(VerbsError::Exchange { wanted, seen, end, source })),
            Err(error) => Err(error),
        }
    }

    /// The first time they are told, and the second, when they must be the same.
    pub(super) fn swap_keys(&mut self) -> Result<(), VerbsError> {
        let is_first = self.remote.is_empty();
        let mut remote: Vec<Key> = Vec::new();
        for own in &self.own {
            let key = self.swap_key(own, Some(self.timeout))?;
            match is_first {
                true => self.check_key(&remote, &key)?,
                false => self.check_repeated(remote.len(), &key)?,
            }
            remote.push(key);
        }
        self.remote = remote;
        Ok(())
    }

    pub(super) fn swap_barrier(&self, wait: Option<Duration>) -> Result<(), VerbsError> {
        let Some(own) = self.own.first() else { return Ok(()) };
        self.check_repeated(0, &self.swap_key(own, wait)?)
    }

    /// What follows on the first field comes at once.
    pub(super) fn swap_report(&self, wait: Option<Duration>) -> Result<Report, VerbsError> {
        let mut theirs = [[0; 8]; REPORT_FIELDS];
        for field in 0..REPORT_FIELDS {
            let wait = if field == 0 { wait } else { Some(self.timeout) };
            let send = |theirs: &[[u8; 8]; REPORT_FIELDS]| {
                let own = self.own_report(theirs).to_messages();
                exchange::send(self.stream, &own[field], REPORT, self.timeout)
            };
            if self.role == Role::Client {
                send(&theirs)?;
            }
            exchange::fill(self.stream, &mut theirs[field], REPORT, wait)?;
            if let Some(error) = self.instead_of_report(&theirs[field]) {
                return Err(error);
            }
            if self.role == Role::Server {
                send(&theirs)?;
            }
        }
        Ok(Report::from_messages(&theirs))
    }

    /// A server has the client's figures before it sends its own, which are of the same traffic and are summed with
    /// them, and takes their unit. A client has a part of the server's at most, and its unit was asked for.
    fn own_report(&self, theirs: &[[u8; 8]; REPORT_FIELDS]) -> Report {
        let Some(found) = &self.measured else { return Report::NOTHING };
        let unit = match self.role {
            Role::Server => Report::from_messages(theirs).unit_beside(found, self.unit),
            Role::Client => self.unit,
        };
        Report::of(found, unit)
    }

    /// Only releases before 23.10 say it, and none waits for it. Best effort.
    pub(super) fn say_done(&self) {
        if self.order.closing.last() == Some(&Step::Barrier) {
            let _ = exchange::send(self.stream, DONE, "`done`", self.timeout);
        }
    }

    /// Whether the connection is closed though messages are still due, or one has come that tells of unlike options.
    pub(super) fn look_at_stream(&self) -> Result<(), VerbsError> {
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
            Ok(Some(count)) if !self.is_own() => self.ahead_of_time(&first[..count]).map_or(Ok(()), Err),
            Ok(_) => Ok(()),
            Err(source) => Err(error(Ended::Broke, Some(source))),
        }
    }
}
