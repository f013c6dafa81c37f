//! What the addresses of both ends and the netdevs say about the way between them.

use std::net::IpAddr;

use crate::gid::in_subnet;
use crate::host::{GidType, LinkLayer, Netdev};
use crate::names::Gid;

use super::{Evidence, Said, because};

/// The two ends cannot work together, whatever an errno or status says.
pub(super) fn unlike_ends(evidence: &Evidence<'_>) -> Option<Said> {
    link_layers(evidence)
        .or_else(|| zero_gid(evidence))
        .or_else(|| gids(evidence))
        .or_else(|| types(evidence))
}

/// By what both ends say. Of an end that says nothing a GID of IPv4, or one without a LID, is Ethernet's; a LID alone
/// tells nothing, as some drivers give one to RoCE ports too (irdma says 1).
fn link_layers(evidence: &Evidence<'_>) -> Option<Said> {
    let local = evidence.local.link_layer.clone()?;
    let remote = evidence.remote.link_layer.clone().or_else(|| {
        let endpoint = evidence.remote.endpoint?;
        let of_ethernet = endpoint.gid.ipv4().is_some() || endpoint.lid == 0 && !endpoint.gid.is_zero();
        of_ethernet.then_some(LinkLayer::Ethernet)
    })?;
    let name = |layer: &LinkLayer| match layer {
        LinkLayer::InfiniBand => Some("InfiniBand"),
        LinkLayer::Ethernet => Some("Ethernet"),
        LinkLayer::Unknown => None,
    };
    let (here, there) = (name(&local)?, name(&remote)?);
    (local != remote).then(|| {
        because(format!("this end is on {here}, the other on {there}"), "choose HCAs of one fabric with -d")
    })
}

fn on_ethernet(evidence: &Evidence<'_>) -> bool {
    evidence.local.link_layer == Some(LinkLayer::Ethernet)
}

fn zero_gid(evidence: &Evidence<'_>) -> Option<Said> {
    let remote = evidence.remote.endpoint.filter(|remote| on_ethernet(evidence) && remote.gid.is_zero())?;
    let start = "start the other end with the index of a RoCE v2 GID (ibv_rc_pingpong -g INDEX)";
    Some(match remote.lid {
        0 => because("the other end sent no GID, which RoCE needs", start),
        lid => because(
            format!("the other end sent no GID, which RoCE needs, but LID {lid}, as InfiniBand has"),
            format!("choose HCAs of one fabric with -d; if the other end's is RoCE too, {start}"),
        ),
    })
}

fn gids(evidence: &Evidence<'_>) -> Option<Said> {
    let (local, remote) = both_gids(evidence)?;
    let seen = || format!("({} here, {} there)", words(local), words(remote));
    if is_link_local(local) != is_link_local(remote) {
        return Some(because(
            format!("one GID is link-local, the other is not {}", seen()),
            "choose GIDs of routable addresses at both ends (-x INDEX)",
        ));
    }
    (local.ipv4().is_some() != remote.ipv4().is_some()).then(|| {
        because(
            format!("one GID is IPv4, the other IPv6 {}", seen()),
            "choose GIDs of one family at both ends (-x INDEX)",
        )
    })
}

fn types(evidence: &Evidence<'_>) -> Option<Said> {
    let name = |gid_type| match gid_type {
        GidType::V1 => "RoCE v1",
        GidType::V2 => "RoCE v2",
    };
    let (here, there) = (evidence.local.gid_type?, evidence.remote.gid_type?);
    (on_ethernet(evidence) && here != there).then(|| {
        because(
            format!("this end's GID is {}, the other's {}", name(here), name(there)),
            "choose RoCE v2 GIDs at both ends (-x INDEX)",
        )
    })
}

/// The GIDs of both ends of RoCE, if both are known and set.
fn both_gids(evidence: &Evidence<'_>) -> Option<(Gid, Gid)> {
    let local = own_gid(evidence)?;
    let remote = evidence.remote.endpoint?.gid;
    (on_ethernet(evidence) && !local.is_zero() && !remote.is_zero()).then_some((local, remote))
}

fn own_gid(evidence: &Evidence<'_>) -> Option<Gid> {
    let entry = evidence.choice.and_then(|choice| choice.gid.as_ref());
    entry.map(|entry| entry.gid).or_else(|| Some(evidence.local.endpoint?.gid))
}

fn is_link_local(gid: Gid) -> bool {
    gid.is_link_local() || gid.ipv4().is_some_and(|v4| v4.is_link_local())
}

/// This end's GID is no address of this namespace, which only a forced index makes it.
pub(super) fn foreign_gid(evidence: &Evidence<'_>) -> Option<Said> {
    let (host, entry) = (evidence.host, evidence.choice?.gid.as_ref()?);
    // Where the kernel does not tell an entry's netdev, the address alone has to.
    let is_own =
        |address| host.netdevs.iter().any(|netdev| netdev.addresses.iter().any(|(own, _)| *own == address));
    let is_foreign = match entry.netdev {
        Some(_) => !host.owns(entry),
        None => !host.unknown.contains_key("netdevs.addresses") && !is_own(entry.address?),
    };
    (on_ethernet(evidence) && is_foreign).then(|| {
        because(
            format!(
                "GID index {} ({}) is of no address of this network namespace",
                entry.index,
                words(entry.gid)
            ),
            "leave -x out: then the GID is one of this namespace's own",
        )
    })
}

/// Size of a full RoCE v2 packet of a path MTU as IP has it, bytes: with the headers of IP (20 or 40 bytes), UDP (8) and
/// BTH (12) and the checksum (4); some operations put more into some packets.
pub fn packet_bytes(mtu_bytes: u32, is_v4: bool) -> u32 {
    mtu_bytes + if is_v4 { 44 } else { 64 }
}

/// The packets of the QP do not fit the way, or the netdev of one end: only that of a GID on a VLAN or macvlan child can be
/// smaller than what the port's MTU was made from, and an HCA need not look at it.
pub(super) fn too_large_packets(evidence: &Evidence<'_>) -> Option<Said> {
    let mtu = evidence.local.mtu_bytes?;
    let is_v4 = both_gids(evidence).is_none_or(|(local, _)| local.ipv4().is_some());
    let packet = packet_bytes(mtu, is_v4);
    let end =
        |name, netdev_mtu: Option<u32>| Some((name, netdev_mtu.filter(|netdev_mtu| *netdev_mtu < packet)?));
    let cure = |fits: u32| {
        let fits = |mtu: &u32| packet_bytes(*mtu, is_v4) <= fits;
        let smaller = [2048, 1024, 512, 256].into_iter().find(fits);
        let smaller = smaller.map_or_else(String::new, |mtu| format!("give -m {mtu} at both ends, or "));
        format!("{smaller}raise the MTU of netdevs and switches on the way alike")
    };
    if !on_ethernet(evidence) {
        return None;
    }
    match evidence.reach.filter(|reach| reach.small).and_then(|reach| Some((reach.large, reach.large_bytes?)))
    {
        Some((true, _)) => return None,
        Some((false, large)) => {
            return Some(because(
                format!(
                    "the way between the ends drops packets as large as a path MTU of {mtu} bytes makes them ({large} \
                     bytes), and carries small ones"
                ),
                cure(large - 1),
            ));
        }
        None => {}
    }
    let (name, fits) = end("this end", evidence.local.netdev_mtu)
        .or_else(|| end("the other end", evidence.remote.netdev_mtu))?;
    Some(because(
        format!(
            "a path MTU of {mtu} bytes makes packets larger than the netdev of {name} takes ({fits} bytes), which may be \
             dropped on the way"
        ),
        cure(fits),
    ))
}

/// The other end's address is in the subnet of another netdev of this host, which an HCA sits on.
pub(super) fn wrong_rail(evidence: &Evidence<'_>) -> Option<Said> {
    let remote = evidence
        .remote
        .endpoint?
        .gid
        .address()
        .filter(|address| !is_link_local(Gid::from_address(*address)))?;
    let own = own_netdev(evidence)?;
    if holds(own, remote) {
        return None;
    }
    let rails = evidence.host.hcas.iter().flat_map(|hca| {
        let netdevs = hca.ports.iter().flat_map(|port| &port.gids);
        netdevs
            .filter(|gid| evidence.host.owns(gid))
            .filter_map(move |gid| Some((hca, gid.netdev.as_deref()?)))
    });
    let nearer = |name: &str| evidence.host.netdev(name).is_some_and(|netdev| holds(netdev, remote));
    let (hca, rail) = rails.into_iter().find(|(_, name)| *name != own.name && nearer(name))?;
    Some(because(
        format!(
            "{remote}, the other end's GID, is on another rail: in the subnet of {rail}, and not in that of {}",
            own.name
        ),
        format!(
            "choose the HCA of that rail with -d {}, or let the other end use the rail of {}",
            hca.name, own.name
        ),
    ))
}

/// Several netdevs in one subnet, of which each answers ARP for the addresses of all. Whatever lies on this end's own one
/// leads to the same HCA, and a bridge that it is no part of to none.
pub(super) fn arp_flux(evidence: &Evidence<'_>) -> Option<Said> {
    let own = own_netdev(evidence)?;
    let address = evidence.choice?.gid.as_ref()?.address.filter(IpAddr::is_ipv4)?;
    let (_, prefix) = *own.addresses.iter().find(|(own, _)| *own == address)?;
    let beside: Vec<&str> = evidence
        .host
        .netdevs
        .iter()
        .filter(|other| other.up && is_apart(evidence, own, other))
        .filter(|other| other.addresses.iter().any(|(other, _)| in_subnet(*other, address, prefix)))
        .map(|other| other.name.as_str())
        .collect();
    let ignores = evidence.host.interface_sysctl(&own.name, "arp_ignore")?;
    (!beside.is_empty() && ignores == 0).then(|| {
        because(
            format!(
                "no packet came back, and {} and {} are in one subnet with arp_ignore 0: each answers ARP for the \
                 other's addresses, so that packets may come to the wrong HCA",
                own.name,
                beside.join(", ")
            ),
            "is the other end still running? Then set net.ipv4.conf.all.arp_ignore=1 and arp_announce=2 at both ends, or give \
             each rail a subnet of its own",
        )
    })
}

/// Whether packets to the one do not come over the other: they are of two links.
fn is_apart(evidence: &Evidence<'_>, own: &Netdev, other: &Netdev) -> bool {
    let lower = |netdev: &'_ Netdev| netdev.parent.clone().unwrap_or_else(|| netdev.name.clone());
    let is_carried = other.kind.as_deref() != Some("bridge") && other.master.is_none();
    let port = evidence.choice.and_then(|choice| evidence.host.hca(choice.hca.as_str())?.port(choice.port));
    let on_port = port.is_some_and(|port| {
        port.netdev.as_deref() == Some(&other.name)
            || port
                .gids
                .iter()
                .any(|gid| gid.netdev.as_deref() == Some(&other.name) && evidence.host.owns(gid))
    });
    is_carried && !on_port && lower(own) != lower(other)
}

fn own_netdev<'a>(evidence: &Evidence<'a>) -> Option<&'a Netdev> {
    evidence.host.netdev(evidence.choice?.gid.as_ref()?.netdev.as_deref()?)
}

/// Whether the address is in a subnet of the netdev.
fn holds(netdev: &Netdev, address: IpAddr) -> bool {
    netdev.addresses.iter().any(|(own, prefix)| in_subnet(address, *own, *prefix))
}

/// Says so if the other end's address is in none of this end's subnets on the netdev in use.
pub(super) fn other_subnet(evidence: &Evidence<'_>) -> Option<String> {
    let (_, remote) = both_gids(evidence)?;
    let remote = remote.address()?;
    let own = own_netdev(evidence)?;
    let mut alike = own.addresses.iter().filter(|(own, _)| own.is_ipv4() == remote.is_ipv4()).peekable();
    alike.peek()?;
    let outside = !alike.any(|(own, prefix)| in_subnet(remote, *own, *prefix));
    outside
        .then(|| format!("{remote} is in another subnet, so a router must carry it{}", stock_hops(evidence)))
}

/// Kernels take the hop limit of their route instead (drivers/infiniband/core/verbs.c, ib_resolve_unicast_gid_dmac), but
/// not all ever did.
fn stock_hops(evidence: &Evidence<'_>) -> &'static str {
    match evidence.remote.hop_limit {
        Some(1) => {
            " (if that end is ibv_rc_pingpong, it asks for a hop limit of 1: under a kernel that keeps it, instead of its \
             route's as recent ones do, its packets end there; take rocade at that end)"
        }
        _ => "",
    }
}

/// The netdev in use, for commands that a sentence names; the HCA where there is none.
pub(super) fn netdev_in_words<'a>(evidence: &'a Evidence<'_>) -> &'a str {
    let choice = evidence.choice;
    let netdev = choice.and_then(|choice| choice.gid.as_ref()).and_then(|gid| gid.netdev.as_deref());
    netdev.or_else(|| choice.map(|choice| choice.hca.as_str())).unwrap_or("this end's netdev")
}

/// The other end, by its GID or LID.
pub(super) fn remote_in_words(evidence: &Evidence<'_>) -> String {
    match evidence.remote.endpoint {
        Some(endpoint) if !endpoint.gid.is_zero() => words(endpoint.gid),
        Some(endpoint) if endpoint.lid != 0 => format!("LID {}", endpoint.lid),
        _ => "the other end".to_owned(),
    }
}

fn words(gid: Gid) -> String {
    gid.address().map_or_else(|| "no GID".to_owned(), |address| address.to_string())
}
