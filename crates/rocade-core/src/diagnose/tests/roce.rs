//! RoCE: GIDs that do not fit each other, and ways that carry nothing.

use super::*;

/// Each failure that a path which carries nothing may show as.
fn nothing_came() -> [Failure; 2] {
    [Failure::Completion { status: 12, done: 0 }, Failure::Silence { done: 0 }]
}

const REFUSED: Failure = Failure::Transition { to: State::Rtr, errno: 22 };

/// F57: the other end sends zeros, as ibv_rc_pingpong without -g does.
#[test]
fn a_zero_gid_of_the_other_end_is_named_before_the_errno() {
    Case::of(REFUSED)
        .to("")
        .says("the other end sent no GID, which RoCE needs", "the index of a RoCE v2 GID");
}

/// F73, F74: unlike scopes, families and types are told early, with both GIDs.
#[test]
fn gids_that_cannot_work_together_are_told_with_both() {
    for failure in [REFUSED].into_iter().chain(nothing_came()) {
        Case::of(failure.clone()).to("fe80::1").says(
            "one GID is link-local, the other is not (10.1.0.1 here, fe80::1 there)",
            "routable addresses at both ends",
        );
        Case::of(failure.clone())
            .to("fd01::2")
            .says("one GID is IPv4, the other IPv6 (10.1.0.1 here, fd01::2 there)", "one family");
        Case::of(failure.clone())
            .with(|case| case.remote.gid_type = Some(GidType::V1))
            .says("this end's GID is RoCE v2, the other's RoCE v1", "RoCE v2 GIDs at both ends");
        Case::of(failure)
            .with(|case| case.remote.link_layer = Some(LinkLayer::InfiniBand))
            .says("this end is on Ethernet, the other on InfiniBand", "one fabric");
    }
}

/// Some drivers give a LID to RoCE ports too, as irdma does.
#[test]
fn a_lid_of_the_other_end_is_told_but_does_not_make_it_infiniband() {
    Case::of(REFUSED).with(|case| case.remote.endpoint = endpoint(7, "")).says(
        "the other end sent no GID, which RoCE needs, but LID 7, as InfiniBand has",
        "one fabric with -d; if the other end's is RoCE too, start",
    );
    Case::of(REFUSED).with(|case| case.remote.endpoint = endpoint(1, "10.1.0.2")).does_not_say("InfiniBand");
}

#[test]
fn a_forced_gid_that_is_no_address_of_this_namespace_is_named() {
    let foreign = |failure| Case::of(failure).with(|case| case.host.netdevs[0].addresses.clear());
    let failures = [REFUSED, Failure::Completion { status: 2, done: 0 }];
    for failure in failures.into_iter().chain(nothing_came()) {
        foreign(failure)
            .says("GID index 1 (10.1.0.1) is of no address of this network namespace", "leave -x out");
    }
    // Some kernels do not tell the netdev of an entry; an own address is an own address.
    Case::of(REFUSED)
        .with(|case| case.choice.gid.as_mut().unwrap().netdev = None)
        .does_not_say("this network namespace");
    foreign(REFUSED)
        .with(|case| case.choice.gid.as_mut().unwrap().netdev = None)
        .says("GID index 1 (10.1.0.1) is of no address of this network namespace", "leave -x out");
}

#[test]
fn an_errno_of_the_transition_is_told_by_its_cause() {
    let transition = |errno| Case::of(Failure::Transition { to: State::Rtr, errno });
    for errno in [110, 113] {
        transition(errno)
            .says("nobody on eth1 answers for 10.1.0.2, the other end's GID", "ping -I eth1 10.1.0.2");
    }
    transition(101).says(
        "this end has no route to 10.1.0.2, the other end's GID, over eth1",
        "ip route get 10.1.0.2 oif eth1",
    );
    transition(19)
        .says("the netdev of this end's GID (eth1) is gone, or of another network namespace", "-x INDEX");
    transition(22).says("the kernel refuses the path to 10.1.0.2", "usual causes");
    transition(5).says("the kernel refuses to connect the QP", "dmesg");
}

/// F72: IPv6 is told as IPv4 is.
#[test]
fn another_subnet_is_named_and_the_own_one_is_not() {
    let failures = nothing_came()
        .into_iter()
        .chain([110, 101].map(|errno| Failure::Transition { to: State::Rtr, errno }));
    for failure in failures {
        let words = "is in another subnet";
        let case = |remote| Case::of(failure.clone()).to(remote);
        assert!(case("10.9.0.1").diagnosis().cure.contains(words), "{failure:?}");
        case("10.1.0.9").does_not_say(words);
        let v6 = |remote| case(remote).at("fd01::1", 64);
        assert!(v6("fd02::1").diagnosis().cure.contains(words), "{failure:?}");
        v6("fd01::2").does_not_say(words);
    }
}

#[test]
fn a_stock_ends_hop_limit_is_told_with_the_router_and_not_within_a_subnet() {
    let words = "(if that end is ibv_rc_pingpong, it asks for a hop limit of 1: under a kernel that keeps it";
    for failure in nothing_came() {
        let hops =
            |remote, hops| Case::of(failure.clone()).to(remote).with(|case| case.remote.hop_limit = hops);
        let cure = hops("10.9.0.1", Some(1)).diagnosis().cure;
        assert!(cure.contains(words), "{cure}");
        hops("10.9.0.1", Some(64)).does_not_say("hop limit");
        hops("10.9.0.1", None).does_not_say("hop limit");
        hops("10.1.0.9", Some(1)).does_not_say("hop limit");
    }
}

#[test]
fn an_address_of_another_rail_is_told_with_the_hca_to_choose() {
    let failures = nothing_came()
        .into_iter()
        .chain([110, 101].map(|errno| Failure::Transition { to: State::Rtr, errno }));
    for failure in failures {
        Case::of(failure).to("10.2.0.2").says(
            "10.2.0.2, the other end's GID, is on another rail: in the subnet of eth2, and not in that of eth1",
            "-d rxe2",
        );
    }
}

#[test]
fn packets_that_do_not_fit_are_told_by_the_netdev_that_is_too_small_or_by_what_the_way_carries() {
    let large = |change: fn(&mut Case)| {
        Case::of(Failure::Silence { done: 0 }).with(|case| case.local.mtu_bytes = Some(4096)).with(change)
    };
    large(|_| ()).says(
        "a path MTU of 4096 bytes makes packets larger than the netdev of this end takes (1500 bytes), which may be dropped \
         on the way",
        "give -m 1024 at both ends, or raise the MTU",
    );
    let jumbo = |case: &mut Case| case.local.netdev_mtu = Some(9000);
    large(|case| (case.local.netdev_mtu, case.remote.netdev_mtu) = (Some(9000), Some(1500))).says(
        "a path MTU of 4096 bytes makes packets larger than the netdev of the other end takes (1500 bytes), which may be \
         dropped on the way",
        "-m 1024",
    );
    large(|case| {
        case.local.netdev_mtu = Some(9000);
        case.reach = Some(Reach { small: true, large_bytes: Some(4140), large: false });
    })
    .says(
        "the way between the ends drops packets as large as a path MTU of 4096 bytes makes them (4140 bytes), and \
         carries small ones",
        "-m 2048",
    );
    // As large ones came through, whatever the netdev says.
    large(|case| {
        case.remote.netdev_mtu = Some(1500);
        case.local.netdev_mtu = Some(9000);
        case.reach = Some(Reach { small: true, large_bytes: Some(4140), large: true });
    })
    .does_not_say("path MTU");
    // Neither netdev is too small, and nobody asked the way.
    large(jumbo).does_not_say("path MTU");
    large(|case| {
        case.local.netdev_mtu = Some(9000);
        case.reach = Some(Reach { small: false, large_bytes: Some(4140), large: false });
    })
    .does_not_say("path MTU");
}

#[test]
fn two_rails_in_one_subnet_that_answer_for_each_other_are_told_by_the_setting() {
    let flux = |ignore: Option<i64>| {
        Case::of(Failure::Completion { status: 12, done: 0 }).with(|case| {
            case.host.netdevs[1].addresses = vec![("10.1.0.5".parse().unwrap(), 24)];
            let sysctls = ignore.map(|ignore| ("net/ipv4/conf/all/arp_ignore".to_owned(), ignore));
            case.host.sysctls = sysctls.into_iter().collect();
        })
    };
    flux(Some(0)).says(
        "no packet came back, and eth1 and eth2 are in one subnet with arp_ignore 0: each answers ARP for the other's \
         addresses, so that packets may come to the wrong HCA",
        "arp_ignore=1",
    );
    for ignore in [Some(1), None] {
        flux(ignore).says(NO_PACKET, "arp_ignore");
    }
    assert!(flux(Some(0)).diagnosis().cure.contains("is the other end still running?"));
    for no_rail in [
        |other: &mut Netdev| other.kind = Some("bridge".into()),
        |other: &mut Netdev| other.parent = Some("eth1".into()),
        |other: &mut Netdev| other.up = false,
    ] {
        flux(Some(0)).with(|case| no_rail(&mut case.host.netdevs[1])).does_not_say("one subnet with");
    }
    // The parent of the macvlan that is used.
    let on_parent = |case: &mut Case| case.host.netdevs[0].parent = Some("eth2".into());
    flux(Some(0)).with(on_parent).does_not_say("one subnet with");
    let of_one_port = |case: &mut Case| {
        let gid = case.host.hcas[1].ports[0].gids[0].clone();
        let address: std::net::IpAddr = "10.1.0.5".parse().unwrap();
        let gid = GidEntry { gid: Gid::from_address(address), address: Some(address), ..gid };
        case.host.hcas[0].ports[0].gids.push(gid);
    };
    flux(Some(0)).with(of_one_port).does_not_say("one subnet with");
}

#[test]
fn addresses_that_reach_each_other_by_udp_leave_the_filter_of_roces_port() {
    let reached = |large| {
        let reach = Some(Reach { small: true, large_bytes: Some(1068), large });
        Case::of(Failure::Silence { done: 0 }).with(|case| case.reach = reach)
    };
    reached(true).says(
        &format!("{NO_PACKET}, though the addresses reach each other by plain UDP, large ones too"),
        "a filter of UDP port 4791",
    );
    reached(false).says(
        &format!("{NO_PACKET}, though the addresses reach each other by plain UDP"),
        "a filter of UDP port 4791",
    );
    let routed = reached(true).to("10.9.0.1");
    assert!(routed.diagnosis().cure.starts_with("10.9.0.1 is in another subnet, so a router must carry it"));
}

const REACHED: Option<Reach> = Some(Reach { small: true, large_bytes: Some(1068), large: true });

/// What the stock tools do not tell, this end knows of itself. A v1 GID is of the same address as a v2 one, so that plain
/// UDP answers all the same.
#[test]
fn a_v1_gid_of_this_end_alone_is_told_as_what_the_other_end_needs_too() {
    let v1 = |there| {
        Case::of(Failure::Silence { done: 0 })
            .with(|case| (case.local.gid_type, case.remote.gid_type) = (Some(GidType::V1), there))
    };
    let reached = format!("{NO_PACKET}, though the addresses reach each other by plain UDP, large ones too");
    let alone = "this end's GID is RoCE v1, so the other end's must be too";
    v1(None).says(NO_PACKET, alone);
    v1(None).with(|case| case.reach = REACHED).says(&reached, alone);
    v1(None).with(|case| case.reach = REACHED).does_not_say("4791");
    v1(Some(GidType::V1)).says(NO_PACKET, "both GIDs are RoCE v1 (EtherType 0x8915)");
    v1(Some(GidType::V1)).does_not_say("4791");
}

/// F70, F74: at a stock end a person gives the index, which may be a v1 one, or of another Pod.
#[test]
fn the_index_of_an_end_that_does_not_tell_its_gids_type_is_asked_for() {
    let words = "Is 10.1.0.2 an address of its own network namespace, and its GID index (-x, -g) that of RoCE v2 there";
    let nobody = Failure::Transition { to: State::Rtr, errno: 110 };
    for failure in nothing_came().into_iter().chain([nobody]) {
        for reach in [None, REACHED] {
            let case = || Case::of(failure.clone()).with(|case| case.reach = reach);
            let cure = case().diagnosis().cure;
            assert!(cure.contains(words), "{failure:?}: {cure}");
            case().with(|case| case.remote.gid_type = Some(GidType::V2)).does_not_say("GID index");
        }
    }
}
