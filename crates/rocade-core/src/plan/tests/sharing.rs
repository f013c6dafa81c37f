//! What a device ID is worth, how many there are, which of them the kubelet had best take.

use std::collections::BTreeSet;

use super::*;
use crate::config::{Degraded, Sharing, Slots};
use crate::host::{FunctionKind, GidEntry};
use crate::names::{Gid, GidIndex};

fn shared(host: &Host, sharing: Sharing) -> Pool {
    agent_pool(host, |resource| resource.sharing = sharing)
}

const TOKENS: Sharing = Sharing::Tokens(Slots::Fixed(8));
const EXCLUSIVE: Sharing = Sharing::Hca { share: 1 };
const AUTO: Sharing = Sharing::Tokens(Slots::Auto { gids_per_pod: 4 });

fn ids(pool: &Pool) -> Vec<String> {
    pool.devices().map(|device| device.id).collect()
}

fn rails(count: u32) -> Host {
    host((0..count).map(|n| hca(n, &format!("eth{n}"))).collect(), Vec::new())
}

/// F02: hosts of one and of eight HCAs, and `n` should mean n HCAs.
#[test]
fn on_one_rail_and_on_eight_a_request_for_n_means_n_hcas_where_hcas_are_counted() {
    for rails in [rails(1), rails(8)] {
        assert_eq!(shared(&rails, TOKENS).slots, 8, "what rdmaHcaMax says, however many there are");
        let counted = shared(&rails, EXCLUSIVE);
        assert_eq!(counted.slots as usize, rails.hcas.len());
        let two = &ids(&counted)[..counted.members.len().min(2)];
        assert_eq!(counted.grant(two).unwrap().hcas.len(), two.len());
    }
}

/// F54: one resource an HCA makes a Pod list eight names, and others need the same rails.
#[test]
fn one_resource_gives_any_number_of_eight_rails_and_gives_them_to_several_pods() {
    let pool = shared(&rails(8), Sharing::Hca { share: 4 });
    assert_eq!(pool.slots, 32);
    let all = pool.prefer(&ids(&pool), &[] as &[&str], 8);
    assert_eq!(pool.grant(&all).unwrap().hcas.len(), 8, "all rails");
    let left: Vec<_> = ids(&pool).into_iter().filter(|id| !all.contains(id)).collect();
    let again = pool.prefer(&left, &[] as &[&str], 8);
    assert_eq!(pool.grant(&again).unwrap().hcas.len(), 8, "and again for a second Pod");
}

#[test]
fn ids_follow_the_function_over_a_rename_and_know_its_parts_by_name() {
    let mut card = hca(3, "eth3");
    card.function = Some(FunctionKind::Pf);
    let part = Hca {
        function: Some(FunctionKind::Sf),
        parent: Parent::Auxiliary,
        pci_address: card.pci_address,
        name: "mlx5_9".parse().unwrap(),
        ..hca(9, "en3f0s0")
    };
    let pool = shared(&host(vec![card.clone(), part, rxe(7, "eth7")], Vec::new()), EXCLUSIVE);
    assert_eq!(ids(&pool), ["0000:03:00.0", "0000:03:00.0-mlx5_9", "rxe7"]);
    card.name = "rocep3s0".parse().unwrap();
    assert_eq!(ids(&shared(&host(vec![card], Vec::new()), EXCLUSIVE)), ["0000:03:00.0"]);
}

#[test]
fn an_id_is_at_most_63_characters_and_no_two_are_the_same_however_long_names_are() {
    let long = |end: &str| rxe(0, "eth0").name.to_string() + &"x".repeat(59 - end.len()) + end;
    let named = |name: String| Hca { name: name.parse().unwrap(), ..rxe(0, "eth0") };
    let host = host(vec![named(long("a")), named(long("b"))], Vec::new());
    let ids = ids(&shared(&host, Sharing::Hca { share: 200_000 / 2 }));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 200_000);
    assert!(ids.iter().all(|id| id.len() <= 63), "{}", ids[199_999]);
}

#[test]
fn a_device_knows_its_numa_node_and_several_hcas_all_of_theirs_or_none() {
    let mut host = rails(3);
    let nodes = |host: &Host, sharing| {
        let pool = shared(host, sharing);
        pool.devices().map(|device| device.numa_nodes).collect::<Vec<_>>()
    };
    host.hcas[0].numa_node = Some(1);
    host.hcas[2].numa_node = Some(0);
    assert_eq!(nodes(&host, EXCLUSIVE), [vec![1], vec![], vec![0]]);
    assert_eq!(nodes(&host, TOKENS)[0], Vec::<u32>::new());
    host.hcas[1].numa_node = Some(0);
    assert_eq!(nodes(&host, TOKENS)[0], [0, 1]);
}

fn gid(index: u32, address: &str, netdev: &str) -> GidEntry {
    let address: std::net::IpAddr = address.parse().unwrap();
    GidEntry {
        index: GidIndex(index),
        gid: Gid::from_address(address),
        gid_type: None,
        netdev: Some(netdev.into()),
        address: Some(address),
    }
}

/// An HCA whose GID table holds what the host and a running Pod put there.
fn with_gids(entries: u32) -> Host {
    let mut rail = hca(0, "eth0");
    let port = &mut rail.ports[0];
    port.gid_table_len = Some(entries);
    port.gids = vec![
        gid(0, "10.0.0.1", "eth0"),
        gid(1, "10.0.0.1", "eth0"),
        gid(2, "10.0.0.7", "mv0"),
        gid(3, "10.0.0.8", "net1"),
        // A Pod's interface of a name that the host has too.
        gid(4, "10.0.0.9", "eth0"),
    ];
    port.gids_set = Some(5);
    let with = |name: &str, address: &str, kind: Option<&str>| Netdev {
        addresses: vec![(address.parse().unwrap(), 24)],
        kind: kind.map(str::to_owned),
        ..netdev(name)
    };
    host(vec![rail], vec![with("eth0", "10.0.0.1", None), with("mv0", "10.0.0.7", Some("macvlan"))])
}

#[test]
fn slots_by_gids_are_as_many_whichever_pods_run_while_they_are_counted() {
    let mut host = with_gids(128);
    assert_eq!(shared(&host, AUTO).slots, (128 - 2) / 4);
    host.hcas[0].ports[0].gids.truncate(2);
    host.hcas[0].ports[0].gids_set = Some(2);
    assert_eq!(shared(&host, AUTO).slots, (128 - 2) / 4);
    assert!(needs(&agent_config(|resource| resource.sharing = AUTO)).gids);
    assert!(!needs(&agent_config(|resource| resource.sharing = TOKENS)).gids);
}

#[test]
fn the_narrowest_table_decides_and_a_full_or_unread_one_or_infiniband_says_why_there_are_none() {
    let mut host = with_gids(128);
    let narrow = Hca { ports: with_gids(34).hcas[0].ports.clone(), ..hca(1, "eth1") };
    host.hcas.push(narrow);
    assert_eq!(shared(&host, AUTO).slots, 8);
    let why = |host: &Host| shared(host, AUTO).why_no_slots.unwrap().to_string();
    host.hcas[1].ports[0].gid_table_len = Some(4);
    assert_eq!(
        why(&host),
        "the GID table of mlx5_1/1 has 4 entries, 2 of them the host's own: no room for a Pod"
    );
    host.hcas[1].ports[0].gids_set = None;
    assert!(why(&host).contains("mlx5_1/1 could not be read (not read)"), "{}", why(&host));
    host.hcas.truncate(1);
    host.hcas[0].ports[0].link_layer = LinkLayer::InfiniBand;
    assert!(why(&host).ends_with("give a number, as 100"), "{}", why(&host));
}

/// F01: a node shows 63 or 1000 of a resource, and it looks like bandwidth.
#[test]
fn more_tokens_than_addresses_have_room_for_are_warned_of_and_explained() {
    let host = with_gids(128);
    let of = |slots| shared(&host, Sharing::Tokens(Slots::Fixed(slots)));
    assert_eq!(of(63).worth_text(), "63 tokens, 1 HCA, no bandwidth isolation");
    assert_eq!(findings(&host, &[of(63)], &OtherOffers::default()), []);
    let found = findings(&host, &[of(64)], &OtherOffers::default());
    assert_eq!((found.len(), found[0].code), (1, "RDC731"));
    assert!(found[0].wanted.starts_with("at most 63 slots"), "{}", found[0]);
}

/// F47: with exclusive namespaces an HCA is one Pod's, and its uverbs number changes.
#[test]
fn where_namespaces_are_exclusive_each_hca_is_offered_once_and_the_reason_is_shown() {
    let mut host = rails(2);
    host.netns_mode = Some(NetnsMode::Exclusive);
    assert_eq!(ids(&shared(&host, TOKENS)), ["0"]);
    assert_eq!(ids(&shared(&host, AUTO)), ["0"]);
    let shares = shared(&host, Sharing::Hca { share: 9 });
    assert_eq!(ids(&shares), ["0000:00:00.0", "0000:01:00.0"]);
    let config = agent_config(|_| ());
    let twice = Config { resources: [&config.resources[..], &config.resources[..]].concat(), ..config };
    let pools = plan(&host, &twice);
    assert_eq!((pools[0].members.len(), pools[1].members.len()), (2, 0));
    assert_eq!(*why_out(&pools[1], "mlx5_0"), Reason::OfferedBy("rdma/hca_a".parse().unwrap()));
    let found = findings(&host, &pools, &OtherOffers::default());
    assert!(found.iter().any(|finding| finding.code == "RDC732"), "{found:?}");
    // Its nodes are what they are when it is granted, whatever they were when the agent started.
    host.hcas[0].uverbs = Some(char_device("uverbs7".into()));
    assert_eq!(
        shared(&host, EXCLUSIVE).grant(&["0000:00:00.0"]).unwrap().nodes,
        ["/dev/infiniband/uverbs7", "/dev/infiniband/rdma_cm"]
    );
}

#[test]
fn an_hca_in_several_hands_is_told() {
    let host = rails(1);
    let config = agent_config(|resource| resource.sharing = EXCLUSIVE);
    let second = Resource { name: "rdma/b".parse().unwrap(), ..config.resources[0].clone() };
    let pools = plan(&host, &Config { resources: vec![config.resources[0].clone(), second], ..config });
    let others = OtherOffers(vec![
        ("vendor.example/vf".into(), "0000:00:00.0".into()),
        ("x/gpu".into(), "GPU-1".into()),
    ]);
    let found: Vec<_> = findings(&host, &pools, &others).iter().map(|f| (f.code, f.seen.clone())).collect();
    assert_eq!(
        found,
        [
            ("RDC733", "in rdma/hca_a, rdma/b".to_owned()),
            ("RDC734", "in rdma/hca_a, and offered as vendor.example/vf too".to_owned()),
            ("RDC734", "in rdma/b, and offered as vendor.example/vf too".to_owned()),
        ]
    );
}

/// Two switches on each of two sockets, two HCAs on each switch.
fn big() -> Pool {
    let at = |n: u32| Hca {
        numa_node: Some(n / 4),
        pci_root: Some(format!("pci000{}:00", n / 2)),
        pci_path: vec![format!("000{}:00:01.0", n / 2).parse().unwrap()],
        ..hca(n, &format!("eth{n}"))
    };
    shared(&host((0..8).map(at).collect(), Vec::new()), Sharing::Hca { share: 2 })
}

/// F51: HCAs of one request lie on different sockets.
#[test]
fn different_hcas_near_to_each_other_are_preferred_and_what_must_be_is_among_them() {
    let pool = big();
    let all = ids(&pool);
    let hcas = |ids: &[String]| {
        let mut hcas: Vec<_> = ids.iter().map(|id| pool.members_of(id).unwrap()[0].hca.to_string()).collect();
        hcas.sort();
        hcas.join(" ")
    };
    let none: &[&str] = &[];
    assert_eq!(hcas(&pool.prefer(&all, none, 2)), "mlx5_0 mlx5_1", "below one switch");
    assert_eq!(hcas(&pool.prefer(&all, none, 4)), "mlx5_0 mlx5_1 mlx5_2 mlx5_3", "on one socket");
    assert_eq!(hcas(&pool.prefer(&all, &["0000:05:00.0-1"], 2)), "mlx5_4 mlx5_5");
    assert_eq!(hcas(&pool.prefer(&all, none, 9)).matches("mlx5_0").count(), 2, "twice only where it must be");
    // Switch 0 is in use by other Pods: the one that nobody has comes first.
    let used: Vec<_> =
        all.iter().filter(|id| !matches!(id.as_str(), "0000:00:00.0-0" | "0000:01:00.0-0")).collect();
    assert_eq!(hcas(&pool.prefer(&used, none, 2)), "mlx5_2 mlx5_3");
    let tokens = shared(&rails(2), TOKENS);
    assert_eq!(tokens.prefer(&["7", "3", "11", "2"], &["7"], 3), ["7", "2", "3"]);
}

#[test]
fn a_pool_that_degrades_grants_what_is_left_and_one_that_withholds_says_unhealthy() {
    let failed: BTreeSet<String> = ["0000:00:00.0".to_owned()].into();
    let of = |degraded| agent_pool(&rails(2), |resource| resource.health.degraded = degraded);
    let both = BTreeSet::from(["0000:00:00.0".to_owned(), "0000:01:00.0".to_owned()]);
    for (degraded, healthy, granted) in
        [(Degraded::Withhold, false, 2), (Degraded::Degrade, true, 1), (Degraded::Ignore, true, 2)]
    {
        let pool = of(degraded);
        let device = pool.devices().next().unwrap();
        assert_eq!(pool.is_healthy(&device, &failed), healthy, "{degraded:?}");
        assert!(!pool.is_healthy(&device, &both));
        assert_eq!(pool.grant_without(&["0"], &failed).unwrap().hcas.len(), granted, "{degraded:?}");
        assert_eq!(pool.grant_without(&["0"], &both).unwrap().hcas.len(), 2);
    }
}

#[test]
fn a_grant_hands_on_traffic_class_and_service_level_and_takes_no_mknod() {
    let pool = agent_pool(&rails(1), |resource| {
        (resource.traffic_class, resource.service_level) = (Some(106), Some(3));
    });
    let grant = pool.grant(&["0"]).unwrap();
    let variables = [("GRANT", "mlx5_0:1"), ("TC", "106"), ("SL", "3")]
        .map(|(what, value)| (format!("ROCADE_{what}_RDMA_HCA_A"), value.to_owned()));
    assert_eq!((grant.permissions, grant.variables), ("rw", variables.to_vec()));
}

proptest! {
    #[test]
    fn a_preference_is_of_the_size_that_was_asked_for_and_of_what_is_there(
        mask in prop::collection::vec(any::<bool>(), 16), size in 0..18_usize, must in any::<prop::sample::Index>(),
    ) {
        let pool = big();
        let available: Vec<String> = ids(&pool).into_iter().zip(mask).filter(|(_, is)| *is).map(|(id, _)| id).collect();
        let must: Vec<String> = if available.is_empty() || size == 0 { vec![] } else { vec![must.get(&available).clone()] };
        let chosen = pool.prefer(&available, &must, size);
        prop_assert_eq!(chosen.len(), size.min(available.len()));
        prop_assert!(must.iter().all(|id| chosen.contains(id)));
        prop_assert!(chosen.iter().all(|id| available.contains(id)));
        prop_assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), chosen.len());
        let hcas = |ids: &[String]| pool.grant(ids).unwrap().hcas.len();
        prop_assert_eq!(hcas(&chosen), hcas(&available).min(size), "as many HCAs as there can be");
    }
}
