//! What is written to the API server, as JSON: parts of a Node, and Events. Pure.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rocade_core::status::{HcaCondition, HcaSeen, Status};
use serde_json::{Value, json};

/// The taint that keeps Pods from a node whose resources are not offered yet. Who makes nodes sets it, the agent takes
/// it off.
pub(super) const TAINT: &str = "rdma.rocade.dev/not-ready";

/// Type of the condition.
const CONDITION: &str = "RdmaDegraded";

/// Bytes of an event's note (k8s.io/api/events/v1).
const NOTE: usize = 1024;

/// Something that an event tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    /// CamelCase, for machines.
    pub(super) reason: &'static str,
    /// Whether it is one of the bad things.
    pub(super) warning: bool,
    /// For people.
    pub(super) note: String,
}

/// A node's labels, as the field manager applies them: labels that it applied before and that are not here go.
pub(super) fn labels(node: &str, labels: &BTreeMap<String, String>) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}})
}

/// A node's conditions of this field manager: one or none.
pub(super) fn condition(node: &str, condition: Option<Value>) -> Value {
    let conditions: Vec<Value> = condition.into_iter().collect();
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": {"conditions": conditions}})
}

/// The condition: True while the node is degraded, with why.
pub(super) fn degraded(why: &[String], since: &str, now: &str) -> Value {
    let (reason, message) = match why {
        [] => ("AllHcasUp", "all HCAs that are offered can be used".to_owned()),
        why => ("HcasDown", why.join("; ")),
    };
    json!({"type": CONDITION, "status": status(!why.is_empty()), "reason": reason, "message": message,
        "lastTransitionTime": since, "lastHeartbeatTime": now})
}

/// Since when the node has been so by its condition; None where that says otherwise, or is not there.
pub(super) fn degraded_since(node: &Value, degraded: bool) -> Option<String> {
    let conditions = node["status"]["conditions"].as_array()?;
    let of = |found: &&Value| found["type"] == CONDITION && found["status"] == status(degraded);
    conditions.iter().find(of)?["lastTransitionTime"].as_str().map(str::to_owned)
}

fn status(degraded: bool) -> &'static str {
    if degraded { "True" } else { "False" }
}

/// The node without the taint, against the version that was read; None where it does not have it.
pub(super) fn without_taint(node: &Value) -> Option<Value> {
    let taints = node["spec"]["taints"].as_array()?;
    let others: Vec<&Value> = taints.iter().filter(|taint| taint["key"] != TAINT).collect();
    (others.len() < taints.len()).then(|| {
        json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "spec": {"taints": others}})
    })
}

/// What became of HCAs and of the configuration between two documents.
pub(super) fn happened(before: &Status, now: &Status) -> Vec<Happened> {
    let condition = |status: &Status, seen: &HcaSeen| {
        status.hcas.iter().find(|other| other.hca == seen.hca).map(|other| other.condition)
    };
    let changed =
        now.hcas.iter().filter(|seen| condition(before, seen).is_some_and(|was| was != seen.condition));
    let mut all: Vec<_> = changed.filter_map(hca).collect();
    if let Some(why) =
        now.agent.config_refused.as_ref().filter(|_| now.agent.config_refused != before.agent.config_refused)
    {
        all.push(Happened { reason: "RdmaConfigRefused", warning: true, note: why.clone() });
    }
    all
}

fn hca(seen: &HcaSeen) -> Option<Happened> {
    let (reason, warning, note) = match seen.condition {
        HcaCondition::Up => ("RdmaHcaUp", false, format!("{} can be used again", seen.hca)),
        HcaCondition::Down => ("RdmaHcaDown", true, format!("{}: {}", seen.hca, seen.reason)),
        HcaCondition::Gone => ("RdmaHcaGone", true, format!("{} is gone: {}", seen.hca, seen.reason)),
        // A Pod that uses what it was granted is nothing to tell of.
        HcaCondition::InUse => return None,
    };
    Some(Happened { reason, warning, note })
}

/// An event about the node.
pub(super) fn event(node: &str, happened: &Happened, now: SystemTime) -> Value {
    let mut end = happened.note.len().min(NOTE);
    while !happened.note.is_char_boundary(end) {
        end -= 1;
    }
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{node}.{:x}", nanos(now)), "namespace": "default"},
        "eventTime": micros(now), "action": "Watched", "reason": happened.reason,
        "type": if happened.warning { "Warning" } else { "Normal" }, "note": &happened.note[..end],
        "reportingController": "rocade.dev/agent", "reportingInstance": node,
        "regarding": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
    })
}

/// `2026-11-30T10:19:00Z`, as metav1.Time.
pub(super) fn seconds(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}Z", rocade_core::status::date_and_time(since.as_secs(), 'T'))
}

fn nanos(at: SystemTime) -> u128 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// The same with microseconds, as metav1.MicroTime.
fn micros(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:06}Z", rocade_core::status::date_and_time(since.as_secs(), 'T'), since.subsec_micros())
}
