//! The device plugin protocol against a fake kubelet: what is served, and that the agent comes back by itself.
#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

mod configuration;
mod driver;
mod grants;
mod kubelet;
mod made_host;
mod ways;

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubelet::{HANG, Kubelet, Registered};
use rocade_agent::{Options, run_agent};
use rocade_core::config::{Config, parse_config_json};
use rocade_host::Root;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// An agent in a directory of its own, serving a recorded host.
struct Agent {
    temp: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    run: JoinHandle<()>,
}

impl Agent {
    /// Starts it on the recorded host with four HCAs and a bond, one resource per interface.
    fn start(interfaces: &[&str]) -> Agent {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("p")).unwrap();
        Agent::start_in(temp, interfaces)
    }

    fn start_in(temp: tempfile::TempDir, interfaces: &[&str]) -> Agent {
        let options = options(&temp.path().join("p"), config(interfaces));
        Agent::start_with(temp, options)
    }

    fn start_with(temp: tempfile::TempDir, options: Options) -> Agent {
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(async move {
            let stopped = async move { stopped.await.unwrap_or_default() };
            run_agent(options, stopped).await.unwrap();
        });
        Agent { temp, stop: Some(stop), run }
    }

    fn dir(&self) -> PathBuf {
        self.temp.path().join("p")
    }

    fn sockets(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).unwrap().map(Result::unwrap);
        let sockets = entries.filter(|e| e.file_type().unwrap().is_socket());
        let names = sockets.map(|e| e.file_name().into_string().unwrap());
        names.filter(|n| n != "kubelet.sock").collect()
    }

    /// Waits until it serves one socket per resource, as it does before a kubelet is there.
    async fn wait_for_sockets(&self, count: usize) -> Vec<String> {
        let looks = async {
            while self.sockets().len() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(HANG, looks).await.expect("the agent makes its sockets");
        self.sockets()
    }

    async fn stop(mut self) -> tempfile::TempDir {
        self.stop.take().map(|stop| stop.send(()));
        timeout(HANG, &mut self.run).await.expect("the agent stops").expect("it did not panic");
        self.temp
    }
}

/// To serve the recorded host with four HCAs and a bond.
fn options(dir: &Path, config: Config) -> Options {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    Options::new(config, Root::open(host).unwrap(), dir.to_owned())
}

fn config(interfaces: &[&str]) -> Config {
    let entry = |name: &&str| {
        format!(
            r#"{{"resourceName": "hca_{name}", "rdmaHcaMax": 100, "selectors": {{"ifNames": ["{name}"]}}}}"#
        )
    };
    let entries: Vec<_> = interfaces.iter().map(entry).collect();
    let text = format!(r#"{{"periodicUpdateInterval": 0, "configList": [{}]}}"#, entries.join(","));
    parse_config_json("config.json", &text, true).unwrap().0
}

async fn assert_serves(registered: &mut Registered, resource: &str) {
    assert_eq!(registered.resource, resource);
    assert_eq!(registered.list().await.len(), 100);
}

#[tokio::test]
async fn a_registered_resource_names_its_socket_its_ids_and_no_options() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let mut registered = kubelet.next().await;
    assert_eq!((registered.version.as_str(), registered.resource.as_str()), ("v1beta1", "rdma/hca_ens18np0"));
    assert_eq!(agent.sockets(), [registered.endpoint.clone()]);
    assert!(!registered.options.pre_start_required && !registered.options.get_preferred_allocation_available);
    let list = registered.list().await;
    let ids: Vec<_> = list.iter().map(|d| d.id.clone()).collect();
    assert_eq!(ids, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(list.iter().all(|d| d.health == "Healthy" && d.topology.is_none()));
}

#[tokio::test]
async fn a_grant_is_the_nodes_of_the_hca_and_the_variable_that_names_it() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let mut registered = kubelet.next().await;
    let grant = registered.allocate(&["7"]).await.unwrap();
    let nodes: Vec<_> = grant.devices.iter().map(|d| d.container_path.as_str()).collect();
    let wanted = ["issm0", "umad0", "uverbs0", "rdma_cm"].map(|n| format!("/dev/infiniband/{n}"));
    assert_eq!(nodes, wanted);
    assert!(grant.devices.iter().all(|d| d.host_path == d.container_path && d.permissions == "rwm"));
    let variable = ("ROCADE_GRANT_RDMA_HCA_ENS18NP0".to_owned(), "mlx5_0:1".to_owned());
    assert_eq!(grant.envs.into_iter().collect::<Vec<_>>(), [variable]);
    assert!(grant.mounts.is_empty() && grant.annotations.is_empty() && grant.cdi_devices.is_empty());
}

#[tokio::test]
async fn a_device_that_is_not_offered_is_refused_by_name() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let status = kubelet.next().await.allocate(&["1", "100"]).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "rdma/hca_ens18np0 has no device \"100\", it has 0 to 99");
}

#[tokio::test]
async fn two_resources_have_a_socket_each_and_one_without_hca_has_no_device() {
    let agent = Agent::start(&["ens18np0", "nothere"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let mut both = [kubelet.next().await, kubelet.next().await];
    both.sort_by(|a, b| a.resource.cmp(&b.resource));
    let [some, none] = &mut both;
    assert_ne!(some.endpoint, none.endpoint);
    assert_eq!((some.list().await.len(), none.list().await.len()), (100, 0));
    assert_eq!(none.allocate(&["0"]).await.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn it_waits_for_a_kubelet_that_comes_late() {
    let agent = Agent::start(&["ens18np0"]);
    agent.wait_for_sockets(1).await;
    // The kubelet takes the waiting socket away and gets another.
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
}

#[tokio::test]
async fn it_waits_for_the_directory() {
    let agent = Agent::start_in(tempfile::tempdir().unwrap(), &["ens18np0"]);
    sleep(Duration::from_millis(50)).await;
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
}

#[tokio::test]
async fn it_asks_again_until_a_refusing_kubelet_takes_it() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 3);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
    assert_eq!(kubelet.calls(), 4);
}

#[tokio::test]
async fn it_registers_again_with_each_new_kubelet() {
    let agent = Agent::start(&["ens18np0", "ens20np0"]);
    let mut endpoints = Vec::new();
    for _ in 0..5 {
        let mut kubelet = Kubelet::start(&agent.dir(), 0);
        let mut both = [kubelet.next().await, kubelet.next().await];
        both.sort_by(|a, b| a.resource.cmp(&b.resource));
        assert_serves(&mut both[0], "rdma/hca_ens18np0").await;
        assert_serves(&mut both[1], "rdma/hca_ens20np0").await;
        endpoints.extend(both.iter().map(|r| r.endpoint.clone()));
    }
    endpoints.sort();
    endpoints.dedup();
    assert_eq!(endpoints.len(), 10, "a socket's name never comes again");
    assert_eq!(agent.wait_for_sockets(2).await.len(), 2);
}

#[tokio::test]
async fn a_kubelet_that_was_replaced_unnoticed_gets_its_registration_too() {
    let agent = Agent::start(&["ens18np0"]);
    let mut old = Kubelet::start(&agent.dir(), 0);
    let first = old.next().await;
    // The old one lives on and keeps its stream open: only the other kubelet.sock tells.
    let mut new = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut new.next().await, "rdma/hca_ens18np0").await;
    first.ended().await;
}

#[tokio::test]
async fn a_socket_removed_by_a_stranger_is_made_and_registered_anew() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    let first = kubelet.next().await;
    fs::remove_file(agent.dir().join(&first.endpoint)).unwrap();
    let mut second = kubelet.next().await;
    assert_serves(&mut second, "rdma/hca_ens18np0").await;
    assert_ne!(second.endpoint, first.endpoint);
    first.ended().await;
    assert_eq!(agent.sockets(), [second.endpoint]);
}

#[tokio::test]
async fn a_stream_that_the_kubelet_closed_is_answered_by_a_new_registration() {
    let agent = Agent::start(&["ens18np0"]);
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    kubelet.next().await.hang_up();
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
}

#[tokio::test]
async fn a_directory_removed_and_made_again_is_found() {
    let agent = Agent::start(&["ens18np0"]);
    let kubelet = Kubelet::start(&agent.dir(), 0);
    drop(kubelet);
    fs::remove_dir_all(agent.dir()).unwrap();
    let mut kubelet = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut kubelet.next().await, "rdma/hca_ens18np0").await;
}

#[tokio::test]
async fn a_directory_removed_under_a_living_kubelet_costs_no_capacity() {
    let agent = Agent::start(&["ens18np0"]);
    let mut old = Kubelet::start(&agent.dir(), 0);
    let mut first = old.next().await;
    assert_serves(&mut first, "rdma/hca_ens18np0").await;
    // Its own socket goes first, and so long before the other that it sees that.
    fs::remove_file(agent.dir().join(&first.endpoint)).unwrap();
    sleep(Duration::from_millis(50)).await;
    fs::remove_dir_all(agent.dir()).unwrap();
    fs::create_dir(agent.dir()).unwrap();
    // Without a kubelet.sock the agent looks every second: by then it has seen that all is gone.
    sleep(Duration::from_millis(1500)).await;
    assert!(first.is_watching());
    assert!(first.allocate(&["7"]).await.is_ok());
    let mut new = Kubelet::start(&agent.dir(), 0);
    assert_serves(&mut new.next().await, "rdma/hca_ens18np0").await;
    first.ended().await;
}

#[tokio::test]
async fn it_takes_its_own_sockets_away_when_it_stops_and_nothing_else() {
    let agent = Agent::start(&["ens18np0"]);
    let stranger = std::os::unix::net::UnixListener::bind(agent.dir().join("other.sock")).unwrap();
    fs::write(agent.dir().join("rocade-file.sock"), "").unwrap();
    agent.wait_for_sockets(2).await;
    let temp = agent.stop().await;
    let mut left: Vec<_> =
        fs::read_dir(temp.path().join("p")).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["other.sock", "rocade-file.sock"]);
    drop(stranger);
}

#[tokio::test]
async fn sockets_that_a_dead_agent_left_are_removed_and_those_of_a_living_one_are_not() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("p");
    fs::create_dir(&dir).unwrap();
    drop(std::os::unix::net::UnixListener::bind(dir.join("rocade-rdma_hca_a-1.0.sock")).unwrap());
    drop(std::os::unix::net::UnixListener::bind(dir.join("other.sock")).unwrap());
    let living = std::os::unix::net::UnixListener::bind(dir.join("rocade-rdma_hca_b-2.0.sock")).unwrap();
    let agent = Agent::start_in(temp, &["ens18np0"]);
    let mut kubelet = Kubelet::start_beside(&agent.dir());
    let endpoint = kubelet.next().await.endpoint;
    let mut sockets = agent.sockets();
    sockets.sort();
    let mut wanted = vec!["other.sock".to_owned(), "rocade-rdma_hca_b-2.0.sock".to_owned(), endpoint];
    wanted.sort();
    assert_eq!(sockets, wanted);
    drop(living);
}
