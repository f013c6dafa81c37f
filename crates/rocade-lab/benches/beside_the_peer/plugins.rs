//! The two programs and the one configuration that both read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rocade_lab::cache::Cache;
use rocade_lab::peer::Peer;
use rocade_lab::product;
use rocade_lab::stage::Stage;

/// The one resource.
pub(crate) const RESOURCE: &str = "rdma/hca";

/// Where rocade serves metrics; the peer has none.
const METRICS: &str = "127.0.0.1:9407";

/// A device plugin to run.
#[derive(Debug)]
pub(crate) enum Plugin {
    Rocade(PathBuf),
    Peer(Peer),
}

impl Plugin {
    pub(crate) fn rocade(cache: &Cache) -> Result<Plugin> {
        Ok(Plugin::Rocade(product::build(cache.steps())?))
    }

    pub(crate) fn peer(cache: &Cache) -> Result<Plugin> {
        Ok(Plugin::Peer(Peer::prepare(cache)?))
    }

    pub(crate) fn command(&self, config: &Path) -> Command {
        match self {
            Plugin::Peer(peer) => peer.command(config),
            Plugin::Rocade(program) => {
                let mut command = Command::new(program);
                command.args(["agent", "--listen", METRICS, "--config"]).arg(config);
                command
            }
        }
    }

    /// Has the metrics told, if it has any, as a Prometheus would.
    pub(crate) fn scrape(&self, stage: &Stage) -> Result<()> {
        if let Plugin::Rocade(_) = self {
            let said = stage.get(METRICS, "/metrics")?;
            ensure!(said.contains("\nrocade_"), "no metrics: {said}");
        }
        Ok(())
    }
}

/// Writes a config.json that makes one resource of all four HCAs, and leaves the interval of rescans as it is.
pub(crate) fn write_config(folder: &Path, slots: usize) -> Result<PathBuf> {
    let path = folder.join(format!("config-{slots}.json"));
    let text = format!(
        r#"{{"configList": [{{"resourceName": "hca", "rdmaHcaMax": {slots}, "selectors": {{"vendors": ["15b3"]}}}}]}}"#
    );
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}
