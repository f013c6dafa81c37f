use rocade_core::config::{Config, parse_config_json};
use rocade_host::Root;
use serde_json::Value;

use super::*;
use crate::node::state_of;

fn state(cdi: config::Cdi) -> Arc<NodeState> {
    let host = format!("{}/../../fixtures/hosts/seed-4hca-bond.host", env!("CARGO_MANIFEST_DIR"));
    let text =
        r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"ifNames": ["ens18np0"]}}]}"#;
    let config = parse_config_json("config.json", text, true).unwrap().0;
    state_of(Root::open(host).unwrap(), Config { cdi, ..config })
}

fn on(runtime: &str) -> config::Cdi {
    config::Cdi::On { runtime: Some(runtime.to_owned()) }
}

fn file(dir: &Path) -> Arc<SpecFile> {
    Arc::new(SpecFile::new(dir.join("cdi"), vec![dir.join("containerd.sock")]))
}

/// Runs until the switch is so, with the states that are sent meanwhile.
async fn run_until(
    file: &Arc<SpecFile>,
    states: watch::Receiver<Arc<NodeState>>,
    is: impl Fn(&Switch) -> bool,
) -> Switch {
    let run = tokio::spawn(run_spec_file(Arc::clone(file), states));
    let mut switch = file.switch.subscribe();
    let seen = tokio::time::timeout(Duration::from_secs(30), switch.wait_for(|s| is(s)))
        .await
        .unwrap()
        .unwrap()
        .clone();
    // The file is written behind the switch.
    tokio::task::yield_now().await;
    run.abort();
    seen
}

fn device_nodes() -> Vec<String> {
    vec!["/dev/infiniband/uverbs0".into(), "/dev/infiniband/rdma_cm".into()]
}

#[tokio::test]
async fn a_runtime_that_would_ignore_the_names_is_refused_and_grants_stay_device_nodes() {
    let temp = tempfile::tempdir().unwrap();
    let file = file(temp.path());
    let state = state(on("containerd 1.6.20"));
    let (_write, states) = watch::channel(Arc::clone(&state));
    let switch = run_until(&file, states, |switch| *switch != Switch::Off).await;
    assert!(matches!(&switch, Switch::Refused(why) if why.contains("1.7.2")), "{switch:?}");
    assert!(!temp.path().join("cdi").exists());
    assert_eq!(file.split(&state.host, device_nodes()), Split { names: Vec::new(), nodes: device_nodes() });
}

#[tokio::test]
async fn without_a_runtime_to_ask_it_is_refused_with_what_to_do() {
    let temp = tempfile::tempdir().unwrap();
    let file = file(temp.path());
    let (_write, states) = watch::channel(state(config::Cdi::On { runtime: None }));
    let switch = run_until(&file, states, |switch| *switch != Switch::Off).await;
    assert!(matches!(&switch, Switch::Refused(why) if why.contains("state cdi.runtime")), "{switch:?}");
}

#[tokio::test]
async fn the_file_is_there_at_start_before_any_grant_and_outlives_the_agent() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("cdi").join(FILE);
    let file = file(temp.path());
    let (_write, states) = watch::channel(state(on("containerd 2.0.1")));
    run_until(&file, states, |switch| *switch == Switch::On).await;
    let text: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&text["kind"], &text["cdiVersion"]), (&"rocade.dev/hca".into(), &"0.5.0".into()));
    assert_eq!(text["devices"].as_array().unwrap().len(), 12, "{text:#}");
    drop(file);
    let left: Vec<_> =
        fs::read_dir(temp.path().join("cdi")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, [FILE]);
}

#[tokio::test]
async fn a_grant_and_the_file_are_of_one_state_also_after_the_host_changed_f41() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("cdi").join(FILE);
    let file = file(temp.path());
    file.switch.send_replace(Switch::On);
    let before = state(on("containerd 2.0.1"));
    let split = file.split(&before.host, device_nodes());
    assert_eq!((split.names.len(), split.nodes.len()), (1, 0), "{split:?}");
    // The driver is loaded again: other numbers, the same place.
    let mut host = (*before.host).clone();
    let hca =
        host.hcas.iter_mut().find(|hca| hca.uverbs.as_ref().is_some_and(|d| d.node == "uverbs0")).unwrap();
    hca.uverbs.as_mut().unwrap().node = "uverbs77".into();
    let after = file.split(&host, vec!["/dev/infiniband/uverbs77".into(), "/dev/infiniband/rdma_cm".into()]);
    assert_eq!(after, split);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("uverbs77") && !text.contains("uverbs0\""), "{text}");
}

#[tokio::test]
async fn a_file_that_a_stranger_removed_or_replaced_is_written_again_before_a_grant() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("cdi").join(FILE);
    let file = file(temp.path());
    file.switch.send_replace(Switch::On);
    let state = state(on("containerd 2.0.1"));
    file.split(&state.host, device_nodes());
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.split(&state.host, device_nodes());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    fs::write(&path, "{}").unwrap();
    file.split(&state.host, device_nodes());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_leaves_the_grant_by_device_nodes() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("cdi"), "no directory").unwrap();
    let file = file(temp.path());
    file.switch.send_replace(Switch::On);
    let split = file.split(&state(on("containerd 2.0.1")).host, device_nodes());
    assert_eq!(split, Split { names: Vec::new(), nodes: device_nodes() });
}
