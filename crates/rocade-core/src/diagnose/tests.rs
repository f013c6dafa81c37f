//! Each cause by the evidence that shows it.

use super::errno::{EINVAL, ENETUNREACH, ENODEV, ETIMEDOUT};
use super::*;
use crate::host::{GidEntry, GidType, LinkLayer, Netdev};
use crate::names::{Gid, GidIndex, PortNum};
use crate::pair::Endpoint;

/// A host with one rail, 10.1.0.1/24 and fd01::1/64 on eth1.
fn host() -> Host {
    let addresses = vec![("10.1.0.1".parse().unwrap(), 24), ("fd01::1".parse().unwrap(), 64)];
    let eth1 =
        Netdev { name: "eth1".into(), ifindex: 2, link_type: 1, up: true, addresses, ..Netdev::default() };
    Host { netdevs: vec![eth1], ..Host::default() }
}

fn over(local: Option<&str>) -> Choice {
    let entry = |address: &str| GidEntry {
        index: GidIndex(1),
        gid: gid(address),
        gid_type: Some(GidType::V2),
        netdev: Some("eth1".into()),
        address: Some(address.parse().unwrap()),
    };
    Choice {
        hca: "rxe1".parse().unwrap(),
        port: PortNum(1),
        gid: local.map(entry),
        reason: String::new(),
        warnings: vec![],
    }
}

fn gid(address: &str) -> Gid {
    Gid::from_address(address.parse().unwrap())
}

fn cause(local: Option<&str>, remote: Gid, failure: Failure) -> Diagnosis {
    let endpoint = |gid| Some(Endpoint { lid: 0, qpn: 17, psn: 1, gid });
    let (host, choice) = (host(), over(local));
    let link_layer = if local.is_some() { LinkLayer::Ethernet } else { LinkLayer::InfiniBand };
    let message_bytes = Some(4096);
    diagnose(&Evidence {
        choice: Some(&choice),
        local: End { link_layer: Some(link_layer), message_bytes, ..End::over(&host, &choice) },
        remote: End { endpoint: endpoint(remote), ..End::default() },
        ..Evidence::of(failure, &host)
    })
}

const REFUSED: Failure = Failure::Transition { to: State::Rtr, errno: EINVAL };

#[test]
fn gids_that_cannot_work_together_are_named_before_the_errno() {
    for (remote, words) in [
        (Gid([0; 16]), "sent no GID"),
        (gid("fe80::1"), "one GID is link-local, the other is not (10.1.0.1 here, fe80::1 there)"),
        (gid("fd01::2"), "one GID is IPv4, the other IPv6 (10.1.0.1 here, fd01::2 there)"),
    ] {
        let diagnosis = cause(Some("10.1.0.1"), remote, REFUSED);
        assert!(diagnosis.cause.contains(words), "{}", diagnosis.cause);
        assert_ne!(diagnosis.cure, "");
    }
    let diagnosis = cause(None, gid("10.1.0.2"), REFUSED);
    assert!(diagnosis.cause.contains("on InfiniBand, the other on Ethernet"), "{}", diagnosis.cause);
}

#[test]
fn an_errno_of_the_transition_is_told_by_its_cause() {
    for (errno, words) in [
        (ETIMEDOUT, "nobody on eth1 answers for 10.1.0.2"),
        (ENETUNREACH, "no route to 10.1.0.2"),
        (ENODEV, "the netdev of this end's GID (eth1) is gone"),
        (EINVAL, "refuses the path to 10.1.0.2"),
    ] {
        let diagnosis =
            cause(Some("10.1.0.1"), gid("10.1.0.2"), Failure::Transition { to: State::Rtr, errno });
        assert!(diagnosis.cause.contains(words), "{}", diagnosis.cause);
    }
}

#[test]
fn another_subnet_is_named_and_the_own_one_is_not() {
    for failure in [
        Failure::Completion { status: 12, done: 0 },
        Failure::Transition { to: State::Rtr, errno: ETIMEDOUT },
        Failure::Transition { to: State::Rtr, errno: ENETUNREACH },
    ] {
        let cure = |local, remote| cause(Some(local), gid(remote), failure.clone()).cure;
        assert!(cure("10.1.0.1", "10.2.0.1").contains("10.2.0.1 is in another subnet"), "{failure:?}");
        assert!(!cure("10.1.0.1", "10.1.0.9").contains("another subnet"), "{failure:?}");
        assert!(cure("fd01::1", "fd02::1").contains("fd02::1 is in another subnet"), "{failure:?}");
    }
}

#[test]
fn silence_before_the_first_round_trip_is_the_path_and_later_the_other_end() {
    let at = |done| cause(Some("10.1.0.1"), gid("10.1.0.2"), Failure::Silence { done });
    assert!(at(0).cause.contains("no packet came back"), "{}", at(0).cause);
    assert!(at(7).cause.contains("fell silent after 7 messages"), "{}", at(7).cause);
}

#[test]
fn unlike_message_sizes_are_named_from_either_side() {
    for failure in [
        Failure::Size { seen: 64 },
        Failure::Completion { status: 1, done: 0 },
        Failure::Completion { status: 2, done: 0 },
        Failure::Completion { status: 9, done: 0 },
    ] {
        assert_eq!(cause(Some("10.1.0.1"), gid("10.1.0.2"), failure).cure, "give both ends the same -s");
    }
}
