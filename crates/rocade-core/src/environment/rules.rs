//! The rules by name: what each variable rests on. Documentation and tests name them.

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its name: N of NCCL, D of distances, U of UCX, S of NVSHMEM, F of libfabric, G of Gloo, P of the procedure.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
}

const fn rule(id: &'static str, text: &'static str) -> Rule {
    Rule { id, text }
}

/// All of them.
pub const RULES: &[Rule] = &[
    rule(
        "N1",
        "NCCL takes each name of a list as a beginning (mlx5_1 is also mlx5_10) unless the list begins with `=`; `^` before it excludes",
    ),
    rule("N2", "NCCL takes ports that are ACTIVE, of link layer InfiniBand or Ethernet"),
    rule("N3", "NCCL takes 32 entries of a list, UCX 64"),
    rule(
        "N4",
        "up to 2.20 NCCL takes GID index 0 and knows no family, version or range; from 2.21 on it chooses",
    ),
    rule("N5", "2.21 to 2.26.1 give up at an entry whose type cannot be read, as in a Pod's sparse table"),
    rule("N6", "RoCE version 2: version 1 is not routed"),
    rule(
        "N7",
        "one address family, AF_INET or AF_INET6: that which most ports have, IPv4 where they are even",
    ),
    rule("N8", "one range in that family, as 10.0.0.0/8; without `/` NCCL ignores it"),
    rule(
        "N9",
        "of the addresses that fit NCCL takes the first, and of its entries the first of version 2; index 0 if none fits",
    ),
    rule("N10", "one GID index for all HCAs of a process"),
    rule("N11", "on InfiniBand NCCL ignores family, version, range and index"),
    rule("N12", "NCCL ends where InfiniBand and RoCE are selected together"),
    rule(
        "N13",
        "GPUDirect's default reach (PXB) is left; PHB only where it was measured to be better, SYS practically never",
    ),
    rule("N14", "in a virtual machine NCCL needs a topology file, which it finds where the provider puts it"),
    rule(
        "N15",
        "sockets: the same grammar as N1; without it NCCL takes ib* first, then all but docker, lo and virbr",
    ),
    rule(
        "N16",
        "time-outs, retries, queue pairs, relaxed ordering, adaptive routing, merging: defaults are left",
    ),
    rule("D1", "PIX: at most one PCIe switch between"),
    rule("D2", "PXB: several PCIe switches, not the host bridge"),
    rule("D3", "PHB: through the CPU's PCIe host bridge"),
    rule("D4", "NODE: through several host bridges of one NUMA node"),
    rule("D5", "SYS: between NUMA nodes"),
    rule("D6", "PXB and nearer is what GPUDirect is used for; the order is PIX, PXB, PHB, NODE, SYS"),
    rule("D7", "a virtual machine's tree tells nothing"),
    rule(
        "U1",
        "UCX takes exact names, with a port or without (all ports), ranges as mlx5_[0-3]:1, `^` before the list excludes",
    ),
    rule(
        "U2",
        "UCX chooses v2/IPv4, v2/IPv6, v2/link-local, then version 1 alike; the lowest index of the first kind that there is",
    ),
    rule("U3", "UCX's traffic class on RoCE is the port's, else 106; on InfiniBand 0"),
    rule("U4", "transports are left to UCX: a list without rc, dc or ud turns RDMA off"),
    rule(
        "S1",
        "NVSHMEM takes a list of HCAs only with its mapping of NICs to PEs on; PEs take them in order",
    ),
    rule("S2", "NVSHMEM chooses GIDs as NCCL does, by variables of the same endings"),
    rule(
        "F1",
        "libfabric takes a beginning of a device's name and of an interface's (lists of them in newer versions alone); its index is 0 unless told",
    ),
    rule("G1", "Gloo takes names of interfaces as they are"),
    rule("P1", "devices: those that were granted and open here; what stands in /sys is no ground"),
    rule("P2", "addresses: those of this network namespace"),
    rule(
        "P3",
        "a GID counts by its address, type RoCE v2, on the interface that has the address; unset entries are passed over, to the table's end",
    ),
    rule(
        "P4",
        "of them: the wanted family, not link-local, in the fabric's network, the lowest index. An index is given on request, or in this Pod's own file, where all ports agree",
    ),
    rule("P5", "exact forms: NCCL_IB_HCA==mlx5_2:1,mlx5_3:1 and UCX_NET_DEVICES=mlx5_2:1,mlx5_3:1"),
    rule("P6", "for each GPU the nearest HCA, ties by NUMA node, then by fewest GPUs on it; that order"),
    rule(
        "P7",
        "sockets: the interface of the default route, exactly; never one whose addresses are link-local",
    ),
    rule("P8", "traffic class: the pool's, which is DSCP times 4; service level: the pool's"),
];
