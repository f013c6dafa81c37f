//! The inventory as a table: one line a port. A cell that finds no room gives way to a note below the table.

use std::fmt::Write;

use rocade_core::{Hca, Host, Port, Usable};

use super::cells::{
    render_indexes, render_netdev, render_rate, render_state, render_transport, render_usable,
};
use super::render_summary;
use crate::columns::{GAP, length, wrap};
use crate::terminal::Terminal;

const HEADING: [&str; 4] = ["HCA/PORT", "NETDEV", "LINK", "ROLE"];
const INDEXES: &str = "V2 GID INDEX";
const USABLE: &str = "USABLE";
/// Reasons up to this stand in their row rather than addresses: `port DOWN`, `software RoCE`.
const SHORT_REASON: usize = 13;

/// A port before its cells are fitted.
struct Row {
    fixed: [String; 4],
    indexes: Vec<String>,
    usable: Usable,
    reason: String,
}

/// Texts that found no room in their row, each once, numbered from 1.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, text: String) -> usize {
        let at = self.0.iter().position(|known| *known == text).unwrap_or_else(|| {
            self.0.push(text);
            self.0.len() - 1
        });
        at + 1
    }
}

pub(super) fn render(host: &Host, terminal: Terminal) -> String {
    let ports = host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    let rows: Vec<Row> = ports.map(|(hca, port)| read_row(host, hca, port)).collect();
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| length(&row.fixed[column]));
        cells.chain([length(HEADING[column])]).max().unwrap_or(0)
    });
    let room = terminal.width.saturating_sub(widths.iter().map(|width| width + GAP.len()).sum());
    let (indexes, mut notes) = fit_indexes(&rows, room.saturating_sub(GAP.len() + verdict_width(&rows)));
    let width = indexes.iter().map(|cell| length(cell)).max().unwrap_or(0).max(length(INDEXES));
    let rest = room.saturating_sub(width + GAP.len());
    let mut text = format!("{}\n", render_summary(host));
    text += &render_line(&HEADING.map(str::to_owned), &widths, INDEXES, width, USABLE);
    for (row, indexes) in rows.iter().zip(&indexes) {
        let verdict = fit_verdict(row, rest, &mut notes, terminal);
        text += &render_line(&row.fixed, &widths, indexes, width, &verdict);
    }
    text + &render_notes(&notes, terminal.width)
}

fn read_row(host: &Host, hca: &Hca, port: &Port) -> Row {
    let link = [render_transport(port.transport), render_state(port), &render_rate(port)]
        .map(str::to_owned)
        .join(" ");
    Row {
        fixed: [format!("{}/{}", hca.name, port.port), render_netdev(port), link, hca.role.kind.to_string()],
        indexes: render_indexes(host, port),
        usable: port.usable,
        reason: port.reason.clone(),
    }
}

/// Room that the verdicts need at least: the word, and a short reason or the number of a note.
fn verdict_width(rows: &[Row]) -> usize {
    let least = |row: &Row| {
        let reason = match length(&row.reason) {
            0 => 0,
            short @ 1..=SHORT_REASON => length(": ") + short,
            _ => length("[99]"),
        };
        length(render_usable(row.usable)) + reason
    };
    rows.iter().map(least).max().unwrap_or(0).max(length(USABLE))
}

/// What of each row's indexes stands in the row: all, or as many as fit, the number of others and a note with all.
fn fit_indexes(rows: &[Row], limit: usize) -> (Vec<String>, Notes) {
    let mut notes = Notes::default();
    let cells = rows.iter().map(|row| fit_row_indexes(row, limit, &mut notes)).collect();
    (cells, notes)
}

fn fit_row_indexes(row: &Row, limit: usize, notes: &mut Notes) -> String {
    let whole = row.indexes.join(" ");
    if row.indexes.is_empty() {
        return "-".into();
    }
    if length(&whole) <= limit {
        return whole;
    }
    let number = notes.number(format!("{}: {whole}", row.fixed[0]));
    let cut = |kept: usize| {
        let others = row.indexes[kept..].iter().filter(|word| word.contains('→')).count();
        let others = format!("+{others}[{number}]");
        row.indexes[..kept].iter().cloned().chain([others]).collect::<Vec<_>>().join(" ")
    };
    let fits = |kept: &usize| length(&cut(*kept)) <= limit;
    cut((0..row.indexes.len()).rev().find(fits).unwrap_or(0))
}

fn fit_verdict(row: &Row, room: usize, notes: &mut Notes, terminal: Terminal) -> String {
    let word = render_usable(row.usable);
    let painted = terminal.paint(
        word,
        match row.usable {
            Usable::Yes => 2,
            Usable::Limited => 3,
            Usable::No => 1,
        },
    );
    if row.reason.is_empty() {
        return painted;
    }
    if length(word) + 2 + length(&row.reason) <= room {
        return format!("{painted}: {}", row.reason);
    }
    format!("{painted}[{}]", notes.number(row.reason.clone()))
}

fn render_line(
    fixed: &[String; 4],
    widths: &[usize; 4],
    indexes: &str,
    index_width: usize,
    verdict: &str,
) -> String {
    let [hca, netdev, link, role] = fixed;
    let [w0, w1, w2, w3] = widths;
    let line = format!(
        "{hca:w0$}{GAP}{netdev:w1$}{GAP}{link:w2$}{GAP}{indexes:index_width$}{GAP}{role:w3$}{GAP}{verdict}"
    );
    format!("{}\n", line.trim_end())
}

fn render_notes(notes: &Notes, width: usize) -> String {
    let mut text = String::new();
    for (at, note) in notes.0.iter().enumerate() {
        let mark = format!("[{}] ", at + 1);
        for (line, part) in wrap(note, width.saturating_sub(mark.len())).iter().enumerate() {
            let lead = if line == 0 { mark.as_str() } else { "" };
            let _ = writeln!(text, "{lead:indent$}{part}", indent = mark.len());
        }
    }
    text
}
