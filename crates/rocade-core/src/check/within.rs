//! Rules about the process that looks, in a Pod or not: nodes that were tried, memory that it may lock or really locked,
//! shared memory. They find nothing where only the host is known: `rocade verify` finds them.

pub(crate) mod traffic;

use super::{Case, Rule, Sheet, port_name};
use crate::diagnose::in_words;
use crate::finding::Severity;
use crate::host::{Limit, Memlock, Port, Transport, roce_path_mtu};
use crate::names::{HcaName, PortNum};
use crate::pod::{Tried, is_granted};

/// Below this much of lockable memory, 64 MiB, communication libraries do not start: their first buffers are larger.
const LEAST_LOCKED: u64 = 64 << 20;
/// What container runtimes give /dev/shm when nobody asks for more.
const USUAL_SHM: u64 = 64 << 20;

/// What the process that looks may do, and what it tried. What is None, or not in a list, is not known.
#[derive(Debug, Clone, Default)]
pub struct Within {
    /// Verbs nodes that were opened and closed at once.
    pub tried: Tried,
    /// Effective user.
    pub user: Option<u32>,
    /// Whether CAP_IPC_LOCK is in effect, in the first user namespace: then no limit of locked memory counts.
    pub ipc_lock: Option<bool>,
    /// Size of /dev/shm, bytes.
    pub shm_bytes: Option<u64>,
    /// Memory that was really registered, or was not.
    pub registered: Vec<Registered>,
    /// Path MTU of a port, bytes, as the driver tells it: the one of the HCA's own interface, which a Pod may not see.
    pub path_mtus: Vec<(HcaName, PortNum, u32)>,
    /// Writes of ports to themselves; None where none was asked for.
    pub looped: Option<Vec<traffic::Looped>>,
}

/// One attempt to register memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The HCA that was to reach it.
    pub hca: HcaName,
    /// How much.
    pub bytes: u64,
    /// None where it went well.
    pub refused: Option<Refused>,
}

/// Why an attempt to register memory failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The error as it was said.
    pub why: String,
    /// Whether it was ENOMEM: the limit of locked memory, unless memory itself is short.
    pub out_of_memory: bool,
}

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC611",
        severity: Severity::Error,
        title: "A verbs node that is here does not open",
        why: "The node alone is not a grant: the device cgroup, the user's rights or the driver refuse it. A note where other \
              HCAs were granted and this one was not.",
        cure: "",
        judge: refused,
    },
    Rule {
        code: "RDC612",
        severity: Severity::Error,
        title: "Memory could not be registered",
        why: "Every RDMA transfer needs registered memory, and registering locks it. Libraries fall back to TCP without a word.",
        cure: "",
        judge: unregistered,
    },
    Rule {
        code: "RDC613",
        severity: Severity::Note,
        title: "/dev/shm is as small as the container runtime makes it",
        why: "NCCL, UCX and data loaders share memory between the processes of a Pod there. A warning where there are GPUs.",
        cure: "mount an emptyDir of medium Memory at /dev/shm",
        judge: small_shm,
    },
    Rule {
        code: "RDC614",
        severity: Severity::Warning,
        title: "The Pod's interface has a smaller MTU than the HCA's own",
        why: "Connections by rdma_cm take the path MTU of the Pod's interface and others that of the port, so the two ends of \
              a job may not agree; TCP beside it is slower.",
        cure: "give the network attachment the MTU of its master (`\"mtu\": 9000` in its config), or leave `mtu` out",
        judge: small_mtu,
    },
    Rule {
        code: "RDC615",
        severity: Severity::Error,
        title: "A port's writes to itself fail",
        why: "The HCA is granted, opens and has an address, and moves no bytes, or other bytes than were written. Where \
              nothing comes back from hardware this is not judged: not every HCA loops back.",
        cure: "",
        judge: traffic::broken,
    },
];

/// RDC106 with what is known of the process.
pub(super) fn memlock(case: &Case<'_>, within: &Within, memlock: Memlock, sheet: &mut Sheet<'_>) {
    let Limit::Bytes(soft) = memlock.soft else { return };
    // With the capability in effect the kernel does not ask for the limit (drivers/infiniband/core/umem.c).
    if within.ipc_lock == Some(true) {
        return;
    }
    let least = in_words(LEAST_LOCKED);
    let seen = format!("{}; {}", limits(memlock), lock_right(within));
    let proven = !within.registered.is_empty() && within.registered.iter().all(|one| one.refused.is_none());
    let finding = sheet.find("memlock", seen, format!("unlimited, or IPC_LOCK in effect; {least} at least"));
    if soft < LEAST_LOCKED && within.ipc_lock == Some(false) && !proven {
        finding.severity = Severity::Error;
    }
    finding.cure = raise(case, within, memlock);
}

fn limits(memlock: Memlock) -> String {
    let words = |limit| match limit {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::Bytes(bytes) => in_words(bytes),
    };
    format!("memlock soft {}, hard {}", words(memlock.soft), words(memlock.hard))
}

fn lock_right(within: &Within) -> String {
    match (within.ipc_lock, within.user) {
        (Some(true), _) => "IPC_LOCK is in effect".into(),
        (Some(false), Some(user)) if user != 0 => {
            format!("IPC_LOCK is not in effect for user {user}: a user other than root never has it so")
        }
        (Some(false), _) => "IPC_LOCK is not in effect, so the limit of the container runtime holds".into(),
        (None, _) => "whether IPC_LOCK is in effect is not known".into(),
    }
}

/// How this process gets to lock memory: the first that can help.
fn raise(case: &Case<'_>, within: &Within, memlock: Memlock) -> String {
    let runtime = "raise the container runtime's limit, by LimitMEMLOCK=infinity in its systemd unit (containerd, crio) and a \
                   restart, by `base_runtime_spec` of containerd for a RuntimeClass, or by an NRI plugin that sets the \
                   rlimit (docs/memlock.md)";
    match (memlock.hard, case.host.pod.is_some(), within.user) {
        (Limit::Unlimited, ..) => "`ulimit -l unlimited` before the program: the hard limit allows it".into(),
        (_, true, Some(0)) => {
            "add the capability IPC_LOCK to the container (securityContext.capabilities.add)".into()
        }
        (_, true, Some(_)) => format!("{runtime}; IPC_LOCK does nothing for a user other than root"),
        (_, true, None) => format!("as root, add the capability IPC_LOCK; as another user, {runtime}"),
        (_, false, _) => "LimitMEMLOCK=infinity in the unit that starts it, or /etc/security/limits.d".into(),
    }
}

fn refused(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(within) = case.against.within else { return };
    let opens = within.tried.values().any(Option::is_none);
    for (name, errno) in within.tried.iter().filter_map(|(name, errno)| Some((name, errno.as_deref()?))) {
        let Some(hca) = case.host.hca(name.as_str()) else { continue };
        let node = hca.uverbs.as_ref().map_or_else(|| "its node".to_owned(), |device| device.path());
        let granted = is_granted(case.host, hca);
        let finding = sheet.find(name, format!("{node} is here and does not open ({errno})"), "it opens");
        finding.cure = cure_of(errno).into();
        if granted == Some(false) || (granted.is_none() && opens) {
            finding.severity = Severity::Note;
        }
    }
}

fn cure_of(errno: &str) -> &'static str {
    match errno {
        "EPERM" => {
            "ask for the resource under resources.limits: a node that a hostPath volume brought is not allowed by the \
             container's device cgroup"
        }
        "EACCES" => "see the node's mode and owner: this user may not read and write it",
        "ENXIO" | "ENODEV" | "EIO" => {
            "recreate the Pod: the driver was reloaded or the HCA is gone; see `dmesg` of the node"
        }
        _ => "recreate the Pod; see `dmesg` of the node",
    }
}

fn unregistered(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(within) = case.against.within else { return };
    for one in &within.registered {
        let Some(refused) = &one.refused else { continue };
        let what = format!("{} could not be registered ({})", in_words(one.bytes), refused.why);
        match case.host.memlock.filter(|_| refused.out_of_memory && within.ipc_lock != Some(true)) {
            Some(memlock) if memlock.soft != Limit::Unlimited => {
                let seen = format!("{what}; {}; {}", limits(memlock), lock_right(within));
                sheet.find(&one.hca, seen, "memory that can be locked").cure = raise(case, within, memlock);
            }
            _ if refused.out_of_memory => {
                let seen = format!("{what}; no limit of locked memory is known to be in its way");
                sheet.find(&one.hca, seen, "registered memory").cure =
                    "give the container more memory (resources.limits.memory), or register less".into();
            }
            _ => {
                sheet.find(&one.hca, what, "registered memory").cure =
                    "see `rocade check` for the provider of libibverbs, and `dmesg` of the node".into();
            }
        }
    }
}

fn small_shm(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(bytes) = case.against.within.and_then(|within| within.shm_bytes) else { return };
    if case.host.pod.is_some() && bytes <= USUAL_SHM {
        let finding = sheet.find("/dev/shm", in_words(bytes), "room for what processes share");
        if !case.host.accelerators.is_empty() {
            finding.severity = Severity::Warning;
        }
    }
}

fn small_mtu(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(within) = case.against.within else { return };
    for (hca, port) in case.ports().filter(|(_, port)| port.transport == Transport::Roce) {
        let at = |(name, number, _): &&(HcaName, PortNum, u32)| *name == hca.name && *number == port.port;
        let Some((.., of_port)) = within.path_mtus.iter().find(at) else { continue };
        for netdev in own_interfaces(case, port) {
            let own = roce_path_mtu(netdev.1, hca.software);
            if own.is_some_and(|own| own < *of_port) {
                let seen = format!("{} has MTU {}, the port's path MTU is {of_port}", netdev.0, netdev.1);
                sheet.say(port_name(hca, port), seen, "an interface that carries the port's path MTU");
            }
        }
    }
}

/// This namespace's interfaces that the port has GIDs of, with their MTUs, bytes.
fn own_interfaces<'a>(case: &Case<'a>, port: &'a Port) -> Vec<(&'a str, u32)> {
    let host = case.host;
    let own = port.gids.iter().filter(|gid| host.owns(gid));
    let mut found: Vec<(&str, u32)> = own
        .filter_map(|gid| host.netdev(gid.netdev.as_deref()?))
        .map(|netdev| (netdev.name.as_str(), netdev.mtu))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}
