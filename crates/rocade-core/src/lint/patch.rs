//! The lines to change: how they are found in a text that is kept as it is, and the unified diff of all of them. Only
//! mappings in block style are changed; of others a finding says in words what to do.

use std::fmt::Write as _;

use serde::Serialize;

use super::Source;
use super::node::{Entry, Node, Value};
use super::read::is_readable;

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// Lines that take the place of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edit {
    /// The line that it begins at, from 1; what is added stands before it where nothing is removed.
    pub line: u32,
    /// How many lines go.
    pub removed: u32,
    /// The lines that come, without their ends.
    pub added: Vec<String>,
}

/// The lines of a file.
#[derive(Debug, Default)]
pub(super) struct Lines<'a>(Vec<&'a str>);

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Lines(text.lines().collect())
    }

    /// The line of that number, from 1.
    pub(super) fn get(&self, line: u32) -> Option<&'a str> {
        self.0.get(usize::try_from(line).ok()?.checked_sub(1)?).copied()
    }
}

/// Adds keys to a mapping; None where it is not in block style.
pub(super) fn add(text: &Lines<'_>, map: &Node, lines: &[&str]) -> Option<Edit> {
    let entries = map.entries();
    // The first line of a list's item begins with a dash, so that nothing can stand before it.
    let before = entries.iter().take(2).find(|entry| is_at_start(text, entry));
    let (line, column) = match (before, entries) {
        (Some(entry), _) => (entry.line, entry.column),
        (None, [only])
            if !only.is_borrowed && is_block(text, only) && only.value.last_line() == Some(only.line) =>
        {
            (only.line + 1, only.column)
        }
        _ => return None,
    };
    Some(Edit { line, removed: 0, added: indented(lines, column) })
}

/// Adds an item to the list of that key, or the key with a list.
pub(super) fn add_item(text: &Lines<'_>, map: &Node, key: &str, lines: &[&str]) -> Option<Edit> {
    let mut item: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    item[0].replace_range(..2, "- ");
    let Some(entry) = map.entry(key) else {
        let mut all = vec![format!("{key}:")];
        all.extend(item);
        return add(text, map, &all.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let first = entry.value.items().first()?;
    let line = text.get(first.line)?;
    let indent = line.len() - line.trim_start().len();
    line.trim_start().starts_with("- ").then(|| Edit {
        line: first.line,
        removed: 0,
        added: item.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect(),
    })
}

/// Puts lines in the place of an entry; None where its end is not known.
pub(super) fn replace(text: &Lines<'_>, entry: &Entry, lines: &[&str]) -> Option<Edit> {
    let last = entry.value.last_line()?;
    let is_whole = last >= entry.line && is_at_start(text, entry) && is_scalar(text, entry);
    is_whole.then(|| Edit {
        line: entry.line,
        removed: last - entry.line + 1,
        added: indented(lines, entry.column),
    })
}

/// Removes an item of a list that is in block style.
pub(super) fn remove_item(text: &Lines<'_>, item: &Node) -> Option<Edit> {
    let last = item.last_line()?;
    let line = text.get(item.line)?.trim_start();
    let is_block = item.entries().iter().skip(1).all(|entry| is_at_start(text, entry));
    (line.starts_with("- ") && is_block && !line.starts_with("- {")).then(|| Edit {
        line: item.line,
        removed: last - item.line + 1,
        added: Vec::new(),
    })
}

/// Whether the entry is the first thing on its line.
fn is_at_start(text: &Lines<'_>, entry: &Entry) -> bool {
    !entry.is_borrowed
        && text.get(entry.line).is_some_and(|line| line.trim_start().starts_with(&entry.key))
        && text.get(entry.line).is_some_and(|line| column(line) == entry.column)
}

/// Whether a single entry stands behind a dash, in block style.
fn is_block(text: &Lines<'_>, entry: &Entry) -> bool {
    text.get(entry.line).is_some_and(|line| {
        line.trim_start().strip_prefix("- ").is_some_and(|rest| rest.trim_start().starts_with(&entry.key))
    })
}

/// Whether the value is one word on the line of its key.
fn is_scalar(text: &Lines<'_>, entry: &Entry) -> bool {
    let is_word = !matches!(entry.value.value, Value::List(_) | Value::Map(_));
    is_word
        && entry.value.line == entry.line
        && text.get(entry.line).is_some_and(|line| !line.contains(['{', '[']))
}

fn column(line: &str) -> u32 {
    u32::try_from(line.chars().take_while(|c| *c == ' ').count() + 1).unwrap_or_default()
}

fn indented(lines: &[&str], column: u32) -> Vec<String> {
    let indent = " ".repeat(usize::try_from(column).unwrap_or(1).saturating_sub(1));
    lines.iter().map(|line| format!("{indent}{line}")).collect()
}

/// What the edits make of a file, as a unified diff that `patch -p1` and `git apply` take; empty where nothing changes.
/// An edit that another one stands in the way of is left out.
pub fn diff(source: &Source<'_>, edits: &[&Edit]) -> String {
    let kept = compatible(source.text, edits);
    let old: Vec<&str> = source.text.split_inclusive('\n').collect();
    let mut text = String::new();
    let mut shift = 0_i64;
    let mut rest = &kept[..];
    while let Some(first) = rest.first() {
        let mut end = 1;
        while end < rest.len() && start(rest[end]) <= stop(rest[end - 1]) + 2 * CONTEXT {
            end += 1;
        }
        let (group, later) = rest.split_at(end);
        let from = start(first).saturating_sub(CONTEXT);
        let to = (stop(group[end - 1]) + CONTEXT).min(old.len());
        let body = hunk(&old, group, from, to);
        let grown: i64 = group.iter().map(|edit| grown(edit)).sum();
        let (count, new) = (to - from, i64::try_from(to - from).unwrap_or_default() + grown);
        let at = i64::try_from(from).unwrap_or_default() + 1;
        let _ = write!(text, "@@ -{at},{count} +{},{new} @@\n{body}", at + shift);
        shift += grown;
        rest = later;
    }
    let name = source.name;
    if text.is_empty() { text } else { format!("--- a/{name}\n+++ b/{name}\n{text}") }
}

/// The file with the edits made.
#[cfg(test)]
pub(super) fn apply(text: &str, edits: &[&Edit]) -> String {
    applied(text, &compatible(text, edits))
}

fn applied(text: &str, edits: &[&Edit]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for edit in edits.iter().rev() {
        lines.splice(start(edit)..stop(edit), edit.added.iter().cloned());
    }
    lines.join("\n") + "\n"
}

/// Sorted, without doubles, without what overlaps, and without what would make the text unreadable together with those
/// before it (two that add the same key).
fn compatible<'e>(text: &str, edits: &[&'e Edit]) -> Vec<&'e Edit> {
    // Nothing can follow a last line without an end.
    let lines = text.lines().count();
    let last = lines - usize::from(!text.is_empty() && !text.ends_with('\n'));
    let mut apart: Vec<&Edit> = Vec::new();
    for edit in edits {
        let overlaps = |other: &&Edit| start(edit) < stop(other) && start(other) < stop(edit);
        let is_there = stop(edit) <= lines && start(edit) <= last;
        if is_there && !apart.contains(edit) && !apart.iter().any(overlaps) {
            apart.push(edit);
        }
    }
    let sorted = |mut edits: Vec<&'e Edit>| {
        edits.sort_by_key(|edit| (edit.line, edit.removed));
        edits
    };
    let all = sorted(apart.clone());
    if is_readable(&applied(text, &all)) {
        return all;
    }
    apart.into_iter().fold(Vec::new(), |kept, edit| {
        let tried = sorted(kept.iter().copied().chain([edit]).collect());
        if is_readable(&applied(text, &tried)) { tried } else { kept }
    })
}

fn hunk(old: &[&str], group: &[&Edit], from: usize, to: usize) -> String {
    let mut body = String::new();
    let mut put = |sign: char, line: &str| {
        let _ = match line.strip_suffix('\n') {
            Some(line) => writeln!(body, "{sign}{line}"),
            None => writeln!(body, "{sign}{line}\n\\ No newline at end of file"),
        };
    };
    let mut at = from;
    for edit in group {
        old[at..start(edit)].iter().for_each(|line| put(' ', line));
        old[start(edit)..stop(edit)].iter().for_each(|line| put('-', line));
        edit.added.iter().for_each(|line| put('+', &format!("{line}\n")));
        at = stop(edit);
    }
    old[at..to].iter().for_each(|line| put(' ', line));
    body
}

/// Index of the first line that goes, or that what is added stands before.
fn start(edit: &Edit) -> usize {
    usize::try_from(edit.line).unwrap_or(1).saturating_sub(1)
}

/// Index behind the last line that goes.
fn stop(edit: &Edit) -> usize {
    start(edit) + usize::try_from(edit.removed).unwrap_or_default()
}

fn grown(edit: &Edit) -> i64 {
    i64::try_from(edit.added.len()).unwrap_or_default() - i64::from(edit.removed)
}
