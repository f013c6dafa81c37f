//! Sockets, traffic class and service level.

use super::bench::{Bench, macvlan_pod, pod};
use super::*;

const SOCKETS: [&str; 3] = ["NCCL_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "GLOO_SOCKET_IFNAME"];

pub(super) fn rows() -> Vec<Row> {
    [sockets(), users_sockets(), classes()].into_iter().flatten().collect()
}

/// An InfiniBand Pod, whose interfaces are sockets' alone.
fn plain() -> Bench {
    pod().infiniband("mlx5_0")
}

fn sockets() -> Vec<Row> {
    let wanted = |exact, plain| [(SOCKETS[0], exact), (SOCKETS[1], exact), (SOCKETS[2], plain)];
    vec![
        row(
            &["P7", "N15", "G1"],
            "the default route's interface, exactly, and as it is for Gloo",
            plain().netdev("ib0", &["10.3.0.5/24"]).netdev("eth01", &["10.9.0.5/24"]),
            &wanted(Set("=eth0"), Set("eth0")),
            &[],
        ),
        // F92: bootstrap went over 169.254.
        row(
            &["P7"],
            "an interface with link-local addresses alone is not taken, though the default route is there",
            plain().netdev("eth0", &["169.254.7.7/16", "fe80::1/64"]).netdev("net9", &["10.9.0.5/24"]),
            &wanted(Set("=net9"), Set("net9")),
            &[],
        ),
        row(
            &["P7"],
            "without a default route the only interface with an address is taken",
            plain().with(|host| host.default_route_netdev = None),
            &wanted(Set("=eth0"), Set("eth0")),
            &[],
        ),
        row(
            &["P7"],
            "without a default route none of several is",
            plain().netdev("net9", &["10.9.0.5/24"]).with(|host| host.default_route_netdev = None),
            &wanted(Unset, Unset),
            &[],
        ),
        row(
            &["P7"],
            "nothing is taken where all addresses are link-local or loopback",
            plain().netdev("eth0", &["169.254.7.7/16"]).netdev("lo", &["127.0.0.1/8"]),
            &wanted(Unset, Unset),
            &[],
        ),
        row(
            &["P7"],
            "NVSHMEM is told the family of an interface with IPv6 alone",
            plain().netdev("eth0", &["2001:db8::5/64"]),
            &[("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", Set("AF_INET6")), (SOCKETS[0], Set("=eth0"))],
            &[],
        ),
        row(
            &["P7"],
            "and none where IPv4 is there",
            plain(),
            &[("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", Unset)],
            &[],
        ),
    ]
}

fn users_sockets() -> Vec<Row> {
    let bench = || plain().netdev("link0", &["169.254.9.9/16"]);
    let user = |rules, what, name: &'static str, value: &'static str, findings| {
        row(rules, what, bench().set(name, value), &[(name, Set(value))], findings)
    };
    vec![
        user(&["N15"], "the beginning of a name is one of NCCL's lists", SOCKETS[0], "eth", &[]),
        // F92
        user(&["N15", "P7"], "a link-local interface is found", SOCKETS[0], "=link0", &["RDC658"]),
        user(&["N15"], "one that is not there is found", SOCKETS[0], "=bond0", &["RDC658"]),
        user(&["N15"], "leaving out all but a link-local one is found", SOCKETS[0], "^eth", &["RDC658"]),
        user(&["G1"], "Gloo takes no beginning of a name", SOCKETS[2], "eth", &["RDC658"]),
        user(&["G1"], "Gloo takes a name", SOCKETS[2], "eth0", &[]),
    ]
}

fn classes() -> Vec<Row> {
    let of_pool = || macvlan_pod().set("ROCADE_TC_RDMA_A", "104").set("ROCADE_SL_RDMA_A", "3");
    let class =
        |value| [("NCCL_IB_TC", value), ("UCX_IB_TRAFFIC_CLASS", value), ("NVSHMEM_IB_TRAFFIC_CLASS", value)];
    let level = |value| [("NCCL_IB_SL", value), ("UCX_IB_SL", value), ("NVSHMEM_IB_SL", value)];
    vec![
        row(
            &["P8", "U3"],
            "the pool's traffic class goes to every library",
            of_pool(),
            &class(Set("104")),
            &[],
        ),
        row(&["P8"], "the pool's service level too", of_pool(), &level(Set("3")), &[]),
        row(
            &["U3", "P8"],
            "without a pool's class the libraries' own stay",
            macvlan_pod(),
            &class(Unset),
            &[],
        ),
        row(
            &["P8"],
            "pools of one class agree",
            of_pool().set("ROCADE_TC_RDMA_B", "104"),
            &class(Set("104")),
            &[],
        ),
        row(
            &["P8"],
            "pools of different classes make none",
            of_pool().set("ROCADE_TC_RDMA_B", "96"),
            &class(Unset),
            &[],
        ),
        row(
            &["U3"],
            "InfiniBand gets no traffic class",
            plain().set("ROCADE_TC_RDMA_A", "104"),
            &class(Unset),
            &[],
        ),
        row(
            &["P8"],
            "InfiniBand gets the service level",
            plain().set("ROCADE_SL_RDMA_A", "3"),
            &level(Set("3")),
            &[],
        ),
        row(
            &["P8"],
            "a class that the user set counts, and differs from the pool's",
            of_pool().set("NCCL_IB_TC", "106"),
            &[("NCCL_IB_TC", Set("106")), ("UCX_IB_TRAFFIC_CLASS", Set("104"))],
            &["RDC659"],
        ),
    ]
}
