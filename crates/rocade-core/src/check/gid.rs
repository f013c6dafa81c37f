//! Rules about GIDs and how RoCE is addressed: RDC30x.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Case, Rule, Sheet, port_name, why};
use crate::finding::Severity;
use crate::host::{FunctionKind, GidEntry, GidType, Port, Transport};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "RDC301",
        severity: Severity::Warning,
        title: "An ACTIVE RoCE port has no GID",
        why: "RoCE addresses by GID, and GIDs come from the addresses of the port's interface. All zero means that the \
              interface was moved into another namespace, or RoCE is off for it.",
        cure: "bring the interface back into this namespace and up; its link-local address alone gives the first GIDs",
        judge: no_gid,
    },
    Rule {
        code: "RDC302",
        severity: Severity::Warning,
        title: "A RoCE port has link-local RoCE v2 GIDs only",
        why: "fe80:: reaches one layer 2 segment, needs the same one at both ends, and is what libraries fall back to \
              when they find nothing better: retries run out between hosts.",
        cure: "give the interface an address: ip addr add ADDRESS/PREFIX dev NETDEV (IPv4 or a global or unique local IPv6)",
        judge: link_local_only,
    },
    Rule {
        code: "RDC303",
        severity: Severity::Note,
        title: "A port has a GID table of length 0",
        why: "RoCE is switched off for the function, or it manages an embedded switch (switchdev): its VFs or SFs carry \
              the RDMA traffic.",
        cure: "use the VFs or SFs; where the port itself should carry RoCE: `devlink dev param set DEVICE name enable_roce \
               value true cmode driverinit`, then reload",
        judge: no_table,
    },
    Rule {
        code: "RDC304",
        severity: Severity::Warning,
        title: "A RoCE port has no RoCE v2 GID",
        why: "RoCE v1 is not routed, and most programs and switches of today expect v2 at both ends.",
        cure: "load the driver with RoCE v2 enabled (mlx4: `options mlx4_core roce_mode=2`)",
        judge: no_v2,
    },
    Rule {
        code: "RDC305",
        severity: Severity::Note,
        title: "The RoCE v2 index of the own address differs from rail to rail",
        why: "One NCCL_IB_GID_INDEX for all rails is wrong then for some: connecting fails with `No such device` or times \
              out. Indexes differ between hosts, Pods and boots as well.",
        cure: "leave NCCL_IB_GID_INDEX and UCX_IB_GID_INDEX unset where the library can choose by address, or set it for \
               each process",
        judge: unlike_indexes,
    },
    Rule {
        code: "RDC306",
        severity: Severity::Warning,
        title: "The same address stands on two rails",
        why: "A GID that two HCAs have does not tell which of them is meant; ARP gets answers from either.",
        cure: "give each rail an address of its own, in a subnet of its own",
        judge: same_address,
    },
    Rule {
        code: "RDC307",
        severity: Severity::Warning,
        title: "A GID table is nearly full",
        why: "Each address of a macvlan or VLAN takes two entries. When the table is full, new Pods get addresses without \
              GIDs and cannot use RoCE.",
        cure: "remove addresses that nobody uses, or offer fewer slots of this HCA to Pods",
        judge: table_full,
    },
];

fn no_gid(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(|(_, port)| is_active_roce(port)) {
        let name = port_name(hca, port);
        match (port.gid_table_len, port.unknown.contains_key("gids")) {
            (_, true) => sheet.unjudged(name, why(&port.unknown, "gids")),
            (Some(1..), _) if port.gids.is_empty() => sheet.say(name, "all GIDs zero", "a RoCE v2 GID"),
            _ => {}
        }
    }
}

fn link_local_only(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(|(hca, port)| is_active_roce(port) && !hca.software) {
        let v2: Vec<&GidEntry> = own_v2(case, port).collect();
        if v2.is_empty() || v2.iter().any(|gid| !gid.gid.is_link_local()) {
            continue;
        }
        let virtual_function = matches!(hca.function, Some(FunctionKind::Vf | FunctionKind::Sf));
        let finding = sheet.find(
            port_name(hca, port),
            "only link-local RoCE v2 GIDs (fe80::)",
            "one of a routable address",
        );
        // Its address comes with the Pod that gets it.
        if virtual_function {
            finding.severity = Severity::Note;
        }
    }
}

fn no_table(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in
        case.ports().filter(|(_, p)| p.transport == Transport::Roce && p.gid_table_len == Some(0))
    {
        sheet.find(
            port_name(hca, port),
            "GID table of length 0: RoCE off, or switchdev",
            "GIDs, where the port should carry RoCE",
        );
    }
}

fn no_v2(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(|(_, port)| is_active_roce(port) && !port.gids.is_empty()) {
        if port.gids.iter().any(|gid| gid.gid_type.is_none()) {
            sheet.unjudged(port_name(hca, port), "the types of its GIDs could not be read");
        } else if !port.gids.iter().any(|gid| gid.gid_type == Some(GidType::V2)) {
            sheet.find(port_name(hca, port), "RoCE v1 GIDs only", "RoCE v2");
        }
    }
}

fn unlike_indexes(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let index = |port: &Port| {
        let own: Vec<&GidEntry> = own_v2(case, port).filter(|gid| !gid.gid.is_link_local()).collect();
        let netdev = own.iter().find(|gid| gid.netdev == port.netdev);
        netdev.or(own.first()).map(|gid| gid.index)
    };
    let ports = case.rails().into_iter().filter(|(_, port)| is_active_roce(port));
    let indexes: Vec<_> =
        ports.filter_map(|(hca, port)| Some((port_name(hca, port), index(port)?))).collect();
    if indexes.iter().any(|(_, index)| *index != indexes[0].1) {
        let seen: Vec<String> = indexes.iter().map(|(name, index)| format!("{index} on {name}")).collect();
        sheet.find("host", format!("index {}", seen.join(", ")), "no one index for all rails");
    }
}

fn same_address(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let mut holders: BTreeMap<IpAddr, Vec<(&str, &str)>> = BTreeMap::new();
    for (hca, port) in case.rails().into_iter().filter(|(_, port)| port.transport == Transport::Roce) {
        let Some(netdev) = port.netdev.as_deref() else { continue };
        for gid in own_v2(case, port).filter(|gid| !gid.gid.is_link_local()) {
            let Some(address) = gid.address else { continue };
            let holders = holders.entry(address).or_default();
            if !holders.iter().any(|(name, _)| *name == hca.name.as_str()) {
                holders.push((hca.name.as_str(), gid.netdev.as_deref().unwrap_or(netdev)));
            }
        }
    }
    for (address, holders) in holders.iter().filter(|(_, holders)| holders.len() > 1) {
        let mut netdevs: Vec<&str> = holders.iter().map(|(_, netdev)| *netdev).collect();
        netdevs.dedup();
        let hcas: Vec<&str> = holders.iter().map(|(hca, _)| *hca).collect();
        let seen = format!("{address} is a GID of {}", hcas.join(" and "));
        let finding = sheet.find(netdevs.join(", "), seen, "one HCA for each address");
        // A bond over two cards: both carry its address by design, and RDMA does not fail over between them.
        if netdevs.len() == 1 {
            finding.severity = Severity::Note;
            finding.cure = "for one RDMA device that fails over, bond two ports of one card (LAG)".into();
        }
    }
}

fn table_full(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    for (hca, port) in case.ports().filter(|(hca, port)| port.transport == Transport::Roce && !hca.software) {
        let (Some(len), Some(set)) = (port.gid_table_len, port.gids_set) else { continue };
        // Two entries an address: fewer than five addresses fit in.
        if len >= 16 && len.saturating_sub(set) < 10 {
            sheet.find(
                port_name(hca, port),
                format!("{set} of {len} entries are set"),
                "room for further addresses",
            );
        }
    }
}

fn own_v2<'a>(case: &Case<'a>, port: &'a Port) -> impl Iterator<Item = &'a GidEntry> {
    let host = case.host;
    port.gids.iter().filter(move |gid| gid.gid_type == Some(GidType::V2) && host.owns(gid))
}

fn is_active_roce(port: &Port) -> bool {
    port.transport == Transport::Roce && port.state.as_deref() == Some("ACTIVE")
}
