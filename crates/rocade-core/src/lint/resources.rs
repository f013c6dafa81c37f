//! What containers ask for: quantities as Kubernetes takes them, names that some pool has, numbers that a node has, and
//! Pods that the scheduler never sees.

use super::node::{Entry, Node};
use super::patch::{Edit, Lines, add, replace};
use super::pod::{Asked, Container, Pod, Stage};
use super::pools::refused;
use super::{Case, Rule, Sheet};
use crate::config::{Sharing, distance};
use crate::finding::Severity;

pub(super) const RULES: &[Rule] =
    &[UNLIKE, NOT_WHOLE, NO_POOL, TOO_MANY, SEVERAL_TOKENS, ONLY_INIT, PAST_SCHEDULER];

const UNLIKE: Rule = Rule {
    code: "RDC741",
    severity: Severity::Error,
    title: "An RDMA resource is not asked for in limits, or not as in requests",
    why: "Extended resources cannot be overcommitted: Kubernetes refuses a request without the same limit.",
    cure: "write it in limits; requests may say the same or nothing",
};

const NOT_WHOLE: Rule = Rule {
    code: "RDC742",
    severity: Severity::Error,
    title: "The quantity of an RDMA resource is no whole number",
    why: "Kubernetes refuses parts of an extended resource. It counts devices or tokens, and splits no bandwidth.",
    cure: "write a whole number, as 1",
};

const NO_POOL: Rule = Rule {
    code: "RDC743",
    severity: Severity::Error,
    title: "No pool makes a resource that a container asks for",
    why: "The Pod stays Pending with `Insufficient`, or Kubernetes refuses the name.",
    cure: "ask for a resource that a node has: `kubectl get node NODE -o jsonpath={.status.allocatable}`",
};

const TOO_MANY: Rule = Rule {
    code: "RDC744",
    severity: Severity::Error,
    title: "A container asks for more of a resource than the node has",
    why: "No node like this one can ever run the Pod.",
    cure: "ask for less, or for what more nodes have",
};

const SEVERAL_TOKENS: Rule = Rule {
    code: "RDC745",
    severity: Severity::Warning,
    title: "A container asks for several tokens of one pool",
    why: "Each token of a shared pool is worth all HCAs of it: two tokens are not two HCAs, they only take another Pod's place.",
    cure: "ask for 1; for n of several HCAs share the pool by `mode: hca`",
};

const ONLY_INIT: Rule = Rule {
    code: "RDC746",
    severity: Severity::Warning,
    title: "Only an init container asks for an RDMA resource",
    why: "Devices are given to the container that asks. The others have none, and what the init container found is not true of them.",
    cure: "ask for it in the container that talks RDMA too; an init container's devices are then given to it anew",
};

const PAST_SCHEDULER: Rule = Rule {
    code: "RDC747",
    severity: Severity::Warning,
    title: "nodeName together with an extended resource",
    why: "nodeName passes the scheduler by. Where none is free the Pod is not Pending but fails at once (UnexpectedAdmissionError), and its \
          controller makes the next one, which fails too.",
    cure: "choose the node by its label, so that the Pod waits for a free one",
};

/// Judges what the containers of a Pod ask for.
pub(super) fn check(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    let is_rdma = |name: &str| case.pools.is_rdma(name);
    let mut asks_any = false;
    for container in &pod.containers {
        for asked in container.asked(is_rdma) {
            asks_any = true;
            check_quantity(case, pod, container, &asked, sheet);
            check_name(case, pod, container, &asked, sheet);
            if container.stage == Stage::Init {
                check_init(pod, container, &asked, sheet);
            }
        }
    }
    if asks_any {
        check_node_name(case, pod, sheet);
    }
}

fn check_quantity(
    case: &Case<'_>,
    pod: &Pod<'_>,
    container: &Container<'_>,
    asked: &Asked<'_>,
    sheet: &mut Sheet<'_>,
) {
    let path = |kind: &str| format!("{}.resources.{kind}.{}", container.path, asked.name);
    let given = [("limits", asked.limit), ("requests", asked.request)];
    let given = given.into_iter().filter_map(|(kind, entry)| Some((kind, entry?)));
    if let Some((kind, entry)) = given.into_iter().find(|(_, entry)| quantity(&entry.value).is_none()) {
        let seen = entry.value.to_string();
        sheet.find(&NOT_WHOLE, pod.place(entry.line), path(kind), seen, "a whole number");
        return;
    }
    let text = case.text(pod.object.file);
    match (asked.request, asked.limit) {
        (Some(request), None) => {
            let seen = format!("requested ({}) and not limited", plain(request));
            let found =
                sheet.find(&UNLIKE, pod.place(request.line), path("requests"), seen, "the same in limits");
            found.edit(limit_lines(text, container, asked.name, request));
        }
        (Some(request), Some(limit)) if quantity(&limit.value) != quantity(&request.value) => {
            let seen = format!("{} requested, {} the limit", plain(request), plain(limit));
            let found = sheet.find(&UNLIKE, pod.place(request.line), path("requests"), seen, "both the same");
            found.edit(replace(text, request, &[&format!("{}: {}", asked.name, word(&limit.value))]));
        }
        _ => check_number(case, pod, container, asked, sheet),
    }
}

/// The limit that a request lacks.
fn limit_lines(text: &Lines<'_>, container: &Container<'_>, name: &str, request: &Entry) -> Option<Edit> {
    let line = format!("{name}: {}", word(&request.value));
    match container.node.at(&["resources", "limits"]) {
        Some(limits) => add(text, limits, &[&line]),
        None => add(text, container.node.get("resources")?, &["limits:", &format!("  {line}")]),
    }
}

fn plain(entry: &Entry) -> &str {
    entry.value.word().unwrap_or_default()
}

/// How many are asked for, against what a node has and what one is worth.
fn check_number(
    case: &Case<'_>,
    pod: &Pod<'_>,
    container: &Container<'_>,
    asked: &Asked<'_>,
    sheet: &mut Sheet<'_>,
) {
    let Some(limit) = asked.limit else { return };
    let Some(number) = quantity(&limit.value) else { return };
    let path = format!("{}.resources.limits.{}", container.path, asked.name);
    let place = pod.place(limit.line);
    match (case.pools.on_host(asked.name), case.pools.sharing(asked.name)) {
        (Some(pool), _) if number > u64::from(pool.slots) => {
            sheet.find(&TOO_MANY, place, path, number.to_string(), format!("at most {}", pool.slots));
        }
        (_, Some(Sharing::Tokens(_))) if number > 1 => {
            let edit = replace(case.text(pod.object.file), limit, &[&format!("{}: 1", asked.name)]);
            let is_alone = asked.request.is_none();
            sheet.find(&SEVERAL_TOKENS, place, path, number.to_string(), "1").edit(edit.filter(|_| is_alone));
        }
        _ => {}
    }
}

fn check_name(
    case: &Case<'_>,
    pod: &Pod<'_>,
    container: &Container<'_>,
    asked: &Asked<'_>,
    sheet: &mut Sheet<'_>,
) {
    let path = format!("{}.resources", container.path);
    let seen = format!("`{}`", asked.name);
    if let Some(wanted) = refused(asked.name) {
        sheet
            .find(&NO_POOL, pod.place(asked.line()), path, seen, wanted)
            .cure("correct the name: Kubernetes refuses it");
        return;
    }
    if case.pools.is_made(asked.name) != Some(false) {
        return;
    }
    let (all, near) = case.pools.names(asked.name);
    let wanted =
        if all.is_empty() { "a resource of the configuration".into() } else { format!("one of {all}") };
    let entry = asked.limit.or(asked.request).filter(|_| asked.limit.is_none() || asked.request.is_none());
    let edit = near.filter(|near| distance(near, asked.name) <= 2).zip(entry).and_then(|(near, entry)| {
        replace(case.text(pod.object.file), entry, &[&format!("{near}: {}", word(&entry.value))])
    });
    let found = sheet.find(&NO_POOL, pod.place(asked.line()), path, seen, wanted);
    found.edit(edit);
    if let Some(near) = near {
        found.cure(format!("did you mean {near}?"));
    }
}

fn check_init(pod: &Pod<'_>, container: &Container<'_>, asked: &Asked<'_>, sheet: &mut Sheet<'_>) {
    let same = |name: &str| name == asked.name;
    let others = pod.containers.iter().filter(|other| other.stage == Stage::Main);
    if others.flat_map(|other| other.asked(same)).next().is_none() {
        let path = format!("{}.resources", container.path);
        let seen = format!("{} is asked for in no container that stays", asked.name);
        sheet.find(
            &ONLY_INIT,
            pod.place(asked.line()),
            path,
            seen,
            "the resource in the container that uses it",
        );
    }
}

fn check_node_name(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    // What comes from a cluster has the node that the scheduler chose.
    if pod.object.root.at(&["metadata", "uid"]).is_some() {
        return;
    }
    let Some(entry) = pod.spec.entry("nodeName") else { return };
    let Some(node) = entry.value.word().filter(|node| !node.is_empty()) else { return };
    let label = format!("kubernetes.io/hostname: {node}");
    let edit = match pod.spec.get("nodeSelector") {
        Some(_) => None,
        None => replace(case.text(pod.object.file), entry, &["nodeSelector:", &format!("  {label}")]),
    };
    sheet
        .find(
            &PAST_SCHEDULER,
            pod.place(entry.line),
            pod.path_of("spec.nodeName"),
            format!("`{node}`"),
            format!("nodeSelector `{label}`"),
        )
        .edit(edit);
}

/// A quantity that is whole and not negative (k8s.io/apimachinery pkg/api/resource: a number with an optional suffix).
pub(super) fn quantity(value: &Node) -> Option<u64> {
    let text = value.word()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let thousandths: u128 = match &text[digits.len()..] {
        "m" => 1,
        "" => 1000,
        "k" => 1_000_000,
        "M" => 1_000_000_000,
        "Ki" => 1_024_000,
        "Mi" => 1_048_576_000,
        _ => return None,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !whole.is_empty() && whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit());
    if !is_number || part.len() > 6 {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let number = format!("{whole}{part}").parse::<u128>().ok()?.checked_mul(thousandths)?;
    let is_whole = number % (scale * 1000) == 0;
    is_whole.then(|| u64::try_from(number / (scale * 1000)).ok()).flatten()
}

/// A quantity as it is written in YAML: text in quotes.
fn word(value: &Node) -> String {
    let word = value.word().unwrap_or_default();
    if value.text().is_some() { format!("\"{word}\"") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_whole_or_none() {
        for (text, wanted) in [
            ("1", Some(1)),
            ("\"2\"", Some(2)),
            ("1.0", Some(1)),
            ("\"2000m\"", Some(2)),
            ("1k", Some(1000)),
            ("\"0\"", Some(0)),
            ("0.5", None),
            ("500m", None),
            ("-1", None),
            ("one", None),
            ("\"\"", None),
            ("[1]", None),
            ("{{}}", None),
            ("99999999999999999999999999999999999999999", None),
        ] {
            let node = Node::parse(text, 0).ok();
            assert_eq!(node.as_ref().and_then(quantity), wanted, "{text}");
        }
    }
}
