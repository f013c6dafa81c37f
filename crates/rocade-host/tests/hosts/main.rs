//! Every recorded host in fixtures/hosts against what a right inventory says of it (KIND.expect.json), key by key and
//! by value. A new machine is two files there and nothing here.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use rocade_core::{Hca, Host, LinkLayer, NetnsMode, Parent, Port, Transport, Usable, judge};
use rocade_host::{Archive, Root, Scope, read_host, read_parts, record};
use serde_json::{Value, json};

mod recorded;
mod terms;
use recorded::{changed_host, recorded_hosts};
use terms::{
    addresses, as_wanted_order, char_device, limit, means, node_number, number_of, ofed_from_modules,
    pod_view, v2_by_address,
};

/// Fewer would mean that files were lost.
const FEWEST: usize = 34;

/// What stands for a key of an expectation.
enum Ours<T: ?Sized> {
    /// Our answer in its terms, compared by value.
    Answer(fn(&T, &Value) -> Value),
    /// It lies in no file of a host.
    InNoFile,
    /// Compared in tests/findings.
    InFindings,
}
use Ours::{Answer, InFindings, InNoFile};

const HOST_KEYS: &[(&str, Ours<Host>)] = &[
    ("host", Answer(|_, want| want.clone())),
    ("rdma_core", Answer(|host, _| json!(host.rdma_core))),
    (
        "netns_mode",
        Answer(|host, _| match host.netns_mode {
            Some(NetnsMode::Shared) => json!("shared"),
            Some(NetnsMode::Exclusive) => json!("exclusive"),
            None => Value::Null,
        }),
    ),
    ("kernel", Answer(|host, _| json!(host.kernel))),
    // Compared one by one, below.
    ("hcas", Answer(|_, want| want.clone())),
    ("hca_count", Answer(|host, _| json!(host.hcas.len()))),
    ("port_count", Answer(|host, _| json!(host.hcas.iter().map(|hca| hca.ports.len()).sum::<usize>()))),
    ("selectable", Answer(|host, want| as_wanted_order(selectable(host), want))),
    ("vanished", Answer(|host, _| json!(vanished(host)))),
    ("addresses", Answer(|host, want| addresses(host, want, true))),
    ("foreign_addresses", Answer(|host, want| addresses(host, want, false))),
    ("ofed", InNoFile),
    ("ofed_from_modules", Answer(|host, _| json!(ofed_from_modules(host)))),
    ("memlock", Answer(|host, _| json!(host.memlock.map(|m| [limit(m.soft), limit(m.hard)])))),
    ("nvidia", Answer(|host, _| json!(host.gpu_direct.nvidia))),
    ("nvidia_peermem", Answer(|host, _| json!(host.gpu_direct.nvidia_peermem))),
    ("representors", Answer(|host, want| as_wanted_order(host.representors.clone(), want))),
    (
        "orphan_uverbs",
        Answer(|host, want| {
            as_wanted_order(host.orphan_uverbs.iter().map(|uverbs| uverbs.node.clone()).collect(), want)
        }),
    ),
    ("default_route_dev", Answer(|host, _| json!(host.default_route_netdev))),
    ("findings", InFindings),
    ("findings_complete", InFindings),
    ("pod", Answer(|host, _| pod_view(host))),
];

const HCA_KEYS: &[(&str, Ours<Hca>)] = &[
    ("name", Answer(|hca, _| json!(hca.name))),
    ("pci", Answer(|hca, _| json!(hca.pci_address))),
    (
        "parent",
        Answer(|hca, _| match hca.parent {
            Parent::Pci => json!("pci"),
            Parent::Auxiliary => json!("aux"),
            Parent::None => json!("virtual"),
            Parent::Virtio | Parent::Vmbus | Parent::Other => json!("other"),
        }),
    ),
    ("pci_id", Answer(|hca, _| json!(hca.pci_id))),
    ("driver", Answer(|hca, _| json!(hca.driver))),
    (
        "numa",
        // -1 and null both mean that it is not known.
        Answer(|hca, want| match hca.numa_node {
            None if *want == json!(-1) => json!(-1),
            node => json!(node),
        }),
    ),
    ("is_vf", Answer(|hca, _| json!(hca.physical_function.is_some()))),
    ("pf", Answer(|hca, _| json!(hca.physical_function))),
    ("hca_type", Answer(|hca, _| json!(hca.hca_type))),
    ("board_id", Answer(|hca, _| json!(hca.board_id))),
    ("fw_ver", Answer(|hca, _| json!(hca.fw_version))),
    ("node_guid", Answer(|hca, _| json!(hca.node_guid))),
    ("node_type", Answer(|hca, _| json!(hca.node_type))),
    ("uverbs", Answer(|hca, _| hca.uverbs.as_ref().map_or(Value::Null, char_device))),
    (
        "pcie",
        Answer(|hca, _| match &hca.pcie {
            Some(link) => json!([link.speed, link.width, link.max_speed, link.max_width]),
            None => Value::Null,
        }),
    ),
    // Compared one by one, below.
    ("ports", Answer(|_, want| want.clone())),
    ("planes", Answer(|hca, _| json!(hca.planes))),
];

const PORT_KEYS: &[(&str, Ours<Port>)] = &[
    ("port", Answer(|port, _| json!(port.port))),
    (
        "link_layer",
        Answer(|port, _| match port.link_layer {
            LinkLayer::InfiniBand => json!("InfiniBand"),
            LinkLayer::Ethernet => json!("Ethernet"),
            LinkLayer::Unknown => json!("Unknown"),
        }),
    ),
    (
        "transport",
        Answer(|port, _| match port.transport {
            Transport::Infiniband => json!("ib"),
            other => json!(other),
        }),
    ),
    ("state", Answer(|port, _| number_of(port.state.as_deref(), terms::STATES))),
    ("phys_state", Answer(|port, _| number_of(port.phys_state.as_deref(), terms::PHYS_STATES))),
    ("rate_gbps", Answer(|port, _| json!(port.rate_gbps))),
    ("width", Answer(|port, _| json!(port.width))),
    ("speed", Answer(|port, _| json!(port.speed))),
    ("lid", Answer(|port, _| json!(port.lid))),
    ("sm_lid", Answer(|port, _| json!(port.sm_lid))),
    ("netdev", Answer(|port, _| json!(port.netdev))),
    ("nl_netdev", Answer(|port, _| json!(port.netlink_netdev))),
    ("netdev_mtu", Answer(|port, _| json!(port.netdev_mtu))),
    ("umad", Answer(|port, _| node_number(port.umad.as_ref(), "umad"))),
    ("issm", Answer(|port, _| node_number(port.issm.as_ref(), "issm"))),
    ("gid_table", Answer(|port, _| json!(port.gid_table_len))),
    ("gids_set", Answer(|port, _| json!(port.gids_set))),
    ("roce_v2", Answer(|port, _| json!(v2_by_address(port)))),
    ("selectable", Answer(|port, _| json!(port.usable))),
    ("why", Answer(|port, want| if means(&port.reason, want) { want.clone() } else { json!(port.reason) })),
];

#[test]
fn every_recorded_host_is_read_as_expected() {
    let hosts = recorded_hosts();
    assert!(hosts.len() >= FEWEST, "only {} recorded hosts, there were {FEWEST}", hosts.len());
    let mut wrong = Vec::new();
    for file in &hosts {
        let kind = file.file_stem().unwrap().to_string_lossy().into_owned();
        let want: Value =
            serde_json::from_slice(&fs::read(file.with_extension("expect.json")).unwrap()).unwrap();
        assert_eq!(want["host"], kind.as_str());
        compare_host(&kind, &read(&Root::open(file).unwrap()), &want, &mut wrong);
    }
    assert!(wrong.is_empty(), "{} facts differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_recording_of_a_recording_is_the_same() {
    for file in recorded_hosts() {
        let text = fs::read(&file).unwrap();
        let again = record(&Root::recorded(&file, &text).unwrap()).print();
        assert!(again.as_bytes() == text, "{} changes when recorded again", file.display());
    }
}

/// Inside a Pod nothing is granted, and an interface may only be known by its GIDs.
#[test]
fn what_grants_need_is_read_alike_without_gids_and_counters() {
    for file in recorded_hosts() {
        let root = Root::open(&file).unwrap();
        let (all, some) = (read_host(&root), read_parts(&root, Scope::GRANTS));
        if all.initial_netns == Some(false) {
            continue;
        }
        let needs = |hca: &Hca| {
            let port = |p: &Port| {
                let table = (p.link_layer.clone(), p.gid_table_len);
                (table, p.state.clone(), p.netdev.clone(), p.umad.clone())
            };
            let ports: Vec<_> = hca.ports.iter().map(port).collect();
            (hca.name.clone(), hca.pci_address, hca.driver.clone(), hca.uverbs.clone(), ports)
        };
        for (all, some) in all.hcas.iter().zip(&some.hcas) {
            assert_eq!(needs(all), needs(some), "{}", file.display());
            assert!(some.counters.is_empty() && some.ports.iter().all(|port| port.gids.is_empty()));
        }
        assert_eq!(all.hcas.len(), some.hcas.len());
    }
}

/// A driver may have to ask its firmware for each, so who needs no counters does not ask.
#[test]
fn driver_statistics_are_read_with_counters_alone_and_recorded_again() {
    let text = fs::read_to_string(recorded::recorded_host("seed-4hca-bond")).unwrap();
    let section = "ethtool statistics\n {\"netdev\":\"ens18np0\",\"values\":{\"rx_discards_phy\":7}}\n";
    let body = text.rsplit_once("end ").unwrap().0.to_owned() + section;
    let text = format!("{body}end {}\n", body.lines().count());
    let root = Root::recorded("with statistics", text.as_bytes()).unwrap();
    let count = |scope| read_parts(&root, scope).netdevs.iter().filter(|n| n.statistics.is_some()).count();
    let tables = Scope { counters: false, ..Scope::ALL };
    assert_eq!([Scope::ALL, tables, Scope::GRANTS].map(count), [1, 0, 0]);
    assert!(!read_parts(&root, Scope::GRANTS).unknown.keys().any(|field| field.contains("statistics")));
    assert_eq!(record(&root).print(), text);
}

#[test]
fn roles_are_the_same_by_what_they_are_told_from_alone() {
    for file in recorded_hosts() {
        let root = Root::open(&file).unwrap();
        let roles = |scope| {
            let mut host = read_parts(&root, scope);
            rocade_core::judge(&mut host);
            host.hcas.into_iter().map(|hca| (hca.name, hca.role)).collect::<Vec<_>>()
        };
        assert_eq!(roles(Scope { roles: true, ..Scope::GRANTS }), roles(Scope::ALL), "{}", file.display());
    }
}

#[test]
fn the_recording_of_this_machine_gives_the_same_inventory() {
    let live = Root::live("/").unwrap();
    let recorded = Archive::parse(record(&live).print().as_bytes()).unwrap();
    assert_eq!(read_host(&Root::from(recorded)), read_host(&live));
}

#[test]
fn the_example_of_the_format_is_of_the_format() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/snapshot-format.md");
    let example = fs::read_to_string(page).unwrap().split("```").nth(1).unwrap().trim_start().to_owned();
    assert_eq!(Archive::parse(example.as_bytes()).unwrap().print(), example);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A changed recording is refused, or read and judged.
    #[test]
    fn no_change_to_a_recording_makes_reading_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]{0,12}"), 1..6),
        kind in prop::sample::select(vec!["hot-unplug-race", "irdma-e810", "mlx4-dual-ib-eth", "erdma-alibaba"]),
    ) {
        if let Ok(root) = Root::recorded(kind, changed_host(kind, &changes).as_bytes()) {
            let host = read(&root);
            prop_assert!(host.hcas.len() <= 4);
        }
    }
}

fn read(root: &Root) -> Host {
    let mut host = read_host(root);
    judge(&mut host);
    host
}

fn compare_host(kind: &str, host: &Host, want: &Value, wrong: &mut Vec<String>) {
    compare(kind, HOST_KEYS, host, want, wrong);
    for want in want["hcas"].as_array().unwrap() {
        let name = want["name"].as_str().unwrap();
        let Some(hca) = host.hca(name) else {
            wrong.push(format!("{kind} {name}: not found"));
            continue;
        };
        compare(&format!("{kind} {name}"), HCA_KEYS, hca, want, wrong);
        for want in want["ports"].as_array().unwrap() {
            let number = &want["port"];
            let subject = format!("{kind} {name}/{number}");
            match hca.ports.iter().find(|port| json!(port.port) == *number) {
                Some(port) => compare(&subject, PORT_KEYS, port, want, wrong),
                None => wrong.push(format!("{subject}: not found")),
            }
        }
    }
}

/// Each key that is wanted must stand in the table.
fn compare<T>(subject: &str, table: &[(&str, Ours<T>)], ours: &T, want: &Value, wrong: &mut Vec<String>) {
    for (key, want) in want.as_object().unwrap() {
        match table.iter().find(|(known, _)| known == key) {
            None => wrong.push(format!("{subject}: key {key} is not in the table")),
            Some((_, InNoFile | InFindings)) => {}
            Some((_, Answer(answer))) => {
                let got = answer(ours, want);
                if got != *want {
                    wrong.push(format!("{subject} {key}: {got}, wanted {want}"));
                }
            }
        }
    }
}

fn selectable(host: &Host) -> Vec<String> {
    let ports = host.hcas.iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port)));
    let usable = ports.filter(|(_, port)| port.usable != Usable::No);
    usable.map(|(hca, port)| format!("{}/{}", hca.name, port.port)).collect()
}

fn vanished(host: &Host) -> Vec<&str> {
    let gone = host.unknown.keys().filter_map(|key| key.strip_prefix("hcas."));
    gone.filter(|key| !key.starts_with("ports.")).collect()
}
