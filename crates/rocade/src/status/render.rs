//! The status document as text: what is wrong comes right below the resources.

use std::fmt::Write;

use rocade_core::status::{HcaCondition, Owner, Phase, ResourceSeen, SocketSeen, Status, Way, date_and_time};

use crate::columns::{lay_out, wrap};
use crate::terminal::Terminal;

/// Errors that the table shows; the documents have all.
const ERRORS: usize = 5;

pub(super) fn table(status: &Status, terminal: Terminal, wide: bool) -> String {
    let mut text = head(status);
    text += &resources(status);
    text += &list(terminal, "NOT SERVED", status.unserved());
    if wide {
        text += &hcas(status);
        text += &grants(status);
        text += &list(terminal, "WHAT IT IS WORTH", worth(status));
        text += &list(terminal, "OUT OF A POOL", left_out(status));
        text += &sockets(status);
    }
    text += &list(terminal, "LAST ERRORS", errors(status, if wide { usize::MAX } else { ERRORS }));
    text
}

fn head(status: &Status) -> String {
    let (agent, kubelet) = (&status.agent, &status.kubelet);
    let there = if kubelet.there { "" } else { " (not there)" };
    let mut text = format!(
        "agent {}, process {}, since {}, log {}\n",
        agent.version,
        agent.pid,
        moment(agent.started_unix_s),
        agent.log_level
    );
    let _ = writeln!(text, "configuration {}", agent.config);
    let _ = writeln!(text, "kubelet {}{there}", kubelet.socket);
    if let Some(why) = &kubelet.unanswered {
        let _ = writeln!(text, "kubelet's own view {}: {why}", kubelet.pod_resources);
    }
    text
}

fn resources(status: &Status) -> String {
    let heading = ["RESOURCE", "HEALTHY", "KUBELET", "GRANTED", "REGISTRATION", "PATH TOLD", "HCAS"];
    let mut rows = vec![heading.map(str::to_owned)];
    rows.extend(status.resources.iter().map(row));
    format!("\n{}", lay_out(&rows))
}

fn row(seen: &ResourceSeen) -> [String; 7] {
    let or_unknown = |count: Option<usize>| count.map_or("?".to_owned(), |count| count.to_string());
    let granted = seen.grants.as_ref().map(|grants| grants.iter().map(|grant| grant.ids.len()).sum());
    [
        seen.resource.to_string(),
        format!("{}/{}", seen.healthy, seen.slots),
        or_unknown(seen.allocatable.map(|count| count as usize)),
        or_unknown(granted),
        format!("{} by {}", phase(seen.registration.phase), way(seen.registration.way)),
        seen.registration.told.clone().unwrap_or_else(|| "-".into()),
        if seen.members.is_empty() { "-".into() } else { seen.members.join(",") },
    ]
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Failed => "failed",
        Phase::Registered => "registered",
        Phase::Watched => "watched",
    }
}

fn way(way: Way) -> &'static str {
    match way {
        Way::KubeletSocket => "kubelet.sock",
        Way::PluginWatcher => "plugins_registry",
    }
}

fn hcas(status: &Status) -> String {
    let mut rows = vec![["HCA", "IS", "SINCE", "FLAPS", "RESOURCES", "WHY"].map(str::to_owned)];
    rows.extend(status.hcas.iter().map(|seen| {
        let resources: Vec<_> = seen.resources.iter().map(ToString::to_string).collect();
        let condition = match seen.condition {
            HcaCondition::Up => "up",
            HcaCondition::InUse => "in use",
            HcaCondition::Down => "down",
            HcaCondition::Gone => "gone",
        };
        [
            seen.hca.to_string(),
            condition.into(),
            moment(seen.since_unix_s),
            seen.flaps.to_string(),
            resources.join(","),
            seen.reason.clone(),
        ]
    }));
    section(&rows)
}

fn grants(status: &Status) -> String {
    let mut rows = vec![["POD", "CONTAINER", "RESOURCE", "DEVICES"].map(str::to_owned)];
    for resource in &status.resources {
        rows.extend(resource.grants.iter().flatten().map(|grant| {
            let pod = format!("{}/{}", grant.namespace, grant.pod);
            [pod, grant.container.clone(), resource.resource.to_string(), grant.ids.join(",")]
        }));
    }
    section(&rows)
}

fn sockets(status: &Status) -> String {
    let mut rows = vec![["SOCKET", "LISTENS"].map(str::to_owned)];
    rows.extend(status.sockets.iter().map(|seen| [seen.path.clone(), owner(seen)]));
    section(&rows)
}

fn owner(seen: &SocketSeen) -> String {
    match (&seen.owner, &seen.resource) {
        (Owner::Own, Some(resource)) => format!("this agent, for {resource}"),
        (Owner::Own, None) => "this agent".into(),
        (Owner::Kubelet, _) => "the kubelet".into(),
        (Owner::Process { pid, name }, _) => format!("process {pid} ({name})"),
        (Owner::Elsewhere, _) => "a process outside this PID namespace".into(),
        (Owner::Nobody, _) => "nobody: it was left behind".into(),
        (Owner::Unknown(why), _) => format!("not known: {why}"),
    }
}

fn worth(status: &Status) -> Vec<String> {
    status.resources.iter().map(|seen| format!("{}: {}", seen.resource, seen.worth)).collect()
}

/// What was probably meant, then HCA by HCA.
fn left_out(status: &Status) -> Vec<String> {
    let of = |seen: &ResourceSeen| {
        let resource = &seen.resource;
        let near = seen.near_misses.iter().map(|near| format!("{resource}: {near}"));
        let out = seen.left_out.iter().map(|out| format!("{resource}: {}: {}", out.hca, out.reason));
        near.chain(out).collect::<Vec<_>>()
    };
    status.resources.iter().flat_map(of).collect()
}

fn errors(status: &Status, most: usize) -> Vec<String> {
    let text = |error: &rocade_core::status::ErrorSeen| {
        let times = if error.times > 1 { format!(" ({} times)", error.times) } else { String::new() };
        format!("{} {}: {}{times}", moment(error.at_unix_s), error.subject, error.text)
    };
    status.errors.iter().take(most).map(text).collect()
}

/// A table below an empty line; nothing where there is no row but the heading.
fn section<const N: usize>(rows: &[[String; N]]) -> String {
    if rows.len() > 1 { format!("\n{}", lay_out(rows)) } else { String::new() }
}

fn list(terminal: Terminal, heading: &str, lines: Vec<String>) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{heading}\n");
    for line in lines {
        for (at, part) in wrap(&line, terminal.width.saturating_sub(2)).iter().enumerate() {
            let _ = writeln!(text, "{}{part}", if at == 0 { "" } else { "  " });
        }
    }
    text
}

/// `2026-11-30 10:19:00Z` of seconds since 1970.
fn moment(unix_s: u64) -> String {
    format!("{}Z", date_and_time(unix_s, ' '))
}
