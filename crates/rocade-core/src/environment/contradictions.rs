//! What the user has set and does not fit this process, and what no variable can mend. The user's value counts all the
//! same.

use super::devices::Rail;
use super::gids::{Family, Taken, is_link_local, is_own, nccl_takes, ucx_takes};
use super::libraries::{Facts, version_in_words};
use super::lists::{NcclList, UcxList};
use super::sockets::reaches;
use super::{NcclSource, Network, Reach};
use crate::finding::{Finding, Severity};
use crate::gid::in_subnet;
use crate::host::{GidEntry, GidType, LinkLayer, Port};
use crate::names::GidIndex;

/// Codes of what is found, each with what it means.
pub const FOUND: &[(&str, &str)] = &[
    ("RDC650", "No HCA is granted, opens here and can be used"),
    ("RDC651", "A setting turns RDMA off: NCCL_IB_DISABLE, NCCL_NET=Socket, UCX_TLS without rc, dc or ud"),
    ("RDC652", "A list of devices selects none of the HCAs that are granted and open here"),
    ("RDC653", "A list of NCCL means other names than those that stand there: no `=`, or `=^` for `^=`"),
    ("RDC654", "A list of devices also selects HCAs that were not granted or do not open here"),
    ("RDC655", "A list of NCCL selects InfiniBand and RoCE together"),
    ("RDC656", "A fixed GID index is not that of an own, routable RoCE v2 address on every port"),
    ("RDC657", "The address family or range holds no own address, or is ignored"),
    ("RDC658", "An interface for sockets is not here, or has no address that peers reach"),
    ("RDC659", "A traffic class differs from the pool's"),
    ("RDC660", "GPUDirect is asked for over the link between sockets"),
    ("RDC661", "NCCL or UCX would take another GID than the own address's, or give up"),
];

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let judges: &[fn(&Facts<'_>) -> Vec<Finding>] = &[
        nothing_usable,
        rdma_turned_off,
        nccl_devices,
        ucx_devices,
        fixed_index,
        address_choice,
        sockets,
        traffic_class,
        gdr_level,
        taken_by_itself,
    ];
    judges.iter().flat_map(|judge| judge(facts)).collect()
}

fn user<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a str> {
    facts.given.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

fn warning(
    code: &'static str,
    subject: impl Into<String>,
    seen: String,
    wanted: &str,
    cure: &str,
) -> Finding {
    let (subject, wanted, cure) = (subject.into(), wanted.to_owned(), cure.to_owned());
    Finding { code, severity: Severity::Warning, subject, seen, wanted, cure }
}

fn nothing_usable(facts: &Facts<'_>) -> Vec<Finding> {
    if !facts.rails.is_empty() {
        return Vec::new();
    }
    let seen = format!("{} seen, none granted, open here and usable", count(facts.host.hcas.len(), "HCA"));
    let cure = "the reasons stand beside each HCA; `rocade check` says more";
    let finding = warning("RDC650", "devices", seen, "an HCA for the job", cure);
    vec![Finding { severity: Severity::Error, ..finding }]
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Settings by which a library does without RDMA and says nothing.
fn rdma_turned_off(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut off = |name: &str, wanted: &str| {
        let value = user(facts, name).unwrap_or_default();
        found.push(warning("RDC651", name, format!("{value}: RDMA is turned off"), wanted, "leave it unset"));
    };
    if user(facts, "NCCL_IB_DISABLE").is_some_and(|value| value != "0") {
        off("NCCL_IB_DISABLE", "0");
    }
    if user(facts, "NCCL_NET").is_some_and(|value| value.eq_ignore_ascii_case("socket")) {
        off("NCCL_NET", "IB");
    }
    if user(facts, "UCX_TLS").is_some_and(|value| !UcxList::parse(value).allows_rdma()) {
        off("UCX_TLS", "rc, dc or ud among the transports");
    }
    found
}

fn nccl_devices(facts: &Facts<'_>) -> Vec<Finding> {
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

fn ucx_devices(facts: &Facts<'_>) -> Vec<Finding> {
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

/// An index that the user fixed and that is not that of an own address.
fn fixed_index(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in ["NCCL_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "UCX_IB_GID_INDEX", "FI_VERBS_GID_IDX"] {
        let Some(index) = user(facts, name).and_then(|value| value.parse::<u32>().ok()) else { continue };
        let roce = facts.rails.iter().filter(|rail| rail.is_roce());
        let wrong: Vec<String> = roce
            .filter_map(|rail| {
                Some(format!("{} {}", rail.name(), what_is_wrong(facts, rail.port, GidIndex(index))?))
            })
            .collect();
        if !wrong.is_empty() {
            let seen = format!("index {index}: {}", wrong.join("; "));
            let cure = "leave it unset: an index is another one in each Pod";
            found.push(warning("RDC656", name, seen, "the index of an own address on every port", cure));
        }
    }
    found
}

fn what_is_wrong(facts: &Facts<'_>, port: &Port, index: GidIndex) -> Option<String> {
    let Some(entry) = port.gids.iter().find(|entry| entry.index == index) else {
        return Some("has no GID there".into());
    };
    let address = in_words(entry);
    match (entry.gid_type, is_own(facts.host, entry), is_link_local(entry)) {
        (Some(GidType::V1), ..) => Some(format!("has RoCE v1 there ({address})")),
        (_, false, _) => Some(format!("has {address} there, which is none of this namespace")),
        (_, true, true) => Some(format!("has the link-local {address} there")),
        (_, true, false) => None,
    }
}

fn in_words(entry: &GidEntry) -> String {
    entry.address.map_or_else(|| entry.gid.to_string(), |address| address.to_string())
}

/// Family and range that the user set.
fn address_choice(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let own: Vec<&GidEntry> = facts.fabric.nccl_roce().filter_map(|rail| rail.own).collect();
    for (family, range) in
        [("NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE"), ("NVSHMEM_IB_ADDR_FAMILY", "NVSHMEM_IB_ADDR_RANGE")]
    {
        if let Some(value) = user(facts, family) {
            let fits = |entry: &&GidEntry| Some(Family::of(entry)) == Family::of_variable(value);
            if Family::of_variable(value).is_none() || (!own.is_empty() && !own.iter().any(fits)) {
                let seen = format!("{value}: no own address is of it");
                found.push(warning(
                    "RDC657",
                    family,
                    seen,
                    "AF_INET or AF_INET6, as the own addresses",
                    "leave it unset",
                ));
            }
        }
        if let Some(value) = user(facts, range) {
            let network = parse_network(value);
            let outside = |entry: &&GidEntry| network.is_none_or(|net| !holds(net, entry));
            let names: Vec<String> =
                own.iter().filter(|entry| outside(entry)).map(|entry| in_words(entry)).collect();
            if network.is_none() {
                let seen = format!("{value} is no network: it is ignored");
                found.push(warning("RDC657", range, seen, "a network, as 10.0.0.0/8", "leave it unset"));
            } else if !names.is_empty() {
                let seen = format!("{value} does not hold {}", names.join(", "));
                found.push(warning(
                    "RDC657",
                    range,
                    seen,
                    "a network of all own addresses",
                    "leave it unset",
                ));
            }
        }
    }
    found
}

fn parse_network(text: &str) -> Option<Network> {
    let (address, prefix) = text.split_once('/')?;
    Some((address.parse().ok()?, prefix.parse().ok()?))
}

fn holds((network, prefix): Network, entry: &GidEntry) -> bool {
    entry.address.is_some_and(|address| in_subnet(address, network, prefix))
}

fn sockets(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in ["NCCL_SOCKET_IFNAME", "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "GLOO_SOCKET_IFNAME"] {
        let Some(value) = user(facts, name) else { continue };
        let list =
            if name.starts_with("GLOO") { NcclList::names_alone(value) } else { NcclList::parse(value) };
        let selected: Vec<_> =
            facts.host.netdevs.iter().filter(|netdev| list.selects(&netdev.name, None)).collect();
        let local: Vec<&str> =
            selected.iter().filter(|netdev| !reaches(netdev)).map(|netdev| netdev.name.as_str()).collect();
        let unread = facts.host.unknown.contains_key("netdevs.addresses");
        let seen = match (selected.is_empty(), local.len() == selected.len()) {
            (true, _) => format!("{value}: there is no such interface here"),
            (false, true) if !unread => {
                format!("{value}: {} has no address that others reach (link-local or none)", local.join(", "))
            }
            _ => continue,
        };
        found.push(warning("RDC658", name, seen, "an interface that peers reach", "leave it unset"));
    }
    found
}

fn traffic_class(facts: &Facts<'_>) -> Vec<Finding> {
    let Ok(Some(pool)) = facts.of_pool("TC") else { return Vec::new() };
    let names = ["NCCL_IB_TC", "UCX_IB_TRAFFIC_CLASS", "NVSHMEM_IB_TRAFFIC_CLASS"];
    let other = names
        .into_iter()
        .filter_map(|name| Some((name, user(facts, name)?)))
        .filter(|(_, value)| *value != pool);
    other
        .map(|(name, value)| {
            let cure = "leave it unset: other classes may be lossy";
            warning(
                "RDC659",
                name,
                format!("{value}, the pool's class is {pool}"),
                "the pool's traffic class",
                cure,
            )
        })
        .collect()
}

fn gdr_level(facts: &Facts<'_>) -> Vec<Finding> {
    let name = "NCCL_NET_GDR_LEVEL";
    let far = |value: &&str| matches!(*value, "SYS" | "4" | "5");
    let finding = user(facts, name).filter(far).map(|value| {
        let seen = format!("{value}: GPUs and HCAs talk over the link between sockets");
        warning(
            "RDC660",
            name,
            seen,
            "the default, PXB",
            "leave it unset, unless it was measured to be better",
        )
    });
    finding.into_iter().collect()
}

/// A GID that NCCL or UCX would take by itself and that is not the own address's.
fn taken_by_itself(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let given = facts.given;
    let (_, range) = (facts.fabric.family, facts.fabric.range.as_ref().ok().copied());
    let indexed = user(facts, "NCCL_IB_GID_INDEX").is_some()
        || ((given.gid_index || given.reach == Reach::OwnFile) && facts.fabric.common_index().is_ok());
    for (rail, taken, own) in facts.fabric.mistaken(given, range) {
        if indexed {
            break;
        }
        let seen = match taken {
            Taken::Index(index) => {
                format!(
                    "NCCL {} takes index {index} ({}), the own address has {own}",
                    given.nccl,
                    at(rail.port, index)
                )
            }
            Taken::GivesUp => format!("NCCL {} gives up at an entry whose type cannot be read", given.nccl),
        };
        found.push(warning("RDC661", rail.name(), seen, "the GID of the own address", &cure(facts, rail)));
    }
    let ucx_indexed = given.gid_index || user(facts, "UCX_IB_GID_INDEX").is_some();
    for rail in facts.rails.iter().filter(|rail| rail.is_roce() && !ucx_indexed) {
        let (Some(own), index) = (rail.own, ucx_takes(rail.port)) else { continue };
        let entry = rail.port.gids.iter().find(|entry| entry.index == index);
        if !entry.is_some_and(|entry| is_own(facts.host, entry)) {
            let seen = format!(
                "UCX tries index {index} ({}) first, the own address has {}",
                at(rail.port, index),
                own.index
            );
            let cure = "UCX_IB_GID_INDEX in this Pod alone: `rocade env --gid-index`";
            found.push(warning("RDC661", rail.name(), seen, "the GID of the own address", cure));
        }
    }
    found
}

fn at(port: &Port, index: GidIndex) -> String {
    let entry = port.gids.iter().find(|entry| entry.index == index);
    entry.map_or("unset".to_owned(), |entry| {
        format!("{} on {}", in_words(entry), entry.netdev.as_deref().unwrap_or("?"))
    })
}

fn cure(facts: &Facts<'_>, rail: &Rail<'_>) -> String {
    let given = facts.given;
    let newer = super::NcclVersion::ASSUMED;
    let by_newer = facts.fabric.family.is_some_and(|family| {
        let range = facts.fabric.range.as_ref().ok().copied();
        let taken = nccl_takes(rail.port, family, range, newer);
        rail.own.is_some_and(|own| taken == Taken::Index(own.index))
    });
    let file = "write this Pod's own file: `rocade env -o nccl > /etc/nccl.conf`";
    let source = match given.nccl_source {
        NcclSource::Assumed => String::new(),
        ref known => format!(" ({})", version_in_words(known)),
    };
    if by_newer && given.nccl < newer {
        format!("NCCL {newer} or newer{source}, or {file}")
    } else {
        file.to_owned()
    }
}
