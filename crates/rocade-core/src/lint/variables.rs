//! Variables of NCCL, UCX and NVSHMEM that a manifest fixes: in `env`, and behind `-x` or `export` in a command. Whether
//! they fit the process that has them is `rocade env`'s matter, which sees it.

use super::node::{Node, Value};
use super::patch::{Lines, remove_item, replace};
use super::pod::{Container, Pod};
use super::{Case, Edit, Rule, Sheet};
use crate::environment::instead_of_off;
use crate::finding::Severity;

pub(super) const RULES: &[Rule] = &[FIXED_INDEX, PREFIX_MATCH, TURNED_OFF];

const FIXED_INDEX: Rule = Rule {
    code: "RDC780",
    severity: Severity::Warning,
    title: "A GID index is fixed by hand",
    why: "The index of a Pod's own address is another one in each Pod, on each HCA and after Pods came and went: \
          `ibv_modify_qp failed … No such device`, or the traffic of another network.",
    cure: "leave it out: NCCL and UCX choose by themselves; `rocade exec -- CMD` sets what they need",
};

const PREFIX_MATCH: Rule = Rule {
    code: "RDC781",
    severity: Severity::Warning,
    title: "NCCL_IB_HCA names an HCA and means all whose names begin so",
    why: "Without `=` NCCL compares beginnings: mlx5_1 is also mlx5_10 to mlx5_19.",
    cure: "begin the value with `=`, which asks for whole names",
};

const TURNED_OFF: Rule = Rule {
    code: "RDC782",
    severity: Severity::Warning,
    title: "A container asks for an RDMA resource, and a variable turns RDMA off",
    why: "NCCL_IB_DISABLE, NCCL_NET=Socket and UCX_TLS without rc, dc or ud make the libraries take TCP, and nothing says so: what was meant for \
          one library, or for a test, holds for all. Of UCX a note: with NCCL it often carries no more than the start of MPI.",
    cure: "leave the variable out, or the resource",
};

/// Variables that turn RDMA off.
const SWITCHES: [&str; 3] = ["NCCL_IB_DISABLE", "NCCL_NET", "UCX_TLS"];

/// Variables that hold a GID index (NCCL, UCX, NVSHMEM and libfabric's verbs provider).
const INDEXES: [&str; 4] =
    ["NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "FI_VERBS_GID_IDX"];

/// A variable that is set somewhere.
struct Set<'a> {
    line: u32,
    path: String,
    name: &'a str,
    value: String,
    /// Its item of `env`; None in a command.
    item: Option<&'a Node>,
}

/// Judges the variables of all containers of a Pod.
pub(super) fn check(case: &Case<'_>, pod: &Pod<'_>, sheet: &mut Sheet<'_>) {
    for set in pod.containers.iter().flat_map(variables) {
        let text = case.text(pod.object.file);
        // NCCL and UCX take these for "choose".
        let is_choice = matches!(set.value.as_str(), "" | "-1" | "auto");
        if INDEXES.contains(&set.name) && !is_choice {
            let seen = format!("{}={}", set.name, set.value);
            sheet
                .find(&FIXED_INDEX, pod.place(set.line), set.path, seen, "no index")
                .edit(set.item.and_then(|item| remove_item(text, item)));
        } else if set.name == "NCCL_IB_HCA" {
            check_devices(case, pod, &set, text, sheet);
        } else if let Some(wanted) = instead_of_off(set.name, &set.value).filter(|_| asks_for_rdma(case, pod))
        {
            let seen = format!("{}={}", set.name, set.value);
            let found = sheet.find(&TURNED_OFF, pod.place(set.line), set.path, seen, wanted);
            found.edit(set.item.and_then(|item| remove_item(text, item)));
            // MPI may be meant to start by TCP what NCCL then does by RDMA.
            if set.name.starts_with("UCX_") {
                found.severity(Severity::Note);
            }
        }
    }
}

/// Whether any Pod of the object does: a launcher's variables are those of the ranks.
fn asks_for_rdma(case: &Case<'_>, pod: &Pod<'_>) -> bool {
    let same = case.pods.iter().filter(|other| std::ptr::eq(other.object, pod.object));
    let mut containers = same.flat_map(|pod| &pod.containers);
    containers.any(|container| !container.asked(|name| case.pools.is_rdma(name)).is_empty())
}

fn check_devices(case: &Case<'_>, pod: &Pod<'_>, set: &Set<'_>, text: &Lines<'_>, sheet: &mut Sheet<'_>) {
    let list = set.value.strip_prefix('^').unwrap_or(&set.value);
    if list.starts_with('=') {
        return;
    }
    let names = list.split(',').map(|name| name.split(':').next().unwrap_or_default().trim());
    let also: Vec<String> = names.filter_map(|name| also_means(case, name)).collect();
    if also.is_empty() {
        return;
    }
    let sign = if set.value.starts_with('^') { "^=" } else { "=" };
    let exact = format!("{sign}{list}");
    sheet
        .find(
            &PREFIX_MATCH,
            pod.place(set.line),
            set.path.as_str(),
            also.join(", "),
            format!("NCCL_IB_HCA={exact}"),
        )
        .edit(set.item.and_then(|item| with_value(text, item, &exact)));
}

/// What a name means besides the HCA of that name: with a host what is there, else what may be. A name without a number
/// at its end is taken for the beginning of names that it is.
fn also_means(case: &Case<'_>, name: &str) -> Option<String> {
    let is_digit = |c: char| c.is_ascii_digit();
    let digits = &name[name.trim_end_matches(is_digit).len()..];
    if digits.is_empty() {
        return None;
    }
    let Some(host) = case.host else {
        // No number begins with 0, and few hosts have a hundred HCAs.
        let may_be = digits.len() == 1 && digits != "0";
        return may_be.then(|| format!("{name} is also {name}0 to {name}9"));
    };
    let longer =
        host.hcas.iter().map(|hca| hca.name.as_str()).filter(|hca| hca.starts_with(name) && *hca != name);
    let longer: Vec<&str> = longer.collect();
    (!longer.is_empty()).then(|| format!("{name} is also {}", longer.join(", ")))
}

fn with_value(text: &Lines<'_>, item: &Node, value: &str) -> Option<Edit> {
    replace(text, item.entry("value")?, &[&format!("value: \"{value}\"")])
}

fn variables<'a>(container: &Container<'a>) -> Vec<Set<'a>> {
    let env = container.node.get("env").map_or(&[][..], Node::items);
    let mut found: Vec<Set<'a>> = Vec::new();
    for (index, item) in env.iter().enumerate() {
        let value = item.get("value").and_then(Node::word);
        if let (Some(name), Some(value)) = (item.get("name").and_then(Node::text), value) {
            let line = item.get("value").map_or(item.line, |value| value.line);
            let path = format!("{}.env[{index}]", container.path);
            found.push(Set { line, path, name, value: value.to_owned(), item: Some(item) });
        }
    }
    for key in ["command", "args"] {
        let Some(node) = container.node.get(key) else { continue };
        let items = if let Value::List(items) = &node.value { items.iter().collect() } else { vec![node] };
        for (index, item) in items.into_iter().enumerate() {
            let path = format!("{}.{key}[{index}]", container.path);
            found.extend(item.text().map_or_else(Vec::new, |text| in_command(text, item.line, &path)));
        }
    }
    found
}

/// `NAME=VALUE` of the names that are judged, as `mpirun -x` and `export` have them.
fn in_command<'a>(text: &str, line: u32, path: &str) -> Vec<Set<'a>> {
    let names = INDEXES.iter().copied().chain(["NCCL_IB_HCA"]).chain(SWITCHES);
    let mut found = Vec::new();
    for name in names {
        for (at, _) in text.match_indices(name) {
            let is_word = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let Some(rest) = text[at + name.len()..].strip_prefix('=').filter(|_| is_word) else { continue };
            let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '\\' | '&');
            let value = rest.trim_start_matches(['"', '\'']).split(is_end).next().unwrap_or_default();
            // What the shell puts in is not known.
            if !value.contains('$') {
                let above = u32::try_from(text[..at].matches('\n').count()).unwrap_or_default();
                found.push(Set {
                    line: line + above,
                    path: path.to_owned(),
                    name,
                    value: value.to_owned(),
                    item: None,
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_in_commands() {
        let command = "set -e\nmpirun -x NCCL_IB_GID_INDEX=3 \\\n  -x NCCL_IB_HCA=mlx5_1,mlx5_3 ./a\nexport NCCL_IB_HCA=\"$A\"";
        let found = in_command(command, 10, "args[0]");
        let seen: Vec<(u32, &str, &str)> =
            found.iter().map(|set| (set.line, set.name, set.value.as_str())).collect();
        assert_eq!(seen, [(11, "NCCL_IB_GID_INDEX", "3"), (12, "NCCL_IB_HCA", "mlx5_1,mlx5_3")]);
        assert!(in_command("MY_NCCL_IB_GID_INDEX=3 NCCL_IB_GID_INDEXES=3", 1, "").is_empty());
    }
}
