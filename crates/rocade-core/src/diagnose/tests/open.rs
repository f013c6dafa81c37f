//! What goes wrong at this end alone.

use super::*;
use crate::gid::{NoChoice, Wish, choose_gid};
use crate::host::{Limit, NetnsMode};

const KIB: u64 = 1 << 10;

fn no_memory(verb: &str, bytes: u64) -> Case {
    Case::of(Failure::Verb { verb: verb.into(), errno: 12, bytes: Some(bytes) })
}

fn memlock(soft: Limit, hard: Limit) -> Option<Memlock> {
    Some(Memlock { soft, hard })
}

/// F77: a small test passes, one of large messages or many entries fails, in the words of two verbs.
#[test]
fn both_verbs_that_pin_memory_are_told_as_the_limit_of_locked_memory_with_both_numbers() {
    let limit = memlock(Limit::Bytes(64 * KIB), Limit::Bytes(64 * KIB));
    no_memory("ibv_reg_mr", 16 << 20).with(|case| case.memlock = limit).says(
        "ibv_reg_mr needs 16 MiB of locked memory; this process may lock 64 KiB in all (RLIMIT_MEMLOCK)",
        "the hard limit is 64 KiB: raise it in /etc/security/limits.conf, or by LimitMEMLOCK=infinity",
    );
    no_memory("ibv_create_cq", 128 * KIB).with(|case| case.memlock = limit).says(
        "ibv_create_cq needs 128 KiB of locked memory; this process may lock 64 KiB in all (RLIMIT_MEMLOCK)",
        "LimitMEMLOCK=infinity",
    );
    Case::of(Failure::Verb { verb: "ibv_create_cq".into(), errno: 12, bytes: None })
        .with(|case| case.memlock = limit)
        .says(
            "ibv_create_cq needs more memory than it gets; this process may lock 64 KiB in all (RLIMIT_MEMLOCK), with what it \
             has locked already",
            "LimitMEMLOCK=infinity",
        );
}

#[test]
fn a_limit_that_is_larger_than_what_was_asked_for_is_not_the_only_one_blamed() {
    let limit = memlock(Limit::Bytes(64 << 30), Limit::Bytes(64 << 30));
    no_memory("ibv_reg_mr", 4 << 20).with(|case| case.memlock = limit).says(
        "ibv_reg_mr needs 4 MiB of memory; this process may lock 65536 MiB in all (RLIMIT_MEMLOCK), with what it has locked \
         already",
        "or the memory itself is short",
    );
    Case::of(Failure::Verb { verb: "ibv_create_qp".into(), errno: 12, bytes: None })
        .with(|case| case.memlock = limit)
        .says(
            "ibv_create_qp needs more memory than it gets; this process may lock 65536 MiB in all (RLIMIT_MEMLOCK), with what \
             it has locked already",
            "or the HCA has no more of it",
        );
}

#[test]
fn how_to_raise_the_limit_depends_on_where_the_process_is() {
    let in_pod = |case: &mut Case| case.host.pod = Some(crate::host::Pod::default());
    let limit = memlock(Limit::Bytes(8192 * KIB), Limit::Bytes(8192 * KIB));
    let cause =
        "ibv_reg_mr needs 16 MiB of locked memory; this process may lock 8 MiB in all (RLIMIT_MEMLOCK)";
    let case = || no_memory("ibv_reg_mr", 16 << 20).with(|case| case.memlock = limit);
    case().with(in_pod).says(cause, "for root add the capability IPC_LOCK to the container");
    case().with(in_pod).says(cause, "limits.conf does not reach containers");
    let soft_only = memlock(Limit::Bytes(8192 * KIB), Limit::Unlimited);
    case().with(|case| case.memlock = soft_only).says(cause, "`ulimit -l unlimited` before it");
}

#[test]
fn where_no_limit_binds_the_memory_itself_is_short() {
    let cause = "ibv_reg_mr needs 16 MiB of memory; no limit of locked memory is in its way";
    let unlimited = memlock(Limit::Unlimited, Limit::Unlimited);
    no_memory("ibv_reg_mr", 16 << 20)
        .with(|case| case.memlock = unlimited)
        .says(cause, "the memory itself is short");
    no_memory("ibv_reg_mr", 16 << 20)
        .with(|case| {
            case.memlock = memlock(Limit::Bytes(1), Limit::Bytes(1));
            case.ipc_lock = Some(true);
        })
        .says(cause, "the memory itself is short");
}

/// libibverbs says ENOENT for each of them.
#[test]
fn a_node_that_does_not_open_is_told_by_what_the_node_itself_says() {
    for (refused, cause, cure) in [
        (
            Some("EPERM"),
            "/dev/infiniband/uverbs0 is there, but the container's device cgroup forbids to open it",
            "resources.limits",
        ),
        (Some("EACCES"), "this user may not open /dev/infiniband/uverbs0", "0666"),
        (Some("ENOENT"), "/dev/infiniband/uverbs0 is missing", "resources.limits"),
        (Some("ENXIO"), "/dev/infiniband/uverbs0 does not open (ENXIO)", "start the container anew"),
        (None, "libibverbs does not open /dev/infiniband/uverbs0", "may this user open it"),
    ] {
        Case::of(Failure::Verb { verb: "ibv_open_device".into(), errno: 2, bytes: None })
            .with(|case| case.node_refused = refused.map(str::to_owned))
            .says(cause, cure);
    }
}

fn nothing_chosen(change: impl FnOnce(&mut Host)) -> Case {
    let mut host = host();
    change(&mut host);
    crate::usable::judge(&mut host);
    let why = choose_gid(&host, &Wish::default()).unwrap_err();
    Case::of(Failure::NoChoice(why)).with(|case| case.host = host)
}

/// F57: a Pod on the cluster's network alone sees the HCA, and none of its GIDs is the Pod's.
#[test]
fn an_hca_without_a_gid_of_this_namespace_is_told_with_the_interface_to_attach() {
    let in_pod = |host: &mut Host| {
        host.hcas.truncate(1);
        host.netdevs = vec![netdev("eth0", "10.244.0.9")];
    };
    nothing_chosen(in_pod).says(
        "rxe1 is RoCE, and no GID of it belongs to this network namespace",
        "a macvlan on eth1, or an SR-IOV VF), or use hostNetwork",
    );
    // In the Pod only the table tells the name.
    let unseen = |host: &mut Host| {
        in_pod(host);
        host.hcas[0].ports[0].netdev = None;
    };
    nothing_chosen(unseen)
        .says("rxe1 is RoCE, and no GID of it belongs to this network namespace", "a macvlan on eth1");
}

#[test]
fn nothing_to_choose_is_told_by_what_the_host_lacks() {
    let node = |host: &mut Host| {
        host.hcas.truncate(1);
        host.hcas[0].uverbs.as_mut().unwrap().accessible = Accessible::Missing;
    };
    nothing_chosen(node)
        .says("rxe1/1 has no device node here: /dev/infiniband/uverbs0 is missing", "resources.limits");
    let no_manager = |host: &mut Host| {
        host.hcas.truncate(1);
        let port = &mut host.hcas[0].ports[0];
        (port.link_layer, port.transport) = (LinkLayer::InfiniBand, Transport::Infiniband);
        port.state = Some("INIT".into());
    };
    nothing_chosen(no_manager)
        .says("no subnet manager has set up rxe1/1: its state is INIT or its SM LID 0", "opensm");
    let down =
        |host: &mut Host| host.hcas.iter_mut().for_each(|hca| hca.ports[0].state = Some("DOWN".into()));
    nothing_chosen(down).says(
        "no port of the HCAs considered can carry a test, each for the reason given",
        "rocade inventory",
    );
    let iwarp =
        |host: &mut Host| host.hcas.iter_mut().for_each(|hca| hca.ports[0].transport = Transport::Iwarp);
    nothing_chosen(iwarp).says("RC as RoCE and InfiniBand have it is not what these HCAs do", "rping");
}

#[test]
fn no_hca_at_all_is_told_by_its_reason_and_exclusive_namespaces_are_named() {
    let none = |host: &mut Host| {
        host.hcas.clear();
        host.netns_mode = Some(NetnsMode::Exclusive);
        let node =
            CharDevice { node: "uverbs0".into(), major: 231, minor: 192, accessible: Accessible::Missing };
        host.orphan_uverbs = vec![node];
    };
    nothing_chosen(none).says(
        "this host offers no RDMA device: uverbs0 belong to HCAs of other network namespaces (RDMA netns mode is \
         exclusive)",
        "rdma dev set HCA netns PID",
    );
    let wanted = "mlx5_0".parse().unwrap();
    Case::of(Failure::NoChoice(NoChoice::UnknownHca { wanted, present: vec![] }))
        .with(|case| case.host.netns_mode = Some(NetnsMode::Exclusive))
        .says(
            "the kernel lists no HCA mlx5_0 here (RDMA netns mode is exclusive: an HCA is seen in the one network \
             namespace that it belongs to)",
            "-d",
        );
    let index = NoChoice::UnsetIndex { wanted: GidIndex(3), usable: vec![] };
    Case::of(Failure::NoChoice(index)).says(
        "no address stands at GID index 3 now: an index differs between hosts, Pods and boots",
        "leave -x out",
    );
}

fn not_offered() -> Case {
    let failure = Failure::NotOffered { hca: "bnxt_re0".into(), offered: vec!["mlx5_0".into()] };
    Case::of(failure).with(|case| {
        let mut bnxt = hca("bnxt_re0", "eth1", "10.1.0.1", 0);
        (bnxt.software, bnxt.driver, bnxt.uverbs_abi) = (false, Some("bnxt_en".into()), Some(6));
        case.host.hcas[0] = bnxt;
    })
}

/// F79: the kernel's driver is newer than the image's provider.
#[test]
fn a_provider_of_another_abi_is_told_from_a_missing_hca_by_what_libibverbs_said() {
    let said = "libibverbs: Warning: Driver bnxt_re does not support the kernel ABI of 6 (supports 1 to 1) for device \
                /sys/class/infiniband/bnxt_re0\n";
    not_offered().with(|case| case.library_said = said.into()).says(
        "the kernel's driver of bnxt_re0 speaks verbs ABI 6, libibverbs' provider bnxt_re here only 1 to 1",
        "as new as the driver; the HCA itself is in order",
    );
    let of_another = said.replace("bnxt_re0", "bnxt_re1");
    not_offered().with(|case| case.library_said = of_another).does_not_say("supports");
}

/// F80: management devices are there, and `Did not detect devices` is all that a test says.
#[test]
fn a_missing_provider_is_told_by_name_and_by_what_libibverbs_has() {
    let wanted = "the kernel has bnxt_re0, but libibverbs here has no provider bnxt_re for it (its driver speaks verbs ABI 6)";
    not_offered()
        .with(|case| case.host.verbs_providers = Some(vec!["mlx5".into(), "rxe".into()]))
        .says(wanted, "ibverbs-providers");
    let said = "libibverbs: Warning: no userspace device-specific driver found for ";
    for device in ["/sys/class/infiniband_verbs/uverbs0", "bnxt_re0"] {
        not_offered().with(|case| case.library_said = format!("{said}{device}\n")).says(
            "the kernel has bnxt_re0, but libibverbs here has no provider for it (its driver speaks verbs ABI 6)",
            "ibverbs-providers",
        );
    }
    Case::of(Failure::NotOffered { hca: "rxe1".into(), offered: vec![] })
        .with(|case| case.host.verbs_providers = Some(vec!["mlx5".into()]))
        .says("the kernel has rxe1, but libibverbs here has no provider rxe for it", "ibverbs-providers");
}

/// F79, F80: what keeps libibverbs from offering an HCA that the kernel has, and no HCA at all, are facts apart.
#[test]
fn node_module_and_device_are_told_apart_from_the_provider() {
    not_offered()
        .with(|case| case.host.hcas[0].uverbs.as_mut().unwrap().accessible = Accessible::Missing)
        .says(
            "the kernel has bnxt_re0, but /dev/infiniband/uverbs0 is missing, so libibverbs leaves it out",
            "resources.limits",
        );
    not_offered()
        .with(|case| case.host.hcas[0].uverbs = None)
        .says("the kernel has bnxt_re0, but made no verbs device of it", "ib_uverbs");
    not_offered()
        .with(|case| case.host.hcas.clear())
        .says("neither the kernel nor libibverbs knows an HCA bnxt_re0 here", "rocade inventory");
    // The provider is there, and why it does not offer the HCA was not caught.
    not_offered().with(|case| case.host.verbs_providers = Some(vec!["bnxt_re".into()])).says(
        "the kernel has bnxt_re0, but libibverbs offers mlx5_0 (its driver speaks verbs ABI 6)",
        "`ibv_devices`",
    );
    Case::of(Failure::Library { reason: "libibverbs.so.1: cannot open shared object file".into() })
        .says("libibverbs cannot be loaded: libibverbs.so.1: cannot open shared object file", "libibverbs1");
}

#[test]
fn a_partition_key_that_is_not_there_fails_the_first_transition() {
    let init = || Case::of(Failure::Transition { to: State::Init, errno: 22 });
    init().says("the kernel refuses the port or the index of the partition key", "--pkey-index");
    init().with(|case| (case.local.pkey_index, case.local.pkey_table_len) = (Some(130), Some(128))).says(
        "index 130 is beyond the port's table of partition keys, which has 128 entries",
        "--pkey-index",
    );
}
