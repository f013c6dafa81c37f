//! What the agent shows once a kubelet has taken its resources, and what grants by CDI names are to that kubelet.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocade_agent::outside::read_status;
use rocade_core::config::{Cdi, Config, parse_config, parse_config_json};
use rocade_core::status::{Owner, Phase, Status, Way};
use tokio::time::{sleep, timeout};

use crate::kubelet::{Grants, Kubelet, serve_grants};
use crate::made_host::MadeHost;
use crate::{Agent, HANG};

fn two_resources(cdi: Cdi) -> Config {
    let entry = |name: &str, netdev: &str| {
        format!(r#"{{"resourceName": "{name}", "rdmaHcaMax": 8, "selectors": {{"ifNames": ["{netdev}"]}}}}"#)
    };
    let text = format!(r#"{{"configList": [{}, {}]}}"#, entry("a", "ens18np0"), entry("b", "ens20np0"));
    let config = parse_config_json("config.json", &text, true).unwrap().0;
    Config { cdi, ..config }
}

async fn wait_until_ready(agent: &Agent) {
    let looks = async {
        while agent.get("/readyz").await.0 != "HTTP/1.1 200 OK" {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, looks).await.expect("it becomes ready");
}

async fn wait_for_status(agent: &Agent, is: impl Fn(&Status) -> bool) -> Status {
    let looks = async {
        loop {
            let seen = read_status(&agent.socket()).await.unwrap();
            if is(&seen) {
                return seen;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(HANG, looks).await.expect("it comes about")
}

/// F38: after a move from another plugin the kubelet never counts the resource, and nothing says why.
#[tokio::test]
async fn what_another_plugin_left_and_what_the_kubelet_counts_is_told_and_it_registers_again_f38() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("p");
    let mut kubelet = Kubelet::start(&dir, 0);
    drop(UnixListener::bind(dir.join("openshift.io_mlnxnics.sock")).unwrap());
    let counts = BTreeMap::from([("rdma/a".to_owned(), 0)]);
    let grants = Arc::new(Mutex::new(Grants { counts, held: Vec::new() }));
    let lister = serve_grants(temp.path(), Arc::clone(&grants));
    let agent = Agent::start_in(temp, |_| ()).await;
    let first = kubelet.next().await;
    let second = kubelet.next().await;
    assert_ne!(first.endpoint, second.endpoint);
    let so =
        |seen: &Status| seen.resources[0].allocatable == Some(0) && seen.resources[0].registration.count == 2;
    let seen = wait_for_status(&agent, so).await;
    let resource = &seen.resources[0];
    assert_eq!((resource.slots, resource.healthy), (8, 8));
    let told = resource.registration.told.as_ref().unwrap();
    assert!(told.ends_with(&second.endpoint), "{told}");
    let owners: Vec<_> =
        seen.sockets.iter().map(|s| (s.path.rsplit('/').next().unwrap(), &s.owner)).collect();
    let wanted = [
        ("kubelet.sock", &Owner::Kubelet),
        ("openshift.io_mlnxnics.sock", &Owner::Nobody),
        (second.endpoint.as_str(), &Owner::Own),
    ];
    assert_eq!(owners, wanted);
    grants.lock().unwrap().counts.insert("rdma/a".to_owned(), 8);
    wait_for_status(&agent, |seen| seen.resources[0].allocatable == Some(8)).await;
    lister.abort();
    agent.stop().await;
}

/// F41: with CDI an update changes the grants and not the spec file, which stays as it was at the start.
#[tokio::test]
async fn a_driver_that_is_loaded_again_is_in_the_spec_file_and_in_grants_alike_f41() {
    let temp = tempfile::tempdir().unwrap();
    let (host, spec) = (MadeHost::new(temp.path().join("host")), temp.path().join("cdi/rocade.dev-hca.json"));
    host.load(0);
    let mut kubelet = Kubelet::start(&temp.path().join("p"), 0);
    let text = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\ncdi: {enabled: true, runtime: containerd 2.0.1}\n\
                resources:\n- name: a\n  sharing: {mode: tokens, slots: 8}\n  selectors: {hcas: [mlx5_0]}\n";
    let config = parse_config("agent.yaml", text, true).unwrap().0.for_node(None, &BTreeMap::new());
    let root = host.root();
    let agent = Agent::start_in(temp, |options| (options.config, options.root) = (config, root)).await;
    let mut registered = kubelet.next().await;
    registered.list().await;
    let before = registered.allocate(&["0"]).await.unwrap();
    assert_eq!((before.cdi_devices.len(), before.devices.len()), (1, 0), "{before:?}");
    assert!(fs::read_to_string(&spec).unwrap().contains("/dev/infiniband/uverbs0\""));
    host.unload();
    host.load(7);
    let says = |node: &str| fs::read_to_string(&spec).is_ok_and(|text| text.contains(&format!("{node}\"")));
    agent.wait_for(|_| says("/dev/infiniband/uverbs7")).await;
    assert!(!says("/dev/infiniband/uverbs0"));
    assert_eq!(registered.allocate(&["1"]).await.unwrap().cdi_devices, before.cdi_devices);
    agent.stop().await;
}

#[tokio::test]
async fn it_is_ready_once_the_kubelet_watches_and_tells_the_path_that_the_kubelet_was_told() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("p");
    let mut kubelet = Kubelet::start(&dir, 0);
    let agent = Agent::start_in(temp, |_| ()).await;
    let registered = kubelet.next().await;
    wait_until_ready(&agent).await;
    let seen = read_status(&agent.socket()).await.unwrap();
    let registration = &seen.resources[0].registration;
    assert_eq!(
        (registration.phase, registration.way, registration.count),
        (Phase::Watched, Way::KubeletSocket, 1)
    );
    assert!(
        registration.told.as_ref().is_some_and(|told| told.ends_with(&registered.endpoint)),
        "{registration:?}"
    );
    let owners: Vec<_> =
        seen.sockets.iter().map(|socket| (&socket.owner, socket.resource.is_some())).collect();
    assert_eq!(owners, [(&Owner::Kubelet, false), (&Owner::Own, true)]);
    assert!(agent.get("/metrics").await.1.contains("rocade_resource_watched{resource=\"rdma/a\"} 1.0"));
    agent.stop().await;
}

/// F42: one key of annotations for both would be taken once; each answer has the names of its own HCA.
#[tokio::test]
async fn two_resources_of_one_container_are_granted_by_cdi_names_of_their_own_f42() {
    let temp = tempfile::tempdir().unwrap();
    let cdi_dir = temp.path().join("cdi");
    let mut kubelet = Kubelet::start(&temp.path().join("p"), 0);
    let runtime = Some("containerd 2.0.1".to_owned());
    let agent = Agent::start_in(temp, |options| options.config = two_resources(Cdi::On { runtime })).await;
    let mut granted = Vec::new();
    for _ in 0..2 {
        let mut registered = kubelet.next().await;
        registered.list().await;
        let answer = registered.allocate(&["0"]).await.unwrap();
        assert!(answer.annotations.is_empty() && answer.devices.is_empty(), "{answer:?}");
        assert_eq!(answer.envs.len(), 1, "{answer:?}");
        granted.extend(answer.cdi_devices.into_iter().map(|device| device.name));
    }
    // Verbs, umad and issm of each, as config.json grants them.
    granted.sort();
    granted.dedup();
    assert_eq!(granted.len(), 6, "{granted:?}");
    let spec = fs::read_to_string(cdi_dir.join("rocade.dev-hca.json")).unwrap();
    for name in &granted {
        let (kind, device) = name.split_once('=').unwrap();
        assert_eq!(kind, "rocade.dev/hca");
        assert!(spec.contains(&format!("\"name\": \"{device}\"")), "{name} in {spec}");
    }
    agent.stop().await;
}

#[tokio::test]
async fn cdi_that_is_refused_is_told_and_grants_stay_device_nodes() {
    let temp = tempfile::tempdir().unwrap();
    let mut kubelet = Kubelet::start(&temp.path().join("p"), 0);
    let runtime = Some("containerd 1.6.20".to_owned());
    let agent = Agent::start_in(temp, |options| options.config = two_resources(Cdi::On { runtime })).await;
    let mut registered = kubelet.next().await;
    registered.list().await;
    let answer = registered.allocate(&["0"]).await.unwrap();
    assert!(answer.cdi_devices.is_empty() && answer.devices.len() == 4, "{answer:?}");
    let seen = read_status(&agent.socket()).await.unwrap();
    assert!(seen.agent.refused.iter().any(|why| why.contains("1.7.2")), "{:?}", seen.agent.refused);
    assert!(agent.get("/readyz").await.1.contains("CDI: "));
    agent.stop().await;
}
