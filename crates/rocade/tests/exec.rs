//! `rocade exec`: the program's own signals, exit codes and streams, with the variables set.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The command line up to the program, for a recorded Pod.
fn command(kind: &str, flags: &[&str]) -> Command {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("exec").arg("--from").arg(hosts.join(kind).with_extension("host")).args(flags).arg("--");
    for name in ["NCCL_IB_HCA", "UCX_NET_DEVICES", "UCX_TLS", "GLOO_SOCKET_IFNAME"] {
        command.env_remove(name);
    }
    command
}

fn run(kind: &str, flags: &[&str], program: &[&str]) -> Output {
    command(kind, flags).args(program).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const POD: &str = "pod-sriov-exclusive";

#[test]
fn the_program_has_the_variables_and_its_arguments_as_they_are() {
    let script = r#"printf '%s|%s|%s' "$NCCL_IB_HCA" "$UCX_NET_DEVICES" "$1""#;
    let output = run(POD, &[], &["sh", "-c", script, "sh", "--from=-x a"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), "=mlx5_2:1|mlx5_2:1|--from=-x a".to_owned())
    );
    assert_eq!(text(&output.stderr), "", "nothing is said where nothing is odd");
}

#[test]
fn the_program_is_the_same_process_and_gets_its_signals() {
    let mut child = command(POD, &[])
        .args(["sh", "-c", "echo $$; exec sleep 1000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), child.id().to_string());
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn exit_codes_and_ends_by_signal_are_the_programs() {
    for code in [0, 1, 2, 7, 125, 255] {
        let output = run(POD, &[], &["sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
    }
    // Not INT: whoever runs tests in the background has it ignored, and so has the program.
    for (name, signal) in [("TERM", 15), ("USR1", 10), ("PIPE", 13)] {
        let output = run(POD, &[], &["sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(output.status.signal(), Some(signal), "{name}");
    }
}

#[test]
fn streams_are_the_programs() {
    let output = run(POD, &[], &["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out\n".to_owned(), "err\n".to_owned()));
}

#[test]
fn a_missing_program_is_127_and_one_that_cannot_be_run_126() {
    let missing = run(POD, &[], &["no-such-program-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(text(&missing.stderr).contains("no-such-program-anywhere: "), "{}", text(&missing.stderr));
    assert_eq!(run(POD, &[], &["/no/such/path"]).status.code(), Some(127));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("plain");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(run(POD, &[], &[file.to_str().unwrap()]).status.code(), Some(126));
    assert_eq!(run(POD, &[], &[dir.path().to_str().unwrap()]).status.code(), Some(126));
}

#[test]
fn what_the_user_has_set_stays_and_is_named() {
    let mut command = command(POD, &[]);
    command.env("NCCL_IB_HCA", "mlx5_9").env("GLOO_SOCKET_IFNAME", "").env("UCX_TLS", "tcp");
    let script = r#"printf '%s|%s' "$NCCL_IB_HCA" "$GLOO_SOCKET_IFNAME""#;
    let output = command.args(["sh", "-c", script]).output().unwrap();
    assert_eq!(text(&output.stdout), "mlx5_9|eth0", "what is empty counts as not set");
    let said = text(&output.stderr);
    for part in [
        "rocade: NCCL_IB_HCA is set before, which counts; =mlx5_2:1 would be set",
        "warning[RDC652]: NCCL_IB_HCA: mlx5_9 selects none of mlx5_2:1",
        "warning[RDC651]: UCX_TLS: tcp: RDMA is turned off",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
}

#[test]
fn without_an_hca_the_program_runs_with_a_warning_or_where_one_is_required_not_at_all() {
    let output = run("seed-pod-wrong-rail", &[], &["sh", "-c", "echo \"[$NCCL_IB_HCA]\""]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "[]\n".to_owned()));
    assert!(text(&output.stderr).contains("error[RDC650]"), "{}", text(&output.stderr));
    let required = run("seed-pod-wrong-rail", &["--require"], &["echo", "ran"]);
    assert_eq!((required.status.code(), text(&required.stdout)), (Some(125), String::new()));
    assert_eq!(run(POD, &["--require"], &["true"]).status.code(), Some(0));
}

#[test]
fn a_host_that_cannot_be_read_is_no_answer_of_the_programs() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output = command.args(["exec", "--from", "/dev/null", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("hint: "), "{}", text(&output.stderr));
}

#[test]
fn on_this_very_machine_a_program_starts_whatever_rdma_there_is() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output = command.args(["exec", "--", "sh", "-c", "exit 3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
