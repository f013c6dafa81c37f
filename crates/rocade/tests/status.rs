//! `rocade status` and the agent's log as processes: exit codes, forms of output, the log's level and form.

#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A generous limit: only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/seed-4hca-bond.host");

/// An agent with one resource and no kubelet; killed when it goes.
struct Agent {
    temp: tempfile::TempDir,
    process: Child,
    log: Receiver<String>,
}

impl Agent {
    fn start(arguments: &[&str]) -> Agent {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config.json");
        let text = r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"ifNames": ["ens18np0"]}}]}"#;
        fs::write(&file, text).unwrap();
        fs::create_dir(temp.path().join("p")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
        command.arg("agent").arg("--config").arg(file).args(["--from", HOST]).args(arguments);
        command.arg("--device-plugin-dir").arg(temp.path().join("p"));
        command.arg("--socket").arg(temp.path().join("agent.sock"));
        command.env_remove("RUST_LOG").stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (send, log) = channel();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let agent = Agent { temp, process, log };
        let start = Instant::now();
        let has_looked = || {
            let said = agent.status(&[]).stderr;
            agent.socket().exists() && !String::from_utf8_lossy(&said).contains("not looked at yet")
        };
        while !has_looked() {
            assert!(start.elapsed() < HANG, "the agent makes its socket and looks at the host");
            sleep(Duration::from_millis(5));
        }
        agent
    }

    fn socket(&self) -> PathBuf {
        self.temp.path().join("agent.sock")
    }

    fn status(&self, arguments: &[&str]) -> Output {
        status(&self.socket(), arguments)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn status(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("status").arg("--socket").arg(socket).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn without_an_agent_it_ends_in_2_and_says_where_to_ask() {
    let temp = tempfile::tempdir().unwrap();
    let output = status(&temp.path().join("agent.sock"), &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no agent answers on") && said.contains("hint: "), "{said}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn what_is_not_served_ends_in_1_and_is_said_in_each_form() {
    let agent = Agent::start(&[]);
    let table = agent.status(&[]);
    assert_eq!(table.status.code(), Some(1), "{}", text(&table.stderr));
    let said = text(&table.stdout);
    assert!(said.contains("rdma/a    8/8"), "{said}");
    assert!(said.contains("NOT SERVED\nrdma/a: no kubelet has taken it yet"), "{said}");
    let wide = text(&agent.status(&["-o", "wide"]).stdout);
    assert!(wide.contains("OUT OF A POOL") && wide.contains("this agent"), "{wide}");
    assert!(wide.contains("no bandwidth isolation"), "what tokens are worth is told: {wide}");
    let json = agent.status(&["-o", "json"]);
    assert_eq!(json.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(document["resources"][0]["slots"], 8);
    assert!(text(&json.stderr).contains("rdma/a: no kubelet"), "{}", text(&json.stderr));
    let yaml: Value = serde_saphyr::from_slice(&agent.status(&["-o", "yaml"]).stdout).unwrap();
    assert_eq!(yaml["resources"], document["resources"]);
}

#[test]
fn the_log_is_json_on_request_and_its_level_changes_while_it_is_written() {
    let agent = Agent::start(&["--log-format", "json"]);
    let first: Value = serde_json::from_str(&agent.log.recv_timeout(HANG).unwrap()).unwrap();
    assert_eq!(first["level"], "INFO");
    assert!(first["message"].is_string(), "{first}");
    assert_eq!(agent.status(&["--log-level", "warn"]).status.code(), Some(0));
    let document: Value = serde_json::from_slice(&agent.status(&["-o", "json"]).stdout).unwrap();
    assert_eq!(document["agent"]["log_level"], "warn");
    let wrong = agent.status(&["--log-level", "a=b=c"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no level of a log"), "{}", text(&wrong.stderr));
}
