//! `rocade plan` as a user runs it, on recorded hosts.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn fixture(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(kind).with_extension("host")
}

/// Plans a config.json of one resource for a recorded host.
fn plan(kind: &str, slots: u32, selectors: &str, arguments: &[&str]) -> Output {
    let text = format!(
        r#"{{"configList": [{{"resourceName": "a", "rdmaHcaMax": {slots}, "selectors": {selectors}}}]}}"#
    );
    plan_text(kind, "config.json", &text, arguments)
}

fn plan_text(kind: &str, name: &str, text: &str, arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join(name);
    fs::write(&config, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("plan").arg("--from").arg(fixture(kind)).arg("--config").arg(&config);
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn every_hca_of_the_host_has_a_line_that_says_why_it_is_in_or_out() {
    let output = plan("seed-4hca-bond", 63, r#"{"ifNames": ["bond0"]}"#, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let wanted = "rdma/a (tokens): 63 tokens, 1 HCA, no bandwidth isolation
  HCA          PCI                WHY
  mlx5_0       0000:4d:00.0  out  ifNames wants bond0, it has ens18np0
  mlx5_3       0000:b7:00.0  out  ifNames wants bond0, it has ens21np0
  mlx5_4       0000:cd:00.0  out  ifNames wants bond0, it has ens20np0
  mlx5_bond_0  0000:a7:00.0  in   bond0 = mlx5_bond_0 (LAG)

";
    assert_eq!(stdout(&output), wanted);
}

/// F02: hosts of one and of eight HCAs, and `n` should mean n HCAs.
#[test]
fn a_number_of_tokens_is_kept_on_a_host_with_one_hca() {
    let output = plan("opa-hfi1", 8, r#"{"linkTypes": ["infiniband"]}"#, &["-o", "wide"]);
    assert!(
        stdout(&output).starts_with("rdma/a (tokens): 8 tokens, 1 HCA, no bandwidth isolation, IDs 0 to 7\n")
    );
}

/// F03: bus numbers for device IDs, an auxiliary driver for the PCI driver, `ethernet` for a link type.
#[test]
fn a_card_that_never_appears_is_explained_selector_by_selector() {
    let selectors = r#"{"vendors": ["8086"], "deviceIDs": ["0d00", "b500", "a000"], "drivers": ["irdma"],
        "linkTypes": ["ethernet"]}"#;
    let output = plan("irdma-e810", 100, selectors, &[]);
    assert_eq!(output.status.code(), Some(1), "nothing stands behind the resource");
    let text = stdout(&output);
    for said in [
        "deviceIDs 0d00, b500, a000: 0 of 4 HCAs match; present: ",
        "irdma is the RDMA driver, that of the PCI function is i",
        "`ethernet` is not a link type; did you mean `ether`?",
    ] {
        assert!(text.contains(said), "`{said}` is not in\n{text}");
    }
}

/// F05: an interface that is absent, or has no RDMA device, and both end in 0.
#[test]
fn an_interface_without_rdma_is_told_from_one_that_is_not_there() {
    let output = plan("irdma-e810", 100, r#"{"ifNames": ["eno8303", "ens3"]}"#, &[]);
    let text = stdout(&output);
    assert!(text.contains("  eno8303: tg3, no RDMA device\n"), "{text}");
    assert!(text.contains("  ens3: no such interface\n"), "{text}");
}

/// F01: a node shows 63 or 1000 of a resource, and it looks like bandwidth.
#[test]
fn more_tokens_than_the_gid_table_has_room_for_are_warned_of() {
    let output = plan("seed-4hca-bond", 1000, r#"{"ifNames": ["ens18np0"]}"#, &[]);
    assert_eq!(output.status.code(), Some(0), "it works as it always did");
    assert!(stdout(&output).contains("warning[RDC731]: rdma/a: 1000 slots; "), "{}", stdout(&output));
}

#[test]
fn the_document_has_the_reason_in_words_and_in_parts() {
    let output = plan("k8s-macvlan-node", 100, r#"{"ifNames": ["mvhost0"]}"#, &["-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let resource = &document["resources"][0];
    assert_eq!(document["schema_version"], 1);
    assert_eq!(resource["worth"], "100 tokens, 1 HCA, no bandwidth isolation");
    assert_eq!(resource["members"][0]["found_by"][0], "mvhost0 = mlx5_0 (macvlan on ens5f0np0)");
    let out = &resource["left_out"][0];
    assert_eq!(out["reason"]["selector"]["key"], "ifNames");
    assert!(out["why"].as_str().unwrap().starts_with("ifNames wants mvhost0"), "{out}");
    let yaml = stdout(&plan("k8s-macvlan-node", 100, r#"{"ifNames": ["mvhost0"]}"#, &["-o", "yaml"]));
    assert!(yaml.contains("schema_version: 1") && yaml.contains("exclusive_netns: false"), "{yaml}");
}

#[test]
fn a_configuration_that_is_refused_is_no_plan() {
    let output = plan_text("seed-4hca-bond", "config.json", r#"{"configList": []}"#, &[]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    assert!(stderr(&output).contains("RDC710") && stderr(&output).contains("hint: "), "{}", stderr(&output));
    let labels = plan("seed-4hca-bond", 1, r#"{"ifNames": ["bond0"]}"#, &["--node-labels", "zone"]);
    assert_eq!(labels.status.code(), Some(2));
}

#[test]
fn a_host_without_rdma_says_so_and_that_nothing_stands_behind_the_resource() {
    let output = plan("no-rdma", 100, r#"{"ifNames": ["eth0"]}"#, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("rocade: no RDMA device: "), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("rdma/a (tokens): nothing: no HCA is in the pool\n"));
}

#[test]
fn sections_count_for_the_node_and_the_labels_that_are_given() {
    let text = "apiVersion: rocade.dev/v1alpha1
kind: AgentConfig
resources:
- name: all
  sharing: {mode: hca}
  selectors: {vendors: ['15b3']}
sections:
- nodes: [gpu-*]
  resources:
  - name: rail
    sharing: {mode: tokens, slots: 4}
    selectors: {netdevs: ['ens18*']}
- nodeLabels: {zone: a}
  resources:
  - name: zone
    sharing: {mode: hca, share: 2}
    selectors: {pciAddresses: ['0000:cd:00.0']}
";
    let heads = |arguments: &[&str]| {
        let output = plan_text("seed-4hca-bond", "agent.yaml", text, arguments);
        let lines = stdout(&output)
            .lines()
            .filter(|line| line.starts_with("rdma/"))
            .map(str::to_owned)
            .collect::<Vec<_>>();
        (lines, stderr(&output))
    };
    let all = "rdma/all (hca): 4 HCAs, each for one Pod";
    let rail = "rdma/rail (tokens): 4 tokens, 1 HCA, no bandwidth isolation";
    let zone = "rdma/zone (hca, 2 Pods each): 2 shares, 1 HCA, up to 2 Pods each";
    let (lines, said) = heads(&[]);
    assert_eq!(lines, [all]);
    assert!(said.contains("--node-labels"), "sections by label were left out: {said}");
    assert_eq!(heads(&["--node", "gpu-7"]).0, [all, rail]);
    assert_eq!(heads(&["--node", "gpu-7", "--node-labels", "zone=a,other=b"]).0, [all, rail, zone]);
    assert_eq!(heads(&["--node-labels", "zone=b"]).0, [all]);
}
