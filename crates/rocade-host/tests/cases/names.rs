//! Names say nothing: HCAs of any vendor and any name, several ports or netdevs on one function, bonds.

use rocade_core::Usable;

use super::{Recording, assert_found, assert_none_of};

/// F22: nodes with an E810 are RDMA nodes, whatever its vendor.
#[test]
fn an_hca_of_any_vendor_counts() {
    let recording = Recording::of("irdma-e810");
    assert_none_of(
        &recording.check_against("  - select: {vendors: ['8086'], transports: [roce]}\n    count: 2\n"),
        &["RDC250"],
    );
    let host = recording.host();
    assert!(host.hcas.iter().all(|hca| hca.pci_id.is_some_and(|id| id.vendor == 0x8086)));
}

/// F30: HCAs are not always mlx5_N, and can be renamed.
#[test]
fn another_name_changes_nothing_but_the_name() {
    let text = |name: &str| {
        let renamed = Recording::of("gpu-no-peermem").with("mlx5_1", name);
        let findings = renamed.check().findings;
        let lines: Vec<String> =
            findings.iter().map(|finding| finding.to_string().replace(name, "X")).collect();
        let mut lines: Vec<String> = lines.into_iter().map(|line| sorted_words(&line)).collect();
        lines.sort();
        lines
    };
    for name in ["ibp26s0", "rocep1s0f1", "irdma0"] {
        assert_eq!(text(name), text("mlx5_1"), "{name}");
    }
}

/// The order of names in a list follows the names.
fn sorted_words(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

/// F31: eRDMA is of PCI class 0x00ff, and an RDMA device all the same.
#[test]
fn an_hca_of_an_unknown_pci_class_is_found() {
    let function = "pci0000:00/0000:00:0b.0";
    let recording =
        Recording::of("erdma-alibaba").within(function, "text class 0x020000", "text class 0x00ff00");
    assert_none_of(&recording.check(), &["RDC101"]);
    assert_eq!(recording.host().hcas.len(), 2);
}

/// F17: one function with two netdevs: the second port is judged by its own.
#[test]
fn the_second_port_of_a_function_is_judged_by_its_own_netdev() {
    let recording = Recording::of("mlx4-dual-ib-eth");
    let host = recording.host();
    let ports = &host.hcas[0].ports;
    assert_ne!(ports[0].netdev, ports[1].netdev);
    let report = recording.check();
    let netdev = ports[1].netdev.as_deref().unwrap();
    let up = host.netdev(netdev).unwrap().up;
    let cure = if up { "switch port" } else { netdev };
    assert_found(&report, "RDC201", "mlx4_0/2", "DOWN", if up { "" } else { cure });
    assert!(!report.findings.iter().any(|f| f.code == "RDC201" && f.subject == "mlx4_0/1"));
    assert_ne!(ports[0].usable, Usable::No);
}

/// F18: the bond has no PCI parent, and the RDMA device sits on one member's function.
#[test]
fn a_bond_and_its_hca_are_told_as_one() {
    let report = Recording::of("seed-4hca-bond").check();
    assert_found(
        &report,
        "RDC214",
        "mlx5_bond_0",
        "bond0 = mlx5_bond_0 (LAG of ens67f0np0, ens67f1np1)",
        "name the bond",
    );
}

#[test]
fn a_bond_that_lost_a_member_names_it() {
    let report = Recording::of("roce-lag-multi-vxlan").check();
    assert_found(&report, "RDC207", "mlx5_bond_2", "1 of 2 members", "named member");
}
