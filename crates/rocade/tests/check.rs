//! `rocade check` as a user runs it, on recorded hosts.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn fixture(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(kind).with_extension("host")
}

fn check(kind: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("check").arg("--from").arg(fixture(kind)).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn policy(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.yaml");
    fs::write(&file, text).unwrap();
    (dir, file.display().to_string())
}

#[test]
fn the_exit_code_says_whether_something_at_or_over_the_threshold_was_found() {
    for (kind, fail_on, code) in [
        ("roce-8rail-misconfigured", "error", 0),
        ("roce-8rail-misconfigured", "warning", 1),
        ("gpu-no-peermem", "error", 1),
        ("gpu-no-peermem", "never", 0),
        ("hgx-b200-nvswitch-bridges", "warning", 0),
        ("hgx-b200-nvswitch-bridges", "note", 1),
    ] {
        let output = check(kind, &["--fail-on", fail_on]);
        assert_eq!(output.status.code(), Some(code), "{kind} {fail_on}: {}", stdout(&output));
    }
}

#[test]
fn without_rdma_the_reason_is_told_and_the_exit_code_is_1() {
    let output = check("modules-no-devices", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output)
            .starts_with("error RDC101 host: 0000:03:00.0 15b3:1017 is RDMA hardware without a driver")
    );
    assert_eq!(check("no-rdma", &["-o", "npd"]).status.code(), Some(1));
}

#[test]
fn the_document_has_each_finding_with_its_code_subject_and_cure() {
    let output = check("gpu-no-peermem", &["-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema_version"], 1);
    let first = &document["findings"][0];
    assert_eq!(
        (&first["code"], &first["severity"], &first["subject"]),
        (&"RDC204".into(), &"error".into(), &"mlx5_2".into())
    );
    for field in ["seen", "wanted", "cure"] {
        assert!(first[field].as_str().is_some_and(|text| !text.is_empty()), "{field}");
    }
    let yaml = stdout(&check("gpu-no-peermem", &["-o", "yaml"]));
    assert!(yaml.contains("code: RDC204") && yaml.contains("schema_version: 1"), "{yaml}");
}

#[test]
fn what_could_not_be_judged_is_told_apart_from_what_is_good() {
    let document: Value = serde_json::from_slice(&check("k8s-macvlan-node", &["-o", "json"]).stdout).unwrap();
    let unjudged = document["unjudged"].as_array().unwrap();
    assert!(
        unjudged.iter().any(|one| one["code"] == "RDC402" && one["why"].as_str().unwrap().contains("root"))
    );
}

#[test]
fn one_line_for_the_node_problem_detector_names_the_worst() {
    let output = check("gpu-no-peermem", &["-o", "npd"]);
    assert_eq!(output.status.code(), Some(1));
    let line = stdout(&output);
    assert!(line.len() <= 81 && line.ends_with('\n') && line.lines().count() == 1, "{line}");
    assert!(line.starts_with("1 error, ") && line.contains("RDC204 mlx5_2"), "{line}");
}

#[test]
fn a_silenced_code_is_neither_told_nor_counted() {
    let (_dir, file) = policy("apiVersion: rocade.dev/v1alpha1\nkind: Policy\nsilence: [RDC204]\n");
    let output = check("gpu-no-peermem", &["--policy", &file]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(!text.contains("RDC204") && text.contains("1 silenced"), "{text}");
}

#[test]
fn a_policy_that_cannot_be_read_is_told_with_file_and_line_and_exit_code_2() {
    let head = "apiVersion: rocade.dev/v1alpha1\nkind: Policy\n";
    for (text, line) in [
        (format!("{head}silence:\n- RDC999\n"), 4),
        (format!("{head}groups:\n- name: a\n  unknown: 1\n"), 5),
        ("apiVersion: rocade.dev/v2\nkind: Policy\n".to_owned(), 1),
        (format!("{head}groups: [\n"), 3),
    ] {
        let (_dir, file) = policy(&text);
        let output = check("no-rdma", &["--policy", &file]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let told = stderr(&output);
        assert!(told.contains(&format!("{file}:{line}: ")) && told.contains("hint: "), "{text}\n{told}");
    }
    let missing = check("no-rdma", &["--policy", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("--policy /no/such/file"));
}

#[test]
fn a_group_that_the_policy_has_not_is_told_with_those_that_it_has() {
    let (_dir, file) = policy("apiVersion: rocade.dev/v1alpha1\nkind: Policy\ngroups:\n- name: gpu\n");
    let output = check("no-rdma", &["--policy", &file, "--group", "cpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the policy has gpu"), "{}", stderr(&output));
}

#[test]
fn a_baseline_tells_what_changed_since() {
    let dir = tempfile::tempdir().unwrap();
    let worse = dir.path().join("worse.host");
    let text = fs::read_to_string(fixture("dgx-h100")).unwrap();
    let [good, bad] = [" text rate 400 Gb/sec (4X NDR)\n", " text rate 100 Gb/sec (1X NDR)\n"];
    let changed = text.replacen(good, bad, 1);
    assert_ne!(changed, text);
    fs::write(&worse, &changed).unwrap();
    let run = |from: &Path, baseline: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
        let output = command
            .args(["check", "-o", "json", "--from"])
            .arg(from)
            .arg("--baseline")
            .arg(baseline)
            .output();
        let document: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        document["findings"].as_array().unwrap().clone()
    };
    let since = |findings: &[Value]| -> Vec<String> {
        let of = |f: &&Value| {
            matches!(f["code"].as_str().unwrap(), "RDC160" | "RDC260" | "RDC261" | "RDC262" | "RDC263")
        };
        findings.iter().filter(of).map(|f| f["seen"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(since(&run(&fixture("dgx-h100"), &fixture("dgx-h100"))), Vec::<String>::new());
    assert_eq!(since(&run(&worse, &fixture("dgx-h100"))), ["rate 100.0"]);
    // Another machine altogether: what was there is gone.
    let gone = run(&fixture("no-rdma"), &fixture("dgx-h100"));
    assert_eq!(gone.iter().filter(|finding| finding["code"] == "RDC260").count(), 12);
}

#[test]
fn what_is_no_recording_is_told_with_the_flag_that_named_it() {
    let (_dir, file) = policy("kind: Policy\n");
    let output = check("no-rdma", &["--baseline", &file]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains(&format!("--baseline {file}")), "{}", stderr(&output));
}

#[test]
fn a_recording_cannot_be_watched() {
    assert_eq!(check("no-rdma", &["--watch", "1"]).status.code(), Some(2));
}

#[test]
fn what_a_policy_expects_and_nobody_can_read_is_not_passed() {
    let head = "apiVersion: rocade.dev/v1alpha1\nkind: Policy\ngroups:\n- name: all\n  sysctls: ";
    for (sysctls, code) in [("{net.core.somaxconn: 4096}", 2), ("{net.ipv4.conf.all.rp_filter: 2}", 0)] {
        let (_dir, file) = policy(&format!("{head}{sysctls}\n"));
        let output = check("seed-4hca-bond", &["--policy", &file]);
        assert_eq!(output.status.code(), Some(code), "{sysctls}: {}", stdout(&output));
    }
}
