//! A host whose driver comes after the agent, goes and comes again, or takes its time to answer.

use std::io::Write;

use rocade_core::config::parse_config;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::made_host::MadeHost;
use super::*;

const YAML: &str = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nresources:\n- name: a\n  sharing: {mode: tokens, \
                    slots: 8}\n  selectors: {hcas: [mlx5_0]}\n";

fn start_on(host: &MadeHost, dir: &Path) -> Agent {
    let file = parse_config("agent.yaml", YAML, true).unwrap().0;
    let config = file.for_node(None, &Default::default());
    Agent::start_with(tempfile::tempdir().unwrap(), Options::new(config, host.root(), dir.to_owned()))
}

/// Waits for a list of so many devices, all of them healthy.
async fn wait_for(registered: &mut Registered, count: usize) {
    let so = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|list: &Vec<_>| list.len() == count);
    let list = timeout(HANG, registered.lists.wait_for(so)).await.expect("such a list comes");
    let list = list.expect("the stream lives").clone().unwrap();
    assert!(list.iter().all(|device| device.health == "Healthy"), "{list:?}");
}

#[tokio::test]
async fn f39_an_agent_that_is_there_before_the_driver_follows_it_through_every_unload_and_load() {
    let temp = tempfile::tempdir().unwrap();
    let (host, dir) = (MadeHost::new(temp.path().join("host")), temp.path().join("p"));
    let mut kubelet = Kubelet::start(&dir, 0);
    let agent = start_on(&host, &dir);
    let mut registered = kubelet.next().await;
    assert_eq!(registered.list().await, [], "no driver, no device, and no end of the agent");
    for uverbs in [0, 5] {
        host.load(uverbs);
        wait_for(&mut registered, 8).await;
        let grant = registered.allocate(&["3"]).await.unwrap();
        let nodes: Vec<_> = grant.devices.iter().map(|node| node.host_path.clone()).collect();
        assert_eq!(nodes, [format!("/dev/infiniband/uverbs{uverbs}")]);
        host.unload();
        // Only what was granted stays, for the Pod's sake.
        wait_for(&mut registered, 1).await;
    }
    assert!(registered.is_watching(), "nothing of it cost the registration");
    agent.stop().await;
}

#[tokio::test]
async fn f46_a_restarted_agent_registers_before_a_slow_host_has_answered_and_its_first_list_is_whole() {
    let temp = tempfile::tempdir().unwrap();
    let (host, dir) = (MadeHost::new(temp.path().join("host")), temp.path().join("p"));
    host.load(0);
    let mut kubelet = Kubelet::start(&dir, 0);
    let before = start_on(&host, &dir);
    wait_for(&mut kubelet.next().await, 8).await;
    before.stop().await;
    // A file that answers when it is written to.
    let state = host.path("sys/class/infiniband/mlx5_0/ports/1/state");
    fs::remove_file(&state).unwrap();
    mknodat(CWD, &state, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let after = start_on(&host, &dir);
    let mut registered = kubelet.next().await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(*registered.lists.borrow(), None, "it waited for the host, or told what it does not know");
    let answer = {
        let state = state.clone();
        tokio::task::spawn_blocking(move || {
            let mut pipe = fs::File::options().write(true).open(&state).unwrap();
            fs::remove_file(&state).unwrap();
            fs::write(&state, "4: ACTIVE\n").unwrap();
            pipe.write_all(b"4: ACTIVE\n").unwrap();
        })
    };
    let first = registered.list().await;
    assert_eq!(first.len(), 8);
    assert!(first.iter().all(|device| device.health == "Healthy"), "{first:?}");
    answer.await.unwrap();
    after.stop().await;
}
