//! Inside a Pod: what was granted, what is seen, what works.

use super::{Recording, assert_found, assert_none_of};

/// F52: a Pod that was granted one HCA sees all four in sysfs.
#[test]
fn hcas_that_are_seen_and_not_granted_are_told_with_the_list_to_export() {
    let report = Recording::of("seed-pod-wrong-rail").check();
    let finding =
        assert_found(&report, "RDC609", "pod", "1 of 4 HCAs granted: mlx5_4", "NCCL_IB_HCA==mlx5_4:1 ");
    assert!(finding.cure.contains("UCX_NET_DEVICES=mlx5_4:1"), "{finding}");
}

#[test]
fn a_grant_and_an_address_of_different_rails_are_told_with_both_ways_out() {
    let report = Recording::of("seed-pod-wrong-rail").check();
    let finding = assert_found(&report, "RDC603", "pod", "rdma/hca_ens20", "ask for the resource of mlx5_0");
    assert!(finding.cure.contains("attach a network on mlx5_4 (ens20np0)"), "{finding}");
}

#[test]
fn a_pod_whose_grant_and_address_meet_has_no_error() {
    let report = Recording::of("pod-sriov-exclusive").check();
    assert_none_of(
        &report,
        &["RDC601", "RDC602", "RDC603", "RDC604", "RDC605", "RDC606", "RDC608", "RDC610"],
    );
}
