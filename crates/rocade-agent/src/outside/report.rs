//! The status document, made of the node's state; besides, what is only asked when somebody wants to know: who listens
//! in the kubelet's plugin directories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rocade_core::HcaName;
use rocade_core::status::{
    AgentSeen, ErrorSeen, GrantSeen, HcaCondition, HcaSeen, KubeletSeen, LeftOutSeen, RegistrationSeen,
    ResourceSeen, STATUS_VERSION, Status,
};
use rocade_core::{ResourceName, status};

use super::plugin_sockets::read_plugin_sockets;
use super::{Place, VERSION};
use crate::state::{
    Condition, HcaState, Holder, LastError, NodeState, Phase, Registration, ResourceState, Way,
};

/// What the agent is, besides its state.
#[derive(Default)]
pub(super) struct Agent<'a> {
    pub(super) config: &'a str,
    pub(super) log_level: String,
    /// What is off though it was asked for, and why.
    pub(super) refused: Vec<String>,
    pub(super) started: Option<SystemTime>,
}

/// The whole document.
pub(super) async fn read_report(state: &NodeState, agent: &Agent<'_>, place: &Place) -> Status {
    let own: BTreeMap<PathBuf, ResourceName> = state
        .resources
        .iter()
        .filter_map(|seen| Some((seen.registration.socket.clone()?, seen.pool.resource.clone())))
        .collect();
    let kubelet = place.plugin_dirs.first().map(|dir| dir.join("kubelet.sock")).unwrap_or_default();
    let silent = state.resources.iter().all(|seen| seen.allocatable.is_none() && seen.holders.is_none());
    Status {
        kubelet: KubeletSeen {
            there: kubelet.exists(),
            socket: kubelet.display().to_string(),
            pod_resources: place.pod_resources.display().to_string(),
            unanswered: silent.then(|| unanswered(place)),
        },
        sockets: read_plugin_sockets(&place.plugin_dirs, &own).await,
        ..report(state, agent)
    }
}

fn unanswered(place: &Place) -> String {
    if place.pod_resources.exists() {
        "it has not answered yet".into()
    } else {
        "the socket is not there".into()
    }
}

/// What the state alone tells.
pub(super) fn report(state: &NodeState, agent: &Agent<'_>) -> Status {
    let unlooked = state.look.is_none().then(|| "the host was not looked at yet".to_owned());
    Status {
        schema_version: STATUS_VERSION,
        agent: AgentSeen {
            version: VERSION.into(),
            pid: std::process::id(),
            started_unix_s: agent.started.map_or(0, unix_s),
            config: agent.config.to_owned(),
            config_refused: state.config_error.as_ref().map(|error| error.text.clone()),
            refused: agent.refused.iter().cloned().chain(unlooked).collect(),
            log_level: agent.log_level.clone(),
        },
        kubelet: KubeletSeen::default(),
        resources: state.resources.iter().map(|seen| resource(state, seen)).collect(),
        hcas: state.hcas.iter().map(|(name, seen)| hca(state, name, seen)).collect(),
        sockets: Vec::new(),
        errors: state.errors.iter().rev().map(error).collect(),
    }
}

fn resource(state: &NodeState, seen: &ResourceState) -> ResourceSeen {
    let pool = &seen.pool;
    let left_out = |out: &rocade_core::plan::LeftOut| LeftOutSeen {
        hca: out.hca.clone(),
        reason: out.reason.to_string(),
    };
    let times = |(reason, devices): &(String, u32)| format!("{reason} ({devices})");
    ResourceSeen {
        resource: pool.resource.clone(),
        slots: seen.listing.devices,
        healthy: seen.listing.healthy,
        unhealthy: seen.listing.reasons.iter().map(times).collect(),
        registration: registration(&seen.registration),
        allocatable: seen.allocatable,
        grants: seen.holders.as_ref().map(|holders| grants(state, &pool.resource, holders)),
        worth: pool.worth_text(),
        near_misses: pool.near_misses.clone(),
        members: pool.members.iter().map(ports).collect(),
        left_out: pool.left_out.iter().map(left_out).collect(),
    }
}

/// `mlx5_0:1`, several ports by comma.
fn ports(member: &rocade_core::plan::PoolMember) -> String {
    member.ports.iter().map(|port| format!("{}:{port}", member.hca)).collect::<Vec<_>>().join(",")
}

fn registration(seen: &Registration) -> RegistrationSeen {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    RegistrationSeen {
        way: match seen.way {
            Way::Kubelet => status::Way::KubeletSocket,
            Way::Watcher => status::Way::PluginWatcher,
        },
        phase: match seen.phase {
            Phase::Waiting => status::Phase::Waiting,
            Phase::Failed => status::Phase::Failed,
            Phase::Registered => status::Phase::Registered,
            Phase::Watched => status::Phase::Watched,
        },
        since_unix_s: unix_s(seen.since),
        told: text(&seen.told),
        socket: text(&seen.socket),
        count: seen.count,
        error: seen.last_error.as_ref().map(|error| error.text.clone()),
    }
}

/// One entry a container, with what is wrong with any of its devices.
fn grants(state: &NodeState, resource: &ResourceName, holders: &BTreeMap<String, Holder>) -> Vec<GrantSeen> {
    let mut by_container: BTreeMap<&Holder, Vec<String>> = BTreeMap::new();
    for (id, holder) in holders {
        by_container.entry(holder).or_default().push(id.clone());
    }
    let faults = |ids: &[String]| {
        let of = state
            .grants
            .iter()
            .filter(|g| g.resource == *resource && g.ids.iter().any(|id| ids.contains(id)));
        of.flat_map(|granted| granted.faults.iter().cloned()).collect()
    };
    by_container
        .into_iter()
        .map(|(holder, ids)| GrantSeen {
            namespace: holder.namespace.clone(),
            pod: holder.pod.clone(),
            container: holder.container.clone(),
            faults: faults(&ids),
            ids,
        })
        .collect()
}

fn hca(state: &NodeState, name: &HcaName, seen: &HcaState) -> HcaSeen {
    let has = |resource: &&ResourceState| resource.pool.members.iter().any(|member| member.hca == *name);
    HcaSeen {
        hca: name.clone(),
        condition: match seen.condition {
            Condition::Up => HcaCondition::Up,
            Condition::InUse => HcaCondition::InUse,
            Condition::Down => HcaCondition::Down,
            Condition::Gone => HcaCondition::Gone,
        },
        reason: seen.reason.clone(),
        since_unix_s: unix_s(seen.since),
        flaps: seen.flaps,
        resources: state
            .resources
            .iter()
            .filter(has)
            .map(|resource| resource.pool.resource.clone())
            .collect(),
    }
}

fn error(seen: &Arc<LastError>) -> ErrorSeen {
    ErrorSeen {
        at_unix_s: unix_s(seen.at),
        subject: seen.subject.clone(),
        text: seen.text.clone(),
        times: seen.times,
    }
}

/// Seconds since 1970 (UTC); 0 for what was before.
pub(super) fn unix_s(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
