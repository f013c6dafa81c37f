//! What each HCA is for, with the ground. Reads the model only; who may use an HCA is `plan`'s matter.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::host::{Distance, FunctionKind, Hca, Host, LinkLayer, Port, Role, RoleKind, Route, Transport};

/// Fills the role of every HCA. Relations and distances must have been filled ([`crate::relate`],
/// [`crate::distance`]).
pub fn judge(host: &mut Host) {
    let own: Vec<Option<Role>> = host.hcas.iter().map(|hca| tell_own(host, hca)).collect();
    let groups = Groups::of(host, &own);
    let mut roles: Vec<Role> =
        host.hcas.iter().zip(own).map(|(hca, own)| own.unwrap_or_else(|| groups.tell(host, hca))).collect();
    for (at, hca) in host.hcas.iter().enumerate() {
        if let Some(role) = inherit(host, hca, &roles[at], &roles) {
            roles[at] = role;
        }
    }
    for (hca, role) in host.hcas.iter_mut().zip(roles) {
        hca.role = role;
    }
}

fn role(kind: RoleKind, ground: impl Into<String>) -> Role {
    Role { kind, ground: ground.into() }
}

/// What an HCA itself tells, without its like.
fn tell_own(host: &Host, hca: &Hca) -> Option<Role> {
    tell_bridge(host, hca)
        .or_else(|| tell_down(hca))
        .or_else(|| tell_management(host, hca))
        .or_else(|| tell_session(host, hca))
}

/// Functions that run an NVSwitch domain look like rails; only vital product data tells them apart.
fn tell_bridge(host: &Host, hca: &Hca) -> Option<Role> {
    if hca.switch_management == Some(true) {
        return Some(role(RoleKind::Bridge, "vital product data says SMDL=SW_MNG: it manages an NVSwitch"));
    }
    let address = hca.pci_address?;
    let is_like = |other: &&Hca| {
        let same_slot = other
            .pci_address
            .is_some_and(|a| (a.domain, a.bus, a.device) == (address.domain, address.bus, address.device));
        same_slot && other.switch_management.is_none()
    };
    let unread = hca.switch_management.is_none() && !host.accelerators.is_empty();
    let why = hca.unknown.get("switch_management").map_or("not read", String::as_str);
    (unread && host.hcas.iter().filter(is_like).count() > 1).then(|| {
        role(
            RoleKind::Unknown,
            format!("a rail or a function that manages an NVSwitch: vital product data would tell ({why})"),
        )
    })
}

fn tell_down(hca: &Hca) -> Option<Role> {
    if let Some(planes) = &hca.planes {
        return (planes.up == 0).then(|| role(RoleKind::Down, "none of its planes is ACTIVE"));
    }
    if active(hca).next().is_some() {
        return None;
    }
    let states: Vec<String> = hca
        .ports
        .iter()
        .map(|port| format!("port {} {}", port.port, port.state.as_deref().unwrap_or("unreadable")))
        .collect();
    let kind =
        if hca.ports.iter().any(|port| port.state.is_none()) { RoleKind::Unknown } else { RoleKind::Down };
    Some(role(kind, if states.is_empty() { "no port".into() } else { states.join(", ") }))
}

fn active(hca: &Hca) -> impl Iterator<Item = &Port> {
    hca.ports.iter().filter(|port| port.state.as_deref() == Some("ACTIVE"))
}

fn tell_management(host: &Host, hca: &Hca) -> Option<Role> {
    let default = host.default_route_netdev.as_deref().filter(|netdev| carries(host, hca, netdev));
    if let Some(netdev) = default {
        return Some(role(RoleKind::Management, format!("{netdev} carries the default route")));
    }
    let server: IpAddr = host.api_server.as_deref()?.parse().ok()?;
    let netdev = netdev_towards(host, server).filter(|netdev| carries(host, hca, netdev))?;
    Some(role(RoleKind::Management, format!("{netdev} leads to the API server at {server}")))
}

fn tell_session(host: &Host, hca: &Hca) -> Option<Role> {
    let session = host.remote_storage.iter().find(|session| {
        let by_client = session.client.and_then(|address| netdev_of(host, address));
        let by_server = || session.server.and_then(|address| netdev_towards(host, address));
        by_client.or_else(by_server).is_some_and(|netdev| carries(host, hca, netdev))
    })?;
    Some(role(RoleKind::Storage, format!("{} {} goes over it", session.kind, session.name)))
}

/// Whether packets of an interface go through the HCA's ports.
fn carries(host: &Host, hca: &Hca, netdev: &str) -> bool {
    let is_of = |port: &Port| {
        port.netdev.as_deref() == Some(netdev)
            || port.child_netdevs.iter().any(|child| child == netdev)
            || port.bond_members.iter().any(|member| member == netdev)
            // A netdev below one that is not a bond: Hyper-V's synthetic interface over its VF.
            || port.netdev.as_deref().and_then(|own| host.netdev(own)?.master.as_deref()) == Some(netdev)
    };
    hca.ports.iter().any(is_of)
}

fn netdev_of(host: &Host, address: IpAddr) -> Option<&str> {
    let has = |netdev: &&crate::host::Netdev| netdev.addresses.iter().any(|(own, _)| *own == address);
    host.netdevs.iter().find(has).map(|netdev| netdev.name.as_str())
}

/// The interface of the longest route in the main table, the default route left out.
fn netdev_towards(host: &Host, address: IpAddr) -> Option<&str> {
    let fits = |route: &&Route| {
        route.table == 254 && route.destination.1 > 0 && is_within(address, route.destination)
    };
    let best = host.routes.iter().filter(fits).max_by_key(|route| route.destination.1);
    netdev_of(host, address).or_else(|| best?.netdev.as_deref())
}

fn is_within(address: IpAddr, (network, length): (IpAddr, u8)) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let ((a, width), (b, other)) = (bits(address), bits(network));
    let shift = 128 - u32::from(length.min(width));
    width == other && (shift == 128 || a >> shift == b >> shift)
}

/// What HCAs of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// 10⁸ bit/s.
    rate: Option<u64>,
    link: &'static str,
    card: String,
}

impl Kind {
    fn of(hca: &Hca) -> Kind {
        let port =
            active(hca).max_by(|a, b| a.rate_gbps.unwrap_or(0.0).total_cmp(&b.rate_gbps.unwrap_or(0.0)));
        let id = || hca.pci_id.map_or_else(|| "card unknown".into(), |id| id.to_string());
        Kind {
            rate: port.and_then(|port| port.rate_gbps).map(|rate| (rate * 10.0) as u64),
            link: match port.map(|port| (&port.link_layer, port.transport)) {
                Some((_, Transport::Opa)) => "Omni-Path",
                Some((LinkLayer::InfiniBand, _)) => "InfiniBand",
                Some((LinkLayer::Ethernet, _)) => "Ethernet",
                _ => "link unknown",
            },
            card: hca.hca_type.clone().unwrap_or_else(id),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rate {
            Some(rate) => write!(f, "{} Gb/s {} {}", rate as f64 / 10.0, self.link, self.card),
            None => write!(f, "rate unknown, {} {}", self.link, self.card),
        }
    }
}

/// HCAs that could be rails, by kind.
struct Groups {
    largest: Option<(Kind, usize)>,
    tied: bool,
    /// Whether there is nothing but software.
    soft: bool,
}

impl Groups {
    /// VFs and SFs are as their PFs are, and software stands for no card: they count only where there is nothing else.
    fn of(host: &Host, own: &[Option<Role>]) -> Groups {
        let open: Vec<&Hca> =
            host.hcas.iter().zip(own).filter(|(_, own)| own.is_none()).map(|(hca, _)| hca).collect();
        let whole = |hca: &&&Hca| !hca.software && hca.physical_function.is_none() && !is_part(hca);
        let cards: Vec<&Hca> = open.iter().filter(whole).copied().collect();
        let mut counts: BTreeMap<Kind, (usize, usize)> = BTreeMap::new();
        let soft = host.hcas.iter().all(|hca| hca.software);
        for hca in if cards.is_empty() { open } else { cards } {
            let (count, near) = counts.entry(Kind::of(hca)).or_default();
            *count += 1;
            *near += usize::from(has_near_accelerator(host, hca));
        }
        let largest = counts.iter().max_by_key(|(_, size)| **size).map(|(kind, size)| (kind.clone(), *size));
        let tied =
            counts.values().filter(|size| largest.as_ref().is_some_and(|(_, most)| most == *size)).count()
                > 1;
        Groups { largest: largest.map(|(kind, (count, _))| (kind, count)), tied, soft }
    }

    fn tell(&self, host: &Host, hca: &Hca) -> Role {
        let kind = Kind::of(hca);
        if hca.software && !self.soft {
            return role(RoleKind::Unknown, "made of software beside cards");
        }
        let Some((largest, count)) = &self.largest else {
            return role(RoleKind::Fabric, format!("the only kind that is up: {kind}"));
        };
        if has_near_accelerator(host, hca) {
            return role(RoleKind::Fabric, format!("{kind}, an accelerator below the same PCIe switch"));
        }
        if self.tied {
            return role(
                RoleKind::Unknown,
                format!("{kind}: no kind of HCA here is more frequent than the others"),
            );
        }
        match kind == *largest {
            true if *count == 1 => role(RoleKind::Fabric, format!("the only one that is up: {kind}")),
            true => role(RoleKind::Fabric, format!("one of {count} alike: {kind}")),
            false => role(
                RoleKind::Storage,
                format!("{kind}, unlike the {count} of {largest}, and no accelerator below its PCIe switch"),
            ),
        }
    }
}

fn is_part(hca: &Hca) -> bool {
    hca.function == Some(FunctionKind::Sf)
}

fn has_near_accelerator(host: &Host, hca: &Hca) -> bool {
    let name = hca.name.as_str();
    let near = |distance: &Distance| matches!(distance, Distance::Pix | Distance::Pxb);
    host.accelerators.iter().any(|accelerator| accelerator.distances.get(name).is_some_and(near))
}

/// A VF, an SF and software over an interface serve what the card below serves, where they told nothing of their own.
fn inherit(host: &Host, hca: &Hca, own: &Role, roles: &[Role]) -> Option<Role> {
    let told = matches!(own.kind, RoleKind::Down | RoleKind::Management | RoleKind::Bridge);
    let below = match hca.physical_function {
        Some(address) => Some(address),
        None => hca.pci_address.filter(|_| is_part(hca) || hca.software),
    };
    let at = host.hcas.iter().position(|other| {
        other.name != hca.name
            && other.pci_address == below
            && below.is_some()
            && !is_part(other)
            && !other.software
    })?;
    let card = roles.get(at).filter(|card| {
        !told && matches!(card.kind, RoleKind::Fabric | RoleKind::Storage | RoleKind::Management)
    })?;
    Some(role(card.kind, format!("as its card {}: {}", host.hcas[at].name, card.ground)))
}

#[cfg(test)]
mod tests;
