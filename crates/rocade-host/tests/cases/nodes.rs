//! Device nodes and modules that are there in part, and devices that go away.

use rocade_core::{Severity, Usable};

use super::{Recording, assert_found, assert_none_of, is_error, worst_of};

/// F11: Ethernet ports have no issm, and nobody but a subnet manager needs one.
#[test]
fn a_port_without_issm_is_nothing_to_tell() {
    let report = Recording::of("seed-4hca-bond").without(" link issm").without(" char issm").check();
    let told = report.findings.iter().find(|finding| finding.to_string().contains("issm"));
    assert!(told.is_none(), "{told:?}");
    assert_none_of(&report, &["RDC204", "RDC205"]);
}

#[test]
fn an_hca_without_its_verbs_node_is_an_error_with_the_node_to_make() {
    let report = Recording::of("seed-4hca-bond").without(" char uverbs3 ").check();
    let finding = assert_found(&report, "RDC204", "mlx5_3", "/dev/infiniband/uverbs3 missing", "mknod");
    assert!(finding.cure.ends_with("c 231 195"), "{finding}");
    assert_eq!(finding.severity, Severity::Error);
}

/// F12: /dev/infiniband has umad0 and uverbs0, but no rdma_cm.
#[test]
fn a_missing_rdma_cm_is_told_by_its_module_and_spoils_no_hca() {
    let recording = Recording::of("seed-4hca-bond")
        .without(" char rdma_cm ")
        .without(" link rdma_cm ")
        .without_module("rdma_ucm")
        .and("part /sys/class/misc\n fail rdma_cm ENOENT\n");
    let finding =
        assert_found(&recording.check(), "RDC103", "host", "rdma_ucm is not loaded", "modprobe rdma_ucm")
            .clone();
    assert!(finding.cure.contains("only users of rdma_cm"), "{finding}");
    let usable = recording
        .host()
        .hcas
        .iter()
        .flat_map(|hca| hca.ports.clone())
        .filter(|p| p.usable == Usable::Yes)
        .count();
    assert_eq!(usable, 4);
}

/// F13: half-loaded modules leave a subset of an HCA's nodes.
#[test]
fn a_subset_of_an_hcas_nodes_is_told_whole() {
    let report = Recording::of("seed-4hca-bond").without(" char umad3 ").check();
    assert_found(&report, "RDC205", "mlx5_3", "/dev/infiniband/umad3", "modprobe ib_umad");
}

/// F15: one half of a physical port offers verbs, the other subnet management.
#[test]
fn the_two_halves_of_a_split_port_are_told_together() {
    let name = r#""name":"mlx5_3","node_type":1"#;
    let report = Recording::of("seed-4hca-bond").with(name, &format!(r#"{name},"parent":"mlx5_0""#)).check();
    assert_found(&report, "RDC213", "mlx5_0", "shares one physical port with mlx5_3", "grant both");
}

/// F26: a tool dies midway because mlx5_8 is listed and gone.
#[test]
fn an_hca_that_is_listed_and_gone_is_a_finding_and_the_others_keep_theirs() {
    let clean = Recording::of("seed-4hca-bond");
    let report = clean.check();
    let link = " link mlx5_8 ../../devices/pci0000:00/0000:00:09.0/infiniband/mlx5_8\n";
    let device = "dir /sys/devices/pci0000:00/0000:00:09.0\n";
    let heading = "dir /sys/class/infiniband\n";
    let gone = Recording::of("seed-4hca-bond").with(heading, &format!("{device}{heading}{link}")).check();
    let finding = assert_found(&gone, "RDC102", "mlx5_8", "gone", "dmesg");
    assert!(is_error(Some(finding)));
    let rest: Vec<_> = gone.findings.iter().filter(|finding| finding.subject != "mlx5_8").collect();
    assert_eq!(rest, report.findings.iter().collect::<Vec<_>>());
}

#[test]
fn a_port_whose_device_is_being_removed_is_an_error() {
    let report = Recording::of("hot-unplug-race").check();
    assert_found(&report, "RDC203", "mlx5_1/1", "ENODEV", "driver reload");
    assert!(!is_error(worst_of(&report, "mlx5_0/1")));
}

/// F79: the kernel sees the HCA, libibverbs of the image has no provider for it.
#[test]
fn an_image_without_the_provider_is_told_apart_from_a_missing_hca() {
    let providers = "dir /etc/libibverbs.d\n text mlx5.driver driver mlx5\n text rxe.driver driver rxe\n";
    let recording = Recording::of("bnxt-re-thor").without(" skip libibverbs.d").and(providers);
    let report = recording.check();
    let finding =
        assert_found(&report, "RDC110", "bnxt_re0", "libibverbs has mlx5, rxe", "ibverbs-providers");
    assert!(finding.seen.contains("kernel interface version"), "{finding}");
    assert_none_of(&Recording::of("bnxt-re-thor").check(), &["RDC110"]);
}
