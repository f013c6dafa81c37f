//! GPUs, and the order that follows from their places.

use super::bench::{Bench, pod};
use super::*;
use crate::host::Distance;

/// Two HCAs at other places, mlx5_0 first by name.
fn two(first: (&[u8], &str, u32), second: (&[u8], &str, u32)) -> Bench {
    pod()
        .infiniband("mlx5_0")
        .at(first.0, first.1, first.2)
        .infiniband("mlx5_1")
        .at(second.0, second.1, second.2)
}

/// The GPU of all rows: below root port 1, a switch's upstream port 2 and downstream port 3.
fn with_gpu(bench: Bench) -> Bench {
    bench.gpu(&[1, 2, 3], "pci0000:00", 0)
}

const PIX: (&[u8], &str, u32) = (&[1, 2, 4], "pci0000:00", 0);
const PXB: (&[u8], &str, u32) = (&[1, 2, 4, 5, 6], "pci0000:00", 0);
const PHB: (&[u8], &str, u32) = (&[7, 8, 9], "pci0000:00", 0);
const NODE: (&[u8], &str, u32) = (&[7], "pci0000:40", 0);
const SYS: (&[u8], &str, u32) = (&[7], "pci0000:80", 1);

const FIRST: &[(&str, Wanted)] = &[
    ("NCCL_IB_HCA", Set("=mlx5_1:1,mlx5_0:1")),
    ("UCX_NET_DEVICES", Set("mlx5_1:1,mlx5_0:1")),
    ("NVSHMEM_HCA_LIST", Set("mlx5_1:1,mlx5_0:1")),
    ("NCCL_NET_GDR_LEVEL", Unset),
];
const AS_NAMED: &[(&str, Wanted)] = &[("NCCL_IB_HCA", Set("=mlx5_0:1,mlx5_1:1"))];

pub(super) fn rows() -> Vec<Row> {
    [classes(), ties(), guests()].into_iter().flatten().collect()
}

fn classes() -> Vec<Row> {
    vec![
        row(&["D1", "P6"], "one switch between is nearer than several", with_gpu(two(PXB, PIX)), FIRST, &[]),
        row(
            &["D2", "D6"],
            "several switches are nearer than the host bridge",
            with_gpu(two(PHB, PXB)),
            FIRST,
            &[],
        ),
        row(&["D3"], "one host bridge is nearer than several", with_gpu(two(NODE, PHB)), FIRST, &[]),
        row(
            &["D4"],
            "a NUMA node's host bridges are nearer than another node",
            with_gpu(two(SYS, NODE)),
            FIRST,
            &[],
        ),
        row(
            &["D5"],
            "another NUMA node is still a distance, unlike an HCA without a place",
            with_gpu(pod().infiniband("mlx5_0").infiniband("mlx5_1").at(SYS.0, SYS.1, SYS.2)),
            FIRST,
            &[],
        ),
        row(
            &["N13"],
            "GPUDirect's reach is left alone also where the nearest HCA is far",
            with_gpu(two(SYS, PHB)),
            FIRST,
            &[],
        ),
        row(&["P6"], "without a GPU the order is that of the names", two(PXB, PIX), AS_NAMED, &[]),
    ]
}

fn ties() -> Vec<Row> {
    // Of HCAs behind the same host bridge, one has the GPU's NUMA node.
    let other_node: (&[u8], &str, u32) = (PHB.0, PHB.1, 1);
    vec![
        row(
            &["P6"],
            "of two that are as near the one of the GPU's NUMA node is taken",
            with_gpu(two(other_node, PHB)),
            FIRST,
            &[],
        ),
        row(
            &["P6"],
            "of two that are as near a second GPU takes the one with fewer GPUs",
            // mlx5_1 is nearest to no GPU, and comes last.
            with_gpu(with_gpu(two(PIX, SYS).infiniband("mlx5_2").at(PIX.0, PIX.1, PIX.2)))
                .granted("RDMA_A", "mlx5_0:1,mlx5_1:1,mlx5_2:1"),
            &[("NCCL_IB_HCA", Set("=mlx5_0:1,mlx5_2:1,mlx5_1:1"))],
            &[],
        ),
    ]
}

fn guests() -> Vec<Row> {
    let guest = || with_gpu(two(PXB, PIX));
    vec![
        // F89: the nearest HCA of a passed-through tree was the one that failed.
        row(
            &["D7", "N14"],
            "in a virtual machine nothing is told by distance, and a topology file is named",
            guest().with(|host| host.virtual_machine = Some(true)),
            &[("NCCL_IB_HCA", Set("=mlx5_0:1,mlx5_1:1")), ("NCCL_TOPO_FILE", Unset)],
            &[],
        ),
        row(
            &["D7"],
            "a guest's network driver tells a virtual machine where nothing else does",
            guest().with(|host| host.netdevs[0].driver = Some("virtio_net".into())),
            AS_NAMED,
            &[],
        ),
        row(
            &["D7", "N14"],
            "on bare metal distance counts, whatever drivers there are, and no topology file is named",
            guest().with(|host| {
                host.netdevs[0].driver = Some("virtio_net".into());
                host.virtual_machine = Some(false);
            }),
            &[("NCCL_IB_HCA", Set("=mlx5_1:1,mlx5_0:1")), ("NCCL_TOPO_FILE", Absent)],
            &[],
        ),
    ]
}

#[test]
fn each_pair_has_the_class_of_its_places() {
    for (rule, place, wanted) in [
        ("D1", PIX, Distance::Pix),
        ("D2", PXB, Distance::Pxb),
        ("D3", PHB, Distance::Phb),
        ("D4", NODE, Distance::Node),
        ("D5", SYS, Distance::Sys),
    ] {
        let bench = with_gpu(pod().infiniband("mlx5_0").at(place.0, place.1, place.2));
        let pairs = bench.tell().pairs;
        let told: Vec<_> = pairs.iter().map(|pair| (pair.hca.as_str(), pair.distance)).collect();
        assert_eq!(told, [("mlx5_0", wanted)], "{rule}");
    }
}
