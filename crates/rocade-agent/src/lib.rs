//! The node agent: serves each configured resource to the kubelet over the device plugin API v1beta1 and comes back by
//! itself after whatever happens to the kubelet or to its sockets. Which HCAs stand behind a resource is core's to
//! say, what the host has is host's; the Kubernetes API server is asked only where the configuration wants it.
#![forbid(unsafe_code)]

pub mod api;
mod cdi;
mod cluster;
mod config;
mod cri;
mod dial;
mod directory;
mod endpoint;
mod error;
mod kubelet_root;
mod labels;
pub mod list;
mod look;
mod node;
pub mod outside;
mod pieces;
mod plugin;
pub mod pod_resources;
mod resource;
mod resources;
mod sockets;
mod sources;
pub mod state;
mod watcher;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use rocade_core::config::Config;
use rocade_core::plan::needs;
use rocade_host::Root;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use config::{AGENT_YAML, CONFIG_JSON, ConfigSource, Configured};
pub use error::Error;
pub use kubelet_root::find_kubelet_root;
pub use resource::Choice;

use cdi::SpecFile;
use directory::run_directory_watch;
use node::{Node, Setup};
use outside::{Outside, Place, run_outside};
use resources::{Serving, run_resources};
use sockets::Sockets;
use sources::{run_config_watch, run_sources};

/// Where the kubelet looks for device plugins, whatever its root directory is.
pub const DEVICE_PLUGIN_DIR: &str = "/var/lib/kubelet/device-plugins";

/// What an agent needs to run.
pub struct Options {
    /// What to offer.
    pub config: Config,
    /// How the configuration is read again when it may have changed; None to keep the one that is given.
    pub reload: Option<ConfigSource>,
    /// The host to offer it of, live or recorded.
    pub root: Root,
    /// Directory of kubelet.sock; tests have one of their own, every real node [`DEVICE_PLUGIN_DIR`].
    pub device_plugin_dir: PathBuf,
    /// The kubelet's root directory, below which plugins_registry and pod-resources lie.
    pub kubelet_root: PathBuf,
    /// By which way resources are registered.
    pub registration: Choice,
    /// By what it shows itself beside the kubelet.
    pub outside: Outside,
    /// Each message has the configuration and the host looked at anew.
    pub again: mpsc::UnboundedReceiver<()>,
}

impl Options {
    /// Of an agent that keeps its configuration, finds the kubelet's directories beside that of device plugins, and shows
    /// itself to nobody.
    pub fn new(config: Config, root: Root, device_plugin_dir: PathBuf) -> Options {
        Options {
            config,
            reload: None,
            root,
            kubelet_root: device_plugin_dir.parent().map(PathBuf::from).unwrap_or_default(),
            device_plugin_dir,
            registration: Choice::default(),
            outside: Outside::default(),
            again: mpsc::unbounded_channel().1,
        }
    }
}

/// Serves all resources until `stop` is done, then takes its sockets away. A missing, refusing or vanishing kubelet is
/// waited for and never an error.
///
/// # Errors
/// A directory so long that no socket in it can have a name.
pub async fn run_agent(options: Options, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let Options { config, reload, root, device_plugin_dir, kubelet_root, registration, outside, again } =
        options;
    let (root, config) = (Arc::new(root), Arc::new(config));
    let cdi = Arc::new(SpecFile::new(outside.cdi_dir.clone(), outside.runtimes.clone()));
    let (registry, pod_resources) =
        (kubelet_root.join("plugins_registry"), kubelet_root.join("pod-resources/kubelet.sock"));
    let place = Place {
        root: Arc::clone(&root),
        plugin_dirs: vec![device_plugin_dir.clone(), registry.clone()],
        pod_resources: pod_resources.clone(),
    };
    let sockets = Arc::new(Sockets::new(device_plugin_dir, registry)?);
    let notices = mpsc::unbounded_channel();
    let tell = notices.0.clone();
    let files = reload.as_ref().map(ConfigSource::files).unwrap_or_default();
    let addresses = needs(&config).gids;
    let setup = Setup { config, root: Arc::clone(&root), reload, pod_resources };
    let (node, states) = Node::new(setup, notices);
    let (see, sightings) = watch::channel(sockets.look());
    let (end, ending) = watch::channel(false);

    let mut loops = JoinSet::new();
    loops.spawn(node.run());
    let serving = Serving {
        states: states.clone(),
        tell: tell.clone(),
        sockets: Arc::clone(&sockets),
        cdi: Arc::clone(&cdi),
        choice: registration,
        sightings,
    };
    let mut served = JoinSet::new();
    served.spawn(run_resources(serving, ending));
    loops.spawn(run_kubelet_watch(Arc::clone(&sockets), see, tell.clone()));
    loops.spawn(run_sources(root, addresses, states.clone(), tell.clone()));
    loops.spawn(run_again(again, files, tell));
    loops.spawn(run_outside(outside, place, cdi, states));
    tokio::select! {
        () = stop => tracing::info!("stopping"),
        // These loops never end: if one does, it panicked, and an agent without it would only look alive.
        Some(Err(panic)) = loops.join_next() => std::panic::resume_unwind(panic.into_panic()),
        Some(Err(panic)) = served.join_next() => std::panic::resume_unwind(panic.into_panic()),
    }
    end.send_replace(true);
    while served.join_next().await.is_some() {}
    Ok(())
}

/// Watches the directories in which the kubelet and plugins have their sockets.
async fn run_kubelet_watch(
    sockets: Arc<Sockets>,
    see: watch::Sender<sockets::Sighting>,
    tell: mpsc::UnboundedSender<node::Notice>,
) {
    sockets.remove_stale().await;
    let seen = || {
        see.send_replace(sockets.look());
        let _ = tell.send(node::Notice::KubeletChanged);
    };
    tokio::join!(run_directory_watch(sockets.dir(), seen), run_directory_watch(sockets.registry(), seen));
}

/// Tells the writer when it was asked to look again, and when something in the configuration's folder changed.
async fn run_again(
    mut again: mpsc::UnboundedReceiver<()>,
    files: Vec<PathBuf>,
    tell: mpsc::UnboundedSender<node::Notice>,
) {
    let asked = async {
        while again.recv().await.is_some() {
            let _ = tell.send(node::Notice::ConfigChanged);
            let _ = tell.send(node::Notice::Hint(node::Hint::Whole));
        }
        std::future::pending::<()>().await;
    };
    let mut watches = JoinSet::new();
    for file in files {
        let tell = tell.clone();
        watches.spawn(async move { run_config_watch(&file, &tell).await });
    }
    asked.await;
}
