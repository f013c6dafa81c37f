//! GID tables as libraries stumble over them.

use rocade_core::{Severity, Usable};

use super::{Recording, assert_found, assert_none_of};

const TABLE: &str = "infiniband/mlx5_3/ports/1/gids";
const TYPES: &str = "infiniband/mlx5_3/ports/1/gid_attrs/types";
const NETDEVS: &str = "infiniband/mlx5_3/ports/1/gid_attrs/ndevs";
const V4: &str = "0000:0000:0000:0000:0000:ffff:0a08:1504";
const UNSET: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

fn seed() -> Recording {
    Recording::of("seed-4hca-bond")
}

/// F70: one index for a whole job is wrong as soon as one rail has another.
#[test]
fn unlike_indexes_are_told_with_the_advice_to_export_none() {
    let report = moved_up(seed()).check();
    let finding = assert_found(&report, "RDC305", "host", "7 on mlx5_3/1", "leave NCCL_IB_GID_INDEX");
    assert_eq!(finding.severity, Severity::Note);
    assert!(finding.seen.contains("3 on mlx5_0/1"), "{finding}");
    assert_none_of(&seed().check(), &["RDC305"]);
}

/// F71: gids/0..3 are zero and reading their types gives EINVAL; the first one set is index 4.
#[test]
fn a_table_whose_first_entries_are_unset_is_read_to_its_end() {
    let recording = moved_up(seed());
    assert_none_of(&recording.check(), &["RDC301", "RDC302", "RDC304"]);
    let host = recording.host();
    let port = &host.hca("mlx5_3").unwrap().ports[0];
    assert_eq!(port.usable, Usable::Yes, "{}", port.reason);
    assert_eq!(port.gids.iter().map(|gid| gid.index.0).collect::<Vec<_>>(), [4, 5, 6, 7]);
}

/// The four entries of mlx5_3 at 4 to 7.
fn moved_up(recording: Recording) -> Recording {
    let mut recording = recording
        .within(TABLE, "text 4..254", "text 8..254")
        .within(TYPES, "fail 4..254", "fail 8..254")
        .within(NETDEVS, "fail 4..254", "fail 8..254")
        .within(NETDEVS, "text 0..3", "text 4..7");
    for index in 0..4 {
        recording = recording
            .within(TABLE, &format!(" text {index} "), &format!(" text {} ", index + 4))
            .within(TYPES, &format!(" text {index} "), &format!(" text {} ", index + 4));
    }
    recording
        .within(TABLE, "ports/1/gids\n", &format!("ports/1/gids\n text 0..3 {UNSET}\n"))
        .within(TYPES, "gid_attrs/types\n", "gid_attrs/types\n fail 0..3 EINVAL\n")
        .within(NETDEVS, "gid_attrs/ndevs\n", "gid_attrs/ndevs\n fail 0..3 EINVAL\n")
}

/// F72: only fe80 GIDs are no good between hosts, a unique local IPv6 address is.
#[test]
fn link_local_gids_alone_are_told_with_the_address_to_add() {
    let unset = seed().within(TABLE, V4, UNSET).within(TYPES, "text 2 IB/RoCE v1", "fail 2 EINVAL").within(
        TYPES,
        "text 3 RoCE v2",
        "fail 3 EINVAL",
    );
    let finding =
        assert_found(&unset.check(), "RDC302", "mlx5_3/1", "only link-local", "ip addr add").clone();
    assert_eq!(finding.severity, Severity::Warning);
}

#[test]
fn a_unique_local_ipv6_address_is_routable() {
    let address = r#"{"index":5,"address":"10.8.21.4","prefix":24}"#;
    let unique_local = seed()
        .within(TABLE, V4, "fd00:0008:0021:0000:0000:0000:0000:0004")
        .with(address, r#"{"index":5,"address":"fd00:8:21::4","prefix":64}"#);
    assert_none_of(&unique_local.check(), &["RDC301", "RDC302"]);
    assert_eq!(unique_local.host().hca("mlx5_3").unwrap().ports[0].usable, Usable::Yes);
}

/// F28: limited members and ports of another subnet start, and then fail for some pairs.
#[test]
fn a_limited_member_is_told_with_the_partition_to_mend() {
    let recording = Recording::of("ib-hdr-mixed").within("mlx5_0/ports/1/pkeys", "0xffff", "0x7fff");
    assert_found(&recording.check(), "RDC211", "mlx5_0/1", "0x7fff", "full membership");
}

#[test]
fn a_device_of_unspecified_type_is_told_to_speak_something_else() {
    let report = Recording::of("efa-p4d").check();
    assert_found(&report, "RDC212", "rdmap16s27/1", "EFA", "libfabric");
}

#[test]
fn rails_of_unlike_subnets_are_grouped() {
    let recording = Recording::of("dgx-h100");
    assert_none_of(&recording.check(), &["RDC224"]);
    let moved =
        recording.within("mlx5_3/ports/1/gids", " text 0 fe80:0000:0000:0000", " text 0 fec0:0000:0000:0001");
    assert_found(&moved.check(), "RDC224", "host", "fec0:0000:0000:0001 mlx5_3/1", "by subnet");
}
