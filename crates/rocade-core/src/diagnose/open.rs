//! What goes wrong at this end alone: nothing to choose, libibverbs or its provider, device nodes, locked memory.

use crate::absence::absence;
use crate::gid::NoChoice;
use crate::host::{Accessible, Hca, Host, Limit, Memlock, NetnsMode, Transport};

use super::{Evidence, Said, because, errno, infiniband};

pub(super) fn nothing_chosen(evidence: &Evidence<'_>, why: &NoChoice) -> Said {
    let host = evidence.host;
    match why {
        NoChoice::NoHca => match absence(host) {
            Some(absence) => {
                because(format!("this host offers no RDMA device: {}", absence.reason), absence.cure)
            }
            None => because("no RDMA device came into question", "see `rocade inventory`"),
        },
        NoChoice::UnknownHca { wanted, .. } => because(
            format!("the kernel lists no HCA {wanted} here{}", of_another_namespace(host)),
            "give one of the named with -d, or none: then it is the one that has the connection's address",
        ),
        NoChoice::UnknownPort { wanted, .. } => because(
            format!("no HCA considered has a port {wanted}"),
            "leave -i out, or give a port that there is",
        ),
        NoChoice::UnsetIndex { wanted, .. } => because(
            format!(
                "no address stands at GID index {wanted} now: an index differs between hosts, Pods and boots"
            ),
            "leave -x out: then the GID is the one of the connection's address",
        ),
        NoChoice::NeedsRdmaCm(_) => because(
            "RC as RoCE and InfiniBand have it is not what these HCAs do",
            "test iWARP with a tool that connects by rdma_cm (rping), EFA with one of libfabric (fi_pingpong)",
        ),
        NoChoice::NothingUsable(_) => nothing_usable(evidence),
    }
}

fn of_another_namespace(host: &Host) -> &'static str {
    match host.netns_mode {
        Some(NetnsMode::Exclusive) => {
            " (RDMA netns mode is exclusive: an HCA is seen in the one network namespace that it belongs to)"
        }
        _ => "",
    }
}

/// The commonest reason that an HCA which was considered shares, with what to do about it.
fn nothing_usable(evidence: &Evidence<'_>) -> Said {
    let ports: Vec<_> =
        evidence.host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port))).collect();
    if let Some((hca, port)) = ports.iter().find(|(hca, _)| node_is_missing(hca)) {
        let path = hca.uverbs.as_ref().map(|node| node.path()).unwrap_or_default();
        return because(
            format!("{}/{} has no device node here: {path} is missing", hca.name, port.port),
            "give this container the HCA (resources.limits of its Pod); on a host see udev, and `modprobe ib_uverbs`",
        );
    }
    if let Some((hca, port)) =
        ports.iter().find(|(_, port)| crate::usable::has_foreign_gids_alone(evidence.host, port))
    {
        let of_gid = || port.gids.iter().find_map(|gid| gid.netdev.as_deref());
        let master = port.netdev.as_deref().or_else(of_gid).unwrap_or("its netdev");
        return because(
            format!("{} is RoCE, and no GID of it belongs to this network namespace", hca.name),
            format!(
                "give the Pod an interface on it with an address (a macvlan on {master}, or an SR-IOV VF), or use hostNetwork"
            ),
        );
    }
    let in_init = |port: &crate::Port| port.transport != Transport::Roce && infiniband::lacks_manager(port);
    if let Some((hca, port)) = ports.iter().find(|(_, port)| in_init(port)) {
        return infiniband::no_manager(&format!("{}/{}", hca.name, port.port));
    }
    because(
        "no port of the HCAs considered can carry a test, each for the reason given",
        "see `rocade inventory` and `rocade check`",
    )
}

fn node_is_missing(hca: &Hca) -> bool {
    hca.uverbs.as_ref().is_some_and(|node| node.accessible == Accessible::Missing)
}

const INSTALL: &str = "install libibverbs and its providers: libibverbs1 and ibverbs-providers (Debian, Ubuntu), libibverbs \
                       (Fedora, RHEL)";

pub(super) fn unloaded(reason: &str) -> Said {
    because(format!("libibverbs cannot be loaded: {reason}"), INSTALL)
}

/// The kernel may list an HCA that libibverbs does not offer: node, provider and its version are facts apart.
pub(super) fn not_offered(evidence: &Evidence<'_>, name: &str, offered: &[String]) -> Said {
    let Some(hca) = evidence.host.hca(name) else {
        return because(
            format!("neither the kernel nor libibverbs knows an HCA {name} here"),
            "see `rocade inventory` for those there are",
        );
    };
    let of_this = read_library_output(evidence.library_said).into_iter().find(|said| said.is_of(hca));
    if let Some(LibrarySaid::OtherAbi { provider, kernel, least, most, .. }) = of_this {
        return because(
            format!(
                "the kernel's driver of {name} speaks verbs ABI {kernel}, libibverbs' provider {provider} here only {least} \
                 to {most}"
            ),
            "take an image whose ibverbs-providers (libibverbs in Fedora, RHEL) are as new as the driver; the HCA itself is \
             in order",
        );
    }
    if node_is_missing(hca) {
        let path = hca.uverbs.as_ref().map(|node| node.path()).unwrap_or_default();
        return because(
            format!("the kernel has {name}, but {path} is missing, so libibverbs leaves it out"),
            "give this container the HCA (resources.limits of its Pod)",
        );
    }
    if hca.uverbs.is_none() {
        return because(
            format!("the kernel has {name}, but made no verbs device of it"),
            "modprobe ib_uverbs",
        );
    }
    let abi = hca.uverbs_abi.map_or_else(String::new, |abi| format!(" (its driver speaks verbs ABI {abi})"));
    match (provider(hca), &evidence.host.verbs_providers, of_this) {
        (Some(provider), Some(providers), _) if !providers.iter().any(|there| there == provider) => because(
            format!("the kernel has {name}, but libibverbs here has no provider {provider} for it{abi}"),
            INSTALL,
        ),
        (_, _, Some(LibrarySaid::NoProvider { .. })) => because(
            format!("the kernel has {name}, but libibverbs here has no provider for it{abi}"),
            INSTALL,
        ),
        _ => because(
            format!(
                "the kernel has {name}, but libibverbs offers {}{abi}",
                if offered.is_empty() { "none".to_owned() } else { offered.join(", ") }
            ),
            "its provider is missing or of another version than the driver: `ibv_devices` says which on stderr",
        ),
    }
}

fn provider(hca: &Hca) -> Option<&'static str> {
    let of_software = || hca.ports.iter().any(|port| port.transport == Transport::Roce).then_some("rxe");
    if hca.software { of_software() } else { hca.verbs_provider() }
}

/// A line of libibverbs about a device (rdma-core, libibverbs/init.c).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibrarySaid {
    /// A provider is there, for other versions of the driver's interface.
    OtherAbi {
        /// Name of the HCA, or of its verbs device.
        device: String,
        /// Name of the provider.
        provider: String,
        /// The driver's version.
        kernel: u32,
        /// The oldest that the provider supports.
        least: u32,
        /// The newest.
        most: u32,
    },
    /// No provider is for the device.
    NoProvider {
        /// Name of the HCA, or of its verbs device.
        device: String,
    },
}

impl LibrarySaid {
    fn is_of(&self, hca: &Hca) -> bool {
        let (LibrarySaid::OtherAbi { device, .. } | LibrarySaid::NoProvider { device }) = self;
        device == hca.name.as_str() || hca.uverbs.as_ref().is_some_and(|node| *device == node.node)
    }
}

/// What libibverbs wrote about devices that it does not offer.
pub fn read_library_output(text: &str) -> Vec<LibrarySaid> {
    text.lines().filter_map(read_line).collect()
}

fn read_line(line: &str) -> Option<LibrarySaid> {
    let device = |path: &str| path.trim().rsplit('/').next().map(str::to_owned);
    if let Some((_, path)) = line.split_once("no userspace device-specific driver found for ") {
        return Some(LibrarySaid::NoProvider { device: device(path)? });
    }
    let (_, rest) = line.split_once("Driver ")?;
    let (provider, rest) = rest.split_once(" does not support the kernel ABI of ")?;
    let (kernel, rest) = rest.split_once(" (supports ")?;
    let (least, rest) = rest.split_once(" to ")?;
    let (most, rest) = rest.split_once(") for device ")?;
    let number = |text: &str| text.trim().parse().ok();
    Some(LibrarySaid::OtherAbi {
        device: device(rest)?,
        provider: provider.to_owned(),
        kernel: number(kernel)?,
        least: number(least)?,
        most: number(most)?,
    })
}

pub(super) fn verb_failed(evidence: &Evidence<'_>, verb: &str, errno: i32, bytes: Option<u64>) -> Said {
    match (verb, errno) {
        ("ibv_open_device", _) => unopened(evidence),
        (_, errno::ENOMEM) => out_of_memory(evidence, verb, bytes),
        (_, errno::ENODEV) => because("the HCA went away", "see `dmesg` for the driver's reason"),
        _ => because(format!("the HCA or its driver refuses {verb}"), "see `dmesg` for the driver's reason"),
    }
}

/// libibverbs says ENOENT whatever it was (verbs_open_device looks for another node then), so the node itself is asked.
fn unopened(evidence: &Evidence<'_>) -> Said {
    let hca = evidence.choice.and_then(|choice| evidence.host.hca(choice.hca.as_str()));
    let node = hca.and_then(|hca| hca.uverbs.as_ref());
    let path = node.map_or_else(|| "the HCA's node in /dev/infiniband".to_owned(), |node| node.path());
    match evidence.node_refused.as_deref() {
        Some("EPERM") => because(
            format!("{path} is there, but the container's device cgroup forbids to open it"),
            "have the HCA granted (resources.limits of the Pod): a node that was only mounted, by hostPath, is not",
        ),
        Some("EACCES") => because(
            format!("this user may not open {path}"),
            "run as root, or give the node mode 0666, as rdma-core's udev rules do",
        ),
        Some("ENOENT") => {
            because(format!("{path} is missing"), "give this container the HCA (resources.limits of its Pod)")
        }
        Some(errno) => because(
            format!("{path} does not open ({errno})"),
            "nodes get new numbers when a driver is loaded again: start the container anew; else see `dmesg`",
        ),
        None => because(
            format!("libibverbs does not open {path}"),
            "is it granted to this container (resources.limits of its Pod), and may this user open it? Else see `dmesg`",
        ),
    }
}

/// ENOMEM of a verb that pins memory is the limit of locked memory, unless nothing limits it.
fn out_of_memory(evidence: &Evidence<'_>, verb: &str, bytes: Option<u64>) -> Said {
    let needs = |of: &str| match bytes {
        Some(bytes) => format!("{verb} needs {} of{of}", in_words(bytes)),
        None => format!("{verb} needs more{of} than it gets"),
    };
    match (evidence.ipc_lock, evidence.memlock) {
        (Some(true), _) | (_, Some(Memlock { soft: Limit::Unlimited, .. })) => because(
            format!("{}; no limit of locked memory is in its way", needs(" memory")),
            "the memory itself is short: give the container more, or choose a smaller -s, -q or -t",
        ),
        (_, Some(Memlock { soft: Limit::Bytes(soft), hard })) => {
            let may = format!("this process may lock {} in all (RLIMIT_MEMLOCK)", in_words(soft));
            let raise = raise(evidence, hard);
            match bytes.is_some_and(|bytes| bytes > soft) {
                true => because(format!("{}; {may}", needs(" locked memory")), raise),
                // The kernel adds up what the process has pinned (drivers/infiniband/core/umem.c, ib_umem_get).
                false => because(
                    format!("{}; {may}, with what it has locked already", needs(" memory")),
                    format!("either that is too little: {raise}; or {}", short(verb)),
                ),
            }
        }
        (_, None) => because(
            needs(" memory"),
            "see `ulimit -l` for the limit of locked memory, and raise it; or choose a smaller -s, -q or -t",
        ),
    }
}

/// What else ENOMEM says.
fn short(verb: &str) -> &'static str {
    match verb {
        "ibv_reg_mr" => "the memory itself is short",
        _ => "the memory itself is short, or the HCA has no more of it (see `ibv_devinfo -v`)",
    }
}

fn raise(evidence: &Evidence<'_>, hard: Limit) -> String {
    let smaller = "or choose a smaller -s, -q or -t";
    match (hard, evidence.host.pod.is_some()) {
        (Limit::Unlimited, _) => {
            format!("`ulimit -l unlimited` before it: the hard limit allows it; {smaller}")
        }
        (Limit::Bytes(_), true) => format!(
            "for root add the capability IPC_LOCK to the container; for another user set LimitMEMLOCK=infinity in the \
             systemd unit of the container runtime (limits.conf does not reach containers); {smaller}"
        ),
        (Limit::Bytes(hard), false) => format!(
            "the hard limit is {}: raise it in /etc/security/limits.conf, or by LimitMEMLOCK=infinity in the systemd unit; \
             {smaller}",
            in_words(hard)
        ),
    }
}

/// Bytes as people write them; whole units alone.
pub(crate) fn in_words(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// RESET → INIT fails by port or partition key.
pub(super) fn init_failed(evidence: &Evidence<'_>, errno: i32) -> Said {
    infiniband::wrong_key(evidence).unwrap_or_else(|| match errno {
        errno::EINVAL => because(
            "the kernel refuses the port or the index of the partition key",
            "choose a port that there is with -i, and an index of a set key (--pkey-index)",
        ),
        _ => because("the kernel refuses to set the QP up", "see `dmesg` for the driver's reason"),
    })
}
