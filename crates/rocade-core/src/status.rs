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
    /// Why the others are not, each reason once.
    pub unhealthy: Vec<String>,
    /// How it stands with the kubelet.
    pub registration: RegistrationSeen,
    /// Devices that the kubelet would give to Pods (GetAllocatableResources); None where it did not tell.
    pub allocatable: Option<u32>,
    /// What Pods hold (List); None where the kubelet did not tell.
    pub grants: Option<Vec<GrantSeen>>,
    /// What its device IDs are worth, in words: `63 tokens, 1 HCA, no bandwidth isolation`.
    #[serde(default)]
    pub worth: String,
    /// What was selected and nothing has, each in words: `ens3: no such interface`.
    #[serde(default)]
    pub near_misses: Vec<String>,
    /// The HCAs in the pool, with the ports that are meant: `mlx5_0:1`.
    pub members: Vec<String>,
    /// The HCAs out of it, and the first thing that kept each out.
    pub left_out: Vec<LeftOutSeen>,
}

/// How a resource stands with the kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistrationSeen {
    /// Through kubelet.sock or the plugin watcher.
    pub way: Way,
    /// How far it is.
    pub phase: Phase,
    /// Since when it is so far, seconds since 1970 (UTC).
    pub since_unix_s: u64,
    /// The path that the kubelet was told to dial, which is one of the host; None while it was told none.
    pub told: Option<String>,
    /// The socket that is served, by its path where the agent runs.
    pub socket: Option<String>,
    /// Registrations that the kubelet took since the agent started.
    pub count: u64,
    /// The last attempt that failed.
    pub error: Option<String>,
}

/// How far a registration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// No kubelet is there, or none has found the socket yet.
    Waiting,
    /// The last attempt failed; another follows.
    Failed,
    /// The kubelet took it and does not watch the list yet.
    Registered,
    /// The kubelet watches the list.
    Watched,
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
    /// What is wrong with it now; empty where nothing is.
    pub faults: Vec<String>,
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
    /// Whether Pods can use it.
    pub condition: HcaCondition,
    /// Why it is not up; empty when it is.
    pub reason: String,
    /// Since when it is so, seconds since 1970 (UTC).
    pub since_unix_s: u64,
    /// How often it went down since the agent started.
    pub flaps: u32,
    /// Resources that have it.
    pub resources: Vec<ResourceName>,
}

/// Whether Pods can use an HCA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HcaCondition {
    /// A port is ACTIVE and its char device is there.
    Up,
    /// A Pod has its netdev or itself in a network namespace of its own.
    InUse,
    /// No port is ACTIVE, or its char device is not there.
    Down,
    /// It was there and is not any more.
    Gone,
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
    /// When it last happened, seconds since 1970 (UTC).
    pub at_unix_s: u64,
    /// What it was about: a resource, a file.
    pub subject: String,
    /// What happened, in one line.
    pub text: String,
    /// How often it happened in a row.
    pub times: u32,
}

impl Status {
    /// Why the agent is not ready: what of the configuration is not in force, and what the kubelet does not watch.
    /// Empty when it is. A node without HCAs is ready: none of a resource is what it has.
    pub fn unready(&self) -> Vec<String> {
        let config =
            self.agent.config_refused.iter().map(|why| format!("the new configuration is refused: {why}"));
        let refused = self.agent.refused.iter().cloned();
        let waiting = self
            .resources
            .iter()
            .filter_map(|seen| Some(format!("{}: {}", seen.resource, seen.unwatched()?)));
        config.chain(refused).chain(waiting).collect()
    }

    /// The HCAs behind resources that Pods cannot use, each with why; empty where all can be used.
    pub fn degraded(&self) -> Vec<String> {
        let bad = |seen: &&HcaSeen| matches!(seen.condition, HcaCondition::Down | HcaCondition::Gone);
        let offered = self
            .hcas
            .iter()
            .filter(|seen| !seen.resources.is_empty() || seen.condition == HcaCondition::Gone);
        offered.filter(bad).map(|seen| format!("{}: {}", seen.hca, seen.reason)).collect()
    }

    /// Why Pods do not get all that was configured, each in a sentence; empty when they do.
    pub fn unserved(&self) -> Vec<String> {
        let short = |seen: &ResourceSeen| {
            seen.shortcomings().into_iter().map(|why| format!("{}: {why}", seen.resource)).collect::<Vec<_>>()
        };
        let mut all = self.unready();
        all.extend(self.resources.iter().flat_map(short));
        all
    }
}

impl ResourceSeen {
    /// Why the kubelet does not watch the list; None when it does.
    pub fn unwatched(&self) -> Option<String> {
        let because = || self.registration.error.as_ref().map_or(String::new(), |error| format!(": {error}"));
        match self.registration.phase {
            Phase::Watched => None,
            Phase::Waiting => Some(format!("no kubelet has taken it yet{}", because())),
            Phase::Failed => Some(format!("the kubelet did not take it{}", because())),
            Phase::Registered => Some("the kubelet took it and does not watch its devices yet".into()),
        }
    }

    /// Why Pods get less of it than was configured though the kubelet watches it; empty when they do not.
    pub fn shortcomings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.slots == 0 {
            all.push("no HCA stands behind it".into());
        } else if self.healthy < self.slots {
            let why = if self.unhealthy.is_empty() {
                String::new()
            } else {
                format!(": {}", self.unhealthy.join("; "))
            };
            all.push(format!("{} of {} devices are unhealthy{why}", self.slots - self.healthy, self.slots));
        }
        if let Some(allocatable) =
            self.allocatable.filter(|seen| self.unwatched().is_none() && *seen != self.healthy)
        {
            all.push(format!(
                "the kubelet counts {allocatable} devices for Pods, {} are offered",
                self.healthy
            ));
        }
        let faulty = self.grants.iter().flatten().filter(|grant| !grant.faults.is_empty());
        all.extend(
            faulty.map(|grant| format!("{}/{}: {}", grant.namespace, grant.pod, grant.faults.join("; "))),
        );
        all
    }
}

/// `2026-11-30T10:19:00` of seconds since 1970 (UTC), with the separator between date and time.
pub fn date_and_time(unix_s: u64, separator: char) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}{separator}{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar; years begin in March, so that the leap day is
/// their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests;
