//! The one state of the node, as its one writer publishes it: what the host has, what the kubelet is told of it, and
//! how both came about. Whoever shows it (status, metrics, labels) reads it here and nowhere else.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::config::Config;
pub use rocade_core::health::Condition;
use rocade_core::plan::{GrantedNode, Pool};
use rocade_core::{HcaName, Host, ResourceName};

use tokio::sync::watch;

use crate::list::DeviceList;

/// All that is known of the node. Parts that did not change are shared between two states.
#[derive(Debug, Clone)]
pub struct NodeState {
    /// How often a state was published, from 1.
    pub generation: u64,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// A newer configuration that was refused; None while the file holds the one in force.
    pub config_error: Option<Arc<LastError>>,
    /// How many configurations were refused since the agent started.
    pub config_failures: u64,
    /// The host as last read.
    pub host: Arc<Host>,
    /// That reading; None before the first: then nothing is known yet, and the kubelet is told no list.
    pub look: Option<Look>,
    /// Health of each HCA that the configuration is about or was, by name.
    pub hcas: BTreeMap<HcaName, HcaState>,
    /// In the order of the configuration, then those that it has no more and Pods still hold.
    pub resources: Vec<ResourceState>,
    /// Grants that this process made and that a Pod may still hold, oldest first.
    pub grants: Vec<Arc<Granted>>,
    /// What went wrong, newest last; repeated errors are one entry.
    pub errors: VecDeque<Arc<LastError>>,
}

/// One reading of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// When it ended.
    pub at: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Paths that did not answer.
    pub silent: Vec<PathBuf>,
}

/// One resource: what stands behind it and how the kubelet was told.
#[derive(Debug, Clone)]
pub struct ResourceState {
    /// What the plan says: its HCAs, and why others are out.
    pub pool: Arc<Pool>,
    /// What the kubelet is told.
    pub listing: Arc<Listing>,
    /// How the kubelet knows of it.
    pub registration: Registration,
    /// Who holds which device ID, by the kubelet's word; None while it was not asked or did not answer.
    pub holders: Option<Arc<BTreeMap<String, Holder>>>,
    /// How many devices the kubelet itself says are there for Pods; None while it was not asked or did not answer.
    pub allocatable: Option<u32>,
    /// How often the kubelet's own view was found wrong and mended by a new registration.
    pub repairs: u64,
}

/// The device list of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// Number of devices.
    pub devices: u32,
    /// How many of them are Healthy.
    pub healthy: u32,
    /// Why the others are not, each reason once with the number of devices.
    pub reasons: Vec<(String, u32)>,
    /// The devices themselves, as the kubelet gets them.
    pub list: DeviceList,
}

/// Health of one HCA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HcaState {
    /// Whether Pods can use it.
    pub condition: Condition,
    /// Whether it counts as good in all its pools: a condition counts only once it has lasted.
    pub healthy: bool,
    /// Why it is not [`Condition::Up`]; empty when it is.
    pub reason: String,
    /// Since when it is so.
    pub since: SystemTime,
    /// How often it went down since the agent started.
    pub flaps: u32,
}

/// How the kubelet knows of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// By which of its two ways.
    pub way: Way,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is so far.
    pub since: SystemTime,
    /// The socket that is served, by its path here.
    pub socket: Option<PathBuf>,
    /// The path that the kubelet was told, which is one of the host.
    pub told: Option<PathBuf>,
    /// Open ListAndWatch streams.
    pub streams: usize,
    /// Registrations that the kubelet took since the agent started.
    pub count: u64,
    /// The last attempt that failed.
    pub last_error: Option<Arc<LastError>>,
}

/// A way to make a resource known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Register on kubelet.sock.
    Kubelet,
    /// A socket in plugins_registry that the kubelet finds.
    Watcher,
}

/// How far a registration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No kubelet is there, or none has found the socket yet.
    Waiting,
    /// The last attempt failed; another follows.
    Failed,
    /// The kubelet took it and did not open ListAndWatch yet.
    Registered,
    /// The kubelet has ListAndWatch open.
    Watched,
}

/// The Pod that holds a device, as PodResources names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Namespace of the Pod.
    pub namespace: String,
    /// Name of the Pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

/// One container's grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The resource.
    pub resource: ResourceName,
    /// The device IDs.
    pub ids: Vec<String>,
    /// When Allocate answered.
    pub at: SystemTime,
    /// The HCAs and ports, as the container's environment says: `mlx5_0:1`; shared like the nodes.
    pub ports: Arc<str>,
    /// The device nodes with the numbers that they had, shared by grants that got the same.
    pub nodes: Arc<[GrantedNode]>,
    /// What is wrong with it now: a node's number that is another HCA's or no one's. Empty when nothing is.
    pub faults: Vec<String>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastError {
    /// When it last happened.
    pub at: SystemTime,
    /// What it was about: a resource, a file.
    pub subject: String,
    /// What happened, in one line.
    pub text: String,
    /// How often it happened in a row.
    pub times: u32,
}

impl NodeState {
    /// The resource of that name.
    pub fn resource(&self, name: &ResourceName) -> Option<&ResourceState> {
        self.resources.iter().find(|r| r.pool.resource == *name)
    }
}

impl Registration {
    /// Of a resource that nobody was told of yet.
    pub(crate) fn waiting(way: Way) -> Registration {
        Registration {
            way,
            phase: Phase::Waiting,
            since: SystemTime::now(),
            socket: None,
            told: None,
            streams: 0,
            count: 0,
            last_error: None,
        }
    }
}

/// Until the host was looked at: before, a state says nothing of it.
pub(crate) async fn wait_for_look(states: &mut watch::Receiver<Arc<NodeState>>) {
    if states.wait_for(|state| state.look.is_some()).await.is_err() {
        std::future::pending().await
    }
}
