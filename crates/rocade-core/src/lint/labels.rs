//! Labels by which Pods choose nodes, and that nobody sets: such Pods stay Pending, such DaemonSets have none.

use super::node::Node;
use super::patch::replace;
use super::pod::Pod;
use super::{Case, Rule, Sheet};
use crate::finding::Severity;
use crate::labels::{NFD_AVAILABLE, NFD_CAPABLE};

pub(super) const RULES: &[Rule] = &[NOBODY_SETS];

const NOBODY_SETS: Rule = Rule {
    code: "RDC749",
    severity: Severity::Warning,
    title: "Nodes are chosen by a label that the node feature discovery does not set",
    why: "Its own keys are feature.node.kubernetes.io/custom-rdma.capable and custom-rdma.available; its documentation names another. Without \
          the prefix custom- a NodeFeatureRule of one's own has to set them, which is a note. A Pod stays Pending, a DaemonSet has no Pods, \
          and no error says why.",
    cure: "`kubectl get nodes --show-labels` shows what there is; rdma.rocade.dev/capable is set by the agent where it publishes labels",
};

/// Where the node feature discovery has its labels.
const DOMAIN: &str = "feature.node.kubernetes.io/";

/// Judges the labels that a Pod asks of its node.
pub(super) fn check(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    let selector = pod.spec.get("nodeSelector").map_or(&[][..], Node::entries);
    for entry in selector {
        if let Some((severity, wanted)) = wanted_instead(&entry.key) {
            let line = format!("{wanted}: \"{}\"", entry.value.word().unwrap_or("true"));
            let edit = replace(case.text(pod.object.file), entry, &[&line]);
            let path = pod.path_of("spec.nodeSelector");
            let found =
                sheet.find(&NOBODY_SETS, pod.place(entry.line), path, format!("`{}`", entry.key), wanted);
            found.severity(severity).edit(edit.filter(|_| severity == Severity::Warning));
        }
    }
    for key in affinity_keys(pod.spec) {
        if let Some((severity, wanted)) = key.text().and_then(wanted_instead) {
            let path = pod.path_of("spec.affinity.nodeAffinity");
            sheet.find(&NOBODY_SETS, pod.place(key.line), path, key.to_string(), wanted).severity(severity);
        }
    }
}

/// The keys of node affinity's terms.
fn affinity_keys(spec: &Node) -> impl Iterator<Item = &Node> {
    let affinity = spec.at(&["affinity", "nodeAffinity"]);
    let below =
        move |path: &[&str]| affinity.and_then(|node| node.at(path)).map_or(&[][..], Node::items).iter();
    let required = below(&["requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"]);
    let preferred =
        below(&["preferredDuringSchedulingIgnoredDuringExecution"]).filter_map(|item| item.get("preference"));
    let expressions = required.chain(preferred).filter_map(|term| term.get("matchExpressions"));
    expressions.flat_map(Node::items).filter_map(|expression| expression.get("key"))
}

/// The label that is meant by one that the node feature discovery has not, and how sure that is.
fn wanted_instead(key: &str) -> Option<(Severity, &'static str)> {
    match key.strip_prefix(DOMAIN)? {
        "custom-rdma.enabled" => Some((Severity::Warning, NFD_AVAILABLE)),
        "rdma.enabled" | "rdma.available" => Some((Severity::Note, NFD_AVAILABLE)),
        "rdma.capable" => Some((Severity::Note, NFD_CAPABLE)),
        _ => None,
    }
}
