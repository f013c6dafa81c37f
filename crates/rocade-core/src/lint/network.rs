//! The networks that a Pod asks for: whether Multus reads the annotation, and whether the attachments are where it looks
//! for them. Whether they are of the right rail is `rail`'s matter.

use super::annotation::{self, NETWORKS, Wanted};
use super::attachment::Attachment;
use super::node::{Entry, Node};
use super::patch::replace;
use super::pod::{Number, Pod};
use super::read::Object;
use super::{Case, Rule, Sheet, rail};
use crate::config::{distance, nearest};
use crate::finding::Severity;

pub(super) const RULES: &[Rule] = &[
    rail::NO_INTERFACE,
    rail::WRONG_RAIL,
    ON_HOST_NETWORK,
    NOT_THERE,
    OTHER_NAMESPACE,
    MALFORMED,
    NOT_READ,
    rail::NO_DEVICE_ID,
    ONE_ADDRESS,
    rail::ONE_SUBNET,
];

const ON_HOST_NETWORK: Rule = Rule {
    code: "RDC762",
    severity: Severity::Warning,
    title: "A Pod on the host's network asks for networks of its own",
    why: "It has no network namespace to attach them in, so Multus is not asked and the annotation does nothing.",
    cure: "leave out hostNetwork, or the annotation",
};

const NOT_THERE: Rule = Rule {
    code: "RDC763",
    severity: Severity::Error,
    title: "A Pod asks for an attachment that is not in that namespace",
    why: "Multus looks for it in the Pod's own namespace, or in the one that the annotation names. The Pod stays in ContainerCreating.",
    cure: "",
};

const OTHER_NAMESPACE: Rule = Rule {
    code: "RDC764",
    severity: Severity::Note,
    title: "A Pod asks for an attachment of another namespace",
    why: "Multus refuses that where `namespaceIsolation` is on, as on OpenShift, but for the namespaces `default` and `globalNamespaces`.",
    cure: "put the attachment into the Pod's namespace, or see that Multus is not isolated",
};

const MALFORMED: Rule = Rule {
    code: "RDC765",
    severity: Severity::Error,
    title: "The annotation of networks is malformed",
    why: "Multus reads JSON, or names parted by commas; what is neither is refused, and the Pod stays in ContainerCreating. Unknown keys are \
          ignored.",
    cure: "",
};

const NOT_READ: Rule = Rule {
    code: "RDC766",
    severity: Severity::Warning,
    title: "An annotation of networks is where or what Multus does not read",
    why: "Only `k8s.v1.cni.cncf.io/networks` of the Pod itself counts: of a Deployment or job that is the template's metadata. Otherwise the \
          Pod starts without its networks.",
    cure: "",
};

const ONE_ADDRESS: Rule = Rule {
    code: "RDC768",
    severity: Severity::Error,
    title: "Several Pods have one fixed address",
    why: "Each of them takes it: GIDs are the same twice on the network, and connections end at the wrong Pod or break.",
    cure: "let an IPAM choose that knows all nodes (whereabouts, nv-ipam), or give each Pod a network of its own",
};

/// The domain of Multus' annotations.
const DOMAIN: &str = "k8s.v1.cni.cncf.io/";

/// What Multus' own configuration says of other namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Isolation {
    is_on: bool,
    global: Vec<String>,
}

/// Looks for Multus' configuration in ConfigMaps.
pub(super) fn isolation(objects: &[Object]) -> Option<Isolation> {
    let maps = objects.iter().filter(|object| object.kind == "ConfigMap");
    let texts = maps.flat_map(|map| map.root.get("data").map_or(&[][..], Node::entries));
    let multus = texts.filter_map(|entry| entry.value.text()).find_map(|text| {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        (value["type"] == "multus" || value["type"] == "multus-shim").then_some(value)
    })?;
    let global = multus["globalNamespaces"].as_str().unwrap_or_default();
    Some(Isolation {
        is_on: multus["namespaceIsolation"] == true,
        global: global.split(',').map(|name| name.trim().to_owned()).collect(),
    })
}

/// Judges the networks of a Pod that asks for RDMA.
pub(super) fn check(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    let is_rdma = |name: &str| case.pools.is_rdma(name);
    let mut asked: Vec<(&str, u32)> = Vec::new();
    for one in pod.containers.iter().flat_map(|container| container.asked(is_rdma)) {
        if !asked.iter().any(|(name, _)| *name == one.name) {
            asked.push((one.name, one.line()));
        }
    }
    if asked.is_empty() {
        return;
    }
    let is_misplaced = check_place(pod, sheet);
    let Some(entry) = pod.annotation(NETWORKS) else {
        if !is_misplaced && !has_other_networks(pod) {
            rail::check(case, pod, &asked, &[], sheet);
        }
        return;
    };
    if pod.is_on_host_network() {
        let seen = "hostNetwork and networks";
        let path = pod.path_of("metadata.annotations");
        sheet.find(&ON_HOST_NETWORK, pod.place(entry.line), path, seen, "one of them");
        return;
    }
    let (wanted, wrong) = annotation::parse(entry);
    let is_refused = wrong.iter().any(|wrong| wrong.is_refused);
    for wrong in wrong {
        let path = pod.path_of(&format!("metadata.annotations.{NETWORKS}"));
        let found = sheet.find(&MALFORMED, pod.place(wrong.line), path, wrong.seen, wrong.wanted);
        if !wrong.is_refused {
            found.severity(Severity::Warning);
        }
    }
    if !is_refused {
        let attachments: Vec<Option<&Attachment<'_>>> =
            wanted.iter().map(|wanted| check_wanted(case, pod, entry, wanted, sheet)).collect();
        rail::check(case, pod, &asked, &attachments, sheet);
    }
}

/// Whether an annotation is on the object instead of its Pods, or has a name that is almost right.
fn check_place(pod: &Pod<'_>, sheet: &mut Sheet<'_>) -> bool {
    let annotations = |metadata: Option<&'_ Node>| -> Vec<(u32, String)> {
        let entries =
            metadata.and_then(|metadata| metadata.get("annotations")).map_or(&[][..], Node::entries);
        entries.iter().map(|entry| (entry.line, entry.key.clone())).collect()
    };
    let mut found = false;
    if !pod.path.is_empty() && pod.annotation(NETWORKS).is_none() {
        let own = annotations(pod.object.root.get("metadata"));
        for (line, key) in own.iter().filter(|(_, key)| key == NETWORKS) {
            let seen = format!("on the {}", pod.object.kind);
            let wanted = pod.path_of("metadata.annotations");
            sheet
                .find(&NOT_READ, pod.place(*line), format!("metadata.annotations.{key}"), seen, wanted)
                .cure("move it to the metadata of the Pod's template");
            found = true;
        }
    }
    for (line, key) in annotations(pod.metadata) {
        let name = key.strip_prefix(DOMAIN).or_else(|| key.strip_prefix("k8s.v1.cni.cncf.io"));
        let is_known =
            ["networks", "network-status", "networks-status", "resourceName"].iter().any(|k| name == Some(k));
        let is_near = key.to_ascii_lowercase() != NETWORKS
            && distance(&key.to_ascii_lowercase(), NETWORKS) <= 3
            || key.to_ascii_lowercase() == NETWORKS && key != NETWORKS;
        if !is_known && is_near {
            let path = pod.path_of("metadata.annotations");
            sheet
                .find(&NOT_READ, pod.place(line), path, format!("`{key}`"), format!("`{NETWORKS}`"))
                .cure("correct the name of the annotation");
            found = true;
        }
    }
    found
}

/// Whether something else gives the Pod networks: another annotation (Multus' default network, Spiderpool, GKE), or
/// claims of dynamic resource allocation.
fn has_other_networks(pod: &Pod<'_>) -> bool {
    let annotations =
        pod.metadata.and_then(|metadata| metadata.get("annotations")).map_or(&[][..], Node::entries);
    let is_of_networks = |entry: &Entry| {
        let key = entry.key.as_str();
        key == "v1.multus-cni.io/default-network"
            || key.contains("spidernet.io/")
            || key == "networking.gke.io/interfaces"
    };
    annotations.iter().any(is_of_networks) || pod.spec.get("resourceClaims").is_some()
}

/// The attachment that is meant; None where it is not among the files.
fn check_wanted<'c, 'a>(
    case: &'c Case<'a>,
    pod: &Pod<'_>,
    entry: &Entry,
    wanted: &Wanted,
    sheet: &mut Sheet<'_>,
) -> Option<&'c Attachment<'a>> {
    let own = case.namespace_of(pod.object);
    let namespace = wanted.namespace.clone().or_else(|| own.clone());
    let place = pod.place(wanted.line);
    let path = pod.path_of(&format!("metadata.annotations.{NETWORKS}"));
    if let (Some(other), Some(own)) = (&wanted.namespace, &own)
        && other != own
        && other != "default"
    {
        check_isolation(case, other, own, place, &path, sheet);
    }
    if !wanted.ips.is_empty() && pod.number != Number::One {
        let seen = wanted.ips.join(", ");
        sheet.find(&ONE_ADDRESS, place, path.as_str(), seen, "an address for each Pod");
    }
    let same_name = || case.attachments.iter().filter(|attachment| attachment.object.name == wanted.name);
    let is_there = |attachment: &&Attachment<'_>| match (&namespace, &attachment.namespace) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    let found = same_name().find(is_there);
    let seen =
        namespace.map_or_else(|| wanted.name.clone(), |namespace| format!("{namespace}/{}", wanted.name));
    match (found, same_name().find_map(|other| other.namespace.as_deref())) {
        (Some(_), _) => {}
        (None, Some(other)) => {
            let right = format!("{other}/{}", wanted.name);
            let is_plain = entry.value.text() == Some(wanted.name.as_str());
            let edit = replace(case.text(pod.object.file), entry, &[&format!("{NETWORKS}: {right}")]);
            let wanted = format!("{right}, which is among the manifests");
            let found = sheet.find(&NOT_THERE, place, path, seen, wanted);
            found.edit(edit.filter(|_| is_plain)).cure(format!("name its namespace: {right}"));
        }
        (None, None) => {
            let names: Vec<&str> = case.attachments.iter().map(|known| known.object.name.as_str()).collect();
            let near = nearest(&wanted.name, &names).filter(|near| distance(near, &wanted.name) <= 2);
            if let Some(near) = near {
                let found = sheet.find(&NOT_THERE, place, path, seen, format!("`{near}`"));
                found.cure(format!("did you mean {near}?"));
            }
        }
    }
    found
}

fn check_isolation(
    case: &Case<'_>,
    other: &str,
    own: &str,
    place: super::Place<'_>,
    path: &str,
    sheet: &mut Sheet<'_>,
) {
    let severity = match &case.isolation {
        None => Severity::Note,
        Some(isolation) if isolation.is_on && !isolation.global.iter().any(|name| name == other) => {
            Severity::Error
        }
        Some(_) => return,
    };
    let seen = format!("an attachment of {other}, the Pod is in {own}");
    sheet.find(&OTHER_NAMESPACE, place, path, seen, format!("one of {own} or default")).severity(severity);
}
