//! Rows of the two Pods: placed by a node label, and what each sees inside.

use anyhow::{Context, Result, ensure};
use rocade_core::CharDevice;
use serde_json::{Value, json};

use super::place::Place;
use super::{Chain, Row, Seen, nodes, passed};
use crate::cluster::plan;
use crate::image;

/// Namespace of all Pods of the chain.
pub(super) const NAMESPACE: &str = "demo";
/// The two Pods.
pub(super) const PODS: [&str; 2] = ["rdma-pod1", "rdma-pod2"];
/// The label that places them.
const LABEL: &str = "rdma-node=true";
/// What they ask for.
pub(super) const RESOURCE: &str = "rdma/hca_eth1";

pub(super) fn rows() -> Vec<Row<Chain>> {
    let inside = |what: &str| format!("kubectl exec -n {NAMESPACE} {} -- {what}  (and {})", PODS[0], PODS[1]);
    vec![
        Row {
            name: "two Pods, placed by a node label",
            typed: vec![
                format!("kubectl label node node1 node2 {LABEL}"),
                format!(
                    "kubectl apply -f -  (two Pods, limits and requests {RESOURCE}: \"1\", no host path)"
                ),
                format!("kubectl -n {NAMESPACE} get pods -o wide"),
            ],
            run: two_pods,
        },
        Row {
            name: "inside: the granted device nodes, no others",
            typed: vec![inside("ls -l /dev/infiniband")],
            run: granted_nodes,
        },
        Row {
            name: "inside: locked memory, addresses and the grant",
            typed: vec![inside("sh -c 'ulimit -l; ip a; env | grep ROCADE'")],
            run: limits_and_addresses,
        },
        Row {
            name: "inside: the granted HCA and the GID index of each address",
            typed: vec![inside("ibv_devices"), inside("rocade inventory")],
            run: inventory_inside,
        },
    ]
}

/// An unprivileged Pod that runs until it is deleted; each rail gives it a macvlan interface, as Multus would.
pub(super) fn pod(name: &str, requests: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "rdma"}},
        "spec": {
            "nodeSelector": {"rdma-node": "true"},
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "test", "image": image::ROCADE, "imagePullPolicy": "Never",
                "command": ["sleep", "1000000"],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"add": ["IPC_LOCK"]}},
                "resources": {"limits": requests, "requests": requests},
            }],
        },
    })
}

fn two_pods(chain: &Chain) -> Result<Seen> {
    let label: Vec<&str> =
        ["label", "--overwrite", "node"].into_iter().chain(plan::NODES).chain([LABEL]).collect();
    let mut output = chain.kubectl(&label)?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let pods = PODS.map(|name| spread(pod(name, &json!({RESOURCE: "1"}))));
    output += &chain.apply(&[vec![namespace], pods.into()].concat())?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", PODS[0], PODS[1]];
    output += &chain.kubectl(&wait)?;
    let mut on = PODS.map(|name| node_of(chain, name)).into_iter().collect::<Result<Vec<_>>>()?;
    on.sort();
    ensure!(on == plan::NODES, "the Pods are on {on:?}, wanted one on each node");
    output += &chain.kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "wide"])?;
    passed(output, "both Running, one on each node")
}

/// Keeps the Pods that carry the label `spread` on nodes of their own.
fn spread(mut pod: Value) -> Value {
    pod["metadata"]["labels"]["spread"] = json!("yes");
    let rule =
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"spread": "yes"}}});
    pod["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}});
    pod
}

/// Name of the node that a Pod runs on.
pub(super) fn node_of(chain: &Chain, pod: &str) -> Result<String> {
    let pod = chain.kubectl_json(&["-n", NAMESPACE, "get", "pod", pod])?;
    Ok(pod["spec"]["nodeName"].as_str().context("the Pod has no node")?.to_owned())
}

fn granted_nodes(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        output += &compare_nodes(chain, name, "rxe1")?;
    }
    passed(output, "the nodes of rxe1 and rdma_cm by name and number, in both Pods")
}

/// Holds the device nodes in a Pod against those that its node has for an HCA and rdma_cm; gives them as `ls` does.
pub(super) fn compare_nodes(chain: &Chain, name: &'static str, hca: &str) -> Result<String> {
    let wanted = wanted_nodes(chain, &node_of(chain, name)?, hca)?;
    let line = "cd /dev/infiniband && for n in *; do stat -c '%n %t:%T' $n; done";
    let said = Place::Pod(name).run(chain, line)?;
    let mut seen: Vec<_> = said.lines().map(str::to_owned).collect();
    seen.sort();
    ensure!(seen == wanted, "{name} has {seen:?}, its node's {hca} and rdma_cm are {wanted:?}");
    Ok(format!("{name}:\n{}", Place::Pod(name).run(chain, "ls -l /dev/infiniband")?))
}

/// `NAME MAJOR:MINOR` (hexadecimal, as stat prints them) of what the node has for the HCA.
fn wanted_nodes(chain: &Chain, node: &str, hca: &str) -> Result<Vec<String>> {
    let host = nodes::read_host(chain, node)?;
    let hca = host.hca(hca).with_context(|| format!("{node} has no {hca}"))?;
    let of_ports = hca.ports.iter().flat_map(|port| [&port.umad, &port.issm]).flatten();
    let devices = of_ports.chain(&hca.uverbs).chain(&host.rdma_cm);
    let shown = |device: &CharDevice| format!("{} {:x}:{:x}", device.node, device.major, device.minor);
    let mut wanted: Vec<_> = devices.map(shown).collect();
    ensure!(wanted.len() >= 2, "{node}: rocade finds only {wanted:?}");
    wanted.sort();
    Ok(wanted)
}

fn limits_and_addresses(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        let said = Place::Pod(name).run(chain, "ulimit -l; ip -o addr show; env | grep ^ROCADE_GRANT")?;
        let memlock = said.lines().next().unwrap_or("");
        let enough = memlock == "unlimited" || memlock.parse::<u64>().is_ok_and(|kib| kib >= 64);
        ensure!(enough, "{name}: ulimit -l says {memlock}, wanted at least 64 KiB");
        let network = plan::RAILS[0];
        ensure!(
            said.contains(&format!("inet {network}.")),
            "{name} has no address in {network}.0/24: {said}"
        );
        ensure!(said.contains("ROCADE_GRANT_RDMA_HCA_ETH1=rxe1:1"), "{name} is not told its grant: {said}");
        output += &format!("{name}:\n{said}");
    }
    passed(output, "memory can be locked, a macvlan address of the rail is there, the grant names rxe1:1")
}

fn inventory_inside(chain: &Chain) -> Result<Seen> {
    let mut output = String::new();
    for name in PODS {
        let said = Place::Pod(name).run(chain, "rocade inventory -o json")?;
        let host: rocade_core::Host = serde_json::from_str(&said)?;
        let has_node = |hca: &&rocade_core::Hca| {
            hca.uverbs.as_ref().is_some_and(|u| u.accessible == rocade_core::Accessible::Yes)
        };
        let granted: Vec<_> = host.hcas.iter().filter(has_node).map(|hca| hca.name.as_str()).collect();
        ensure!(
            granted == ["rxe1"],
            "{name}: usable by their device nodes are {granted:?}, wanted rxe1 alone"
        );
        output += &format!("{name}:\n{}", Place::Pod(name).run(chain, "ibv_devices; rocade inventory")?);
    }
    passed(output, "rxe1 alone has a device node, of the two HCAs that /sys shows")
}
