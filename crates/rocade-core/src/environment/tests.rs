//! The rules, row by row: devices, GID tables and settings, and the variables and findings that follow.

mod bench;
mod devices;
mod distances;
mod gids;
mod others;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use bench::Bench;

use super::*;

/// One row.
struct Row {
    /// The rules that it pins: it fails when one of them is changed.
    rules: &'static [&'static str],
    what: &'static str,
    bench: Bench,
    wanted: Vec<(&'static str, Wanted)>,
    /// Codes, each once.
    findings: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Set(&'static str),
    /// Named and left unset.
    Unset,
    /// Not even named.
    Absent,
}

use Wanted::{Absent, Set, Unset};

fn row(
    rules: &'static [&'static str],
    what: &'static str,
    bench: Bench,
    wanted: &[(&'static str, Wanted)],
    findings: &'static [&'static str],
) -> Row {
    Row { rules, what, bench, wanted: wanted.to_vec(), findings }
}

fn all_rows() -> Vec<Row> {
    [devices::rows(), gids::rows(), distances::rows(), settings::rows(), others::rows()]
        .into_iter()
        .flatten()
        .collect()
}

fn look(told: &Environment, name: &str) -> Option<Option<String>> {
    told.variables.iter().find(|variable| variable.name == name).map(|variable| variable.value.clone())
}

#[test]
fn each_row_gives_its_variables_and_its_findings_and_no_others() {
    let mut wrong = String::new();
    for row in all_rows() {
        let told = row.bench.tell();
        for (name, wanted) in &row.wanted {
            let fits = match (look(&told, name), wanted) {
                (Some(Some(value)), Set(text)) => value == *text,
                (Some(None), Unset) | (None, Absent) => true,
                _ => false,
            };
            if !fits {
                wrong += &format!(
                    "{:?} {}: {name} is {:?}, wanted {wanted:?}\n",
                    row.rules,
                    row.what,
                    look(&told, name)
                );
            }
        }
        let found: BTreeSet<&str> = told.findings.iter().map(|finding| finding.code).collect();
        if found != row.findings.iter().copied().collect() {
            wrong += &format!(
                "{:?} {}: found {:#?}, wanted {:?}\n",
                row.rules, row.what, told.findings, row.findings
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn every_rule_has_a_row_and_every_row_a_rule() {
    let rows = all_rows();
    let known: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    let named: BTreeSet<&str> = rows.iter().flat_map(|row| row.rules.iter().copied()).collect();
    assert_eq!(known.len(), RULES.len(), "each rule has a name of its own");
    assert_eq!(named, known);
    let words: BTreeSet<&str> = rows.iter().map(|row| row.what).collect();
    assert_eq!(words.len(), rows.len(), "each row says what it shows");
    assert!(rows.len() >= 40, "{} rows", rows.len());
}

#[test]
fn every_code_is_found_by_a_row_and_told_what_it_means() {
    let rows = all_rows();
    let found: BTreeSet<&str> = rows.iter().flat_map(|row| row.findings.iter().copied()).collect();
    assert_eq!(found, FOUND.iter().map(|(code, _)| *code).collect());
}

#[test]
fn every_variable_names_a_rule_that_exists_and_a_reason() {
    let known: BTreeSet<&str> = RULES.iter().map(|rule| rule.id).collect();
    for row in all_rows() {
        for variable in row.bench.tell().variables {
            assert!(known.contains(variable.rule) && !variable.why.is_empty(), "{variable:?}");
        }
    }
}

/// Any order of the same facts gives the same answer, and none of the variables names what is not for this process.
#[test]
fn nothing_is_named_that_was_left_out() {
    for row in all_rows() {
        let told = row.bench.tell();
        let ours: BTreeSet<String> =
            told.ports.iter().map(|port| format!("{}:{}", port.hca, port.port)).collect();
        let users: BTreeMap<&str, By> = told.variables.iter().map(|v| (v.name, v.by)).collect();
        for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES", "NVSHMEM_HCA_LIST"] {
            let Some(value) = told.value(name).filter(|_| users[name] == By::Rule) else { continue };
            for port in value.trim_start_matches('=').split(',') {
                assert!(ours.contains(port), "{}: {name} names {port}", row.what);
            }
        }
    }
}
