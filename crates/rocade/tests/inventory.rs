//! The reading commands as a user runs them: streams, exit codes, and what is said of a file that is no recording.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn rocade(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocade")).args(arguments).output().unwrap()
}

fn fixture(kind: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    folder.join(kind).with_extension("host").to_str().unwrap().to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn scratch(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(name);
    std::fs::write(&file, content).unwrap();
    (dir, file)
}

#[test]
fn the_table_names_netdev_index_and_verdict_of_each_port() {
    let output = rocade(&["inventory", "--from", &fixture("seed-4hca-bond")]);
    let table = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(table.starts_with("4 HCAs, 4 ports, 4 usable"), "{table}");
    let row = table.lines().find(|line| line.starts_with("mlx5_bond_0/1")).unwrap();
    for part in ["bond0 (netlink: ens67f0np0)", "roce ACTIVE 100G", "10.20.0.10→3", "yes"] {
        assert!(row.contains(part), "{part}: {row}");
    }
}

#[test]
fn json_goes_to_stdout_alone() {
    let output = rocade(&["inventory", "-o", "json", "--from", &fixture("no-rdma")]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!((json["schema_version"].as_u64(), json["hcas"].as_array().map(Vec::len)), (Some(1), Some(0)));
    assert!(
        text(&output.stderr)
            .contains("no RDMA device: no RDMA hardware among the PCI functions, and the kernel's RDMA core")
    );
}

#[test]
fn a_host_with_modules_and_no_device_gives_another_reason() {
    let output = rocade(&["inventory", "--from", &fixture("modules-no-devices")]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    assert!(text(&output.stderr).contains("0000:03:00.0 15b3:1017 is RDMA hardware without a driver"));
}

#[test]
fn a_file_that_is_no_recording_is_named_with_its_line() {
    let cut = std::fs::read(fixture("no-rdma")).unwrap();
    let cases: [(&[u8], &str, &str); 4] = [
        (b"\x7fELF\x02\x01", ":1: not a recorded host", "a recorded host starts with it"),
        (b"rocade-host 7\nend 1\n", ":1: not a recorded host", "needs a newer rocade"),
        (&cut[..cut.len() - 9], "not a recorded host", "cut"),
        (b"rocade-host 1\ndir /a\n what b\nend 3\n", ":3: not a recorded host", "text, lines, bytes, link"),
    ];
    for (content, place, wanted) in cases {
        let (_dir, file) = scratch("a.host", content);
        let output = rocade(&["inventory", "--from", file.to_str().unwrap()]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("a.host") && error.contains(place) && error.contains(wanted), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn what_cannot_be_looked_at_is_exit_code_2() {
    let missing = rocade(&["inventory", "--from", "/nonexistent/a.host"]);
    assert!(text(&missing.stderr).contains("cannot read /nonexistent/a.host: No such file"));
    let unwritable = rocade(&["snapshot", "--from", &fixture("no-rdma"), "--out", "/nonexistent/b.host"]);
    assert!(text(&unwritable.stderr).contains("cannot write /nonexistent/b.host: No such file"));
    let form = rocade(&["inventory", "-o", "xml"]);
    assert!(text(&form.stderr).contains("[possible values: table, wide, gids, topology, json, yaml]"));
    for output in [missing, unwritable, form] {
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn an_unscrubbed_snapshot_is_whole_and_says_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.host");
    let from = fixture("pod-sriov-exclusive");
    let output = rocade(&["snapshot", "--no-scrub", "--from", &from, "--out", file.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    assert!(text(&output.stderr).contains("addresses, GUIDs, serial numbers and names as they are"));
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&from).unwrap());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let to_stdout = rocade(&["snapshot", "--no-scrub", "--from", &from, "--out", "-"]);
    assert_eq!(to_stdout.stdout, std::fs::read(&from).unwrap());
}

#[test]
fn a_snapshot_is_scrubbed_by_a_new_key_or_by_the_one_that_is_given() {
    let from = fixture("seed-4hca-bond");
    let snapshot =
        |options: &[&str]| rocade(&[&["snapshot", "--out", "-", "--from", &from], options].concat());
    let plain = snapshot(&[]);
    assert!(text(&plain.stderr).contains("by a new key that is not kept"), "{}", text(&plain.stderr));
    for original in ["a088:c203:00f2:7cd6", "10.8.10.4", "a0:88:c2:f2:7c:d6"] {
        assert!(std::fs::read_to_string(&from).unwrap().contains(original));
        assert!(!text(&plain.stdout).contains(original));
    }
    assert_ne!(plain.stdout, snapshot(&[]).stdout);
    let (_dir, file) = scratch("key", b"a text");
    let keyed = snapshot(&["--key", "a text"]);
    assert!(text(&keyed.stderr).contains("by the key given as text"));
    let by_file = snapshot(&["--key", file.to_str().unwrap()]);
    assert!(text(&by_file.stderr).contains("by the key in the file"));
    assert_eq!(keyed.stdout, by_file.stdout);
    assert_eq!(snapshot(&["--key", ""]).status.code(), Some(2));
    assert_eq!(snapshot(&["--key", "a", "--no-scrub"]).status.code(), Some(2));
}

#[test]
fn a_live_snapshot_gives_the_live_inventory() {
    let (_dir, file) = scratch("live.host", &rocade(&["snapshot", "--no-scrub", "--out", "-"]).stdout);
    let recorded = rocade(&["inventory", "-o", "json", "--from", file.to_str().unwrap()]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    assert_eq!(text(&recorded.stdout), text(&rocade(&["inventory", "-o", "json"]).stdout));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rocade"))
        .args(["snapshot", "--out", "-", "--from", &fixture("ib-sriov-40-devices")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}
