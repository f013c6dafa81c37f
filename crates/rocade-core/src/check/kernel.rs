//! Rules about the host and its kernel: RDC10x. GPUs are in `gpu`, addresses and routes in `address`.

use super::{Case, Rule, Sheet, why, within};
use crate::absence::absence;
use crate::finding::Severity;
use crate::host::{Accessible, Limit, NetnsMode};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC101",
        severity: Severity::Error,
        title: "There is no RDMA device",
        why: "Hardware, driver, kernel module, network namespace and device nodes are four facts apart: the finding names \
              the first that is missing, and where it was read.",
        cure: "",
        judge: none,
    },
    Rule {
        code: "RDC102",
        severity: Severity::Error,
        title: "An HCA is listed, but cannot be read",
        why: "It went away while it was read, or is being removed: a driver reload, a hot unplug, a dead card. Tools that \
              stop at it hide the healthy ones.",
        cure: "see `dmesg` for its driver's reason; if a driver was reloaded, look again when that is done",
        judge: vanished,
    },
    Rule {
        code: "RDC103",
        severity: Severity::Warning,
        title: "There is no /dev/infiniband/rdma_cm",
        why: "Programs that connect by the RDMA CM (perftest's -R, NVMe over RDMA, MPI with rdmacm) cannot start. Verbs \
              alone do not need it. In a Pod it is a note: not every resource grants it.",
        cure: "modprobe rdma_ucm, and list it in /etc/modules-load.d; only users of rdma_cm (-R, NVMe over RDMA) need it",
        judge: rdma_cm,
    },
    Rule {
        code: "RDC104",
        severity: Severity::Note,
        title: "RDMA devices belong to one network namespace each",
        why: "In exclusive mode an HCA is seen in one network namespace only: a shared pool and Pods with a macvlan cannot \
              use it; SR-IOV with the RDMA CNI can.",
        cure: "for shared pools: `rdma system set netns shared` while no other namespace holds an HCA, and `options ib_core \
               netns_mode=1` in /etc/modprobe.d for the next boot",
        judge: exclusive,
    },
    Rule {
        code: "RDC105",
        severity: Severity::Warning,
        title: "The RDMA namespace mode will be another one after the next boot",
        why: "The mode is chosen when ib_core is loaded (/etc/modprobe.d, or the kernel's command line); what was set at \
              run time is lost, and setting it again fails once a namespace holds an HCA.",
        cure: "write the running mode into /etc/modprobe.d: `options ib_core netns_mode=1` (shared) or 0 (exclusive), and \
               rebuild the initramfs",
        judge: mode_at_boot,
    },
    Rule {
        code: "RDC106",
        severity: Severity::Warning,
        title: "Memory that may be locked is limited",
        why: "Registering memory for RDMA locks it. Under the limit registration fails with `Cannot allocate memory`, and \
              containers inherit the limit of the runtime's unit.",
        cure: "LimitMEMLOCK=infinity in the unit of the container runtime (containerd, crio) or /etc/security/limits.d, \
               then restart it",
        judge: memlock,
    },
    Rule {
        code: "RDC107",
        severity: Severity::Warning,
        title: "CPUs do not run under the governor performance",
        why: "CPUs that clock down between messages raise latency and lose bandwidth with small messages.",
        cure: "cpupower frequency-set -g performance, at each boot (tuned-adm profile network-latency)",
        judge: governor,
    },
    Rule {
        code: "RDC108",
        severity: Severity::Note,
        title: "The kernel moves memory between NUMA nodes by itself",
        why: "numa_balancing unmaps pages to see who uses them, and zone_reclaim_mode reclaims near memory first: both cost \
              latency under RDMA loads.",
        cure: "sysctl -w kernel.numa_balancing=0 vm.zone_reclaim_mode=0, and the same in /etc/sysctl.d",
        judge: numa_balancing,
    },
    Rule {
        code: "RDC109",
        severity: Severity::Note,
        title: "Reloading the driver would cut this host off",
        why: "The default route, or storage that is mounted over RDMA, goes over an RDMA device: a driver reload (as driver \
              containers do) takes the node's network or disks with it.",
        cure: "do not reload the driver on this host without a console; drain it, unmount storage over RDMA and unload \
               nvme_rdma, rpcrdma, ib_iser first",
        judge: reload_hurts,
    },
    Rule {
        code: "RDC110",
        severity: Severity::Warning,
        title: "libibverbs here has no provider for an HCA's driver",
        why: "The kernel sees the HCA; programs do not (`No IB devices found`): the image's rdma-core lacks the provider, or \
              it is older than the kernel driver's interface.",
        cure: "install the image's provider package (ibverbs-providers, libibverbs) of a release that knows the driver",
        judge: provider,
    },
    Rule {
        code: "RDC111",
        severity: Severity::Note,
        title: "Verbs devices of other namespaces are listed",
        why: "With exclusive namespaces the class infiniband_verbs still shows devices whose HCA is elsewhere: counting \
              them counts what cannot be used.",
        cure: "go by /sys/class/infiniband, or `rdma dev`",
        judge: orphans,
    },
    Rule {
        code: "RDC112",
        severity: Severity::Warning,
        title: "A health reporter of an HCA's driver is not well, or was not",
        why: "The driver found its firmware or queues stuck. It recovers by itself where it can; each recovery breaks what \
              ran over the HCA. A note where all is well again.",
        cure: "`devlink health show` and `devlink health dump show DEVICE reporter NAME` tell what it saw; update firmware \
               or change the card if it comes again",
        judge: health,
    },
];

fn none(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if let Some(absence) = absence(case.host) {
        sheet.find("host", absence.reason, "an RDMA device").cure = absence.cure;
    }
}

fn vanished(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (field, why) in &case.host.unknown {
        let Some(name) = field.strip_prefix("hcas.").filter(|name| !name.starts_with("ports.")) else {
            continue;
        };
        match why.as_str() {
            "not recorded" => sheet.unjudged(name, "listed, but not recorded"),
            why => sheet.say(name, why, "a device that can be read"),
        }
    }
}

fn rdma_cm(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.hcas.is_empty() {
        return;
    }
    let seen = match &case.host.rdma_cm {
        // Whether udev made it is only known where the kernel's own list could be read.
        None if case.host.unknown.contains_key("rdma_cm") => {
            return sheet.unjudged("host", why(&case.host.unknown, "rdma_cm"));
        }
        None => "module rdma_ucm is not loaded".to_owned(),
        Some(device) => match device.accessible {
            Accessible::Yes => return,
            Accessible::Unknown => return sheet.unjudged("host", "/dev/infiniband could not be looked at"),
            Accessible::Missing => "the kernel offers it, the node is missing".to_owned(),
            Accessible::Other => format!("the node is not the device {}:{}", device.major, device.minor),
        },
    };
    let finding =
        sheet.find("host", format!("/dev/infiniband/rdma_cm: {seen}"), "the node, where rdma_cm is used");
    if case.host.pod.is_some() {
        finding.severity = Severity::Note;
        if case.host.rdma_cm.is_some() {
            finding.cure =
                "ask for a resource that grants rdma_cm too; only users of rdma_cm (perftest's -R) need it"
                    .into();
        }
    }
}

fn exclusive(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.netns_mode == Some(NetnsMode::Exclusive) {
        sheet.find("host", "RDMA netns mode is exclusive", "shared, where HCAs are shared by Pods");
    }
}

fn mode_at_boot(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let (Some(running), Some((boot, place))) = (case.host.netns_mode, &case.host.netns_mode_at_boot) else {
        return;
    };
    if running != *boot {
        sheet.find(
            "host",
            format!("running {}, {place} says {}", word(running), word(*boot)),
            "the same in both",
        );
    }
}

fn word(mode: NetnsMode) -> &'static str {
    match mode {
        NetnsMode::Shared => "shared",
        NetnsMode::Exclusive => "exclusive",
    }
}

fn memlock(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    // Software HCAs on a workstation are for trying out: 8 MiB do.
    let is_trial = case.host.pod.is_none() || case.against.within.is_none();
    if case.host.hcas.iter().all(|hca| hca.software && is_trial) {
        return;
    }
    let Some(memlock) = case.host.memlock else {
        return sheet.unjudged("host", why(&case.host.unknown, "memlock"));
    };
    if let Some(within) = case.against.within {
        return within::memlock(case, within, memlock, sheet);
    }
    if let Limit::Bytes(soft) = memlock.soft {
        let hard = match memlock.hard {
            Limit::Unlimited => "unlimited".to_owned(),
            Limit::Bytes(bytes) => bytes.to_string(),
        };
        sheet.find("host", format!("memlock soft {soft} bytes, hard {hard}"), "unlimited");
    }
}

fn governor(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.hcas.iter().all(|hca| hca.software) {
        return;
    }
    let slow: Vec<String> = case
        .host
        .governors
        .iter()
        .filter(|(name, _)| *name != "performance")
        .map(|(name, cpus)| format!("{name} on {cpus} CPUs"))
        .collect();
    if !slow.is_empty() {
        sheet.find("host", format!("governor {}", slow.join(", ")), "performance");
    }
}

fn numa_balancing(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if case.host.hcas.is_empty() {
        return;
    }
    for setting in ["kernel/numa_balancing", "vm/zone_reclaim_mode"] {
        if let Some(value) = case.host.sysctls.get(setting).filter(|value| **value != 0) {
            sheet.find("host", format!("{} {value}", setting.replace('/', ".")), "0");
        }
    }
}

/// Modules that keep disks or mounts over RDMA.
const STORAGE_MODULES: &[&str] = &["nvme_rdma", "rpcrdma", "ib_iser", "ib_isert", "ib_srp", "ko2iblnd"];

fn reload_hurts(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let mut seen = Vec::new();
    if let Some(rail) = case.default_route_rail() {
        seen.push(format!(
            "the default route goes over {} ({})",
            rail.1,
            rail.0.driver.as_deref().unwrap_or("driver unknown")
        ));
    }
    let mounted =
        case.host.remote_storage.iter().filter(|storage| storage.transport.as_deref() == Some("rdma"));
    seen.extend(mounted.map(|storage| format!("{} {} over RDMA", storage.kind, storage.name)));
    let users: Vec<&str> = STORAGE_MODULES
        .iter()
        .copied()
        .filter(|name| case.host.module(name).is_some_and(|module| module.loaded == Some(true)))
        .collect();
    if !users.is_empty() && !case.host.hcas.is_empty() {
        seen.push(format!("loaded: {}", users.join(", ")));
    }
    if !seen.is_empty() {
        sheet.find("host", seen.join("; "), "no reload of the RDMA driver here");
    }
}

fn provider(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    // Without libibverbs there is nothing to lack a provider: the host may run containers only.
    let Some(providers) = case.host.verbs_providers.as_ref().filter(|providers| !providers.is_empty()) else {
        return;
    };
    for hca in case.host.hcas.iter().filter(|hca| case.is_own(hca)) {
        let Some(wanted) = hca.verbs_provider() else { continue };
        if !providers.iter().any(|provider| provider == wanted) {
            let abi =
                hca.uverbs_abi.map_or_else(String::new, |abi| format!(", kernel interface version {abi}"));
            let seen = format!(
                "the kernel sees {} ({wanted}{abi}); libibverbs has {}",
                hca.name,
                providers.join(", ")
            );
            sheet.find(&hca.name, seen, format!("a provider `{wanted}`"));
        }
    }
}

fn health(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    if let Some(why) = case.host.unknown.get("health").filter(|_| !case.host.hcas.is_empty()) {
        return sheet.unjudged("host", format!("devlink's health reporters could not be read ({why})"));
    }
    for hca in case.host.hcas.iter().filter(|hca| case.is_own(hca)) {
        for reporter in hca.health.iter().filter(|r| !r.healthy || r.errors.is_some_and(|errors| errors > 0))
        {
            let count = |number: Option<u64>| number.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
            let state = if reporter.healthy { "healthy" } else { "in error" };
            let (errors, recoveries) = (count(reporter.errors), count(reporter.recoveries));
            let seen = format!("{} is {state}, errors {errors}, recoveries {recoveries}", reporter.name);
            let finding = sheet.find(&hca.name, seen, "no errors");
            if reporter.healthy {
                finding.severity = Severity::Note;
            }
        }
    }
}

fn orphans(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let names: Vec<&str> = case.host.orphan_uverbs.iter().map(|device| device.node.as_str()).collect();
    if !names.is_empty() {
        sheet.find(
            "host",
            format!("{}: their HCAs are in other namespaces", names.join(", ")),
            "to be left out of counts",
        );
    }
}
