//! Against a scripted stock tool of either role: each message of 6.06 in the order of its main function, each read with
//! one `read` as it does, its bytes as captured of Debian's over soft-RoCE.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rocade_core::pair::Role;
use rocade_core::pair::perf::{Options, Test};

use super::{Driver, Event, LONG, found, variants};
use crate::exchange::connected_ends;

/// Ahead of all keys, in every tool.
const HEAD: &str = "V C L M";

/// A tool, its options, and what follows: K0 is the first QP's key, `|` where the other end connects its QPs, `!` where
/// it runs, R a report, D the `done` of releases before 23.10, `23(…)` each of all sizes.
const SCRIPTS: &[(&str, &str, &str)] = &[
    ("write-bw", "", "K0 | K0 K0 ! K0 R K0 D"),
    ("write-bw", "-q 2", "K0 K1 | K0 K1 K0 ! K0 R K0 D"),
    ("write-bw", "-a", "K0 | K0 K0 23(!) K0 R K0 D"),
    ("write-bw", "-b", "K0 | K0 K0 K0 ! R K0 D"),
    ("write-bw", "-b -a", "K0 | K0 K0 23(K0 ! K0 R) K0 D"),
    ("write-bw", "-b -D 4", "K0 | K0 K0 K0 ! R K0 D"),
    ("read-bw", "", "K0 | K0 K0 ! K0 R K0 D"),
    ("read-bw", "-q 2", "K0 K1 | K0 K1 K0 ! K0 R K0 D"),
    ("read-bw", "-a", "K0 | K0 K0 23(!) K0 R K0 D"),
    ("read-bw", "-b", "K0 | K0 K0 K0 ! R K0 D"),
    ("read-bw", "-b -a", "K0 | K0 K0 23(K0 ! K0 R) K0 D"),
    ("read-bw", "-b -D 4", "K0 | K0 K0 K0 ! R K0 D"),
    ("send-bw", "", "K0 | K0 K0 K0 ! K0 D"),
    ("send-bw", "-q 2", "K0 K1 | K0 K0 K1 K0 ! K0 D"),
    ("send-bw", "-a", "K0 | K0 K0 23(K0 ! K0) K0 D"),
    ("send-bw", "-b", "K0 | K0 K0 K0 ! R K0 D"),
    ("send-bw", "-b -a", "K0 | K0 K0 23(K0 ! R K0) K0 D"),
    ("send-bw", "-b -D 4", "K0 | K0 K0 K0 ! K0 D"),
    ("write-lat", "", "K0 K0 | K0 K0 !"),
    ("write-lat", "-a", "K0 K0 | K0 K0 23(!)"),
    ("read-lat", "", "K0 K0 | K0 K0 ! K0 D"),
    ("read-lat", "-a", "K0 K0 | K0 K0 23(!) K0 D"),
    ("send-lat", "", "K0 | K0 K0 K0 ! K0 D"),
    ("send-lat", "-a", "K0 | K0 K0 23(K0 !) K0 D"),
];

/// The script's words, those of all sizes written out.
pub(super) fn script(test: Test, options: &str) -> Vec<String> {
    let is_it = |(tool, with, _): &&(&str, &str, &str)| (*tool, *with) == (test.name(), options);
    let (_, _, text) = SCRIPTS.iter().find(is_it).expect("a script of the tool and options");
    let text = match (text.find("23("), text.find(')')) {
        (Some(from), Some(to)) => {
            let each = format!("{} ", &text[from + 3..to]);
            format!("{}{}{}", &text[..from], each.repeat(23), &text[to + 1..])
        }
        _ => (*text).to_owned(),
    };
    format!("{HEAD} {text}").split_whitespace().map(str::to_owned).collect()
}

/// The messages of a word, as the tool sends them; `size` and `iterations` are what a report tells.
pub(super) fn messages(word: &str, size: u64) -> Vec<Vec<u8>> {
    let rest = "00007f99cc267000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:09:00:01:00000000:\0";
    match word {
        "V" => vec![b"6.06\0\0\0\0\0\0\0\0\0\0\0\0".to_vec()],
        "C" => vec![4096_u32.to_be_bytes().to_vec()],
        "L" => vec![64_u32.to_be_bytes().to_vec()],
        "M" => vec![b"3\0".to_vec()],
        "K0" => vec![format!("0000:0001:000013:d34eb0:000005d7:{rest}").into_bytes()],
        "K1" => vec![format!("0000:0001:000014:b439e5:000005d7:{}", rest.replace("267", "277")).into_bytes()],
        "R" => {
            // 1000 MiB/s, as the tool measured of messages of that size.
            let (average, rate) = (1000_f64, 1000.0 * f64::from(1 << 20) / size as f64 / 1e6);
            let floats = [average * 1.25, average, rate].map(f64::to_bits);
            [size, 50].iter().chain(&floats).map(|field| field.to_be_bytes().to_vec()).collect()
        }
        _ => vec![],
    }
}

/// A server that only receives tells what its stack holds.
const STACK: [u64; 5] = [0x7ffe_f425_ee04, 0x7f54_fc83_ead0, 0x6, 0x7f54_fc3c_10e1, 0x7ffe_f425_eec8];

/// The tool's part, in its own role.
struct StockTool {
    stream: TcpStream,
    role: Role,
    options: Options,
    events: Receiver<Event>,
}

impl StockTool {
    fn play(mut self, script: &[String]) {
        let mut sizes = self.options.sizes.each().into_iter();
        let mut size = u64::from(self.options.sizes.largest());
        let our_end_runs = Driver::new(self.other_role(), self.options.clone()).runs(&self.options);
        for word in script {
            match word.as_str() {
                "|" => self.expect(Event::Connects),
                "!" => {
                    size = u64::from(sizes.next().unwrap());
                    if our_end_runs {
                        self.expect(Event::Runs);
                    }
                }
                // Over TCP this works even if our end has closed already; over a socket pair it need not.
                "D" => self.stream.write_all(b"done\0").unwrap_or_default(),
                word => self.swap_all(word, size),
            }
        }
        assert_eq!(self.events.try_recv().ok(), None, "our end did more than the script has");
    }

    fn expect(&self, event: Event) {
        assert_eq!(self.events.recv_timeout(LONG), Ok(event));
    }

    fn other_role(&self) -> Role {
        if self.role == Role::Client { Role::Server } else { Role::Client }
    }

    fn swap_all(&mut self, word: &str, size: u64) {
        let is_stack = word == "R" && self.role == Role::Server && !self.options.bidirectional;
        let own = match is_stack {
            true => STACK.map(|field| field.to_be_bytes().to_vec()).to_vec(),
            false => messages(word, size),
        };
        for (at, own) in own.iter().enumerate() {
            let theirs = self.swap(own);
            match word {
                "V" => assert_eq!(theirs[..5], *b"6.06\0"),
                "C" | "L" => assert_eq!(&theirs, own),
                "M" => assert_eq!(theirs, b"3\0"),
                "R" if at == 0 && self.is_told() => assert_eq!(theirs, size.to_be_bytes()),
                "R" => {}
                key => {
                    let qpn = format!("0000:0001:{:06x}:000007:00000005:", 0x20 + u32::from(key == "K1"));
                    assert!(theirs.starts_with(qpn.as_bytes()), "{}", theirs.escape_ascii());
                    assert!(theirs.ends_with(b":ff:ff:0a:09:00:01:00000000:\0"));
                }
            }
        }
    }

    /// Whether the other end has measured something.
    fn is_told(&self) -> bool {
        self.role == Role::Server || self.options.bidirectional
    }

    /// As the tool does: the whole message with one `write`, and with one `read`, of which less is fatal to it.
    fn swap(&mut self, own: &[u8]) -> Vec<u8> {
        if self.role == Role::Client {
            self.stream.write_all(own).unwrap();
        }
        let mut theirs = vec![0; own.len()];
        assert_eq!(self.stream.read(&mut theirs).unwrap(), own.len());
        if self.role == Role::Server {
            self.stream.write_all(own).unwrap();
        }
        theirs
    }
}

/// What our end prints, against the tool in the other role.
fn against_stock(role: Role, test: Test, with: &str, options: Options) -> Vec<f64> {
    let (stream, other) = connected_ends();
    let (events, received) = channel();
    other.set_read_timeout(Some(LONG)).unwrap();
    let tool = StockTool {
        stream: other,
        role: if role == Role::Client { Role::Server } else { Role::Client },
        options: options.clone(),
        events: received,
    };
    let script = script(test, with);
    let tool = thread::spawn(move || tool.play(&script));
    let driver = Driver { events: Some(events), ..Driver::new(role, options) };
    let found = driver.drive(&stream).unwrap_or_else(|error| panic!("{test} {with} {role:?}: {error}"));
    drop((stream, driver));
    tool.join().unwrap_or_else(|_| panic!("{test} {with}, our end {role:?}"));
    found.iter().map(|found| found.bandwidth.unwrap().average_gbps).collect()
}

/// 1000 MiB/s.
const STOCK_GBPS: f64 = 8.388608;

#[test]
fn every_tool_is_spoken_with_in_its_own_order_in_both_roles() {
    for test in Test::ALL {
        for (with, options) in variants(test) {
            for role in [Role::Client, Role::Server] {
                against_stock(role, test, with, options.clone());
            }
        }
    }
}

/// Near enough, as rates travel in the tool's units.
fn assert_all(found: &[f64], sizes: usize, gbps: f64) {
    assert_eq!(found.len(), sizes, "{found:?}");
    assert!(found.iter().all(|found| (found / gbps - 1.0).abs() < 1e-9), "{found:?}, not {gbps}");
}

#[test]
fn a_receiving_server_prints_the_clients_figures() {
    for name in ["write-bw", "read-bw"] {
        let options = Options::stock(super::test(name));
        assert_all(&against_stock(Role::Server, options.test, "", options), 1, STOCK_GBPS);
    }
}

#[test]
fn a_sending_client_prints_its_own_whatever_the_servers_stack_holds() {
    for (with, options) in variants(super::test("write-bw")) {
        if !options.bidirectional {
            let sizes = options.sizes.each().len();
            assert_all(&against_stock(Role::Client, options.test, with, options), sizes, 8.0);
        }
    }
}

#[test]
fn both_ends_print_the_sum_of_both_directions() {
    for role in [Role::Client, Role::Server] {
        for name in ["write-bw", "read-bw", "send-bw"] {
            let options = Options { bidirectional: true, ..Options::stock(super::test(name)) };
            assert_all(&against_stock(role, options.test, "-b", options), 1, 8.0 + STOCK_GBPS);
        }
    }
}

/// However far the other end's peak is from them, which it has heard of by then.
#[test]
fn a_client_tells_its_figures_in_the_unit_that_it_was_asked_for() {
    let options = Options { bidirectional: true, ..Options::stock(super::test("write-bw")) };
    let (stream, mut other) = connected_ends();
    let said = script(options.test, "-b");
    for message in said.iter().flat_map(|word| messages(word, 65536)) {
        other.write_all(&message).unwrap();
    }
    let (mebibytes, gbps) = (1e6_f64, 1000.0 * STOCK_GBPS);
    Driver { gbps, ..Driver::new(Role::Client, options) }.drive(&stream).unwrap();
    drop(stream);
    let mut heard = Vec::new();
    other.read_to_end(&mut heard).unwrap();
    let is_told = |field: &[u8]| {
        let seen = f64::from_bits(u64::from_be_bytes(field.try_into().unwrap()));
        (seen / mebibytes - 1.0).abs() < 1e-9
    };
    assert!(heard.windows(8).any(is_told), "{}", heard.escape_ascii());
}

#[test]
fn a_send_test_prints_what_each_end_measured() {
    for role in [Role::Client, Role::Server] {
        let options = Options::stock(super::test("send-bw"));
        assert_all(&against_stock(role, options.test, "", options), 1, 8.0);
    }
    assert_eq!(found(64, 8.0).message_bytes, 64);
}
