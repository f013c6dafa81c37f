//! One file for hosts that are alike, sections for those that are not. Recorded hosts are the door's tests.

use super::*;
use crate::host::{Accessible, CharDevice, Role, Transport};
use crate::names::PortNum;

fn hca(n: u8, netdev: &str, kind: RoleKind) -> Hca {
    let device = |node: String| CharDevice { node, major: 231, minor: 0, accessible: Accessible::Yes };
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        state: Some("ACTIVE".into()),
        netdev: Some(netdev.into()),
        gid_table_len: Some(255),
        ..Port::new(PortNum(1))
    };
    Hca {
        pci_address: Some(format!("0000:0{n}:00.0").parse().unwrap()),
        function: Some(FunctionKind::Pf),
        driver: Some("mlx5_core".into()),
        uverbs: Some(device(format!("uverbs{n}"))),
        role: Role { kind, ground: "for the test".into() },
        ports: vec![port],
        ..Hca::new(format!("mlx5_{n}").parse().unwrap())
    }
}

fn host(name: Option<&str>, hcas: Vec<Hca>) -> Host {
    Host { hostname: name.map(str::to_owned), hcas, ..Host::default() }
}

fn names(resources: &[Resource]) -> Vec<&str> {
    resources.iter().map(|resource| resource.name.name()).collect()
}

use RoleKind::{Fabric, Management, Storage};

#[test]
fn alike_hosts_share_one_file_and_unlike_ones_have_sections_beside_what_is_common() {
    let a = |name| host(name, vec![hca(0, "ens1np0", Fabric), hca(1, "ens2np0", Storage)]);
    let b = host(Some("b"), vec![hca(0, "ens1np0", Fabric), hca(1, "ens2np0", Fabric)]);
    let alike = generate(&[a(None), a(None)]).unwrap();
    assert_eq!((names(&alike.config.resources), alike.sections.len()), (vec!["hca_ens1"], 0));
    let unlike = generate(&[a(Some("a")), b.clone(), a(Some("c"))]).unwrap();
    assert_eq!(names(&unlike.config.resources), ["hca_ens1"]);
    let [(nodes, resources)] = &unlike.sections[..] else { panic!("{:?}", unlike.sections) };
    assert_eq!((nodes, names(resources)), (&vec!["b".to_owned()], vec!["hca_ens2"]));
    assert_eq!(generate(&[a(None), Host { hostname: None, ..b }]).unwrap_err(), NoConfig::NoName);
}

#[test]
fn rails_are_in_the_order_in_which_people_count() {
    let hcas = ["ibp154s0", "ibp24s0", "ibp64s0"].iter().zip(0..).map(|(netdev, n)| hca(n, netdev, Fabric));
    let generated = generate(&[host(None, hcas.collect())]).unwrap();
    assert_eq!(names(&generated.config.resources), ["hca_ibp24s0", "hca_ibp64s0", "hca_ibp154s0"]);
}

#[test]
fn ports_that_would_be_called_alike_are_told_apart_and_no_rail_is_an_error_that_says_why() {
    let mut same = vec![hca(0, "ens1np0", Fabric), hca(1, "ens1np1", Fabric)];
    let two = generate(&[host(None, same.clone())]).unwrap();
    assert_eq!(names(&two.config.resources), ["hca_ens1_mlx5_0", "hca_ens1_mlx5_1"]);
    same.iter_mut().for_each(|hca| hca.role.kind = Management);
    let refused = generate(&[host(None, same)]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "no HCA here is a rail of a compute fabric; mlx5_0: management: for the test; mlx5_1: management: for the test"
    );
}

#[test]
fn a_function_is_left_to_its_card_and_offered_where_the_card_is_not() {
    let mut card = hca(0, "ens1", Fabric);
    let part = Hca {
        function: Some(FunctionKind::Vf),
        physical_function: card.pci_address,
        ..hca(1, "ens1v0", Fabric)
    };
    let of = |card: &Hca| generate(&[host(None, vec![card.clone(), part.clone()])]).unwrap();
    assert_eq!(names(&of(&card).config.resources), ["hca_ens1"]);
    assert_eq!(of(&card).left_out[0].why, "a function of mlx5_0, which is offered whole");
    card.ports[0].gid_table_len = Some(0);
    assert_eq!(names(&of(&card).config.resources), ["hca_ens1v0"]);
}
