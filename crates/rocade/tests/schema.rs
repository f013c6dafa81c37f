//! The written schemas are the types' own: of the inventory, to which what the binary prints of every recorded host
//! keeps, and of the agent's configuration.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn written(schema: &str) -> Value {
    let text = std::fs::read_to_string(checkout().join("docs/schema").join(schema)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn inventory(host: &Path) -> Value {
    let mut rocade = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output = rocade.args(["inventory", "-o", "json", "--from"]).arg(host).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_written_schemas_are_those_of_the_types() {
    for (file, example, schema) in [
        ("inventory.schema.json", "inventory_schema", rocade_core::host::inventory_schema()),
        ("agent-config.schema.json", "agent_config_schema", rocade_core::config::agent_config_schema()),
    ] {
        let types = serde_json::to_value(schema).unwrap();
        let regenerate = format!("cargo run -p rocade-core --example {example} >docs/schema/{file}");
        assert!(written(file) == types, "docs/schema/{file} is out of date: {regenerate}");
    }
}

/// A document that both the schema and the agent take, or neither does.
fn agree(schema: &jsonschema::Validator, document: &Value) -> bool {
    let taken = rocade_core::config::parse_config("agent.yaml", &document.to_string(), true).is_ok();
    let errors: Vec<String> = schema.iter_errors(document).map(|error| error.to_string()).collect();
    assert_eq!(taken, errors.is_empty(), "{document}: {errors:?}");
    taken
}

#[test]
fn the_schema_of_the_configuration_takes_and_refuses_what_the_agent_does() {
    let schema = jsonschema::validator_for(&written("agent-config.schema.json")).unwrap();
    let good = json!({
        "apiVersion": "rocade.dev/v1alpha1", "kind": "AgentConfig", "rescanInterval": "60s",
        "publish": {"labels": "none"},
        "resources": [{
            "name": "a", "sharing": {"mode": "tokens", "slots": "auto"},
            "selectors": {"vendors": ["15b3", 8086], "roles": ["fabric"], "minRateGbps": 99.5},
            "health": {"policy": "report", "downAfter": "500ms", "degraded": "ignore"}
        }]
    });
    assert!(agree(&schema, &good));
    for (pointer, value) in [
        ("/apiVersion", json!("rocade.dev/v1")),
        ("/kind", json!("Policy")),
        ("/rescanInterval", json!("60")),
        ("/publish/labels", json!("off")),
        ("/resources/0/sharing/slots", json!(0)),
        ("/resources/0/sharing/mode", json!("exclusive")),
        ("/resources/0/selectors", json!({})),
        ("/resources/0/selectors/vendors", json!([])),
        ("/resources/0/selectors/vendors", json!(["Mellanox"])),
        ("/resources/0/selectors/roles", json!(["compute"])),
        ("/resources/0/selectors/minRateGbps", json!(0)),
        ("/resources/0/health/degraded", json!("never")),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!agree(&schema, &bad));
    }
    for (object, key) in [("/resources/0", "nmae"), ("", "config"), ("/resources/0/selectors", "ifNames")] {
        let mut bad = good.clone();
        bad.pointer_mut(object).unwrap()[key] = json!(["a"]);
        assert!(!agree(&schema, &bad));
    }
}

#[test]
fn the_inventory_of_every_recorded_host_keeps_to_the_schema() {
    let schema = jsonschema::validator_for(&written("inventory.schema.json")).unwrap();
    let files =
        std::fs::read_dir(checkout().join("fixtures/hosts")).unwrap().map(|entry| entry.unwrap().path());
    let hosts: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|it| it == "host")).collect();
    assert!(hosts.len() >= 34, "{hosts:?}");
    for host in hosts {
        let errors: Vec<String> = schema
            .iter_errors(&inventory(&host))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", host.display());
    }
}

#[test]
fn the_schema_refuses_what_the_inventory_never_says() {
    let schema = jsonschema::validator_for(&written("inventory.schema.json")).unwrap();
    let host = inventory(&checkout().join("fixtures/hosts/seed-4hca-bond.host"));
    assert!(schema.is_valid(&host));
    let changes: [fn(&mut Value); 4] = [
        |host| host["hcas"][0]["ports"][0]["transport"] = json!("RoCE"),
        |host| host["hcas"][0]["numa_node"] = json!(-1),
        |host| drop(host.as_object_mut().unwrap().remove("schema_version")),
        |host| host["hcas"][0]["ports"][0]["gids"][0]["type"] = json!("v2"),
    ];
    for change in changes {
        let mut changed = host.clone();
        change(&mut changed);
        assert!(!schema.is_valid(&changed));
    }
}
