//! Roles on small hosts made here; recorded hosts have theirs in the reader's tests.

use super::*;
use crate::host::{Accelerator, Netdev, RemoteStorage};
use crate::names::PortNum;

fn hca(name: &str, bus: u8, rate: f64, link_layer: LinkLayer) -> Hca {
    let port = Port {
        transport: if link_layer == LinkLayer::InfiniBand { Transport::Infiniband } else { Transport::Roce },
        link_layer,
        state: Some("ACTIVE".into()),
        rate_gbps: Some(rate),
        netdev: Some(format!("n{bus}")),
        ..Port::new(PortNum(1))
    };
    Hca {
        pci_address: format!("0000:{bus:02x}:00.0").parse().ok(),
        function: Some(FunctionKind::Pf),
        hca_type: Some("MT4129".into()),
        switch_management: Some(false),
        ports: vec![port],
        ..Hca::new(name.parse().unwrap())
    }
}

fn rails(count: u8) -> Vec<Hca> {
    (0..count).map(|n| hca(&format!("mlx5_{n}"), n, 400.0, LinkLayer::InfiniBand)).collect()
}

fn judged(mut host: Host) -> Vec<(RoleKind, String)> {
    judge(&mut host);
    host.hcas.into_iter().map(|hca| (hca.role.kind, hca.role.ground)).collect()
}

fn kinds(host: Host) -> Vec<RoleKind> {
    judged(host).into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn the_largest_equal_group_is_the_fabric_and_what_is_unlike_it_is_storage() {
    let mut hcas = rails(4);
    hcas.push(hca("mlx5_4", 4, 200.0, LinkLayer::Ethernet));
    let roles = judged(Host { hcas, ..Host::default() });
    assert_eq!(roles[0], (RoleKind::Fabric, "one of 4 alike: 400 Gb/s InfiniBand MT4129".into()));
    assert_eq!(roles[4].0, RoleKind::Storage);
    assert!(roles[4].1.contains("unlike the 4 of 400 Gb/s InfiniBand MT4129"), "{}", roles[4].1);
}

#[test]
fn an_unlike_card_with_an_accelerator_below_its_switch_is_fabric() {
    let mut hcas = rails(2);
    hcas.push(hca("mlx5_2", 2, 200.0, LinkLayer::InfiniBand));
    let accelerator = Accelerator {
        pci_address: "0000:09:00.0".parse().unwrap(),
        pci_id: None,
        class: 0x0302,
        driver: None,
        numa_node: None,
        pci_root: None,
        pci_path: Vec::new(),
        iommu: None,
        distances: [("mlx5_2".to_owned(), Distance::Pix)].into(),
        unknown: Default::default(),
    };
    let host = Host { hcas, accelerators: vec![accelerator], ..Host::default() };
    assert_eq!(kinds(host), [RoleKind::Fabric; 3]);
}

#[test]
fn the_default_route_and_the_way_to_the_api_server_make_management() {
    let host = Host { hcas: rails(3), default_route_netdev: Some("n1".into()), ..Host::default() };
    assert_eq!(kinds(host), [RoleKind::Fabric, RoleKind::Management, RoleKind::Fabric]);
    let netdev =
        Netdev { name: "n2".into(), addresses: vec![("10.0.0.2".parse().unwrap(), 24)], ..Netdev::default() };
    let route = Route {
        table: 254,
        kind: "unicast".into(),
        destination: ("10.0.0.0".parse().unwrap(), 24),
        gateway: None,
        netdev: Some("n2".into()),
        metric: None,
        source: None,
    };
    let host = Host {
        hcas: rails(3),
        netdevs: vec![netdev],
        routes: vec![route],
        api_server: Some("10.0.0.99".into()),
        ..Host::default()
    };
    let roles = judged(host);
    assert_eq!(roles[2], (RoleKind::Management, "n2 leads to the API server at 10.0.0.99".into()));
}

#[test]
fn a_mount_over_its_address_makes_a_rail_storage() {
    let netdev =
        Netdev { name: "n1".into(), addresses: vec![("10.1.0.1".parse().unwrap(), 24)], ..Netdev::default() };
    let mount = RemoteStorage {
        kind: "nfs4".into(),
        name: "/data".into(),
        transport: Some("rdma".into()),
        server: None,
        client: Some("10.1.0.1".parse().unwrap()),
    };
    let host = Host { hcas: rails(3), netdevs: vec![netdev], remote_storage: vec![mount], ..Host::default() };
    assert_eq!(judged(host)[1], (RoleKind::Storage, "nfs4 /data goes over it".into()));
}

#[test]
fn bridges_are_told_by_vital_product_data_and_unknown_without_it() {
    let mut hcas = rails(3);
    hcas[2].switch_management = Some(true);
    assert_eq!(kinds(Host { hcas, ..Host::default() })[2], RoleKind::Bridge);

    let mut hcas = rails(4);
    for hca in &mut hcas {
        hca.switch_management = None;
    }
    hcas[2].pci_address = "0000:5f:00.0".parse().ok();
    hcas[3].pci_address = "0000:5f:00.1".parse().ok();
    let gpu = Accelerator {
        pci_address: "0000:09:00.0".parse().unwrap(),
        pci_id: None,
        class: 0x0302,
        driver: None,
        numa_node: None,
        pci_root: None,
        pci_path: Vec::new(),
        iommu: None,
        distances: Default::default(),
        unknown: Default::default(),
    };
    let kinds = kinds(Host { hcas, accelerators: vec![gpu], ..Host::default() });
    assert_eq!(kinds, [RoleKind::Fabric, RoleKind::Fabric, RoleKind::Unknown, RoleKind::Unknown]);
}

#[test]
fn what_is_not_up_is_down_and_a_vf_is_as_its_card() {
    let mut hcas = rails(3);
    hcas[1].ports[0].state = Some("DOWN".into());
    let vf = Hca {
        physical_function: hcas[0].pci_address,
        function: Some(FunctionKind::Vf),
        ..hca("vf", 9, 25.0, LinkLayer::InfiniBand)
    };
    hcas.push(vf);
    let roles = judged(Host { hcas, ..Host::default() });
    assert_eq!(roles[1], (RoleKind::Down, "port 1 DOWN".into()));
    assert_eq!(roles[3].0, RoleKind::Fabric);
    assert!(roles[3].1.starts_with("as its card mlx5_0"), "{}", roles[3].1);
}

#[test]
fn software_beside_cards_has_no_role_of_its_own_and_alone_it_has() {
    let soft = |n: u8| Hca {
        software: true,
        pci_address: None,
        ..hca(&format!("rxe{n}"), n, 2.5, LinkLayer::Ethernet)
    };
    let host = Host { hcas: vec![rails(1).remove(0), soft(7)], ..Host::default() };
    assert_eq!(kinds(host), [RoleKind::Fabric, RoleKind::Unknown]);
    assert_eq!(kinds(Host { hcas: vec![soft(1), soft(2)], ..Host::default() }), [RoleKind::Fabric; 2]);
}

#[test]
fn two_unlike_cards_tell_nothing() {
    let hcas = vec![hca("a", 0, 400.0, LinkLayer::InfiniBand), hca("b", 1, 100.0, LinkLayer::Ethernet)];
    assert_eq!(kinds(Host { hcas, ..Host::default() }), [RoleKind::Unknown; 2]);
}
