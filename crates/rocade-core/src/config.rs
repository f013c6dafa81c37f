//! Configuration as text → types. The types are the same whichever format they were written in; each format has a
//! file below. Which file is read, and when, is the agent's business.

mod agent_config;
mod config_json;
mod convert;
mod file;
mod json;
mod value;
mod wrong;

pub use agent_config::{Section, agent_config_schema, render_agent_config};
pub use config_json::parse_config_json;
pub use convert::to_agent_config;
pub use file::{ConfigFile, parse_config};
pub(crate) use value::{drivers_below, meant_link_type};
pub(crate) use wrong::{distance, nearest};

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::host::{FunctionKind, LinkLayer, RoleKind, Transport};
use crate::names::ResourceName;

/// Prefix of a resource that names none.
pub const DEFAULT_PREFIX: &str = "rdma";

/// The kubelet takes device lists of at most 4 MiB; an entry with a six-digit ID costs 19 bytes.
pub const MAX_SLOTS: u32 = 200_000;

/// What was read and what is odd about it, or all findings, at least one of them an error.
pub type Parsed<T> = Result<(T, Vec<Finding>), Vec<Finding>>;

/// What an administrator wants offered.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// How the file is written, whose words the reasons use.
    pub dialect: Dialect,
    /// Seconds between two looks at the whole host, whatever happens on it; None: as events tell, and seldom besides.
    pub update_interval_s: Option<u64>,
    /// The resources, in the order of the file; each name once.
    pub resources: Vec<Resource>,
    /// Whether devices carry their NUMA node, from which the kubelet's topology manager makes hints.
    pub topology_hints: bool,
    /// Whether grants are CDI names.
    pub cdi: Cdi,
    /// What the cluster is told besides the resources.
    pub publish: Publish,
}

/// Which of two files a configuration was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The k8s-rdma-shared-dev-plugin's config.json: no globs, and only what that plugin offers as well is withheld.
    ConfigJson,
    /// `kind: AgentConfig`.
    AgentConfig,
}

/// One extended resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// As Pods ask for it.
    pub name: ResourceName,
    /// What a device ID stands for, and how many there are.
    pub sharing: Sharing,
    /// Which HCAs stand behind it.
    pub selectors: Selectors,
    /// HCAs that any of these selects are out of it.
    pub exclude: Vec<Selectors>,
    /// Which char devices a container gets besides uverbs and rdma_cm.
    pub char_devices: CharDevices,
    /// Traffic class (0 to 255, DSCP in the upper six bits) that its Pods should use.
    pub traffic_class: Option<u8>,
    /// Service level (0 to 15) that its Pods should use.
    pub service_level: Option<u8>,
    /// What becomes of HCAs that fail.
    pub health: Health,
}

/// What a device ID of a resource stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each of N tokens is worth all HCAs of the pool: IDs "0" to "N - 1".
    Tokens(Slots),
    /// One device an HCA, or `share` devices an HCA, each of a different HCA while that is possible.
    Hca {
        /// How many Pods may have the same HCA; 1 to give it to one alone.
        share: u32,
    },
}

/// How many tokens a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slots {
    /// So many.
    Fixed(u32),
    /// As many as the narrowest port's GID table holds beside the host's own entries.
    Auto {
        /// GIDs that a Pod's interface takes.
        gids_per_pod: u32,
    },
}

/// Char devices that not every Pod needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CharDevices {
    /// umadN, by which management packets are sent.
    pub umad: bool,
    /// issmN, which announces a subnet manager while it is open.
    pub issm: bool,
}

/// What becomes of HCAs that are not ACTIVE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Health {
    /// Whether the kubelet is told.
    pub policy: HealthPolicy,
    /// How long an HCA must have been down before it is unhealthy. One that is down when the agent starts is at once.
    pub down_after: Duration,
    /// How long it must have been up before it is healthy again; longer while it flaps.
    pub up_after: Duration,
    /// What a pool of several HCAs behind the same IDs does when one of them fails.
    pub degraded: Degraded,
}

/// Who learns of a failed HCA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum HealthPolicy {
    /// Log, metrics, status; the devices stay Healthy.
    Report,
    /// The kubelet too: the devices are Unhealthy.
    Withhold,
}

/// What a pool does when some of the HCAs behind one ID have failed; when all have, its policy counts alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Degraded {
    /// All its IDs are unhealthy.
    Withhold,
    /// The IDs stay, new grants are made of the other HCAs.
    Degrade,
    /// Nothing.
    Ignore,
}

/// How grants name what a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cdi {
    /// As device nodes.
    Off,
    /// As CDI names, where the container runtime is known to honour them.
    On {
        /// The runtime as the administrator states it (`containerd 2.0.1`); None: ask its socket.
        runtime: Option<String>,
    },
}

/// What the cluster is told besides the resources. All off by default: each of them writes to the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publish {
    /// Labels of hardware facts.
    pub labels: Labels,
    /// NFD's own keys `feature.node.kubernetes.io/custom-rdma.capable` and `.available` too.
    pub nfd_keys: bool,
    /// The NodeCondition RdmaDegraded.
    pub condition: bool,
    /// The taint `rdma.rocade.dev/not-ready` is taken off once all is offered.
    pub taint: bool,
    /// Events on the node.
    pub events: bool,
}

/// How node labels are set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Labels {
    /// Not at all.
    #[default]
    #[serde(rename = "none")]
    Off,
    /// By a feature file of the node feature discovery, without access to the API server.
    Nfd,
    /// By the API server.
    Api,
}

/// Which HCAs: every list that is not empty must hold a value of the HCA, and every limit be met.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selectors {
    /// PCI vendor ids, as `15b3`.
    pub vendors: Vec<String>,
    /// PCI device ids, as `1021`.
    pub device_ids: Vec<String>,
    /// Drivers of the PCI function, as `mlx5_core`.
    pub drivers: Vec<String>,
    /// Network interfaces; `*` stands for any text but in config.json.
    pub if_names: Vec<String>,
    /// `infiniband`, `ether`: the link type of an interface (config.json alone).
    pub link_types: Vec<String>,
    /// Names of HCAs, `*` for any text.
    pub hcas: Vec<String>,
    /// PCI addresses, `*` for any text.
    pub pci_addresses: Vec<String>,
    /// Link layers of ports.
    pub link_layers: Vec<LinkLayer>,
    /// What ports speak.
    pub transports: Vec<Transport>,
    /// What the HCA is for.
    pub roles: Vec<RoleKind>,
    /// NUMA nodes.
    pub numa_nodes: Vec<u32>,
    /// PF, VF or SF.
    pub functions: Vec<FunctionKind>,
    /// The least rate of a port in Gbit/s (10⁹ bit/s).
    pub min_rate_gbps: Option<f64>,
}

impl Selectors {
    /// Whether nothing is selected by anything.
    pub fn is_empty(&self) -> bool {
        *self == Selectors::default()
    }
}

impl Health {
    /// Of config.json: what the k8s-rdma-shared-dev-plugin offers stays offered.
    pub const REPORT: Health = Health { policy: HealthPolicy::Report, ..Health::WITHHOLD };

    /// Of `kind: AgentConfig` where it says nothing else.
    pub const WITHHOLD: Health = Health {
        policy: HealthPolicy::Withhold,
        down_after: Duration::from_secs(30),
        up_after: Duration::from_secs(10),
        degraded: Degraded::Degrade,
    };
}

impl Config {
    /// A config.json's, whose every resource is shared by tokens and only reports.
    pub fn of_config_json(update_interval_s: Option<u64>, resources: Vec<Resource>) -> Config {
        Config {
            dialect: Dialect::ConfigJson,
            update_interval_s,
            resources,
            topology_hints: false,
            cdi: Cdi::Off,
            publish: Publish::default(),
        }
    }
}

impl Resource {
    /// A config.json's: so many tokens, and all char devices, as that plugin's Pods have them.
    pub fn of_config_json(name: ResourceName, slots: u32, selectors: Selectors) -> Resource {
        Resource {
            name,
            sharing: Sharing::Tokens(Slots::Fixed(slots)),
            selectors,
            exclude: Vec::new(),
            char_devices: CharDevices { umad: true, issm: true },
            traffic_class: None,
            service_level: None,
            health: Health::REPORT,
        }
    }
}
