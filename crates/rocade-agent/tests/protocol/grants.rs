//! What the kubelet says of its Pods and devices, beside what it was told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rocade_core::config::{Resource, Sharing};

use super::kubelet::{Grants, serve_grants};
use super::*;

#[tokio::test]
async fn f34_a_kubelet_that_lost_the_list_is_registered_with_again() {
    let agent = Agent::start(&["ens18np0"]);
    let counts = BTreeMap::from([("rdma/hca_ens18np0".to_owned(), 0)]);
    let grants = Arc::new(Mutex::new(Grants { counts, held: Vec::new() }));
    let lister = serve_grants(agent.temp.path(), Arc::clone(&grants));
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let first = kubelet.next().await;
    // It shows no device although it was told of 100.
    let mut second = kubelet.next().await;
    assert_serves(&mut second, "rdma/hca_ens18np0").await;
    assert_ne!(first.endpoint, second.endpoint);
    grants.lock().unwrap().counts.insert("rdma/hca_ens18np0".to_owned(), 100);
    sleep(Duration::from_secs(1)).await;
    assert!(second.is_watching());
    lister.abort();
}

#[tokio::test]
async fn an_id_that_a_pod_holds_is_in_the_first_list_of_an_agent_whose_host_lacks_its_hca() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("p");
    fs::create_dir(&dir).unwrap();
    let held = vec![("rdma/hca_ens18np0".to_owned(), "0000:ff:00.0".to_owned())];
    let grants = Grants { counts: BTreeMap::new(), held };
    let lister = serve_grants(temp.path(), Arc::new(Mutex::new(grants)));
    let mut config = config(&["ens18np0"]);
    let resource = config.resources.remove(0);
    config.resources.push(Resource { sharing: Sharing::Hca { share: 1 }, ..resource });
    let agent = Agent::start_with(temp, options(&dir, config));
    let mut kubelet = Kubelet::start(&dir, 0);
    let mut registered = kubelet.next().await;
    assert!(registered.options.get_preferred_allocation_available);
    let ids: Vec<_> = registered.list().await.into_iter().map(|device| device.id).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&"0000:ff:00.0".to_owned()), "{ids:?}");
    lister.abort();
    agent.stop().await;
}
