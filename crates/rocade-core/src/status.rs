//! What an agent tells of itself: the one document of `rocade status` and of the agent's socket. Both ends have these
//! types; how the document travels is the agent's business, how it is shown the door's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::{HcaName, ResourceName};

/// Version of the document; raised when a field changes its meaning or goes away.
pub const STATUS_VERSION: u32 = 1;

/// All that an agent tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// [`STATUS_VERSION`] of the writer.
    pub schema_version: u32,
    /// The agent itself.
    pub agent: AgentSeen,
    /// What the kubelet answered when it was asked for this document.
    pub kubelet: KubeletSeen,
    /// The resources, in the order of the configuration.
    pub resources: Vec<ResourceSeen>,
    /// The host's HCAs, by name.
    pub hcas: Vec<HcaSeen>,
    /// Sockets in the kubelet's plugin directories.
    pub sockets: Vec<SocketSeen>,
    /// What went wrong last, the latest first.
    pub errors: Vec<ErrorSeen>,
}

/// The agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentSeen {
    /// Version of the program.
    pub version: String,
    /// Its process, in its own PID namespace.
    pub pid: u32,
    /// When it started, seconds since 1970 (UTC).
    pub started_unix_s: u64,
    /// The configuration in force.
    pub config: String,
    /// Why the file that is there now is not in force; None where it is.
    pub config_refused: Option<String>,
    /// What is off though it was asked for, and why.
    pub refused: Vec<String>,
    /// The filter of its log, as `info`.
    pub log_level: String,
}

/// The kubelet, as the agent meets it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KubeletSeen {
    /// The socket on which plugins register.
    pub socket: String,
    /// Whether it is there.
    pub there: bool,
    /// The socket on which the kubelet tells what it gave to whom.
    pub pod_resources: String,
    /// Why it did not tell; None where it did.
    pub unanswered: Option<String>,
}

/// One resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSeen {
    /// As Pods ask for it.
    pub resource: ResourceName,
    /// Device IDs that are offered.
    pub slots: u32,
    /// Those of them that are offered as Healthy.
    pub healthy: u32,
    /// How it stands with the kubelet.
    pub registration: Registration,
    /// Devices that the kubelet would give to Pods (GetAllocatableResources); None where it did not tell.
    pub allocatable: Option<u32>,
    /// What Pods hold (List).
    pub grants: Vec<GrantSeen>,
    /// Why Pods do not get what was configured, each in a sentence; empty where they do.
    pub unserved: Vec<String>,
    /// The HCAs in the pool.
    pub members: Vec<HcaName>,
    /// The HCAs out of it, and the first thing that kept each out.
    pub left_out: Vec<LeftOutSeen>,
}

/// How a resource stands with the kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registration {
    /// Whether the kubelet watches the list now.
    pub listening: bool,
    /// Through kubelet.sock or the plugin watcher.
    pub way: Way,
    /// The path that the kubelet was told to dial; None while it was told none.
    pub endpoint: Option<String>,
    /// How often it was registered since the agent started.
    pub count: u64,
    /// Why the last try failed; None where it did not.
    pub error: Option<String>,
}

/// How a resource is made known to the kubelet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The agent calls Register on kubelet.sock.
    #[default]
    KubeletSocket,
    /// The kubelet finds a socket in plugins_registry.
    PluginWatcher,
}

/// What a container holds of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct GrantSeen {
    /// Namespace of the Pod.
    pub namespace: String,
    /// The Pod.
    pub pod: String,
    /// Its container.
    pub container: String,
    /// The device IDs.
    pub ids: Vec<String>,
    /// What is wrong with it; None where nothing is.
    pub fault: Option<String>,
}

/// An HCA out of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOutSeen {
    /// Its name.
    pub hca: HcaName,
    /// The first thing that kept it out, in the plan's words.
    pub reason: String,
}

/// One HCA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HcaSeen {
    /// Its name.
    pub hca: HcaName,
    /// Whether it is offered as good where a pool has it.
    pub healthy: bool,
    /// Why not; None where it is.
    pub reason: Option<String>,
    /// Resources that have it.
    pub resources: Vec<ResourceName>,
}

/// A socket in one of the kubelet's plugin directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketSeen {
    /// Its path.
    pub path: String,
    /// Who listens on it.
    pub owner: Owner,
    /// The resource that it serves, where it is this agent's.
    pub resource: Option<ResourceName>,
}

/// Who listens on a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// This agent.
    Own,
    /// The kubelet: it is kubelet.sock.
    Kubelet,
    /// A process of this PID namespace, with its name.
    Process {
        /// Its number.
        pid: u32,
        /// Its name (/proc/PID/comm).
        name: String,
    },
    /// Somebody outside this PID namespace.
    Elsewhere,
    /// Nobody: it was left behind, and the kubelet dials it in vain.
    Nobody,
    /// It could not be dialled for this reason.
    Unknown(String),
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorSeen {
    /// When, seconds since 1970 (UTC).
    pub at_unix_s: u64,
    /// The resource that it concerns, where it concerns one.
    pub resource: Option<ResourceName>,
    /// What was seen, and what was wanted.
    pub text: String,
}

impl Status {
    /// Whether the configuration is in force and all resources are served.
    pub fn is_ready(&self) -> bool {
        self.agent.config_refused.is_none()
            && self.agent.refused.is_empty()
            && self.resources.iter().all(|resource| resource.unserved.is_empty())
    }
}
