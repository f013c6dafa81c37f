//! The words that views share for one port: its link, its netdev, its RoCE v2 indexes by address, its verdict.

use std::net::IpAddr;

use rocade_core::{GidEntry, GidType, Host, Port, Transport, Usable};

/// Transport in a short word; what the JSON calls infiniband is `ib` here.
pub(super) fn render_transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Infiniband => "ib",
        Transport::Roce => "roce",
        Transport::Iwarp => "iwarp",
        Transport::Efa => "efa",
        Transport::Usnic => "usnic",
        Transport::Opa => "opa",
        Transport::Unknown => "unknown",
    }
}

/// `400G`; a question mark where the rate could not be read.
pub(super) fn render_rate(port: &Port) -> String {
    port.rate_gbps.map_or_else(|| "?G".into(), |rate| format!("{rate}G"))
}

/// The kernel's word for the state.
pub(super) fn render_state(port: &Port) -> &str {
    port.state.as_deref().unwrap_or("unread")
}

/// The port's netdev, and what RDMA netlink names where that is another one.
pub(super) fn render_netdev(port: &Port) -> String {
    let own = port.netdev.as_deref().unwrap_or("-");
    match port.netlink_netdev.as_deref() {
        Some(netlink) if netlink != own => format!("{own} (netlink: {netlink})"),
        _ => own.to_owned(),
    }
}

/// Every RoCE v2 index of this namespace by address, `10.8.10.4→3`, with the netdev where it is not the port's own;
/// link-local addresses only where there are no others. Indexes of other namespaces are only counted.
pub(super) fn render_indexes(host: &Host, port: &Port) -> Vec<String> {
    let v2 = port.gids.iter().filter(|gid| gid.gid_type == Some(GidType::V2));
    let (own, foreign): (Vec<&GidEntry>, Vec<&GidEntry>) = v2.partition(|gid| host.owns(gid));
    let routable = own.iter().any(|gid| !gid.gid.is_link_local());
    let shown = own.into_iter().filter(|gid| !routable || !gid.gid.is_link_local());
    let mut by_address: Vec<(IpAddr, Vec<String>)> = Vec::new();
    for gid in shown {
        let Some(address) = gid.address else { continue };
        let index = render_index(port, gid);
        match by_address.iter_mut().find(|(known, _)| *known == address) {
            Some((_, indexes)) => indexes.push(index),
            None => by_address.push((address, vec![index])),
        }
    }
    let mut words: Vec<String> =
        by_address.iter().map(|(address, indexes)| format!("{address}→{}", indexes.join(","))).collect();
    if !foreign.is_empty() {
        words.push(format!("({} of other netns)", foreign.len()));
    }
    words
}

fn render_index(port: &Port, gid: &GidEntry) -> String {
    match gid.netdev.as_deref() {
        Some(netdev) if Some(netdev) != port.netdev.as_deref() => format!("{}({netdev})", gid.index),
        _ => gid.index.to_string(),
    }
}

/// The verdict's one word.
pub(super) fn render_usable(usable: Usable) -> &'static str {
    match usable {
        Usable::Yes => "yes",
        Usable::Limited => "limited",
        Usable::No => "no",
    }
}
