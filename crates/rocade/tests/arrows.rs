//! The arrows between the rooms (ARCHITECTURE.md): which crate may depend on which, and what each room must never
//! hold. Reads `cargo metadata`, so a new dependency that nobody thought about fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Crate → its normal dependencies, all of them: rooms and outside libraries.
const ALLOWED: &[(&str, &[&str])] = &[
    (
        "rocade-core",
        &[
            "garde",
            "hdrhistogram",
            "schemars",
            "serde",
            "serde-saphyr",
            "serde_json",
            "serde_path_to_error",
            "thiserror",
        ],
    ),
    (
        "rocade-host",
        &[
            "rocade-core",
            "hmac",
            "netlink-packet-core",
            "netlink-packet-route",
            "netlink-sys",
            "rustix",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
        ],
    ),
    ("rocade-verbs", &["rocade-core", "libc", "libloading", "thiserror"]),
    (
        "rocade-agent",
        &[
            "rocade-core",
            "rocade-host",
            "http-body-util",
            "hyper",
            "hyper-util",
            "inotify",
            "prometheus-client",
            "prost",
            "serde_json",
            "thiserror",
            "tokio",
            "tokio-rustls",
            "tokio-stream",
            "tonic",
            "tonic-prost",
            "tracing",
        ],
    ),
    (
        "rocade",
        &[
            "rocade-core",
            "rocade-host",
            "rocade-verbs",
            "rocade-agent",
            "anyhow",
            "clap",
            "rustix",
            "serde-saphyr",
            "serde_json",
            "signal-hook",
            "thiserror",
            "tokio",
            "tracing",
            "tracing-subscriber",
        ],
    ),
];

/// Development only: nothing may depend on these, and these on no room but core and host.
const DEVELOPMENT: &[&str] = &["rocade-lab", "rocade-agent-gen", "rocade-verbs-gen"];

#[test]
fn every_dependency_is_an_arrow_that_the_architecture_draws() {
    let crates = read_normal_dependencies();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ALLOWED.iter().map(|(name, deps)| (*name, deps.iter().copied().collect())).collect();
    let mut wrong = Vec::new();
    for (name, dependencies) in &crates {
        if DEVELOPMENT.contains(&name.as_str()) {
            let rooms = dependencies.iter().filter(|d| crates.contains_key(*d));
            wrong.extend(
                rooms.filter(|d| !matches!(d.as_str(), "rocade-core" | "rocade-host")).map(|d| (name, d)),
            );
            continue;
        }
        let Some(allowed) = allowed.get(name.as_str()) else {
            panic!("{name} is a crate that ARCHITECTURE.md and this test do not know");
        };
        wrong.extend(dependencies.iter().filter(|d| !allowed.contains(d.as_str())).map(|d| (name, d)));
    }
    assert!(wrong.is_empty(), "arrows that nobody drew: {wrong:?}");
}

#[test]
fn every_allowed_arrow_is_in_use() {
    let crates = read_normal_dependencies();
    let unused: Vec<_> = ALLOWED
        .iter()
        .flat_map(|(name, deps)| deps.iter().map(move |d| (*name, *d)))
        .filter(|(name, d)| !crates.get(*name).is_some_and(|have| have.contains(*d)))
        .collect();
    assert!(unused.is_empty(), "allowed, yet no crate uses it: {unused:?}");
}

/// Names of the normal (neither dev nor build) dependencies of each crate of the workspace.
fn read_normal_dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    packages.iter().map(|p| (text(&p["name"]), normal_dependencies(p))).collect()
}

fn normal_dependencies(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("dependencies");
    all.iter().filter(|d| d["kind"].is_null()).map(|d| text(&d["name"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}
