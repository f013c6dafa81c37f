//! Settings of kernel and host.

use rocade_core::Severity;

use super::{Recording, assert_found, assert_none_of};

/// F55: with exclusive namespaces a shared pool works for nobody.
#[test]
fn exclusive_namespaces_are_told_with_the_command_that_shares_them() {
    let report = Recording::of("seed-4hca-bond").with(r#"{"netns_mode":1}"#, r#"{"netns_mode":0}"#).check();
    let finding = assert_found(&report, "RDC104", "host", "exclusive", "rdma system set netns shared");
    assert!(finding.cure.contains("ib_core netns_mode=1"), "{finding}");
}

/// F56: the mode that was set at run time is lost at the next boot.
#[test]
fn a_mode_that_the_next_boot_loses_is_told_with_its_file() {
    let options = "dir /etc/modprobe.d\n text ib_core.conf options ib_core netns_mode=0\n";
    let recording = Recording::of("seed-4hca-bond").without(" skip modprobe.d").and(options);
    let report = recording.check();
    let seen = "running shared, /etc/modprobe.d/ib_core.conf says exclusive";
    assert_found(&report, "RDC105", "host", seen, "options ib_core netns_mode=1");
    let same = recording.with("netns_mode=0", "netns_mode=1").check();
    assert_none_of(&same, &["RDC105"]);
}

/// F63: several RoCE interfaces: wrong egress, ARP answered by the wrong one.
#[test]
fn rails_that_answer_for_each_other_are_told_with_the_settings_to_make() {
    let report = Recording::of("roce-8rail-misconfigured").check();
    assert_found(&report, "RDC320", "host", "rp_filter 1 (strict) on 8 of 8 rails", "rp_filter=2");
    let finding = assert_found(
        &report,
        "RDC321",
        "enp20s0np0, enp22s0np0",
        "arp_ignore 0, arp_announce 0",
        "ip rule add from",
    );
    assert!(finding.cure.contains("arp_announce 2"), "{finding}");
    assert_found(&report, "RDC306", "enp20s0np0, enp22s0np0", "10.50.0.11", "address of its own");
}

/// F65: reloading the driver takes the node's network and disks with it.
#[test]
fn a_default_route_over_an_hcas_driver_and_storage_users_are_told_before_a_reload() {
    let report = Recording::of("gpu-no-peermem").with_module("nvme_rdma").check();
    let finding = assert_found(
        &report,
        "RDC109",
        "host",
        "the default route goes over enp18s0np0 (mlx5_core)",
        "do not reload",
    );
    assert!(finding.seen.contains("loaded: nvme_rdma"), "{finding}");
    assert_found(&report, "RDC322", "enp18s0np0", "default route", "management interface");
}

/// F93: nvidia_peermem is loaded, and GPUDirect is off all the same: ACS and IOMMU have findings of their own.
#[test]
fn a_loaded_peermem_does_not_hide_what_breaks_the_path() {
    let report = Recording::of("gpu-no-peermem").with_module("nvidia_peermem").check();
    assert_none_of(&report, &["RDC120"]);
    assert_found(&report, "RDC406", "host", "DMA-FQ", "iommu=pt");
    assert!(
        report.findings.iter().any(|finding| finding.code == "RDC405" && finding.cure.contains("ECAP_ACS"))
    );
    let without = Recording::of("gpu-no-peermem").check();
    assert_found(&without, "RDC120", "host", "nvidia_peermem not loaded", "modprobe nvidia_peermem");
}

/// F98: NUMA nodes are wrong or missing; the PCIe root is what can be trusted.
#[test]
fn numa_nodes_that_contradict_pcie_roots_are_told_with_the_root_to_go_by() {
    let recording = Recording::of("roce-8rail-misconfigured");
    let function = "0000:12:00.0/0000:14:00.0";
    let unknown = recording.within(function, "text numa_node 0", "text numa_node -1").check();
    assert_found(&unknown, "RDC407", "mlx5_0", "PCIe root pci0000:10", "by PCIe root");
    let other = Recording::of("roce-8rail-misconfigured")
        .within(function, "text numa_node 0", "text numa_node 3")
        .check();
    let finding = assert_found(&other, "RDC408", "mlx5_0", "node 3", "align by PCIe root");
    assert_eq!(finding.severity, Severity::Note);
}
