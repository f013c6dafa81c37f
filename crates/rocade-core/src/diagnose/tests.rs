//! A row for every cause: what is known of a failed test, and the sentence and cure that come of it.

use super::*;
use crate::gid::Choice;
use crate::host::{
    Accessible, CharDevice, Counter, GidEntry, GidType, Hca, LinkLayer, Netdev, Port, Transport,
};
use crate::names::{Gid, GidIndex, PortNum};
use crate::pair::Endpoint;

mod before;
mod infiniband;
mod open;
mod roce;
mod status;

/// A failed test between 10.1.0.1 on eth1 of HCA rxe1 here and 10.1.0.2 there, which each row changes as it needs.
struct Case {
    host: Host,
    choice: Choice,
    failure: Failure,
    connection: Option<Connection>,
    operation: Operation,
    sends: Option<bool>,
    local: End,
    remote: End,
    reach: Option<Reach>,
    counted: Counted,
    memlock: Option<Memlock>,
    ipc_lock: Option<bool>,
    node_refused: Option<String>,
    library_said: String,
}

impl Case {
    fn of(failure: Failure) -> Case {
        let host = host();
        let gid = host.hcas[0].ports[0].gids[0].clone();
        let choice = Choice {
            hca: host.hcas[0].name.clone(),
            port: PortNum(1),
            gid: Some(gid),
            reason: String::new(),
            warnings: vec![],
        };
        let message_bytes = Some(4096);
        Case {
            local: End { endpoint: endpoint(0, "10.1.0.1"), message_bytes, ..End::over(&host, &choice) },
            remote: End { endpoint: endpoint(0, "10.1.0.2"), ..End::default() },
            host,
            choice,
            failure,
            connection: None,
            operation: Operation::Send,
            sends: Some(true),
            reach: None,
            counted: Counted::default(),
            memlock: None,
            ipc_lock: None,
            node_refused: None,
            library_said: String::new(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Case)) -> Case {
        change(&mut self);
        self
    }

    /// This end's own address, with its prefix, instead of 10.1.0.1/24.
    fn at(self, address: &str, prefix: u8) -> Case {
        let address: std::net::IpAddr = address.parse().unwrap();
        self.with(|case| {
            case.host.netdevs[0].addresses = vec![(address, prefix)];
            let entry = case.choice.gid.as_mut().unwrap();
            (entry.gid, entry.address) = (Gid::from_address(address), Some(address));
            case.local.endpoint.as_mut().unwrap().gid = entry.gid;
        })
    }

    /// The other end's GID instead of that of 10.1.0.2.
    fn to(self, address: &str) -> Case {
        self.with(|case| case.remote.endpoint = endpoint(0, address))
    }

    fn diagnosis(&self) -> Diagnosis {
        diagnose(&Evidence {
            failure: self.failure.clone(),
            host: &self.host,
            choice: Some(&self.choice),
            connection: self.connection,
            operation: Some(self.operation),
            sends: self.sends,
            local: self.local.clone(),
            remote: self.remote.clone(),
            reach: self.reach,
            counted: self.counted.clone(),
            memlock: self.memlock,
            ipc_lock: self.ipc_lock,
            node_refused: self.node_refused.clone(),
            library_said: &self.library_said,
        })
    }

    /// The whole cause, and a part of the cure.
    #[track_caller]
    fn says(self, cause: &str, cure: &str) {
        let diagnosis = self.diagnosis();
        assert_eq!(diagnosis.cause, cause);
        assert!(diagnosis.cure.contains(cure), "{}", diagnosis.cure);
    }

    /// Not so much as a part of it.
    #[track_caller]
    fn does_not_say(self, words: &str) {
        let diagnosis = self.diagnosis();
        let text = format!("{}\n{}", diagnosis.cause, diagnosis.cure);
        assert!(!text.contains(words), "{text}");
    }
}

fn endpoint(lid: u16, address: &str) -> Option<Endpoint> {
    let gid = if address.is_empty() { Gid([0; 16]) } else { Gid::from_address(address.parse().unwrap()) };
    Some(Endpoint { lid, qpn: 17, psn: 1, gid })
}

/// Two rails: rxe1 with 10.1.0.1/24 on eth1, rxe2 with 10.2.0.1/24 on eth2.
fn host() -> Host {
    let rails = [("rxe1", "eth1", "10.1.0.1", 0), ("rxe2", "eth2", "10.2.0.1", 1)];
    let hcas = rails.map(|(name, netdev, address, minor)| hca(name, netdev, address, minor)).into();
    let netdevs = rails.map(|(_, name, address, _)| netdev(name, address)).into();
    Host { hcas, netdevs, ..Host::default() }
}

fn hca(name: &str, netdev: &str, address: &str, number: u32) -> Hca {
    let gid = GidEntry {
        index: GidIndex(1),
        gid: Gid::from_address(address.parse().unwrap()),
        gid_type: Some(GidType::V2),
        netdev: Some(netdev.into()),
        address: Some(address.parse().unwrap()),
    };
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        state: Some("ACTIVE".into()),
        netdev: Some(netdev.into()),
        gids: vec![gid],
        ..Port::new(PortNum(1))
    };
    let node = CharDevice {
        node: format!("uverbs{number}"),
        major: 231,
        minor: 192 + number,
        accessible: Accessible::Yes,
    };
    Hca { software: true, uverbs: Some(node), ports: vec![port], ..Hca::new(name.parse().unwrap()) }
}

fn netdev(name: &str, address: &str) -> Netdev {
    let addresses = vec![(address.parse().unwrap(), 24)];
    Netdev {
        name: name.into(),
        ifindex: 2,
        mtu: 1500,
        link_type: 1,
        up: true,
        addresses,
        ..Netdev::default()
    }
}

/// What the port counted between a reading of zeros and this one.
fn counted(counters: &[(&str, u64)]) -> Counted {
    let reading = |factor: u64| -> Vec<Counter> {
        let counter = |(name, value): &(&str, u64)| Counter {
            file: format!("hw_counters/{name}"),
            value: Some(1000 + value * factor),
            saturated: false,
            why: None,
        };
        counters.iter().map(counter).collect()
    };
    Counted::between(&reading(0), &reading(1))
}

const NO_PACKET: &str = "both ends are connected, but no packet came back from 10.1.0.2 over eth1";

#[test]
fn a_counter_that_was_reset_or_stood_at_its_most_or_was_read_once_says_nothing() {
    let counter = |name: &str, value, saturated| Counter {
        file: format!("hw_counters/{name}"),
        value: Some(value),
        saturated,
        why: None,
    };
    let before = [counter("reset", 9, false), counter("full", 15, true), counter("grew", 1, false)];
    let after = [
        counter("reset", 3, false),
        counter("full", 15, true),
        counter("grew", 4, false),
        counter("new", 4, false),
    ];
    let counted = Counted::between(&before, &after);
    assert_eq!(
        [counted.of("reset"), counted.of("full"), counted.of("new"), counted.of("grew")],
        [None, None, None, Some(3)]
    );
    assert_eq!(counted.all_grown(), [("grew".to_owned(), 3)].into());
}

#[test]
fn a_phase_is_told_with_each_failure_and_rdma_itself_begins_with_the_transition() {
    let phases = [
        (Failure::Resolve { name: "a".into() }, Phase::NameResolution),
        (Failure::Tcp { server: "a".into(), port: 1, errno: 111 }, Phase::Tcp),
        (Failure::Exchange(Exchange::Refused { reason: "b".into() }), Phase::Exchange),
        (Failure::Exchange(Exchange::GaveUp { reason: "b".into(), of_rdma: false }), Phase::Exchange),
        (
            Failure::Midway { exchange: Exchange::Closed { wanted: "a key".into(), seen: vec![] }, done: 0 },
            Phase::Later,
        ),
        (Failure::Exchange(Exchange::GaveUp { reason: "b".into(), of_rdma: true }), Phase::Later),
        (Failure::Verb { verb: "ibv_reg_mr".into(), errno: 12, bytes: None }, Phase::Opening),
        (Failure::Transition { to: State::Init, errno: 22 }, Phase::Opening),
        (Failure::Transition { to: State::Rtr, errno: 22 }, Phase::Transition),
        (Failure::Completion { status: 12, done: 0 }, Phase::FirstPacket),
        (Failure::Silence { done: 3 }, Phase::Later),
        (Failure::Data, Phase::Later),
        (Failure::Event { event: "port error".to_owned(), on: "mlx5_0/1".to_owned(), done: 9 }, Phase::Later),
    ];
    for (failure, phase) in phases {
        assert_eq!(failure.is_of_rdma(), phase >= Phase::Transition, "{failure:?}");
        assert_eq!(Case::of(failure).diagnosis().phase, phase);
    }
}

/// What is said where nothing at all is known but the failure: of neither end a word that it does not carry.
#[test]
fn a_failure_alone_is_no_ground_for_a_word_about_either_end() {
    let host = Host::default();
    for (failure, cause) in [
        (Failure::Transition { to: State::Rtr, errno: 22 }, "the kernel refuses the path to the other end"),
        (Failure::Completion { status: 10, done: 0 }, "the other end refuses messages"),
        (
            Failure::Silence { done: 0 },
            "both ends are connected, but no packet came back from the other end over this end's netdev",
        ),
        (Failure::Silence { done: 2 }, "the other end fell silent after 2 messages"),
        (
            Failure::Verb { verb: "ibv_reg_mr".into(), errno: 12, bytes: None },
            "ibv_reg_mr needs more memory than it gets",
        ),
    ] {
        let mut evidence = Evidence::of(failure, &host);
        evidence.operation = Some(Operation::Send);
        assert_eq!(diagnose(&evidence).cause, cause);
    }
}
