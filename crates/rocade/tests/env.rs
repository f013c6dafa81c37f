//! `rocade env` as a user runs it: recorded Pods, the forms of its answer, and what is said of it.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn hosts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

fn fixture(kind: &str) -> PathBuf {
    hosts().join(kind).with_extension("host")
}

fn env(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade"));
    command.arg("env").arg("--from").arg(file).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn document(file: &Path, arguments: &[&str]) -> Value {
    serde_json::from_slice(&env(file, &[&["-o", "json"], arguments].concat()).stdout).unwrap()
}

fn value(document: &Value, name: &str) -> Value {
    let variables = document["variables"].as_array().unwrap();
    variables.iter().find(|variable| variable["name"] == name).unwrap()["value"].clone()
}

fn codes(document: &Value) -> Vec<&str> {
    document["findings"].as_array().unwrap().iter().map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// A recorded Pod with other words in its file.
fn changed(kind: &str, changes: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let mut host = fs::read_to_string(fixture(kind)).unwrap();
    for (from, to) in changes {
        assert!(host.contains(from), "{kind} holds {from:?}");
        host = host.replace(from, to);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("changed.host");
    fs::write(&file, host).unwrap();
    (dir, file)
}

/// The wrong-rail Pod with the resource of the rail that its network is on.
fn right_rail() -> (tempfile::TempDir, PathBuf) {
    let nodes = " char uverbs0 231:192 0666";
    changed(
        "seed-pod-wrong-rail",
        &[(" char uverbs4 231:196 0666", nodes), (r#""granted":["mlx5_4"]"#, r#""granted":["mlx5_0"]"#)],
    )
}

/// With variables of the recorded process.
fn with_variables(kind: &str, variables: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let bytes: String =
        variables.iter().flat_map(|v| v.bytes().chain([0])).map(|b| format!("{b:02x}")).collect();
    changed(kind, &[(" fail environ ENOENT", &format!(" bytes environ {bytes}"))])
}

#[test]
fn every_recorded_pod_gets_the_environment_that_stands_beside_it() {
    let mut compared = 0;
    for entry in fs::read_dir(hosts()).unwrap() {
        let file = entry.unwrap().path();
        let Some(kind) = file.file_name().unwrap().to_str().unwrap().strip_suffix(".environment.json") else {
            continue;
        };
        let wanted: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let told = document(&fixture(kind), &[]);
        let ports = told["ports"].as_array().unwrap();
        let usable: Vec<String> =
            ports.iter().map(|port| format!("{}:{}", port["hca"].as_str().unwrap(), port["port"])).collect();
        assert_eq!(json!(usable), wanted["usable"], "{kind}");
        let left_out: Vec<&String> = told["left_out"].as_object().unwrap().keys().collect();
        assert_eq!(json!(left_out), wanted["left_out"], "{kind}");
        let variables = wanted["variables"].as_object().unwrap();
        assert_eq!(told["variables"].as_array().unwrap().len(), variables.len(), "{kind}");
        for (name, wanted) in variables {
            assert_eq!(value(&told, name), *wanted, "{kind}: {name}");
        }
        compared += 1;
    }
    assert!(compared >= 3, "{compared} recorded Pods were compared");
}

#[test]
fn every_recorded_host_gets_an_answer_and_one_without_a_usable_port_is_a_failure() {
    let mut seen = 0;
    for entry in fs::read_dir(hosts()).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "host") {
            continue;
        }
        let output = env(&file, &["-q", "-o", "json"]);
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let usable = !told["ports"].as_array().unwrap().is_empty();
        assert_eq!(output.status.code(), Some(i32::from(!usable)), "{}", file.display());
        assert_eq!(usable, value(&told, "UCX_NET_DEVICES").is_string(), "{}", file.display());
        seen += 1;
    }
    assert!(seen >= 34, "{seen} hosts");
}

#[test]
fn a_grant_and_an_address_on_different_rails_make_a_failure_and_name_no_device() {
    let output = env(&fixture("seed-pod-wrong-rail"), &[]);
    assert_eq!(output.status.code(), Some(1));
    let (data, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(
        data,
        "export NCCL_SOCKET_IFNAME='=eth0'\nexport NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME='=eth0'\nexport GLOO_SOCKET_IFNAME=eth0\n"
    );
    for part in [
        "rocade: mlx5_0 is left out: it was not granted\n",
        "rocade: mlx5_4:1 is left out: all GIDs belong to netdevs outside this network namespace\n",
        "rocade: NCCL_IB_HCA unset: no HCA is granted, opens here and can be used [P5]\n",
        "rocade: error[RDC650]: devices: 4 HCAs seen, none granted, open here and usable",
    ] {
        assert!(said.contains(part), "{part:?} is not in\n{said}");
    }
}

/// F70: the Pod's own entry stands behind the host's, and its index is its own.
#[test]
fn behind_the_hosts_entries_the_own_index_is_told_where_it_stays_in_this_pod() {
    let (_dir, file) = right_rail();
    let handed = document(&file, &[]);
    assert_eq!(value(&handed, "NCCL_IB_HCA"), "=mlx5_0:1");
    assert_eq!(value(&handed, "NCCL_IB_ADDR_RANGE"), "10.8.10.0/24");
    assert_eq!(value(&handed, "NCCL_IB_GID_INDEX"), Value::Null);
    assert_eq!(
        (&handed["ports"][0]["gid_index"], &handed["ports"][0]["netdev"]),
        (&json!(7), &json!("net1"))
    );
    assert_eq!(codes(&handed), ["RDC661", "RDC661"], "NCCL and UCX would take the host's");
    assert_eq!(value(&document(&file, &["--gid-index"]), "UCX_IB_GID_INDEX"), "7");
    let conf = text(&env(&file, &["-q", "-o", "nccl"]).stdout);
    assert_eq!(
        conf,
        "# This Pod's own, by rocade env. NCCL 2.26.2.\nNCCL_IB_HCA==mlx5_0:1\nNCCL_IB_ADDR_FAMILY=AF_INET\n\
         NCCL_IB_ROCE_VERSION_NUM=2\nNCCL_IB_ADDR_RANGE=10.8.10.113/32\nNCCL_IB_GID_INDEX=7\n\
         NCCL_SOCKET_IFNAME==eth0\n"
    );
}

#[test]
fn ucxs_file_has_devices_and_no_index() {
    let conf = text(&env(&fixture("pod-sriov-exclusive"), &["-q", "-o", "ucx"]).stdout);
    assert_eq!(conf, "# This Pod's own, by rocade env.\nUCX_NET_DEVICES=mlx5_2:1\n");
}

#[test]
fn a_shell_that_evaluates_the_lines_has_the_variables() {
    let lines = text(&env(&fixture("pod-sriov-exclusive"), &["-q"]).stdout);
    let script = format!("{lines}printf '%s|%s' \"$NCCL_IB_HCA\" \"$NCCL_IB_ADDR_RANGE\"");
    let shell = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(text(&shell.stdout), "=mlx5_2:1|10.56.41.0/24");
}

#[test]
fn what_the_user_has_set_counts_is_named_and_is_not_exported_again() {
    let variables = ["NCCL_IB_HCA=mlx5_2", "UCX_TLS=tcp", "ROCADE_TC_RDMA_A=104", "NCCL_DEBUG=INFO"];
    let (_dir, file) = with_variables("pod-sriov-exclusive", &variables);
    let output = env(&file, &[]);
    let (data, said) = (text(&output.stdout), text(&output.stderr));
    assert!(!data.contains("NCCL_IB_HCA") && data.contains("export NCCL_IB_TC=104\n"), "{data}");
    assert!(said.contains("NCCL_IB_HCA=mlx5_2: set before, which counts; =mlx5_2:1 would be set"), "{said}");
    assert!(said.contains("warning[RDC651]: UCX_TLS: tcp: RDMA is turned off"), "{said}");
    // Launchers over ssh drop the environment, not the file.
    let conf = text(&env(&file, &["-q", "-o", "nccl"]).stdout);
    assert!(conf.contains("\nNCCL_IB_HCA=mlx5_2\n") && conf.contains("\nNCCL_IB_TC=104\n"), "{conf}");
}

#[test]
fn an_older_nccl_is_not_told_what_it_does_not_know() {
    let told = document(&fixture("pod-sriov-exclusive"), &["--nccl", "2.20.5"]);
    assert_eq!((&told["nccl"], &told["nccl_source"]), (&json!("2.20.5"), &json!("asked")));
    assert_eq!(value(&told, "NCCL_IB_ADDR_FAMILY"), Value::Null);
    assert_eq!(codes(&told), ["RDC661"], "it takes index 0, a link-local entry");
    let assumed = env(&fixture("pod-sriov-exclusive"), &[]);
    assert!(text(&assumed.stderr).contains("NCCL 2.26.2 is reckoned with, assumed"));
    let wrong = env(&fixture("pod-sriov-exclusive"), &["--nccl", "newest"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("is not a version of NCCL"), "{}", text(&wrong.stderr));
}

#[test]
fn the_fabrics_network_may_be_said() {
    let told = document(&fixture("pod-sriov-exclusive"), &["--addr-range", "10.56.0.0/16"]);
    assert_eq!(value(&told, "NCCL_IB_ADDR_RANGE"), "10.56.0.0/16");
    for wrong in ["10.56.0.0", "10.56.0.0/33", "net/8"] {
        assert_eq!(
            env(&fixture("pod-sriov-exclusive"), &["--addr-range", wrong]).status.code(),
            Some(2),
            "{wrong}"
        );
    }
}

/// What was not recorded is unknown, and not wrong.
#[test]
fn where_dev_was_not_recorded_the_device_is_named_with_a_reserve() {
    let nodes = " char rdma_cm 10:122 0666\n char umad2 231:2 0600\n char uverbs2 231:194 0666\n";
    let part = " skip rdma_cm\n skip umad2\n skip uverbs2\n";
    let (_dir, file) = changed(
        "pod-sriov-exclusive",
        &[(&format!("dir /dev/infiniband\n{nodes}"), &format!("part /dev/infiniband\n{part}"))],
    );
    let output = env(&file, &["-o", "table"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        table.contains("=mlx5_2:1") && table.contains("whether /dev/infiniband/uverbs2 is here is not known"),
        "{table}"
    );
}

#[test]
fn the_table_shows_ports_pairs_and_reasons() {
    let table = text(&env(&fixture("dgx-h100"), &["-o", "table"]).stdout);
    let line =
        |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(
        line("mlx5_1:1").contains("left out: nothing says what was granted, and it is no rail: storage"),
        "{table}"
    );
    assert_eq!(table.lines().filter(|line| line.starts_with("GPU ")).count(), 8, "{table}");
    assert!(line("NCCL_SOCKET_IFNAME").contains("=bond0"), "{table}");
    assert!(line("NCCL_IB_GID_INDEX").contains("InfiniBand ports need none"), "{table}");
}

#[test]
fn a_file_that_is_no_recording_is_no_answer() {
    let output = env(Path::new("/dev/null"), &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
}

#[test]
fn the_pages_example_is_what_the_binary_prints() {
    let page = fs::read_to_string(hosts().join("../../docs/environment.md")).unwrap();
    let command = "\n$ rocade env --from fixtures/hosts/pod-sriov-exclusive.host\n";
    let example = page.split_once(command).unwrap().1.split_once("…").unwrap().0;
    let output = env(&fixture("pod-sriov-exclusive"), &[]);
    assert!(!example.is_empty() && text(&output.stdout).starts_with(example), "{example}");
    let line = page.lines().find(|line| line.starts_with("rocade: NCCL_IB_GID_INDEX")).unwrap();
    assert!(text(&output.stderr).lines().any(|said| said == line), "{line}");
}
