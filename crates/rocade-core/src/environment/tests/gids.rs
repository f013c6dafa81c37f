//! Family, version, range and index.

use super::bench::{Bench, OWN_ON_NET1, OWN_ON_NET2, macvlan_pod, pod};
use super::*;
use crate::host::{LinkLayer, Transport};

const RANGE: &str = "NCCL_IB_ADDR_RANGE";
const FAMILY: &str = "NCCL_IB_ADDR_FAMILY";
const VERSION: &str = "NCCL_IB_ROCE_VERSION_NUM";
const INDEX: &str = "NCCL_IB_GID_INDEX";

/// A Pod that has only IPv6: a link-local and a ULA.
fn v6_pod() -> Bench {
    pod()
        .netdev("net1", &["fd01::5/64", "fe80::5/64"])
        .roce("mlx5_2", &["0 v1 net1 fe80::5", "1 v2 net1 fe80::5", "2 v1 net1 fd01::5", "3 v2 net1 fd01::5"])
}

/// Two rails whose own addresses have the indexes 3 and 5.
fn differing() -> Bench {
    macvlan_pod().netdev("net2", &["10.1.1.5/24"]).roce(
        "mlx5_3",
        &["2 v1 ens4 10.1.1.1", "3 v2 ens4 10.1.1.1", "4 v1 net2 10.1.1.5", "5 v2 net2 10.1.1.5"],
    )
}

/// The host's entry of the same network stands before the Pod's.
fn behind_the_host() -> Bench {
    pod().netdev("net1", &["10.1.0.5/24"]).roce(
        "mlx5_2",
        &["2 v1 ens3 10.1.0.1", "3 v2 ens3 10.1.0.1", "6 v1 net1 10.1.0.5", "7 v2 net1 10.1.0.5"],
    )
}

pub(super) fn rows() -> Vec<Row> {
    [addresses(), families(), ranges(), indexes(), versions()].into_iter().flatten().collect()
}

fn addresses() -> Vec<Row> {
    vec![
        row(
            &["P2"],
            "an entry whose interface has the name of one here and another address is not ours",
            pod().roce("mlx5_2", &["3 v2 eth0 192.168.9.9"]),
            &[("NCCL_IB_HCA", Unset)],
            &["RDC650"],
        ),
        row(
            &["P3"],
            "the address is the key: an entry of it on another interface is not ours",
            pod().netdev("net1", &["10.1.0.5/24"]).roce("mlx5_2", &["3 v2 ens3 10.1.0.5"]),
            &[("NCCL_IB_HCA", Unset)],
            &["RDC650"],
        ),
        // F71: the first used entries are not the first of the table.
        row(
            &["P3"],
            "unset entries are passed over, to the end of the table",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx5_2", &["300 v1 net1 10.1.0.5", "301 v2 net1 10.1.0.5"])
                .with_port(|port| port.gid_table_len = Some(512))
                .with_index(),
            &[(INDEX, Set("301")), (RANGE, Set("10.1.0.0/24"))],
            &[],
        ),
        row(
            &["P3", "N6"],
            "version 1 alone is no address to use",
            pod().netdev("net1", &["10.1.0.5/24"]).roce("mlx5_2", &["2 v1 net1 10.1.0.5"]),
            &[("NCCL_IB_HCA", Unset)],
            &["RDC650"],
        ),
        row(
            &["P4"],
            "of several own addresses the lowest index counts",
            pod()
                .netdev("net1", &["10.1.0.5/24", "10.1.0.6/24"])
                .roce("mlx5_2", &["4 v2 net1 10.1.0.6", "6 v2 net1 10.1.0.5"])
                .with_index(),
            &[(INDEX, Set("4"))],
            &[],
        ),
        // F73: v2 of a link-local address connects on one segment alone.
        row(
            &["P4"],
            "a link-local entry is never taken while there is another",
            macvlan_pod().with_index(),
            &[(INDEX, Set("3")), (FAMILY, Set("AF_INET"))],
            &[],
        ),
        row(
            &["P4"],
            "with link-local addresses alone no family, range or index is given",
            pod().netdev("net1", &["fe80::5/64"]).roce("mlx5_2", &["1 v2 net1 fe80::5"]).with_index(),
            &[(FAMILY, Unset), (RANGE, Unset), (INDEX, Unset), ("NCCL_IB_HCA", Set("=mlx5_2:1"))],
            &[],
        ),
    ]
}

fn families() -> Vec<Row> {
    vec![
        row(
            &["N7", "N6"],
            "an IPv4 address makes AF_INET, version 2 and its subnet",
            macvlan_pod(),
            &[(FAMILY, Set("AF_INET")), (VERSION, Set("2")), (RANGE, Set("10.1.0.0/24"))],
            &[],
        ),
        // F72: only IPv6.
        row(
            &["N7"],
            "IPv6 alone makes AF_INET6 with the subnet of the address that is not link-local",
            v6_pod(),
            &[(FAMILY, Set("AF_INET6")), (VERSION, Set("2")), (RANGE, Set("fd01::/64"))],
            &[],
        ),
        row(
            &["N7"],
            "a port without the family of the others is not for NCCL, and is for UCX",
            macvlan_pod()
                .netdev("net2", &["10.1.1.5/24"])
                .netdev("net3", &["fd01::7/64"])
                .roce("mlx5_3", OWN_ON_NET2)
                .roce("mlx5_4", &["1 v2 net3 fd01::7"]),
            &[
                (FAMILY, Set("AF_INET")),
                ("NCCL_IB_HCA", Set("=mlx5_2:1,mlx5_3:1")),
                ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1,mlx5_4:1")),
            ],
            &[],
        ),
        row(
            &["N7"],
            "where both families are even IPv4 is taken",
            pod()
                .netdev("net1", &["10.1.0.5/24", "fd01::5/64"])
                .roce("mlx5_2", &["1 v2 net1 fd01::5", "3 v2 net1 10.1.0.5"]),
            &[(FAMILY, Set("AF_INET")), (RANGE, Set("10.1.0.0/24"))],
            &[],
        ),
        row(
            &["N7"],
            "the family that the user set decides the range",
            pod()
                .netdev("net1", &["10.1.0.5/24", "fd01::5/64"])
                .roce("mlx5_2", &["0 v1 net1 fd01::5", "1 v2 net1 fd01::5", "3 v2 net1 10.1.0.5"])
                .set(FAMILY, "AF_INET6"),
            &[(FAMILY, Set("AF_INET6")), (RANGE, Set("fd01::/64"))],
            &[],
        ),
        row(
            &["S2"],
            "NVSHMEM gets the same by its own names",
            macvlan_pod(),
            &[
                ("NVSHMEM_IB_ADDR_FAMILY", Set("AF_INET")),
                ("NVSHMEM_IB_ROCE_VERSION_NUM", Set("2")),
                ("NVSHMEM_IB_ADDR_RANGE", Set("10.1.0.0/24")),
                ("NVSHMEM_IB_GID_INDEX", Unset),
            ],
            &[],
        ),
        row(
            &["N11"],
            "InfiniBand gets none of them, even where an index is asked for",
            // Its table holds what would be an own address on RoCE.
            macvlan_pod()
                .with_port(|port| {
                    port.link_layer = LinkLayer::InfiniBand;
                    port.transport = Transport::Infiniband;
                    (port.lid, port.sm_lid) = (Some(7), Some(1));
                })
                .with_index(),
            &[(FAMILY, Unset), (VERSION, Unset), (RANGE, Unset), (INDEX, Unset), ("UCX_IB_GID_INDEX", Unset)],
            &[],
        ),
    ]
}

fn ranges() -> Vec<Row> {
    let two = macvlan_pod().netdev("net2", &["10.1.1.5/24"]).roce("mlx5_3", OWN_ON_NET2);
    vec![
        row(
            &["N8"],
            "two rails have the smallest range that holds both",
            two,
            &[(RANGE, Set("10.1.0.0/23"))],
            &[],
        ),
        row(
            &["N8"],
            "a route out of the interface widens the range to the fabric's",
            macvlan_pod().route("10.1.0.0/16", "net1").route("0.0.0.0/0", "net1").route("10.0.0.0/8", "eth0"),
            &[(RANGE, Set("10.1.0.0/16"))],
            &[],
        ),
        row(
            &["N8"],
            "an address without a subnet makes no range",
            pod().netdev("net1", &["10.1.0.5/32"]).roce("mlx5_2", OWN_ON_NET1),
            &[(RANGE, Unset), (FAMILY, Set("AF_INET"))],
            &[],
        ),
        row(
            &["N8"],
            "networks with nothing in common make no range",
            macvlan_pod().netdev("net2", &["192.168.1.5/24"]).roce("mlx5_3", &["3 v2 net2 192.168.1.5"]),
            &[(RANGE, Unset), (FAMILY, Set("AF_INET"))],
            &[],
        ),
        row(
            &["N8"],
            "the range that is asked for counts, and chooses the address",
            pod()
                .netdev("net1", &["10.1.0.5/24", "172.16.0.5/24"])
                .roce("mlx5_2", &["3 v2 net1 10.1.0.5", "5 v2 net1 172.16.0.5"])
                .range("172.16.0.0/12")
                .with_index(),
            &[(RANGE, Set("172.16.0.0/12")), (INDEX, Set("5"))],
            &[],
        ),
        row(
            &["N9"],
            "NCCL takes the first entry of version 2, which is the own one",
            macvlan_pod().nccl("2.27.3"),
            &[(INDEX, Unset)],
            &[],
        ),
        row(
            &["N9", "U2"],
            "where the host's entry of the same network comes first, NCCL and UCX would take that",
            behind_the_host(),
            &[(RANGE, Set("10.1.0.0/24")), (INDEX, Unset)],
            &["RDC661"],
        ),
        row(
            &["N9"],
            "in this Pod's own file the range is narrowed to own addresses where that helps",
            behind_the_host().own_file().set("UCX_IB_GID_INDEX", "7"),
            &[(INDEX, Set("7")), (RANGE, Set("10.1.0.5/32"))],
            &[],
        ),
    ]
}

fn indexes() -> Vec<Row> {
    vec![
        row(
            &["P4"],
            "an index is not given to an environment that launchers hand on",
            macvlan_pod(),
            &[(INDEX, Unset), ("UCX_IB_GID_INDEX", Unset), ("FI_VERBS_GID_IDX", Unset)],
            &[],
        ),
        row(
            &["P4"],
            "an index is given on request, to each library by its name",
            macvlan_pod().with_index(),
            &[
                (INDEX, Set("3")),
                ("UCX_IB_GID_INDEX", Set("3")),
                ("NVSHMEM_IB_GID_INDEX", Set("3")),
                ("FI_VERBS_GID_IDX", Set("3")),
            ],
            &[],
        ),
        row(
            &["P4"],
            "NCCL's own file has the index, and only NCCL's",
            macvlan_pod().own_file(),
            &[(INDEX, Set("3")), ("UCX_IB_GID_INDEX", Unset), ("NVSHMEM_IB_GID_INDEX", Unset)],
            &[],
        ),
        // F70: Pods and HCAs have different indexes, and one is exported for all.
        row(
            &["N10", "P4"],
            "where ports have different indexes none is given, even on request",
            differing().with_index().range("10.1.0.0/16"),
            &[(INDEX, Unset), ("UCX_IB_GID_INDEX", Unset), (FAMILY, Set("AF_INET")), (VERSION, Set("2"))],
            &["RDC661"],
        ),
        row(&["N10"], "in the own file neither", differing().own_file(), &[(INDEX, Unset)], &["RDC661"]),
        row(
            &["N10"],
            "where all ports have the same index it is given on request",
            macvlan_pod().netdev("net2", &["10.1.1.5/24"]).roce("mlx5_3", OWN_ON_NET2).with_index(),
            &[(INDEX, Set("3"))],
            &[],
        ),
    ]
}

fn versions() -> Vec<Row> {
    let sparse =
        || pod().netdev("net1", &["fd01::5/64"]).roce("mlx5_2", &["4 v1 net1 fd01::5", "5 v2 net1 fd01::5"]);
    vec![
        row(
            &["N4"],
            "NCCL 2.20 is told no family, version or range, and takes index 0",
            macvlan_pod().nccl("2.20.5"),
            &[(FAMILY, Unset), (VERSION, Unset), (RANGE, Unset), ("NVSHMEM_IB_ADDR_FAMILY", Set("AF_INET"))],
            &["RDC661"],
        ),
        row(
            &["N4"],
            "NCCL 2.21 chooses and is told them",
            macvlan_pod().nccl("2.21"),
            &[(FAMILY, Set("AF_INET")), (VERSION, Set("2")), (RANGE, Set("10.1.0.0/24"))],
            &[],
        ),
        row(
            &["N4"],
            "NCCL 2.20 with an index on request has what it needs",
            macvlan_pod().nccl("2.20.5").with_index(),
            &[(INDEX, Set("3"))],
            &[],
        ),
        row(
            &["N5"],
            "NCCL 2.26.1 gives up at an unset entry",
            sparse().nccl("2.26.1"),
            &[(FAMILY, Set("AF_INET6"))],
            &["RDC661"],
        ),
        row(&["N5"], "NCCL 2.26.2 does not", sparse().nccl("2.26.2"), &[(FAMILY, Set("AF_INET6"))], &[]),
        row(
            &["N5"],
            "an unset entry ends no search for IPv4, which is not compared with it",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx5_2", &["4 v1 net1 10.1.0.5", "5 v2 net1 10.1.0.5"])
                .nccl("2.22.3"),
            &[(FAMILY, Set("AF_INET"))],
            &[],
        ),
        row(
            &["U2"],
            "UCX takes a foreign IPv4 entry before the own IPv6 one",
            pod().netdev("net1", &["fd01::5/64"]).roce(
                "mlx5_2",
                &["0 v1 net1 fd01::5", "1 v2 net1 fd01::5", "2 v1 ens3 10.1.0.1", "3 v2 ens3 10.1.0.1"],
            ),
            &[(FAMILY, Set("AF_INET6")), ("UCX_NET_DEVICES", Set("mlx5_2:1"))],
            &["RDC661"],
        ),
        row(
            &["U2"],
            "UCX takes the own version 2 before a foreign version 1 of a lower index",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx5_2", &["0 v1 net1 10.1.0.5", "1 v1 ens3 10.1.0.1", "3 v2 net1 10.1.0.5"]),
            &[("UCX_NET_DEVICES", Set("mlx5_2:1"))],
            &[],
        ),
    ]
}
