//! What the agent tells those who ask it, beside the kubelet: a status document on a unix socket, health, readiness and
//! metrics over HTTP. All of it is read from the node's state when it is asked for; nothing here changes that state, and
//! nobody who asks costs anything while nobody does.

mod client;
mod http;
mod metrics;
mod own_socket;
mod pages;
mod plugin_sockets;
mod report;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use rocade_core::status::Status;
use rocade_host::Root;
use tokio::sync::watch;

pub use crate::cluster::Access;
pub use client::{AskError, read_status, write_log_level};
pub use metrics::{Kind, METRICS, Metric};

use crate::cdi::{CDI_DIR, RUNTIMES, SpecFile, run_spec_file};
use crate::cluster::run_cluster;
use crate::labels::{FEATURES_DIR, Memory, run_feature_file};
use crate::state::NodeState;
use pages::Pages;

/// Where the agent listens for `rocade status`.
pub const AGENT_SOCKET: &str = "/run/rocade/agent.sock";

/// What the state alone tells, without the agent's own facts.
pub(crate) fn report_state(state: &NodeState) -> Status {
    report::report(state, &report::Agent::default())
}

/// The version of all crates.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// By what, and to whom, the agent shows itself, and where it writes what was asked for.
pub struct Outside {
    /// The unix socket of `rocade status`; None for none.
    pub socket: Option<PathBuf>,
    /// Where health, readiness and metrics are told; None for nowhere.
    pub listen: Option<Listen>,
    /// Name of the configuration, for people.
    pub config: String,
    /// The log, whose level can be changed; None where it cannot.
    pub log: Option<Arc<dyn Log>>,
    /// Where the container runtime looks for CDI spec files.
    pub cdi_dir: PathBuf,
    /// Sockets of the container runtime; the first that is there is asked.
    pub runtimes: Vec<PathBuf>,
    /// Where the node feature discovery looks for feature files.
    pub features_dir: PathBuf,
    /// Name of the node in the cluster; None where it was not told.
    pub node: Option<String>,
    /// The API server, which is spoken to only where the configuration asks for it.
    pub api_server: Access,
}

impl Default for Outside {
    /// Listens nowhere; directories and sockets are those of every node.
    fn default() -> Self {
        Outside {
            socket: None,
            listen: None,
            config: String::new(),
            log: None,
            cdi_dir: CDI_DIR.into(),
            runtimes: RUNTIMES.map(PathBuf::from).into(),
            features_dir: FEATURES_DIR.into(),
            node: None,
            api_server: Access::default(),
        }
    }
}

/// A log whose level can be changed while it is written.
pub trait Log: Send + Sync {
    /// The filter in force, as `info`.
    fn level(&self) -> String;

    /// Puts another one in force.
    ///
    /// # Errors
    /// What is wrong with the filter, in a sentence.
    fn set_level(&self, level: &str) -> Result<(), String>;
}

/// An address to listen on: `127.0.0.1:9407`, `[::1]:9407`, or `:9407` for all of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen {
    /// None for all addresses, of both families where the host has both.
    at: Option<SocketAddr>,
    port: u16,
}

impl Listen {
    /// What to bind, each where the one before cannot be had.
    fn addresses(self) -> Vec<SocketAddr> {
        let all = [(Ipv6Addr::UNSPECIFIED, self.port).into(), (Ipv4Addr::UNSPECIFIED, self.port).into()];
        self.at.map_or(all.to_vec(), |address| vec![address])
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let wrong = || format!("`{s}` is not an address and a port, as :9407 or 127.0.0.1:9407");
        if let Some(port) = s.strip_prefix(':') {
            return Ok(Listen { at: None, port: port.parse().map_err(|_| wrong())? });
        }
        let at: SocketAddr = s.parse().map_err(|_| wrong())?;
        Ok(Listen { at: Some(at), port: at.port() })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{at}"),
            None => write!(f, ":{}", self.port),
        }
    }
}

/// What the pages are made of besides the state.
pub(crate) struct Place {
    /// The host, read again for its counters.
    pub(crate) root: Arc<Root>,
    /// The kubelet's directories in which plugins have sockets.
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The kubelet's socket of grants.
    pub(crate) pod_resources: PathBuf,
}

/// Answers until it is dropped. Never ends.
pub(crate) async fn run_outside(
    outside: Outside,
    place: Place,
    cdi: Arc<SpecFile>,
    states: watch::Receiver<Arc<NodeState>>,
) {
    let Outside { socket, listen, config, log, features_dir, node, api_server, .. } = outside;
    let memory = || Memory::read(socket.as_deref().and_then(Path::parent));
    let cluster = run_cluster(node, api_server, memory(), states.clone());
    let labels = run_feature_file(features_dir, memory(), states.clone());
    let spec_file = run_spec_file(Arc::clone(&cdi), states.clone());
    let pages = Arc::new(Pages::new(place, states, config, log, cdi, SystemTime::now()));
    tokio::join!(
        labels,
        spec_file,
        cluster,
        async {
            match &socket {
                Some(path) => own_socket::run_socket(path, &pages).await,
                None => std::future::pending().await,
            }
        },
        async {
            match listen {
                Some(listen) => http::run_listener(listen, &pages).await,
                None => std::future::pending().await,
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_means_all_addresses_of_both_families() {
        let listen: Listen = ":9407".parse().unwrap();
        assert_eq!(listen.addresses(), ["[::]:9407".parse().unwrap(), "0.0.0.0:9407".parse().unwrap()]);
        assert_eq!(listen.to_string(), ":9407");
        let one: Listen = "127.0.0.1:9407".parse().unwrap();
        assert_eq!(one.addresses(), ["127.0.0.1:9407".parse().unwrap()]);
        for wrong in ["9407", ":", "host:9407", "127.0.0.1", ":99999"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
