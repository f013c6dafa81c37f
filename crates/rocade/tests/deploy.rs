//! The manifests: what the agent may do on a node, and what they leave out on purpose.

#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

fn daemonset() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/base/daemonset.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

#[test]
fn the_agent_has_no_capability_no_writable_root_and_no_token() {
    let pod = &daemonset()["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    for key in ["hostPID", "hostIPC", "initContainers", "serviceAccountName"] {
        assert!(pod[key].is_null(), "{key}");
    }
    let containers = list(pod, "containers");
    assert_eq!(containers.len(), 1);
    let context = &containers[0]["securityContext"];
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["privileged"], false);
    assert_eq!(context["allowPrivilegeEscalation"], false);
    assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault");
}

#[test]
fn it_writes_to_its_sockets_places_alone() {
    let pod = &daemonset()["spec"]["template"]["spec"];
    let mounts: BTreeMap<_, _> = list(&list(pod, "containers")[0], "volumeMounts")
        .iter()
        .map(|mount| (mount["mountPath"].as_str().unwrap().to_owned(), mount["readOnly"] == true))
        .collect();
    let wanted = [
        ("/dev", true),
        ("/k8s-rdma-shared-dev-plugin", true),
        ("/run/rocade", false),
        ("/var/lib/kubelet/device-plugins", false),
        ("/var/lib/kubelet/plugins_registry", false),
        ("/var/lib/kubelet/pod-resources", true),
    ];
    assert_eq!(mounts, wanted.map(|(path, read_only)| (path.to_owned(), read_only)).into());
}

/// F39: /dev/infiniband goes with the last module, and what is mounted of it stays the directory that is gone.
#[test]
fn all_of_dev_is_mounted_and_the_message_of_its_end_lies_elsewhere_f39() {
    let pod = &daemonset()["spec"]["template"]["spec"];
    let path = |volume: &Value| volume["hostPath"]["path"].as_str().map(str::to_owned);
    let paths: Vec<_> = list(pod, "volumes").iter().filter_map(path).collect();
    assert!(
        paths.contains(&"/dev".to_owned()) && !paths.iter().any(|path| path.starts_with("/dev/")),
        "{paths:?}"
    );
    let message = list(pod, "containers")[0]["terminationMessagePath"].as_str().unwrap().to_owned();
    assert!(!message.starts_with("/dev/"), "{message}");
}

/// F24: which labels other programs set, and how they spell them, decides nothing.
#[test]
fn it_runs_on_every_node_whatever_its_labels_and_taints_f24() {
    let pod = &daemonset()["spec"]["template"]["spec"];
    assert!(pod["nodeSelector"].is_null() && pod["affinity"].is_null());
    assert_eq!(pod["tolerations"], json!([{"operator": "Exists"}]));
}
