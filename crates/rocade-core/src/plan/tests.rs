//! Who is in a pool, who is out and why, and what its containers get: on small hosts made here. Recorded hosts are
//! compared with the k8s-rdma-shared-dev-plugin in the agent's tests.

use proptest::prelude::*;

use super::*;
use crate::config::{CharDevices, Selectors, Slots};
use crate::host::{Accessible, LinkLayer, Netdev, Parent, Port, Transport, Usable};
use crate::names::{Guid, PciId};

mod reasons;
mod sharing;

fn char_device(node: String) -> CharDevice {
    CharDevice { node, major: 231, minor: 0, accessible: Accessible::Yes }
}

fn hca(n: u32, netdev: &str) -> Hca {
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        state: Some("ACTIVE".into()),
        phys_state: Some("LinkUp".into()),
        rate_gbps: Some(100.0),
        netdev: Some(netdev.into()),
        gid_table_len: Some(255),
        umad: Some(char_device(format!("umad{n}"))),
        issm: Some(char_device(format!("issm{n}"))),
        usable: Usable::Yes,
        reason: String::new(),
        ..Port::new(PortNum(1))
    };
    Hca {
        pci_address: Some(format!("0000:0{n}:00.0").parse().unwrap()),
        parent: Parent::Pci,
        pci_id: Some(PciId { vendor: 0x15b3, device: 0x1021 }),
        driver: Some("mlx5_core".into()),
        node_guid: Some(Guid(u64::from(n) + 1)),
        sys_image_guid: Some(Guid(u64::from(n) + 1)),
        node_type: Some(1),
        parent_netdevs: vec![netdev.into()],
        uverbs: Some(char_device(format!("uverbs{n}"))),
        ports: vec![port],
        ..Hca::new(format!("mlx5_{n}").parse().unwrap())
    }
}

fn rxe(n: u32, netdev: &str) -> Hca {
    let virtual_device = hca(n, netdev);
    Hca {
        name: format!("rxe{n}").parse().unwrap(),
        parent: Parent::None,
        software: true,
        pci_address: None,
        pci_id: None,
        driver: None,
        parent_netdevs: Vec::new(),
        ..virtual_device
    }
}

fn netdev(name: &str) -> Netdev {
    Netdev { name: name.into(), ifindex: 1, mtu: 1500, link_type: 1, up: true, ..Netdev::default() }
}

fn host(hcas: Vec<Hca>, netdevs: Vec<Netdev>) -> Host {
    Host {
        rdma_core: Some(true),
        netns_mode: Some(NetnsMode::Shared),
        hcas,
        netdevs,
        rdma_cm: Some(char_device("rdma_cm".into())),
        ..Host::default()
    }
}

fn pool(host: &Host, selectors: Selectors) -> Pool {
    let resource = Resource::of_config_json("rdma/hca_a".parse().unwrap(), 100, selectors);
    let config = Config::of_config_json(None, vec![resource]);
    plan(host, &config).remove(0)
}

/// Of `kind: AgentConfig`: 100 tokens worth every HCA, but for what the function changes.
fn agent_config(change: impl FnOnce(&mut Resource)) -> Config {
    let mut resource = Resource {
        char_devices: CharDevices::default(),
        health: Health::WITHHOLD,
        sharing: Sharing::Tokens(Slots::Fixed(100)),
        ..Resource::of_config_json("rdma/hca_a".parse().unwrap(), 0, Selectors::default())
    };
    change(&mut resource);
    Config { dialect: Dialect::AgentConfig, ..Config::of_config_json(None, vec![resource]) }
}

fn agent_pool(host: &Host, change: impl FnOnce(&mut Resource)) -> Pool {
    plan(host, &agent_config(change)).remove(0)
}

fn by_name(names: &[&str]) -> Selectors {
    Selectors { if_names: names.iter().map(|n| (*n).to_owned()).collect(), ..Selectors::default() }
}

fn members(pool: &Pool) -> Vec<&str> {
    pool.members.iter().map(|m| m.hca.as_str()).collect()
}

fn why_out<'p>(pool: &'p Pool, hca: &str) -> &'p Reason {
    &pool.left_out.iter().find(|out| out.hca.as_str() == hca).expect("it is left out").reason
}

#[test]
fn a_pool_grants_every_node_of_its_hcas_once_and_rdma_cm() {
    let host = host(vec![hca(0, "eth1"), hca(1, "eth2")], vec![netdev("eth1"), netdev("eth2")]);
    let grant = pool(&host, by_name(&["eth1", "eth2"])).grant(&["0"]).unwrap();
    let names: Vec<_> = grant.nodes.iter().map(|n| n.strip_prefix("/dev/infiniband/").unwrap()).collect();
    assert_eq!(names, ["issm0", "umad0", "uverbs0", "issm1", "umad1", "uverbs1", "rdma_cm"]);
    assert_eq!(grant.variables, [("ROCADE_GRANT_RDMA_HCA_A".into(), "mlx5_0:1,mlx5_1:1".into())]);
}

#[test]
fn device_ids_are_0_to_n_minus_1_and_none_without_an_hca() {
    let host = host(vec![hca(0, "eth1")], vec![netdev("eth1")]);
    let full = pool(&host, by_name(&["eth1"]));
    assert!(full.has_id("0") && full.has_id("99"));
    for id in ["100", "-1", "+1", "01", "", "a"] {
        assert!(!full.has_id(id), "{id}");
    }
    let empty = pool(&host, by_name(&["eth7"]));
    assert_eq!((empty.slots, empty.has_id("0")), (0, false));
}

#[test]
fn the_first_selector_that_failed_says_what_it_saw() {
    let host = host(vec![hca(0, "eth1")], vec![netdev("eth1")]);
    let selectors =
        Selectors { vendors: vec!["15b3".into()], drivers: vec!["ice".into()], ..by_name(&["eth9"]) };
    let pool = pool(&host, selectors);
    assert_eq!(why_out(&pool, "mlx5_0").to_string(), "drivers wants ice, it has mlx5_core");
}

#[test]
fn a_dead_port_stays_offered() {
    let mut dead = hca(0, "eth1");
    dead.ports[0].state = Some("DOWN".into());
    assert_eq!(members(&pool(&host(vec![dead], vec![netdev("eth1")]), by_name(&["eth1"]))), ["mlx5_0"]);
}

#[test]
fn an_hca_without_pci_is_found_by_its_interface() {
    let host = host(vec![rxe(1, "eth1"), rxe(2, "eth2")], vec![netdev("eth1"), netdev("eth2")]);
    assert_eq!(members(&pool(&host, by_name(&["eth1"]))), ["rxe1"]);
    let ether = Selectors { link_types: vec!["ether".into()], ..Selectors::default() };
    assert_eq!(members(&pool(&host, ether)), ["rxe1", "rxe2"]);
}

#[test]
fn a_bond_its_members_and_its_vlans_mean_the_hca_below() {
    let mut lag = hca(0, "ens1");
    lag.ports[0].netdev = Some("bond0".into());
    let member = |name| Netdev { master: Some("bond0".into()), ..netdev(name) };
    let bond = Netdev { kind: Some("bond".into()), ..netdev("bond0") };
    let vlan = Netdev { kind: Some("vlan".into()), parent: Some("bond0".into()), ..netdev("bond0.40") };
    let macvlan = Netdev { kind: Some("macvlan".into()), parent: Some("bond0.40".into()), ..netdev("mv0") };
    let vxlan = Netdev { kind: Some("vxlan".into()), parent: Some("bond0".into()), ..netdev("vx0") };
    let host = host(vec![lag], vec![member("ens1"), member("ens2"), bond, vlan, macvlan, vxlan]);
    for name in ["ens1", "ens2", "bond0", "bond0.40", "mv0"] {
        assert_eq!(members(&pool(&host, by_name(&[name]))), ["mlx5_0"], "{name}");
    }
    assert!(members(&pool(&host, by_name(&["vx0"]))).is_empty());
}

#[test]
fn a_member_of_a_bond_over_two_cards_means_its_own_hca_only() {
    let (mut a, mut b) = (hca(0, "ens1"), hca(1, "ens2"));
    a.ports[0].netdev = Some("bond0".into());
    b.ports[0].netdev = Some("bond0".into());
    let member = |name| Netdev { master: Some("bond0".into()), ..netdev(name) };
    let bond = Netdev { kind: Some("bond".into()), ..netdev("bond0") };
    let host = host(vec![a, b], vec![member("ens1"), member("ens2"), bond]);
    assert_eq!(members(&pool(&host, by_name(&["ens1"]))), ["mlx5_0"]);
    assert_eq!(members(&pool(&host, by_name(&["ens2"]))), ["mlx5_1"]);
    assert_eq!(members(&pool(&host, by_name(&["bond0"]))), ["mlx5_0", "mlx5_1"]);
}

#[test]
fn the_named_port_of_two_is_the_one_granted() {
    let mut two = hca(0, "ib0");
    let second = Port { port: PortNum(2), netdev: Some("ib1".into()), ..two.ports[0].clone() };
    two.ports.push(second);
    two.parent_netdevs = vec!["ib0".into(), "ib1".into()];
    let host = host(vec![two], vec![netdev("ib0"), netdev("ib1")]);
    assert_eq!(pool(&host, by_name(&["ib1"])).ports_text(), "mlx5_0:2");
    let vendor = Selectors { vendors: vec!["15b3".into()], ..Selectors::default() };
    assert_eq!(pool(&host, vendor).ports_text(), "mlx5_0:1,mlx5_0:2");
}

#[test]
fn a_missing_node_costs_only_those_who_need_it() {
    let gone = |node: &str| CharDevice { accessible: Accessible::Missing, ..char_device(node.into()) };
    let mut no_umad = hca(0, "eth1");
    no_umad.ports[0].umad = Some(gone("umad0"));
    let mut no_uverbs = hca(1, "eth1");
    no_uverbs.uverbs = Some(gone("uverbs1"));
    let mut host = host(vec![no_umad, no_uverbs], vec![netdev("eth1")]);
    host.rdma_cm = Some(gone("rdma_cm"));
    let pool = pool(&host, by_name(&["eth1"]));
    assert_eq!(pool.grant(&["7"]).unwrap().nodes, ["/dev/infiniband/issm0", "/dev/infiniband/uverbs0"]);
    assert_eq!(*why_out(&pool, "mlx5_1"), Reason::NoNode("/dev/infiniband/uverbs1".into()));
}

#[test]
fn what_cannot_do_rdma_for_a_pod_is_left_out_with_the_reason() {
    let mut iwarp = hca(0, "eth1");
    iwarp.ports[0].transport = Transport::Iwarp;
    let mut switch = hca(1, "eth1");
    switch.ports[0].gid_table_len = Some(0);
    let mut leaving = hca(2, "eth1");
    leaving.driver = None;
    let host = host(vec![iwarp, switch, leaving, rxe(3, "eth2"), hca(4, "eth2")], vec![netdev("eth1")]);
    let found = pool(&host, by_name(&["eth1", "eth2"]));
    assert_eq!(members(&found), ["mlx5_4"]);
    assert_eq!(*why_out(&found, "mlx5_0"), Reason::Transport(Transport::Iwarp));
    assert_eq!(*why_out(&found, "mlx5_1"), Reason::NoGidTable);
    assert_eq!(*why_out(&found, "mlx5_2"), Reason::NoDriver);
    assert_eq!(*why_out(&found, "rxe3"), Reason::SoftwareOn("mlx5_4".parse().unwrap()));
}

#[test]
fn an_ethernet_port_whose_interface_is_elsewhere_has_no_link_type() {
    let mut moved = hca(0, "eth1");
    moved.ports[0].netdev = None;
    moved.parent_netdevs.clear();
    let ether = Selectors { link_types: vec!["ether".into()], ..Selectors::default() };
    let pool = pool(&host(vec![moved], Vec::new()), ether);
    assert_eq!(why_out(&pool, "mlx5_0").to_string(), "linkTypes wants ether, it has none");
}

#[test]
fn a_blank_entry_of_config_json_means_hcas_without_an_interface_as_that_plugin_has_it() {
    let mut without = hca(0, "ib0");
    without.ports[0].netdev = None;
    without.ports[0].link_layer = LinkLayer::InfiniBand;
    without.parent_netdevs.clear();
    let host = host(vec![without, hca(1, "eth1")], vec![netdev("eth1")]);
    assert_eq!(members(&pool(&host, by_name(&[""]))), ["mlx5_0"]);
    assert_eq!(members(&pool(&host, by_name(&["", "eth1"]))), ["mlx5_0", "mlx5_1"]);
    let blank = Selectors { link_types: vec![String::new()], ..Selectors::default() };
    assert_eq!(members(&pool(&host, blank)), ["mlx5_0"]);
}

proptest! {
    #[test]
    fn every_hca_is_in_or_out_of_every_pool_once(names in prop::collection::vec(0..4_u32, 0..5), asked in 0..4_u32) {
        let hcas: Vec<_> = names.iter().enumerate().map(|(i, n)| hca(i as u32, &format!("eth{n}"))).collect();
        let host = host(hcas, Vec::new());
        let pool = pool(&host, by_name(&[&format!("eth{asked}")]));
        let mut all: Vec<_> = pool.members.iter().map(|m| &m.hca).chain(pool.left_out.iter().map(|o| &o.hca)).collect();
        all.sort();
        prop_assert_eq!(all, host.hcas.iter().map(|h| &h.name).collect::<Vec<_>>());
        let mut nodes = pool.grant(if pool.slots == 0 { &[] } else { &["0"] }).unwrap().nodes;
        let count = nodes.len();
        nodes.sort();
        nodes.dedup();
        prop_assert_eq!(nodes.len(), count);
        prop_assert_eq!(pool.slots > 0, names.contains(&asked));
    }
}
