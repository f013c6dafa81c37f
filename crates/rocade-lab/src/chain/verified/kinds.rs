//! Pods of each kind, all started at once, and the rows that ask each of them once.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::super::agent::{self, SOON};
use super::super::pods::{NAMESPACE, RESOURCE, pod};
use super::super::{Chain, Row, Seen, passed, wait_for};
use super::{Container, TEST, Wanted};
use crate::cluster::plan;
use crate::image;

/// The other rail's resource.
const OTHER: &str = "rdma/hca_eth2";
/// Pods of one node that have an address on the first rail, one after the other.
pub(super) const NEIGHBOURS: [&str; 3] = ["near-1", "near-2", "near-3"];
/// A Pod whose containers may lock memory, or may not, each in its own way.
pub(super) const MEMORY: &str = "memory";
/// Privileged, without a resource.
pub(super) const PRIVILEGED: &str = "own-rxe";
/// With both rails and both resources.
pub(super) const TWO_RAILS: &str = "two-rails";
/// Where none is asked for, each rail gives an interface.
const HANDLERS: [&str; 4] = ["no-rail", "rail1", "rail2", "memlock"];
/// Of the first rail.
pub(super) const RANGE: &str = "10.8.10.0/24";
/// On the host's network, with IPC_LOCK as root.
pub(super) const HOST_NETWORK: &str = "host-network";
const WRONG_RAIL: &str = "wrong-rail";
const NO_SECOND: &str = "no-second";

pub(super) fn rows() -> Vec<Row<Chain>> {
    let asks = |what: &str| vec![format!("rocade verify; rocade env  (in {what})")];
    vec![
        Row {
            name: "verify: Pods of every kind start",
            typed: vec!["kubectl apply -f -  (Pods, and a RuntimeClass for each set of rails)".into()],
            run: start,
        },
        Row {
            name: "verify: on the host's network a granted HCA has the node's address, and passes",
            typed: asks("a Pod with hostNetwork"),
            run: |chain| {
                // Beside the node's address the bench gives the rail those of Pods (rail-cni.sh).
                let wanted = Wanted {
                    exit: 0,
                    found: &["note RDC609", "note RDC613"],
                    devices: &["rxe1:1"],
                    range: Some(RANGE),
                };
                let told = Container(HOST_NETWORK, TEST).ask(chain, "")?;
                let reason = told.hold(&wanted)?;
                let own = plan::rail_address(2, 1);
                ensure!(reason.contains(&format!("{own} at index 1")), "{reason}");
                passed(told.said, reason)
            },
        },
        Row {
            name: "verify: the resource of one rail and the network of another fail with both named",
            typed: asks("a Pod with rdma/hca_eth1 and a macvlan of rail 2"),
            run: |chain| {
                let found = [
                    "error RDC603",
                    "error RDC602",
                    "error RDC601",
                    "error RDC604",
                    "note RDC609",
                    "note RDC613",
                ];
                let told = Container(WRONG_RAIL, TEST).ask(chain, "")?;
                let reason = told.hold(&Wanted { exit: 1, found: &found, devices: &[], range: None })?;
                ensure!(reason.contains("rxe1 (eth1)") && reason.contains("leads to rxe2"), "{reason}");
                passed(told.said, reason)
            },
        },
        Row {
            name: "verify: without a second interface a granted RoCE HCA has no address, and the lines that give one are told",
            typed: asks("a Pod with rdma/hca_eth1 and eth0 alone"),
            run: |chain| {
                let found = ["error RDC601", "error RDC604", "note RDC609", "note RDC613"];
                let told = Container(NO_SECOND, TEST).ask(chain, "")?;
                let reason = told.hold(&Wanted { exit: 1, found: &found, devices: &[], range: None })?;
                let cure = told.cure("RDC601")?;
                let helps = ["rail eth1", "k8s.v1.cni.cncf.io/networks", "hostNetwork"];
                ensure!(helps.iter().all(|line| cure.contains(line)), "{cure}");
                passed(told.said, reason)
            },
        },
        Row {
            name: "verify: two resources in one container are two devices for a job",
            typed: asks("a container with rdma/hca_eth1 and rdma/hca_eth2"),
            run: |chain| {
                let devices = ["rxe1:1", "rxe2:1"];
                // The smallest network that holds 10.8.10.0/24 and 10.8.20.0/24.
                let wanted = Wanted {
                    exit: 0,
                    found: &["note RDC613"],
                    devices: &devices,
                    range: Some("10.8.0.0/19"),
                };
                let told = Container(TWO_RAILS, TEST).ask(chain, "")?;
                let reason = told.hold(&wanted)?;
                for name in ["rxe1", "rxe2"] {
                    let hca = told.hca(name)?;
                    ensure!(hca["granted"] == true && hca["usable"] == true, "{hca}");
                }
                passed(told.said, reason)
            },
        },
        Row {
            name: "verify: where /sys is masked it fails and says that no device is seen",
            typed: asks("a container with a volume over /sys"),
            run: |chain| {
                let told = Container(MEMORY, "masked").ask(chain, "")?;
                let wanted =
                    Wanted { exit: 1, found: &["error RDC101", "note RDC613"], devices: &[], range: None };
                let reason = told.hold(&wanted)?;
                passed(told.said, reason)
            },
        },
    ]
}

/// All in one go: a node starts several Pods in hardly more time than one.
fn start(chain: &Chain) -> Result<Seen> {
    let output = agent::deploy(chain, "lab")?;
    for node in plan::NODES {
        wait_allocatable(chain, node, "100")?;
    }
    let classes = HANDLERS.map(|name| {
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name})
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let pods = pods();
    let names: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    chain.apply(&[&[namespace][..], &classes, &pods].concat())?;
    let wait = ["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=180s", "pod"];
    chain.kubectl(&[&wait[..], &names].concat())?;
    passed(output, format!("{} Pods are Ready", names.len()))
}

/// Waits until a node has so many of the first rail's resource to give.
pub(super) fn wait_allocatable(chain: &Chain, node: &str, wanted: &str) -> Result<()> {
    wait_for(SOON, || {
        let allocatable = chain.kubectl_json(&["get", "node", node])?["status"]["allocatable"].clone();
        Ok(if allocatable[RESOURCE] == wanted { Ok(()) } else { Err(format!("{node} has {allocatable}")) })
    })
}

fn pods() -> Vec<Value> {
    let first = json!({RESOURCE: "1"});
    let mut pods = NEIGHBOURS.map(|name| at(0, "rail1", pod(name, &first))).to_vec();
    let mut on_host = at(1, "", pod(HOST_NETWORK, &first));
    on_host["spec"]["hostNetwork"] = json!(true);
    let mut privileged = at(1, "no-rail", pod(PRIVILEGED, &json!({})));
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    pods.extend([
        on_host,
        at(1, "rail2", pod(WRONG_RAIL, &first)),
        at(1, "no-rail", pod(NO_SECOND, &first)),
        at(1, "", pod(TWO_RAILS, &json!({RESOURCE: "1", OTHER: "1"}))),
        memory(),
        privileged,
    ]);
    pods
}

/// One sandbox for all: what they differ in is each container's own.
fn memory() -> Value {
    let mut memory = at(1, "rail1", pod(MEMORY, &json!({})));
    let mut masked = container("masked", json!({"capabilities": {"add": ["IPC_LOCK"]}}));
    masked["volumeMounts"] = json!([{"name": "nothing", "mountPath": "/sys"}]);
    memory["spec"]["volumes"] = json!([{"name": "nothing", "emptyDir": {}}]);
    memory["spec"]["containers"] = json!([
        container("root", json!({})),
        container("user", json!({"runAsUser": 1000})),
        container("user-lock", json!({"runAsUser": 1000, "capabilities": {"add": ["IPC_LOCK"]}})),
        container("resource", json!({"capabilities": {"add": ["SYS_RESOURCE"]}})),
        masked,
    ]);
    memory
}

/// One that has the first rail's HCA.
pub(super) fn container(name: &str, mut security: Value) -> Value {
    security["allowPrivilegeEscalation"] = json!(false);
    let resources = json!({RESOURCE: "1"});
    json!({"name": name, "image": image::ROCADE, "imagePullPolicy": "Never", "command": ["sleep", "1000000"],
        "securityContext": security, "resources": {"limits": resources, "requests": resources}})
}

/// On a node, with the networks of a runtime handler; an empty one is the default.
pub(super) fn at(node: usize, handler: &str, mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": plan::NODES[node]});
    if !handler.is_empty() {
        pod["spec"]["runtimeClassName"] = json!(handler);
    }
    pod
}
