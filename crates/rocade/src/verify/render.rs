//! A verdict as text for people and as a document. Judges nothing.

use std::fmt::Write as _;

use anyhow::Context;
use rocade_core::check::{Shown, Traffic};
use rocade_core::verify::{Judged, Own, OwnPort, Verdict};
use rocade_core::{Finding, LinkLayer, Usable};
use serde_json::{Value, json};

use crate::columns::{count_severities, wrap};

/// Version of the document; raised when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;
/// Columns for people.
const WIDTH: usize = 100;

/// The verdict, then each HCA, then the findings with what to do and the lines to add.
pub(super) fn table(verdict: &Verdict) -> String {
    let mut text = String::new();
    put(&mut text, "", &format!("{} {}", if verdict.pass { "PASS" } else { "FAIL" }, verdict.reason));
    for own in &verdict.hcas {
        put(&mut text, "", &format!("{}: {}", own.hca, holding(own)));
        own.ports.iter().for_each(|port| put(&mut text, "    ", &port_line(port)));
    }
    if !verdict.seen_only.is_empty() {
        put(&mut text, "", &format!("seen, not granted: {}", verdict.seen_only.join(", ")));
    }
    for Judged { finding, lines } in &verdict.findings {
        let Finding { severity, code, subject, seen, wanted, cure } = finding;
        put(&mut text, "", &format!("{severity} {code} {subject}: {seen}; wanted {wanted}"));
        if !cure.is_empty() {
            put(&mut text, "    ", cure);
        }
        lines.iter().for_each(|line| writeln!(text, "    | {line}").unwrap_or_default());
    }
    for unjudged in &verdict.unjudged {
        put(&mut text, "", &format!("not judged {} {}: {}", unjudged.code, unjudged.subject, unjudged.why));
    }
    let severities = verdict.findings.iter().map(|judged| judged.finding.severity);
    put(&mut text, "", &count_severities(severities));
    text
}

/// The verdict for programs.
pub(super) fn document(verdict: &Verdict) -> anyhow::Result<Value> {
    let mut document = json!({ "schema_version": SCHEMA_VERSION });
    let verdict = serde_json::to_value(verdict)?;
    let fields = document.as_object_mut().context("a document is an object")?;
    fields.extend(verdict.as_object().context("a verdict is an object")?.clone());
    Ok(document)
}

fn holding(own: &Own) -> String {
    let granted = match own.granted {
        Some(true) => "granted",
        Some(false) => "not granted",
        None => "nothing says whether it was granted",
    };
    let opens = match own.opens {
        Some(true) => "opens",
        Some(false) => "does not open",
        None => "whether it opens is not known",
    };
    format!("{granted}, {opens}")
}

fn port_line(port: &OwnPort) -> String {
    let layer = match port.link_layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unknown => "link layer unknown",
    };
    let usable = match port.usable {
        Usable::Yes => "usable".to_owned(),
        Usable::Limited => format!("usable ({})", port.reason),
        Usable::No => format!("not usable: {}", port.reason),
    };
    let gids = port.gids.iter().map(|gid| {
        let netdev = gid.netdev.as_deref().unwrap_or("no interface");
        format!("{} at index {} ({netdev})", gid.address, gid.index)
    });
    let traffic = port.traffic.as_ref().map(traffic_line);
    let first = format!("port {}: {layer}, {usable}", port.port);
    [first].into_iter().chain(gids).chain(traffic).collect::<Vec<_>>().join("; ")
}

fn traffic_line(traffic: &Traffic) -> String {
    match traffic.shown {
        Shown::Proven => {
            let sent = traffic.data_sent_bytes().map(|bytes| format!(", the port counted {bytes} sent"));
            format!("{} bytes written to itself and compared{}", traffic.bytes, sent.unwrap_or_default())
        }
        Shown::Failed => "writing to itself failed".to_owned(),
        Shown::Inconclusive => "writing to itself inconclusive".to_owned(),
    }
}

fn put(text: &mut String, indent: &str, paragraph: &str) {
    for (number, line) in wrap(paragraph, WIDTH - 4).iter().enumerate() {
        let further = if number > 0 && indent.is_empty() { "  " } else { indent };
        let _ = writeln!(text, "{further}{line}");
    }
}
