//! An archive as text.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::Serialize;

use super::token::{parse_index, print_bytes, print_name, print_path};
use super::{Archive, Dir, Dump, Node, VERSION};
use crate::errno::Errno;

/// Equal entries in a row from which on they are written as a run.
const MIN_RUN: u32 = 3;

pub(super) fn print(archive: &Archive) -> String {
    let mut lines = vec![format!("rocade-host {VERSION}")];
    print_dir(Path::new("/"), &archive.top, &mut lines);
    let netlink = &archive.netlink;
    let system = &netlink.rdma_system.0;
    print_dump("rdma-system", system.as_ref().map(|s| s.as_ref().map(std::slice::from_ref)), &mut lines);
    print_dump("rdma-devices", rows(&netlink.rdma_devices), &mut lines);
    print_dump("rdma-ports", rows(&netlink.rdma_ports), &mut lines);
    print_dump("links", rows(&netlink.links), &mut lines);
    print_dump("addresses", rows(&netlink.addresses), &mut lines);
    print_dump("routes", rows(&netlink.routes), &mut lines);
    print_dump("rules", rows(&netlink.rules), &mut lines);
    print_dump("dcb", rows(&netlink.dcb), &mut lines);
    print_dump("pauses", rows(&netlink.pauses), &mut lines);
    print_dump("health", rows(&netlink.health), &mut lines);
    if !archive.statistics.is_empty() {
        lines.push("ethtool statistics".into());
        print_rows(&archive.statistics, &mut lines);
    }
    if let Some(pod) = archive.pod.as_ref().and_then(|pod| serde_json::to_string(pod).ok()) {
        lines.extend(["pod".into(), format!(" {pod}")]);
    }
    lines.push(format!("end {}\n", lines.len()));
    lines.join("\n")
}

/// A directory's own entries, then its directories, each under a heading with the whole path.
fn print_dir(path: &Path, dir: &Dir, lines: &mut Vec<String>) {
    let (dirs, entries): (Vec<_>, Vec<_>) = dir.children.iter().partition(|(_, n)| matches!(n, Node::Dir(_)));
    if dir.complete || !entries.is_empty() || dirs.is_empty() {
        let kind = if dir.complete { "dir" } else { "part" };
        lines.push(format!("{kind} {}", print_path(path.as_os_str())));
    }
    print_entries(entries, lines);
    for (name, node) in dirs {
        if let Node::Dir(dir) = node {
            print_dir(&path.join(name), dir, lines);
        }
    }
}

/// Numbered entries come last and in the order of their numbers, so that equal ones meet.
fn print_entries(entries: Vec<(&OsString, &Node)>, lines: &mut Vec<String>) {
    let (numbered, named): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(name, _)| parse_index(name).is_some());
    for (name, node) in named {
        print_entry(&print_name(name), node, lines);
    }
    let mut numbered: Vec<(u32, &Node)> =
        numbered.into_iter().filter_map(|(name, node)| Some((parse_index(name)?, node))).collect();
    numbered.sort_by_key(|(index, _)| *index);
    let follows = |a: &(u32, &Node), b: &(u32, &Node)| a.0.checked_add(1) == Some(b.0) && a.1 == b.1;
    for run in numbered.chunk_by(follows) {
        let [(first, node), .., (last, _)] = run else {
            print_indexes(run, lines);
            continue;
        };
        if last - first + 1 < MIN_RUN {
            print_indexes(run, lines);
        } else {
            print_entry(&format!("{first}..{last}"), node, lines);
        }
    }
}

fn print_indexes(run: &[(u32, &Node)], lines: &mut Vec<String>) {
    for (index, node) in run {
        print_entry(&index.to_string(), node, lines);
    }
}

fn print_entry(name: &str, node: &Node, lines: &mut Vec<String>) {
    lines.push(match node {
        Node::Dir(_) => return,
        Node::Skipped => format!(" skip {name}"),
        Node::Link(target) => format!(" link {name} {}", print_target(target)),
        Node::Fail(errno) => format!(" fail {name} {errno}"),
        Node::Char { major, minor, mode } => format!(" char {name} {major}:{minor} {mode:04o}"),
        Node::File(content) => return print_file(name, content, lines),
    });
}

fn print_target(target: &Path) -> String {
    match target.as_os_str() {
        empty if empty.is_empty() => "%".into(),
        target => print_path(OsStr::new(target)),
    }
}

/// Text that a person can read where the content is such, else hexadecimal.
fn print_file(name: &str, content: &[u8], lines: &mut Vec<String>) {
    let readable = |c: char| c == '\n' || c == '\t' || !c.is_control();
    let text = str::from_utf8(content).ok().filter(|text| text.chars().all(readable));
    let Some(text) = text.and_then(|text| text.strip_suffix('\n')) else {
        lines.push(format!(" bytes {name} {}", print_bytes(content)));
        return;
    };
    if text.contains('\n') {
        lines.push(format!(" lines {name} {}", text.split('\n').count()));
        lines.extend(text.split('\n').map(|line| format!("  |{line}")));
    } else {
        lines.push(format!(" text {name} {text}"));
    }
}

fn rows<T>(dump: &Dump<Vec<T>>) -> Option<Result<&[T], &Errno>> {
    dump.0.as_ref().map(|answer| answer.as_ref().map(Vec::as_slice))
}

fn print_dump<T: Serialize>(name: &str, answer: Option<Result<&[T], &Errno>>, lines: &mut Vec<String>) {
    match answer {
        None => {}
        Some(Err(errno)) => lines.push(format!("netlink {name} fail {errno}")),
        Some(Ok(rows)) => {
            lines.push(format!("netlink {name}"));
            print_rows(rows, lines);
        }
    }
}

/// Records are plain structs of numbers and texts, which always have a JSON form.
fn print_rows<T: Serialize>(rows: &[T], lines: &mut Vec<String>) {
    let rows = rows.iter().filter_map(|row| serde_json::to_string(row).ok());
    lines.extend(rows.map(|row| format!(" {row}")));
}
