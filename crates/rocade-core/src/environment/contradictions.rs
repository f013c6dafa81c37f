//! What the user has set and does not fit this process, and what no variable can mend. The user's value counts all the
//! same.

use super::libraries::Facts;
use super::lists::{NcclList, UcxList};
use super::sockets::reaches;
use crate::finding::{Finding, Severity};

mod devices;
mod gids;

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
        devices::nccl_devices,
        devices::ucx_devices,
        gids::fixed_index,
        gids::address_choice,
        sockets,
        traffic_class,
        gdr_level,
        gids::taken_by_itself,
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
    let names = ["NCCL_IB_DISABLE", "NCCL_NET", "UCX_TLS"];
    let set = names.into_iter().filter_map(|name| Some((name, user(facts, name)?)));
    let off = set.filter_map(|(name, value)| {
        let wanted = instead_of_off(name, value)?;
        Some(warning("RDC651", name, format!("{value}: RDMA is turned off"), wanted, "leave it unset"))
    });
    off.collect()
}

/// What is wanted instead of a value by which a library does without RDMA; None for other values and variables.
pub(crate) fn instead_of_off(name: &str, value: &str) -> Option<&'static str> {
    match name {
        "NCCL_IB_DISABLE" if !matches!(value, "" | "0") => Some("0"),
        "NCCL_NET" if value.eq_ignore_ascii_case("socket") => Some("IB"),
        "UCX_TLS" if !value.is_empty() && !UcxList::parse(value).allows_rdma() => {
            Some("rc, dc or ud among the transports")
        }
        _ => None,
    }
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
