//! The CDI spec file of this node's HCAs, and whether grants are by its names: only where the container runtime is
//! known to honour them. The file is written whole, again at each start and whenever the host changes, and outlives the
//! agent: a container that is started again is made by the names that were granted. What it says is core's to say.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rocade_core::Host;
use rocade_core::cdi::{KIND, Runtime, Split, refuse_runtime, spec};
use rocade_core::config;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::cri::read_runtime;
use crate::sockets::FileId;
use crate::state::{NodeState, wait_for_look};

/// Where runtimes look for spec files that programs write.
pub(crate) const CDI_DIR: &str = "/var/run/cdi";

/// Sockets on which container runtimes answer the kubelet.
pub(crate) const RUNTIMES: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"];

/// The file, named after the kind.
const FILE: &str = "rocade.dev-hca.json";

/// Between two questions to a runtime that is not there.
const AGAIN: Duration = Duration::from_secs(60);

/// Whether grants are by CDI names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Not asked for.
    #[default]
    Off,
    /// Asked for and refused, for this reason; grants are by device nodes.
    Refused(String),
    /// Asked for, and the runtime honours them.
    On,
}

/// The spec file of this node.
#[derive(Debug)]
pub(crate) struct SpecFile {
    dir: PathBuf,
    runtimes: Vec<PathBuf>,
    switch: watch::Sender<Switch>,
    /// What the file says, and the file that says it.
    written: Mutex<Option<(String, FileId)>>,
}

impl SpecFile {
    pub(crate) fn new(dir: PathBuf, runtimes: Vec<PathBuf>) -> SpecFile {
        SpecFile { dir, runtimes, switch: watch::Sender::new(Switch::Off), written: Mutex::new(None) }
    }

    /// Whether grants are by CDI names now.
    pub(crate) fn switch(&self) -> Switch {
        self.switch.borrow().clone()
    }

    /// What of a grant is by names, and what by nodes. The file says the same of the host when this returns: a
    /// container is made right after.
    pub(crate) fn split(&self, host: &Host, nodes: Vec<String>) -> Split {
        if *self.switch.borrow() != Switch::On {
            return Split { names: Vec::new(), nodes };
        }
        match self.write(host) {
            Ok(()) => spec(host).split(&nodes),
            Err(error) => {
                tracing::error!(dir = %self.dir.display(), %error, "cannot write the CDI spec file; granted device nodes");
                Split { names: Vec::new(), nodes }
            }
        }
    }

    /// Writes the file unless it is there and says the same; without an HCA there is none.
    fn write(&self, host: &Host) -> io::Result<()> {
        let (spec, path) = (spec(host), self.dir.join(FILE));
        let mut written = lock(&self.written);
        if spec.devices.is_empty() {
            // A file without devices is refused whole.
            *written = None;
            return remove(&path);
        }
        let text = serde_json::to_string_pretty(&spec).map_err(io::Error::other)?;
        let same = |(last, file): &(String, FileId)| *last == text && FileId::of(&path) == Some(*file);
        if written.as_ref().is_some_and(same) {
            return Ok(());
        }
        write_whole(&path, &text)?;
        *written = FileId::of(&path).map(|file| (text, file));
        Ok(())
    }

    /// Decides anew after the configuration; the runtime is asked where it is not stated.
    async fn settle(&self, wanted: &config::Cdi) -> Switch {
        let runtime = match wanted {
            config::Cdi::Off => return Switch::Off,
            config::Cdi::On { runtime: Some(stated) } => {
                stated.parse::<Runtime>().map_err(|error| error.to_string())
            }
            config::Cdi::On { runtime: None } => self.read_runtime().await,
        };
        match runtime.map(|runtime| refuse_runtime(&runtime)) {
            Ok(None) => Switch::On,
            Ok(Some(why)) | Err(why) => Switch::Refused(format!("CDI: {why}")),
        }
    }

    async fn read_runtime(&self) -> Result<Runtime, String> {
        match self.runtimes.iter().find(|socket| socket.exists()) {
            Some(socket) => read_runtime(socket).await,
            None => Err(format!(
                "no container runtime is known: mount its socket (looked for {}) or state cdi.runtime",
                self.runtimes
                    .iter()
                    .map(|socket| socket.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        }
    }
}

/// Keeps the switch as the configuration wants it and the file as the host is. Never ends.
pub(crate) async fn run_spec_file(file: Arc<SpecFile>, mut states: watch::Receiver<Arc<NodeState>>) {
    let mut asked = None;
    wait_for_look(&mut states).await;
    loop {
        let state = Arc::clone(&states.borrow_and_update());
        if asked.as_ref() != Some(&state.config.cdi) || matches!(file.switch(), Switch::Refused(_)) {
            let switch = file.settle(&state.config.cdi).await;
            tell(&file.switch(), &switch);
            file.switch.send_replace(switch);
            asked = Some(state.config.cdi.clone());
        }
        if file.switch() == Switch::On
            && let Err(error) = file.write(&state.host)
        {
            tracing::error!(dir = %file.dir.display(), %error, "cannot write the CDI spec file");
        }
        let refused = matches!(file.switch(), Switch::Refused(_));
        tokio::select! {
            changed = states.changed() => if changed.is_err() { std::future::pending().await },
            () = sleep(AGAIN), if refused => {}
        }
    }
}

fn tell(old: &Switch, new: &Switch) {
    match new {
        _ if old == new => {}
        Switch::Off => tracing::info!("grants are by device nodes"),
        Switch::On => tracing::info!(kind = KIND, "grants are by CDI names"),
        Switch::Refused(why) => tracing::error!(%why, "grants are by device nodes, not by CDI names"),
    }
}

/// Removes a file that may be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        removed => removed,
    }
}

/// Puts a whole file in place: a reader sees the old one or the new one.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().ok_or_else(|| io::Error::other("no directory"))?;
    fs::create_dir_all(dir)?;
    // Neither runtimes nor the node feature discovery read names that begin with a dot or end otherwise.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = dir.join(format!(".{name}.{:x}.tmp", std::process::id()));
    let placed = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if placed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    placed
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
