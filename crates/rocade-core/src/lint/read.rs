//! Files → documents → objects: what is a list is taken apart, what is a configuration of the agent goes to the rules that
//! there are for it. What the objects mean is the other files' matter.

use super::node::{Node, Value};
use super::{Case, Found, Place, Rule, Sheet, Source};
use crate::config::{ConfigFile, parse_config};
use crate::finding::{Finding, Severity};

pub(super) const RULES: &[Rule] = &[UNREAD, OTHER_NAMESPACE];

const UNREAD: Rule = Rule {
    code: "RDC740",
    severity: Severity::Error,
    title: "A manifest cannot be read",
    why: "It is no YAML, so nothing in it was judged. A Helm template becomes YAML only when it is rendered.",
    cure: "correct the YAML",
};

const OTHER_NAMESPACE: Rule = Rule {
    code: "RDC748",
    severity: Severity::Error,
    title: "A manifest names another namespace than the one it is meant for",
    why: "`kubectl apply -n` refuses it; looked for with `-n` it is not found.",
    cure: "",
};

/// Kinds whose Pods or networks are judged, or that say something of them.
const KNOWN: [&str; 17] = [
    "Pod",
    "Deployment",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "Job",
    "CronJob",
    "JobSet",
    "MPIJob",
    "PyTorchJob",
    "LeaderWorkerSet",
    "NetworkAttachmentDefinition",
    "MacvlanNetwork",
    "IPoIBNetwork",
    "HostDeviceNetwork",
    "ConfigMap",
];

/// One Kubernetes object.
#[derive(Debug)]
pub(super) struct Object {
    /// Number of its file.
    pub(super) file: usize,
    pub(super) kind: String,
    pub(super) name: String,
    /// As the manifest says it.
    pub(super) namespace: Option<String>,
    pub(super) root: Node,
}

impl Object {
    /// `Pod demo/rdma-pod4`.
    pub(super) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} {namespace}/{}", self.kind, self.name),
            None => format!("{} {}", self.kind, self.name),
        }
    }
}

/// What the files hold.
#[derive(Default)]
pub(super) struct Read {
    pub(super) objects: Vec<Object>,
    /// Configurations of the agent that were accepted.
    pub(super) configs: Vec<ConfigFile>,
    pub(super) passed_over: Vec<String>,
    pub(super) unread: usize,
}

/// Reads all files; a document that cannot be read is a finding, the others are read all the same.
pub(super) fn read(sources: &[Source<'_>], sheet: &mut Sheet<'_>) -> Read {
    let mut read = Read::default();
    for (file, source) in sources.iter().enumerate() {
        let whole = source.text.trim_start_matches('\u{feff}');
        for (before, text) in documents(whole) {
            match Node::parse(text, before) {
                Ok(node) => take(&mut read, sheet, Document { file, source, before, text }, node),
                Err(unread) => {
                    read.unread += 1;
                    let is_template = text.contains("{{");
                    let seen = if is_template { "a Helm template, which is no YAML" } else { &unread.why };
                    let cure = "render it first: `helm template CHART | rocade lint -`";
                    sheet.put(Found {
                        finding: Finding {
                            code: UNREAD.code,
                            severity: UNREAD.severity,
                            subject: format!("{}:{}", source.name, unread.line),
                            seen: seen.to_owned(),
                            wanted: "YAML or JSON".into(),
                            cure: if is_template { cure } else { UNREAD.cure }.into(),
                        },
                        file,
                        line: unread.line,
                        edits: Vec::new(),
                    });
                }
            }
        }
    }
    read
}

/// Says so where `-n` and the manifest differ.
pub(super) fn check_namespace(case: &Case<'_>, object: &Object, sheet: &mut Sheet<'_>) {
    let (Some(wanted), Some(own)) = (case.namespace, &object.namespace) else { return };
    if wanted != own {
        let line = object.root.at(&["metadata", "namespace"]).map_or(object.root.line, |node| node.line);
        sheet
            .find(&OTHER_NAMESPACE, Place { object, line }, "metadata.namespace", format!("`{own}`"), wanted)
            .cure(format!("apply it with `-n {own}`, or change the manifest"));
    }
}

/// The documents of a file, each with the number of lines before it. `---` at the start of a line parts them, wherever
/// it stands (YAML 1.2.2, 9.1.2).
fn documents(text: &str) -> Vec<(u32, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_marker && at > start {
            documents.push((start_line, &text[start..at]));
            start = at;
            start_line = u32::try_from(number).unwrap_or(u32::MAX / 2);
        }
        at += line.len();
    }
    documents.push((start_line, &text[start..]));
    documents
}

/// A document's text and where it is.
#[derive(Clone, Copy)]
struct Document<'a> {
    file: usize,
    source: &'a Source<'a>,
    before: u32,
    text: &'a str,
}

fn take(read: &mut Read, sheet: &mut Sheet<'_>, document: Document<'_>, node: Node) {
    let word = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let kind = word("kind");
    match kind.as_deref() {
        None if node.value == Value::Null => {}
        None if node.get("configList").is_some() => {
            take_config(read, sheet, document.file, document.source, document.before, document.text);
        }
        Some("AgentConfig") => {
            take_config(read, sheet, document.file, document.source, document.before, document.text);
        }
        Some(kind) if kind.ends_with("List") && node.get("items").is_some() => {
            let Value::Map(entries) = node.value else { return };
            let items = entries.into_iter().filter(|entry| entry.key == "items");
            for item in items.flat_map(|entry| match entry.value.value {
                Value::List(items) => items,
                _ => Vec::new(),
            }) {
                take(read, sheet, document, item);
            }
        }
        _ => {
            let metadata = |key: &str| node.at(&["metadata", key]).and_then(Node::text).map(str::to_owned);
            let object = Object {
                file: document.file,
                name: metadata("name").or_else(|| metadata("generateName")).unwrap_or_default(),
                namespace: metadata("namespace"),
                kind: kind.unwrap_or_else(|| "no kind".into()),
                root: node,
            };
            if object.kind == "ConfigMap" {
                take_config_map(read, sheet, document, &object);
            }
            if KNOWN.contains(&object.kind.as_str()) {
                read.objects.push(object);
            } else {
                let place = format!("{}:{}", document.source.name, object.root.line);
                read.passed_over.push(format!("{place} {}", object.title()).trim_end().to_owned());
            }
        }
    }
}

/// Configurations of the agent that a ConfigMap holds.
fn take_config_map(read: &mut Read, sheet: &mut Sheet<'_>, document: Document<'_>, object: &Object) {
    let data = object.root.get("data").map_or(&[][..], Node::entries);
    for text in data.iter().filter_map(|entry| Some((entry.value.line, entry.value.text()?))) {
        let is_config = text.1.contains("\"configList\"") || text.1.contains("kind: AgentConfig");
        if is_config {
            take_config(read, sheet, document.file, document.source, text.0.saturating_sub(1), text.1);
        }
    }
}

/// Judges a configuration with the rules that it has; empty lines before it give its findings the file's line numbers.
fn take_config(
    read: &mut Read,
    sheet: &mut Sheet<'_>,
    file: usize,
    source: &Source<'_>,
    before: u32,
    text: &str,
) {
    let padding = "\n".repeat(usize::try_from(before).unwrap_or_default());
    let findings = match parse_config(source.name, &format!("{padding}{text}"), false) {
        Ok((config, findings)) => {
            read.configs.push(config);
            findings
        }
        Err(findings) => findings,
    };
    for finding in findings {
        let behind = finding.subject.strip_prefix(source.name).and_then(|rest| rest.strip_prefix(':'));
        let digits = behind.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        let line = digits.and_then(|digits| digits.parse().ok()).unwrap_or(1);
        sheet.put(Found { finding, file, line, edits: Vec::new() });
    }
}

/// Whether every document of a text can be read.
pub(super) fn is_readable(text: &str) -> bool {
    documents(text).into_iter().all(|(before, text)| Node::parse(text, before).is_ok())
}
