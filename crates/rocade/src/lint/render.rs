//! What was found in manifests, as text with the lines to change, and as a document. Judges nothing.

use std::fmt::Write as _;

use rocade_core::Finding;
use rocade_core::lint::{Edit, Found, Report, Source};
use serde_json::{Value, json};

use crate::columns::{count_severities, wrap};

/// Version of the document; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;
/// Columns for people.
const WIDTH: usize = 100;

/// Findings by file and line, each with what to do and the lines to change; then what was passed over, and the counts.
pub(super) fn table(sources: &[Source<'_>], report: &Report) -> String {
    let mut text = String::new();
    for found in &report.findings {
        let Finding { severity, code, subject, seen, wanted, cure } = &found.finding;
        put(&mut text, "", &format!("{subject}: {severity} {code}: {seen}; wanted {wanted}"));
        if !cure.is_empty() {
            put(&mut text, "    ", cure);
        }
        let source = sources.get(found.file).map_or("", |source| source.text);
        found.edits.iter().for_each(|edit| put_edit(&mut text, source, edit));
    }
    for passed in &report.passed_over {
        let _ = writeln!(text, "{passed}: passed over, nothing of RDMA is judged in this kind");
    }
    let _ =
        writeln!(text, "{}", count_severities(report.findings.iter().map(|found| found.finding.severity)));
    text
}

/// The report for programs.
pub(super) fn document(sources: &[Source<'_>], report: &Report) -> anyhow::Result<Value> {
    let findings = report.findings.iter().map(|found| one(sources, found)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "schema_version": SCHEMA_VERSION,
        "findings": findings,
        "passed_over": report.passed_over,
        "unread": report.unread,
    }))
}

/// `1 document`.
pub(super) fn documents(number: usize) -> String {
    format!("{number} document{}", if number == 1 { "" } else { "s" })
}

fn one(sources: &[Source<'_>], found: &Found) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(found)?;
    value["file"] = sources.get(found.file).map_or("", |source| source.name).into();
    Ok(value)
}

fn put(text: &mut String, indent: &str, paragraph: &str) {
    for (number, line) in wrap(paragraph, WIDTH - 4).iter().enumerate() {
        let further = if number > 0 && indent.is_empty() { "  " } else { indent };
        let _ = writeln!(text, "{further}{line}");
    }
}

/// The lines that go and those that come, with the number of the first.
fn put_edit(text: &mut String, source: &str, edit: &Edit) {
    let first = usize::try_from(edit.line).unwrap_or(1).saturating_sub(1);
    let removed = source.lines().skip(first).take(usize::try_from(edit.removed).unwrap_or_default());
    let _ = writeln!(text, "    line {}:", edit.line);
    removed.for_each(|line| text.push_str(&format!("    - {line}\n")));
    edit.added.iter().for_each(|line| text.push_str(&format!("    + {line}\n")));
}
