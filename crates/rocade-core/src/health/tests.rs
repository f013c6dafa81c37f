use super::*;
use crate::config::{Config, HealthPolicy, Resource, Selectors, Sharing};
use crate::host::{Accessible, CharDevice, Transport};
use crate::names::PortNum;
use crate::plan::plan;

const S: Duration = Duration::from_secs(1);

fn hca(n: u32, state: &str) -> Hca {
    let uverbs = CharDevice { node: format!("uverbs{n}"), major: 231, minor: n, accessible: Accessible::Yes };
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        state: Some(state.into()),
        netdev: Some(format!("eth{n}")),
        gid_table_len: Some(16),
        ..Port::new(PortNum(1))
    };
    Hca {
        pci_address: Some(format!("0000:0{n}:00.0").parse().unwrap()),
        driver: Some("mlx5_core".into()),
        uverbs: Some(uverbs),
        ports: vec![port],
        ..Hca::new(format!("mlx5_{n}").parse().unwrap())
    }
}

fn host(states: &[&str]) -> Host {
    let hcas = (0..).zip(states).map(|(n, state)| hca(n, state)).collect();
    Host { hcas, ..Host::default() }
}

fn config(sharing: Sharing, health: Health) -> Config {
    let selectors = Selectors { drivers: vec!["mlx5_core".into()], ..Selectors::default() };
    let resource = Resource::of_config_json("rdma/a".parse().unwrap(), 10, selectors);
    Config::of_config_json(None, vec![Resource { sharing, health, ..resource }])
}

/// A tracker with its pools, which looks at hosts at seconds of a clock.
struct Watched {
    tracker: Tracker,
    config: Config,
    pools: Vec<Pool>,
    held: bool,
}

impl Watched {
    fn new(health: Health) -> Watched {
        let config = config(Sharing::Hca { share: 1 }, health);
        Watched { tracker: Tracker::default(), config, pools: Vec::new(), held: false }
    }

    fn look(&mut self, at: u32, host: &Host) -> Vec<String> {
        self.pools = plan(host, &self.config);
        self.tracker.observe(S * at, host, &self.pools, |_, _| self.held);
        self.failed()
    }

    fn wait(&mut self, until: u32) -> Vec<String> {
        self.tracker.settle(S * until, &self.pools);
        self.failed()
    }

    fn failed(&self) -> Vec<String> {
        self.tracker.failed(&"rdma/a".parse().unwrap()).into_iter().collect()
    }

    fn first(&self) -> Verdict {
        self.tracker.of(&"rdma/a".parse().unwrap()).next().unwrap().1.clone()
    }
}

const FIRST: &str = "0000:00:00.0";

#[test]
fn an_hca_fails_once_it_has_been_down_for_long_enough_and_is_well_once_it_has_been_up() {
    let mut watched = Watched::new(Health::WITHHOLD);
    assert!(watched.look(0, &host(&["ACTIVE", "ACTIVE"])).is_empty());
    assert_eq!(watched.tracker.next_change(&watched.pools), None);
    assert!(watched.look(100, &host(&["DOWN", "ACTIVE"])).is_empty());
    assert_eq!(watched.tracker.next_change(&watched.pools), Some(S * 130));
    assert!(watched.wait(129).is_empty());
    assert_eq!(watched.wait(130), [FIRST]);
    assert_eq!(watched.first().reason, "mlx5_0/1 is DOWN");
    assert_eq!(watched.look(200, &host(&["ACTIVE", "ACTIVE"])), [FIRST]);
    assert_eq!(watched.wait(209), [FIRST]);
    assert!(watched.wait(210).is_empty());
    assert_eq!(watched.tracker.next_change(&watched.pools), None);
}

#[test]
fn one_that_is_down_when_it_is_first_seen_has_failed_at_once_and_init_is_no_better_than_down() {
    let mut watched = Watched::new(Health::WITHHOLD);
    assert_eq!(watched.look(0, &host(&["INIT", "ACTIVE"])), [FIRST]);
    assert_eq!(watched.look(1, &host(&["ACTIVE", "ACTIVE"])), [FIRST]);
    assert!(watched.wait(11).is_empty());
}

#[test]
fn a_short_loss_fails_nothing_and_is_counted() {
    let mut watched = Watched::new(Health::WITHHOLD);
    watched.look(0, &host(&["ACTIVE"]));
    watched.look(5, &host(&["DOWN"]));
    assert!(watched.look(20, &host(&["ACTIVE"])).is_empty());
    assert!(watched.wait(1000).is_empty());
    assert_eq!(watched.first().flaps, 1);
}

#[test]
fn a_flapping_one_is_held_twice_as_long_each_time_until_it_has_been_quiet() {
    let at_once = Health { down_after: Duration::ZERO, ..Health::WITHHOLD };
    let mut watched = Watched::new(at_once);
    let (up, down) = (host(&["ACTIVE"]), host(&["DOWN"]));
    watched.look(0, &up);
    let mut now = 10;
    for hold in [10, 20, 40, 80] {
        assert_eq!(watched.look(now, &down), [FIRST]);
        assert_eq!(watched.look(now + 1, &up), [FIRST]);
        assert_eq!(watched.wait(now + hold), [FIRST], "{hold}");
        assert!(watched.wait(now + 1 + hold).is_empty(), "{hold}");
        now += 1 + hold;
    }
    // The last time counts no more.
    now += 601;
    watched.wait(now);
    assert_eq!(watched.look(now, &down), [FIRST]);
    watched.look(now + 1, &up);
    assert!(watched.wait(now + 11).is_empty());
}

#[test]
fn an_hca_whose_interface_a_pod_has_is_in_use_and_one_without_holder_is_not() {
    let mut watched = Watched::new(Health { down_after: Duration::ZERO, ..Health::WITHHOLD });
    watched.look(0, &host(&["ACTIVE"]));
    let mut moved = host(&["DOWN"]);
    moved.hcas[0].ports[0].netdev = None;
    watched.held = true;
    assert!(watched.look(1, &moved).is_empty());
    assert_eq!(watched.first().condition, Condition::InUse);
    watched.held = false;
    assert_eq!(watched.look(2, &moved), [FIRST]);
}

#[test]
fn in_exclusive_mode_an_hca_of_which_the_verbs_device_is_left_is_in_use_and_otherwise_gone() {
    let mut watched = Watched::new(Health { down_after: Duration::ZERO, ..Health::WITHHOLD });
    let mut before = host(&["ACTIVE", "ACTIVE"]);
    before.netns_mode = Some(NetnsMode::Exclusive);
    watched.look(0, &before);
    let mut after = before.clone();
    let moved = after.hcas.remove(0);
    after.orphan_uverbs = moved.uverbs.into_iter().collect();
    assert!(watched.look(1, &after).is_empty());
    assert_eq!(watched.first().condition, Condition::InUse);
    after.orphan_uverbs.clear();
    assert_eq!(watched.look(2, &after), [FIRST]);
    assert_eq!(
        (watched.first().condition, watched.first().reason.as_str()),
        (Condition::Gone, "mlx5_0 is not there any more")
    );
}

#[test]
fn a_renamed_hca_is_the_same_one_and_a_returned_one_too() {
    let mut watched = Watched::new(Health::WITHHOLD);
    watched.look(0, &host(&["ACTIVE"]));
    let mut renamed = host(&["ACTIVE"]);
    renamed.hcas[0].name = "rdma_a".parse().unwrap();
    assert!(watched.look(1, &renamed).is_empty());
    assert_eq!((watched.first().hca.as_str(), watched.first().flaps), ("rdma_a", 0));
    assert!(watched.look(2, &Host::default()).is_empty());
    assert!(watched.look(3, &host(&["ACTIVE"])).is_empty());
    assert_eq!((watched.first().hca.as_str(), watched.first().flaps), ("mlx5_0", 1));
}

#[test]
fn a_second_port_that_nobody_uses_does_not_fail_the_hca() {
    let mut watched = Watched::new(Health::WITHHOLD);
    let mut host = host(&["DOWN"]);
    let second = Port { port: PortNum(2), state: Some("ACTIVE".into()), ..host.hcas[0].ports[0].clone() };
    host.hcas[0].ports.push(second);
    assert!(watched.look(0, &host).is_empty());
}

#[test]
fn a_pool_that_withholds_when_one_fails_misses_an_hca_that_is_gone() {
    let health = Health { degraded: Degraded::Withhold, down_after: Duration::ZERO, ..Health::WITHHOLD };
    let mut watched = Watched::new(health);
    watched.config = config(Sharing::Tokens(crate::config::Slots::Fixed(10)), health);
    watched.look(0, &host(&["ACTIVE", "ACTIVE"]));
    assert_eq!(watched.tracker.missing(&watched.pools[0]), None);
    watched.look(1, &host(&["ACTIVE"]));
    let why = watched.tracker.missing(&watched.pools[0]);
    assert_eq!(why.as_deref(), Some("mlx5_1 is not there any more"));
    assert_eq!(health.policy, HealthPolicy::Withhold);
}

#[test]
fn what_is_configured_no_more_is_forgotten() {
    let mut watched = Watched::new(Health::WITHHOLD);
    watched.look(0, &host(&["DOWN"]));
    watched.config.resources.clear();
    assert!(watched.look(1, &host(&["DOWN"])).is_empty());
}
