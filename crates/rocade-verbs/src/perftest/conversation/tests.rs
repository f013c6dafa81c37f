//! The conversation against a scripted stock tool, against itself, and against peers that misbehave, over socket pairs.
//! No HCA: an end that would run marks that it does.

use std::net::TcpStream;
use std::sync::mpsc::Sender;
use std::time::Duration;

use rocade_core::Gid;
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::{Key, Memory, Unit};
use rocade_core::pair::perf::{
    Amount, Bandwidth, EndFacts, Measure, Operation, Options, SizeResult, Sizes, Test,
};

use super::{Conversation, Greeting, Own, greet};
use crate::error::VerbsError;

mod misbehaving;
mod stock_tools;
mod two_rocades;
mod unlike;

/// For what must come.
const LONG: Duration = Duration::from_secs(60);
const MEMORY: Memory = Memory { page_bytes: 4096, line_bytes: 64 };

/// What an end does between its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Connects,
    Runs,
}

/// One end that keeps all that the conversation asks of it.
struct Driver {
    role: Role,
    options: Options,
    timeout: Duration,
    /// Told each event, where someone listens.
    events: Option<Sender<Event>>,
    /// This end's average of each size, 10⁹ bit/s.
    gbps: f64,
    gid: Option<Gid>,
}

impl Driver {
    fn new(role: Role, options: Options) -> Driver {
        let gid = Some(Gid::from_address("10.9.0.1".parse().unwrap()));
        Driver { role, options, timeout: LONG, events: None, gbps: 8.0, gid }
    }

    fn greet(&self, stream: &TcpStream) -> Result<Greeting, VerbsError> {
        let own = Own { version: "0.1.0", options: &self.options, memory: MEMORY, gid: self.gid };
        greet(stream, self.role, &own, self.timeout, &|_, _| Ok(()))
    }

    /// From the first message to the last.
    fn drive(&self, stream: &TcpStream) -> Result<Vec<SizeResult>, VerbsError> {
        let greeting = self.greet(stream)?;
        let mut conversation = self.converse(stream, &greeting)?;
        for size in greeting.options.sizes.each() {
            conversation.before_size()?;
            let runs = self.runs(&greeting.options);
            if runs {
                self.mark(Event::Runs);
            }
            conversation.after_size()?;
            conversation.tell(runs.then(|| found(size, self.gbps)))?;
        }
        conversation.finish()
    }

    /// Up to the first size.
    fn converse<'a>(
        &self,
        stream: &'a TcpStream,
        greeting: &'a Greeting,
    ) -> Result<Conversation<'a>, VerbsError> {
        let mut conversation = Conversation::new(stream, self.role, greeting, Unit::Mebibytes, self.timeout);
        conversation.exchange_facts(&facts())?;
        conversation.agree_mtu(1024)?;
        conversation.open(keys(&greeting.options, self.gid))?;
        self.mark(Event::Connects);
        conversation.connected()?;
        Ok(conversation)
    }

    fn runs(&self, options: &Options) -> bool {
        let both_run = options.bidirectional
            || options.test.operation == Operation::Send
            || options.test == test("write-lat");
        both_run || self.role == Role::Client
    }

    fn mark(&self, event: Event) {
        if let Some(events) = &self.events {
            events.send(event).unwrap();
        }
    }
}

fn test(name: &str) -> Test {
    Test::ALL.into_iter().find(|test| test.name() == name).unwrap()
}

fn found(message_bytes: u32, average_gbps: f64) -> SizeResult {
    let messages_per_second = average_gbps * 1e9 / 8.0 / f64::from(message_bytes);
    let bandwidth = Bandwidth { average_gbps, peak_gbps: None, messages_per_second, intervals: None };
    SizeResult {
        message_bytes,
        messages: 50,
        seconds: 50.0 / messages_per_second,
        bandwidth: Some(bandwidth),
        latency: None,
    }
}

fn facts() -> EndFacts {
    EndFacts {
        host: "node1".to_owned(),
        hca: "rxe0".parse().unwrap(),
        port: rocade_core::PortNum(1),
        link_layer: Some("ethernet".to_owned()),
        netdev: Some("eth1".to_owned()),
        netdev_mtu_bytes: Some(1500),
        pkey: None,
        sm_lid: None,
        boot_id: Some("8e8a1cf2-0c9d-4d8e-9f51-7a4e1f2c3b4d".to_owned()),
        gid: None,
        gid_type: None,
        active_mtu_bytes: Some(1024),
        rate_gbps: Some(2.5),
    }
}

fn keys(options: &Options, gid: Option<Gid>) -> Vec<Key> {
    let key = |qpn| Key {
        lid: 0,
        out_reads: 1,
        qpn,
        psn: 7,
        rkey: 5,
        vaddr: 0x1000 * u64::from(qpn),
        gid,
        srqn: 0,
    };
    (0x20..0x20 + options.qps).map(key).collect()
}

/// One size, a few, or both directions; by number or time.
fn variants(test: Test) -> Vec<(&'static str, Options)> {
    let stock = Options::stock(test);
    let all = Options { sizes: Sizes::All, ..stock.clone() };
    let mut variants = vec![("", stock.clone()), ("-a", all.clone())];
    if test.measure == Measure::Bandwidth {
        variants.push(("-q 2", Options { qps: 2, ..stock.clone() }));
        variants.push(("-b", Options { bidirectional: true, ..stock.clone() }));
        variants.push(("-b -a", Options { bidirectional: true, ..all }));
        variants.push(("-b -D 4", Options { bidirectional: true, amount: Amount::Seconds(4), ..stock }));
    }
    variants
}
