//! Jobs of unlike Pods: a rank without RDMA among ranks that have it makes the whole job take TCP, or fail.

use super::pod::Pod;
use super::{Case, Rule, Sheet};
use crate::finding::Severity;

pub(super) const RULES: &[Rule] = &[UNLIKE_REPLICAS];

const UNLIKE_REPLICAS: Rule = Rule {
    code: "RDC785",
    severity: Severity::Warning,
    title: "Some ranks of a job ask for no RDMA resource",
    why: "Ranks talk to each other by what both have: NCCL takes TCP for all that such a rank is part of, or the job fails. Of an MPIJob the \
          launcher only starts the others, and what it asks for itself is of no use.",
    cure: "ask for the same resource in each replica that has ranks",
};

/// Judges PyTorchJobs and MPIJobs.
pub(super) fn check(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let mut rest: &[Pod<'_>] = &case.pods;
    while let Some(first) = rest.first() {
        let end = rest.iter().take_while(|pod| std::ptr::eq(pod.object, first.object)).count();
        let (group, later) = rest.split_at(end);
        match first.object.kind.as_str() {
            "PyTorchJob" => check_group(case, group, sheet),
            "MPIJob" => check_mpi(case, group, sheet),
            _ => {}
        }
        rest = later;
    }
}

fn check_mpi(case: &Case<'_>, group: &[Pod<'_>], sheet: &mut Sheet<'_>) {
    let is_launcher = |pod: &&Pod<'_>| pod.role == Some("Launcher");
    let root = group.first().map(|pod| &pod.object.root);
    let has_ranks =
        root.and_then(|root| root.at(&["spec", "runLauncherAsWorker"])).is_some_and(|node| node.is_true());
    let launcher = group.iter().find(is_launcher).filter(|_| !has_ranks);
    match launcher {
        Some(launcher) if asks(case, launcher).is_some() => check_group(case, group, sheet),
        Some(_) => {}
        None => check_group(case, group, sheet),
    }
}

/// Those that ask for nothing where others do.
fn check_group(case: &Case<'_>, group: &[Pod<'_>], sheet: &mut Sheet<'_>) {
    let Some(resource) = group.iter().find_map(|pod| asks(case, pod)) else { return };
    for pod in group.iter().filter(|pod| asks(case, pod).is_none()) {
        let role = pod.role.unwrap_or_default();
        let seen = format!("{role} asks for none");
        let path = pod.path_of("spec.containers");
        sheet.find(
            &UNLIKE_REPLICAS,
            pod.place(pod.spec.line),
            path,
            seen,
            format!("{resource}, as the others"),
        );
    }
}

fn asks(case: &Case<'_>, pod: &Pod<'_>) -> Option<String> {
    let mut asked =
        pod.containers.iter().flat_map(|container| container.asked(|name| case.pools.is_rdma(name)));
    asked.next().map(|asked| asked.name.to_owned())
}
