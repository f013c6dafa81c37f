//! The lines of a Pod's manifest that mend a finding. Names that only the cluster knows stand in angle brackets.

use crate::check::Within;
use crate::finding::Finding;
use crate::host::{Host, Limit, Memlock};

/// Empty where no line of a manifest helps.
pub(super) fn lines(host: &Host, within: &Within, finding: &Finding) -> Vec<String> {
    let lines: &[&str] = match finding.code {
        "RDC610" => return resource(host),
        "RDC611" if finding.seen.contains("EPERM") => return resource(host),
        "RDC601" | "RDC603" => &NETWORK,
        "RDC106" | "RDC612" if capability_helps(host, within) => &CAPABILITY,
        "RDC613" => &SHARED_MEMORY,
        _ => &[],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Only root gets the capability in effect, and only where a limit is in the way.
fn capability_helps(host: &Host, within: &Within) -> bool {
    let limited = matches!(host.memlock, Some(Memlock { soft: Limit::Bytes(_), hard: Limit::Bytes(_) }));
    limited && host.pod.is_some() && within.ipc_lock != Some(true) && within.user.is_none_or(|user| user == 0)
}

/// A resource by its name where this Pod has one; else the cluster's nodes tell the names.
fn resource(host: &Host) -> Vec<String> {
    let known = host.pod.as_ref().and_then(|pod| crate::pod::resources(pod).into_iter().next());
    let name = known.as_deref().unwrap_or("<resource of the HCA>");
    let mut lines = vec!["spec:".to_owned(), "  containers:".into(), "  - resources:".into()];
    lines.push(format!("      limits: {{{name}: 1}}"));
    lines.push(format!("      requests: {{{name}: 1}}"));
    if known.is_none() {
        lines.push("# its name: kubectl get nodes -o jsonpath='{.items[*].status.allocatable}'".into());
    }
    lines
}

const NETWORK: [&str; 4] = [
    "metadata:",
    "  annotations:",
    "    k8s.v1.cni.cncf.io/networks: <attachment on the rail of the granted HCA>",
    "# or, without a second network: spec.hostNetwork: true",
];

const CAPABILITY: [&str; 5] =
    ["spec:", "  containers:", "  - securityContext:", "      capabilities:", "        add: [IPC_LOCK]"];

const SHARED_MEMORY: [&str; 9] = [
    "spec:",
    "  containers:",
    "  - volumeMounts:",
    "    - name: dev-shm",
    "      mountPath: /dev/shm",
    "  volumes:",
    "  - name: dev-shm",
    "    emptyDir:",
    "      medium: Memory",
];
