//! Node labels by a feature file of the node feature discovery, which needs no access to the API server: its worker
//! reads the file and its master sets what it says. Written whole, and taken away when it is not asked for. Which labels
//! there are is core's to say; by the API server they are set elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocade_core::Host;
use rocade_core::config::Labels;
use rocade_core::labels::{SinceBoot, labels};
use tokio::sync::watch;

use crate::cdi::{remove, write_whole};
use crate::state::{NodeState, wait_for_look};

/// Where the worker of the node feature discovery looks (source `local`).
pub(crate) const FEATURES_DIR: &str = "/etc/kubernetes/node-feature-discovery/features.d";

/// The feature file, and in the agent's own directory what ports showed since boot.
const FILE: &str = "rdma.rocade.dev";
const SINCE_BOOT: &str = "since-boot.json";

/// What ports showed since boot, kept where nothing outlives a boot (/run is a tmpfs).
#[derive(Debug)]
pub(crate) struct Memory {
    path: Option<PathBuf>,
    seen: SinceBoot,
}

impl Memory {
    /// In a directory, or for this process alone.
    pub(crate) fn read(dir: Option<&Path>) -> Memory {
        let path = dir.map(|dir| dir.join(SINCE_BOOT));
        let text = path.as_ref().and_then(|path| fs::read_to_string(path).ok());
        Memory { path, seen: text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default() }
    }

    /// With what the host shows now; the labels of it.
    pub(crate) fn labels(&mut self, host: &Host, nfd_keys: bool) -> BTreeMap<String, String> {
        let seen = self.seen.saw(host);
        if seen != self.seen {
            self.seen = seen;
            if let Err(error) = self.write() {
                tracing::warn!(%error, "what ports showed since boot is forgotten when the agent ends");
            }
        }
        labels(host, self.seen, nfd_keys)
    }

    fn write(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        write_whole(path, &serde_json::to_string(&self.seen).map_err(io::Error::other)?)
    }
}

/// Keeps the feature file as the configuration and the host are. Never ends.
pub(crate) async fn run_feature_file(
    dir: PathBuf,
    mut memory: Memory,
    mut states: watch::Receiver<Arc<NodeState>>,
) {
    let path = dir.join(FILE);
    let mut last: Option<Option<String>> = None;
    wait_for_look(&mut states).await;
    loop {
        let state = Arc::clone(&states.borrow_and_update());
        let publish = &state.config.publish;
        let wanted =
            (publish.labels == Labels::Nfd).then(|| render(&memory.labels(&state.host, publish.nfd_keys)));
        if last.as_ref() != Some(&wanted) {
            match write(&path, wanted.as_deref()) {
                Ok(()) => last = Some(wanted),
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "node labels are not as configured")
                }
            }
        }
        if states.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

fn write(path: &Path, text: Option<&str>) -> io::Result<()> {
    let Some(text) = text else { return remove(path) };
    write_whole(path, text).inspect(|()| tracing::info!(file = %path.display(), "wrote node labels"))
}

/// A line a label; far below the 64 KiB that are read.
fn render(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

#[cfg(test)]
mod tests;
