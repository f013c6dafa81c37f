//! `rocade config generate` as a user runs it, on recorded hosts; what it writes is planned again.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn fixture(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(kind).with_extension("host")
}

fn rocade(arguments: &[&str], hosts: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.args(arguments);
    for host in hosts {
        command.arg("--from").arg(host);
    }
    command.output().unwrap()
}

fn generate(kind: &str) -> String {
    let output = rocade(&["config", "generate"], &[fixture(kind)]);
    assert_eq!(output.status.code(), Some(0), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Resource → its HCAs, by what was written, planned on the host that it was written for.
fn plan(kind: &str, text: &str) -> Vec<(String, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.yaml");
    fs::write(&config, text).unwrap();
    let output =
        rocade(&["plan", "-o", "json", "--strict", "--config", config.to_str().unwrap()], &[fixture(kind)]);
    assert_eq!(output.status.code(), Some(0), "{kind}: {}{text}", String::from_utf8_lossy(&output.stdout));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |pool: &Value| {
        let members = pool["members"].as_array().unwrap().iter();
        members.map(|member| member["hca"].as_str().unwrap().to_owned()).collect()
    };
    let pools = document["resources"].as_array().unwrap().iter();
    pools.map(|pool| (pool["resource"].as_str().unwrap().to_owned(), names(pool))).collect()
}

/// F06: one vendor selector pools compute, storage and management HCAs.
#[test]
fn a_host_gets_a_resource_for_each_rail_and_the_reason_for_what_is_left_out() {
    let text = generate("seed-4hca-bond");
    let wanted = [("rdma/hca_ens18", "mlx5_0"), ("rdma/hca_ens20", "mlx5_4"), ("rdma/hca_ens21", "mlx5_3")];
    assert_eq!(
        plan("seed-4hca-bond", &text),
        wanted.map(|(name, hca)| (name.to_owned(), vec![hca.to_owned()]))
    );
    assert!(text.contains("#   mlx5_bond_0: management: bond0 carries the default route\n"), "{text}");
}

#[test]
fn storage_bridges_and_what_is_down_are_left_out_on_recorded_hosts() {
    for (kind, rails, left_out) in [
        ("dgx-h100", 8, "mlx5_1: storage: "),
        ("hgx-b200-nvswitch-bridges", 8, "mlx5_8: bridge: "),
        ("azure-nd-h100-ib-vfs", 6, "mlx5_ib0: down: port 1 INIT"),
        ("ib-hdr-mixed", 1, "mlx5_1: down: port 1 DOWN"),
        ("sriov-legacy-vfs", 2, "mlx5_4: a function of mlx5_1, which is offered whole"),
        ("bf2-dpu-sf", 2, "mlx5_0: its GID table has length 0"),
        ("cx8-multiplane", 4, "Made by"),
    ] {
        let text = generate(kind);
        let pools = plan(kind, &text);
        assert_eq!(pools.len(), rails, "{kind}: {text}");
        assert!(pools.iter().all(|(_, hcas)| hcas.len() == 1), "{kind}: {pools:?}");
        assert!(text.contains(left_out), "{kind}: {text}");
    }
}

#[test]
fn on_infiniband_a_number_is_written_and_on_roce_slots_are_counted() {
    assert!(generate("dgx-h100").contains("slots: 100"), "{}", generate("dgx-h100"));
    assert!(generate("seed-4hca-bond").contains("slots: auto"), "{}", generate("seed-4hca-bond"));
}

#[test]
fn json_says_the_same_and_what_is_left_out_on_stderr() {
    let output = rocade(&["config", "generate", "-o", "json"], &[fixture("seed-4hca-bond")]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["kind"], "AgentConfig");
    assert_eq!(document["resources"][0]["name"], "hca_ens18");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "rocade: left out mlx5_bond_0: management: bond0 carries the default route\n");
}

#[test]
fn unlike_hosts_are_sections_where_their_names_are_known_and_a_host_without_rails_is_an_error() {
    let named = |kind: &str, name: &str| {
        let text = fs::read_to_string(fixture(kind)).unwrap();
        let file = std::env::temp_dir().join(format!("rocade-generate-{}-{name}.host", std::process::id()));
        let nameless = " fail hostname ENOENT\n";
        assert!(text.contains(nameless), "{kind} has a name");
        fs::write(&file, text.replace(nameless, &format!(" text hostname {name}\n"))).unwrap();
        file
    };
    let hosts = [named("seed-4hca-bond", "gpu-1"), named("ib-hdr-mixed", "ib-1")];
    let output = rocade(&["config", "generate"], &hosts);
    hosts.iter().for_each(|file| fs::remove_file(file).unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("sections:") && text.contains("gpu-1") && text.contains("ib-1"), "{text}");
    let nameless = rocade(&["config", "generate"], &[fixture("seed-4hca-bond"), fixture("ib-hdr-mixed")]);
    assert_eq!(nameless.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nameless.stderr).contains("a section needs it"));
    let none = rocade(&["config", "generate"], &[fixture("no-rdma")]);
    assert_eq!(none.status.code(), Some(1), "it looked, and there is none");
    assert!(String::from_utf8_lossy(&none.stderr).contains("no HCA here is a rail"));
}
