//! What the user has set: it counts, and what does not fit is found.

use super::bench::{Bench, OWN_ON_NET2, macvlan_pod, pod};
use super::*;
use crate::host::Accessible;

/// mlx5_1 is ours, mlx5_10 and mlx5_2 are seen only.
fn beside_others() -> Bench {
    pod()
        .infiniband("mlx5_1")
        .infiniband("mlx5_2")
        .node(Accessible::Missing)
        .infiniband("mlx5_10")
        .node(Accessible::Missing)
}

pub(super) fn rows() -> Vec<Row> {
    [nccl_lists(), ucx_lists(), turned_off(), fixed(), ranges(), reach()].into_iter().flatten().collect()
}

fn nccl(what: &'static str, value: &'static str, findings: &'static [&'static str]) -> Row {
    let wanted = [("NCCL_IB_HCA", Set(value)), ("UCX_NET_DEVICES", Set("mlx5_1:1"))];
    row(&["N1"], what, beside_others().set("NCCL_IB_HCA", value), &wanted, findings)
}

fn nccl_lists() -> Vec<Row> {
    vec![
        // F86
        nccl("mlx5_1 without `=` also means mlx5_10", "mlx5_1", &["RDC653", "RDC654"]),
        nccl("with `=` it does not", "=mlx5_1", &[]),
        nccl("nor with `=` and its port", "=mlx5_1:1", &[]),
        nccl("with another port it means nothing of ours", "=mlx5_1:2", &["RDC652"]),
        nccl("`^=` leaves out exact names", "^=mlx5_10,mlx5_2", &[]),
        nccl("`^` leaves out what begins so, ours too", "^mlx5_1", &["RDC652", "RDC653", "RDC654"]),
        nccl("`=^` leaves out nothing", "=^mlx5_10", &["RDC653"]),
        nccl("a beginning of all names means what was not granted", "mlx5", &["RDC654"]),
        row(
            &["N1"],
            "an empty value counts as not set",
            beside_others().set("NCCL_IB_HCA", ""),
            &[("NCCL_IB_HCA", Set("=mlx5_1:1"))],
            &[],
        ),
        row(
            &["N12"],
            "a list over both link layers is found",
            macvlan_pod().infiniband("mlx5_7").set("NCCL_IB_HCA", "=mlx5_2,mlx5_7"),
            &[("NCCL_IB_HCA", Set("=mlx5_2,mlx5_7"))],
            &["RDC655"],
        ),
    ]
}

fn ucx(what: &'static str, value: &'static str, findings: &'static [&'static str]) -> Row {
    let wanted = [("UCX_NET_DEVICES", Set(value)), ("NCCL_IB_HCA", Set("=mlx5_1:1"))];
    row(&["U1"], what, beside_others().set("UCX_NET_DEVICES", value), &wanted, findings)
}

fn ucx_lists() -> Vec<Row> {
    vec![
        // F87: meant for NCCL's sockets, and RDMA was off.
        ucx("UCX takes eth0 for the only device", "eth0", &["RDC652"]),
        ucx("UCX takes a name without a port for all ports", "mlx5_1", &[]),
        ucx("UCX takes no beginning of a name", "mlx5", &["RDC652"]),
        ucx("UCX takes a range of names", "mlx5_[0-1]:1", &[]),
        ucx("and one that reaches further", "mlx5_[1-2]:1", &["RDC654"]),
        ucx("UCX leaves out a list after `^`", "^mlx5_1:1", &["RDC652"]),
        ucx("UCX takes `all` for what it can open", "all", &[]),
    ]
}

fn turned_off() -> Vec<Row> {
    let off = |rules, what, name: &'static str, value: &'static str, findings| {
        row(rules, what, macvlan_pod().set(name, value), &[("NCCL_IB_HCA", Set("=mlx5_2:1"))], findings)
    };
    vec![
        // F87
        off(&["U4"], "TCP alone turns UCX's RDMA off", "UCX_TLS", "tcp", &["RDC651"]),
        off(&["U4"], "shared memory and copies alone too", "UCX_TLS", "sm,cuda_copy,self", &["RDC651"]),
        off(&["U4"], "rc among the transports does not", "UCX_TLS", "rc,cuda_copy,sm", &[]),
        off(&["U4"], "nor a kind of dc", "UCX_TLS", "dc_x,self", &[]),
        off(&["U4"], "all but tcp does not", "UCX_TLS", "^tcp", &[]),
        off(&["U4"], "all but ib does", "UCX_TLS", "^ib", &["RDC651"]),
        off(&["N16"], "NCCL_IB_DISABLE turns NCCL's RDMA off", "NCCL_IB_DISABLE", "1", &["RDC651"]),
        off(&["N16"], "at 0 it does not", "NCCL_IB_DISABLE", "0", &[]),
        off(&["N16"], "NCCL_NET=Socket turns it off too", "NCCL_NET", "Socket", &["RDC651"]),
        row(
            &["U4"],
            "transports are left to UCX",
            macvlan_pod(),
            &[("UCX_TLS", Unset), ("UCX_IB_ROCE_SUBNETS", Absent)],
            &[],
        ),
        row(
            &["N16"],
            "time-outs, queue pairs and the like keep their defaults",
            macvlan_pod(),
            &[
                ("NCCL_IB_TIMEOUT", Absent),
                ("NCCL_IB_RETRY_CNT", Absent),
                ("NCCL_IB_QPS_PER_CONNECTION", Absent),
                ("NCCL_IB_PCI_RELAXED_ORDERING", Absent),
                ("NCCL_IB_ADAPTIVE_ROUTING", Absent),
                ("NCCL_IB_MERGE_NICS", Absent),
            ],
            &[],
        ),
    ]
}

fn fixed() -> Vec<Row> {
    let index = |rules, what, name: &'static str, value: &'static str, findings| {
        row(rules, what, macvlan_pod().set(name, value), &[(name, Set(value))], findings)
    };
    vec![
        index(
            &["N10"],
            "a fixed index that is the own address's is left in peace",
            "NCCL_IB_GID_INDEX",
            "3",
            &[],
        ),
        index(&["N10"], "one of version 1 is found", "NCCL_IB_GID_INDEX", "2", &["RDC656"]),
        index(&["N10"], "one that is unset is found", "NCCL_IB_GID_INDEX", "9", &["RDC656"]),
        index(&["N10"], "a link-local one is found, with UCX too", "UCX_IB_GID_INDEX", "1", &["RDC656"]),
        // F70
        row(
            &["N10"],
            "one of another Pod is found",
            macvlan_pod()
                .netdev("net2", &["10.1.1.5/24"])
                .roce("mlx5_3", OWN_ON_NET2)
                .with_port(|port| port.gids.truncate(2))
                .with_port(|port| port.gids[1].address = Some("10.1.1.9".parse().unwrap()))
                .roce("mlx5_4", &["3 v2 net2 10.1.1.5", "5 v2 net1 10.1.1.8"])
                .set("NCCL_IB_GID_INDEX", "5")
                .set("NCCL_IB_HCA", "=mlx5_4"),
            &[("NCCL_IB_GID_INDEX", Set("5"))],
            &["RDC656"],
        ),
        row(
            &["N11"],
            "on InfiniBand an index is no matter",
            pod().infiniband("mlx5_0").set("NCCL_IB_GID_INDEX", "3"),
            &[("NCCL_IB_GID_INDEX", Set("3"))],
            &[],
        ),
    ]
}

fn ranges() -> Vec<Row> {
    let range = |what, name: &'static str, value: &'static str, findings| {
        let rules: &'static [&'static str] = if name.ends_with("FAMILY") { &["N7"] } else { &["N8"] };
        row(rules, what, macvlan_pod().set(name, value), &[(name, Set(value))], findings)
    };
    vec![
        range(
            "a range without `/` is ignored by NCCL, and found",
            "NCCL_IB_ADDR_RANGE",
            "10.1.0.0",
            &["RDC657"],
        ),
        range("a range that holds no own address is found", "NCCL_IB_ADDR_RANGE", "10.2.0.0/16", &["RDC657"]),
        range("a wider range is left in peace", "NCCL_IB_ADDR_RANGE", "10.0.0.0/8", &[]),
        range("a family that is no word of NCCL's is found", "NCCL_IB_ADDR_FAMILY", "ipv4", &["RDC657"]),
        range("AF_INET is left in peace", "NCCL_IB_ADDR_FAMILY", "AF_INET", &[]),
    ]
}

fn reach() -> Vec<Row> {
    let level = |what, value: &'static str, findings| {
        let bench = macvlan_pod().set("NCCL_NET_GDR_LEVEL", value);
        row(&["N13"], what, bench, &[("NCCL_NET_GDR_LEVEL", Set(value))], findings)
    };
    vec![
        level("GPUDirect over the link between sockets is found", "SYS", &["RDC660"]),
        level("GPUDirect through the host bridge was perhaps measured", "PHB", &[]),
    ]
}
