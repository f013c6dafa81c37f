//! Relations on small hosts made here; recorded hosts are compared in the reader's tests.

use super::*;
use crate::host::LinkLayer;

fn hca(name: &str, address: &str, guid: u64) -> Hca {
    Hca {
        pci_address: Some(address.parse().unwrap()),
        function: Some(FunctionKind::Pf),
        node_guid: Some(Guid(guid)),
        sys_image_guid: Some(Guid(0x10)),
        ..Hca::new(name.parse().unwrap())
    }
}

fn port(number: u32, netdev: &str, state: &str) -> Port {
    Port {
        link_layer: LinkLayer::Ethernet,
        state: Some(state.into()),
        netdev: Some(netdev.into()),
        ..Port::new(PortNum(number))
    }
}

fn netdev(name: &str, address: &str) -> Netdev {
    Netdev { name: name.into(), pci_address: address.parse().ok(), ..Netdev::default() }
}

fn relations(host: &Host, name: &str) -> Vec<(Relation, Option<String>)> {
    let companions = &host.hca(name).unwrap().companions;
    companions.iter().map(|c| (c.relation, c.hca.as_ref().map(HcaName::to_string))).collect()
}

#[test]
fn representors_are_told_from_uplinks() {
    let named = |port_name: &str| Netdev { port_name: Some(port_name.into()), ..Netdev::default() };
    for name in ["pf0vf1", "pf0sf88", "c1pf0", "pf1", "c1pf0vf3"] {
        assert!(is_representor(&named(name)), "{name}");
    }
    for name in ["p0", "p1s2", "0", "", "pfx", "cpf0"] {
        assert!(!is_representor(&named(name)), "{name}");
    }
}

#[test]
fn a_lag_device_names_the_function_that_has_no_hca() {
    let mut lag = hca("mlx5_bond_0", "0000:a7:00.0", 1);
    lag.ports = vec![port(1, "bond0", "ACTIVE")];
    let member = |name: &str, address: &str| Netdev { master: Some("bond0".into()), ..netdev(name, address) };
    let bond = Netdev { kind: Some("bond".into()), ..netdev("bond0", "") };
    let netdevs = vec![bond, member("a", "0000:a7:00.0"), member("b", "0000:a7:00.1")];
    let mut host = Host { hcas: vec![lag.clone()], netdevs: netdevs.clone(), ..Host::default() };
    fill(&mut host);
    let companion = &host.hcas[0].companions[0];
    assert_eq!((companion.relation, companion.netdev.as_deref()), (Relation::LagMember, Some("b")));

    // With an HCA of its own the other function is no part of a LAG device.
    let mut host = Host { hcas: vec![lag, hca("mlx5_1", "0000:a7:00.1", 2)], netdevs, ..Host::default() };
    fill(&mut host);
    assert_eq!(relations(&host, "mlx5_bond_0"), [(Relation::SameCard, Some("mlx5_1".into()))]);
}

#[test]
fn the_two_halves_of_a_split_plane_device_find_each_other() {
    let parent = hca("mlx5_0", "0000:01:00.0", 7);
    let part = Hca { parent_hca: Some("mlx5_0".parse().unwrap()), ..hca("smi1", "0000:01:00.0", 9) };
    let twin = hca("mlx5_s", "0000:01:00.0", 7);
    let soft = Hca { software: true, ..hca("rxe0", "0000:01:00.0", 7) };
    let mut host = Host { hcas: vec![parent, part, twin, soft], ..Host::default() };
    fill(&mut host);
    let wanted = [
        (Relation::SplitPlane, Some("smi1".to_owned())),
        (Relation::SplitPlane, Some("mlx5_s".to_owned())),
        (Relation::SameFunction, Some("rxe0".to_owned())),
    ];
    assert_eq!(relations(&host, "mlx5_0"), wanted);
}

#[test]
fn a_guid_on_more_functions_than_a_card_has_tells_nothing() {
    let hcas = (0..32).map(|n| hca(&format!("h{n}"), &format!("0000:{n:02x}:00.0"), n)).collect();
    let mut host = Host { hcas, ..Host::default() };
    fill(&mut host);
    assert!(host.hcas.iter().all(|hca| hca.companions.is_empty()));
}

#[test]
fn planes_are_uplinks_of_one_switch_on_different_functions() {
    let uplink = |n: u32| Netdev {
        port_name: Some(format!("p{n}")),
        switch_id: Some("aa".into()),
        ..netdev(&format!("eth{n}"), &format!("0000:1a:00.{n}"))
    };
    let mut card = hca("roce_r0", "0000:1a:00.0", 1);
    card.ports = vec![port(1, "none", "DOWN"), port(3, "eth0", "ACTIVE"), port(6, "eth1", "DOWN")];
    let mut host = Host { hcas: vec![card], netdevs: vec![uplink(0), uplink(1)], ..Host::default() };
    fill(&mut host);
    let planes = host.hcas[0].planes.clone().unwrap();
    assert_eq!((planes.ports, planes.up), (vec![PortNum(3), PortNum(6)], 1));
    assert_eq!(planes.verdict, PlanesVerdict::Degraded);
}

#[test]
fn children_of_children_are_found_and_loops_end() {
    let on = |name: &str, parent: &str, kind: &str| Netdev {
        parent: Some(parent.into()),
        kind: Some(kind.into()),
        ..netdev(name, "")
    };
    let netdevs =
        [on("v", "eth0", "vlan"), on("m", "v", "macvlan"), on("x", "eth0", "vxlan"), on("l", "l", "vlan")];
    assert_eq!(children(&netdevs, "eth0"), ["v", "m"]);
    assert_eq!(children(&netdevs, "l").len(), MOST_LEVELS);
}
