//! What `kind: AgentConfig` takes and refuses: a row each; and that what is written is read back.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::{
    Cdi, CharDevices, ConfigFile, Degraded, Dialect, Health, HealthPolicy, Labels, Publish, Resource,
    Selectors, Sharing, Slots, parse_config,
};
use crate::host::{FunctionKind, LinkLayer, RoleKind, Transport};

/// All that the form has.
const WHOLE: &str = r#"apiVersion: rocade.dev/v1alpha1
kind: AgentConfig
resourcePrefix: rdma.example.org
rescanInterval: 2m
topologyHints: false
cdi: {enabled: true, runtime: containerd 2.0.1}
publish: {labels: nfd, nfdKeys: true, condition: true, taint: true, events: true}
health: {policy: report, downAfter: 500ms, upAfter: 0s, degraded: ignore}
resources:
- name: all
  prefix: rdma
  sharing: {mode: tokens, slots: auto, gidsPerPod: 6}
  selectors:
    hcas: ["mlx5_*"]
    netdevs: [ens18np0, "bond*"]
    pciAddresses: ["0000:4D:00.0", "0000:4e:*"]
    vendors: [0x15B3, 8086]
    deviceIDs: [1021, "101D", 1e21]
    drivers: [mlx5_core]
    linkLayers: [infiniband, ethernet]
    transports: [roce, infiniband]
    roles: [fabric]
    numaNodes: [0, 1]
    functions: [pf, vf, sf]
    minRateGbps: 199.5
  exclude:
  - hcas: [mlx5_bond_0]
  - {roles: [management], functions: [vf]}
  charDevices: [umad, issm]
  dscp: 26
  serviceLevel: 3
  health: {policy: withhold}
- name: one_each
  sharing: {mode: hca, share: 4}
  selectors: {functions: [vf]}
  trafficClass: 107
sections:
- nodes: ["gpu-*"]
  nodeLabels: {example.org/fabric: "ib-*"}
  health: {downAfter: 1s}
  topologyHints: true
  resources:
  - name: one_each
    sharing: {mode: hca}
    selectors: {linkLayers: [infiniband]}
  - name: more
    sharing: {mode: tokens, slots: 7}
    selectors: {netdevs: [ib0]}
"#;

fn file(text: &str) -> ConfigFile {
    let (file, findings) = parse_config("a.yaml", text, false).unwrap_or_else(|f| panic!("{text}: {f:#?}"));
    assert_eq!(findings, [], "{text}");
    file
}

fn everywhere(text: &str) -> Config {
    file(text).for_node(None, &BTreeMap::new())
}

fn refusals(text: &str) -> Vec<String> {
    match parse_config("a.yaml", text, false) {
        Ok((file, _)) => panic!("{text} was accepted: {file:?}"),
        Err(findings) => findings.iter().map(|f| format!("{} {f}", f.code)).collect(),
    }
}

/// A document with one resource of these lines.
fn with(resource: &str) -> String {
    format!(
        "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nresources:\n- {}\n",
        resource.replace('\n', "\n  ")
    )
}

#[test]
fn all_keys_are_read_and_ids_are_taken_in_any_case_and_with_0x() {
    let config = everywhere(WHOLE);
    assert_eq!((config.dialect, config.update_interval_s), (Dialect::AgentConfig, Some(120)));
    assert!(!config.topology_hints);
    assert_eq!(config.cdi, Cdi::On { runtime: Some("containerd 2.0.1".into()) });
    let publish = Publish { labels: Labels::Nfd, nfd_keys: true, condition: true, taint: true, events: true };
    assert_eq!(config.publish, publish);
    let [all, one_each] = &config.resources[..] else { panic!() };
    let texts = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let selectors = Selectors {
        hcas: texts(&["mlx5_*"]),
        if_names: texts(&["ens18np0", "bond*"]),
        pci_addresses: texts(&["0000:4d:00.0", "0000:4e:*"]),
        vendors: texts(&["15b3", "8086"]),
        device_ids: texts(&["1021", "101d", "1e21"]),
        drivers: texts(&["mlx5_core"]),
        link_types: Vec::new(),
        link_layers: vec![LinkLayer::InfiniBand, LinkLayer::Ethernet],
        transports: vec![Transport::Roce, Transport::Infiniband],
        roles: vec![RoleKind::Fabric],
        numa_nodes: vec![0, 1],
        functions: vec![FunctionKind::Pf, FunctionKind::Vf, FunctionKind::Sf],
        min_rate_gbps: Some(199.5),
    };
    assert_eq!(all.selectors, selectors);
    assert_eq!(all.exclude[0].hcas, ["mlx5_bond_0"]);
    assert_eq!(
        (&all.exclude[1].roles, &all.exclude[1].functions),
        (&vec![RoleKind::Management], &vec![FunctionKind::Vf])
    );
    assert_eq!(
        (all.name.to_string().as_str(), all.traffic_class, all.service_level),
        ("rdma/all", Some(104), Some(3))
    );
    assert_eq!(all.sharing, Sharing::Tokens(Slots::Auto { gids_per_pod: 6 }));
    assert_eq!(all.char_devices, CharDevices { umad: true, issm: true });
    let health = Health {
        policy: HealthPolicy::Withhold,
        down_after: Duration::from_millis(500),
        up_after: Duration::ZERO,
        degraded: Degraded::Ignore,
    };
    assert_eq!(all.health, health);
    assert_eq!(
        (one_each.name.to_string().as_str(), one_each.traffic_class),
        ("rdma.example.org/one_each", Some(107))
    );
    assert_eq!(one_each.sharing, Sharing::Hca { share: 4 });
    assert_eq!(one_each.char_devices, CharDevices::default());
    assert_eq!(one_each.health, Health { policy: HealthPolicy::Report, ..health });
}

#[test]
fn what_is_not_said_is_as_documented() {
    let config =
        everywhere(&with("name: a\nsharing: {mode: tokens, slots: auto}\nselectors: {netdevs: [e]}"));
    assert_eq!((config.update_interval_s, config.topology_hints), (None, true));
    assert_eq!((&config.cdi, &config.publish), (&Cdi::Off, &Publish::default()));
    let resource = &config.resources[0];
    assert_eq!(resource.name.to_string(), "rdma/a");
    assert_eq!(resource.sharing, Sharing::Tokens(Slots::Auto { gids_per_pod: 4 }));
    assert_eq!((resource.health, resource.char_devices), (Health::WITHHOLD, CharDevices::default()));
    let config = everywhere(&with("name: a\nsharing: {mode: hca}\nselectors: {netdevs: [e]}"));
    assert_eq!(config.resources[0].sharing, Sharing::Hca { share: 1 });
}

#[test]
fn a_section_counts_on_the_nodes_that_it_names_and_labels_alone() {
    let file = file(WHOLE);
    assert!(file.needs_node_labels());
    let labels = BTreeMap::from([("example.org/fabric".to_owned(), "ib-ndr".to_owned())]);
    let other = BTreeMap::from([("example.org/fabric".to_owned(), "roce".to_owned())]);
    let names = |config: &Config| config.resources.iter().map(|r| r.name.to_string()).collect::<Vec<_>>();
    for (name, labels) in [(Some("gpu-1"), &other), (Some("cpu-1"), &labels), (None, &labels)] {
        assert_eq!(file.for_node(name, labels), everywhere(WHOLE), "{name:?} {labels:?}");
    }
    let config = file.for_node(Some("gpu-1"), &labels);
    assert_eq!(names(&config), ["rdma/all", "rdma.example.org/one_each", "rdma.example.org/more"]);
    assert!(config.topology_hints);
    let [all, one_each, more] = &config.resources[..] else { panic!() };
    assert_eq!((one_each.sharing, one_each.traffic_class), (Sharing::Hca { share: 1 }, None));
    // Key by key: the section's time, the document's policy, and the resource's own before both.
    for (resource, policy) in
        [(all, HealthPolicy::Withhold), (one_each, HealthPolicy::Report), (more, HealthPolicy::Report)]
    {
        assert_eq!((resource.health.policy, resource.health.down_after), (policy, Duration::from_secs(1)));
        assert_eq!((resource.health.up_after, resource.health.degraded), (Duration::ZERO, Degraded::Ignore));
    }
}

#[test]
fn a_node_without_a_resource_is_no_mistake_where_others_have_one() {
    let text = "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nsections:\n- nodes: [a]\n  resources:\n  - name: a\n    \
                sharing: {mode: hca}\n    selectors: {netdevs: [e]}\n";
    assert_eq!(everywhere(text).resources, []);
    assert_eq!(file(text).for_node(Some("a"), &BTreeMap::new()).resources.len(), 1);
    assert!(!file(text).needs_node_labels());
}

#[test]
fn a_mistake_is_told_with_file_line_key_and_the_right_form() {
    for (right, wrong, said) in [
        ("name: all", "nmae: all", "RDC702 a.yaml:10 resources[0].nmae: an unknown key … did you mean name?"),
        ("name: all", "resourceName: all", "RDC702 a.yaml:10 resources[0].resourceName … did you mean name?"),
        (
            "netdevs: [ens18np0",
            "ifNames: [ens18np0",
            "RDC702 a.yaml:15 resources[0].selectors.ifNames … netdevs?",
        ),
        (
            "name: all",
            "name: a b",
            "RDC704 a.yaml:10 resources[0].name: Kubernetes refuses `a b`, wanted a resource name",
        ),
        ("name: all", "name: ", "RDC703 a.yaml:10 resources[0].name: nothing, wanted a text"),
        ("prefix: rdma\n", "prefix: a/b\n", "RDC704 a.yaml:11 resources[0].prefix: Kubernetes refuses `a/b`"),
        (
            "Prefix: rdma.example.org",
            "Prefix: kubernetes.io",
            "RDC704 a.yaml:3 resourcePrefix: Kubernetes refuses",
        ),
        (
            "slots: auto, gidsPerPod: 6",
            "slots: 0",
            "RDC708 a.yaml:12 resources[0].sharing: slots: 0 … 1 to 200000",
        ),
        (
            "slots: auto, gidsPerPod: 6",
            "slots: 200001",
            "RDC707 a.yaml:12 resources[0].sharing: slots: 200001",
        ),
        ("slots: auto, gidsPerPod: 6", "slots: -1", "RDC707 a.yaml:12 resources[0].sharing: slots: -1"),
        (
            "slots: auto, gidsPerPod: 6",
            "slots: many",
            "RDC703 a.yaml:12 resources[0].sharing.slots: `many`, wanted a whole number",
        ),
        (
            ", slots: auto, gidsPerPod: 6",
            "",
            "RDC708 a.yaml:12 resources[0].sharing: mode tokens without slots",
        ),
        ("slots: auto", "slots: 3", "RDC716 a.yaml:12 resources[0].sharing: gidsPerPod without slots: auto"),
        (
            "gidsPerPod: 6",
            "gidsPerPod: 0",
            "RDC707 a.yaml:12 resources[0].sharing: gidsPerPod: 0, wanted a whole number",
        ),
        (
            "mode: tokens",
            "mode: token",
            "RDC703 a.yaml:12 resources[0].sharing.mode: `token` … did you mean `tokens`?",
        ),
        ("mode: tokens", "mode: hca", "RDC716 a.yaml:12 resources[0].sharing: slots beside mode hca"),
        (
            "share: 4",
            "share: 0",
            "RDC707 a.yaml:34 resources[1].sharing: share: 0, wanted a whole number from 1",
        ),
        (
            "hca, share: 4",
            "tokens, slots: 3, share: 4",
            "RDC716 a.yaml:34 resources[1].sharing: share beside mode tokens",
        ),
        (
            "hcas: [\"mlx5_*\"]",
            "hcas: [\"mlx5_0:1\"]",
            "RDC714 a.yaml:14 resources[0].selectors.hcas[0] … without its port",
        ),
        ("hcas: [\"mlx5_*\"]", "hcas: []", "RDC706 a.yaml:14 resources[0].selectors.hcas: an empty list"),
        (
            "hcas: [\"mlx5_*\"]",
            "hcas: mlx5_0",
            "RDC703 a.yaml:14 resources[0].selectors.hcas: `mlx5_0`, wanted a list",
        ),
        ("[ens18np0,", "['',", "RDC714 a.yaml:15 resources[0].selectors.netdevs[0]: a blank entry"),
        ("[ens18np0,", "['ens1?',", "RDC714 a.yaml:15 resources[0].selectors.netdevs[0] … only `*`"),
        ("[ens18np0,", "[0000:aa:00.2,", "RDC714 a.yaml:15 resources[0].selectors.netdevs[0] … pciAddresses"),
        (
            "\"0000:4D:00.0\"",
            "\"4d:00.0\"",
            "RDC714 a.yaml:16 resources[0].selectors.pciAddresses[0] … 0000:4d:00.0",
        ),
        (
            "0x15B3",
            "Mellanox",
            "RDC714 a.yaml:17 resources[0].selectors.vendors[0]: `Mellanox` … that is 15b3",
        ),
        ("0x15B3", "0x115b3", "RDC714 a.yaml:17 resources[0].selectors.vendors[0]: `0x115b3`"),
        (
            "\"101D\"",
            "\"15b3:101d\"",
            "RDC714 a.yaml:18 resources[0].selectors.deviceIDs[1] … the device 101d",
        ),
        (
            "\"101D\"",
            "\"0000:b5:00.0\"",
            "RDC714 a.yaml:18 resources[0].selectors.deviceIDs[1] … pciAddresses",
        ),
        ("\"101D\"", "b5", "RDC714 a.yaml:18 resources[0].selectors.deviceIDs[1]: `b5`"),
        (
            "[mlx5_core]",
            "[irdma]",
            "RDC714 a.yaml:19 resources[0].selectors.drivers[0]: `irdma` … ice, or i40e",
        ),
        (
            "[mlx5_core]",
            "[mlx5_ib]",
            "RDC714 a.yaml:19 resources[0].selectors.drivers[0]: `mlx5_ib` … mlx5_core",
        ),
        (
            "ethernet]",
            "ether]",
            "RDC703 a.yaml:20 resources[0].selectors.linkLayers[1]: `ether` … did you mean `ethernet`?",
        ),
        (
            "[roce,",
            "[RoCE,",
            "RDC703 a.yaml:21 resources[0].selectors.transports[0]: `RoCE` … did you mean `roce`?",
        ),
        (
            "roles: [fabric]",
            "roles: [compute]",
            "RDC703 a.yaml:22 resources[0].selectors.roles[0] … fabric, storage",
        ),
        (
            "[0, 1]",
            "[0, -1]",
            "RDC707 a.yaml:23 resources[0].selectors.numaNodes[1]: -1, wanted a whole number from 0",
        ),
        ("199.5", "0", "RDC707 a.yaml:25 resources[0].selectors.minRateGbps: 0, wanted a rate in Gbit/s"),
        ("199.5", "fast", "RDC703 a.yaml:25 resources[0].selectors.minRateGbps: `fast`, wanted a number"),
        ("- hcas: [mlx5_bond_0]", "- {}", "RDC706 a.yaml:27 resources[0].exclude[0]: no selector"),
        (
            "[umad, issm]",
            "[uverbs]",
            "RDC703 a.yaml:29 resources[0].charDevices[0]: `uverbs`, wanted one of umad, issm",
        ),
        (
            "dscp: 26",
            "dscp: 64",
            "RDC707 a.yaml:30 resources[0].dscp: 64, wanted a whole number from 0 to 63",
        ),
        (
            "dscp: 26",
            "dscp: 26\n  trafficClass: 104",
            "RDC716 a.yaml:30 resources[0].dscp: both dscp and trafficClass",
        ),
        ("serviceLevel: 3", "serviceLevel: 16", "RDC707 a.yaml:31 resources[0].serviceLevel: 16, wanted"),
        ("trafficClass: 107", "trafficClass: 256", "RDC707 a.yaml:36 resources[1].trafficClass: 256, wanted"),
        (
            "policy: withhold",
            "policy: off",
            "RDC703 a.yaml:32 resources[0].health.policy: `off`, wanted one of report, withhold",
        ),
        (
            "downAfter: 500ms",
            "downAfter: 500",
            "RDC703 a.yaml:8 health.downAfter: `500`, wanted a whole number with its unit",
        ),
        (
            "degraded: ignore",
            "degraded: true",
            "RDC703 a.yaml:8 health.degraded: `true`, wanted one of withhold, degrade",
        ),
        ("labels: nfd", "labels: off", "RDC703 a.yaml:7 publish.labels: `off`, wanted one of none, nfd, api"),
        ("nfdKeys: true", "nfdKeys: maybe", "RDC703 a.yaml:7 publish.nfdKeys: `maybe`, wanted true or false"),
        ("runtime: containerd 2.0.1", "runtime: ''", "RDC714 a.yaml:6 cdi.runtime: a blank entry"),
        (
            "rescanInterval: 2m",
            "rescanInterval: 1500ms",
            "RDC707 a.yaml:4 rescanInterval: 1500 ms, wanted whole seconds",
        ),
        (
            "name: one_each\n  sharing: {mode: hca, share",
            "name: all\n  prefix: rdma\n  sharing: {mode: hca, share",
            "RDC705 a.yaml:33 resources[1].name: a second resource `rdma/all`",
        ),
        (
            "name: one_each\n  sharing: {mode: hca, share",
            "name: ALL\n  prefix: rdma\n  sharing: {mode: hca, share",
            "RDC712 a.yaml:33 resources[1].name … share ROCADE_GRANT_RDMA_ALL",
        ),
        (
            "name: more",
            "name: ONE-each",
            "RDC712 a.yaml:46 sections[0].resources[1].name: `rdma.example.org/ONE-each` and",
        ),
        (
            "- nodes: [\"gpu-*\"]\n  nodeLabels: {example.org/fabric: \"ib-*\"}\n  health",
            "- health",
            "RDC706 a.yaml:38 sections[0]: neither nodes nor nodeLabels",
        ),
        (
            "[\"gpu-*\"]",
            "[\"GPU-*\"]",
            "RDC714 a.yaml:38 sections[0].nodes[0]: `GPU-*`, wanted the name of a node",
        ),
        (
            "example.org/fabric: ",
            "\"my fabric\": ",
            "RDC714 a.yaml:39 sections[0].nodeLabels: `my fabric: ib-*`, wanted a label",
        ),
        (
            "linkLayers: [infiniband, ethernet]",
            "linkLayers: [infiniband]",
            "RDC716 a.yaml:12 resources[0].sharing: slots: auto on InfiniBand, wanted a number",
        ),
        ("kind: AgentConfig", "kind: Policy", "RDC713 a.yaml:2 kind: `Policy`, wanted AgentConfig"),
        ("v1alpha1", "v2", "RDC713 a.yaml:1 apiVersion: `rocade.dev/v2`, wanted rocade.dev/v1alpha1"),
        ("kind: AgentConfig\n", "", "RDC713 a.yaml:1 kind: no kind"),
        ("rescanInterval: 2m", "kind: AgentConfig", "RDC709 a.yaml:4 kind: `kind` for the second time"),
        (
            "  prefix: rdma\n",
            "  name: all\n",
            "RDC709 a.yaml:11 resources[0].name: `name` for the second time",
        ),
        ("sections:\n", "---\nsections:\n", "RDC701 a.yaml:38: a second document"),
        ("sections:", "sections: [", "RDC701 a.yaml:38: \"-\" is only valid inside a block, wanted YAML"),
    ] {
        assert_eq!(WHOLE.matches(right).count().min(1), 1, "{right} is in the document");
        let refusals = refusals(&WHOLE.replacen(right, wrong, 1));
        let mut parts = said.split(" … ");
        let head = parts.next().unwrap_or_default().replacen(' ', &format!(" error[{}]: ", &said[..6]), 1);
        let fits = |text: &&String| text.starts_with(&head) && parts.clone().all(|part| text.contains(part));
        assert!(refusals.iter().any(|text| fits(&text)), "{wrong}: {refusals:#?}, wanted {said}");
    }
}

#[test]
fn every_mistake_of_values_is_told_at_once_in_the_order_of_the_file() {
    let text =
        WHOLE.replace("0x15B3", "Intel").replace("name: more", "name: _").replace("dscp: 26", "dscp: 99");
    let subjects: Vec<String> =
        refusals(&text).iter().filter_map(|text| text.split(": ").nth(1).map(str::to_owned)).collect();
    let wanted = [
        "a.yaml:17 resources[0].selectors.vendors[0]",
        "a.yaml:30 resources[0].dscp",
        "a.yaml:46 sections[0].resources[1].name",
    ];
    assert_eq!(subjects, wanted);
}

#[test]
fn a_newer_version_is_told_before_its_unknown_keys() {
    let refusals = refusals("apiVersion: rocade.dev/v2\nkind: AgentConfig\nnew: 1\n");
    assert!(refusals.len() == 1 && refusals[0].starts_with("RDC713"), "{refusals:?}");
}

#[test]
fn what_is_no_document_is_refused_with_a_line() {
    for text in [
        "",
        "5",
        "- a\n",
        "a: [",
        "\t",
        "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\n",
        "\u{0}",
        "&a *a",
    ] {
        let refusals = refusals(text);
        assert!(refusals.iter().all(|text| text.contains("a.yaml:")), "{text:?}: {refusals:?}");
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z]([a-z0-9_]{0,7}[a-z0-9])?"
}

fn any_health() -> impl Strategy<Value = Health> {
    let policy = prop_oneof![Just(HealthPolicy::Report), Just(HealthPolicy::Withhold)];
    let degraded = prop_oneof![Just(Degraded::Withhold), Just(Degraded::Degrade), Just(Degraded::Ignore)];
    let time =
        || prop_oneof![(0..100_000_u64).prop_map(Duration::from_millis), Just(Duration::from_secs(30))];
    (policy, time(), time(), degraded).prop_map(|(policy, down_after, up_after, degraded)| Health {
        policy,
        down_after,
        up_after,
        degraded,
    })
}

fn any_selectors() -> impl Strategy<Value = Selectors> {
    let ids = || prop::collection::vec("[0-9a-f]{4}", 0..3);
    let words = |word: &'static str| prop::collection::vec(word, 0..3);
    let layers = prop::sample::subsequence(vec![LinkLayer::InfiniBand, LinkLayer::Ethernet], 0..=2);
    let roles = prop::sample::subsequence(vec![RoleKind::Fabric, RoleKind::Storage, RoleKind::Bridge], 0..=3);
    let functions =
        prop::sample::subsequence(vec![FunctionKind::Pf, FunctionKind::Vf, FunctionKind::Sf], 0..=3);
    let transports = prop::sample::subsequence(vec![Transport::Roce, Transport::Opa], 0..=2);
    let rate = prop::option::of((1..4000_u32).prop_map(|n| f64::from(n) / 4.0));
    let lists = (
        ids(),
        ids(),
        words("[a-z*0-9]{1,15}"),
        words("[a-z_*0-9]{1,20}"),
        words("0000:[0-9a-f]{2}:00\\.[0-7]"),
    );
    (lists, layers, roles, functions, transports, prop::collection::vec(0..8_u32, 0..3), rate)
        .prop_map(
            |(
                (vendors, device_ids, if_names, hcas, pci_addresses),
                link_layers,
                roles,
                functions,
                transports,
                numa_nodes,
                min_rate_gbps,
            )| Selectors {
                vendors,
                device_ids,
                if_names,
                hcas,
                pci_addresses,
                link_layers,
                roles,
                functions,
                transports,
                numa_nodes,
                min_rate_gbps,
                drivers: Vec::new(),
                link_types: Vec::new(),
            },
        )
        .prop_map(|s| if s.is_empty() { Selectors { hcas: vec!["*".into()], ..s } } else { s })
}

fn any_resource() -> impl Strategy<Value = Resource> {
    let sharing = prop_oneof![
        (1..=200_000_u32).prop_map(|n| Sharing::Tokens(Slots::Fixed(n))),
        (1..=4096_u32).prop_map(|n| Sharing::Tokens(Slots::Auto { gids_per_pod: n })),
        (1..=200_000_u32).prop_map(|share| Sharing::Hca { share }),
    ];
    let exclude = prop::collection::vec(any_selectors(), 0..3);
    let prefix = prop_oneof![Just("rdma".to_owned()), "[a-z]{1,5}\\.[a-z]{1,5}"];
    let service = (prop::option::of(any::<u8>()), prop::option::of(0..16_u8), any::<bool>(), any::<bool>());
    ((prefix, name()), sharing, any_selectors(), exclude, service, any_health()).prop_map(
        |(
            (prefix, name),
            sharing,
            selectors,
            exclude,
            (traffic_class, service_level, umad, issm),
            health,
        )| Resource {
            name: crate::names::ResourceName::new(&prefix, &name).unwrap(),
            sharing,
            selectors,
            exclude,
            char_devices: CharDevices { umad, issm },
            traffic_class,
            service_level,
            health,
        },
    )
}

/// `auto` is refused where only InfiniBand is meant.
fn with_a_number(resource: Resource) -> Resource {
    let s = &resource.selectors;
    let infiniband = s.link_layers == [LinkLayer::InfiniBand] || s.transports == [Transport::Opa];
    match resource.sharing {
        Sharing::Tokens(Slots::Auto { .. }) if infiniband => {
            Resource { sharing: Sharing::Tokens(Slots::Fixed(1)), ..resource }
        }
        _ => resource,
    }
}

fn any_resources() -> impl Strategy<Value = Vec<Resource>> {
    prop::collection::vec(any_resource().prop_map(with_a_number), 1..4).prop_map(|mut resources| {
        resources.sort_by_key(|r| r.name.grant_variable());
        resources.dedup_by_key(|r| r.name.grant_variable());
        resources
    })
}

fn any_config() -> impl Strategy<Value = Config> {
    let cdi = prop_oneof![
        Just(Cdi::Off),
        Just(Cdi::On { runtime: None }),
        "[a-z]{1,9}( [0-9.]{1,5}0)?".prop_map(|text| Cdi::On { runtime: Some(text) })
    ];
    let labels = prop_oneof![Just(Labels::Off), Just(Labels::Nfd), Just(Labels::Api)];
    let publish = (labels, any::<[bool; 4]>()).prop_map(|(labels, [nfd_keys, condition, taint, events])| {
        Publish { labels, nfd_keys, condition, taint, events }
    });
    let interval = prop::option::of(1..100_000_u64);
    (interval, any::<bool>(), cdi, publish, any_resources()).prop_map(
        |(update_interval_s, topology_hints, cdi, publish, resources)| Config {
            dialect: Dialect::AgentConfig,
            update_interval_s,
            resources,
            topology_hints,
            cdi,
            publish,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(config in any_config()) {
        let text = render_agent_config(&config, Vec::new());
        prop_assert_eq!(everywhere(&text), config, "{}", text);
    }

    #[test]
    fn what_is_written_for_some_nodes_is_read_back_there(base in any_config(), others in any_resources()) {
        let same = |a: &Resource, b: &Resource| a.name.grant_variable() == b.name.grant_variable();
        prop_assume!(!others.iter().any(|a| base.resources.iter().any(|b| same(a, b))));
        let text = render_agent_config(&base, vec![Section::new(vec!["gpu-*".into()], &others)]);
        let file = file(&text);
        prop_assert_eq!(file.for_node(Some("cpu-1"), &BTreeMap::new()), base.clone(), "{}", text);
        let resources = [base.resources.clone(), others].concat();
        prop_assert_eq!(file.for_node(Some("gpu-1"), &BTreeMap::new()), Config { resources, ..base }, "{}", text);
    }

}

proptest! {
    #[test]
    fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_document("f", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_damage_to_a_document_makes_it_panic_or_end_without_a_reason(at in 0..WHOLE.len(), len in 0..40_usize, new in "[-\\[\\]{}:,*&!a-z0-9 \n'\"]{0,6}") {
        let end = (at + len).min(WHOLE.len());
        let text = format!("{}{new}{}", &WHOLE[..at], &WHOLE[end..]);
        if let Err(findings) = parse_document("f", &text) {
            prop_assert!(findings.iter().all(|f| f.severity == Severity::Error && f.subject.starts_with("f:")), "{:?}", findings);
            prop_assert!(!findings.is_empty());
        }
    }
}
