//! `rocade agent` as a process: what a configuration that cannot be served ends in, and how it stops.

#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A generous limit: only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/seed-4hca-bond.host");

fn agent(dir: &Path, config: &str) -> Command {
    let file = dir.join("config.json");
    fs::write(&file, config).unwrap();
    fs::create_dir(dir.join("p")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("agent").arg("--config").arg(file).args(["--from", HOST]);
    command.arg("--device-plugin-dir").arg(dir.join("p"));
    command
}

/// Runs an agent that must end by itself; the wait is for those that wrongly do not.
fn ended(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > HANG {
            child.kill().unwrap();
            panic!("the agent serves what it should refuse");
        }
        sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn entry(name: &str) -> String {
    format!(r#"{{"resourceName": "{name}", "rdmaHcaMax": 1, "selectors": {{"ifNames": ["ens18np0"]}}}}"#)
}

#[test]
fn a_configuration_that_cannot_be_served_ends_in_2_with_line_and_key_and_nothing_registered() {
    let (a, bad) = (entry("hca_a"), entry("hca a"));
    let cases = [
        ("{\"configList\": [\n}".to_owned(), "config.json:2:1 configList[0]: `}`, wanted a value"),
        (
            format!("{{\"configList\": [\n{a},\n{a}]}}"),
            "config.json:3 configList[1].resourceName: a second resource `hca_a`",
        ),
        (
            format!("{{\"configList\": [\n{bad}]}}"),
            "config.json:2 configList[0].resourceName: Kubernetes refuses `hca a`",
        ),
    ];
    for (text, wanted) in cases {
        let temp = tempfile::tempdir().unwrap();
        let output = ended(agent(temp.path(), &text));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(wanted), "{stderr}");
        assert!(output.stdout.is_empty());
        assert_eq!(fs::read_dir(temp.path().join("p")).unwrap().count(), 0, "{text}");
    }
}

#[test]
fn an_unknown_key_is_refused_when_strict_with_the_nearest_known_one() {
    let temp = tempfile::tempdir().unwrap();
    let text = format!("{{\"periodicUpdateIntervall\": 5,\n\"configList\": [{}]}}", entry("a"));
    let mut command = agent(temp.path(), &text);
    command.arg("--strict");
    let output = ended(command);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("config.json:1 periodicUpdateIntervall: an unknown key"), "{stderr}");
    assert!(stderr.contains("the nearest key is periodicUpdateInterval\n"), "{stderr}");
}

#[test]
fn sigterm_ends_it_with_0_and_takes_its_sockets_away() {
    let temp = tempfile::tempdir().unwrap();
    let text = format!("{{\"unknown\": 5, \"configList\": [{}]}}", entry("hca_a"));
    let mut command = agent(temp.path(), &text);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).env_remove("RUST_LOG").spawn().unwrap();
    let dir = temp.path().join("p");
    let start = Instant::now();
    while fs::read_dir(&dir).unwrap().count() == 0 {
        assert!(start.elapsed() < HANG, "the agent makes its socket");
        sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    assert!(stderr.contains("config.json:1 unknown: an unknown key"), "{stderr}");
}
