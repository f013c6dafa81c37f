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
fn yaml_is_served_by_the_plugins_own_flags_and_a_node_with_nothing_to_offer_idles() {
    let temp = tempfile::tempdir().unwrap();
    let yaml = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nsections:\n- nodes: [gpu-1]\n  resources:\n  \
                - {name: rail, sharing: {mode: tokens, slots: 9}, selectors: {netdevs: ['ens18*']}}\n";
    let file = temp.path().join("agent.yaml");
    fs::write(&file, yaml).unwrap();
    for (node, sockets) in [("gpu-1", 1), ("cpu-1", 0)] {
        let root = temp.path().join(node);
        fs::create_dir_all(root.join("device-plugins")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
        command
            .args(["agent", "--from", HOST, "-use-cdi=false"])
            .env("NODE_NAME", node)
            .env_remove("RUST_LOG");
        command.arg(format!("-config-file={}", file.display())).arg("-kubelet-root-dir").arg(&root);
        command.arg("--socket").arg(root.join("agent.sock"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        // Its own socket comes when all else is in place.
        while !root.join("agent.sock").exists() {
            assert!(start.elapsed() < HANG && child.try_wait().unwrap().is_none(), "{node} serves");
            sleep(Duration::from_millis(5));
        }
        let wait = Instant::now();
        let count = || fs::read_dir(root.join("device-plugins")).unwrap().count();
        while count() != sockets && wait.elapsed() < HANG {
            sleep(Duration::from_millis(5));
        }
        assert_eq!(count(), sockets, "{node}");
        let kill = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap();
        assert!(kill.success());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{node}");
    }
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
