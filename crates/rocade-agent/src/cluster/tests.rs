use rocade_core::status::{AgentSeen, HcaCondition, HcaSeen, KubeletSeen, STATUS_VERSION};
use serde_json::json;

use super::*;

fn status(hcas: &[(&str, HcaCondition)], refused: Option<&str>) -> Status {
    let agent = AgentSeen {
        version: String::new(),
        pid: 1,
        started_unix_s: 0,
        config: String::new(),
        config_refused: refused.map(str::to_owned),
        refused: Vec::new(),
        log_level: String::new(),
    };
    let hca = |(name, condition): &(&str, HcaCondition)| HcaSeen {
        hca: name.parse().unwrap(),
        condition: *condition,
        reason: "port 1 is DOWN".into(),
        since_unix_s: 0,
        flaps: 0,
        resources: vec!["rdma/a".parse().unwrap()],
    };
    Status {
        schema_version: STATUS_VERSION,
        agent,
        kubelet: KubeletSeen::default(),
        resources: Vec::new(),
        hcas: hcas.iter().map(hca).collect(),
        sockets: Vec::new(),
        errors: Vec::new(),
    }
}

#[test]
fn events_tell_of_hcas_that_went_and_came_and_not_of_those_that_pods_use() {
    use HcaCondition::{Down, Gone, InUse, Up};
    let before = status(&[("a", Up), ("b", Down), ("c", Up), ("d", Down), ("e", Up)], None);
    let now = status(
        &[("a", Down), ("b", Up), ("c", InUse), ("d", Down), ("e", Gone), ("f", Down)],
        Some("line 3"),
    );
    let told: Vec<_> = objects::happened(&before, &now).into_iter().map(|h| (h.reason, h.warning)).collect();
    let wanted =
        [("RdmaHcaDown", true), ("RdmaHcaUp", false), ("RdmaHcaGone", true), ("RdmaConfigRefused", true)];
    assert_eq!(told, wanted);
    assert_eq!(objects::happened(&now, &now), []);
}

#[test]
fn the_taint_is_taken_off_and_others_stay_against_the_version_that_was_read() {
    let node = |taints: Value| json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}});
    let other = json!({"key": "gpu", "effect": "NoSchedule"});
    let own = json!({"key": TAINT, "effect": "NoSchedule"});
    let body = objects::without_taint(&node(json!([own, other]))).unwrap();
    assert_eq!(body, json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": [other]}}));
    assert_eq!(objects::without_taint(&node(json!([other]))), None);
    assert_eq!(objects::without_taint(&json!({"metadata": {}, "spec": {}})), None);
}

#[test]
fn the_condition_says_why_and_events_stay_within_what_kubernetes_takes() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_033_940_000_007);
    let now = objects::seconds(at);
    let condition = objects::degraded(&["mlx5_0: port 1 is DOWN".into()], "1970-01-01T00:00:00Z", &now);
    assert_eq!((&condition["status"], &condition["lastHeartbeatTime"]), (&json!("True"), &json!(now)));
    assert_eq!(condition["message"], "mlx5_0: port 1 is DOWN");
    assert_eq!(objects::degraded(&[], &now, &now)["status"], "False");
    let node = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, condition]}});
    assert_eq!(objects::degraded_since(&node, true).as_deref(), Some("1970-01-01T00:00:00Z"));
    assert_eq!(objects::degraded_since(&node, false), None);
    assert_eq!(objects::degraded_since(&json!({}), true), None);
    let long = Happened { reason: "RdmaHcaDown", warning: true, note: "→".repeat(1000) };
    let event = objects::event("node1", &long, at);
    assert!(event["note"].as_str().unwrap().len() <= 1024);
    assert_eq!(event["eventTime"], "2026-11-30T10:19:00.000007Z");
    let name = event["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("node1.") && name.ends_with(|c: char| c.is_ascii_alphanumeric()), "{name}");
}
