//! The node agent: serves each configured resource to the kubelet over the device plugin API v1beta1 and comes back by
//! itself after whatever happens to the kubelet or to its sockets. Which HCAs stand behind a resource is core's to
//! say, what the host has is host's; the Kubernetes API server is never asked.
#![forbid(unsafe_code)]

pub mod api;
mod cdi;
mod cluster;
mod config;
mod cri;
mod directory;
mod endpoint;
mod error;
mod labels;
pub mod list;
mod node;
pub mod outside;
mod plugin;
mod resource;
mod sockets;
pub mod state;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use rocade_core::config::Config;
use rocade_host::Root;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use config::{AGENT_YAML, CONFIG_JSON, ConfigSource, Configured};
pub use error::Error;

use cdi::SpecFile;
use directory::run_directory_watch;
use node::{log_pools, read_state, run_rescans};
use outside::{Outside, Place, run_outside};
use resource::{Resource, run_resource};
use sockets::Sockets;

/// Where the kubelet looks for device plugins, whatever its root directory is.
pub const DEVICE_PLUGIN_DIR: &str = "/var/lib/kubelet/device-plugins";

/// What an agent needs to run.
pub struct Options {
    /// What to offer.
    pub config: Config,
    /// The host to offer it of, live or recorded.
    pub root: Root,
    /// Directory of kubelet.sock; tests have one of their own, every real node [`DEVICE_PLUGIN_DIR`].
    pub device_plugin_dir: PathBuf,
    /// By what it shows itself beside the kubelet.
    pub outside: Outside,
}

/// Serves all resources until `stop` is done, then takes its sockets away. A missing, refusing or vanishing kubelet is
/// waited for and never an error.
///
/// # Errors
/// A directory so long that no socket in it can have a name.
pub async fn run_agent(options: Options, stop: impl Future<Output = ()>) -> Result<(), Error> {
    let Options { config, root, device_plugin_dir, outside } = options;
    let root = Arc::new(root);
    let cdi = Arc::new(SpecFile::new(outside.cdi_dir.clone(), outside.runtimes.clone()));
    let place = Place::beside(&device_plugin_dir, Arc::clone(&root));
    let sockets = Arc::new(Sockets::new(device_plugin_dir, &config)?);
    sockets.remove_stale().await;
    let config = Arc::new(config);
    let state = read_state(&root, &config);
    log_pools(None, &state);
    let (write_state, states) = watch::channel(Arc::new(state));
    let (see, sightings) = watch::channel(sockets.look());
    let (end, ending) = watch::channel(false);

    let mut loops = JoinSet::new();
    loops.spawn(run_directory_watch(Arc::clone(&sockets), see));
    let names: Vec<_> = config.resources.iter().map(|r| r.name.clone()).collect();
    loops.spawn(run_rescans(root, config, write_state));
    loops.spawn(run_outside(outside, place, cdi, states.clone()));
    let mut served = JoinSet::new();
    for name in names {
        let resource = Resource { name, sockets: Arc::clone(&sockets), states: states.clone() };
        served.spawn(run_resource(resource, sightings.clone(), ending.clone()));
    }
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
