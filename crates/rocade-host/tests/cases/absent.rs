//! No RDMA device: which of hardware, driver, module, namespace and grant is missing.

use super::{Recording, assert_found, assert_none_of};

const NOTHING: &str = "\
part /sys/class
 fail infiniband ENOENT
 fail infiniband_verbs ENOENT
 fail infiniband_mad ENOENT
dir /sys/class/net
dir /sys/bus/pci/devices
netlink rdma-system fail EPROTONOSUPPORT
netlink links
";

fn card(class: &str, vendor: &str, device: &str, driver: Option<&str>) -> String {
    let mut text = NOTHING.replace(
        "dir /sys/bus/pci/devices\n",
        "dir /sys/bus/pci/devices\n link 0000:3b:00.0 ../../../devices/pci0000:3a/0000:3b:00.0\n",
    );
    let driver = driver.map_or_else(String::new, |d| format!(" link driver ../../../bus/pci/drivers/{d}\n"));
    let files = format!(" text class {class}\n text vendor {vendor}\n text device {device}\n{driver}");
    text.push_str(&format!("dir /sys/devices/pci0000:3a/0000:3b:00.0\n{files}"));
    text
}

/// F32: hardware, kernel, device node and grant are separate facts, each told with its place.
#[test]
fn without_hardware_the_reason_is_the_hardware() {
    let report = Recording::small(NOTHING).check();
    assert_found(&report, "RDC101", "host", "no RDMA hardware", "put a card in");
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn hardware_without_a_driver_is_told_by_address_and_id() {
    let report = Recording::small(&card("0x020700", "0x15b3", "0x1021", None)).check();
    assert_found(
        &report,
        "RDC101",
        "host",
        "0000:3b:00.0 15b3:1021 is RDMA hardware without a driver",
        "lspci -k",
    );
}

#[test]
fn a_driver_without_its_rdma_module_is_told_by_the_modules_name() {
    for (driver, module) in [("mlx5_core", "mlx5_ib"), ("ice", "irdma"), ("bnxt_en", "bnxt_re")] {
        let report = Recording::small(&card("0x020000", "0x8086", "0x159b", Some(driver))).check();
        let seen = format!("0000:3b:00.0 ({driver}) has no RDMA device: module {module} is not loaded");
        assert_found(&report, "RDC101", "host", &seen, &format!("modprobe {module}"));
    }
}

/// F21: names of vendors are decoration: nothing here has a pci.ids, and nothing misses it.
#[test]
fn cards_are_told_by_their_ids_without_a_list_of_names() {
    let recording = Recording::of("modules-no-devices");
    assert!(!recording.0.contains("pci.ids"));
    assert_found(
        &recording.check(),
        "RDC101",
        "host",
        "15b3:1017 is RDMA hardware without a driver",
        "load its driver",
    );
}

/// F23: modules that are loaded make no device, and modules that are built in have no directory to be seen by.
#[test]
fn loaded_modules_do_not_stand_for_a_device() {
    let recording = Recording::of("modules-no-devices");
    assert!(recording.0.contains("|ib_uverbs ") && recording.0.contains("|rdma_ucm "));
    assert!(recording.check().findings.iter().any(|finding| finding.code == "RDC101"));
}

#[test]
fn modules_that_are_built_in_are_not_missed() {
    let report = Recording::of("irdma-e810").without_module("ib_uverbs").without_module("ib_core").check();
    assert_none_of(&report, &["RDC101", "RDC102", "RDC103", "RDC204"]);
}

/// F32: /dev/infiniband seen from a container that was granted nothing.
#[test]
fn in_a_pod_without_a_grant_the_grant_is_the_reason() {
    let recording = Recording::of("pod-sriov-exclusive").without(" char uverbs2 ");
    let report = recording.check();
    assert_found(&report, "RDC610", "pod", "mlx5_2 seen in /sys", "resources.limits");
}
