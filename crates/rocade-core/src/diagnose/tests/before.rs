//! Names, TCP and the exchange.

use super::*;

fn exchange(exchange: Exchange) -> Case {
    Case::of(Failure::Exchange(exchange))
}

#[test]
fn a_name_without_an_address_is_told_apart_from_an_end_that_does_not_answer() {
    Case::of(Failure::Resolve { name: "node-b".into() })
        .says("no address could be found for the name node-b", "getent ahosts node-b");
}

#[test]
fn each_way_that_tcp_fails_is_told() {
    for (errno, cause, cure) in [
        (
            111,
            "nothing listens on TCP port 18515 of 10.1.0.2, or a firewall refuses it",
            "start the waiting end",
        ),
        (110, "10.1.0.2 did not answer on TCP port 18515", "NetworkPolicy"),
        (
            113,
            "neither 10.1.0.2 nor a router on the way to it answers, or a firewall there rejects TCP port 18515",
            "icmp-host-prohibited",
        ),
        (
            99,
            "no address of this host goes for a connection to 10.1.0.2: it has none of that family, or that of --bind \
             (--source_ip) is not here or of another one",
            "leave --bind out",
        ),
        (101, "this end has no route to 10.1.0.2", "ip route get 10.1.0.2"),
        (13, "no connection to TCP port 18515 of 10.1.0.2 came about", "waiting end"),
    ] {
        Case::of(Failure::Tcp { server: "10.1.0.2".into(), port: 18515, errno }).says(cause, cure);
    }
}

const PINGPONG: &[u8] = b"0000:000012:29a650:00000000000000000000ffff0a090001\0";
const VERSION: &[u8] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";
const KEY: &[u8] = b"0000:0001:000013:d34eb0:0005d7:";

#[test]
fn what_speaks_at_the_other_end_is_recognised_by_its_first_bytes() {
    let pingpong = "the other end speaks ibv_rc_pingpong's protocol where the MTU was to come";
    let perftest = "the other end speaks the protocol of ib_write_bw and its kin where the MTU was to come";
    let key = "the other end tells the address of one more QP where the MTU was to come";
    let other = "the other end sent something else than the MTU";
    let service = |name: &str| format!("the other end is no RDMA test: {name} answers on that TCP port");
    for (seen, cause, cure) in [
        (PINGPONG, pingpong, "the same test"),
        (&PINGPONG[..16], pingpong, "the same test"),
        (VERSION, perftest, "the same test"),
        (KEY, key, "the same -q"),
        (b"SSH-2.0-OpenSSH_9.2", &service("SSH"), "-p"),
        (b"HTTP/1.1 400 Bad Request", &service("HTTP"), "-p"),
        (&[0x16, 3, 1, 0, 9], &service("TLS"), "-p"),
        (b"hello", other, "nothing else listens"),
        (b"", other, "nothing else listens"),
        (b"6.06", other, "nothing else listens"),
    ] {
        exchange(Exchange::Garbage { wanted: "the MTU".into(), seen: seen.to_vec() }).says(cause, cure);
    }
}

#[test]
fn a_part_of_a_message_is_recognised_only_if_it_can_be_no_part_of_what_was_to_come() {
    let closed =
        |wanted: &str, seen: &[u8]| exchange(Exchange::Closed { wanted: wanted.into(), seen: seen.to_vec() });
    let address = "the other end's address";
    closed(address, VERSION).says(
        "the other end speaks the protocol of ib_write_bw and its kin where the other end's address was to come",
        "the same test",
    );
    // As ib_write_bw leaves a pingpong.
    exchange(Exchange::Broken { wanted: address.into(), seen: VERSION.to_vec(), errno: 104 }).says(
        "the other end speaks the protocol of ib_write_bw and its kin where the other end's address was to come",
        "the same test",
    );
    closed(address, b"SSH-2.0-OpenSSH_9.2")
        .says("the other end is no RDMA test: SSH answers on that TCP port", "-p");
    closed(address, &PINGPONG[..30])
        .says("the other end closed the connection after 30 bytes of the other end's address", "output");
    closed("the other end's version", &VERSION[..8])
        .says("the other end closed the connection after 8 bytes of the other end's version", "output");
    closed("the other end's key", KEY)
        .says("the other end closed the connection after 31 bytes of the other end's key", "output");
}

#[test]
fn an_exchange_that_ends_early_is_told_by_how_it_ended() {
    let wanted = "its address".to_owned();
    for (failed, cause) in [
        (
            Exchange::Closed { wanted: wanted.clone(), seen: vec![] },
            "the other end closed the connection instead of sending its address",
        ),
        (
            Exchange::Closed { wanted: wanted.clone(), seen: b"hello".to_vec() },
            "the other end closed the connection after 5 bytes of its address",
        ),
        (
            Exchange::Timeout { wanted: wanted.clone(), seen: vec![], seconds: 10 },
            "the other end sent nothing for 10 s where its address was to come",
        ),
        (
            Exchange::Timeout { wanted: wanted.clone(), seen: b"hello w".to_vec(), seconds: 10 },
            "the other end sent 7 bytes of its address and no more for 10 s",
        ),
        (
            Exchange::Broken { wanted: wanted.clone(), seen: vec![], errno: 104 },
            "the other end ended while its address was under way",
        ),
        (
            Exchange::Broken { wanted: wanted.clone(), seen: vec![], errno: 32 },
            "the TCP connection broke while its address was under way",
        ),
    ] {
        exchange(failed).says(cause, "output");
    }
}

#[test]
fn an_end_that_goes_once_both_are_connected_is_a_failure_of_the_run() {
    let wanted = "the other end's key".to_owned();
    let ran = "the other end ended while this end's test ran";
    for (midway, cause) in [
        (Exchange::Closed { wanted: wanted.clone(), seen: vec![] }, ran),
        (Exchange::Broken { wanted: wanted.clone(), seen: vec![], errno: 104 }, ran),
        (
            Exchange::Timeout { wanted: wanted.clone(), seen: vec![], seconds: 10 },
            "the other end sent nothing for 10 s where the other end's key was to come",
        ),
    ] {
        let failure = Failure::Midway { exchange: midway, done: 0 };
        assert!(failure.is_of_rdma());
        Case::of(failure).says(cause, "output");
    }
}

#[test]
fn a_foreign_gid_explains_an_end_that_went_only_where_no_message_did() {
    let foreign = "GID index 1 (10.1.0.1) is of no address of this network namespace";
    for (done, cause) in [(0, foreign), (1, "the other end ended while this end's test ran")] {
        let exchange = Exchange::Closed { wanted: "the other end's key".to_owned(), seen: vec![] };
        Case::of(Failure::Midway { exchange, done })
            .with(|case| case.host.netdevs[0].addresses.clear())
            .says(cause, if done == 0 { "leave -x out" } else { "see its output" });
    }
}

/// A stock tool that cannot use an address closes without a word; both ends' GIDs say why.
#[test]
fn a_connection_that_is_closed_after_unlike_gids_were_told_is_explained_by_them() {
    let closed = Exchange::Closed { wanted: "its address".into(), seen: vec![] };
    exchange(closed)
        .to("fd01::2")
        .says("one GID is IPv4, the other IPv6 (10.1.0.1 here, fd01::2 there)", "one family at both ends");
}

/// The other end could not use the address, and has said nothing of its own.
#[test]
fn a_connection_that_is_closed_after_a_foreign_gid_was_told_is_explained_by_it() {
    let closed = Exchange::Closed { wanted: "its address".into(), seen: vec![] };
    exchange(closed)
        .with(|case| case.host.netdevs[0].addresses.clear())
        .says("GID index 1 (10.1.0.1) is of no address of this network namespace", "leave -x out");
}

#[test]
fn versions_and_unlike_options_are_named_with_their_flags() {
    exchange(Exchange::Version { theirs: "6.28".into() })
        .says("the other end announces version 6.28, whose exchange is another one", "6.29 or newer");
    exchange(Exchange::Refused { reason: "2 clients are the most".into() })
        .says("the other end will not: 2 clients are the most", "change that option");
    for (what, name, cure) in [
        (Unlike::Test, "test", "the same test"),
        (Unlike::Size, "message size (-s)", "the same -s"),
        (Unlike::QueuePairs, "number of QPs (-q)", "the same -q"),
        (Unlike::Direction, "direction (-b)", "-b at both ends"),
        (Unlike::Iterations, "number of messages (-n)", "the same -n"),
        (Unlike::Duration, "end of the test (-D or -n)", "the same -D"),
        (Unlike::Addressing, "addressing", "both ends --ipv6, or none"),
    ] {
        let unlike = |there| exchange(Exchange::Unlike { what, here: "2".into(), there });
        unlike(Some("4".into())).says(&format!("the ends differ in their {name}: 2 here, 4 there"), cure);
        unlike(None).says(&format!("the ends differ in their {name}: 2 here, another there"), cure);
    }
}
