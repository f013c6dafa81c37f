//! Blocks between two ends of rocade: whole, within their time, and any of them may be the other end's reason to give up.

use std::net::TcpStream;
use std::time::Duration;

use rocade_core::pair::Role;
use rocade_core::pair::perf::block::{
    self, Barrier, BlockError, Content, Failed, HEADER_BYTES, KEYS_EACH, Keys, Kind, Mtu, Results,
    parse_header, parse_payload,
};
use rocade_core::pair::perf::message::mtu_message;
use rocade_core::pair::perf::{EndFacts, SizeResult};

use super::Conversation;
use crate::error::VerbsError;
use crate::exchange;

/// Longest wait for a reason to be taken by the other end, which may have gone, or to come whole.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// So much of a reason is told; more would not fit into a block.
const REASON_LETTERS: usize = 4096;

pub(super) fn send_block<T: Content>(
    stream: &TcpStream,
    content: &T,
    timeout: Duration,
) -> Result<(), VerbsError> {
    let block = block::write(content).map_err(|error| garbage(T::KIND, error))?;
    let what = T::KIND.words();
    exchange::send(stream, &block, what, timeout).map_err(|error| last_words(stream).unwrap_or(error))
}

/// Waits for the begin of a block for as long as it is given; its payload must follow at once.
pub(super) fn receive_block<T: Content>(stream: &TcpStream, wait: Option<Duration>) -> Result<T, VerbsError> {
    let (kind, payload) = receive_any(stream, T::KIND, wait)?;
    match kind {
        Kind::Failed => Err(refused(&payload)),
        kind if kind == T::KIND => parse_payload(&payload).map_err(|error| garbage(kind, error)),
        other => Err(garbage(T::KIND, BlockError::Other { kind: other })),
    }
}

fn receive_any(
    stream: &TcpStream,
    wanted: Kind,
    wait: Option<Duration>,
) -> Result<(Kind, Vec<u8>), VerbsError> {
    let mut header = [0; HEADER_BYTES];
    exchange::fill(stream, &mut header, wanted.words(), wait)?;
    let (kind, length) = parse_header(&header).map_err(|error| garbage(wanted, error))?;
    let mut payload = vec![0; length];
    let rest = wait.map_or(LAST_WORDS, |wait| wait.min(LAST_WORDS));
    exchange::fill(stream, &mut payload, kind.words(), Some(rest))?;
    Ok((kind, payload))
}

/// Best effort.
pub(super) fn send_failed(stream: &TcpStream, reason: &str, of_rdma: Option<bool>) {
    let reason = reason.chars().take(REASON_LETTERS).collect();
    if let Ok(block) = block::write(&Failed { reason, of_rdma }) {
        let _ = exchange::send(stream, &block, Kind::Failed.words(), LAST_WORDS);
    }
}

/// The other end's reason, if that is what comes next.
fn last_words(stream: &TcpStream) -> Option<VerbsError> {
    let mut header = [0; HEADER_BYTES];
    let seen = exchange::peek(stream, &mut header).ok()??;
    let is_failed = seen == HEADER_BYTES && matches!(parse_header(&header), Ok((Kind::Failed, _)));
    if !is_failed {
        return None;
    }
    let (_, payload) = receive_any(stream, Kind::Failed, Some(LAST_WORDS)).ok()?;
    Some(refused(&payload))
}

fn refused(payload: &[u8]) -> VerbsError {
    let failed: Result<Failed, _> = parse_payload(payload);
    let Failed { reason, of_rdma } = match failed {
        Ok(failed) => failed,
        Err(error) => return garbage(Kind::Failed, error),
    };
    let reason = reason.replace(char::is_control, " ");
    match of_rdma {
        None => VerbsError::Refused { reason },
        Some(of_rdma) => VerbsError::GaveUp { reason, of_rdma },
    }
}

fn garbage(kind: Kind, source: BlockError) -> VerbsError {
    VerbsError::Block { wanted: kind.words(), source }
}

impl Conversation<'_> {
    fn swap_block<T: Content>(&self, content: &T, wait: Option<Duration>) -> Result<T, VerbsError> {
        let send = || send_block(self.stream, content, self.timeout);
        match self.role {
            Role::Client => {
                send()?;
                receive_block(self.stream, wait)
            }
            Role::Server => {
                let theirs = receive_block(self.stream, wait)?;
                send()?;
                Ok(theirs)
            }
        }
    }

    pub(super) fn swap_mtu_block(&self, own_bytes: u32) -> Result<u32, VerbsError> {
        let Mtu(theirs) = self.swap_block(&Mtu(own_bytes), Some(self.timeout))?;
        match mtu_message(theirs) {
            Some(_) => Ok(theirs),
            None => {
                Err(garbage(Kind::Mtu, BlockError::Payload { reason: format!("an MTU of {theirs} bytes") }))
            }
        }
    }

    pub(super) fn swap_facts(&self, own: &EndFacts) -> Result<EndFacts, VerbsError> {
        self.swap_block(own, Some(self.timeout))
    }

    pub(super) fn swap_key_blocks(&mut self) -> Result<(), VerbsError> {
        let mut remote = Vec::new();
        for own in self.own.chunks(KEYS_EACH) {
            let Keys(theirs) = self.swap_block(&Keys(own.to_vec()), Some(self.timeout))?;
            if theirs.len() != own.len() {
                let reason = format!("{} keys came for {} of this end's", theirs.len(), own.len());
                return Err(garbage(Kind::Keys, BlockError::Payload { reason }));
            }
            remote.extend(theirs);
        }
        self.remote = remote;
        Ok(())
    }

    pub(super) fn swap_barrier_block(&self, wait: Option<Duration>) -> Result<(), VerbsError> {
        self.swap_go_on(true, wait).map(drop)
    }

    pub(super) fn swap_go_on(&self, go_on: bool, wait: Option<Duration>) -> Result<bool, VerbsError> {
        self.swap_block(&Barrier { go_on }, wait).map(|theirs| go_on && theirs.go_on)
    }

    pub(super) fn swap_results(&self, wait: Option<Duration>) -> Result<Option<SizeResult>, VerbsError> {
        self.swap_block(&Results(self.measured.clone()), wait).map(|Results(theirs)| theirs)
    }

    pub(super) fn look_for_reason(&self) -> Result<(), VerbsError> {
        last_words(self.stream).map_or(Ok(()), Err)
    }
}
