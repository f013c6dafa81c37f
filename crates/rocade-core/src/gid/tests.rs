//! What is chosen on hosts that the tests build, and properties over any of them.

use proptest::prelude::*;

use super::*;
use crate::host::{Accessible, CharDevice, Netdev, Transport};
use crate::names::Gid;

mod cases;
mod loopback;

/// (index, address, type, netdev)
type GidSpec = (u32, &'static str, GidType, Option<&'static str>);

fn entry((index, address, gid_type, netdev): GidSpec) -> GidEntry {
    let address: IpAddr = address.parse().unwrap();
    GidEntry {
        index: GidIndex(index),
        gid: Gid::from_address(address),
        gid_type: Some(gid_type),
        netdev: netdev.map(str::to_owned),
        address: Some(address),
    }
}

fn hca(name: &str, gids: Vec<GidEntry>) -> Hca {
    let accessible = Accessible::Yes;
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        state: Some("ACTIVE".into()),
        gids,
        ..Port::new(PortNum(1))
    };
    Hca {
        software: true,
        uverbs: Some(CharDevice { node: "uverbs0".into(), major: 231, minor: 192, accessible }),
        ports: vec![port],
        ..Hca::new(name.parse().unwrap())
    }
}

fn netdev(name: &str, addresses: &[(&str, u8)]) -> Netdev {
    let addresses = addresses.iter().map(|(address, prefix)| (address.parse().unwrap(), *prefix)).collect();
    Netdev { name: name.into(), ifindex: 1, link_type: 1, up: true, addresses, ..Netdev::default() }
}

/// A host whose ports are judged as a read one's are.
fn host(hcas: Vec<Hca>, netdevs: Vec<Netdev>) -> Host {
    judged(Host { hcas, netdevs, ..Host::default() })
}

fn judged(mut host: Host) -> Host {
    crate::usable::judge(&mut host);
    host
}

/// Two rails and a management netdev, as a node has them; a Pod's address (10.1.0.77) is in the first rail's table.
fn two_rails() -> Host {
    let mac_v6 = "fe80::5054:ff:fe00:1";
    let one = vec![
        entry((0, mac_v6, GidType::V1, Some("eth1"))),
        entry((1, mac_v6, GidType::V2, Some("eth1"))),
        entry((2, "10.1.0.1", GidType::V1, Some("eth1"))),
        entry((3, "10.1.0.1", GidType::V2, Some("eth1"))),
        entry((4, "10.1.0.77", GidType::V2, Some("net1"))),
        entry((5, "fd01::1", GidType::V2, Some("eth1"))),
    ];
    let two = vec![entry((0, "10.2.0.1", GidType::V2, Some("eth2")))];
    host(
        vec![hca("rxe1", one), hca("rxe2", two)],
        vec![
            netdev("lo", &[("127.0.0.1", 8)]),
            netdev("eth0", &[("192.168.7.1", 24)]),
            netdev("eth1", &[("10.1.0.1", 24), ("fd01::1", 64), (mac_v6, 64)]),
            netdev("eth2", &[("10.2.0.1", 24)]),
        ],
    )
}

fn connection(local: &str, peer: &str) -> Option<Connection> {
    Some(Connection { local: local.parse().unwrap(), peer: peer.parse().unwrap() })
}

fn chosen(host: &Host, wish: &Wish<'_>) -> (String, u32) {
    let choice = choose_gid(host, wish).unwrap();
    (choice.hca.to_string(), choice.gid.unwrap().index.0)
}

#[test]
fn the_hca_that_has_the_connections_address_wins() {
    let host = two_rails();
    for (local, peer, hca, index) in [
        ("10.2.0.1", "10.2.0.2", "rxe2", 0),
        ("10.1.0.1", "10.1.0.2", "rxe1", 3),
        ("::ffff:10.1.0.1", "::ffff:10.1.0.2", "rxe1", 3),
        ("fd01::1", "fd01::2", "rxe1", 5),
    ] {
        let wish = Wish { connection: connection(local, peer), ..Wish::default() };
        assert_eq!(chosen(&host, &wish), (hca.to_owned(), index), "{local}");
    }
}

#[test]
fn over_a_management_network_an_own_address_is_chosen_and_never_a_pods() {
    let wish = Wish { connection: connection("192.168.7.1", "192.168.7.2"), ..Wish::default() };
    let choice = choose_gid(&two_rails(), &wish).unwrap();
    assert_eq!(choice.gid.unwrap().index, GidIndex(3));
    assert_eq!(
        choice.reason,
        "no HCA has 192.168.7.1, the address of this connection; 10.1.0.1 on eth1 is the first usable"
    );
    let peer_on_rail_two = Wish { connection: connection("192.168.7.1", "10.2.0.9"), ..Wish::default() };
    assert_eq!(chosen(&two_rails(), &peer_on_rail_two), ("rxe2".to_owned(), 0));
}

#[test]
fn a_wish_for_ipv6_is_for_an_own_one_on_the_connections_rail() {
    let mut host = two_rails();
    host.hcas.swap(0, 1);
    host.hcas[0].ports[0].gids.push(entry((1, "fd02::1", GidType::V2, Some("eth2"))));
    host.netdevs[3].addresses.push(("fd02::1".parse().unwrap(), 64));
    for (local, peer, hca, index) in [
        ("10.1.0.1", "10.1.0.2", "rxe1", 5),
        ("10.2.0.1", "10.2.0.2", "rxe2", 1),
        ("fd01::1", "fd01::2", "rxe1", 5),
        ("192.168.7.1", "192.168.7.2", "rxe2", 1),
    ] {
        let wish = Wish { connection: connection(local, peer), ipv6: true, ..Wish::default() };
        assert_eq!(chosen(&host, &wish), (hca.to_owned(), index), "{local}");
    }
    let error = choose_gid(
        &two_rails(),
        &Wish { hca: Some(&"rxe2".parse().unwrap()), ipv6: true, ..Wish::default() },
    );
    let wanted = "no HCA can be used: rxe2/1: no RoCE v2 GID of an IPv6 address of this namespace";
    assert_eq!(error.unwrap_err().to_string(), wanted);
}

#[test]
fn a_macvlan_pod_uses_its_own_entry_of_the_shared_table() {
    let mut pod = two_rails();
    pod.netdevs = vec![netdev("eth0", &[("10.244.0.9", 24)]), netdev("net1", &[("10.1.0.77", 24)])];
    let wish = Wish { connection: connection("10.244.0.9", "10.244.1.3"), ..Wish::default() };
    assert_eq!(chosen(&judged(pod), &wish), ("rxe1".to_owned(), 4));
}

#[test]
fn one_address_in_two_namespaces_is_told_apart_by_the_netdev() {
    let mut pod = two_rails();
    pod.netdevs = vec![netdev("net1", &[("10.1.0.1", 24)])];
    pod.hcas[0].ports[0].gids.push(entry((9, "10.1.0.1", GidType::V2, Some("net1"))));
    assert_eq!(chosen(&judged(pod), &Wish::default()), ("rxe1".to_owned(), 9));
}

#[test]
fn an_hca_whose_node_is_not_granted_is_passed_over_and_named() {
    let mut pod = two_rails();
    let node = pod.hcas[0].uverbs.as_mut().unwrap();
    node.accessible = Accessible::Missing;
    let pod = judged(pod);
    let wish = Wish { connection: connection("10.1.0.1", "10.1.0.2"), ..Wish::default() };
    assert_eq!(chosen(&pod, &wish), ("rxe2".to_owned(), 0));
    let name: HcaName = "rxe1".parse().unwrap();
    let error = choose_gid(&pod, &Wish { hca: Some(&name), ..wish }).unwrap_err();
    assert_eq!(error.to_string(), "no HCA can be used: rxe1/1: /dev/infiniband/uverbs0 missing");
}

#[test]
fn a_port_that_is_down_is_passed_over() {
    let mut host = two_rails();
    host.hcas[0].ports[0].state = Some("DOWN".into());
    let host = judged(host);
    assert_eq!(chosen(&host, &Wish::default()), ("rxe2".to_owned(), 0));
    let wish = Wish { gid_index: Some(GidIndex(3)), ..Wish::default() };
    let choice = choose_gid(&host, &wish).unwrap();
    assert_eq!((choice.hca.to_string(), choice.warnings), ("rxe1".into(), vec!["rxe1/1: port DOWN".into()]));
}

#[test]
fn an_infiniband_port_goes_by_its_lid_unless_an_index_is_asked_for() {
    let mut host = two_rails();
    host.hcas.remove(0);
    host.hcas[0].ports[0].link_layer = LinkLayer::InfiniBand;
    host.hcas[0].ports[0].transport = Transport::Infiniband;
    host.hcas[0].ports[0].lid = Some(7);
    let host = judged(host);
    assert_eq!(choose_gid(&host, &Wish::default()).unwrap().gid, None);
    let wish = Wish { gid_index: Some(GidIndex(0)), ..Wish::default() };
    let choice = choose_gid(&host, &wish).unwrap();
    assert_eq!((choice.gid.unwrap().index, choice.warnings), (GidIndex(0), vec![]));
}

#[test]
fn a_forced_index_is_used_and_its_oddities_are_told() {
    let host = two_rails();
    let name: HcaName = "rxe1".parse().unwrap();
    for (index, words) in
        [(0, vec!["RoCE v1", "link-local"]), (1, vec!["link-local"]), (3, vec![]), (4, vec!["foreign"])]
    {
        let wish = Wish { hca: Some(&name), gid_index: Some(GidIndex(index)), ..Wish::default() };
        for connection in
            [None, connection("10.1.0.1", "10.1.0.2"), connection("fe80::5054:ff:fe00:1", "fe80::2")]
        {
            let choice = choose_gid(&host, &Wish { connection, ..wish }).unwrap();
            assert_eq!(choice.gid.unwrap().index, GidIndex(index));
            assert_eq!(choice.warnings.len(), words.len(), "{:?}", choice.warnings);
            for (warning, word) in choice.warnings.iter().zip(&words) {
                assert!(warning.contains(word), "{warning}");
            }
        }
    }
}

#[test]
fn an_unset_index_and_an_unknown_hca_are_answered_with_what_there_is() {
    let host = two_rails();
    let wish = Wish { gid_index: Some(GidIndex(77)), ..Wish::default() };
    assert_eq!(
        choose_gid(&host, &wish).unwrap_err().to_string(),
        "GID index 77 is not set; usable: rxe1/1 index 1 (fe80::5054:ff:fe00:1), rxe1/1 index 3 (10.1.0.1), \
         rxe1/1 index 5 (fd01::1), rxe2/1 index 0 (10.2.0.1)"
    );
    let name: HcaName = "mlx5_0".parse().unwrap();
    assert_eq!(
        choose_gid(&host, &Wish { hca: Some(&name), ..Wish::default() }).unwrap_err().to_string(),
        "no HCA is named mlx5_0; there is rxe1, rxe2"
    );
}

const ADDRESSES: [&str; 6] = ["10.1.0.1", "10.1.0.77", "10.2.0.1", "192.168.7.1", "fd01::1", "fe80::1"];
const NETDEVS: [&str; 3] = ["eth0", "eth1", "net1"];

fn any_entry() -> impl Strategy<Value = GidEntry> {
    let gid_type = prop_oneof![Just(GidType::V1), Just(GidType::V2)];
    let netdev = proptest::option::of(proptest::sample::select(&NETDEVS[..]));
    (0..8u32, proptest::sample::select(&ADDRESSES[..]), gid_type, netdev).prop_map(entry)
}

fn any_host() -> impl Strategy<Value = Host> {
    let table = proptest::collection::vec(any_entry(), 0..6);
    let addresses = proptest::collection::vec((proptest::sample::select(&ADDRESSES[..]), 0..=128u8), 0..4);
    let netdevs = proptest::collection::vec((proptest::sample::select(&NETDEVS[..]), addresses), 0..3);
    (proptest::collection::vec((table, any::<bool>()), 0..4), netdevs).prop_map(|(tables, netdevs)| {
        let hcas = tables.into_iter().enumerate().map(|(n, (gids, granted))| {
            let mut hca = hca(&format!("rxe{n}"), gids);
            hca.uverbs = hca.uverbs.filter(|_| granted);
            hca
        });
        host(hcas.collect(), netdevs.into_iter().map(|(name, addresses)| netdev(name, &addresses)).collect())
    })
}

proptest! {
    #[test]
    fn what_is_chosen_by_itself_is_granted_set_v2_and_an_own_address(
        host in any_host(),
        local in proptest::sample::select(&ADDRESSES[..]),
        peer in proptest::sample::select(&ADDRESSES[..]),
    ) {
        let wish = Wish { connection: connection(local, peer), ..Wish::default() };
        let Ok(choice) = choose_gid(&host, &wish) else { return Ok(()) };
        let hca = host.hca(choice.hca.as_str()).unwrap();
        let entry = choice.gid.unwrap();
        prop_assert!(hca.uverbs.is_some());
        prop_assert!(hca.port(choice.port).unwrap().gids.contains(&entry));
        prop_assert_eq!(entry.gid_type, Some(GidType::V2));
        prop_assert!(host.owns(&entry));
    }

    #[test]
    fn a_granted_v2_gid_of_the_connections_address_is_always_taken(
        host in any_host(),
        local in proptest::sample::select(&ADDRESSES[..]),
    ) {
        let local_ip: IpAddr = local.parse().unwrap();
        let granted = host.hcas.iter().filter(|h| h.uverbs.is_some());
        let there = granted.flat_map(|h| &h.ports[0].gids).any(|e| {
            e.gid_type == Some(GidType::V2) && e.address == Some(local_ip) && host.owns(e)
        });
        let wish = Wish { connection: connection(local, "203.0.113.1"), ..Wish::default() };
        let address = choose_gid(&host, &wish).ok().and_then(|c| c.gid).and_then(|g| g.address);
        prop_assert_eq!(there, address == Some(local_ip));
    }

    #[test]
    fn a_forced_index_is_never_changed(host in any_host(), index in 0..9u32) {
        let wish = Wish { gid_index: Some(GidIndex(index)), ..Wish::default() };
        let set = host.hcas.iter().flat_map(|h| &h.ports[0].gids).any(|e| e.index.0 == index);
        match choose_gid(&host, &wish) {
            Ok(choice) => prop_assert_eq!(choice.gid.unwrap().index.0, index),
            Err(_) => prop_assert!(!set),
        }
    }
}
