//! A peer that sends garbage, half a message, far too much, nothing, or closes, at each step of the exchange: an error
//! within the timeout and never a panic, in both roles. What it says is written ahead, as in the perftest's table.

use std::io::Write;
use std::net::Shutdown;
use std::time::Instant;

use proptest::prelude::*;
use rocade_core::Gid;

use super::*;

/// For what must come, and for what does not.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

/// What becomes of a message.
#[derive(Debug)]
enum Fault {
    Nothing,
    Closed,
    HalfThenNothing,
    HalfThenClosed,
    Instead(Vec<u8>),
}

fn faults() -> Vec<Fault> {
    vec![
        Fault::Nothing,
        Fault::Closed,
        Fault::HalfThenNothing,
        Fault::HalfThenClosed,
        Fault::Instead(vec![0xff; 10_000]),
        Fault::Instead(vec![0; 10_000]),
        Fault::Instead(b"HTTP/1.1 400 Bad Request\r\n".repeat(20)),
        Fault::Instead(b"DONE\0".repeat(20)),
    ]
}

fn endpoint(qpn: u32) -> Endpoint {
    Endpoint { lid: 0, qpn, psn: 7, gid: Gid::from_address("10.1.0.1".parse().unwrap()) }
}

/// What a peer says that behaves, to an end of that role.
fn messages(role: Role) -> Vec<Vec<u8>> {
    let mut messages = vec![endpoint(2).to_message().to_vec()];
    if role == Role::Server {
        messages.push(DONE.to_vec());
    }
    messages
}

/// An end against a peer that behaves up to a message, to which the fault befalls; and what it was bound to.
fn meet(
    role: Role,
    timeout: Duration,
    at: usize,
    fault: &Fault,
) -> (Result<(), VerbsError>, Option<Endpoint>) {
    let (stream, mut other) = exchange::connected_ends();
    let messages = messages(role);
    other.write_all(&messages[..at].concat()).unwrap();
    let half = messages.get(at).map_or(&[][..], |message| &message[..message.len() / 2]);
    match fault {
        Fault::HalfThenNothing | Fault::HalfThenClosed => other.write_all(half).unwrap(),
        Fault::Instead(bytes) => other.write_all(bytes).unwrap(),
        Fault::Nothing | Fault::Closed => {}
    }
    if matches!(fault, Fault::Closed | Fault::HalfThenClosed) {
        other.shutdown(Shutdown::Write).unwrap();
    }
    let mut bound = None;
    let met = shake_hands(&stream, role, &endpoint(1), timeout, |remote| {
        bound = Some(remote);
        Ok(())
    });
    (met, bound)
}

#[test]
fn every_fault_at_every_step_is_an_error_in_both_roles_and_no_garbage_is_bound_to() {
    for role in [Role::Client, Role::Server] {
        for at in 0..messages(role).len() {
            for fault in faults() {
                let start = Instant::now();
                let (met, bound) = meet(role, SHORT, at, &fault);
                assert!(met.is_err(), "{role:?}, {fault:?} at {at}");
                assert_eq!(bound, (at > 0).then(|| endpoint(2)), "{role:?}, {fault:?} at {at}");
                assert!(start.elapsed() < LONG, "{role:?}, {fault:?} at {at}");
            }
        }
    }
}

#[test]
fn a_peer_that_behaves_is_met_and_bound_to() {
    for role in [Role::Client, Role::Server] {
        let (met, bound) = meet(role, LONG, messages(role).len(), &Fault::Nothing);
        met.unwrap();
        assert_eq!(bound, Some(endpoint(2)), "{role:?}");
    }
}

proptest! {
    /// Bytes of any kind and number, or a message with one byte changed.
    #[test]
    fn any_bytes_at_any_step_end_in_an_answer_and_none_but_the_messages_is_taken(
        is_client: bool,
        step: prop::sample::Index,
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        changed in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let role = if is_client { Role::Client } else { Role::Server };
        let messages = messages(role);
        let at = step.index(messages.len());
        let bytes = match changed {
            None => bytes,
            Some((place, byte)) => {
                let mut message = messages[at].clone();
                let place = place.index(message.len());
                message[place] = byte;
                message
            }
        };
        let is_address = |bytes: &[u8]| {
            let message = bytes.get(..MESSAGE_BYTES).and_then(|message| message.try_into().ok());
            message.is_some_and(|message| Endpoint::from_message(message).is_ok())
        };
        let is_right = if at == 0 { is_address(&bytes) } else { bytes.starts_with(DONE) };
        let start = Instant::now();
        let (met, _) = meet(role, SHORT, at, &Fault::Instead(bytes));
        // A server that got its address still waits for `done`, which does not come.
        prop_assert_eq!(met.is_ok(), is_right && at + 1 == messages.len());
        prop_assert!(start.elapsed() < LONG);
    }
}
