//! What users ran into with GIDs, and ports that RC cannot test.

use super::*;

/// A Pod of the shared HCA: its own macvlan's address, beside those of the host and of another Pod.
fn pod(own: &'static str, table: Vec<GidEntry>) -> Host {
    host(
        vec![hca("mlx5_0", table)],
        vec![netdev("eth0", &[("10.244.0.9", 24)]), netdev("net1", &[(own, 24)])],
    )
}

/// F70: Pods on one HCA have unlike indexes, so that no one index serves a job.
#[test]
fn two_pods_of_one_hca_each_get_the_index_of_their_own_address() {
    let table = || {
        let eth1 = |index, address| entry((index, address, GidType::V2, Some("eth1")));
        let net1 = |index, address| entry((index, address, GidType::V2, Some("net1")));
        vec![eth1(3, "10.1.0.1"), net1(5, "10.1.0.77"), net1(7, "10.1.0.78")]
    };
    let wish = Wish { connection: connection("10.244.0.9", "10.1.0.1"), ..Wish::default() };
    for (own, index) in [("10.1.0.77", 5), ("10.1.0.78", 7)] {
        let choice = choose_gid(&pod(own, table()), &wish).unwrap();
        assert_eq!(choice.gid.unwrap().index, GidIndex(index));
        assert_eq!(choice.reason, format!("{own} on net1 is in the subnet of the other end, 10.1.0.1"));
    }
}

/// F71: the first entries are unset, so that the first one set is 6.
#[test]
fn a_table_that_begins_with_unset_entries_is_searched_to_its_end() {
    let table = vec![
        entry((6, "10.1.0.77", GidType::V1, Some("net1"))),
        entry((7, "10.1.0.77", GidType::V2, Some("net1"))),
    ];
    assert_eq!(chosen(&pod("10.1.0.77", table), &Wish::default()), ("mlx5_0".to_owned(), 7));
}

/// F72: a network of IPv6 alone, whose table holds a link-local and a unique local address.
#[test]
fn where_only_ipv6_is_there_the_unique_local_address_is_taken() {
    let mac_v6 = "fe80::5054:ff:fe00:1";
    let table = [
        (0, mac_v6, GidType::V1),
        (1, mac_v6, GidType::V2),
        (2, "fd01::7", GidType::V1),
        (3, "fd01::7", GidType::V2),
    ];
    let table = table.map(|(index, address, gid_type)| entry((index, address, gid_type, Some("net1"))));
    let host =
        host(vec![hca("mlx5_0", table.into())], vec![netdev("net1", &[("fd01::7", 64), (mac_v6, 64)])]);
    for peer in ["fd01::8", "fd02::8", "10.244.1.3"] {
        let wish = Wish { connection: connection("10.244.0.9", peer), ..Wish::default() };
        assert_eq!(chosen(&host, &wish), ("mlx5_0".to_owned(), 3), "{peer}");
    }
}

/// F73: RoCE v2 of a link-local address comes first in the table and times out between nodes; that of IPv4 works.
#[test]
fn a_link_local_v2_gid_with_a_lower_index_loses_against_one_of_ipv4() {
    assert_eq!(chosen(&two_rails(), &Wish::default()), ("rxe1".to_owned(), 3));
}

/// F74: index 3, right on another host, is something else here.
#[test]
fn an_index_taken_over_from_another_host_is_used_and_what_it_holds_is_told() {
    let mut host = two_rails();
    host.hcas[0].ports[0].gids[3].gid_type = Some(GidType::V1);
    let wish = Wish { gid_index: Some(GidIndex(3)), ..Wish::default() };
    let warnings = choose_gid(&judged(host), &wish).unwrap().warnings;
    assert_eq!(
        warnings,
        ["GID index 3 is RoCE v1: no router forwards it, and the other end must use v1 too"]
    );
}

#[test]
fn iwarp_and_efa_are_not_testable_whatever_is_asked_for_and_never_chosen_beside_a_roce_hca() {
    for (transport, words) in [(Transport::Iwarp, "iWARP"), (Transport::Efa, "EFA")] {
        let mut host = two_rails();
        host.hcas[0].ports[0].transport = transport;
        let host = judged(host);
        assert_eq!(chosen(&host, &Wish::default()), ("rxe2".to_owned(), 0));
        let name: HcaName = "rxe1".parse().unwrap();
        for gid_index in [None, Some(GidIndex(3))] {
            let error =
                choose_gid(&host, &Wish { hca: Some(&name), gid_index, ..Wish::default() }).unwrap_err();
            assert!(matches!(error, NoChoice::NeedsRdmaCm(_)), "{error:?}");
            assert!(error.to_string().starts_with("not testable by RC without rdma_cm: rxe1/1: "), "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

/// All nodes were mounted by their path, and one HCA was granted.
#[test]
fn an_hca_that_does_not_open_is_passed_over_with_a_warning_unless_it_was_asked_for() {
    let host = two_rails();
    let over_management = connection("192.168.7.1", "192.168.7.2");
    let wish = Wish { connection: over_management, ..Wish::default() };
    let first = choose_gid(&host, &wish).unwrap().hca;
    let tried = |refused: &[&str]| -> Tried {
        let errno = |name: &HcaName| refused.contains(&name.as_str()).then(|| "EPERM".to_owned());
        host.hcas.iter().map(|hca| (hca.name.clone(), errno(&hca.name))).collect()
    };
    let other = choose_other(&host, &wish, &first, &tried(&["rxe1"])).unwrap();
    assert_eq!((first.as_str(), other.hca.as_str()), ("rxe1", "rxe2"));
    assert_eq!(other.warnings, ["rxe1 came first, and its device node does not open here (EPERM)"]);
    for asked in [Wish { hca: Some(&first), ..wish }, Wish { gid_index: Some(GidIndex(1)), ..wish }] {
        assert_eq!(choose_other(&host, &asked, &first, &tried(&["rxe1"])), None);
    }
    assert_eq!(choose_other(&host, &wish, &first, &tried(&["rxe1", "rxe2"])), None, "none opens");
    assert_eq!(choose_other(&host, &wish, &first, &tried(&[])), None, "it failed for another reason");
}
