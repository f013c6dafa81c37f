//! Lists of devices that the user has set.

use super::{user, warning};
use crate::environment::devices::Rail;
use crate::environment::libraries::Facts;
use crate::environment::lists::{NcclList, UcxList};
use crate::finding::Finding;
use crate::host::LinkLayer;

pub(super) fn nccl_devices(facts: &Facts<'_>) -> Vec<Finding> {
    let name = "NCCL_IB_HCA";
    let Some(value) = user(facts, name) else { return Vec::new() };
    let mut found = Vec::new();
    if value.starts_with("=^") {
        let seen = format!("{value}: `^` after `=` is part of a name");
        found.push(warning("RDC653", name, seen, "`^=` to exclude exact names", "write ^ before ="));
        return found;
    }
    let list = NcclList::parse(value);
    found.extend(also_means(facts, value, &list));
    let selects = |rail: &Rail<'_>| list.selects(rail.hca.name.as_str(), Some(rail.port.port.0));
    if !facts.rails.is_empty() && !facts.rails.iter().any(selects) {
        let seen = format!("{value} selects none of {}", names(facts.rails));
        found.push(warning("RDC652", name, seen, "an HCA that was granted and opens here", "leave it unset"));
    }
    let others = others_selected(facts, |hca, port| list.selects(hca, Some(port)));
    if !others.is_empty() {
        let seen = format!("{value} also selects {}, not for this process", others.join(", "));
        found.push(warning("RDC654", name, seen, "HCAs that were granted and open here", "leave it unset"));
    }
    let layers: Vec<&LinkLayer> =
        facts.rails.iter().filter(|rail| selects(rail)).map(|rail| &rail.port.link_layer).collect();
    if layers.windows(2).any(|two| two[0] != two[1]) {
        let seen = format!("{value} selects InfiniBand and RoCE ports");
        found.push(warning(
            "RDC655",
            name,
            seen,
            "ports of one link layer: NCCL ends otherwise",
            "name those of one",
        ));
    }
    found
}

/// A name that was meant as it stands and is the beginning of others.
fn also_means(facts: &Facts<'_>, value: &str, list: &NcclList<'_>) -> Option<Finding> {
    if list.exact {
        return None;
    }
    let hcas = &facts.host.hcas;
    let meant = list.names().filter(|(name, _)| hcas.iter().any(|hca| hca.name.as_str() == *name));
    let also: Vec<String> = meant
        .flat_map(|(name, _)| {
            let longer = hcas
                .iter()
                .map(|hca| hca.name.as_str())
                .filter(move |hca| hca.starts_with(name) && *hca != name);
            longer
                .filter(|hca| !list.names().any(|(other, _)| other == *hca))
                .map(move |hca| format!("{name} is also {hca}"))
        })
        .collect();
    (!also.is_empty()).then(|| {
        let cure = format!("NCCL_IB_HCA=={}", value.trim_start_matches('^'));
        let cure = if list.excludes() { cure.replacen("==", "=^=", 1) } else { cure };
        warning(
            "RDC653",
            "NCCL_IB_HCA",
            format!("{value}: {}", also.join(", ")),
            "exact names, after `=`",
            &cure,
        )
    })
}

pub(super) fn ucx_devices(facts: &Facts<'_>) -> Vec<Finding> {
    let name = "UCX_NET_DEVICES";
    let Some(value) = user(facts, name) else { return Vec::new() };
    let list = UcxList::parse(value);
    let selects = |rail: &Rail<'_>| list.selects(rail.hca.name.as_str(), rail.port.port.0);
    if !facts.rails.is_empty() && !facts.rails.iter().any(selects) {
        let seen = format!("{value} selects none of {}: UCX does without RDMA", names(facts.rails));
        return vec![warning(
            "RDC652",
            name,
            seen,
            "an HCA that was granted and opens here",
            "leave it unset",
        )];
    }
    let others = others_selected(facts, |hca, port| list.selects(hca, port));
    if others.is_empty() || value == "all" {
        return Vec::new();
    }
    let seen = format!("{value} also selects {}, not for this process", others.join(", "));
    vec![warning("RDC654", name, seen, "HCAs that were granted and open here", "leave it unset")]
}

fn names(rails: &[Rail<'_>]) -> String {
    rails.iter().map(Rail::name).collect::<Vec<_>>().join(", ")
}

/// HCAs that a list selects and of which no port is for this process.
fn others_selected(facts: &Facts<'_>, selects: impl Fn(&str, u32) -> bool) -> Vec<String> {
    let is_ours = |name: &str| facts.rails.iter().any(|rail| rail.hca.name.as_str() == name);
    let others = facts.host.hcas.iter().filter(|hca| !is_ours(hca.name.as_str()));
    let selected = others.filter(|hca| hca.ports.iter().any(|port| selects(hca.name.as_str(), port.port.0)));
    selected.map(|hca| hca.name.to_string()).collect()
}
