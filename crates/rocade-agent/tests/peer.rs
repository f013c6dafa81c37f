//! rocade's plan on every recorded host beside what the k8s-rdma-shared-dev-plugin offers there (fixtures/peer): the
//! same device IDs and device nodes, except where a row below says why not. A row that no longer differs fails too.
#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rocade_core::Host;
use rocade_core::config::{parse_config, parse_config_json};
use rocade_core::plan::{Needs, Pool, needs, plan};
use rocade_host::{Root, Scope, read_parts};
use serde_json::Value;

// Headings of docs/migrating.md, each the reason of a kind of difference.
const ON_TOP: &str = "Interfaces on top of an HCA's own";
const SEVERAL: &str = "Functions with several interfaces";
const NOT_NETWORK: &str = "HCAs on what is no PCI network function";
const SOFTWARE: &str = "HCAs without PCI";
const MIXED_IN: &str = "Software HCAs on a hardware HCA's interface";
const NO_NODE: &str = "A device node that is not there";
const EXCLUSIVE: &str = "HCAs that belong to one network namespace each";

/// Host, resources that differ, HCAs that rocade offers, why.
const DIFFERENCES: &[(&str, &[&str], &[&str], &str)] = &[
    // Interfaces on top of an HCA's own, and a bond's other member.
    ("bond-across-nics", &["rdma/if_bond0", "rdma/if_bond0_40"], &["mlx5_0", "mlx5_2"], ON_TOP),
    ("dgx-h100", &["rdma/if_bond0"], &["mlx5_2", "mlx5_8"], ON_TOP),
    ("k8s-macvlan-node", &["rdma/if_ens5f0np0_610", "rdma/if_mvhost0"], &["mlx5_0"], ON_TOP),
    ("roce-lag-multi-vxlan", &["rdma/if_bond0", "rdma/if_ens1f1np1"], &["mlx5_bond_0"], ON_TOP),
    ("roce-lag-multi-vxlan", &["rdma/if_bond1", "rdma/if_ens2f1np1"], &["mlx5_bond_1"], ON_TOP),
    ("roce-lag-multi-vxlan", &["rdma/if_bond2", "rdma/if_ens3f1np1"], &["mlx5_bond_2"], ON_TOP),
    ("roce-lag-multi-vxlan", &["rdma/if_bond3", "rdma/if_ens4f1np1"], &["mlx5_bond_3"], ON_TOP),
    ("seed-4hca-bond", &["rdma/if_bond0", "rdma/if_ens67f1np1"], &["mlx5_bond_0"], ON_TOP),
    // A function's second interface.
    ("mlx4-dual-ib-eth", &["rdma/if_ib0", "rdma/link_infiniband"], &["mlx4_0"], SEVERAL),
    (
        "mlx4-dual-ipoib-children",
        &["rdma/if_ib1", "rdma/if_ib1_8001", "rdma/if_ib1_8002"],
        &["mlx4_0"],
        SEVERAL,
    ),
    // Scalable functions; a PCI function that is no network controller.
    ("bf2-dpu-sf", &["rdma/if_enp3s0f0s0"], &["mlx5_2"], NOT_NETWORK),
    ("bf2-dpu-sf", &["rdma/if_enp3s0f0s88"], &["mlx5_3"], NOT_NETWORK),
    (
        "bf2-dpu-sf",
        &["rdma/driver_mlx5_core", "rdma/link_ether", "rdma/vendor_15b3"],
        &["mlx5_2", "mlx5_3"],
        NOT_NETWORK,
    ),
    ("qib-truescale", &["rdma/if_ib0", "rdma/link_infiniband"], &["qib0"], NOT_NETWORK),
    // Software HCAs.
    ("rxe-vm", &["rdma/if_eth0", "rdma/if_eth0_100", "rdma/if_eth0_200", "rdma/if_mv0"], &["rxe0"], SOFTWARE),
    ("rxe-vm", &["rdma/if_eth1"], &["rxe1"], SOFTWARE),
    ("rxe-vm", &["rdma/if_dum2"], &["rxe3"], SOFTWARE),
    ("rxe-vm", &["rdma/if_bond0", "rdma/if_dum0", "rdma/if_dum1"], &["rxe_bond"], SOFTWARE),
    (
        "rxe-vm",
        &["rdma/if_bond1", "rdma/if_bond1_7", "rdma/if_eth2", "rdma/if_eth3"],
        &["rxe_lacp"],
        SOFTWARE,
    ),
    ("rxe-vm", &["rdma/if_many0"], &["rxe_many"], SOFTWARE),
    ("rxe-vm", &["rdma/link_ether"], &["rxe0", "rxe1", "rxe3", "rxe_bond", "rxe_lacp", "rxe_many"], SOFTWARE),
    (
        "soft-siw-and-old-rxe",
        &["rdma/driver_mlx5_core", "rdma/if_ens1", "rdma/link_ether", "rdma/vendor_15b3"],
        &["mlx5_0"],
        MIXED_IN,
    ),
    // A node that the kernel's class lists and /dev/infiniband lacks.
    ("gpu-no-peermem", &["rdma/if_enp82s0np0"], &[], NO_NODE),
    (
        "gpu-no-peermem",
        &["rdma/driver_mlx5_core", "rdma/link_ether", "rdma/vendor_15b3"],
        &["mlx5_0", "mlx5_1", "mlx5_3"],
        NO_NODE,
    ),
    // That plugin ends where namespaces are exclusive.
    (
        "pod-sriov-exclusive",
        &["rdma/driver_mlx5_core", "rdma/if_net1", "rdma/link_ether", "rdma/vendor_15b3"],
        &["mlx5_2"],
        EXCLUSIVE,
    ),
];

/// What was offered: number of device IDs, and node names below /dev/infiniband.
type Offer = (u64, BTreeSet<String>);

fn fixtures(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(kind)
}

/// Host → resource → what the plugin offered. A process that ended before it registered offered nothing.
fn peer_answers() -> BTreeMap<String, BTreeMap<String, Offer>> {
    let files = fs::read_dir(fixtures("peer")).unwrap().map(|entry| entry.unwrap().path());
    let answers = files.filter(|path| path.extension().is_some_and(|e| e == "json")).map(|path| {
        let value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let selectors = value.as_object().unwrap().values();
        let resources = selectors.flat_map(|resources| resources.as_object().unwrap());
        let offer = |v: &Value| -> Offer {
            let nodes = v["nodes"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned());
            (v["count"].as_u64().unwrap_or(0), nodes.collect())
        };
        let host = path.file_stem().unwrap().to_string_lossy().into_owned();
        (host, resources.map(|(name, v)| (name.clone(), offer(v))).collect())
    });
    answers.collect()
}

fn pool(host: &Host, resource: &str) -> Pool {
    let (kind, value) = resource.strip_prefix("rdma/").unwrap().split_once('_').unwrap();
    let (key, value) = match kind {
        "if" => ("ifNames", interface(host, value)),
        "vendor" => ("vendors", value.to_owned()),
        "link" => ("linkTypes", value.to_owned()),
        _ => ("drivers", value.to_owned()),
    };
    let text = format!(
        r#"{{"configList": [{{"resourceName": "a", "rdmaHcaMax": 100, "selectors": {{"{key}": ["{value}"]}}}}]}}"#
    );
    plan(host, &parse_config_json("config.json", &text, true).unwrap().0).remove(0)
}

/// The interface that a resource was named after; of an HCA's own where this namespace has none of that name.
fn interface(host: &Host, plain: &str) -> String {
    let own = host.hcas.iter().flat_map(|h| &h.parent_netdevs);
    let mut names = host.netdevs.iter().map(|n| &n.name).chain(own);
    names.find(|name| name.replace('.', "_") == plain).map_or(plain.to_owned(), Clone::clone)
}

/// The IDs are the plugin's: "0" to "N - 1", and each is worth the same.
fn offer(pool: &Pool) -> Offer {
    let name = |path: String| path.strip_prefix("/dev/infiniband/").unwrap().to_owned();
    let ids: Vec<String> = pool.devices().map(|device| device.id).collect();
    assert_eq!(ids, (0..pool.slots).map(|n| n.to_string()).collect::<Vec<_>>(), "{}", pool.resource);
    if let Some(last) = ids.last() {
        assert_eq!(pool.grant(&[last]), pool.grant(&["0"]));
    }
    let nodes = if pool.slots == 0 { Vec::new() } else { pool.grant(&["0"]).unwrap().nodes };
    (u64::from(pool.slots), nodes.into_iter().map(name).collect())
}

#[test]
fn every_resource_is_the_plugins_or_a_difference_with_its_reason() {
    let answers = peer_answers();
    assert_eq!(answers.len(), 29);
    let migrating = fs::read_to_string(fixtures("../docs/migrating.md")).unwrap();
    let mut expected: BTreeMap<(&str, &str), (&[&str], &str)> = BTreeMap::new();
    for (host, resources, hcas, reason) in DIFFERENCES {
        assert!(migrating.contains(&format!("## {reason}\n")), "docs/migrating.md has no `## {reason}`");
        expected.extend(resources.iter().map(|resource| ((*host, *resource), (*hcas, *reason))));
    }
    let (mut wrong, mut same) = (Vec::new(), 0);
    for (name, resources) in &answers {
        // As the agent reads it.
        let root = Root::open(fixtures("hosts").join(format!("{name}.host"))).unwrap();
        let host = read_parts(&root, Scope::GRANTS);
        for (resource, theirs) in resources {
            let pool = pool(&host, resource);
            let hcas: Vec<_> = pool.members.iter().map(|m| m.hca.as_str()).collect();
            match expected.remove(&(name.as_str(), resource.as_str())) {
                None if offer(&pool) == *theirs => same += 1,
                Some((wanted, _)) if wanted == hcas && offer(&pool) != *theirs => {}
                row => wrong.push(format!("{name} {resource}: {hcas:?}, row {row:?}, plugin {theirs:?}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(expected.is_empty(), "rows without a resource: {expected:?}");
    assert!(same > 200, "only {same} resources were compared as equal");
}

/// What the plugin cannot do, on every recorded host: HCAs one by one, and the fabric's rails by tokens as their GID
/// tables have room, with umad.
const AGENT_CONFIG: &str = "apiVersion: rocade.dev/v1alpha1
kind: AgentConfig
resources:
- name: each
  sharing: {mode: hca}
  selectors: {linkLayers: [infiniband, ethernet]}
- name: rails
  sharing: {mode: tokens, slots: auto}
  charDevices: [umad]
  selectors: {roles: [fabric]}
";

/// `0000:4d:00.0 numa 0: mlx5_0:1, uverbs0 rdma_cm`, a line for each ID that is worth something of its own.
fn describe(pool: &Pool) -> String {
    let mut text = format!("{}: {} slots\n", pool.resource, pool.slots);
    let first = pool.share().map_or(1, |_| usize::MAX);
    for device in pool.devices().take(first) {
        let grant = pool.grant(&[&device.id]).unwrap();
        let nodes: Vec<_> = grant.nodes.iter().map(|node| node.rsplit('/').next().unwrap()).collect();
        let numa = device.numa_nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let numa = if numa.is_empty() { "-".to_owned() } else { numa };
        writeln!(text, "  {} numa {numa}: {}, {}", device.id, grant.variables[0].1, nodes.join(" ")).unwrap();
    }
    if let Some(why) = &pool.why_no_slots {
        writeln!(text, "  none: {why}").unwrap();
    }
    for out in &pool.left_out {
        writeln!(text, "  out {}: {}", out.hca, out.reason).unwrap();
    }
    text
}

#[test]
fn every_recorded_host_gives_its_hcas_one_by_one_as_was_looked_at_and_found_right() {
    let config = parse_config("agent.yaml", AGENT_CONFIG, true).unwrap().0.for_node(None, &BTreeMap::new());
    assert_eq!(needs(&config), Needs { gids: true, roles: true });
    let mut kinds: Vec<_> =
        fs::read_dir(fixtures("hosts")).unwrap().map(|entry| entry.unwrap().path()).collect();
    kinds.retain(|path| path.extension().is_some_and(|e| e == "host"));
    kinds.sort();
    assert_eq!(kinds.len(), 34);
    let mut text = String::new();
    for path in kinds {
        let mut host =
            read_parts(&Root::open(&path).unwrap(), Scope { gids: true, roles: true, ..Scope::GRANTS });
        rocade_core::judge(&mut host);
        let pools = plan(&host, &config);
        let mut granted = BTreeSet::new();
        for device in pools[0].devices() {
            let nodes = pools[0].grant(&[device.id]).unwrap().nodes;
            let own = nodes.into_iter().filter(|node| !node.ends_with("rdma_cm"));
            own.for_each(|node| assert!(granted.insert(node.clone()), "{}: {node} twice", path.display()));
        }
        writeln!(text, "== {}", path.file_stem().unwrap().display()).unwrap();
        pools.iter().for_each(|pool| text.push_str(&describe(pool)));
    }
    let golden = fixtures("plans/agent-config.txt");
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    let wanted = fs::read_to_string(&golden).unwrap_or_default();
    let differs = text.lines().zip(wanted.lines()).find(|(now, then)| now != then);
    assert!(text == wanted, "UPDATE_PAGES=1 writes {}; first difference {differs:?}", golden.display());
}
