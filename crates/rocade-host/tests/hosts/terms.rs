//! Our answers in the terms of the expectations: numbers for words, addresses as keys, reasons by meaning.

use std::collections::BTreeMap;

use rocade_core::host::Limit;
use rocade_core::{Accessible, CharDevice, GidEntry, GidType, Host, Port};
use serde_json::{Map, Value, json};

/// enum ib_port_state.
pub(crate) const STATES: &[&str] = &["NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"];

/// enum ib_port_phys_state.
pub(crate) const PHYS_STATES: &[&str] = &[
    "",
    "Sleep",
    "Polling",
    "Disabled",
    "PortConfigurationTraining",
    "LinkUp",
    "LinkErrorRecovery",
    "Phy Test",
];

/// Part of a wanted reason → what ours says then.
const REASONS: &[(&str, &str)] = &[
    ("uverbs", "missing"),
    ("EFA", "EFA"),
    ("NVSwitch", "NVSwitch"),
    ("all GIDs belong", "all GIDs belong to netdevs outside this network namespace"),
    ("all GIDs zero", "all GIDs zero"),
    ("device is being removed", "ENODEV"),
    ("empty GID table", "empty GID table"),
    ("iWARP", "iWARP"),
    ("only link-local", "only link-local RoCE v2 GIDs"),
    ("port DOWN", "port DOWN"),
    ("port INIT", "port INIT: no subnet manager"),
    ("software RoCE", "software RoCE"),
];

pub(crate) fn means(ours: &str, want: &Value) -> bool {
    let want = want.as_str().unwrap();
    let known = REASONS.iter().find(|(theirs, _)| want.contains(theirs));
    known.map_or(ours.is_empty() && want.is_empty(), |(_, words)| ours.contains(words))
}

/// Address → HCA, port, index and netdev of its RoCE v2 GIDs, of this namespace or of others. The order of rows is
/// no fact.
pub(crate) fn addresses(host: &Host, want: &Value, own: bool) -> Value {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for hca in &host.hcas {
        for port in &hca.ports {
            for gid in v2(port).filter(|gid| host.owns(gid) == own) {
                let row = json!([hca.name, port.port, gid.index, gid.netdev]);
                found.entry(gid.address.unwrap().to_string()).or_default().push(row);
            }
        }
    }
    let sorted = |value: Value| -> Map<String, Value> {
        let mut map = value.as_object().unwrap().clone();
        for rows in map.values_mut() {
            rows.as_array_mut().unwrap().sort_by_key(Value::to_string);
        }
        map
    };
    let ours = sorted(json!(found));
    if ours == sorted(want.clone()) { want.clone() } else { Value::Object(ours) }
}

pub(crate) fn v2_by_address(port: &Port) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for gid in v2(port) {
        found.entry(gid.address.unwrap().to_string()).or_default().push(json!([gid.index, gid.netdev]));
    }
    found
}

fn v2(port: &Port) -> impl Iterator<Item = &GidEntry> {
    port.gids.iter().filter(|gid| gid.gid_type == Some(GidType::V2))
}

/// The order of names is no fact: gives the wanted list where both hold the same.
pub(crate) fn as_wanted_order(mut ours: Vec<String>, want: &Value) -> Value {
    let mut wanted: Vec<&str> = want.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    wanted.sort_unstable();
    ours.sort_unstable();
    if ours == wanted { want.clone() } else { json!(ours) }
}

pub(crate) fn char_device(device: &CharDevice) -> Value {
    json!({
        "node": device.node,
        "dev": format!("{}:{}", device.major, device.minor),
        "in_dev": !matches!(device.accessible, Accessible::Missing | Accessible::Unknown),
    })
}

pub(crate) fn node_number(device: Option<&CharDevice>, prefix: &str) -> Value {
    let number = |device: &CharDevice| device.node.strip_prefix(prefix)?.parse::<u32>().ok();
    json!(device.and_then(number))
}

pub(crate) fn number_of(word: Option<&str>, words: &[&str]) -> Value {
    json!(word.and_then(|word| words.iter().position(|known| *known == word)))
}

pub(crate) fn limit(limit: Limit) -> String {
    match limit {
        Limit::Unlimited => "unlimited".into(),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

pub(crate) fn ofed_from_modules(host: &Host) -> Value {
    let versions: BTreeMap<&str, &str> =
        host.modules.iter().filter_map(|m| Some((m.name.as_str(), m.version.as_deref()?))).collect();
    let ofed = host.ofed.clone().unwrap_or_default();
    json!({"versions": versions, "out_of_tree": ofed.out_of_tree, "release": ofed.release})
}

pub(crate) fn pod_view(host: &Host) -> Value {
    let Some(view) = rocade_core::pod::view(host) else { return Value::Null };
    json!({
        "granted": view.granted,
        "opens": view.opens,
        "own_v2": view.own_v2,
        "usable": view.usable,
        "verdict": if view.pass { "PASS" } else { "FAIL" },
    })
}
