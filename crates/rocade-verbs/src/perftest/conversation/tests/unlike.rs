//! Stock tools that were started otherwise than this end: named from what arrives.

use std::io::Write;
use std::net::TcpStream;

use rocade_core::diagnose::Unlike;
use rocade_core::pair::Role;
use rocade_core::pair::perf::{Options, SizeResult, Sizes};

use super::stock_tools::messages;
use super::{Driver, test};
use crate::error::VerbsError;
use crate::exchange::connected_ends;

/// All that a tool sends, by words of its script, of a size; what this end reads of it does not depend on what it sends.
fn heard(driver: &Driver, words: &str, size: u64) -> Result<Vec<SizeResult>, VerbsError> {
    let bytes: Vec<Vec<u8>> = words.split_whitespace().flat_map(|word| messages(word, size)).collect();
    heard_bytes(driver, &bytes.concat())
}

fn heard_bytes(driver: &Driver, bytes: &[u8]) -> Result<Vec<SizeResult>, VerbsError> {
    let (stream, other) = said(bytes);
    let found = driver.drive(&stream);
    drop(other);
    found
}

fn said(bytes: &[u8]) -> (TcpStream, TcpStream) {
    let (stream, mut other) = connected_ends();
    other.write_all(bytes).unwrap();
    (stream, other)
}

fn options(name: &str) -> Options {
    Options::stock(test(name))
}

#[track_caller]
fn assert_unlike(found: Result<Vec<SizeResult>, VerbsError>, expected: Unlike, words: &str) {
    let error = found.unwrap_err();
    assert!(matches!(&error, VerbsError::Unlike { what, .. } if *what == expected), "{error}");
    assert_eq!(error.to_string(), format!("the ends differ in {words}"));
}

#[test]
fn more_and_fewer_qps_are_told_by_whose_key_comes_when() {
    for role in [Role::Client, Role::Server] {
        let one = Driver::new(role, options("write-bw"));
        assert_unlike(
            heard(&one, "V C L M K0 K1", 65536),
            Unlike::QueuePairs,
            "the number of QPs: 1 here, more there",
        );
        let two = Driver::new(role, Options { qps: 2, ..options("write-bw") });
        assert_unlike(
            heard(&two, "V C L M K0 K0", 65536),
            Unlike::QueuePairs,
            "the number of QPs: 2 here, 1 there",
        );
    }
}

#[test]
fn a_size_is_told_by_the_report_of_a_sender() {
    let options = Options { bidirectional: true, ..options("write-bw") };
    for role in [Role::Client, Role::Server] {
        assert_unlike(
            heard(&Driver::new(role, options.clone()), "V C L M K0 K0 K0 K0 R", 4096),
            Unlike::Size,
            "the size of a message: 65536 bytes here, 4096 bytes there",
        );
    }
}

#[test]
fn a_size_larger_than_the_memory_that_is_lent_is_told_by_the_report() {
    assert_unlike(
        heard(&Driver::new(Role::Server, options("write-bw")), "V C L M K0 K0 K0 K0 R", 1 << 20),
        Unlike::Size,
        "the size of a message: 65536 bytes here, 1048576 bytes there",
    );
}

#[test]
fn a_server_that_only_lends_its_memory_takes_smaller_messages_as_they_are() {
    let server = Driver::new(Role::Server, Options { sizes: Sizes::One(8 << 20), ..options("write-bw") });
    let found = heard(&server, "V C L M K0 K0 K0 K0 R K0", 64).unwrap();
    assert_eq!(found.iter().map(|size| size.message_bytes).collect::<Vec<_>>(), [64]);
}

#[test]
fn a_smaller_buffer_is_told_by_the_distance_of_two_qps() {
    let options = Options { qps: 2, sizes: Sizes::One(1 << 20), ..options("write-bw") };
    assert_unlike(
        heard(&Driver::new(Role::Client, options), "V C L M K0 K1", 65536),
        Unlike::Size,
        "the size of a message: 1048576 bytes here, at most 65536 bytes there",
    );
}

#[test]
fn a_server_that_sends_as_well_is_told_by_its_report() {
    let client = Driver::new(Role::Client, options("write-bw"));
    assert_unlike(
        heard(&client, "V C L M K0 K0 K0 K0 R", 65536),
        Unlike::Direction,
        "the directions: one here, both there",
    );
}

#[test]
fn a_server_that_only_receives_is_told_by_its_report() {
    let options = Options { bidirectional: true, ..options("write-bw") };
    let mut bytes: Vec<Vec<u8>> =
        "V C L M K0 K0 K0 K0".split(' ').flat_map(|word| messages(word, 0)).collect();
    bytes.extend([0x7ffe_f425_ee04_u64, 1, 6, 2, 3].map(|field| field.to_be_bytes().to_vec()));
    assert_unlike(
        heard_bytes(&Driver::new(Role::Client, options), &bytes.concat()),
        Unlike::Direction,
        "the directions: both here, one there",
    );
}

#[test]
fn a_key_where_a_report_was_due_tells_the_direction() {
    let server = Driver::new(Role::Server, options("write-bw"));
    // With -b and -a a client goes on with the next barrier.
    assert_unlike(
        heard(&server, "V C L M K0 K0 K0 K0 K0", 2),
        Unlike::Direction,
        "the directions: one here, both there",
    );
}

#[test]
fn a_report_where_a_key_was_due_tells_the_direction() {
    let driver =
        Driver { timeout: super::misbehaving::SHORT, ..Driver::new(Role::Server, options("send-bw")) };
    let mut bytes: Vec<u8> =
        "V C L M K0 K0 K0 K0".split(' ').flat_map(|word| messages(word, 0)).flatten().collect();
    bytes.extend(65536_u64.to_be_bytes());
    assert_unlike(heard_bytes(&driver, &bytes), Unlike::Direction, "the directions: one here, both there");
}

#[test]
fn a_one_way_client_that_is_done_before_a_two_way_run_is_seen_while_it_runs() {
    let driver = Driver::new(Role::Server, Options { bidirectional: true, ..options("send-bw") });
    // The last is the end of a client that goes one way.
    let words = "V C L M K0 K0 K0 K0 K0";
    let bytes: Vec<u8> = words.split(' ').flat_map(|word| messages(word, 0)).flatten().collect();
    let (stream, _other) = said(&bytes);
    let greeting = driver.greet(&stream).unwrap();
    let mut conversation = driver.converse(&stream, &greeting).unwrap();
    conversation.before_size().unwrap();
    let error = conversation.look().unwrap_err();
    assert_eq!(error.to_string(), "the ends differ in the directions: both here, one there");
}

#[test]
fn another_tool_is_told_by_what_its_keys_allow() {
    let head = "V C L M".split(' ').flat_map(|word| messages(word, 0)).flatten();
    let key = String::from_utf8(messages("K0", 0).concat()).unwrap();
    let with = |key: String| head.clone().chain(key.into_bytes()).collect::<Vec<u8>>();
    let client = |name| Driver::new(Role::Client, options(name));
    assert_unlike(
        heard_bytes(&client("write-bw"), &with(key.replace("000005d7", "00000000"))),
        Unlike::Test,
        "their test: ib_write_bw here, one of sends there",
    );
    assert_unlike(
        heard_bytes(&client("send-bw"), &with(key.replace(":0001:", ":0080:"))),
        Unlike::Test,
        "their test: ib_send_bw here, one of reads there",
    );
}

#[test]
fn unlike_addressing_is_told_by_the_key() {
    let head = "V C L M".split(' ').flat_map(|word| messages(word, 0)).flatten();
    let key = String::from_utf8(messages("K0", 0).concat()).unwrap();
    let with = |key: &str| head.clone().chain(key.bytes()).collect::<Vec<u8>>();
    let short = |gid| Driver {
        timeout: super::misbehaving::SHORT,
        gid,
        ..Driver::new(Role::Client, options("write-bw"))
    };
    let by_gid = short(Driver::new(Role::Client, options("write-bw")).gid);
    let without = "0001:0001:000013:d34eb0:000005d7:00007f99cc267000:00000000\0";
    assert_unlike(
        heard_bytes(&by_gid, &with(without)),
        Unlike::Addressing,
        "addressing: by GID here, by LID alone there",
    );
    assert_unlike(
        heard_bytes(&short(None), &with(&key)),
        Unlike::Addressing,
        "addressing: by LID alone here, by GID there",
    );
    assert_unlike(
        heard_bytes(&by_gid, &with(&key.replace("00:00:ff:ff:0a", "00:01:ff:ff:0a"))),
        Unlike::Addressing,
        "addressing: the GID 10.9.0.1 here, the GID ::1:ffff:a09:1 there",
    );
}

#[test]
fn versions_that_stock_tools_refuse_are_refused() {
    let client = Driver::new(Role::Client, options("write-bw"));
    let error = heard_bytes(&client, b"5.60\0\0\0\0\0\0\0\0\0\0\0\0").unwrap_err();
    assert!(matches!(&error, VerbsError::Version { theirs } if theirs == "5.60"), "{error}");
}

/// Perftest 26.01.5 sends its options to everyone.
#[test]
fn the_block_of_6_28_is_answered_as_a_server_and_sent_as_a_client() {
    use rocade_core::pair::perf::message::Unit;
    use rocade_core::pair::perf::negotiation::{LONG, SHORT, block};
    let options = options("write-bw");
    let head = |bytes: usize, options: &Options| {
        let mut said = b"6.28\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
        said.extend("C L M".split(' ').flat_map(|word| messages(word, 0)).flatten());
        said.extend(&block(options, Unit::Mebibytes)[..bytes]);
        said
    };
    let rest =
        |words: &str| words.split(' ').flat_map(|word| messages(word, 65536)).flatten().collect::<Vec<u8>>();
    for role in [Role::Client, Role::Server] {
        let said = [head(LONG, &options), rest("K0 K0 K0 K0 R K0")].concat();
        let found = heard_bytes(&Driver::new(role, options.clone()), &said);
        // A server's report as a client's is no stack: what matters here is that the keys came through.
        match role {
            Role::Server => assert_eq!(found.unwrap().len(), 1),
            Role::Client => assert!(matches!(found, Err(VerbsError::Unlike { what: Unlike::Direction, .. }))),
        }
        let other = Options { qps: 2, ..options.clone() };
        assert_unlike(
            heard_bytes(&Driver::new(role, options.clone()), &head(LONG, &other)),
            Unlike::QueuePairs,
            "the number of QPs: 1 here, 2 there",
        );
    }
    let client = Driver { timeout: super::misbehaving::SHORT, ..Driver::new(Role::Client, options.clone()) };
    let error = heard_bytes(&client, &head(SHORT, &options)).unwrap_err();
    assert!(matches!(error, VerbsError::Version { .. }), "{error}");
}
