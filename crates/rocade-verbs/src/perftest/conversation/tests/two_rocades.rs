//! Two ends of rocade.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;

use rocade_core::Gid;
use rocade_core::diagnose::{Exchange, Failure};
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::{Memory, VERSION_BYTES};
use rocade_core::pair::perf::{Options, SizeResult, Sizes, Test};

use super::{Driver, LONG, variants};
use crate::error::VerbsError;
use crate::exchange::connected_ends;
use crate::perftest::conversation::{Own, Peer, greet};

type Found = Result<Vec<SizeResult>, VerbsError>;

/// A client that asks for options, and a server that was started with others.
fn both(client: Driver, server: Driver) -> (Found, Found) {
    let (stream, other) = connected_ends();
    let server = thread::spawn(move || server.drive(&other));
    let client = client.drive(&stream);
    drop(stream);
    (client, server.join().unwrap())
}

fn server() -> Driver {
    Driver { gbps: 4.0, ..Driver::new(Role::Server, Options::stock(super::test("send-lat"))) }
}

#[test]
fn the_server_does_what_the_client_asks_for_and_both_print_the_same() {
    for test in Test::ALL {
        let list = Options { sizes: Sizes::List(vec![2, 4096, 64]), ..Options::stock(test) };
        for (with, options) in variants(test).into_iter().chain([("a list", list)]) {
            let sizes = options.sizes.each();
            let both_send = options.bidirectional;
            let (client, server) = both(Driver::new(Role::Client, options), server());
            let (client, server) = (client.unwrap(), server.unwrap());
            assert_eq!(client, server, "{test} {with}");
            assert_eq!(client.iter().map(|found| found.message_bytes).collect::<Vec<_>>(), sizes);
            let gbps = if both_send { 12.0 } else { 8.0 };
            assert!(
                client.iter().all(|found| found.bandwidth.unwrap().average_gbps == gbps),
                "{test} {with}"
            );
        }
    }
}

#[test]
fn keys_of_many_qps_go_in_several_blocks() {
    let options = Options { qps: 1000, ..Options::stock(super::test("write-bw")) };
    let (client, server) = both(Driver::new(Role::Client, options), server());
    assert_eq!(client.unwrap(), server.unwrap());
}

#[test]
fn each_end_knows_the_other_for_rocade() {
    let (stream, other) = connected_ends();
    let server = thread::spawn(move || server().greet(&other).unwrap());
    let client = Driver::new(Role::Client, Options::stock(super::test("read-bw"))).greet(&stream).unwrap();
    let server = server.join().unwrap();
    assert_eq!(client.peer, Peer::Rocade { version: "0.1.0".to_owned(), dialect: 1 });
    assert_eq!(server.gid, Some(Gid::from_address("10.9.0.1".parse().unwrap())));
    assert_eq!((client.peer.name(), &client), ("rocade 0.1.0".to_owned(), &server));
}

/// A part to play at the other end of a connection.
fn against(part: impl FnOnce(TcpStream) + Send + 'static) -> TcpStream {
    let (stream, other) = connected_ends();
    thread::spawn(move || part(other));
    stream
}

#[test]
fn a_server_says_why_it_refuses() {
    let stream = against(|stream| {
        let options = Options::stock(super::test("write-bw"));
        let own = Own { version: "0.1.0", options: &options, memory: super::MEMORY, gid: None };
        let limit = |_: &Options, _| Err("at most 1 MiB here".to_owned());
        let error = greet(&stream, Role::Server, &own, LONG, &limit).unwrap_err();
        assert!(matches!(error, VerbsError::Declined { .. }), "{error}");
    });
    let error =
        Driver::new(Role::Client, Options::stock(super::test("write-bw"))).greet(&stream).unwrap_err();
    assert_eq!(error.to_string(), "the other end refuses: at most 1 MiB here");
    let refused = Exchange::Refused { reason: "at most 1 MiB here".to_owned() };
    assert_eq!(error.failure(), Some(Failure::Exchange(refused)));
}

/// Its own options, which a stock client does not ask for, count only once it is one.
#[test]
fn a_server_that_may_not_do_what_a_stock_client_wants_closes_on_it() {
    let stream = against(|mut stream| {
        let mut version = [0; VERSION_BYTES];
        version[..4].copy_from_slice(b"6.06");
        stream.write_all(&version).unwrap();
        stream.write_all(&65536_u32.to_be_bytes()).unwrap();
        stream.write_all(&64_u32.to_be_bytes()).unwrap();
        assert_eq!(stream.read_to_end(&mut vec![]).unwrap(), VERSION_BYTES + 8);
    });
    let options = Options::stock(super::test("write-bw"));
    let own = Own { version: "0.1.0", options: &options, memory: super::MEMORY, gid: None };
    let limit =
        |asked: &Options, memory: Memory| Err(format!("no {} of {} bytes", asked.test, memory.page_bytes));
    let error = greet(&stream, Role::Server, &own, LONG, &limit).unwrap_err();
    let wanted = "no write-bw of 65536 bytes";
    assert!(matches!(&error, VerbsError::Declined { reason } if reason == wanted), "{error}");
}

#[test]
fn a_server_refuses_options_that_no_test_has() {
    let bad = Options { qps: 0, ..Options::stock(super::test("write-bw")) };
    let (client, server) = both(Driver::new(Role::Client, bad), server());
    assert!(matches!(server, Err(VerbsError::Declined { .. })), "{server:?}");
    assert!(matches!(client, Err(VerbsError::Refused { .. })), "{client:?}");
}

#[test]
fn an_end_that_gives_up_is_heard_by_one_that_waits_and_by_one_that_runs() {
    for waits in [true, false] {
        let stream = against(|stream| {
            let driver = server();
            let greeting = driver.greet(&stream).unwrap();
            let mut conversation = driver.converse(&stream, &greeting).unwrap();
            conversation.before_size().unwrap();
            conversation.fail("no memory\nleft", true);
        });
        let driver = Driver::new(Role::Client, Options::stock(super::test("write-bw")));
        let greeting = driver.greet(&stream).unwrap();
        let mut conversation = driver.converse(&stream, &greeting).unwrap();
        conversation.before_size().unwrap();
        let error = match waits {
            true => conversation.after_size().unwrap_err(),
            false => loop {
                // Until the words have arrived.
                if let Err(error) = conversation.look() {
                    break error;
                }
            },
        };
        assert_eq!(error.to_string(), "the other end gave up: no memory left");
        assert!(error.failure().unwrap().is_of_rdma());
    }
}

#[test]
fn an_end_that_dies_while_this_one_runs_is_seen() {
    let stream = against(|stream| {
        let driver = server();
        let greeting = driver.greet(&stream).unwrap();
        driver.converse(&stream, &greeting).unwrap().before_size().unwrap();
    });
    let driver = Driver::new(Role::Client, Options::stock(super::test("read-bw")));
    let greeting = driver.greet(&stream).unwrap();
    let mut conversation = driver.converse(&stream, &greeting).unwrap();
    conversation.before_size().unwrap();
    let error = loop {
        if let Err(error) = conversation.look() {
            break error;
        }
    };
    assert!(error.to_string().contains("closed the connection"), "{error}");
}
