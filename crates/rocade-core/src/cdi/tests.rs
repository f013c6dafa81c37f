use super::*;
use crate::host::Accessible;
use crate::host::Port;
use crate::names::PortNum;

fn node(name: &str, accessible: Accessible) -> Option<CharDevice> {
    Some(CharDevice { node: name.into(), major: 231, minor: 192, accessible })
}

fn hca(name: &str, pci: Option<&str>, uverbs: &str) -> Hca {
    let umad = node(&uverbs.replace("uverbs", "umad"), Accessible::Yes);
    Hca {
        pci_address: pci.map(|address| address.parse().unwrap()),
        uverbs: node(uverbs, Accessible::Yes),
        ports: vec![Port { umad, ..Port::new(PortNum(1)) }],
        ..Hca::new(name.parse().unwrap())
    }
}

fn host(hcas: Vec<Hca>) -> Host {
    Host { hcas, rdma_cm: node("rdma_cm", Accessible::Yes), ..Host::default() }
}

fn names(spec: &Spec) -> Vec<&str> {
    spec.devices.iter().map(|device| device.name.as_str()).collect()
}

#[test]
fn a_device_is_named_by_its_place_and_by_the_hca_where_places_do_not_tell() {
    let spec = spec(&host(vec![
        hca("mlx5_0", Some("0000:0c:00.0"), "uverbs0"),
        hca("mlx5_1", Some("0000:1a:00.0"), "uverbs1"),
        hca("mlx5_1_smi", Some("0000:1a:00.0"), "uverbs2"),
        hca("rxe0", None, "uverbs3"),
    ]));
    let wanted = [
        "0000:0c:00.0",
        "0000:0c:00.0.umad",
        "0000:1a:00.0-mlx5_1",
        "0000:1a:00.0-mlx5_1.umad",
        "0000:1a:00.0-mlx5_1_smi",
        "0000:1a:00.0-mlx5_1_smi.umad",
        "rxe0",
        "rxe0.umad",
    ];
    assert_eq!(names(&spec), wanted);
}

#[test]
fn a_name_outlives_a_rename_and_other_numbers_after_a_reboot() {
    let before = host(vec![hca("mlx5_0", Some("0000:0c:00.0"), "uverbs0")]);
    let after = host(vec![hca("ibp12s0", Some("0000:0c:00.0"), "uverbs7")]);
    assert_eq!(names(&spec(&before)), names(&spec(&after)));
    let node = |spec: &Spec| spec.devices[0].container_edits.device_nodes[0].path.clone();
    assert_eq!(node(&spec(&before)), "/dev/infiniband/uverbs0");
    assert_eq!(node(&spec(&after)), "/dev/infiniband/uverbs7");
}

#[test]
fn the_version_is_the_lowest_that_has_the_names() {
    assert_eq!(spec(&host(vec![hca("rxe0", None, "uverbs0")])).cdi_version, "0.3.0");
    assert_eq!(spec(&host(vec![hca("mlx5_0", Some("0000:0c:00.0"), "uverbs0")])).cdi_version, "0.5.0");
}

#[test]
fn a_node_that_is_not_there_is_in_no_device_and_costs_no_other_one() {
    let mut host = host(vec![hca("rxe0", None, "uverbs0"), hca("rxe1", None, "uverbs1")]);
    host.hcas[0].uverbs = node("uverbs0", Accessible::Missing);
    host.rdma_cm = None;
    let spec = spec(&host);
    assert_eq!(names(&spec), ["rxe0.umad", "rxe1", "rxe1.umad"]);
    let json = serde_json::to_value(&spec).unwrap();
    assert!(json.get("containerEdits").is_none(), "{json}");
}

#[test]
fn names_that_the_kernel_allows_become_names_that_cdi_allows_and_stay_apart() {
    assert_eq!(allowed("mlx5_bond.0-a"), "mlx5_bond.0-a");
    assert_eq!(allowed("-a b-"), "x2dax20bx2d");
    assert_ne!(allowed("a b"), allowed("a_b"));
}

#[test]
fn a_grant_is_split_into_names_and_nodes_that_no_name_brings() {
    let host = host(vec![
        hca("mlx5_0", Some("0000:0c:00.0"), "uverbs0"),
        hca("mlx5_1", Some("0000:1a:00.0"), "uverbs1"),
    ]);
    let spec = spec(&host);
    let split = |nodes: &[&str]| {
        spec.split(&nodes.iter().map(|node| format!("/dev/infiniband/{node}")).collect::<Vec<_>>())
    };
    let verbs = split(&["uverbs1", "rdma_cm"]);
    assert_eq!(verbs.names, ["rocade.dev/hca=0000:1a:00.0"]);
    assert_eq!(verbs.nodes, Vec::<String>::new());
    assert_eq!(
        split(&["uverbs0", "umad0"]).names,
        ["rocade.dev/hca=0000:0c:00.0", "rocade.dev/hca=0000:0c:00.0.umad"]
    );
    let other = split(&["uverbs9", "rdma_cm"]);
    assert_eq!((other.names.len(), other.nodes.len()), (0, 2));
}
