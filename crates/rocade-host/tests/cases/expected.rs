//! Expectations of a policy: what is missing is named, and what finds nothing fails.

use rocade_core::Severity;

use super::{Recording, assert_found, assert_none_of};

/// F03: bus numbers for device IDs, an auxiliary driver for the PCI driver, and `ethernet` for a transport.
#[test]
fn a_selection_that_means_nothing_says_for_each_key_what_there_is() {
    let policy = "  - select: {vendors: ['8086'], deviceIDs: ['0d00', b500, a000], drivers: [irdma]}\n";
    let report = Recording::of("irdma-e810").check_against(policy);
    let finding =
        assert_found(&report, "RDC250", "group rails", "no port is meant", "correct count and select");
    for words in [
        "vendors 8086: 4 of 4 ports fit",
        "deviceIDs 0d00, b500, a000: 0 of 4 ports fit, there is",
        "drivers irdma: 0 of 4 ports fit, there is ice",
    ] {
        assert!(finding.seen.contains(words), "{words} is not in {finding}");
    }
    assert_eq!(finding.severity, Severity::Error);
}

/// F05: an interface that is not there, or has no RDMA device.
#[test]
fn an_interface_that_is_not_there_is_told_with_those_that_are() {
    let report = Recording::of("seed-4hca-bond").check_against("  - select: {netdevs: [ens3]}\n");
    let finding = assert_found(&report, "RDC250", "group rails", "netdevs ens3: 0 of 4 ports fit", "");
    assert!(finding.seen.contains("bond0, ens18np0, ens20np0, ens21np0"), "{finding}");
}

const EIGHT: &str = "  - select: {transports: [infiniband]}\n    count: 8\n    rateGbps: 400\n";

/// F25: eight rails beside storage ports that are slower: those do not count, and a failing rail is named.
#[test]
fn rails_are_counted_without_the_storage_ports_and_a_failing_one_is_named() {
    let rails = "  - count: 8\n    rateGbps: 400\n";
    let recording = Recording::of("dgx-h100");
    assert_none_of(&recording.check_against(rails), &["RDC250", "RDC251"]);
    let down = recording
        .within("infiniband/mlx5_3/ports/1", "text state 4: ACTIVE", "text state 1: DOWN")
        .within("infiniband/mlx5_3/ports/1", "text phys_state 5: LinkUp", "text phys_state 2: Polling");
    let report = down.check_against(rails);
    let finding = assert_found(&report, "RDC250", "group rails", "mlx5_3/1: port DOWN", "rocade inventory");
    assert!(finding.seen.starts_with("7 usable"), "{finding}");
    // Most of its like are up: that alone is an error as well.
    assert_eq!(
        assert_found(&report, "RDC201", "mlx5_3/1", "DOWN, Polling", "cable").severity,
        Severity::Error
    );
}

#[test]
fn a_host_where_nothing_is_found_fails_its_expectation() {
    for kind in ["no-rdma", "modules-no-devices", "irdma-e810"] {
        let report = Recording::of(kind).check_against(EIGHT);
        assert_found(&report, "RDC250", "group rails", "no port is meant", "");
    }
    let report = Recording::of("no-rdma").check_against("  - mtu: 9000\n");
    assert_found(&report, "RDC250", "group rails", "no port of a rail", "");
}

#[test]
fn each_kind_of_expectation_finds_what_differs() {
    let policy = "  - mtu: 9000\n    firmware: 28.43.*\n    pfc: [3]\n    ecn: [3]\n    dscp: 26\n    maxReadRequest: 4096\n";
    let report = Recording::of("roce-8rail-misconfigured").check_against(policy);
    assert_found(&report, "RDC252", "enp180s0np0", "MTU 1500", "ip link set");
    assert_found(&report, "RDC253", "mlx5_4", "28.39.3560", "burn");
    assert_found(&report, "RDC350", "enp54s0np0", "PFC on [5]", "pfc");
    assert_found(&report, "RDC351", "enp148s0np0", "ECN off on priority 3 for roce_np", "roce_np/enable");
    assert_found(&report, "RDC450", "mlx5_5", "MaxReadReq 512", "setpci");
    for code in ["RDC252", "RDC253", "RDC350", "RDC450"] {
        assert_eq!(report.findings.iter().filter(|finding| finding.code == code).count(), 1, "{code}");
    }
    assert_none_of(&report, &["RDC352"]);
}

#[test]
fn a_host_that_no_group_names_fails() {
    use rocade_core::check::{Against, check};
    use rocade_core::policy::Policy;
    let text = "apiVersion: rocade.dev/v1alpha1\nkind: Policy\ngroups:\n- name: gpu\n  hosts: ['gpu-*']\n";
    let policy = Policy::parse("policy.yaml", text).unwrap();
    let named = |host: &str| {
        Recording::of("seed-4hca-bond")
            .with(" fail hostname ENOENT", &format!(" text hostname {host}"))
            .host()
    };
    let against = |group| Against { policy: Some(&policy), group, ..Against::default() };
    let report = check(&named("cpu-7"), &against(None));
    assert_found(&report, "RDC150", "host", "cpu-7 is in none of gpu", "--group");
    assert_none_of(&check(&named("gpu-7"), &against(None)), &["RDC150"]);
    assert_none_of(&check(&named("cpu-7"), &against(Some("gpu"))), &["RDC150"]);
}

#[test]
fn settings_of_the_kernel_are_held_against_the_policy() {
    use rocade_core::check::{Against, check};
    use rocade_core::policy::Policy;
    let text = "apiVersion: rocade.dev/v1alpha1\nkind: Policy\ngroups:\n- name: all\n  netnsMode: exclusive\n  kernel: 6.*\n  \
                sysctls: {net.ipv4.neigh.default.gc_thresh3: 16384, net.core.somaxconn: 1}\n";
    let policy = Policy::parse("policy.yaml", text).unwrap();
    let against = Against { policy: Some(&policy), ..Against::default() };
    let report = check(&Recording::of("seed-4hca-bond").host(), &against);
    assert_found(&report, "RDC151", "host", "gc_thresh3 1024", "sysctl -w");
    assert_found(&report, "RDC153", "host", "shared", "rdma system set netns");
    assert_found(&report, "RDC154", "host", "5.15.0-91-generic", "boot the expected kernel");
    assert!(report.unjudged.iter().any(|one| one.code == "RDC151" && one.why.contains("somaxconn")));
}
