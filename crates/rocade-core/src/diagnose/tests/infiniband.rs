//! InfiniBand: what keeps two ports apart.

use super::*;
use crate::names::Pkey;

/// A test by LID: 4 here, 5 there, one subnet manager at LID 1.
fn infiniband(failure: Failure) -> Case {
    Case::of(failure).with(|case| {
        let port = &mut case.host.hcas[0].ports[0];
        (port.link_layer, port.transport) = (LinkLayer::InfiniBand, Transport::Infiniband);
        (port.lid, port.sm_lid) = (Some(4), Some(1));
        case.choice.gid = None;
        case.local = End {
            endpoint: endpoint(4, "fe80::a"),
            message_bytes: Some(4096),
            ..End::over(&case.host, &case.choice)
        };
        case.remote = End { endpoint: endpoint(5, "fe80::b"), ..End::default() };
    })
}

fn failures() -> [Failure; 3] {
    [
        Failure::Transition { to: State::Rtr, errno: 22 },
        Failure::Completion { status: 12, done: 0 },
        Failure::Silence { done: 0 },
    ]
}

#[test]
fn each_fact_that_keeps_two_ports_apart_is_told_whatever_failed() {
    for failure in failures() {
        let case = || infiniband(failure.clone());
        case().with(|case| case.host.hcas[0].ports[0].sm_lid = Some(0)).says(
            "no subnet manager has set up rxe1/1: its state is INIT or its SM LID 0",
            "start a subnet manager",
        );
        case().with(|case| case.host.hcas[0].ports[0].state = Some("INIT".into())).says(
            "no subnet manager has set up rxe1/1: its state is INIT or its SM LID 0",
            "start a subnet manager",
        );
        case().with(|case| case.remote.sm_lid = Some(0)).says(
            "no subnet manager has set up the other end's port: its state is INIT or its SM LID 0",
            "opensm",
        );
        case().with(|case| (case.local.pkey, case.remote.pkey) = (Some(Pkey(0x7fff)), Some(Pkey(0x7fff)))).says(
            "both ends are limited members of the partition (0x7fff here, 0x7fff there), and those do not talk",
            "a full member",
        );
        case()
            .with(|case| (case.local.pkey, case.remote.pkey) = (Some(Pkey(0x8001)), Some(Pkey(0xffff))))
            .says("the ends are in unlike partitions: 0x8001 here, 0xffff there", "--pkey-index");
        case()
            .with(|case| (case.local.pkey_index, case.local.pkey) = (Some(3), Some(Pkey(0))))
            .says("no partition key is set at index 3 of this end", "--pkey-index");
        case().with(|case| case.remote.endpoint = endpoint(5, "fe80:0:0:1::b")).says(
            "the ends are in unlike subnets: prefix fe80000000000000 here, fe80000000000001 there",
            "one fabric",
        );
        case().with(|case| case.remote.sm_lid = Some(9)).says(
            "the ends are on separate fabrics with one subnet prefix: their subnet managers are at LID 1 here, LID 9 there",
            "subnet_prefix",
        );
        case().with(|case| case.remote.endpoint = endpoint(4, "fe80::b")).says(
            "both ports have LID 4: the ends are on separate fabrics with one subnet prefix, unless they are functions of \
             one HCA",
            "subnet_prefix",
        );
        case()
            .with(|case| {
                case.remote.endpoint = endpoint(4, "fe80::b");
                let address = "10.1.0.1".parse().unwrap();
                case.connection = Some(Connection { local: address, peer: address });
            })
            .does_not_say("fabrics");
        case()
            .with(|case| case.remote.endpoint = endpoint(0, "10.1.0.2"))
            .says("this end is on InfiniBand, the other on Ethernet", "one fabric");
    }
}

const NOTHING: &str = "both ends are connected, but no packet came back from fe80::b over rxe1";

#[test]
fn a_full_and_a_limited_member_of_one_partition_are_not_blamed() {
    for (local, remote) in [(0x7fff, 0xffff), (0xffff, 0x7fff), (0xffff, 0xffff)] {
        infiniband(Failure::Silence { done: 0 })
            .with(|case| (case.local.pkey, case.remote.pkey) = (Some(Pkey(local)), Some(Pkey(remote))))
            .says(NOTHING, "subnet manager");
    }
}

#[test]
fn a_service_level_and_a_limited_membership_are_worth_a_look_where_no_fact_speaks() {
    let silent = || infiniband(Failure::Silence { done: 0 });
    silent().with(|case| case.local.service_level = Some(3)).says(NOTHING, "service level 3 (try -S 0)");
    silent().with(|case| case.local.service_level = Some(0)).does_not_say("service level");
    silent()
        .with(|case| case.local.pkey = Some(Pkey(0x7fff)))
        .says(NOTHING, "a limited member of its partition");
    silent().does_not_say("partition");
}

/// No netdev or address of it is asked for on InfiniBand.
#[test]
fn nothing_of_roce_is_said_of_infiniband() {
    for failure in failures() {
        infiniband(failure.clone()).does_not_say("4791");
        infiniband(failure).does_not_say("namespace");
    }
}
