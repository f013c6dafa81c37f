//! Whether an RC test over InfiniBand or RoCE v2 can start on a port as it is, and why not. Reads the model only;
//! which GID a connection takes is `gid`'s matter.

use crate::host::{Accessible, GidEntry, GidType, Hca, Host, Port, Transport, Usable};

/// Highest unicast LID (InfiniBand Architecture Specification, vol. 1, 4.1.3); 0 and 65535 mean "none given yet".
const LAST_UNICAST_LID: u16 = 0xbfff;

/// Fills `usable` and `reason` of every port.
pub fn judge(host: &mut Host) {
    let verdicts: Vec<Vec<Verdict>> = host
        .hcas
        .iter()
        .map(|hca| hca.ports.iter().map(|port| judge_port(host, hca, port)).collect())
        .collect();
    for (hca, verdicts) in host.hcas.iter_mut().zip(verdicts) {
        for (port, (usable, reason)) in hca.ports.iter_mut().zip(verdicts) {
            (port.usable, port.reason) = (usable, reason);
        }
    }
}

type Verdict = (Usable, String);

/// The first rule that has something against the port decides; restrictions come after impossibilities.
fn judge_port(host: &Host, hca: &Hca, port: &Port) -> Verdict {
    let no = check_function(hca)
        .or_else(|| check_transport(port))
        .or_else(|| check_state(port))
        .or_else(|| check_node(hca))
        .or_else(|| check_addressing(host, port));
    if let Some(reason) = no {
        return (Usable::No, reason);
    }
    match check_restrictions(host, hca, port) {
        Some(reason) => (Usable::Limited, reason),
        None => (Usable::Yes, String::new()),
    }
}

fn check_function(hca: &Hca) -> Option<String> {
    (hca.switch_management == Some(true))
        .then(|| "NVSwitch management function (VPD SMDL=SW_MNG), not a network HCA".into())
}

fn check_transport(port: &Port) -> Option<String> {
    let reason = match port.transport {
        Transport::Infiniband | Transport::Roce | Transport::Opa => return None,
        Transport::Iwarp => "iWARP: no InfiniBand or RoCE GIDs, needs rdma_cm",
        Transport::Efa => "EFA: SRD, no RC verbs",
        Transport::Usnic => "usNIC: no RDMA operations",
        Transport::Unknown => "transport unknown",
    };
    Some(reason.into())
}

fn check_state(port: &Port) -> Option<String> {
    let Some(state) = port.state.as_deref() else {
        let why = port.unknown.get("state").map_or("absent", String::as_str);
        return Some(match why {
            "ENODEV" => "device is being removed (reads give ENODEV)".into(),
            why => format!("port state unreadable ({why})"),
        });
    };
    match (state, port.transport) {
        ("ACTIVE", _) => None,
        ("INIT", Transport::Infiniband | Transport::Opa) => Some("port INIT: no subnet manager".into()),
        _ => Some(format!("port {state}")),
    }
}

fn check_node(hca: &Hca) -> Option<String> {
    let Some(uverbs) = &hca.uverbs else {
        return Some("no uverbs device (module ib_uverbs)".into());
    };
    match uverbs.accessible {
        Accessible::Yes | Accessible::Unknown => None,
        Accessible::Missing => Some(format!("{} missing", uverbs.path())),
        Accessible::Other => {
            Some(format!("{} is not the device {}:{}", uverbs.path(), uverbs.major, uverbs.minor))
        }
    }
}

fn check_addressing(host: &Host, port: &Port) -> Option<String> {
    match port.transport {
        Transport::Roce => check_gids(host, port),
        _ => check_lids(port),
    }
}

fn check_lids(port: &Port) -> Option<String> {
    match (port.lid, port.sm_lid) {
        (Some(lid), _) if lid == 0 || lid > LAST_UNICAST_LID => Some(format!("LID {lid}: none assigned")),
        (_, Some(0)) => Some("no subnet manager (SM LID 0)".into()),
        _ => None,
    }
}

fn check_gids(host: &Host, port: &Port) -> Option<String> {
    if port.gids.is_empty() {
        return Some(match (port.gid_table_len, port.unknown.get("gids")) {
            (_, Some(why)) => format!("GIDs unreadable ({why})"),
            (Some(0), None) => "empty GID table (RoCE off or switchdev)".into(),
            _ => "all GIDs zero".into(),
        });
    }
    if v2(port).next().is_none() {
        return Some("no RoCE v2 GID".into());
    }
    has_foreign_gids_alone(host, port)
        .then(|| "all GIDs belong to netdevs outside this network namespace".into())
}

/// Whether a RoCE port has RoCE v2 GIDs, and none of this network namespace.
pub(crate) fn has_foreign_gids_alone(host: &Host, port: &Port) -> bool {
    port.transport == Transport::Roce && v2(port).next().is_some() && !v2(port).any(|gid| host.owns(gid))
}

fn v2(port: &Port) -> impl Iterator<Item = &GidEntry> {
    port.gids.iter().filter(|gid| gid.gid_type == Some(GidType::V2))
}

fn check_restrictions(host: &Host, hca: &Hca, port: &Port) -> Option<String> {
    if let Some(uverbs) = hca.uverbs.as_ref().filter(|u| u.accessible == Accessible::Unknown) {
        return Some(format!("whether {} is there is not known", uverbs.path()));
    }
    if port.transport == Transport::Roce && !has_routable_gid(host, port) {
        return Some("only link-local RoCE v2 GIDs".into());
    }
    hca.software.then(|| "software RoCE".into())
}

fn has_routable_gid(host: &Host, port: &Port) -> bool {
    v2(port).any(|gid| !gid.gid.is_link_local() && host.owns(gid))
}
