//! The recorded hosts of fixtures/hosts, whole and with changed values. What is held against them is each test's own.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::sample::Index;

/// The file of a kind of host.
pub(crate) fn recorded_host(kind: &str) -> PathBuf {
    folder().join(kind).with_extension("host")
}

/// All of them, by name.
pub(crate) fn recorded_hosts() -> Vec<PathBuf> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut hosts: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|e| e == "host")).collect();
    hosts.sort();
    hosts
}

/// One with other values in some lines. Only the value of an entry goes, so that most changes reach the readers and
/// the rules, and not only the parser.
pub(crate) fn changed_host(kind: &str, changes: &[(Index, String)]) -> String {
    let text = fs::read_to_string(recorded_host(kind)).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // The last line only counts the others.
    let entries = lines.len() - 1;
    for (at, garbage) in changes {
        let line = &mut lines[at.index(entries)];
        let kept: Vec<&str> = line.splitn(4, ' ').take(3).collect();
        *line = format!("{} {garbage}", kept.join(" "));
    }
    lines.join("\n") + "\n"
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}
