//! A report as text: for people, as a document, and as the node problem detector's one line. Judges nothing.

use std::fmt::Write as _;

use anyhow::Context;
use rocade_core::check::Report;
use rocade_core::{Finding, Host, Severity};
use serde_json::{Value, json};

use crate::columns::{count_severities, wrap};

/// Version of the document; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;
/// Columns for people.
const WIDTH: usize = 100;
/// What the node problem detector keeps of a plugin's output (its `max_output_length`).
const NPD_BYTES: usize = 80;

/// Findings with what to do, then what could not be judged, then the counts.
pub(super) fn table(host: &Host, report: &Report) -> String {
    let mut text = String::new();
    for (findings, subjects) in join_alike(&report.findings, |f| (f.code, &f.seen, &f.wanted, &f.cure)) {
        let Finding { severity, code, seen, wanted, cure, .. } = findings;
        put(&mut text, "", &format!("{severity} {code} {subjects}: {seen}; wanted {wanted}"));
        if !cure.is_empty() {
            put(&mut text, "    ", cure);
        }
    }
    for (unjudged, subjects) in join_alike(&report.unjudged, |u| (u.code, &u.why, &u.why, &u.why)) {
        put(&mut text, "", &format!("not judged {} {subjects}: {}", unjudged.code, unjudged.why));
    }
    let ports = host.hcas.iter().map(|hca| hca.ports.len()).sum::<usize>();
    put(&mut text, "", &format!("{} HCAs, {ports} ports: {}", host.hcas.len(), counts(report)));
    text
}

/// The report for programs.
pub(super) fn document(report: &Report) -> anyhow::Result<Value> {
    let mut document = json!({ "schema_version": SCHEMA_VERSION });
    let report = serde_json::to_value(report)?;
    let fields = document.as_object_mut().context("a document is an object")?;
    fields.extend(report.as_object().context("a report is an object")?.clone());
    Ok(document)
}

/// The worst finding, as much of it as the node problem detector keeps.
pub(super) fn npd(report: &Report) -> String {
    let worst = report.findings.first().filter(|finding| finding.severity > Severity::Note);
    let text = match worst {
        Some(f) => format!("{}; {} {}: {}", counts(report), f.code, f.subject, f.seen),
        None => counts(report),
    };
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{}\n", shorten(&line, NPD_BYTES))
}

/// `2 errors, 1 warning; 3 not judged`.
fn counts(report: &Report) -> String {
    let mut text = count_severities(report.findings.iter().map(|finding| finding.severity));
    if !report.unjudged.is_empty() {
        let _ = write!(text, "; {} not judged", report.unjudged.len());
    }
    if report.silenced > 0 {
        let _ = write!(text, "; {} silenced", report.silenced);
    }
    text
}

/// One entry for those that say the same of several subjects.
fn join_alike<'a, T: Subject, K: PartialEq>(all: &'a [T], key: impl Fn(&'a T) -> K) -> Vec<(&'a T, String)> {
    let mut joined: Vec<(&T, K, Vec<&str>)> = Vec::new();
    for one in all {
        match joined.iter_mut().find(|(_, k, _)| *k == key(one)) {
            Some((.., subjects)) => subjects.push(one.subject()),
            None => joined.push((one, key(one), vec![one.subject()])),
        }
    }
    joined.into_iter().map(|(one, _, subjects)| (one, subjects.join(", "))).collect()
}

trait Subject {
    fn subject(&self) -> &str;
}

impl Subject for Finding {
    fn subject(&self) -> &str {
        &self.subject
    }
}

impl Subject for rocade_core::check::Unjudged {
    fn subject(&self) -> &str {
        &self.subject
    }
}

fn put(text: &mut String, indent: &str, paragraph: &str) {
    for (number, line) in wrap(paragraph, WIDTH - 4).iter().enumerate() {
        let further = if number > 0 && indent.is_empty() { "  " } else { indent };
        let _ = writeln!(text, "{further}{line}");
    }
}

fn shorten(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mut end = bytes - 3;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, subject: &str, seen: &str) -> Finding {
        let text = |t: &str| t.to_owned();
        Finding {
            code: "RDC201",
            severity,
            subject: text(subject),
            seen: text(seen),
            wanted: text("ACTIVE"),
            cure: text("look"),
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report { findings, unjudged: Vec::new(), silenced: 0 }
    }

    #[test]
    fn the_line_for_the_node_problem_detector_is_one_of_at_most_80_bytes() {
        let long = report(vec![finding(Severity::Error, "mlx5_0/1", &"é\n".repeat(90))]);
        let line = npd(&long);
        assert!(line.len() <= NPD_BYTES + 1 && line.matches('\n').count() == 1, "{line}");
        assert!(line.starts_with("1 error; RDC201 mlx5_0/1: é"), "{line}");
        assert_eq!(npd(&report(Vec::new())), "nothing found\n");
    }

    #[test]
    fn what_several_subjects_share_is_said_once() {
        let found = ["a/1", "b/1"].map(|subject| finding(Severity::Warning, subject, "DOWN"));
        let host = Host::default();
        assert_eq!(
            table(&host, &report(found.to_vec())),
            "warning RDC201 a/1, b/1: DOWN; wanted ACTIVE\n    look\n0 HCAs, 0 ports: 2 warnings\n"
        );
    }
}
