//! What makes Pods, down to their containers: where the template of each kind is, and how many Pods come of it.

use super::Place;
use super::node::{Entry, Node};
use super::read::Object;

/// A Pod, or the template of Pods.
#[derive(Debug)]
pub(super) struct Pod<'a> {
    pub(super) object: &'a Object,
    /// Where the template is in the object, as `spec.template`; empty for a Pod.
    pub(super) path: String,
    pub(super) metadata: Option<&'a Node>,
    pub(super) spec: &'a Node,
    pub(super) containers: Vec<Container<'a>>,
    /// How many of them there are, as far as the manifest says.
    pub(super) number: Number,
    /// What they are in a job of unlike Pods: `Launcher`, `Worker`, `Master`.
    pub(super) role: Option<&'a str>,
}

/// How many Pods come of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    One,
    /// More than one.
    Several,
    /// One on each node.
    EachNode,
}

/// One container of a Pod.
#[derive(Debug)]
pub(super) struct Container<'a> {
    pub(super) node: &'a Node,
    /// Where it is in the object, as `spec.containers[0]`.
    pub(super) path: String,
    pub(super) stage: Stage,
}

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the others, to its end.
    Init,
    /// As long as the Pod does, whether an application or a sidecar.
    Main,
}

/// A resource that a container asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) name: &'a str,
    pub(super) limit: Option<&'a Entry>,
    pub(super) request: Option<&'a Entry>,
}

impl Asked<'_> {
    /// The line that it is asked in.
    pub(super) fn line(&self) -> u32 {
        self.limit.or(self.request).map_or(0, |entry| entry.line)
    }
}

impl<'a> Pod<'a> {
    /// Where a part of the object is.
    pub(super) fn place(&self, line: u32) -> Place<'a> {
        Place { object: self.object, line }
    }

    /// A path below the Pod's template.
    pub(super) fn path_of(&self, rest: &str) -> String {
        if self.path.is_empty() { rest.to_owned() } else { format!("{}.{rest}", self.path) }
    }

    /// An annotation of the Pods.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a Entry> {
        self.metadata?.get("annotations")?.entry(key)
    }

    /// Whether they are in the network namespace of their host.
    pub(super) fn is_on_host_network(&self) -> bool {
        self.spec.get("hostNetwork").is_some_and(Node::is_true)
    }

    /// The one node that they have to run on; None where they may run on several.
    pub(super) fn node_name(&self) -> Option<&'a str> {
        let selected = self.spec.get("nodeSelector").and_then(|labels| labels.get("kubernetes.io/hostname"));
        self.spec.get("nodeName").or(selected).and_then(Node::word)
    }
}

impl<'a> Container<'a> {
    /// What it asks for besides cpu, memory and the like: resources whose names fit.
    pub(super) fn asked(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Asked<'a>> {
        let of = |kind: &str| self.node.at(&["resources", kind]);
        let (limits, requests) = (of("limits"), of("requests"));
        let entries = |map: Option<&'a Node>| map.map_or(&[][..], Node::entries).iter();
        let only_requested = entries(requests)
            .filter(|entry| limits.is_none_or(|limits| limits.entry(&entry.key).is_none()))
            .map(|entry| Asked { name: &entry.key, limit: None, request: Some(entry) });
        let limited = entries(limits).map(|entry| {
            let request = requests.and_then(|requests| requests.entry(&entry.key));
            Asked { name: &entry.key, limit: Some(entry), request }
        });
        limited.chain(only_requested).filter(|asked| is_wanted(asked.name)).collect()
    }

    /// Its security context's value of that key, or the Pod's.
    pub(super) fn security(&self, pod: &Pod<'a>, key: &str) -> Option<&'a Node> {
        let own = self.node.at(&["securityContext", key]);
        own.or_else(|| pod.spec.at(&["securityContext", key]))
    }
}

/// All Pods that an object makes; none of kinds that make none.
pub(super) fn pods(object: &Object) -> Vec<Pod<'_>> {
    let root = &object.root;
    let template = |path: &[&str], number: Number| one(object, path, number).into_iter().collect();
    let counted = |key: &str| number(root.at(&["spec", key]));
    match object.kind.as_str() {
        "Pod" => {
            let spec = root.get("spec");
            spec.map(|spec| pod(object, String::new(), root.get("metadata"), spec, Number::One))
                .into_iter()
                .collect()
        }
        "DaemonSet" => template(&["spec", "template"], Number::EachNode),
        "Job" if root.at(&["spec", "tasks"]).is_some() => listed(object, "tasks", &["template"]),
        "Job" => template(&["spec", "template"], counted("parallelism")),
        "CronJob" => {
            let parallel = number(root.at(&["spec", "jobTemplate", "spec", "parallelism"]));
            template(&["spec", "jobTemplate", "spec", "template"], parallel)
        }
        "JobSet" => listed(object, "replicatedJobs", &["template", "spec", "template"]),
        "MPIJob" => roles(object, "mpiReplicaSpecs"),
        "PyTorchJob" => roles(object, "pytorchReplicaSpecs"),
        "LeaderWorkerSet" => ["leaderTemplate", "workerTemplate"]
            .iter()
            .filter_map(|key| one(object, &["spec", "leaderWorkerTemplate", key], Number::Several))
            .collect(),
        "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet" => {
            template(&["spec", "template"], counted("replicas"))
        }
        _ => Vec::new(),
    }
}

fn one<'a>(object: &'a Object, path: &[&str], number: Number) -> Option<Pod<'a>> {
    let template = object.root.at(path)?;
    Some(pod(object, path.join("."), template.get("metadata"), template.get("spec")?, number))
}

/// The templates of a list of jobs, as a JobSet and Volcano's Job have them.
fn listed<'a>(object: &'a Object, key: &str, path: &[&str]) -> Vec<Pod<'a>> {
    let items = object.root.at(&["spec", key]).map_or(&[][..], Node::items);
    let pods = items.iter().enumerate().filter_map(|(index, item)| {
        let template = item.at(path)?;
        let several = [item.get("replicas"), item.at(&["template", "spec", "parallelism"])].map(number);
        let number = if several.contains(&Number::Several) { Number::Several } else { Number::One };
        let path = format!("spec.{key}[{index}].{}", path.join("."));
        Some(pod(object, path, template.get("metadata"), template.get("spec")?, number))
    });
    pods.collect()
}

/// The templates of a job of unlike Pods, as Kubeflow's jobs have them.
fn roles<'a>(object: &'a Object, key: &str) -> Vec<Pod<'a>> {
    let entries = object.root.at(&["spec", key]).map_or(&[][..], Node::entries);
    let pods = entries.iter().filter_map(|entry| {
        let template = entry.value.get("template")?;
        let path = format!("spec.{key}.{}.template", entry.key);
        let number = number(entry.value.get("replicas"));
        let pod = pod(object, path, template.get("metadata"), template.get("spec")?, number);
        Some(Pod { role: Some(&entry.key), ..pod })
    });
    pods.collect()
}

fn number(replicas: Option<&Node>) -> Number {
    let several = replicas.and_then(Node::number::<u64>).is_some_and(|replicas| replicas > 1);
    if several { Number::Several } else { Number::One }
}

fn pod<'a>(
    object: &'a Object,
    path: String,
    metadata: Option<&'a Node>,
    spec: &'a Node,
    number: Number,
) -> Pod<'a> {
    let mut pod = Pod { object, path, metadata, spec, containers: Vec::new(), number, role: None };
    let lists = [("initContainers", Stage::Init), ("containers", Stage::Main)];
    pod.containers = lists.iter().flat_map(|(key, stage)| containers(&pod, key, *stage)).collect();
    pod
}

fn containers<'a>(pod: &Pod<'a>, key: &str, stage: Stage) -> Vec<Container<'a>> {
    let items = pod.spec.get(key).map_or(&[][..], Node::items);
    let containers = items.iter().enumerate().map(|(index, node)| {
        let is_sidecar = node.get("restartPolicy").and_then(Node::text) == Some("Always");
        let stage = if is_sidecar { Stage::Main } else { stage };
        Container { node, path: pod.path_of(&format!("spec.{key}[{index}]")), stage }
    });
    containers.collect()
}
