//! The written schema of the inventory is the types' own, and what the binary prints of every recorded host keeps
//! to it.

#![allow(clippy::unwrap_used, reason = "what is missing here fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

const REGENERATE: &str =
    "cargo run -p rocade-core --example inventory_schema >docs/schema/inventory.schema.json";

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn written() -> Value {
    let text = std::fs::read_to_string(checkout().join("docs/schema/inventory.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn inventory(host: &Path) -> Value {
    let mut rocade = Command::new(env!("CARGO_BIN_EXE_rocade"));
    let output = rocade.args(["inventory", "-o", "json", "--from"]).arg(host).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_written_schema_is_that_of_the_types() {
    let types = serde_json::to_value(rocade_core::host::inventory_schema()).unwrap();
    assert!(written() == types, "docs/schema/inventory.schema.json is out of date: {REGENERATE}");
}

#[test]
fn the_inventory_of_every_recorded_host_keeps_to_the_schema() {
    let schema = jsonschema::validator_for(&written()).unwrap();
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
    let schema = jsonschema::validator_for(&written()).unwrap();
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
