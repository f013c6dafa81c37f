//! The product's own binary, built by cargo in the profile that this program was built in, and given to nodes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::Cache;
use crate::cluster::Cluster;
use crate::steps::Steps;
use crate::{command, image};

/// Set to anything, the program is built with the address sanitizer, which ends it where it finds something.
const SANITIZE: &str = "ROCADE_SANITIZE";
const SANITIZER: &str = "-Zsanitizer=address";

/// Builds `rocade` where it is out of date and gives its path.
///
/// # Errors
/// It does not compile; the error holds cargo's last lines.
pub fn build(steps: Steps) -> Result<PathBuf> {
    steps.run("building rocade", || {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--locked", "--package", "rocade", "--message-format=json-render-diagnostics"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        if std::env::var_os(SANITIZE).is_some() {
            // With a target, what runs at build time is built without.
            cargo.args(["--target", "host-tuple"]).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", SANITIZER);
        }
        let said = command::run_text(cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")))?;
        parse_executable(&said).context("cargo named no executable of rocade")
    })
}

/// Packs [`image::ROCADE`] around `rocade` and gives it to every node.
///
/// # Errors
/// Packing failed, or a node does not take it; logs are saved then, the error names where.
pub fn give(cache: &Cache, cluster: &Cluster, rocade: &Path) -> Result<()> {
    let given = cache.steps().run(&format!("giving {} to the nodes", image::ROCADE), || {
        let archive = tempfile::NamedTempFile::new()?;
        image::write_rocade(cache, rocade, archive.path())?;
        cluster.import_image(archive.path())
    });
    given.map_err(|error| cluster.with_logs(error))
}

/// From cargo's messages, one JSON object a line: the program of the target `rocade`.
fn parse_executable(messages: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut programs = messages.filter(|it| it["target"]["name"] == "rocade" && it["executable"].is_string());
    programs.next().and_then(|it| it["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_told_from_libraries_and_other_programs() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"rocade_core"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"rocade"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"rocade"},"executable":"/t/debug/rocade"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(parse_executable(messages), Some(PathBuf::from("/t/debug/rocade")));
    }
}
