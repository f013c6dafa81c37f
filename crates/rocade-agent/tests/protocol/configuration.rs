//! A configuration that changes while the agent runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rocade_agent::ConfigSource;

use super::kubelet::{Grants, serve_grants};
use super::*;

fn text(interfaces: &[&str]) -> String {
    let entry = |name: &&str| {
        format!(
            r#"{{"resourceName": "hca_{name}", "rdmaHcaMax": 100, "selectors": {{"ifNames": ["{name}"]}}}}"#
        )
    };
    format!(r#"{{"configList": [{}]}}"#, interfaces.iter().map(entry).collect::<Vec<_>>().join(","))
}

/// As the kubelet mounts a ConfigMap: the file is a link below `..data`, which is a link that is swapped.
fn write_config_map(folder: &Path, version: u32, text: &str) {
    let name = format!("..{version}");
    fs::create_dir_all(folder.join(&name)).unwrap();
    fs::write(folder.join(&name).join("config.json"), text).unwrap();
    std::os::unix::fs::symlink(&name, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    let _ = std::os::unix::fs::symlink("..data/config.json", folder.join("config.json"));
}

#[tokio::test]
async fn f07_a_config_map_that_is_swapped_is_in_force_and_a_bad_one_changes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, dir) = (temp.path().join("config"), temp.path().join("p"));
    fs::create_dir_all(&dir).unwrap();
    write_config_map(&folder, 1, &text(&["ens18np0"]));
    let source = ConfigSource { file: Some(folder.join("config.json")), ..ConfigSource::default() };
    let config = source.read().await.unwrap().config;
    let agent = Agent::start_with(temp, Options { reload: Some(source), ..options(&dir, config) });
    let mut kubelet = Kubelet::start(&dir, 0);
    let mut first = kubelet.next().await;
    assert_serves(&mut first, "rdma/hca_ens18np0").await;

    write_config_map(&folder, 2, "{\"configList\": [{\"resourceName\": \"a b\"}]}");
    write_config_map(&folder, 3, &text(&["ens18np0", "ens20np0"]));
    let mut second = kubelet.next().await;
    assert_serves(&mut second, "rdma/hca_ens20np0").await;
    // What was there before was not touched.
    assert!(first.is_watching());

    write_config_map(&folder, 4, &text(&["ens20np0"]));
    let gone = first.lists.wait_for(|list| list.as_ref().is_some_and(Vec::is_empty));
    timeout(HANG, gone).await.expect("a list comes").expect("before the stream ends");
    first.ended().await;
    assert!(second.is_watching());
    agent.stop().await;
}

#[tokio::test]
async fn a_resource_that_was_removed_stays_with_what_pods_hold_of_it_until_they_have_ended() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, dir) = (temp.path().join("config"), temp.path().join("p"));
    fs::create_dir_all(&dir).unwrap();
    write_config_map(&folder, 1, &text(&["ens18np0", "ens20np0"]));
    let held = vec![("rdma/hca_ens18np0".to_owned(), "7".to_owned())];
    let grants = Arc::new(Mutex::new(Grants { counts: BTreeMap::new(), held }));
    let lister = serve_grants(temp.path(), Arc::clone(&grants));
    let source = ConfigSource { file: Some(folder.join("config.json")), ..ConfigSource::default() };
    let config = source.read().await.unwrap().config;
    let agent = Agent::start_with(temp, Options { reload: Some(source), ..options(&dir, config) });
    let mut kubelet = Kubelet::start(&dir, 0);
    let mut both = [kubelet.next().await, kubelet.next().await];
    both.sort_by(|a, b| a.resource.cmp(&b.resource));
    let [mut removed, mut other] = both;
    for registered in [&mut removed, &mut other] {
        assert_eq!(registered.list().await.len(), 100);
    }

    write_config_map(&folder, 2, &text(&["ens20np0"]));
    let so = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list: &Vec<_>| list.len() != 100);
    let left = timeout(HANG, removed.lists.wait_for(so)).await.unwrap().unwrap().clone().unwrap();
    let left: Vec<_> = left.iter().map(|device| (device.id.as_str(), device.health.as_str())).collect();
    assert_eq!(left, [("7", "Healthy")]);
    assert!(removed.allocate(&["8"]).await.is_err(), "nothing of it is given any more");
    assert!(removed.is_watching());

    grants.lock().unwrap().held.clear();
    // Something in the kubelet's directory has the agent ask it.
    fs::write(dir.join("something"), "").unwrap();
    let gone = removed.lists.wait_for(|list| list.as_ref().is_some_and(Vec::is_empty));
    timeout(HANG, gone).await.expect("a list comes").expect("before the stream ends");
    removed.ended().await;
    assert!(other.is_watching());
    lister.abort();
    agent.stop().await;
}

#[tokio::test]
async fn a_message_to_look_again_has_the_file_read_again() {
    let temp = tempfile::tempdir().unwrap();
    let (file, dir) = (temp.path().join("link.json"), temp.path().join("p"));
    fs::create_dir_all(&dir).unwrap();
    // What the link points to changes where nobody watches.
    let elsewhere = tempfile::tempdir().unwrap();
    let target = elsewhere.path().join("config.json");
    fs::write(&target, text(&["ens18np0"])).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    let source = ConfigSource { file: Some(file), ..ConfigSource::default() };
    let config = source.read().await.unwrap().config;
    let (ask, again) = tokio::sync::mpsc::unbounded_channel();
    let reload = Some(source);
    let agent = Agent::start_with(temp, Options { reload, again, ..options(&dir, config) });
    let mut kubelet = Kubelet::start(&dir, 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
    fs::write(&target, text(&["ens18np0", "ens21np0"])).unwrap();
    ask.send(()).unwrap();
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens21np0").await;
    agent.stop().await;
}
