//! Which HCA, port and GID a connection uses, and why. Not whether it works: that is for the test to show, and for
//! [`crate::diagnose`] to explain.
//!
//! The address is the key, never the index: an index differs between hosts, Pods and boots. In a Pod of a host in
//! shared namespace mode the GID table also lists the addresses of the host and of other Pods, so only addresses of
//! this namespace count.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::host::{GidEntry, GidType, Hca, Host, LinkLayer, Port, Transport, Usable};
use crate::names::{GidIndex, HcaName, PortNum};
use crate::pod::Tried;

mod loopback;
mod near;
#[cfg(test)]
mod tests;

pub use loopback::{Loopback, loopback, loopback_of_boot};
use near::{Nearness, nearness_of_gid, nearness_of_netdev};
pub(crate) use near::{in_subnet, is_link_local};

/// What is known and asked for when the choice is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// The only HCA to consider; None for any that this process may open.
    pub hca: Option<&'a HcaName>,
    /// The only port to consider; None for any.
    pub port: Option<PortNum>,
    /// The index to use whatever it holds; None for the best.
    pub gid_index: Option<GidIndex>,
    /// The TCP connection to the other end; None before there is one.
    pub connection: Option<Connection>,
    /// No GID of an IPv4 address, whatever the connection's is.
    pub ipv6: bool,
}

/// Both addresses of a TCP connection; IPv4-mapped ones count as IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Ours.
    pub local: IpAddr,
    /// The other end's.
    pub peer: IpAddr,
}

/// What a test runs over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The HCA.
    pub hca: HcaName,
    /// Its port.
    pub port: PortNum,
    /// The entry of the port's GID table; None on InfiniBand, where the LID is enough.
    pub gid: Option<GidEntry>,
    /// Why this one.
    pub reason: String,
    /// What is odd about it, though it may work.
    pub warnings: Vec<String>,
}

/// Nothing can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    /// The host lists no HCA.
    #[error("no HCA: the kernel lists no RDMA device here")]
    NoHca,
    /// No HCA has the wanted name.
    #[error("no HCA is named {wanted}; there is {}", .present.join(", "))]
    UnknownHca {
        /// The name asked for.
        wanted: HcaName,
        /// The names there are.
        present: Vec<String>,
    },
    /// The wanted port does not exist.
    #[error("no HCA considered has a port {wanted}; there is {}", .present.join(", "))]
    UnknownPort {
        /// The port asked for.
        wanted: PortNum,
        /// The ports there are, as mlx5_0/1.
        present: Vec<String>,
    },
    /// The wanted index is unset, or beyond the table, on every port considered.
    #[error("GID index {wanted} is not set; usable: {}", list_or_none(.usable))]
    UnsetIndex {
        /// The index asked for.
        wanted: GidIndex,
        /// What could be asked for instead.
        usable: Vec<String>,
    },
    /// The ports considered speak what RC without rdma_cm does not: no failure of theirs.
    #[error("not testable by RC without rdma_cm: {}", .0.join("; "))]
    NeedsRdmaCm(Vec<String>),
    /// Every port is out, each for its reason.
    #[error("no HCA can be used: {}", .0.join("; "))]
    NothingUsable(Vec<String>),
}

fn list_or_none(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

struct Candidate<'a> {
    hca: &'a Hca,
    port: &'a Port,
    entry: Option<&'a GidEntry>,
    nearness: Nearness,
}

/// Chooses HCA, port and GID: the connection's local address if an HCA has a RoCE v2 GID of it; else an address of
/// this namespace, the peer's subnet first, then any, link-local last. An InfiniBand port needs no GID. The order of
/// the host's HCAs, ports and indexes decides between equals. Ports on which no test can start
/// ([`crate::usable::judge`]) come into question by a forced index alone.
pub fn choose_gid(host: &Host, wish: &Wish<'_>) -> Result<Choice, NoChoice> {
    let ports = ports(host, wish)?;
    let candidates = ports.iter().flat_map(|(hca, port)| candidates(host, hca, port, wish));
    // An IPv6 GID of the netdev that an IPv4 connection goes over is on its rail.
    let rail = |c: &Candidate<'_>| {
        let netdev = c.entry.and_then(|entry| entry.netdev.as_deref());
        wish.ipv6.then(|| nearness_of_netdev(host, netdev, wish.connection))
    };
    let rank =
        |c: &Candidate<'_>| (c.port.usable == Usable::No, rail(c), c.nearness, !same_family(c.entry, wish));
    match candidates.min_by_key(rank) {
        Some(best) => Ok(Choice {
            hca: best.hca.name.clone(),
            port: best.port.port,
            gid: best.entry.cloned(),
            reason: reason(&best, wish),
            warnings: warnings(&best, wish),
        }),
        None => Err(no_choice(host, &ports, wish)),
    }
}

/// The same once an HCA did not open: without all whose nodes do not, with a warning that says why (an errno's name). None
/// where its node does open, nothing else can be chosen, or the HCA or an index of it was asked for.
pub fn choose_other(host: &Host, wish: &Wish<'_>, unopened: &HcaName, tried: &Tried) -> Option<Choice> {
    if wish.hca.is_some() || wish.gid_index.is_some() {
        return None;
    }
    let errno = tried.get(unopened)?.as_ref()?;
    let mut others = host.clone();
    others.hcas.retain(|hca| tried.get(&hca.name).is_none_or(Option::is_none));
    let mut choice = choose_gid(&others, wish).ok()?;
    choice.warnings.push(format!("{unopened} came first, and its device node does not open here ({errno})"));
    Some(choice)
}

fn ports<'a>(host: &'a Host, wish: &Wish<'_>) -> Result<Vec<(&'a Hca, &'a Port)>, NoChoice> {
    if host.hcas.is_empty() {
        return Err(NoChoice::NoHca);
    }
    let hcas: Vec<&Hca> = host.hcas.iter().filter(|h| wish.hca.is_none_or(|name| *name == h.name)).collect();
    if let (Some(wanted), true) = (wish.hca, hcas.is_empty()) {
        let present = host.hcas.iter().map(|h| h.name.to_string()).collect();
        return Err(NoChoice::UnknownHca { wanted: wanted.clone(), present });
    }
    let all: Vec<_> =
        hcas.into_iter().flat_map(|hca| hca.ports.iter().map(move |port| (hca, port))).collect();
    let wanted: Vec<_> = all.iter().copied().filter(|(_, p)| wish.port.is_none_or(|n| n == p.port)).collect();
    match wish.port {
        Some(port) if wanted.is_empty() => {
            let present = all.iter().map(|(hca, port)| format!("{}/{}", hca.name, port.port)).collect();
            Err(NoChoice::UnknownPort { wanted: port, present })
        }
        _ => Ok(wanted),
    }
}

fn candidates<'a>(host: &Host, hca: &'a Hca, port: &'a Port, wish: &Wish<'_>) -> Vec<Candidate<'a>> {
    if needs_rdma_cm(port) || port.usable == Usable::No && wish.gid_index.is_none() {
        return Vec::new();
    }
    if port.link_layer == LinkLayer::InfiniBand && wish.gid_index.is_none() {
        let nearness = nearness_of_netdev(host, port.netdev.as_deref(), wish.connection);
        return vec![Candidate { hca, port, entry: None, nearness }];
    }
    let wanted = |entry: &&GidEntry| match wish.gid_index {
        Some(index) => entry.index == index,
        None => {
            let is_wanted_family = !wish.ipv6 || entry.gid.ipv4().is_none();
            entry.gid_type == Some(GidType::V2) && host.owns(entry) && is_wanted_family
        }
    };
    let candidate = |entry| {
        let nearness = nearness_of_gid(host, entry, wish.connection);
        Candidate { hca, port, entry: Some(entry), nearness }
    };
    port.gids.iter().filter(wanted).map(candidate).collect()
}

/// Whether what the port speaks knows no RC over a GID or LID: iWARP connects by rdma_cm alone, EFA has SRD.
fn needs_rdma_cm(port: &Port) -> bool {
    matches!(port.transport, Transport::Iwarp | Transport::Efa | Transport::Usnic)
}

/// Whether the entry's address is of the connection's family; IPv4 before there is a connection.
fn same_family(entry: Option<&GidEntry>, wish: &Wish<'_>) -> bool {
    let v4 = wish.connection.is_none_or(|c| c.peer.to_canonical().is_ipv4());
    entry.is_none_or(|entry| entry.gid.ipv4().is_some() == v4)
}

fn reason(best: &Candidate<'_>, wish: &Wish<'_>) -> String {
    if let Some(index) = wish.gid_index {
        return format!("index {index} was asked for");
    }
    let subject = match best.entry {
        Some(entry) => format!("{} on {}", address_in_words(entry), entry.netdev.as_deref().unwrap_or("?")),
        None => format!("InfiniBand port {}/{}", best.hca.name, best.port.port),
    };
    match (best.nearness, wish.connection) {
        (Nearness::ConnectionAddress, _) => format!("{subject} carries this connection"),
        (Nearness::PeerSubnet, Some(c)) => {
            format!("{subject} is in the subnet of the other end, {}", c.peer.to_canonical())
        }
        (_, Some(c)) => format!(
            "no HCA has {}, the address of this connection; {subject} is the first usable",
            c.local.to_canonical()
        ),
        (_, None) => format!("{subject} is the first usable"),
    }
}

fn warnings(best: &Candidate<'_>, wish: &Wish<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if best.port.usable == Usable::No {
        warnings.push(format!("{}/{}: {}", best.hca.name, best.port.port, best.port.reason));
    }
    let Some(entry) = best.entry.filter(|_| best.port.link_layer != LinkLayer::InfiniBand) else {
        return warnings;
    };
    let (index, address) = (entry.index, address_in_words(entry));
    if entry.gid_type == Some(GidType::V1) {
        warnings.push(format!(
            "GID index {index} is RoCE v1: no router forwards it, and the other end must use v1 too"
        ));
    }
    let is_forced = wish.gid_index.is_some();
    if is_link_local(entry) && (is_forced || best.nearness != Nearness::ConnectionAddress) {
        warnings.push(format!(
            "GID index {index} ({address}) is link-local: it reaches one Ethernet segment only"
        ));
    }
    if best.nearness == Nearness::Foreign {
        warnings
            .push(format!("GID index {index} ({address}) is foreign: no address of this network namespace"));
    }
    warnings
}

fn no_choice(host: &Host, ports: &[(&Hca, &Port)], wish: &Wish<'_>) -> NoChoice {
    if !ports.is_empty() && ports.iter().all(|(_, port)| needs_rdma_cm(port)) {
        let words = |(hca, port): &(&Hca, &Port)| format!("{}/{}: {}", hca.name, port.port, port.reason);
        return NoChoice::NeedsRdmaCm(ports.iter().map(words).collect());
    }
    if let Some(wanted) = wish.gid_index {
        let any = Wish { gid_index: None, ..*wish };
        let usable = ports.iter().flat_map(|(hca, port)| candidates(host, hca, port, &any));
        return NoChoice::UnsetIndex { wanted, usable: usable.filter_map(|c| index_in_words(&c)).collect() };
    }
    let why = |(hca, port): &(&Hca, &Port)| {
        let reason = match (port.usable == Usable::No, wish.ipv6) {
            (true, _) => &port.reason,
            (false, true) => "no RoCE v2 GID of an IPv6 address of this namespace",
            (false, false) => "no RoCE v2 GID of this namespace",
        };
        format!("{}/{}: {reason}", hca.name, port.port)
    };
    NoChoice::NothingUsable(ports.iter().map(why).collect())
}

fn index_in_words(candidate: &Candidate<'_>) -> Option<String> {
    let entry = candidate.entry?;
    let (hca, port) = (&candidate.hca.name, candidate.port.port);
    Some(format!("{hca}/{port} index {} ({})", entry.index, address_in_words(entry)))
}

fn address_in_words(entry: &GidEntry) -> String {
    entry.address.map_or_else(|| entry.gid.to_string(), |address| address.to_string())
}
