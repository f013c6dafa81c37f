//! Judges manifests before they are applied: Pods and what makes Pods, network attachments, and configurations of the
//! agent. Text comes in, findings with line numbers and the lines to change go out; no cluster is asked.

use std::fmt::Display;

use serde::Serialize;

use crate::config::ConfigFile;
use crate::finding::{Finding, Severity};
use crate::host::Host;

mod annotation;
mod attachment;
mod labels;
mod memory;
mod network;
mod node;
mod patch;
mod pod;
mod pools;
mod rail;
mod read;
mod replicas;
mod resources;
mod variables;

use patch::Lines;
pub use patch::{Edit, diff};
use pod::Pod;
use pools::Pools;
use read::Object;

/// One rule: a row of docs/checks.md.
#[derive(Debug)]
pub struct Rule {
    /// Stable: RDC and three digits.
    pub code: &'static str,
    /// How bad what it finds is, unless the finding itself says otherwise.
    pub severity: Severity,
    /// What it finds, in a few words.
    pub title: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// How to mend it; empty where each finding says it for itself.
    pub cure: &'static str,
}

/// A file of manifests.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What to call it in findings.
    pub name: &'a str,
    /// YAML or JSON, any number of documents.
    pub text: &'a str,
}

/// What manifests are judged by beside themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Against<'a> {
    /// The namespace that they will be applied in (`kubectl -n`).
    pub namespace: Option<&'a str>,
    /// The agent's configuration; None takes what the files hold of it.
    pub config: Option<&'a ConfigFile>,
    /// A node that the Pods are for.
    pub host: Option<&'a Host>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// By file, line and code.
    pub findings: Vec<Found>,
    /// Documents of kinds that tell nothing of RDMA, as `rbac.yaml:3 ClusterRole rocade`.
    pub passed_over: Vec<String>,
    /// How many documents could not be read, and so were not judged.
    pub unread: usize,
}

/// A finding and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// What is wrong. Its subject begins with file and line.
    #[serde(flatten)]
    pub finding: Finding,
    /// Number of the file in the order given, from 0.
    pub file: usize,
    /// Line, from 1: where it was written, of what an alias brings in.
    pub line: u32,
    /// The lines to change; empty where that is not for a program to say.
    pub edits: Vec<Edit>,
}

/// All rules, by code.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let families = [
        read::RULES,
        resources::RULES,
        labels::RULES,
        memory::RULES,
        network::RULES,
        attachment::RULES,
        variables::RULES,
        replicas::RULES,
    ];
    families.into_iter().flatten()
}

/// Judges the files together: what one of them says of a network or a pool counts for the Pods of all.
pub fn lint(sources: &[Source<'_>], against: &Against<'_>) -> Report {
    let mut sheet = Sheet { sources, findings: Vec::new() };
    let read = read::read(sources, &mut sheet);
    let configs: Vec<&ConfigFile> = match against.config {
        Some(config) => vec![config],
        None => read.configs.iter().collect(),
    };
    let case = Case {
        texts: sources.iter().map(|source| Lines::of(source.text)).collect(),
        namespace: against.namespace,
        host: against.host,
        pools: Pools::of(&configs, against.host),
        pods: read.objects.iter().flat_map(pod::pods).collect(),
        attachments: attachment::attachments(&read.objects, against.namespace),
        isolation: network::isolation(&read.objects),
    };
    read.objects.iter().for_each(|object| read::check_namespace(&case, object, &mut sheet));
    for pod in &case.pods {
        resources::check(&case, pod, &mut sheet);
        labels::check(&case, pod, &mut sheet);
        memory::check(&case, pod, &mut sheet);
        network::check(&case, pod, &mut sheet);
        variables::check(&case, pod, &mut sheet);
    }
    replicas::check(&case, &mut sheet);
    attachment::check(&case, &mut sheet);
    let mut findings = sheet.findings;
    findings.sort_by(|a, b| (a.file, a.line, a.finding.code).cmp(&(b.file, b.line, b.finding.code)));
    Report { findings, passed_over: read.passed_over, unread: read.unread }
}

impl Report {
    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|found| found.finding.severity).max()
    }

    /// What all edits make of a file, as a unified diff; empty where there is nothing to change.
    pub fn patch(&self, file: usize, source: &Source<'_>) -> String {
        let of_file = self.findings.iter().filter(|found| found.file == file);
        diff(source, &of_file.flat_map(|found| &found.edits).collect::<Vec<_>>())
    }
}

/// What the rules look at.
struct Case<'a> {
    texts: Vec<Lines<'a>>,
    namespace: Option<&'a str>,
    host: Option<&'a Host>,
    pools: Pools<'a>,
    pods: Vec<Pod<'a>>,
    attachments: Vec<attachment::Attachment<'a>>,
    /// What Multus' own configuration says, where it is among the files.
    isolation: Option<network::Isolation>,
}

impl<'a> Case<'a> {
    /// The text of a file.
    fn text(&self, file: usize) -> &Lines<'a> {
        &self.texts[file]
    }

    /// The namespace that an object will be in; None where nothing says it.
    fn namespace_of(&self, object: &Object) -> Option<String> {
        object.namespace.clone().or_else(|| self.namespace.map(str::to_owned))
    }
}

/// Where a finding is.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    object: &'a Object,
    line: u32,
}

/// Where rules write down what they find.
struct Sheet<'a> {
    sources: &'a [Source<'a>],
    findings: Vec<Found>,
}

impl Sheet<'_> {
    /// Writes a finding with the rule's severity and cure, which the caller may change. `path` is where in the object.
    fn find(
        &mut self,
        rule: &'static Rule,
        place: Place<'_>,
        path: impl Display,
        seen: impl Into<String>,
        wanted: impl Into<String>,
    ) -> &mut Found {
        let name = self.sources.get(place.object.file).map_or("", |source| source.name);
        let subject = format!("{name}:{} {} {path}", place.line, place.object.title());
        self.put(Found {
            finding: Finding {
                code: rule.code,
                severity: rule.severity,
                subject: subject.trim_end().to_owned(),
                seen: seen.into(),
                wanted: wanted.into(),
                cure: rule.cure.into(),
            },
            file: place.object.file,
            line: place.line,
            edits: Vec::new(),
        })
    }

    fn put(&mut self, found: Found) -> &mut Found {
        let at = self.findings.len();
        self.findings.push(found);
        &mut self.findings[at]
    }
}

impl Found {
    /// With another severity.
    fn severity(&mut self, severity: Severity) -> &mut Self {
        self.finding.severity = severity;
        self
    }

    /// With another cure.
    fn cure(&mut self, cure: impl Into<String>) -> &mut Self {
        self.finding.cure = cure.into();
        self
    }

    /// With the lines to change.
    fn edit(&mut self, edit: Option<Edit>) -> &mut Self {
        self.edits.extend(edit);
        self
    }
}

#[cfg(test)]
mod tests;
