//! Whether a container may lock the memory that RDMA registers, what it may do beyond that, and the shared memory that
//! libraries use beside it.

use super::node::{Entry, Node};
use super::patch::{Edit, Lines, add, add_item, replace};
use super::pod::{Container, Pod, Stage};
use super::{Case, Rule, Sheet};
use crate::finding::Severity;

pub(super) const RULES: &[Rule] =
    &[NO_IPC_LOCK, NOT_FOR_USERS, PREFIXED, PRIVILEGED, HOST_DEVICES, SHARED_MEMORY];

const NO_IPC_LOCK: Rule = Rule {
    code: "RDC750",
    severity: Severity::Warning,
    title: "A container that talks RDMA may not lock memory",
    why: "RDMA registers memory, which is locked for that. Without the capability the limit of the container runtime holds, often 64 KiB or \
          8 MiB: small tests pass, large ones fail with `Couldn't allocate MR` or `Cannot allocate memory`.",
    cure: "add the capability IPC_LOCK, or raise LimitMEMLOCK of the container runtime's unit and prove it with `rocade verify --register 64MiB`",
};

const NOT_FOR_USERS: Rule = Rule {
    code: "RDC751",
    severity: Severity::Warning,
    title: "IPC_LOCK does nothing for a user other than root",
    why: "A process of another user starts without effective capabilities (CapEff 0), also in a privileged container: its limit of locked \
          memory stays that of the container runtime, and NCCL takes TCP without a word.",
    cure: "raise LimitMEMLOCK of the container runtime's unit (or by an NRI plugin), or run as root; prove it with `rocade verify --register 64MiB`",
};

const PREFIXED: Rule = Rule {
    code: "RDC752",
    severity: Severity::Warning,
    title: "A capability is written with CAP_",
    why: "Kubernetes names capabilities without it. containerd makes CAP_CAP_IPC_LOCK of this, which is none, and drops it without a word.",
    cure: "write IPC_LOCK",
};

const PRIVILEGED: Rule = Rule {
    code: "RDC753",
    severity: Severity::Warning,
    title: "A container with an RDMA resource is privileged",
    why: "The resource already brings its device nodes. Privileged opens all HCAs of the node, whatever was granted, and all other devices.",
    cure: "leave privileged out and add the capability IPC_LOCK",
};

const HOST_DEVICES: Rule = Rule {
    code: "RDC754",
    severity: Severity::Warning,
    title: "A Pod mounts /dev/infiniband of its host",
    why: "The mount shows all HCAs and lets none be opened: only a device plugin's grant, or privileged, does that. The scheduler does not \
          know of it, and the directory is replaced under the mount when the driver is reloaded.",
    cure: "remove the volume and ask for the resource under resources.limits",
};

const SHARED_MEMORY: Rule = Rule {
    code: "RDC755",
    severity: Severity::Note,
    title: "A container with GPUs and RDMA has 64 MiB of /dev/shm",
    why: "NCCL and data loaders share memory there; the container runtime's 64 MiB are soon full (`No space left on device`).",
    cure: "mount an emptyDir of medium Memory at /dev/shm",
};

/// Judges the containers of a Pod that ask for RDMA, and what the Pod mounts.
pub(super) fn check(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    for container in pod.containers.iter().filter(|container| container.stage == Stage::Main) {
        if !container.asked(|name| case.pools.is_rdma(name)).is_empty() {
            check_lock(case, pod, container, sheet);
            check_privileged(case, pod, container, sheet);
            check_shared_memory(case, pod, container, sheet);
        }
    }
    check_host_devices(pod, sheet);
}

fn check_lock(case: &Case<'_>, pod: &Pod<'_>, container: &Container<'_>, sheet: &mut Sheet<'_>) {
    let has_lock = capability(container, &["IPC_LOCK", "ALL"]).is_some();
    let is_privileged = container.node.at(&["securityContext", "privileged"]).is_some_and(Node::is_true);
    let path = format!("{}.securityContext", container.path);
    match (other_user(pod, container), has_lock || is_privileged) {
        (None, true) => {}
        (Some((line, user)), true) => {
            let what = if is_privileged { "privileged" } else { "IPC_LOCK" };
            let seen = format!("{what}, and {user}");
            sheet.find(&NOT_FOR_USERS, pod.place(line), path, seen, "memory that can be locked");
        }
        (user, false) => check_capability(case, pod, container, user.map(|(_, user)| user), sheet),
    }
}

/// A container without the capability, run by root or the user named.
fn check_capability(
    case: &Case<'_>,
    pod: &Pod<'_>,
    container: &Container<'_>,
    user: Option<String>,
    sheet: &mut Sheet<'_>,
) {
    let text = case.text(pod.object.file);
    let path = format!("{}.securityContext", container.path);
    if let Some(item) = capability(container, &["CAP_IPC_LOCK", "CAP_ALL"]) {
        let (place, path) = (pod.place(item.line), format!("{path}.capabilities.add"));
        sheet.find(&PREFIXED, place, path, item.to_string(), "IPC_LOCK").edit(rename(text, item));
        return;
    }
    let line = container.node.get("securityContext").map_or(container.node.line, |node| node.line);
    let edit = if user.is_some() { None } else { lock_lines(text, container.node) };
    let cure = if user.is_some() { NOT_FOR_USERS.cure } else { NO_IPC_LOCK.cure };
    let seen = user.unwrap_or_else(|| "no IPC_LOCK".into());
    let found = sheet.find(&NO_IPC_LOCK, pod.place(line), path, seen, "memory that can be locked");
    found.edit(edit).cure(cure);
}

/// The first of the added capabilities that is one of these.
fn capability<'a>(container: &Container<'a>, wanted: &[&str]) -> Option<&'a Node> {
    let added = container.node.at(&["securityContext", "capabilities", "add"])?.items();
    added
        .iter()
        .find(|item| item.text().is_some_and(|text| wanted.contains(&text.to_ascii_uppercase().as_str())))
}

/// That the container runs as another user than root, and the line that says it; None where it does not say so.
fn other_user(pod: &Pod<'_>, container: &Container<'_>) -> Option<(u32, String)> {
    if let Some(user) = container.security(pod, "runAsUser") {
        let number: u64 = user.number()?;
        return (number != 0).then(|| (user.line, format!("user {number}")));
    }
    let non_root = container.security(pod, "runAsNonRoot")?;
    non_root.is_true().then(|| (non_root.line, "a user that is not root".into()))
}

/// Adds IPC_LOCK where there is room for it.
fn lock_lines(text: &Lines<'_>, container: &Node) -> Option<Edit> {
    let Some(context) = container.get("securityContext") else {
        return add(text, container, &["securityContext:", "  capabilities:", "    add: [IPC_LOCK]"]);
    };
    match context.get("capabilities") {
        None => add(text, context, &["capabilities:", "  add: [IPC_LOCK]"]),
        Some(capabilities) if capabilities.get("add").is_none_or(|add| add.items().is_empty()) => {
            match capabilities.entry("add") {
                Some(entry) => replace(text, entry, &["add: [IPC_LOCK]"]),
                None => add(text, capabilities, &["add: [IPC_LOCK]"]),
            }
        }
        Some(capabilities) => {
            let entry = capabilities.entry("add")?;
            let is_flow = entry.line == entry.value.line;
            if !is_flow {
                return add_item(text, capabilities, "add", &["IPC_LOCK"]);
            }
            let line = text.get(entry.line)?;
            let (before, behind) = line.split_once('[').filter(|(before, _)| !before.contains('{'))?;
            Some(Edit { line: entry.line, removed: 1, added: vec![format!("{before}[IPC_LOCK, {behind}")] })
        }
    }
}

/// The line of a capability without its CAP_.
fn rename(text: &Lines<'_>, item: &Node) -> Option<Edit> {
    let line = text.get(item.line)?;
    let word = item.text()?;
    let plain = word.get(4..)?;
    Some(Edit { line: item.line, removed: 1, added: vec![line.replacen(word, plain, 1)] })
}

fn check_privileged(case: &Case<'_>, pod: &Pod<'_>, container: &Container<'_>, sheet: &mut Sheet<'_>) {
    let Some(context) = container.node.get("securityContext") else { return };
    let Some(entry) = context.entry("privileged").filter(|entry| entry.value.is_true()) else { return };
    let text = case.text(pod.object.file);
    let edit = match context.get("capabilities") {
        None => replace(text, entry, &["capabilities:", "  add: [IPC_LOCK]"]),
        Some(_) => replace(text, entry, &["privileged: false"]),
    };
    let path = format!("{}.securityContext.privileged", container.path);
    let seen = "all devices of the node";
    sheet.find(&PRIVILEGED, pod.place(entry.line), path, seen, "what the resource grants").edit(edit);
}

fn check_shared_memory(case: &Case<'_>, pod: &Pod<'_>, container: &Container<'_>, sheet: &mut Sheet<'_>) {
    let is_gpu = |name: &str| matches!(name, "nvidia.com/gpu" | "amd.com/gpu" | "nvidia.com/gpu.shared");
    let gpus = container.asked(is_gpu);
    let Some(gpu) = gpus.first() else { return };
    let mounts = container.node.get("volumeMounts").map_or(&[][..], Node::items);
    let is_shm = |mount: &Node| {
        let path = mount.get("mountPath").and_then(Node::text).unwrap_or_default();
        path.trim_end_matches('/') == "/dev/shm"
    };
    if mounts.iter().any(is_shm) || pod.spec.get("hostIPC").is_some_and(Node::is_true) {
        return;
    }
    let text = case.text(pod.object.file);
    let mount = add_item(text, container.node, "volumeMounts", &["name: dev-shm", "mountPath: /dev/shm"]);
    let volume = ["name: dev-shm", "emptyDir:", "  medium: Memory"];
    let volume = add_item(text, pod.spec, "volumes", &volume);
    let path = format!("{}.volumeMounts", container.path);
    let found = sheet.find(
        &SHARED_MEMORY,
        pod.place(gpu.line()),
        path,
        "nothing at /dev/shm",
        "an emptyDir of memory",
    );
    if mount.is_some() && volume.is_some() {
        found.edit(mount).edit(volume);
    }
}

fn check_host_devices(pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    let volumes = pod.spec.get("volumes").map_or(&[][..], Node::items);
    let host_path = |volume: &'_ Node| -> Option<(u32, String)> {
        let path: &Entry = volume.get("hostPath")?.entry("path")?;
        Some((path.line, path.value.text()?.trim_end_matches('/').to_owned()))
    };
    let paths: Vec<(u32, String)> = volumes.iter().filter_map(host_path).collect();
    // A device plugin gives the nodes out: it looks at them itself.
    if paths.iter().any(|(_, path)| path.starts_with("/var/lib/kubelet") || path.contains("/device-plugins"))
    {
        return;
    }
    let devices =
        paths.iter().filter(|(_, path)| *path == "/dev/infiniband" || path.starts_with("/dev/infiniband/"));
    for (line, path) in devices {
        let seen = format!("hostPath {path}");
        sheet.find(&HOST_DEVICES, pod.place(*line), pod.path_of("spec.volumes"), seen, "an RDMA resource");
    }
}
