//! Why an HCA is in or out, by each selector, and what was probably meant.

use super::*;

use crate::host::{Companion, FunctionKind, Relation, Role, RoleKind};

fn by(host: &Host, selectors: Selectors) -> Pool {
    agent_pool(host, |resource| resource.selectors = selectors)
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

fn two() -> Host {
    let mut second = hca(1, "ens20np0");
    second.ports[0].rate_gbps = Some(25.0);
    second.function = Some(FunctionKind::Vf);
    second.numa_node = Some(1);
    second.role = Role { kind: RoleKind::Storage, ground: "test".into() };
    host(vec![hca(0, "ens18np0"), second], vec![netdev("ens18np0"), netdev("ens20np0")])
}

#[test]
fn every_selector_takes_in_who_has_it_and_tells_the_other_what_it_saw() {
    let s = Selectors::default;
    for (selectors, key, seen) in [
        (Selectors { hcas: texts(&["*_1"]), ..s() }, "hcas", "mlx5_0"),
        (Selectors { pci_addresses: texts(&["0000:01:*"]), ..s() }, "pciAddresses", "0000:00:00.0"),
        (Selectors { if_names: texts(&["ens2*np0"]), ..s() }, "netdevs", "ens18np0"),
        (Selectors { functions: vec![FunctionKind::Vf], ..s() }, "functions", "none"),
        (Selectors { numa_nodes: vec![1], ..s() }, "numaNodes", "none"),
        (Selectors { roles: vec![RoleKind::Storage], ..s() }, "roles", "unknown; not judged"),
    ] {
        let pool = by(&two(), selectors);
        assert_eq!(members(&pool), ["mlx5_1"], "{key}");
        let said = why_out(&pool, "mlx5_0").to_string();
        assert!(said.starts_with(key) && said.ends_with(&format!("it has {seen}")), "{said}");
    }
    let fast = by(&two(), Selectors { min_rate_gbps: Some(50.0), ..s() });
    assert_eq!(members(&fast), ["mlx5_0"]);
    assert_eq!(why_out(&fast, "mlx5_1").to_string(), "minRateGbps wants 50, it has 25");
    let layer = Selectors { link_layers: vec![LinkLayer::InfiniBand], ..s() };
    assert_eq!(
        why_out(&by(&two(), layer), "mlx5_0").to_string(),
        "linkLayers wants infiniband, it has ethernet"
    );
    let transport = Selectors { transports: vec![Transport::Infiniband], ..s() };
    assert_eq!(
        why_out(&by(&two(), transport), "mlx5_0").to_string(),
        "transports wants infiniband, it has roce"
    );
}

#[test]
fn excluded_hcas_are_out_and_all_selectors_of_ports_must_hold_for_one_port() {
    let excluded = agent_pool(&two(), |resource| {
        resource.exclude = vec![Selectors { roles: vec![RoleKind::Storage], ..Selectors::default() }];
    });
    assert_eq!(members(&excluded), ["mlx5_0"]);
    assert_eq!(why_out(&excluded, "mlx5_1").to_string(), "exclude[0] selects it");
    let mut both = hca(0, "ib0");
    let slow = Port {
        port: PortNum(2),
        rate_gbps: Some(10.0),
        netdev: Some("eth0".into()),
        ..both.ports[0].clone()
    };
    both.ports[0].link_layer = LinkLayer::InfiniBand;
    both.ports.push(slow);
    let host = host(vec![both], Vec::new());
    let of = |min_rate_gbps| {
        by(
            &host,
            Selectors {
                link_layers: vec![LinkLayer::Ethernet],
                min_rate_gbps: Some(min_rate_gbps),
                ..Selectors::default()
            },
        )
    };
    assert_eq!(of(5.0).ports_text(), "mlx5_0:2");
    assert_eq!(*why_out(&of(50.0), "mlx5_0"), Reason::NoPort);
}

#[test]
fn an_nvswitch_bridge_is_in_only_where_it_is_named_and_as_before_under_config_json() {
    let mut bridge = hca(0, "ib0");
    bridge.switch_management = Some(true);
    let host = host(vec![bridge], Vec::new());
    let vendor = Selectors { vendors: texts(&["15b3"]), ..Selectors::default() };
    assert_eq!(*why_out(&by(&host, vendor.clone()), "mlx5_0"), Reason::Bridge);
    let glob = Selectors { hcas: texts(&["mlx5_*"]), ..Selectors::default() };
    assert_eq!(*why_out(&by(&host, glob), "mlx5_0"), Reason::Bridge);
    for named in [
        Selectors { hcas: texts(&["mlx5_0"]), ..Selectors::default() },
        Selectors { pci_addresses: texts(&["0000:00:00.0"]), ..Selectors::default() },
    ] {
        assert_eq!(members(&by(&host, named)), ["mlx5_0"]);
    }
    assert_eq!(members(&pool(&host, vendor)), ["mlx5_0"]);
}

/// F03: bus numbers for device IDs, an auxiliary driver for the PCI driver, `ethernet` for a link type.
#[test]
fn three_silent_mistakes_are_each_named_with_what_was_meant() {
    let e810 = |n: u32, bus: &str| {
        let mut hca = hca(n, &format!("ens{n}"));
        hca.name = format!("irdma{n}").parse().unwrap();
        (hca.pci_id, hca.driver) = (Some(PciId { vendor: 0x8086, device: 0x159b }), Some("ice".into()));
        hca.pci_address = Some(bus.parse().unwrap());
        hca
    };
    let host =
        host(vec![e810(0, "0000:0d:00.0"), e810(1, "0000:b5:00.0")], vec![netdev("ens0"), netdev("ens1")]);
    let selectors = Selectors {
        vendors: texts(&["8086"]),
        device_ids: texts(&["0d00", "b500", "a000"]),
        drivers: texts(&["irdma"]),
        link_types: texts(&["ethernet"]),
        ..Selectors::default()
    };
    assert_eq!(
        pool(&host, selectors.clone()).near_misses,
        [
            "deviceIDs 0d00, b500, a000: 0 of 2 HCAs match; present: 159b",
            "0d00 is the PCI bus of irdma0 (0000:0d:00.0), whose id is 159b",
            "b500 is the PCI bus of irdma1 (0000:b5:00.0), whose id is 159b",
            "drivers irdma: 0 of 2 HCAs match; present: ice",
            "irdma is the RDMA driver, that of the PCI function is ice",
            "linkTypes ethernet: 0 of 2 HCAs match; present: ether",
            "`ethernet` is not a link type; did you mean `ether`?",
        ]
    );
    let said = why_out(&pool(&host, selectors), "irdma0").to_string();
    assert_eq!(
        said,
        "deviceIDs wants 0d00 or b500 or a000, it has 159b; 0d00 is the PCI bus of irdma0 (0000:0d:00.0), whose id is 159b"
    );
}

/// F04: PCI addresses among device IDs, and the RDMA driver for that of the function.
#[test]
fn pci_addresses_among_ids_and_an_rdma_driver_are_said_to_be_such() {
    let selectors = Selectors {
        device_ids: texts(&["0000:01:00.0"]),
        drivers: texts(&["mlx5_ib"]),
        ..Selectors::default()
    };
    let near = pool(&two(), selectors).near_misses;
    assert!(
        near.contains(&"0000:01:00.0 is a PCI address, not an id, and mlx5_1 has 1021".to_owned()),
        "{near:?}"
    );
    assert!(
        near.contains(&"mlx5_ib is the RDMA driver, that of the PCI function is mlx5_core".to_owned()),
        "{near:?}"
    );
}

/// F05: an interface that is absent, or has no RDMA device, and both end in 0.
#[test]
fn an_interface_that_is_not_there_is_told_from_one_without_rdma() {
    let mut host = two();
    host.netdevs.push(Netdev { driver: Some("virtio_net".into()), ..netdev("ens3") });
    let near = |name: &str| pool(&host, by_name(&[name])).near_misses.pop().unwrap();
    assert_eq!(near("ens3"), "ens3: virtio_net, no RDMA device");
    assert_eq!(near("ens4"), "ens4: no such interface");
    assert_eq!(near("ens18"), "ens18: no such interface; did you mean ens18np0?");
    assert_eq!(near("mlx5_0"), "mlx5_0: no such interface; it is an HCA, of interface ens18np0");
    assert_eq!(near("ens*"), "ens*: no such interface; config.json has no patterns");
    assert_eq!(members(&by(&host, by_name(&["ens*"]))), ["mlx5_0", "mlx5_1"]);
}

/// F10: hexadecimal digits in upper case never match.
#[test]
fn ids_are_compared_whatever_their_case_and_prefix() {
    let mut host = two();
    host.hcas[0].pci_id = Some(PciId { vendor: 0x15b3, device: 0x101b });
    for id in ["101B", "0x101b", "101b"] {
        let selectors = Selectors { device_ids: texts(&[id]), ..Selectors::default() };
        assert_eq!(members(&pool(&host, selectors)), ["mlx5_0"], "{id}");
    }
}

/// F08: rdmaHcaMax is missing, and 0 devices are offered without a word.
#[test]
fn a_resource_without_slots_says_why_and_is_no_silent_0() {
    let resource = Resource::of_config_json("rdma/hca_a".parse().unwrap(), 0, by_name(&["ens18np0"]));
    let pools = plan(&two(), &Config::of_config_json(None, vec![resource]));
    assert_eq!((pools[0].slots, pools[0].members.len()), (0, 1));
    let found = findings(&two(), &pools, &OtherOffers::default());
    assert_eq!(
        found[0].to_string(),
        "error[RDC730]: rdma/hca_a: the configuration gives it 0 slots, wanted at least one device ID"
    );
}

/// F17: one function with two interfaces, and the second never matches.
#[test]
fn a_second_interface_of_a_function_means_its_hca_and_that_port() {
    let mut card = hca(0, "enp3s0");
    let second = Port { port: PortNum(2), netdev: Some("enp3s0d1".into()), ..card.ports[0].clone() };
    card.ports.push(second);
    card.parent_netdevs = texts(&["enp3s0", "enp3s0d1"]);
    let host = host(vec![card], vec![netdev("enp3s0"), netdev("enp3s0d1")]);
    assert_eq!(pool(&host, by_name(&["enp3s0d1"])).ports_text(), "mlx5_0:2");
    assert_eq!(pool(&host, by_name(&["enp3s0"])).ports_text(), "mlx5_0:1");
}

/// F18: the bond has no PCI parent, and the RDMA device sits on one member's function.
#[test]
fn a_bond_is_said_to_be_the_lag_device_that_it_leads_to() {
    let mut lag = hca(0, "ens67f0np0");
    lag.name = "mlx5_bond_0".parse().unwrap();
    lag.ports[0].netdev = Some("bond0".into());
    lag.companions = vec![Companion {
        relation: Relation::LagMember,
        hca: None,
        pci_address: Some("0000:00:00.1".parse().unwrap()),
        netdev: Some("ens67f1np1".into()),
    }];
    let member = |name| Netdev { master: Some("bond0".into()), ..netdev(name) };
    let bond = Netdev { kind: Some("bond".into()), ..netdev("bond0") };
    let host = host(vec![lag], vec![member("ens67f0np0"), member("ens67f1np1"), bond]);
    let found = |name| pool(&host, by_name(&[name])).members[0].found_by.clone();
    assert_eq!(found("bond0"), ["bond0 = mlx5_bond_0 (LAG)"]);
    assert_eq!(found("ens67f1np1"), ["ens67f1np1 = mlx5_bond_0 (LAG)"]);
}

/// Verbs on one device, subnet management on its other half.
fn split_plane() -> Host {
    let mut verbs = hca(0, "ens18");
    let mut management = hca(1, "ens18");
    (management.uverbs, management.ports[0].netdev) = (None, None);
    (management.parent_hca, management.pci_address) = (Some(verbs.name.clone()), verbs.pci_address);
    let half = |other: &Hca| {
        let (hca, pci_address) = (Some(other.name.clone()), other.pci_address);
        Companion { relation: Relation::SplitPlane, hca, pci_address, netdev: None }
    };
    (verbs.companions, management.companions) = (vec![half(&management)], vec![half(&verbs)]);
    host(vec![verbs, management, hca(2, "ens20")], vec![netdev("ens18"), netdev("ens20")])
}

/// F15: one half of a physical port offers verbs, the other subnet management.
#[test]
fn halves_of_one_physical_port_are_granted_together_and_nothing_else_is() {
    let host = split_plane();
    let pool = agent_pool(&host, |resource| {
        resource.sharing = Sharing::Hca { share: 1 };
        resource.char_devices = CharDevices { umad: true, issm: false };
        resource.selectors = by_name(&["ens18"]);
    });
    assert_eq!(members(&pool), ["mlx5_0"]);
    assert_eq!(pool.members[0].companions, ["mlx5_1".parse::<HcaName>().unwrap()]);
    let grant = pool.grant(&[&pool.members[0].id]).unwrap();
    let nodes: Vec<_> = grant.nodes.iter().map(|node| node.rsplit('/').next().unwrap()).collect();
    assert_eq!(nodes, ["umad0", "uverbs0", "umad1", "rdma_cm"]);
    let all = agent_pool(&host, |_| ());
    assert_eq!(*why_out(&all, "mlx5_1"), Reason::HalfOf("mlx5_0".parse().unwrap()));
}

#[test]
fn umad_is_given_and_demanded_only_where_it_is_asked_for_and_issm_only_of_infiniband() {
    let mut bare = hca(0, "eth0");
    (bare.ports[0].umad, bare.ports[0].issm) = (None, None);
    let host = host(vec![bare], Vec::new());
    let of = |umad, issm| agent_pool(&host, |resource| resource.char_devices = CharDevices { umad, issm });
    assert_eq!(members(&of(false, true)), ["mlx5_0"], "an Ethernet port has no issm");
    assert_eq!(
        why_out(&of(true, false), "mlx5_0").to_string(),
        "the kernel made no umad device for port 1 (module ib_umad)"
    );
    let given = agent_pool(&two(), |_| ()).grant(&["0"]).unwrap().nodes;
    assert!(given.iter().all(|node| !node.contains("umad") && !node.contains("issm")), "{given:?}");
}
