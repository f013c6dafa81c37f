//! What `rocade verify` says of a Pod, with what its process may do and tried.

use rocade_core::check::{Refused, Registered, Within};
use rocade_core::host::{Accessible, Limit, LinkLayer, Memlock, Pod, PodGrant};
use rocade_core::verify::{Judged, Verdict, verify};
use rocade_core::{Host, Netdev, PortNum, Severity, judge};

use super::Recording;

const MIB: u64 = 1 << 20;

fn found<'a>(verdict: &'a Verdict, code: &str) -> Option<&'a Judged> {
    verdict.findings.iter().find(|judged| judged.finding.code == code)
}

fn assert_reason(verdict: &Verdict, code: &str, words: &str) {
    assert!(!verdict.pass, "{}", verdict.reason);
    assert!(verdict.reason.ends_with(&format!("[{code}]")), "{}", verdict.reason);
    assert!(verdict.reason.contains(words), "{}", verdict.reason);
}

/// A Pod with one VF that it can use.
fn good() -> Host {
    Recording::of("pod-sriov-exclusive").host()
}

fn limited(soft: u64, hard: Limit) -> Host {
    Host { memlock: Some(Memlock { soft: Limit::Bytes(soft), hard }), ..good() }
}

fn of_user(user: u32, ipc_lock: bool) -> Within {
    Within { user: Some(user), ipc_lock: Some(ipc_lock), ..Within::default() }
}

fn tried(hca: &str, errno: Option<&str>) -> Within {
    let tried = [(hca.parse().unwrap(), errno.map(str::to_owned))];
    Within { tried: tried.into(), ..Within::default() }
}

/// F103: one word, and what can be used.
#[test]
fn a_good_pod_passes_with_the_address_and_its_index() {
    let verdict = verify(&good(), &tried("mlx5_2", None));
    assert!(verdict.pass);
    assert_eq!(verdict.reason, "usable: mlx5_2/1 with 10.56.41.22 at index 3");
    assert!(verdict.findings.iter().all(|judged| judged.finding.severity < Severity::Error));
}

/// F49: the Pod runs without the device that it asked for.
#[test]
fn a_pod_without_its_device_node_fails_with_the_lines_to_add() {
    let host = Recording::of("pod-sriov-exclusive").without(" char uverbs2 ").host();
    let verdict = verify(&host, &Within::default());
    assert_reason(&verdict, "RDC610", "no node of them in /dev/infiniband");
    assert!(found(&verdict, "RDC610").unwrap().lines.iter().any(|line| line.contains("limits:")));
}

/// F49: with a grant that the environment tells, the resource was asked for: what lacks is the node.
#[test]
fn a_grant_without_its_node_is_not_told_to_ask_for_the_resource_again() {
    let mut host = Recording::of("pod-sriov-exclusive").without(" char uverbs2 ").host();
    let source = "ROCADE_GRANT_RDMA_HCA_B".to_owned();
    host.pod.as_mut().unwrap().grants =
        Some(vec![PodGrant { source, hca: Some("mlx5_2".into()), ..PodGrant::default() }]);
    let verdict = verify(&host, &Within::default());
    assert_reason(&verdict, "RDC606", "granted, /dev/infiniband/uverbs2 is not in this Pod");
    assert!(found(&verdict, "RDC610").is_none());
    // A node that a hostPath brought: the resource is named as its variable tells.
    let refused =
        verify(&Host { nodes: good().nodes, hcas: good().hcas, ..host }, &tried("mlx5_2", Some("EPERM")));
    let lines = &found(&refused, "RDC611").unwrap().lines;
    assert!(lines.iter().any(|line| line.contains("limits: {rdma/hca_b: 1}")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains('<')), "{lines:?}");
}

/// F52 and F53: seen in /sys is not granted; usable is opened and addressed.
#[test]
fn hcas_that_are_only_seen_are_told_apart_from_the_granted_one() {
    let verdict = verify(&Recording::of("seed-pod-wrong-rail").host(), &Within::default());
    let own: Vec<_> = verdict.hcas.iter().map(|own| (own.hca.as_str(), own.granted, own.usable)).collect();
    assert_eq!(own, [("mlx5_4", Some(true), false)]);
    assert_eq!(verdict.seen_only, ["mlx5_0", "mlx5_3", "mlx5_bond_0"]);
    assert_reason(&verdict, "RDC603", "mlx5_4 (ens20np0)");
    assert!(verdict.reason.contains("mlx5_0 (ens18np0): different rails"), "{}", verdict.reason);
}

/// F57: RoCE needs an interface of the Pod.
#[test]
fn a_roce_pod_without_a_second_network_fails_and_is_told_of_one() {
    let mut host = good();
    host.netdevs.retain(|netdev| netdev.name != "net1");
    judge(&mut host);
    let verdict = verify(&host, &tried("mlx5_2", None));
    assert_reason(&verdict, "RDC601", "no address on that rail");
    let lines = &found(&verdict, "RDC601").unwrap().lines;
    assert!(lines.iter().any(|line| line.contains("k8s.v1.cni.cncf.io/networks")), "{lines:?}");
}

/// F58: the same Pod on InfiniBand needs none.
#[test]
fn an_infiniband_pod_passes_without_any_interface() {
    let mut host = Recording::of("ib-hdr-mixed").host();
    let active = |hca: &&rocade_core::Hca| {
        let port = hca.ports.first().unwrap();
        port.link_layer == LinkLayer::InfiniBand && port.state.as_deref() == Some("ACTIVE")
    };
    let name = host.hcas.iter().find(active).unwrap().name.clone();
    host.netdevs.clear();
    host.nodes.retain(|node| node.hca.as_ref() == Some(&name));
    for hca in host.hcas.iter_mut().filter(|hca| hca.name != name) {
        hca.uverbs.as_mut().unwrap().accessible = Accessible::Missing;
    }
    let grant = PodGrant { hca: Some(name.to_string()), ..PodGrant::default() };
    host.pod = Some(Pod { grants: Some(vec![grant]), ..Pod::default() });
    judge(&mut host);
    let verdict = verify(&host, &tried(name.as_str(), None));
    assert!(verdict.pass, "{}", verdict.reason);
    let advice = verdict.findings.iter().any(|judged| judged.lines.iter().any(|l| l.contains("k8s.v1.cni")));
    assert!(!advice, "no second network is asked for on InfiniBand");
}

/// F70: the index is the one of the Pod's own address, whatever stands before it.
#[test]
fn the_index_is_that_of_the_pods_own_address() {
    let nodes = (" char uverbs4 231:196 0666", " char uverbs0 231:192 0666");
    let recording = Recording::of("seed-pod-wrong-rail").with(nodes.0, nodes.1);
    let host = recording.with(r#""granted":["mlx5_4"]"#, r#""granted":["mlx5_0"]"#).host();
    let verdict = verify(&host, &Within::default());
    assert!(verdict.pass, "{}", verdict.reason);
    let gids = &verdict.hcas[0].ports[0].gids;
    let seen: Vec<_> = gids.iter().map(|gid| (gid.index.0, gid.address.to_string())).collect();
    assert_eq!(seen, [(7, "10.8.10.113".to_owned())]);
}

/// F76: IPC_LOCK does nothing for a user other than root.
#[test]
fn the_cure_for_a_small_memlock_is_the_users() {
    let small = limited(8 * MIB, Limit::Bytes(8 * MIB));
    let verdict = verify(&small, &of_user(0, false));
    assert_reason(&verdict, "RDC106", "soft 8 MiB, hard 8 MiB");
    assert!(found(&verdict, "RDC106").unwrap().lines.iter().any(|line| line.contains("IPC_LOCK")));
    let verdict = verify(&small, &of_user(1000, false));
    assert_reason(&verdict, "RDC106", "user 1000");
    let judged = found(&verdict, "RDC106").unwrap();
    assert!(judged.finding.cure.contains("LimitMEMLOCK=infinity"), "{}", judged.finding);
    assert!(judged.lines.is_empty(), "no line of the Pod's manifest helps: {:?}", judged.lines);
}

#[test]
fn a_limit_that_does_not_bind_or_can_be_raised_is_told_as_such() {
    let small = limited(8 * MIB, Limit::Bytes(8 * MIB));
    assert!(verify(&small, &of_user(0, true)).pass, "the kernel asks for no limit with IPC_LOCK in effect");
    let raisable = verify(&limited(8 * MIB, Limit::Unlimited), &of_user(1000, false));
    assert!(found(&raisable, "RDC106").unwrap().finding.cure.contains("ulimit -l unlimited"));
    let unknown = verify(&small, &Within::default());
    assert!(unknown.pass, "a recording does not tell whether IPC_LOCK was in effect");
    assert_eq!(found(&unknown, "RDC106").unwrap().finding.severity, Severity::Warning);
    let enough = verify(&limited(512 * MIB, Limit::Bytes(512 * MIB)), &of_user(0, false));
    assert!(enough.pass && found(&enough, "RDC106").is_some());
}

fn registered(refused: Option<Refused>) -> Within {
    let one = Registered { hca: "mlx5_2".parse().unwrap(), bytes: 64 * MIB, refused };
    Within { registered: vec![one], ..of_user(0, false) }
}

/// F76 and F88: what was registered is proof, what was not is told with the numbers.
#[test]
fn registering_memory_decides_over_the_limit() {
    let small = limited(8 * MIB, Limit::Bytes(8 * MIB));
    let refused = Refused { why: "Cannot allocate memory".into(), out_of_memory: true };
    let verdict = verify(&small, &registered(Some(refused.clone())));
    assert_reason(&verdict, "RDC612", "64 MiB could not be registered");
    assert!(verdict.reason.contains("memlock soft 8 MiB"), "{}", verdict.reason);
    assert!(verify(&small, &registered(None)).pass);
    let unlimited = verify(&good(), &registered(Some(refused)));
    let finding = &found(&unlimited, "RDC612").unwrap().finding;
    assert!(finding.cure.contains("resources.limits.memory"), "{finding}");
}

/// F78: the node is here, and the container may not open it.
#[test]
fn a_node_that_refuses_is_the_reason_with_its_errno() {
    let verdict = verify(&good(), &tried("mlx5_2", Some("EPERM")));
    assert_reason(&verdict, "RDC611", "uverbs2 is here and does not open (EPERM)");
    let judged = found(&verdict, "RDC611").unwrap();
    assert!(judged.finding.cure.contains("hostPath"), "{}", judged.finding);
    assert_eq!(verdict.hcas, [], "what is neither granted nor opens is not this Pod's");
    assert_eq!(verdict.seen_only, ["mlx5_2"]);
    let denied = verify(&good(), &tried("mlx5_2", Some("EACCES")));
    assert!(found(&denied, "RDC611").unwrap().finding.cure.contains("mode and owner"));
}

#[test]
fn a_granted_name_that_no_hca_has_fails() {
    let mut host = good();
    let grant = |hca: &str| PodGrant {
        source: "ROCADE_GRANT_A".into(),
        hca: Some(hca.into()),
        ..PodGrant::default()
    };
    host.pod.as_mut().unwrap().grants = Some(vec![grant("mlx5_2"), grant("mlx5_9")]);
    let verdict = verify(&host, &tried("mlx5_2", None));
    assert_reason(&verdict, "RDC606", "ROCADE_GRANT_A grants it, no HCA here is called so");
}

#[test]
fn where_every_hca_opens_and_nothing_was_granted_one_that_works_is_enough() {
    let mut host = Recording::of("seed-4hca-bond").host();
    host.netdevs.retain(|netdev| matches!(netdev.name.as_str(), "lo" | "ens18np0"));
    host.pod = Some(Pod::default());
    judge(&mut host);
    let verdict = verify(&host, &Within::default());
    assert!(verdict.pass, "{}", verdict.reason);
    assert!(verdict.reason.contains("mlx5_0/1 with 10.8.10.4"), "{}", verdict.reason);
    let unused = &found(&verdict, "RDC601").unwrap().finding;
    assert_eq!(unused.severity, Severity::Warning);
    assert!(unused.seen.contains("granted by nobody"), "{unused}");
}

#[test]
fn where_every_hca_opens_and_none_has_an_address_the_resource_is_asked_for_as_well() {
    let mut host = Recording::of("seed-4hca-bond").host();
    host.netdevs.retain(|netdev| netdev.name == "lo");
    host.pod = Some(Pod::default());
    judge(&mut host);
    let verdict = verify(&host, &Within::default());
    assert_reason(&verdict, "RDC601", "granted by nobody");
    let cure = &found(&verdict, "RDC601").unwrap().finding.cure;
    assert!(cure.starts_with("ask for the resource of the HCA that is meant, and attach"), "{cure}");
}

/// A node keeps its number over a reload of the driver, in which the number goes to another HCA.
#[test]
fn a_node_that_is_another_hcas_now_is_told_where_the_grant_is_a_name() {
    let mut host = Recording::of("stale-grant-pod").host();
    let grants = host.pod.as_mut().unwrap().grants.as_mut().unwrap();
    let by_name = |port: u32| PodGrant {
        source: format!("ROCADE_GRANT_A:{port}"),
        hca: Some("mlx5_2".into()),
        ..PodGrant::default()
    };
    *grants = vec![by_name(1), by_name(2)];
    judge(&mut host);
    let verdict = verify(&host, &Within::default());
    assert_reason(&verdict, "RDC605", "231:194 is mlx5_3 (0000:72:00.0) now");
    assert!(verdict.reason.contains("the grant was mlx5_2 with uverbs3 (231:195)"), "{}", verdict.reason);
    host.hcas.retain(|hca| hca.name.as_str() != "mlx5_2");
    let gone = verify(&host, &Within::default());
    assert!(found(&gone, "RDC605").is_none(), "it may be gone, and the other open for another reason");
    assert!(found(&gone, "RDC606").is_some() && !gone.pass);
}

#[test]
fn small_shared_memory_is_told_and_weighs_more_beside_gpus() {
    let within = Within { shm_bytes: Some(64 * MIB), ..Within::default() };
    let verdict = verify(&good(), &within);
    let severity = found(&verdict, "RDC613").unwrap().finding.severity;
    let gpus = !good().accelerators.is_empty();
    assert_eq!(severity, if gpus { Severity::Warning } else { Severity::Note });
    let roomy = Within { shm_bytes: Some(1 << 30), ..Within::default() };
    assert!(found(&verify(&good(), &roomy), "RDC613").is_none());
}

#[test]
fn an_interface_with_less_than_the_ports_mtu_is_told() {
    let with = |mtu| {
        let path_mtus = vec![("mlx5_2".parse().unwrap(), PortNum(1), 4096)];
        let mut host = good();
        host.netdevs.iter_mut().filter(|n| n.name == "net1").for_each(|n| n.mtu = mtu);
        verify(&host, &Within { path_mtus, ..Within::default() })
    };
    let small = with(1500);
    let finding = &found(&small, "RDC614").unwrap().finding;
    assert!(finding.seen.contains("net1 has MTU 1500, the port's path MTU is 4096"), "{finding}");
    assert!(found(&with(9000), "RDC614").is_none());
}

#[test]
fn a_host_of_which_nothing_can_be_read_fails_and_says_what_could_not() {
    let verdict = verify(&Recording::small("").host(), &Within::default());
    assert_reason(&verdict, "RDC101", "/sys/class/infiniband cannot be listed");
    assert!(verdict.hcas.is_empty());
}

/// A Pod with two rails in one subnet, whose namespace has these settings for both.
fn two_rails(settings: &[(&str, i64)]) -> Host {
    let mut host = Recording::of("roce-8rail-misconfigured").host();
    let roce = host.hcas.iter().flat_map(|hca| &hca.ports).filter_map(|port| port.netdev.clone());
    let rails: Vec<String> = roce.take(2).collect();
    host.netdevs.retain(|netdev| rails.contains(&netdev.name));
    host.hcas
        .retain(|hca| hca.ports.iter().any(|port| port.netdev.as_ref().is_some_and(|n| rails.contains(n))));
    for hca in &mut host.hcas {
        let port = &mut hca.ports[0];
        let address = format!("10.77.0.{}", hca.uverbs.as_ref().unwrap().minor).parse().unwrap();
        port.gids.retain(|gid| gid.address.is_some_and(|address| address.is_ipv4()));
        port.gids.iter_mut().for_each(|gid| gid.address = Some(address));
        let own = host.netdevs.iter_mut().find(|netdev| Some(&netdev.name) == port.netdev.as_ref());
        own.unwrap().addresses = vec![(address, 24)];
    }
    host.rules.clear();
    host.sysctls.clear();
    for (setting, value) in settings {
        host.sysctls.insert(format!("net/ipv4/conf/all/{setting}"), *value);
    }
    host.initial_netns = Some(false);
    host.pod = Some(Pod::default());
    judge(&mut host);
    host
}

#[test]
fn rails_of_a_pod_in_one_subnet_need_rules_of_their_own_namespace() {
    let strict = verify(&two_rails(&[("rp_filter", 1), ("arp_ignore", 0)]), &Within::default());
    for code in ["RDC320", "RDC321"] {
        let finding = &found(&strict, code).unwrap().finding;
        assert!(finding.cure.contains("`sbr`") && finding.cure.contains("`tuning`"), "{finding}");
    }
    let mut tuned = two_rails(&[("rp_filter", 2), ("arp_ignore", 1), ("arp_announce", 2)]);
    let addresses = tuned.netdevs.iter().map(|netdev| netdev.addresses[0].0);
    let rule = |address| rocade_core::host::Rule {
        ipv6: false,
        priority: 100,
        source: Some((address, 32)),
        destination: None,
        input: None,
        output: None,
        table: 100,
    };
    tuned.rules = addresses.map(rule).collect();
    let tuned = verify(&tuned, &Within::default());
    assert!(found(&tuned, "RDC320").is_none() && found(&tuned, "RDC321").is_none());
    let mut of_host = two_rails(&[("rp_filter", 1)]);
    of_host.initial_netns = Some(true);
    let of_host = verify(&of_host, &Within::default());
    assert!(found(&of_host, "RDC320").is_none(), "the host's network is the host's matter");
}

#[test]
fn a_grant_without_any_device_in_sys_is_told_as_such() {
    let mut host = Host { hcas: Vec::new(), nodes: Vec::new(), orphan_uverbs: Vec::new(), ..good() };
    let grant =
        PodGrant { source: "ROCADE_GRANT_A".into(), hca: Some("mlx5_2".into()), ..PodGrant::default() };
    host.pod.as_mut().unwrap().grants = Some(vec![grant]);
    let verdict = verify(&host, &Within::default());
    assert_reason(&verdict, "RDC101", "ROCADE_GRANT_A says that an HCA was granted");
    assert!(!found(&verdict, "RDC101").unwrap().finding.cure.contains("resources.limits"));
    assert!(found(&verdict, "RDC606").is_none(), "no single HCA is missing where none is seen");
}

#[test]
fn a_network_on_a_rail_that_was_not_granted_fails_no_pod_whose_grant_works() {
    let nodes = (" char uverbs4 231:196 0666", " char uverbs0 231:192 0666");
    let recording = Recording::of("seed-pod-wrong-rail").with(nodes.0, nodes.1);
    let mut host = recording.with(r#""granted":["mlx5_4"]"#, r#""granted":["mlx5_0"]"#).host();
    let spare = Netdev {
        name: "ens20np0".into(),
        addresses: vec![("10.8.20.4".parse().unwrap(), 24)],
        ..Netdev::default()
    };
    host.netdevs.push(spare);
    judge(&mut host);
    let verdict = verify(&host, &Within::default());
    assert!(verdict.pass, "{}", verdict.reason);
    let finding = &found(&verdict, "RDC602").unwrap().finding;
    assert_eq!((finding.subject.as_str(), finding.severity), ("mlx5_4", Severity::Warning));
    host.initial_netns = Some(true);
    let on_host = verify(&host, &Within::default());
    assert!(on_host.pass && found(&on_host, "RDC602").is_none(), "the host's addresses are not the Pod's");
}
