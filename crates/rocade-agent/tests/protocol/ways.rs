//! The two ways of registration, kubelets that are not willing, and two agents at once.

use rocade_agent::Choice;
use tonic::Code;

use super::kubelet::{Unwilling, find_plugin};
use super::*;

fn watcher(temp: tempfile::TempDir, registration: Choice) -> Agent {
    for dir in ["p", "plugins_registry"] {
        fs::create_dir_all(temp.path().join(dir)).unwrap();
    }
    let options = options(&temp.path().join("p"), config(&["ens18np0"]));
    Agent::start_with(temp, Options { registration, ..options })
}

#[tokio::test]
async fn f36_a_socket_that_the_kubelet_found_is_made_anew_when_a_stranger_removes_it() {
    let agent = watcher(tempfile::tempdir().unwrap(), Choice::Watcher);
    let registry = agent.temp.path().join("plugins_registry");
    let mut first = find_plugin(&registry).await;
    assert_serves(&mut first, "rdma/hca_ens18np0").await;
    // The kubelet makes of the path an authority that only a name with an @ makes a valid one.
    assert!(first.endpoint.starts_with("rocade.dev-rdma_hca_ens18np0-"), "{}", first.endpoint);
    assert!(first.endpoint.ends_with("@reg.sock"), "{}", first.endpoint);
    assert!(agent.sockets().is_empty(), "never both ways at once");
    assert!(first.allocate(&["7"]).await.is_ok());
    fs::remove_file(registry.join(&first.endpoint)).unwrap();
    let mut second = find_plugin(&registry).await;
    assert_serves(&mut second, "rdma/hca_ens18np0").await;
    assert_ne!(second.endpoint, first.endpoint);
    first.ended().await;
    let temp = agent.stop().await;
    assert_eq!(fs::read_dir(temp.path().join("plugins_registry")).unwrap().count(), 0);
}

#[tokio::test]
async fn f33_a_kubelet_that_comes_back_finds_the_same_socket_again() {
    let agent = watcher(tempfile::tempdir().unwrap(), Choice::Watcher);
    let registry = agent.temp.path().join("plugins_registry");
    let first = find_plugin(&registry).await;
    first.hang_up();
    let mut second = find_plugin(&registry).await;
    assert_serves(&mut second, "rdma/hca_ens18np0").await;
    assert_eq!(second.endpoint, first.endpoint);
}

#[tokio::test]
async fn f37_where_register_comes_to_nothing_the_kubelet_finds_the_socket_by_itself() {
    let agent = watcher(tempfile::tempdir().unwrap(), Choice::Auto);
    let refuses = Unwilling::Refuses(Code::Unimplemented);
    let kubelet = Kubelet::start_unwilling(&agent.dir(), usize::MAX, refuses);
    let mut found = find_plugin(&agent.temp.path().join("plugins_registry")).await;
    assert_serves(&mut found, "rdma/hca_ens18np0").await;
    assert!(kubelet.calls() > 1);
    assert!(agent.sockets().is_empty(), "never both ways at once");
}

#[tokio::test]
async fn a_kubelet_that_is_out_of_resources_is_asked_again() {
    let agent = Agent::start(&["ens18np0"]);
    let exhausted = Unwilling::Refuses(Code::ResourceExhausted);
    let mut kubelet = Kubelet::start_unwilling(&agent.dir(), 2, exhausted);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
    assert_eq!(kubelet.calls(), 3);
}

#[tokio::test]
async fn a_kubelet_that_vanishes_while_it_is_registered_with_is_followed_by_the_next() {
    let agent = Agent::start(&["ens18np0"]);
    let hanging = Kubelet::start_unwilling(&agent.dir(), 1, Unwilling::Hangs);
    let called = async {
        while hanging.calls() == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, called).await.unwrap();
    drop(hanging);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
}

#[tokio::test]
async fn f35_an_agent_that_ends_takes_nothing_of_the_one_that_follows_it() {
    let old = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&old.dir(), 0);
    let first = kubelet.next().await;
    let new = Agent::start_with(tempfile::tempdir().unwrap(), options(&old.dir(), config(&["ens18np0"])));
    let mut second = kubelet.next().await;
    assert_serves(&mut second, "rdma/hca_ens18np0").await;
    assert_ne!(first.endpoint, second.endpoint);
    let dir = old.dir();
    let temp = old.stop().await;
    first.ended().await;
    assert!(dir.join(&second.endpoint).exists());
    assert!(second.is_watching());
    assert!(second.allocate(&["7"]).await.is_ok());
    new.stop().await;
    drop(temp);
}

#[tokio::test]
async fn f40_changes_that_no_kubelet_listens_to_hold_nothing_up_and_it_stops_at_once() {
    let agent = Agent::start(&["ens18np0", "ens20np0"]);
    agent.wait_for_sockets(2).await;
    for _ in 0..20 {
        fs::write(agent.dir().join("x"), "").unwrap();
        fs::remove_file(agent.dir().join("x")).unwrap();
    }
    let temp = agent.stop().await;
    assert_eq!(fs::read_dir(temp.path().join("p")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_directory_with_a_blank_and_a_percent_sign_in_its_name_is_dialled() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("device plugins 100%");
    fs::create_dir(&dir).unwrap();
    let agent = Agent::start_with(temp, options(&dir, config(&["ens18np0"])));
    let mut kubelet = Kubelet::start(&dir, 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
    agent.stop().await;
}

/// Pods that ran are admitted again as soon as the kubelet is back, and fail for good where the plugin is not there yet:
/// all that it can do is to be quick, however long it was kept waiting.
#[tokio::test]
async fn f48_a_kubelet_that_comes_back_is_registered_with_at_once_and_grants_what_its_pods_had() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let grant = kubelet.next().await.allocate(&["7"]).await.unwrap();
    drop(kubelet);
    // Its successor takes nobody for so long that the pauses between two attempts grow.
    let unwilling = Kubelet::start_unwilling(&agent.dir(), usize::MAX, Unwilling::Refuses(Code::Unavailable));
    let mut attempts = Vec::new();
    while attempts.len() < 6 {
        let attempted = async {
            while unwilling.calls() == attempts.len() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(HANG, attempted).await.expect("it tries again");
        attempts.push(tokio::time::Instant::now());
    }
    let last_pause = attempts[5] - attempts[4];
    drop(unwilling);
    let mut back = Kubelet::start(&agent.dir(), 0);
    let mut registered = back.next().await;
    // The pause that had begun is longer than the last one.
    assert!(attempts[5].elapsed() < last_pause, "{:?} after {last_pause:?}", attempts[5].elapsed());
    assert_serves(&mut registered, "rdma/hca_ens18np0").await;
    assert_eq!(registered.allocate(&["7"]).await.unwrap(), grant);
    agent.stop().await;
}
