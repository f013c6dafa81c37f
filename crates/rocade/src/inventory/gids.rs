//! Every set GID, a line each: where it stands, what it is, and whether it is one of this network namespace.

use rocade_core::{GidEntry, GidType, Hca, Host, Port, Transport};

use crate::columns::lay_out;

const HEADING: [&str; 7] = ["HCA/PORT", "INDEX", "GID", "TYPE", "NETDEV", "ADDRESS", "NAMESPACE"];

pub(super) fn render(host: &Host) -> String {
    let mut rows = vec![HEADING.map(str::to_owned)];
    for hca in &host.hcas {
        for port in &hca.ports {
            rows.extend(port.gids.iter().map(|gid| render_gid(host, hca, port, gid)));
        }
    }
    lay_out(&rows)
}

fn render_gid(host: &Host, hca: &Hca, port: &Port, gid: &GidEntry) -> [String; 7] {
    let gid_type = match gid.gid_type {
        Some(GidType::V1) => "IB/RoCE v1",
        Some(GidType::V2) => "RoCE v2",
        None => "-",
    };
    [
        format!("{}/{}", hca.name, port.port),
        gid.index.to_string(),
        gid.gid.to_string(),
        gid_type.to_owned(),
        gid.netdev.clone().unwrap_or_else(|| "-".into()),
        gid.address.map_or_else(|| "-".into(), |address| address.to_string()),
        render_namespace(host, port, gid).to_owned(),
    ]
}

/// Only RoCE's GIDs come from netdevs, which belong to namespaces.
fn render_namespace(host: &Host, port: &Port, gid: &GidEntry) -> &'static str {
    match port.transport {
        Transport::Roce if host.owns(gid) => "this",
        Transport::Roce => "other",
        _ => "-",
    }
}
