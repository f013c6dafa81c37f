//! What Pods hold is never lost and never given twice, whatever comes in whichever order.

use proptest::prelude::*;

use super::*;
use crate::config::{CharDevices, Config, Dialect, Health, Resource, Selectors, Sharing, Slots};
use crate::host::{Accessible, CharDevice, Hca, Host, LinkLayer, Parent, Port, Transport};
use crate::names::PortNum;
use crate::plan::plan;

fn hca(n: u8) -> Hca {
    let device = |node: String| CharDevice { node, major: 231, minor: 0, accessible: Accessible::Yes };
    let port = Port {
        link_layer: LinkLayer::Ethernet,
        transport: Transport::Roce,
        netdev: Some(format!("eth{n}")),
        gid_table_len: Some(255),
        ..Port::new(PortNum(1))
    };
    Hca {
        pci_address: Some(format!("0000:0{n}:00.0").parse().unwrap()),
        parent: Parent::Pci,
        driver: Some("mlx5_core".into()),
        uverbs: Some(device(format!("uverbs{n}"))),
        ports: vec![port],
        ..Hca::new(format!("mlx5_{n}").parse().unwrap())
    }
}

/// Two resources: the sharing of each, and which HCAs are asked for by name.
type Layout = [(Sharing, Vec<u8>); 2];

fn pools(present: &[u8], layout: &Layout) -> Vec<Pool> {
    let host = Host { hcas: present.iter().map(|n| hca(*n)).collect(), ..Host::default() };
    let resource = |(at, (sharing, hcas)): (usize, &(Sharing, Vec<u8>))| {
        // A selector without a value would select every HCA.
        let names = hcas.iter().map(|n| format!("mlx5_{n}")).chain(["none".to_owned()]).collect();
        let selectors = Selectors { hcas: names, ..Selectors::default() };
        let name = ["rdma/a", "rdma/b"][at].parse().unwrap();
        let (char_devices, health) = (CharDevices::default(), Health::WITHHOLD);
        Resource { sharing: *sharing, char_devices, health, ..Resource::of_config_json(name, 1, selectors) }
    };
    let resources = layout.iter().enumerate().map(resource).collect();
    plan(&host, &Config { dialect: Dialect::AgentConfig, ..Config::of_config_json(None, resources) })
}

const EXCLUSIVE: Sharing = Sharing::Hca { share: 1 };
/// No HCA has such a name.
const NONE: (Sharing, Vec<u8>) = (TOKENS, Vec::new());
const TOKENS: Sharing = Sharing::Tokens(Slots::Fixed(3));

fn standing(holdings: &Holdings, pool: &Pool, id: &str) -> Option<Standing> {
    holdings.list(pool).find(|listed| listed.device.id == id).map(|listed| listed.standing)
}

#[test]
fn an_id_that_a_pod_holds_stays_listed_when_its_hca_is_gone_and_goes_with_the_pod() {
    let layout = [(EXCLUSIVE, vec![0, 1]), NONE];
    let before = pools(&[0, 1], &layout);
    let mut holdings = Holdings::default();
    holdings.grant(&before, 0, &["0000:01:00.0"], &BTreeSet::new()).unwrap();
    // Its interface and RDMA device are in the Pod's namespace.
    let during = pools(&[0], &layout);
    holdings.confirm(&during, [("rdma/a", "0000:01:00.0")]);
    assert_eq!(standing(&holdings, &during[0], "0000:01:00.0"), Some(Standing::Kept));
    let kept = holdings.list(&during[0]).last().unwrap();
    assert!(kept.is_healthy(&during[0], &["0000:01:00.0".to_owned()].into()));
    holdings.confirm(&during, []);
    assert_eq!(standing(&holdings, &during[0], "0000:01:00.0"), None);
}

#[test]
fn a_grant_that_the_kubelet_did_not_yet_know_of_when_it_listed_is_not_lost() {
    let pools = pools(&[0], &[(EXCLUSIVE, vec![0]), NONE]);
    let mut holdings = Holdings::default();
    holdings.grant(&pools, 0, &["0000:00:00.0"], &BTreeSet::new()).unwrap();
    holdings.confirm(&pools, []);
    assert!(holdings.holds("rdma/a", "0000:00:00.0"));
    holdings.confirm(&pools, []);
    assert!(!holdings.holds("rdma/a", "0000:00:00.0"));
}

#[test]
fn an_hca_that_moves_to_another_resource_is_not_given_again_while_a_pod_has_it() {
    let old = pools(&[0], &[(EXCLUSIVE, vec![0]), NONE]);
    let new = pools(&[0], &[NONE, (EXCLUSIVE, vec![0])]);
    // The agent that granted it is gone: only its ID tells.
    let mut holdings = Holdings::default();
    holdings.confirm(&new, [("rdma/a", "0000:00:00.0")]);
    assert_eq!(standing(&holdings, &new[1], "0000:00:00.0"), Some(Standing::Taken));
    let refused = holdings.grant(&new, 1, &["0000:00:00.0"], &BTreeSet::new()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rdma/b cannot give \"0000:00:00.0\": a Pod holds its HCA by rdma/a 0000:00:00.0"
    );
    holdings.confirm(&new, []);
    assert_eq!(standing(&holdings, &new[1], "0000:00:00.0"), Some(Standing::Free));
    assert_eq!(standing(&holdings, &old[0], "0000:00:00.0"), Some(Standing::Free));
}

#[test]
fn shares_of_an_hca_count_whatever_their_ids_are_called() {
    let pools = pools(&[0], &[(Sharing::Hca { share: 2 }, vec![0]), NONE]);
    let mut holdings = Holdings::default();
    // Of a configuration with four shares.
    holdings.confirm(&pools, [("rdma/a", "0000:00:00.0-3")]);
    let list: Vec<_> = holdings.list(&pools[0]).map(|l| (l.device.id, l.standing)).collect();
    let wanted = [
        ("0000:00:00.0-0", Standing::Free),
        ("0000:00:00.0-1", Standing::Taken),
        ("0000:00:00.0-3", Standing::Kept),
    ];
    assert_eq!(list, wanted.map(|(id, standing)| (id.to_owned(), standing)));
    let both = holdings.grant(&pools, 0, &["0000:00:00.0-0", "0000:00:00.0-1"], &BTreeSet::new());
    assert!(matches!(both, Err(Refused::Taken { .. })), "{both:?}");
}

#[test]
fn another_plugins_pod_keeps_an_hca_from_those_who_want_it_alone_and_from_no_others() {
    let pools = pools(&[0], &[(EXCLUSIVE, vec![0]), (TOKENS, vec![0])]);
    let mut holdings = Holdings::default();
    holdings.confirm(&pools, [("vendor.example/vf", "0000:00:00.0"), ("vendor.example/gpu", "GPU-1")]);
    assert_eq!(standing(&holdings, &pools[0], "0000:00:00.0"), Some(Standing::Taken));
    assert_eq!(standing(&holdings, &pools[1], "0"), Some(Standing::Free));
}

#[test]
fn a_token_that_a_smaller_configuration_dropped_can_be_granted_while_it_is_held() {
    let pools = pools(&[0], &[(TOKENS, vec![0]), NONE]);
    let mut holdings = Holdings::default();
    assert!(matches!(holdings.grant(&pools, 0, &["77"], &BTreeSet::new()), Err(Refused::Unknown(_))));
    holdings.confirm(&pools, [("rdma/a", "77")]);
    assert_eq!(standing(&holdings, &pools[0], "77"), Some(Standing::Kept));
    let grant = holdings.grant(&pools, 0, &["77"], &BTreeSet::new()).unwrap();
    assert_eq!(grant.nodes, ["/dev/infiniband/uverbs0"]);
}

/// What may happen to a node.
#[derive(Debug, Clone)]
enum Event {
    /// The kubelet takes one of the devices that it may; which of them, and of which resource.
    Grant(usize, prop::sample::Index),
    /// A Pod ends.
    End(prop::sample::Index),
    /// An HCA is removed or added.
    Toggle(u8),
    /// An HCA fails or is well again.
    Fail(u8),
    /// Another configuration.
    Configure(Layout),
    /// A resource is removed from the configuration, or comes back.
    Remove(usize),
    /// The agent starts anew and asks the kubelet.
    Restart,
}

fn layout() -> impl Strategy<Value = Layout> {
    let sharing = prop_oneof![
        Just(EXCLUSIVE),
        Just(Sharing::Hca { share: 2 }),
        (1..4_u32).prop_map(|slots| Sharing::Tokens(Slots::Fixed(slots))),
    ];
    let resource = move || (sharing.clone(), prop::collection::btree_set(0..4_u8, 0..4));
    let sorted = |(sharing, hcas): (Sharing, BTreeSet<u8>)| (sharing, hcas.into_iter().collect());
    (resource(), resource()).prop_map(move |(a, b)| [sorted(a), sorted(b)])
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..2_usize, any::<prop::sample::Index>()).prop_map(|(at, which)| Event::Grant(at, which)),
        2 => any::<prop::sample::Index>().prop_map(Event::End),
        2 => (0..4_u8).prop_map(Event::Toggle),
        1 => (0..4_u8).prop_map(Event::Fail),
        1 => layout().prop_map(Event::Configure),
        1 => (0..2_usize).prop_map(Event::Remove),
        1 => Just(Event::Restart),
    ]
}

/// A Pod: its device, the HCAs that it was given, and how many Pods may have them; None for tokens.
type Held = (&'static str, String, Vec<String>, Option<u32>);

proptest! {
    #[test]
    fn nothing_that_is_held_is_lost_or_given_to_more_pods_than_were_promised(
        first in layout(), events in prop::collection::vec(event(), 1..60),
    ) {
        let (mut layout, mut present) = (first, vec![0, 1, 2, 3]);
        let (mut now, mut removed) = (pools(&present, &layout), [false; 2]);
        let (mut holdings, mut pods, mut failed) = (Holdings::default(), Vec::<Held>::new(), BTreeSet::new());
        for event in events {
            match event {
                Event::Grant(at, which) => {
                    let free: Vec<String> = holdings.list(&now[at])
                        .filter(|listed| listed.standing == Standing::Free && listed.is_healthy(&now[at], &failed)).map(|listed| listed.device.id).collect();
                    if free.is_empty() { continue; }
                    let id = &free[which.index(free.len())];
                    let grant = holdings.grant(&now, at, &[id], &failed)
                        .map_err(|refused| TestCaseError::fail(format!("{id} was free: {refused}")))?;
                    let share = now[at].share();
                    for hca in &grant.hcas {
                        let having: Vec<_> = pods.iter().filter(|pod| pod.2.contains(hca)).collect();
                        let by_hca = having.iter().filter(|pod| pod.3.is_some()).count();
                        prop_assert!(!having.iter().any(|pod| pod.3 == Some(1)), "{} was promised to one Pod", hca);
                        match share {
                            Some(1) => prop_assert!(having.is_empty(), "{} is in use", hca),
                            Some(share) => prop_assert!(by_hca < share as usize, "{} is shared by too many", hca),
                            None => {}
                        }
                    }
                    pods.push((["rdma/a", "rdma/b"][at], id.clone(), grant.hcas, share));
                }
                Event::End(which) => if !pods.is_empty() { drop(pods.remove(which.index(pods.len()))) },
                Event::Toggle(n) => match present.iter().position(|have| *have == n) {
                    Some(at) => drop(present.remove(at)),
                    None => present.push(n),
                },
                Event::Fail(n) => {
                    let id = format!("0000:0{n}:00.0");
                    if !failed.remove(&id) { failed.insert(id); }
                }
                Event::Configure(new) => layout = new,
                Event::Remove(at) => removed[at] = !removed[at],
                // What tokens of a configuration before were worth, and that a resource was its own, is not known to a
                // new agent: it starts with no token held and every resource there.
                Event::Restart => if pods.iter().all(|pod| pod.3.is_some()) {
                    (holdings, removed) = (Holdings::default(), [false; 2]);
                },
            }
            now = pools(&present, &layout);
            for (pool, _) in now.iter_mut().zip(removed).filter(|(_, removed)| *removed) {
                *pool = pool.removed();
            }
            let named = || pods.iter().map(|(resource, id, ..)| (*resource, id.as_str()));
            holdings.confirm(&now, named());
            holdings.confirm(&now, named());
            for (resource, id) in named() {
                let pool = now.iter().find(|pool| pool.resource.to_string() == resource).unwrap();
                let standing = standing(&holdings, pool, id);
                prop_assert!(matches!(standing, Some(Standing::Held | Standing::Kept)), "{} {} is {:?}", resource, id, standing);
            }
        }
    }
}
