//! What the agent shows once a kubelet has taken its resources, and what grants by CDI names are to that kubelet.

use std::fs;

use rocade_agent::outside::read_status;
use rocade_core::config::{Cdi, Config, parse_config_json};
use rocade_core::status::{Owner, Phase, Way};

use crate::kubelet::Kubelet;
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
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, looks).await.expect("it becomes ready");
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
