//! What arrives from a stock tool that was started otherwise than this end, or is another tool: it says nothing of its
//! options, but they change what it sends, and when.

use rocade_core::Gid;
use rocade_core::diagnose::Unlike;
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::{KEY_BYTES, KEY_BYTES_WITH_GID, Key, Report};
use rocade_core::pair::perf::order::Step;
use rocade_core::pair::perf::{Operation, SizeResult};

use super::Conversation;
use super::stock::{REPORT, garbage};
use crate::error::VerbsError;

/// Larger is no message's size.
const LARGEST_SIZE: u64 = 1 << 31;

fn unlike(what: Unlike, here: impl ToString, there: impl Into<Option<String>>) -> VerbsError {
    VerbsError::Unlike { what, here: here.to_string(), there: there.into() }
}

/// Whether the bytes begin as keys do.
fn begins_key(bytes: &[u8]) -> bool {
    let mut fields = bytes.splitn(2, |byte| *byte == b':');
    let is_hex = |field: &[u8]| field.iter().all(u8::is_ascii_hexdigit);
    fields.next().is_some_and(|field| field.len() == 4 && is_hex(field)) && fields.next().is_some()
}

impl Conversation<'_> {
    /// Bytes that came, whole or not, where a key was due; None if they tell nothing.
    pub(super) fn instead_of_key(&self, own: &Key, seen: &[u8]) -> Option<VerbsError> {
        let (with, without) = ("by GID", "by LID alone");
        match (own.gid, seen.len()) {
            (Some(_), KEY_BYTES) if Key::parse(seen).is_some() => {
                Some(unlike(Unlike::Addressing, with, without.to_owned()))
            }
            (None, KEY_BYTES) if begins_key(seen) && seen.last() != Some(&0) => {
                Some(unlike(Unlike::Addressing, without, with.to_owned()))
            }
            (_, 8) => {
                let size = seen.iter().fold(0, |size, byte| size << 8 | u64::from(*byte));
                (1..=LARGEST_SIZE).contains(&size).then(|| self.unlike_direction())
            }
            _ => None,
        }
    }

    /// A key that came while the other end tells its own, after those before it: once more the first of them if it has
    /// fewer QPs.
    pub(super) fn check_key(&self, before: &[Key], key: &Key) -> Result<(), VerbsError> {
        match before.iter().any(|other| other.qpn == key.qpn) {
            true => Err(unlike(Unlike::QueuePairs, self.own.len(), before.len().to_string())),
            false => Ok(()),
        }
    }

    /// A key that has come before: another one if the other end has more QPs.
    pub(super) fn check_repeated(&self, at: usize, key: &Key) -> Result<(), VerbsError> {
        match self.remote.get(at) {
            Some(known) if known.qpn != key.qpn => {
                Err(unlike(Unlike::QueuePairs, self.own.len(), "more".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// All keys, at the time when a stock tool would look at their GIDs.
    pub(super) fn check_keys(&self) -> Result<(), VerbsError> {
        if let (Some(own), Some(theirs)) = (self.own.first(), self.remote.first()) {
            check_gids(own.gid, theirs.gid)?;
        }
        if self.is_own() {
            return Ok(());
        }
        self.remote.iter().try_for_each(|key| self.check_operation(key))?;
        self.check_buffers()
    }

    /// Memory that only its owner may touch is that of sends; reads under way are only told by tests of reads.
    fn check_operation(&self, key: &Key) -> Result<(), VerbsError> {
        let operation = self.options().test.operation;
        let theirs = match operation {
            Operation::Write | Operation::Read if key.rkey == 0 => "send",
            Operation::Write | Operation::Send if key.out_reads > 1 => "read",
            _ => return Ok(()),
        };
        Err(unlike(Unlike::Test, self.options().test.stock_name(), format!("one of {theirs}s")))
    }

    /// What lies between two QPs' buffers is what one holds.
    fn check_buffers(&self) -> Result<(), VerbsError> {
        let [first, second, ..] = self.remote.as_slice() else { return Ok(()) };
        let options = self.options();
        let reaches = self.role == Role::Client || options.bidirectional;
        let held = second.vaddr.wrapping_sub(first.vaddr);
        let largest = options.sizes.largest();
        if options.test.operation == Operation::Send || !reaches || !(1..u64::from(largest)).contains(&held) {
            return Ok(());
        }
        Err(unlike(Unlike::Size, format!("{largest} bytes"), format!("at most {held} bytes")))
    }

    /// The first field of a report.
    pub(super) fn instead_of_report(&self, seen: &[u8]) -> Option<VerbsError> {
        begins_key(seen).then(|| self.unlike_direction())
    }

    /// What a server that only receives measured is what happens to be in its memory, unless it sends as well.
    pub(super) fn check_empty(&self, report: &Report) -> Result<(), VerbsError> {
        let own = self.measured.as_ref().map(|found| found.message_bytes);
        match report.result() {
            Some(theirs) if Some(theirs.message_bytes) == own => Err(self.unlike_direction()),
            _ => Ok(()),
        }
    }

    /// What an end that sends has measured. A server that sends nothing has only lent its memory, of which smaller
    /// messages than its own need less.
    pub(super) fn check_report(&self, report: &Report) -> Result<SizeResult, VerbsError> {
        let both_send = self.options().bidirectional;
        let Some(theirs) = report.result() else {
            let error = || garbage(REPORT, report.to_messages().as_flattened());
            return Err(if both_send { self.unlike_direction() } else { error() });
        };
        let latest = self.measured.as_ref().map(|found| found.message_bytes);
        let own = latest.or(self.options().sizes.each().last().copied());
        let fits = |own: u32| match (self.role, both_send) {
            (Role::Server, false) => theirs.message_bytes <= own,
            _ => theirs.message_bytes == own,
        };
        match own {
            Some(own) if !fits(own) => {
                let there = format!("{} bytes", theirs.message_bytes);
                Err(unlike(Unlike::Size, format!("{own} bytes"), there))
            }
            _ => Ok(theirs),
        }
    }

    /// Bytes that have come while both ends should still run: a key is the word of an end that is done, which only an end
    /// that goes one way says before its report.
    pub(super) fn ahead_of_time(&self, seen: &[u8]) -> Option<VerbsError> {
        let next = self.order.after_each.iter().chain(&self.order.found_each).next();
        let is_key = seen.len() >= KEY_BYTES_WITH_GID && begins_key(seen);
        (self.options().bidirectional && next == Some(&Step::Report) && is_key)
            .then(|| self.unlike_direction())
    }

    fn unlike_direction(&self) -> VerbsError {
        let words = |both: bool| if both { "both" } else { "one" };
        let both = self.options().bidirectional;
        unlike(Unlike::Direction, words(both), words(!both).to_owned())
    }
}

fn check_gids(own: Option<Gid>, theirs: Option<Gid>) -> Result<(), VerbsError> {
    let words = |gid: Option<Gid>| match gid.and_then(|gid| gid.address()) {
        Some(address) => format!("the GID {address}"),
        None => "no GID".to_owned(),
    };
    let is_mapped = |gid: Option<Gid>| gid.map(|gid| gid.ipv4().is_some());
    let is_set = |gid: Option<Gid>| gid.map(|gid| !gid.is_zero());
    match is_mapped(own) == is_mapped(theirs) && is_set(own) == is_set(theirs) {
        true => Ok(()),
        false => Err(unlike(Unlike::Addressing, words(own), words(theirs))),
    }
}
