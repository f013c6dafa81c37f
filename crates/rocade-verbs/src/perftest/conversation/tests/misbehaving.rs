//! A peer that sends garbage, half a message, far too much, nothing, or closes, at each step of the exchange: an error
//! within the timeout and never a panic, in both roles, for each tool, with stock peers and with rocade. Only an end that
//! answers has no limit for the end of the other's run: it waits for as long as the connection lives.
//!
//! Nobody need play the peer: what it says is written ahead, and does not depend on what this end says.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rocade_core::pair::Role;
use rocade_core::pair::perf::block::{self, Barrier, Failed, Hello, Keys, Mtu, Results};
use rocade_core::pair::perf::message::Announcement;
use rocade_core::pair::perf::{Options, Sizes, Test};

use super::{Driver, LONG, MEMORY, facts, found, keys, stock_tools};
use crate::error::VerbsError;
use crate::exchange::connected_ends;

/// For what does not come.
pub(super) const SHORT: Duration = Duration::from_millis(20);

/// A tool and its options.
struct Case {
    test: Test,
    with: &'static str,
    options: Options,
}

/// Of small messages, which take no time that is worth waiting for.
fn cases() -> Vec<Case> {
    let cases = |test: Test| {
        let cases = super::variants(test).into_iter().filter(|(_, options)| options.sizes != Sizes::All);
        cases.map(move |(with, options)| {
            let options = Options { sizes: Sizes::One(64), ..options };
            Case { test, with, options }
        })
    };
    Test::ALL.into_iter().flat_map(cases).collect()
}

/// What a peer says that behaves, message by message.
fn messages(case: &Case, role: Role, is_rocade: bool) -> Vec<Vec<u8>> {
    let options = &case.options;
    let size = options.sizes.largest();
    if !is_rocade {
        let script = stock_tools::script(case.test, case.with);
        let is_stack = role == Role::Client && !options.bidirectional;
        return script
            .iter()
            .flat_map(|word| {
                stock_tools::messages(word, if word == "R" && is_stack { 3 } else { size.into() })
            })
            .collect();
    }
    let hello = Hello { version: "0.1.0".to_owned(), memory: MEMORY, gid: None, options: options.clone() };
    let gid = Driver::new(role, options.clone()).gid;
    let barrier = || block::write(&Barrier { go_on: true });
    [
        Ok(Announcement::own().to_vec()),
        block::write(&hello),
        block::write(&facts()),
        block::write(&Mtu(1024)),
        block::write(&Keys(keys(options, gid))),
        barrier(),
        barrier(),
        barrier(),
        block::write(&Results(Some(found(size, 8.0)))),
    ]
    .into_iter()
    .collect::<Result<_, _>>()
    .unwrap()
}

/// The message that the end of the other's run makes come, where this end waits for it without limit.
fn unlimited(case: &Case, role: Role, is_rocade: bool) -> Option<usize> {
    if case.options.patience(role, !is_rocade, SHORT, Duration::ZERO).is_some() {
        return None;
    }
    if is_rocade {
        return Some(7);
    }
    let script = stock_tools::script(case.test, case.with);
    let before = script.iter().take_while(|word| *word != "!");
    Some(before.map(|word| stock_tools::messages(word, 64).len()).sum())
}

/// What becomes of a message.
#[derive(Debug, Clone)]
enum Fault {
    Nothing,
    Closed,
    HalfThenNothing,
    HalfThenClosed,
    Instead(Vec<u8>),
}

fn faults(is_rocade: bool) -> Vec<Fault> {
    let huge_block = b"rcd\x05\xff\xff\xff\xff".to_vec();
    let large_block = [b"rcd\x05\x00\x01\x00\x00".to_vec(), vec![b'['; 0x10000]].concat();
    let mut faults = vec![
        Fault::Nothing,
        Fault::Closed,
        Fault::HalfThenNothing,
        Fault::HalfThenClosed,
        Fault::Instead(vec![0xff; 100_000]),
        Fault::Instead(vec![0; 100_000]),
        Fault::Instead(b"HTTP/1.1 400 Bad Request\r\n".repeat(20)),
    ];
    if is_rocade {
        let failed = block::write(&Failed { reason: "no more".to_owned(), of_rdma: Some(false) }).unwrap();
        faults.extend([huge_block, large_block, failed].map(Fault::Instead));
    }
    faults
}

/// This end against a peer that behaves up to a message, to which the fault befalls, and that goes after `closes`.
fn meet(
    driver: &Driver,
    messages: &[Vec<u8>],
    at: usize,
    fault: &Fault,
    closes: Option<Duration>,
) -> Result<(), VerbsError> {
    let (stream, mut other) = connected_ends();
    other.write_all(&messages[..at].concat()).unwrap();
    let half = &messages[at][..messages[at].len() / 2];
    let close = |other: &TcpStream| other.shutdown(Shutdown::Write).unwrap();
    match fault {
        Fault::Nothing => {}
        Fault::Closed => close(&other),
        Fault::HalfThenNothing => other.write_all(half).unwrap(),
        Fault::HalfThenClosed => {
            other.write_all(half).unwrap();
            close(&other);
        }
        Fault::Instead(bytes) => other.write_all(bytes).unwrap(),
    }
    thread::scope(|scope| {
        if let Some(after) = closes {
            scope.spawn(move || {
                thread::sleep(after);
                close(&other);
            });
            return driver.drive(&stream).map(drop);
        }
        driver.drive(&stream).map(drop)
    })
}

/// A stock tool's word that this end does not look at: a receiving server's report, and all that follows on it.
fn is_unread(case: &Case, role: Role, is_rocade: bool, fault: &Fault) -> bool {
    let receives = role == Role::Client && !case.options.bidirectional;
    !is_rocade && receives && matches!(fault, Fault::Instead(_))
}

fn check(case: &Case, role: Role, is_rocade: bool) {
    let messages = messages(case, role, is_rocade);
    let driver = Driver { timeout: SHORT, ..Driver::new(role, case.options.clone()) };
    for at in 0..messages.len() {
        for fault in faults(is_rocade) {
            let told =
                || format!("{} {} {role:?}, rocade {is_rocade}, {fault:?} at {at}", case.test, case.with);
            let is_silent = matches!(fault, Fault::Nothing);
            let closes = (is_silent && unlimited(case, role, is_rocade) == Some(at)).then_some(10 * SHORT);
            let start = Instant::now();
            let met = meet(&driver, &messages, at, &fault, closes);
            assert!(met.is_err() || is_unread(case, role, is_rocade, &fault), "{}", told());
            assert!(closes.is_none_or(|after| start.elapsed() >= after), "{}", told());
            // Each message has its time, and what is silent is so at the first.
            assert!(start.elapsed() < LONG, "{}", told());
        }
    }
}

#[test]
fn every_fault_at_every_step_is_an_error_in_both_roles_with_both_kinds_of_peer() {
    let mut work = Vec::new();
    for case in cases() {
        for role in [Role::Client, Role::Server] {
            for is_rocade in [false, true] {
                let copy = Case { options: case.options.clone(), ..case };
                work.push((copy, role, is_rocade));
            }
        }
    }
    // They mostly wait.
    let work = Mutex::new(work);
    thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                loop {
                    let next = work.lock().unwrap().pop();
                    let Some((case, role, is_rocade)) = next else { break };
                    check(&case, role, is_rocade);
                }
            });
        }
    });
}

#[test]
fn peers_that_behave_are_spoken_with_to_the_end() {
    for case in cases() {
        for role in [Role::Client, Role::Server] {
            for is_rocade in [false, true] {
                let all = messages(&case, role, is_rocade).concat();
                let (stream, mut other) = connected_ends();
                other.write_all(&all).unwrap();
                let met = Driver::new(role, case.options.clone()).drive(&stream);
                let told = format!("{} {} {role:?}, rocade {is_rocade}", case.test, case.with);
                assert!(met.is_ok(), "{told}: {}", met.unwrap_err());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Bytes of any kind and number, where they may fit by chance: what counts is that it ends.
    #[test]
    fn any_bytes_at_any_step_end_in_an_answer(
        which: prop::sample::Index,
        step: prop::sample::Index,
        is_client: bool,
        is_rocade: bool,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        changed in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let cases = cases();
        let case = which.get(&cases);
        let role = if is_client { Role::Client } else { Role::Server };
        let messages = messages(case, role, is_rocade);
        let at = step.index(messages.len());
        // Either something else, or the message with one byte changed.
        let bytes = match changed {
            None => bytes,
            Some((place, byte)) => {
                let mut message = messages[at].clone();
                let place = place.index(message.len());
                message[place] = byte;
                message
            }
        };
        let driver = Driver { timeout: SHORT, ..Driver::new(role, case.options.clone()) };
        let start = Instant::now();
        // Should it come to wait without limit.
        let closes = unlimited(case, role, is_rocade).map(|_| 10 * SHORT);
        let _ = meet(&driver, &messages, at, &Fault::Instead(bytes), closes);
        prop_assert!(start.elapsed() < LONG);
    }
}
