//! `rocade verify` as a user runs it: recorded Pods, the forms of its answer, exit codes, and what it makes of a process
//! that may do nothing.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

fn verify(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocade")).arg("verify").args(arguments).output().unwrap()
}

fn recorded(file: &Path, arguments: &[&str]) -> Output {
    verify(&[&["--from", file.to_str().unwrap()], arguments].concat())
}

fn document(file: &Path) -> Value {
    serde_json::from_slice(&recorded(file, &["-o", "json"]).stdout).unwrap()
}

#[test]
fn every_recorded_pod_gets_the_verdict_that_stands_beside_it() {
    let mut compared = 0;
    for entry in fs::read_dir(hosts()).unwrap() {
        let file = entry.unwrap().path();
        if !file.to_str().unwrap().ends_with(".expect.json") {
            continue;
        }
        let wanted: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let Some(verdict) = wanted["pod"]["verdict"].as_str() else { continue };
        let kind = wanted["host"].as_str().unwrap();
        let host = hosts().join(kind).with_extension("host");
        let told = document(&host);
        assert_eq!(told["pass"], verdict == "PASS", "{kind}");
        let own = told["hcas"].as_array().unwrap().iter();
        let usable: Vec<&Value> = own.filter(|own| own["usable"] == true).map(|own| &own["hca"]).collect();
        let expected: Vec<&Value> = wanted["pod"]["usable"].as_array().unwrap().iter().collect();
        assert_eq!(usable, expected, "{kind}");
        compared += 1;
    }
    assert!(compared >= 3, "{compared} recorded Pods were compared");
}

#[test]
fn every_recorded_host_gets_a_verdict_and_the_exit_code_that_says_it() {
    let mut seen = 0;
    for entry in fs::read_dir(hosts()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "host") {
            continue;
        }
        let output = recorded(&file, &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        let word = if output.status.code() == Some(0) { "PASS " } else { "FAIL " };
        assert!(text.starts_with(word), "{}: {:?}\n{text}", file.display(), output.status);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", file.display());
        let probe = recorded(&file, &["--probe"]);
        assert_eq!(probe.status.code(), output.status.code(), "{}", file.display());
        assert!(probe.stdout.is_empty(), "{}: a probe prints nothing", file.display());
        seen += 1;
    }
    assert!(seen >= 34, "{seen} hosts were seen");
}

#[test]
fn the_first_line_of_a_wrong_rail_names_both_rails() {
    let output = recorded(&hosts().join("seed-pod-wrong-rail.host"), &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.join(" ");
    assert!(first.starts_with("FAIL pod: resource rdma/hca_ens20 is mlx5_4 (ens20np0), network "), "{text}");
    assert!(first.contains("leads to mlx5_0 (ens18np0): different rails [RDC603]"), "{text}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn yaml_says_what_json_says() {
    let file = hosts().join("stale-grant-pod.host");
    let yaml = recorded(&file, &["-o", "yaml"]).stdout;
    let yaml: Value = serde_saphyr::from_str(&String::from_utf8(yaml).unwrap()).unwrap();
    assert_eq!(yaml, document(&file));
    assert_eq!(yaml["schema_version"], 1);
}

#[test]
fn what_cannot_be_looked_at_is_an_error_of_its_own() {
    for arguments in [
        &["--from", "/no/such/file"][..],
        &["--register", "many"],
        &["--register", "0"],
        &["--probe", "--register", "64MiB"],
        &["--probe", "-o", "json"],
        &["--from", "x", "--register", "64MiB"],
        &["--probe", "--traffic"],
        &["--from", "x", "--traffic"],
    ] {
        let output = verify(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

/// Where nothing opens nothing is registered or sent, and the verdict of this machine stays what it is without.
#[test]
fn registering_and_writing_where_nothing_opens_changes_no_verdict() {
    let with = verify(&["--register", "1MiB", "--traffic", "-o", "json"]);
    let without = verify(&["-o", "json"]);
    assert!(matches!(without.status.code(), Some(0 | 1)), "{:?}", without.status);
    let without: Value = serde_json::from_slice(&without.stdout).unwrap();
    let opens = without["hcas"].as_array().unwrap().iter().any(|own| own["opens"] == true);
    let with: Value = serde_json::from_slice(&with.stdout).unwrap();
    assert!(opens || with == without, "{with} {without}");
}
