//! Rows of an HCA that changes under the agent on a live node: its netdev is renamed, it is removed and made again, its
//! driver is loaded again. Each undoes what it did, whatever came of it.

use anyhow::{Context, Result, ensure};
use rocade_core::status::{HcaCondition, Status};
use serde_json::{Value, json};

use super::agent::{self, SOON};
use super::place::Place;
use super::pods::{self, NAMESPACE, pod};
use super::{Chain, Row, Seen, passed, wait_for};
use crate::cluster::plan;

const NODE: &str = plan::NODES[0];
const FIRST: &str = "rdma/hca_eth1";
const SECOND: &str = "rdma/hca_eth2";
const BY_NETDEV: &str = "rdma/eth2_by_netdev";
const AT_ONCE: &str = "rdma/eth2_at_once";
/// Of each resource of `deploy/lab-health`.
const SLOTS: u32 = 100;

/// With the configuration of `deploy/lab`, which is a config.json.
pub fn reported_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "under config.json a rail that is down stays offered, log and metrics tell of it, and none is offered once it is gone",
        typed: vec![
            "ip link set eth2 down  (on node1)".into(),
            "curl http://node1:9407/metrics; kubectl get node node1 -o yaml".into(),
            "rdma link delete rxe2; rdma link add rxe2 type rxe netdev eth2; ip link set eth2 up".into(),
        ],
        run: reported,
    }]
}

/// They give the agent the configuration of `deploy/lab-health`.
pub fn survival_rows() -> Vec<Row<Chain>> {
    vec![
        Row {
            name: "a netdev that is renamed while a Pod has its HCA open costs neither the Pod nor the resource anything",
            typed: vec![
                "kubectl apply -k deploy/lab-health".into(),
                "ip link set eth2 name rail2  (on node1, with a Pod that has uverbs1 open)".into(),
                "rocade status -o wide".into(),
            ],
            run: renamed,
        },
        Row {
            name: "an HCA that is removed is offered no more, its Pods are told, and made again it is offered and granted",
            typed: vec![
                "rdma link delete rxe2  (on node1)".into(),
                "kubectl get node node1 -o yaml".into(),
                "rdma link add rxe2 type rxe netdev eth2".into(),
            ],
            run: removed,
        },
        Row {
            name: "a grant whose device numbers are another HCA's after a reload of the driver is told with its Pod",
            typed: vec![
                "rmmod rdma_rxe; modprobe rdma_rxe  (on node1; then rxe2 before rxe1)".into(),
                "rocade status; curl http://node1:9407/metrics".into(),
            ],
            run: reloaded,
        },
    ]
}

fn reported(chain: &Chain) -> Result<Seen> {
    agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, SECOND, SLOTS, SLOTS))?;
    chain.node(NODE, "ip link set eth2 down")?;
    let told = report_down(chain).and_then(|told| Ok(told + &report_gone(chain)?));
    let undone = chain.node(NODE, "rdma link add rxe2 type rxe netdev eth2; ip link set eth2 up");
    let told = told?;
    undone?;
    agent::wait_for_metric(chain, NODE, r#"rocade_hca_up{hca="rxe2"}"#, 1.0)?;
    agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, SECOND, SLOTS, SLOTS))?;
    passed(told, "100 with the rail down, which log and metrics tell; 0 without the HCA; 100 again")
}

fn report_down(chain: &Chain) -> Result<String> {
    agent::wait_for_metric(chain, NODE, r#"rocade_hca_up{hca="rxe2"}"#, 0.0)?;
    let status = agent::wait_for_status(chain, NODE, |seen| {
        agent::hca(seen, "rxe2").is_ok_and(|hca| hca.condition == HcaCondition::Down)
    })?;
    ensure!(agent::offers(&status, SECOND, SLOTS, SLOTS), "not all is offered: {status:?}");
    for part in ["capacity", "allocatable"] {
        let counted = counted(chain, part)?;
        ensure!(counted == "100", "{part} is {counted}");
    }
    let log = agent::read_log(chain, NODE)?;
    let told = log.lines().rev().find(|line| line.contains("WARN") && line.contains("rxe2/1 is DOWN"));
    Ok(format!("{}\n", told.with_context(|| format!("the log does not tell that rxe2 is down: {log}"))?))
}

fn report_gone(chain: &Chain) -> Result<String> {
    chain.node(NODE, "rdma link delete rxe2")?;
    let status = agent::wait_for_status(chain, NODE, |seen| {
        agent::hca(seen, "rxe2").is_ok_and(|hca| hca.condition == HcaCondition::Gone)
            && agent::offers(seen, SECOND, held(seen, SECOND), held(seen, SECOND))
    })?;
    agent::wait_for_metric(chain, NODE, r#"rocade_hca_up{hca="rxe2"}"#, 0.0)?;
    Ok(format!("{}\n", agent::hca(&status, "rxe2")?.reason))
}

fn renamed(chain: &Chain) -> Result<Seen> {
    let name = "renamed-rail";
    agent::deploy(chain, "lab-health")?;
    let mut opens = on_node(pod(name, &json!({SECOND: "1", BY_NETDEV: "1"})));
    let open = "set -- /dev/infiniband/uverbs*; exec sleep 1000000 3<>\"$1\"";
    opens["spec"]["containers"][0]["command"] = json!(["sh", "-c", open]);
    admit(chain, name, opens)?;
    let since = chain.cluster.kubelet_log(NODE)?.len();
    let before = agent::wait_for_status(chain, NODE, |seen| {
        let named = [SECOND, BY_NETDEV].iter().all(|resource| agent::grant(seen, resource, name).is_ok());
        named && [SECOND, BY_NETDEV].iter().all(|resource| agent::offers(seen, resource, SLOTS, SLOTS))
    })?;
    chain.node(NODE, "ip link set eth2 name rail2")?;
    let kept = keep_renamed(chain, name, &before);
    let undone = chain.node(NODE, "ip link set rail2 name eth2");
    let kept = kept?;
    undone?;
    let after = agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, BY_NETDEV, SLOTS, SLOTS))?;
    keeps(&before, &after, name)?;
    for resource in [SECOND, AT_ONCE] {
        let lists = agent::lists_since(chain, NODE, since, resource)?;
        ensure!(lists.iter().all(|(_, healthy)| *healthy == SLOTS), "{resource}: the kubelet got {lists:?}");
    }
    end(chain, name)?;
    passed(kept, "100 all through, the Pod's grants and its open device as before, the new name in metrics")
}

/// With the new name: what is selected by the HCA stays whole; of what is selected by the old name the Pod's stays.
fn keep_renamed(chain: &Chain, pod: &str, before: &Status) -> Result<String> {
    let place = Place::Pod("renamed-rail");
    let after = agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, BY_NETDEV, 1, 1))?;
    keeps(before, &after, pod)?;
    ensure!(agent::offers(&after, SECOND, SLOTS, SLOTS), "{SECOND} is not whole: {after:?}");
    let by_netdev = agent::resource(&after, BY_NETDEV)?;
    let out = by_netdev.left_out.iter().find(|out| out.hca.as_str() == "rxe2");
    let why = out.with_context(|| format!("rxe2 is not out of {BY_NETDEV}: {by_netdev:?}"))?.reason.clone();
    ensure!(why.contains("rail2"), "the new name is not told: {why}");
    let metrics = agent::read_metrics(chain, NODE)?;
    let mut ports = metrics.lines().filter(|line| line.starts_with(r#"rocade_port_info{hca="rxe2""#));
    ensure!(ports.any(|line| line.contains(r#"netdev="rail2""#)), "the new name is not told: {metrics}");
    let open = place.run(chain, "readlink /proc/1/fd/3")?;
    ensure!(open.starts_with("/dev/infiniband/uverbs"), "the Pod has {open} open");
    let used = place.run(chain, "ibv_devinfo -d rxe2")?;
    let restarts = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}";
    let phase = chain.kubectl(&["-n", NAMESPACE, "get", "pod", pod, "-o", restarts])?;
    ensure!(phase == "Running 0", "the Pod is {phase}");
    Ok(format!("{BY_NETDEV}: {why}\n{used}"))
}

/// The same grants without a fault, and no new registration.
fn keeps(before: &Status, after: &Status, pod: &str) -> Result<()> {
    for resource in [SECOND, BY_NETDEV] {
        let (was, is) = (agent::grant(before, resource, pod)?, agent::grant(after, resource, pod)?);
        ensure!(was == is && is.faults.is_empty(), "{resource}: {was:?} became {is:?}");
        let count = |status| agent::resource(status, resource).map(|seen| seen.registration.count);
        ensure!(count(before)? == count(after)?, "{resource} was registered again: {after:?}");
    }
    Ok(())
}

fn removed(chain: &Chain) -> Result<Seen> {
    let (old, new) = ("before-removal", "made-again");
    agent::deploy(chain, "lab-health")?;
    admit(chain, old, on_node(pod(old, &json!({SECOND: "1"}))))?;
    let before = agent::wait_for_status(chain, NODE, |seen| {
        agent::offers(seen, SECOND, SLOTS, SLOTS) && agent::grant(seen, SECOND, old).is_ok()
    })?;
    chain.node(NODE, "timeout 30 rdma link delete rxe2")?;
    let gone = lose(chain, old);
    let undone = chain.node(NODE, "rdma link add rxe2 type rxe netdev eth2");
    let gone = gone?;
    undone?;
    wait_counted(chain, "100")?;
    let status = agent::wait_for_status(chain, NODE, |seen| {
        agent::offers(seen, SECOND, SLOTS, SLOTS) && agent::offers(seen, FIRST, SLOTS, SLOTS)
    })?;
    let (was, is) = (agent::hca(&before, "rxe2")?, agent::hca(&status, "rxe2")?);
    ensure!(is.condition == HcaCondition::Up && is.flaps > was.flaps, "{was:?} became {is:?}");
    let (was, is) = (agent::grant(&before, SECOND, old)?, agent::grant(&status, SECOND, old)?);
    ensure!(was == is && is.faults.is_empty(), "{was:?} became {is:?}");
    admit(chain, new, on_node(pod(new, &json!({SECOND: "1"}))))?;
    let granted = pods::compare_nodes(chain, new, "rxe2")?;
    [old, new].iter().try_for_each(|name| end(chain, name))?;
    passed(
        gone + &granted,
        "all but a Pod's own while it was gone, and why; then 100, and a new Pod has its nodes",
    )
}

/// Without rxe2: what Pods hold stays listed and nothing else, and is told to be worth nothing; the other HCA is as
/// before.
fn lose(chain: &Chain, old: &str) -> Result<String> {
    let status = agent::wait_for_status(chain, NODE, |seen| {
        let kept = held(seen, SECOND);
        agent::hca(seen, "rxe2").is_ok_and(|hca| hca.condition == HcaCondition::Gone)
            && agent::offers(seen, SECOND, kept, kept)
    })?;
    ensure!(agent::offers(&status, FIRST, SLOTS, SLOTS), "{FIRST} is not whole: {status:?}");
    wait_counted(chain, &held(&status, SECOND).to_string())?;
    agent::wait_for_metric(chain, NODE, r#"rocade_hca_up{hca="rxe2"}"#, 0.0)?;
    let (hca, grant) = (agent::hca(&status, "rxe2")?, agent::grant(&status, SECOND, old)?);
    ensure!(!hca.reason.is_empty(), "no reason: {hca:?}");
    let fault = grant.faults.iter().find(|told| told.contains("was granted for rxe2 and opens nothing now"));
    let fault = fault.with_context(|| format!("that {old} has nothing any more is not told: {grant:?}"))?;
    Ok(format!("{}\n{old}: {fault}\n", hca.reason))
}

fn reloaded(chain: &Chain) -> Result<Seen> {
    let (old, new) = ("before-reload", "after-reload");
    agent::deploy(chain, "lab-health")?;
    agent::wait_for_status(chain, NODE, |seen| agent::offers(seen, FIRST, SLOTS, SLOTS))?;
    for name in [old, new] {
        chain.kubectl(&["-n", NAMESPACE, "delete", "pod", "--ignore-not-found", name])?;
    }
    admit(chain, old, on_node(pod(old, &json!({FIRST: "1"}))))?;
    pods::compare_nodes(chain, old, "rxe1")?;
    let told = reload(chain, ["rxe2", "rxe1"]).and_then(|()| tell_exchanged(chain, old, new));
    let undone = reload(chain, ["rxe1", "rxe2"]);
    let told = told?;
    undone?;
    // The numbers are the old ones: what was granted is right again.
    let status = agent::wait_for_status(chain, NODE, |seen| {
        agent::grant(seen, FIRST, old).is_ok_and(|grant| grant.faults.is_empty())
            && agent::grant(seen, FIRST, new).is_err()
            && agent::offers(seen, FIRST, SLOTS, SLOTS)
    })?;
    ensure!(agent::hca(&status, "rxe1")?.condition == HcaCondition::Up, "{status:?}");
    agent::wait_for_metric(chain, NODE, &faulty(), 0.0)?;
    end(chain, old)?;
    passed(
        told,
        "the fault is in status, metrics and log; a new Pod has rxe1; with the old numbers none is left",
    )
}

/// Loads the driver anew and makes the HCAs in this order, so that they get their numbers in it.
fn reload(chain: &Chain, order: [&str; 2]) -> Result<()> {
    let add = |hca: &str| format!("rdma link add {hca} type rxe netdev {}", hca.replace("rxe", "eth"));
    let [first, second] = order.map(add);
    chain.node(NODE, &format!("timeout 30 rmmod rdma_rxe && modprobe rdma_rxe && {first} && {second}"))?;
    Ok(())
}

/// `old` was granted rxe1 by a number that is rxe2's now; `new` gets rxe1 itself.
fn tell_exchanged(chain: &Chain, old: &'static str, new: &'static str) -> Result<String> {
    let status = agent::wait_for_status(chain, NODE, |seen| {
        agent::grant(seen, FIRST, old).is_ok_and(|grant| !grant.faults.is_empty())
            && agent::offers(seen, FIRST, SLOTS, SLOTS)
    })?;
    let faults = &agent::grant(&status, FIRST, old)?.faults;
    let fault = "was granted for rxe1 and opens rxe2 now";
    ensure!(faults.iter().any(|told| told.contains(fault)), "wanted `{fault}`: {faults:?}");
    agent::wait_for_metric(chain, NODE, &faulty(), 1.0)?;
    let log = agent::read_log(chain, NODE)?;
    ensure!(log.contains(fault), "the log does not tell of it: {log}");
    let shown = chain.node(NODE, "rocade status; [ $? = 1 ]")?;
    // It breaks its lines.
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(words.contains(old) && words.contains(fault), "rocade status does not tell of it: {shown}");
    let inside = Place::Pod(old).run(chain, "rocade verify || [ $? = 1 ]")?;
    let inside = inside.split_whitespace().collect::<Vec<_>>().join(" ");
    let stale = inside.starts_with("FAIL uverbs0: ") && inside.contains("the grant was rxe1 with uverbs");
    ensure!(stale && inside.contains("RDC605"), "rocade verify in {old} does not tell it: {inside}");
    admit(chain, new, on_node(pod(new, &json!({FIRST: "1"}))))?;
    let granted = pods::compare_nodes(chain, new, "rxe1")?;
    Place::Pod(new).run(chain, "ibv_devinfo -d rxe1")?;
    end(chain, new)?;
    Ok(shown + &granted)
}

fn faulty() -> String {
    format!("rocade_resource_faulty_grants{{resource=\"{FIRST}\"}}")
}

/// How many devices of a resource Pods hold, in the kubelet's words.
fn held(status: &Status, name: &str) -> u32 {
    let grants = agent::resource(status, name).ok().and_then(|seen| seen.grants.as_ref());
    let ids: usize = grants.into_iter().flatten().map(|grant| grant.ids.len()).sum();
    u32::try_from(ids).unwrap_or(u32::MAX)
}

/// What the API server has of the second rail on the node.
fn counted(chain: &Chain, part: &str) -> Result<String> {
    let node = chain.kubectl_json(&["get", "node", NODE])?;
    Ok(node["status"][part][SECOND].as_str().unwrap_or("none").to_owned())
}

fn wait_counted(chain: &Chain, wanted: &str) -> Result<()> {
    wait_for(SOON, || {
        let seen = counted(chain, "allocatable")?;
        Ok(if seen == wanted { Ok(()) } else { Err(format!("allocatable is {seen}, wanted {wanted}")) })
    })
}

fn on_node(mut pod: Value) -> Value {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": NODE});
    pod
}

fn admit(chain: &Chain, name: &str, pod: Value) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    chain.apply(&[namespace, pod])?;
    chain.kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=120s", "pod", name])?;
    Ok(())
}

fn end(chain: &Chain, name: &str) -> Result<()> {
    chain.kubectl(&["-n", NAMESPACE, "delete", "pod", "--timeout=120s", name]).map(drop)
}
