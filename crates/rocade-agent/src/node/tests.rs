//! The writer fed with hosts, Pods and configurations by hand: what it publishes of them.

use std::path::Path;

use rocade_core::config::{Degraded, Health, Resource, Selectors, Sharing, parse_config_json};
use rocade_core::{Hca, Port};
use rocade_host::{Scope, read_parts};
use tokio::time::timeout;

use super::*;
use crate::pod_resources::Held;
use crate::state::{Condition, Phase};

const HANG: Duration = Duration::from_secs(30);

const AT_ONCE: Health = Health { down_after: Duration::ZERO, up_after: Duration::ZERO, ..Health::WITHHOLD };

/// A writer without a host of its own.
struct Fed {
    tell: mpsc::UnboundedSender<Notice>,
    states: watch::Receiver<Arc<NodeState>>,
    host: Host,
    run: tokio::task::JoinHandle<()>,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.run.abort();
    }
}

impl Fed {
    /// Of the recorded host with four HCAs, all of them in one pool.
    async fn start(sharing: Sharing, health: Health) -> Fed {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
        let root = Root::open(path).unwrap();
        let host = read_parts(&root, Scope::GRANTS);
        let setup = Setup {
            config: Arc::new(config(sharing, health)),
            root: Arc::new(root),
            reload: None,
            pod_resources: "/none/kubelet.sock".into(),
        };
        let (tell, notices) = mpsc::unbounded_channel();
        let (node, states) = Node::new(setup, (tell.clone(), notices));
        let run = tokio::spawn(node.run());
        let mut fed = Fed { tell, states, host, run };
        fed.wait(|state| state.look.is_some()).await;
        fed
    }

    async fn wait(&mut self, is: impl Fn(&NodeState) -> bool) -> Arc<NodeState> {
        let state = timeout(HANG, self.states.wait_for(|state| is(state))).await;
        Arc::clone(&state.expect("it is published").unwrap())
    }

    /// Shows the writer the host as it is now.
    fn show(&self) {
        let look = Look { at: SystemTime::now(), took: Duration::ZERO, silent: Vec::new() };
        self.tell.send(Notice::Looked(Box::new(self.host.clone()), look)).unwrap();
    }

    fn hca(&mut self, name: &str) -> &mut Hca {
        self.host.hcas.iter_mut().find(|hca| hca.name.as_str() == name).unwrap()
    }

    fn port(&mut self, name: &str) -> &mut Port {
        &mut self.hca(name).ports[0]
    }

    /// The kubelet says what Pods hold of the pool, and how many devices it would give.
    fn answer(&self, ids: &[&str], allocatable: u32) {
        let holder = Holder { namespace: "n".into(), pod: "p".into(), container: "c".into() };
        let held =
            |id: &&str| Held { resource: "rdma/a".into(), id: (*id).to_owned(), holder: holder.clone() };
        let view = KubeletView {
            held: ids.iter().map(held).collect(),
            allocatable: BTreeMap::from([("rdma/a".to_owned(), allocatable)]),
            ..KubeletView::default()
        };
        self.tell.send(Notice::Kubelet(Ok(view))).unwrap();
    }

    async fn allocate(&self, ids: &[&str]) -> Result<Grant, Denied> {
        let ids = vec![ids.iter().map(|id| (*id).to_owned()).collect()];
        let (reply, answer) = oneshot::channel();
        self.tell.send(Notice::Allocate(Ask { resource: "rdma/a".parse().unwrap(), ids, reply })).unwrap();
        timeout(HANG, answer).await.unwrap().unwrap().map(|mut grants| grants.remove(0))
    }
}

fn config(sharing: Sharing, health: Health) -> Config {
    let selectors = Selectors { drivers: vec!["mlx5_core".into()], ..Selectors::default() };
    let resource = Resource::of_config_json("rdma/a".parse().unwrap(), 8, selectors);
    Config::of_config_json(None, vec![Resource { sharing, health, ..resource }])
}

const EXCLUSIVE: Sharing = Sharing::Hca { share: 1 };
const TOKENS: Sharing = Sharing::Tokens(rocade_core::config::Slots::Fixed(8));

fn counts(state: &NodeState) -> (u32, u32) {
    (state.resources[0].listing.devices, state.resources[0].listing.healthy)
}

/// Health of the first HCA.
fn seen(state: &NodeState) -> &crate::state::HcaState {
    state.hcas.iter().find(|(name, _)| name.as_str() == "mlx5_0").unwrap().1
}

fn is_listed(state: &NodeState, id: &str) -> Option<String> {
    let list = state.resources[0].listing.list.devices();
    list.into_iter().find(|device| device.id == id).map(|device| device.health)
}

#[tokio::test]
async fn f45_a_link_that_is_down_is_withheld_with_its_reason_and_comes_back() {
    let mut fed = Fed::start(EXCLUSIVE, AT_ONCE).await;
    assert_eq!(counts(&fed.states.borrow()), (4, 4));
    fed.port("mlx5_0").state = Some("DOWN".into());
    fed.show();
    let state = fed.wait(|state| counts(state) == (4, 3)).await;
    assert!(state.resources[0].listing.reasons[0].0.starts_with("mlx5_0/1 is DOWN"));
    let seen = seen(&state);
    assert_eq!((seen.condition, seen.healthy, seen.flaps), (Condition::Down, false, 1));
    fed.port("mlx5_0").state = Some("ACTIVE".into());
    fed.show();
    fed.wait(|state| counts(state) == (4, 4)).await;
}

#[tokio::test]
async fn a_pool_that_only_reports_tells_of_the_link_and_withholds_nothing() {
    let mut fed = Fed::start(TOKENS, Health { down_after: Duration::ZERO, ..Health::REPORT }).await;
    fed.port("mlx5_0").state = Some("DOWN".into());
    fed.show();
    let state = fed.wait(|state| !seen(state).healthy).await;
    assert_eq!(counts(&state), (8, 8));
}

#[tokio::test]
async fn a_degraded_pool_grants_the_other_hcas_and_a_withholding_one_nothing() {
    for (degraded, wanted) in [(Degraded::Degrade, (8, 8)), (Degraded::Withhold, (8, 0))] {
        let mut fed = Fed::start(TOKENS, Health { degraded, ..AT_ONCE }).await;
        fed.port("mlx5_0").state = Some("DOWN".into());
        fed.show();
        fed.wait(|state| !seen(state).healthy && counts(state) == wanted).await;
        if degraded == Degraded::Degrade {
            let grant = fed.allocate(&["3"]).await.unwrap();
            assert!(!grant.variables[0].1.contains("mlx5_0:"), "{:?}", grant.variables);
        }
    }
}

#[tokio::test]
async fn f44_an_hca_whose_interface_a_pod_has_is_in_use_and_stays_healthy() {
    let mut fed = Fed::start(EXCLUSIVE, AT_ONCE).await;
    let id = fed.hca("mlx5_0").pci_address.unwrap().to_string();
    fed.answer(&[&id], 4);
    let port = fed.port("mlx5_0");
    (port.netdev, port.netlink_netdev, port.state) = (None, None, Some("DOWN".into()));
    fed.show();
    let state = fed.wait(|state| seen(state).condition == Condition::InUse).await;
    assert_eq!(counts(&state), (4, 4));
    // The Pod is gone, the interface is still away.
    fed.answer(&[], 4);
    fed.answer(&[], 4);
    fed.host.schema_version += 1;
    fed.show();
    fed.wait(|state| counts(state) == (4, 3)).await;
}

#[tokio::test]
async fn an_id_that_a_pod_holds_stays_in_the_list_when_its_hca_is_gone_and_goes_with_the_pod() {
    let mut fed = Fed::start(EXCLUSIVE, AT_ONCE).await;
    let id = fed.hca("mlx5_0").pci_address.unwrap().to_string();
    fed.answer(&[&id], 4);
    fed.host.hcas.retain(|hca| hca.name.as_str() != "mlx5_0");
    fed.show();
    let state = fed.wait(|state| state.resources[0].pool.members.len() == 3).await;
    assert!(is_listed(&state, &id).is_some());
    fed.answer(&[], 4);
    let state = fed.wait(|state| counts(state).0 == 3).await;
    assert_eq!(is_listed(&state, &id), None);
}

#[tokio::test]
async fn f47_a_grant_whose_device_number_is_another_hcas_now_is_found_with_its_pod() {
    let mut fed = Fed::start(EXCLUSIVE, AT_ONCE).await;
    let id = fed.hca("mlx5_0").pci_address.unwrap().to_string();
    fed.allocate(&[&id]).await.unwrap();
    fed.answer(&[&id], 4);
    let state = fed.wait(|state| state.resources[0].holders.as_ref().is_some_and(|h| !h.is_empty())).await;
    assert_eq!(state.resources[0].holders.as_ref().unwrap()[&id].pod, "p");
    assert!(state.grants[0].faults.is_empty());
    let other = fed.host.hcas.iter().rposition(|hca| hca.uverbs.is_some()).unwrap();
    let (name, theirs) = (fed.host.hcas[other].name.clone(), fed.host.hcas[other].uverbs.clone());
    let path = theirs.as_ref().unwrap().path();
    let own = std::mem::replace(&mut fed.hca("mlx5_0").uverbs, theirs);
    fed.host.hcas[other].uverbs = own;
    fed.show();
    let state = fed.wait(|state| state.grants.iter().any(|grant| !grant.faults.is_empty())).await;
    let fault = format!("was granted for mlx5_0 and opens {name} now");
    assert!(state.grants[0].faults[0].contains(&fault), "{:?}", state.grants[0].faults);
    // A new grant has the nodes of now.
    let grant = fed.allocate(&[&id]).await.unwrap();
    assert!(grant.nodes.contains(&path), "{:?}", grant.nodes);
}

#[tokio::test]
async fn f34_a_kubelet_that_counts_other_devices_than_it_was_told_of_is_registered_with_again() {
    let mut fed = Fed::start(TOKENS, AT_ONCE).await;
    let registration =
        Registration { phase: Phase::Watched, streams: 1, ..Registration::waiting(Way::Kubelet) };
    fed.tell.send(Notice::Registration("rdma/a".parse().unwrap(), registration)).unwrap();
    fed.answer(&[], 8);
    let state = fed.wait(|state| state.resources[0].allocatable == Some(8)).await;
    assert_eq!(state.resources[0].repairs, 0);
    // Once may be too early.
    fed.answer(&[], 0);
    let state = fed.wait(|state| state.resources[0].allocatable == Some(0)).await;
    assert_eq!(state.resources[0].repairs, 0);
    fed.answer(&[], 0);
    fed.wait(|state| state.resources[0].repairs == 1).await;
    // A difference that stays is not answered by a storm.
    fed.answer(&[], 0);
    fed.answer(&[], 0);
    fed.answer(&[], 7);
    let state = fed.wait(|state| state.resources[0].allocatable == Some(7)).await;
    assert_eq!(state.resources[0].repairs, 1);
}

#[tokio::test]
async fn f07_a_new_configuration_is_in_force_at_once_and_a_bad_one_leaves_the_old() {
    let mut fed = Fed::start(TOKENS, AT_ONCE).await;
    let error = || Error::ConfigRefused { path: "config.json".into(), findings: Vec::new() };
    fed.tell.send(Notice::Config(Err(error()))).unwrap();
    let state = fed.wait(|state| state.config_error.is_some()).await;
    assert_eq!(counts(&state), (8, 8));
    fed.tell.send(Notice::Config(Err(error()))).unwrap();
    let mut config = config(EXCLUSIVE, AT_ONCE);
    config.resources.push(Resource::of_config_json("rdma/b".parse().unwrap(), 5, Selectors::default()));
    let configured = Configured { config, file: "config.json".into(), findings: Vec::new() };
    fed.tell.send(Notice::Config(Ok(configured))).unwrap();
    let state = fed.wait(|state| state.resources.len() == 2 && state.config_error.is_none()).await;
    assert_eq!(counts(&state), (4, 4));
    // The refusal was noted once.
    assert_eq!(state.errors.len(), 1);
}

#[tokio::test]
async fn a_list_that_no_kubelet_could_receive_is_not_sent_and_its_reason_says_how_many_would_fit() {
    let many = rocade_core::config::Slots::Fixed(300_000);
    let fed = Fed::start(Sharing::Tokens(many), AT_ONCE).await;
    let state = Arc::clone(&fed.states.borrow());
    assert_eq!(state.resources[0].listing.list.len_bytes(), 0);
    let (why, _) = &state.resources[0].listing.reasons[0];
    assert!(why.contains("the kubelet receives 4194304") && why.contains("would fit"), "{why}");
    let fits = Fed::start(Sharing::Tokens(rocade_core::config::Slots::Fixed(64_000)), AT_ONCE).await;
    assert_eq!(counts(&fits.states.borrow()), (64_000, 64_000));
}

#[tokio::test]
async fn an_hca_that_a_pod_has_alone_is_given_to_no_other() {
    let mut fed = Fed::start(EXCLUSIVE, AT_ONCE).await;
    let id = fed.hca("mlx5_0").pci_address.unwrap().to_string();
    fed.allocate(&[&id]).await.unwrap();
    let error = fed.allocate(&["0000:ff:00.0"]).await.unwrap_err().to_string();
    assert!(error.contains("has no device \"0000:ff:00.0\""), "{error}");
    let state = fed.wait(|state| !state.errors.is_empty()).await;
    assert_eq!(state.errors[0].subject, "Allocate");
}

/// A host with one InfiniBand HCA, made of files.
fn write_hca(host: &Path, name: &str, state: &str) {
    let write = |path: &str, text: &str| {
        let path = host.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let port = format!("sys/class/infiniband/{name}/ports/1");
    write(&format!("{port}/state"), state);
    write(&format!("{port}/link_layer"), "InfiniBand\n");
    write(&format!("{port}/gids/0"), "fe80:0000:0000:0000:0000:0000:0000:0001\n");
}

#[tokio::test]
async fn a_host_that_changed_is_published_at_the_interval_that_was_asked_for() {
    let host = tempfile::tempdir().unwrap();
    write_hca(host.path(), "mlx5_0", "4: ACTIVE\n");
    let text = r#"{"periodicUpdateInterval": 1, "configList": [
        {"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["eth1"]}}]}"#;
    let setup = Setup {
        config: Arc::new(parse_config_json("config.json", text, true).unwrap().0),
        root: Arc::new(Root::live(host.path()).unwrap()),
        reload: None,
        pod_resources: host.path().join("kubelet.sock"),
    };
    let (node, mut states) = Node::new(setup, mpsc::unbounded_channel());
    let node = tokio::spawn(node.run());
    let mut wait = async |count| {
        let looked =
            |state: &Arc<NodeState>| state.look.is_some() && state.resources[0].pool.left_out.len() == count;
        timeout(HANG, states.wait_for(looked)).await.unwrap().unwrap();
    };
    wait(1).await;
    std::fs::remove_dir_all(host.path().join("sys/class/infiniband/mlx5_0")).unwrap();
    wait(0).await;
    node.abort();
}

#[tokio::test]
async fn a_look_that_began_before_a_port_was_read_does_not_bring_back_what_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    let setup = Setup {
        config: Arc::new(config(EXCLUSIVE, AT_ONCE)),
        root: Arc::new(Root::open(path).unwrap()),
        reload: None,
        pod_resources: "/none/kubelet.sock".into(),
    };
    let (mut node, states) = Node::new(setup, mpsc::unbounded_channel());
    let before = read_parts(&node.root, Scope::GRANTS);
    let look = || Look { at: SystemTime::now(), took: Duration::ZERO, silent: Vec::new() };
    node.take_host(before.clone(), look());
    node.begin();
    let mut after = before.clone();
    after.hcas[0].ports[0].state = Some("DOWN".into());
    // A look at everything begins, then one at port states begins and ends.
    node.whole_since = Some(Instant::now());
    node.states_since = Some(Instant::now() + Duration::from_millis(1));
    node.take_states(&after, Vec::new());
    assert_eq!(counts(&states.borrow()), (4, 3));
    node.take_host(before, look());
    assert_eq!(counts(&states.borrow()), (4, 3));
}
