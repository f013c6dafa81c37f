//! What `check` says of every recorded host in fixtures/hosts against the findings that its expectation lists. A list
//! that is complete allows nothing else that is a warning or worse.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use rocade_core::check::{Against, Report, check};
use rocade_core::host::RoleKind;
use rocade_core::{Finding, Host, Severity};
use rocade_host::{Root, read_host};
use serde_json::Value;

mod meanings;
#[path = "../hosts/recorded.rs"]
mod recorded;
use meanings::{MEANINGS, Meaning};
use recorded::{changed_host, recorded_host, recorded_hosts};

/// Fewer would mean that files were lost.
const FEWEST_HOSTS: usize = 34;
const FEWEST_FINDINGS: usize = 68;

#[test]
fn every_listed_finding_is_found_and_complete_lists_are_complete() {
    let (mut hosts, mut findings, mut wrong) = (0, 0, Vec::new());
    for file in recorded_hosts() {
        hosts += 1;
        let want: Value =
            serde_json::from_slice(&fs::read(file.with_extension("expect.json")).unwrap()).unwrap();
        let kind = want["host"].as_str().unwrap();
        let host = read(&file);
        let report = check(&host, &Against::default());
        let listed = want["findings"].as_array().cloned().unwrap_or_default();
        findings += listed.len();
        let mut explained = Vec::new();
        for listed in &listed {
            let (subject, about) = (listed["subject"].as_str().unwrap(), listed["about"].as_str().unwrap());
            let Some((_, meaning)) = MEANINGS.iter().find(|(words, _)| about.contains(words)) else {
                panic!("{kind}: `{about}` is not in the table of meanings");
            };
            if let Err(why) = compare(&host, &report, subject, meaning, &mut explained) {
                wrong.push(format!("{kind} {subject}: {about}: {why}"));
            }
        }
        if want["findings_complete"] == true {
            let more =
                report.findings.iter().filter(|f| f.severity >= Severity::Warning && !explained.contains(f));
            wrong.extend(more.map(|finding| format!("{kind}: not listed: {finding}")));
        }
    }
    assert!(hosts >= FEWEST_HOSTS && findings >= FEWEST_FINDINGS, "{hosts} hosts, {findings} findings");
    assert!(wrong.is_empty(), "{} findings differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_finding_names_its_subject_and_says_what_to_do() {
    for file in recorded_hosts() {
        for finding in check(&read(&file), &Against::default()).findings {
            let texts = [&finding.subject, &finding.seen, &finding.wanted, &finding.cure];
            assert!(texts.iter().all(|text| !text.is_empty()), "{}: {finding}", file.display());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A changed recording is refused, or judged to the end, alone and against what it was.
    #[test]
    fn no_change_to_a_recording_makes_judging_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]{0,12}"), 1..8),
        kind in prop::sample::select(vec!["stale-grant-pod", "irdma-e810", "roce-8rail-misconfigured", "cx8-multiplane"]),
    ) {
        if let Ok(root) = Root::recorded(kind, changed_host(kind, &changes).as_bytes()) {
            let mut changed = read_host(&root);
            rocade_core::judge(&mut changed);
            let was = read(&recorded_host(kind));
            let against = Against { baseline: Some(&was), ..Against::default() };
            prop_assert!(check(&changed, &against).findings.iter().all(|finding| !finding.subject.is_empty()));
        }
    }
}

/// Says what is missing, and collects the findings that the listed one explains.
fn compare<'a>(
    host: &Host,
    report: &'a Report,
    subject: &str,
    meaning: &Meaning,
    explained: &mut Vec<&'a Finding>,
) -> Result<(), String> {
    match meaning {
        Meaning::Found(codes) => {
            for part in subjects(subject) {
                for code in *codes {
                    let found = of_code(report, code).find(|f| names(&f.subject, &part));
                    explained.push(found.ok_or_else(|| format!("no {code} of {part}"))?);
                }
            }
        }
        Meaning::Anywhere(codes) => {
            for code in *codes {
                explained.push(of_code(report, code).next().ok_or_else(|| format!("no {code}"))?);
            }
        }
        Meaning::NotFound(codes) => {
            for part in subjects(subject) {
                let other =
                    report.findings.iter().find(|f| codes.contains(&f.code) && names(&f.subject, &part));
                other.map_or(Ok(()), |finding| Err(format!("found {finding}")))?;
            }
        }
        Meaning::Unjudged(codes) => {
            for code in *codes {
                let told = report.unjudged.iter().any(|unjudged| unjudged.code == *code);
                told.then_some(()).ok_or_else(|| format!("{code} is not said to be unjudged"))?;
            }
        }
        Meaning::Storage => {
            for part in subjects(subject) {
                let hca = host.hca(part.split('/').next().unwrap()).ok_or("no such HCA")?;
                (hca.role.kind == RoleKind::Storage)
                    .then_some(())
                    .ok_or(format!("role {}", hca.role.kind))?;
            }
        }
    }
    Ok(())
}

fn of_code<'a>(report: &'a Report, code: &str) -> impl Iterator<Item = &'a Finding> {
    report.findings.iter().filter(move |finding| finding.code == code)
}

/// Whether a subject is, or lists, the wanted one.
fn names(subject: &str, wanted: &str) -> bool {
    subject.split(", ").any(|part| part == wanted || part.strip_prefix("0000:12:") == Some(wanted))
}

/// `mlx5_8..11` and `a, b` name several.
fn subjects(text: &str) -> Vec<String> {
    if let Some((first, last)) = text.split_once("..") {
        let digits = first.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, first): (&str, u32) = (&first[..digits], first[digits..].parse().unwrap());
        return (first..=last.parse().unwrap()).map(|number| format!("{stem}{number}")).collect();
    }
    text.split(", ").map(str::to_owned).collect()
}

fn read(file: &Path) -> Host {
    let mut host = read_host(&Root::open(file).unwrap());
    rocade_core::judge(&mut host);
    host
}
