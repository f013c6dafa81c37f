//! Which devices, and in which form.

use super::bench::{Bench, OWN_ON_NET1, OWN_ON_NET2, macvlan_pod, pod};
use super::*;
use crate::host::{Accessible, NetnsMode, Transport};

/// Two rails with an address each.
fn two_rails() -> Bench {
    pod()
        .netdev("net1", &["10.1.0.5/24"])
        .netdev("net2", &["10.1.1.5/24"])
        .roce("mlx5_2", OWN_ON_NET1)
        .roce("mlx5_3", OWN_ON_NET2)
}

fn many(n: u32) -> Bench {
    (0..n).fold(pod(), |bench, n| bench.infiniband(&format!("mlx5_{n}")))
}

fn list(range: std::ops::Range<u32>) -> &'static str {
    range.map(|n| format!("mlx5_{n}:1")).collect::<Vec<_>>().join(",").leak()
}

pub(super) fn rows() -> Vec<Row> {
    [grants(), ports(), forms()].into_iter().flatten().collect()
}

fn grants() -> Vec<Row> {
    let seen_only = macvlan_pod().roce("mlx5_3", &["3 v2 ens4 10.1.1.1"]).node(Accessible::Missing);
    let both = [("NCCL_IB_HCA", Set("=mlx5_2:1")), ("UCX_NET_DEVICES", Set("mlx5_2:1"))];
    vec![
        // F52, F53: all HCAs of the host stand in /sys.
        row(&["P1"], "an HCA that stands in /sys and has no node here is not named", seen_only, &both, &[]),
        row(
            &["P1"],
            "an HCA that opens here and was not granted is not named",
            two_rails().granted("RDMA_A", "mlx5_2:1"),
            &both,
            &[],
        ),
        row(
            &["P1"],
            "a node that is there and that the device cgroup refuses is not named",
            two_rails().tried("mlx5_2", None).tried("mlx5_3", Some("EPERM")),
            &both,
            &[],
        ),
        row(
            &["P1"],
            "a grant by PCI address counts by what sits there now",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx5_2", OWN_ON_NET1)
                .at(&[1], "pci0000:00", 3)
                .roce("mlx5_3", &["3 v2 net1 10.1.0.5"])
                .at(&[1], "pci0000:00", 4)
                .granted_at("0001:03:09.0"),
            &both,
            &[],
        ),
        row(
            &["P1"],
            "of a granted port the other port of the HCA is not named",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx4_0", OWN_ON_NET1)
                .port(2, OWN_ON_NET1)
                .granted("RDMA_A", "mlx4_0:2"),
            &[("NCCL_IB_HCA", Set("=mlx4_0:2"))],
            &[],
        ),
        row(
            &["P1"],
            "an HCA of which it is not known whether it opens is named",
            macvlan_pod().node(Accessible::Unknown),
            &both,
            &[],
        ),
        row(
            &["P1"],
            "where neither grants nor nodes tell, the rails are named and what differs from them is not",
            two_rails().infiniband("mlx5_7"),
            &[("NCCL_IB_HCA", Set("=mlx5_2:1,mlx5_3:1")), ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1"))],
            &[],
        ),
        row(
            &["P1"],
            "in an RDMA namespace of its own all that is there was given",
            two_rails().infiniband("mlx5_7").with(|host| {
                (host.netns_mode, host.initial_netns) = (Some(NetnsMode::Exclusive), Some(false));
            }),
            &[("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1,mlx5_7:1"))],
            &[],
        ),
        row(
            &["P1"],
            "where nothing was granted no device is named, and sockets still are",
            macvlan_pod().node(Accessible::Missing),
            &[("NCCL_IB_HCA", Unset), ("UCX_NET_DEVICES", Unset), ("NCCL_SOCKET_IFNAME", Set("=eth0"))],
            &["RDC650"],
        ),
        row(
            &["P1"],
            "without any HCA nothing is named",
            pod(),
            &[("NCCL_IB_HCA", Unset), ("NVSHMEM_HCA_LIST", Unset), ("NVSHMEM_ENABLE_NIC_PE_MAPPING", Unset)],
            &["RDC650"],
        ),
    ]
}

fn ports() -> Vec<Row> {
    vec![
        row(
            &["N2"],
            "a port that is not ACTIVE is not named, the other of the HCA is",
            pod()
                .netdev("net1", &["10.1.0.5/24"])
                .roce("mlx4_0", OWN_ON_NET1)
                .state("DOWN")
                .port(2, OWN_ON_NET1),
            &[("NCCL_IB_HCA", Set("=mlx4_0:2")), ("UCX_NET_DEVICES", Set("mlx4_0:2"))],
            &[],
        ),
        row(
            &["N2"],
            "an InfiniBand port without a subnet manager is not named",
            pod().infiniband("mlx5_0").infiniband("mlx5_1").state("INIT"),
            &[("NCCL_IB_HCA", Set("=mlx5_0:1"))],
            &[],
        ),
        row(
            &["N2"],
            "iWARP and EFA are not named",
            pod()
                .infiniband("mlx5_0")
                .roce("siw0", &[])
                .with_port(|port| port.transport = Transport::Iwarp)
                .roce("efa_0", &[])
                .with_port(|port| port.transport = Transport::Efa),
            &[("NCCL_IB_HCA", Set("=mlx5_0:1")), ("UCX_NET_DEVICES", Set("mlx5_0:1"))],
            &[],
        ),
        row(
            &["N12"],
            "of one InfiniBand and one RoCE port NCCL gets the InfiniBand one, UCX both",
            macvlan_pod().infiniband("mlx5_7"),
            &[
                ("NCCL_IB_HCA", Set("=mlx5_7:1")),
                ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_7:1")),
                ("NVSHMEM_HCA_LIST", Set("mlx5_7:1")),
            ],
            &[],
        ),
        row(
            &["N12"],
            "of two RoCE ports and one InfiniBand port NCCL gets the RoCE ones",
            two_rails().infiniband("mlx5_7").granted("RDMA_A", "mlx5_2:1,mlx5_3:1,mlx5_7:1"),
            &[
                ("NCCL_IB_HCA", Set("=mlx5_2:1,mlx5_3:1")),
                ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1,mlx5_7:1")),
            ],
            &[],
        ),
        row(
            &["N3"],
            "of 40 ports NCCL gets 32 and UCX all",
            many(40),
            &[
                ("NCCL_IB_HCA", Set(format!("={}", list(0..32)).leak())),
                ("UCX_NET_DEVICES", Set(list(0..40))),
            ],
            &[],
        ),
        row(&["N3"], "of 70 ports UCX gets 64", many(70), &[("UCX_NET_DEVICES", Set(list(0..64)))], &[]),
    ]
}

fn forms() -> Vec<Row> {
    vec![
        // F86: mlx5_1 as a beginning is also mlx5_10.
        row(
            &["P5", "N1"],
            "NCCL's list begins with `=` and every name has its port",
            pod().infiniband("mlx5_1").infiniband("mlx5_10").node(Accessible::Missing),
            &[("NCCL_IB_HCA", Set("=mlx5_1:1"))],
            &[],
        ),
        row(
            &["P5", "U1"],
            "UCX's list has exact names and ports, and no `=`",
            two_rails(),
            &[("NCCL_IB_HCA", Set("=mlx5_2:1,mlx5_3:1")), ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1"))],
            &[],
        ),
        row(
            &["S1"],
            "NVSHMEM's list has no `=` and comes with its mapping",
            two_rails(),
            &[("NVSHMEM_HCA_LIST", Set("mlx5_2:1,mlx5_3:1")), ("NVSHMEM_ENABLE_NIC_PE_MAPPING", Set("1"))],
            &[],
        ),
        row(
            &["F1"],
            "libfabric gets one HCA by its name and one interface by its own",
            macvlan_pod().roce("mlx5_3", &["3 v2 ens4 10.1.1.1"]).node(Accessible::Missing),
            &[("FI_VERBS_DEVICE_NAME", Set("mlx5_2")), ("FI_VERBS_IFACE", Set("net1"))],
            &[],
        ),
        row(
            &["F1"],
            "libfabric gets several by the beginning that they have and no others",
            two_rails(),
            &[("FI_VERBS_DEVICE_NAME", Set("mlx5_")), ("FI_VERBS_IFACE", Set("net"))],
            &[],
        ),
        row(
            &["F1"],
            "libfabric gets no device where others begin so too: older versions find nothing by a list",
            two_rails().infiniband("mlx5_7").node(Accessible::Missing).netdev("net9", &[]),
            &[
                ("FI_VERBS_DEVICE_NAME", Unset),
                ("FI_VERBS_IFACE", Unset),
                ("UCX_NET_DEVICES", Set("mlx5_2:1,mlx5_3:1")),
            ],
            &[],
        ),
        row(
            &["F1"],
            "libfabric gets the IPoIB interface of an InfiniBand port, where it has an address",
            pod()
                .netdev("ib0", &["10.3.0.5/24"])
                .infiniband("mlx5_0")
                .with_port(|port| port.netdev = Some("ib0".into()))
                .infiniband("mlx5_1"),
            &[("FI_VERBS_DEVICE_NAME", Set("mlx5_")), ("FI_VERBS_IFACE", Set("ib0"))],
            &[],
        ),
    ]
}
