//! What the rails have in common for NCCL, which takes one link layer, one address family, one range and one index for
//! all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::devices::{Devices, Rail, routable};
use super::gids::{Family, Taken, nccl_takes};
use super::{Given, Network, Reach};
use crate::gid::in_subnet;
use crate::host::Host;
use crate::names::GidIndex;

/// Entries that NCCL takes of a list.
const NCCL_LIST: usize = 32;

/// What was settled.
#[derive(Debug)]
pub(super) struct Fabric<'a> {
    pub(super) rails: Vec<Rail<'a>>,
    /// Left out of NCCL's rails → why.
    pub(super) left_out: BTreeMap<String, String>,
    /// Of the RoCE rails of NCCL; None on InfiniBand, and where all addresses are link-local.
    pub(super) family: Option<Family>,
    /// The fabric's network, or why none can be told.
    pub(super) range: Result<Network, String>,
    /// HCAs of which it is not known whether they open here.
    pub(super) unsure: Vec<String>,
}

impl<'a> Fabric<'a> {
    /// The RoCE rails that NCCL uses.
    pub(super) fn nccl_roce(&self) -> impl Iterator<Item = &Rail<'a>> {
        self.rails.iter().filter(|rail| rail.nccl && rail.is_roce())
    }

    /// The index that all of NCCL's RoCE rails share, or what each has.
    pub(super) fn common_index(&self) -> Result<GidIndex, String> {
        let indexes: Vec<Option<GidIndex>> =
            self.nccl_roce().map(|rail| rail.own.map(|own| own.index)).collect();
        match indexes.first() {
            Some(Some(first)) if indexes.iter().all(|index| *index == Some(*first)) => Ok(*first),
            _ => {
                let word =
                    |index: Option<GidIndex>| index.map_or("none".to_owned(), |index| index.to_string());
                let each = self.nccl_roce().zip(&indexes);
                Err(each
                    .map(|(rail, index)| format!("{} {}", rail.name(), word(*index)))
                    .collect::<Vec<_>>()
                    .join(", "))
            }
        }
    }

    /// Rails on which NCCL would take another GID than that of the own address, with what it would take.
    pub(super) fn mistaken(
        &self,
        given: &Given<'_>,
        range: Option<Network>,
    ) -> Vec<(&Rail<'a>, Taken, GidIndex)> {
        let Some(family) = self.family else { return Vec::new() };
        let taken = |rail: &Rail<'a>| nccl_takes(rail.port, family, range, given.nccl);
        let each = self.nccl_roce().filter_map(|rail| Some((rail, taken(rail), rail.own?.index)));
        each.filter(|(_, taken, own)| *taken != Taken::Index(*own)).collect()
    }
}

pub(super) fn settle<'a>(host: &'a Host, given: &Given<'_>, devices: &Devices<'a>) -> Fabric<'a> {
    let mut fabric = Fabric {
        rails: devices.rails.clone(),
        left_out: BTreeMap::new(),
        family: None,
        range: Err("no RoCE port".into()),
        unsure: devices.unsure.clone(),
    };
    keep_one_link_layer(&mut fabric);
    fabric.family = choose_family(host, given, &fabric);
    choose_own(host, given, &mut fabric);
    keep_one_family(&mut fabric);
    keep_list_short(&mut fabric);
    fabric.range = tell_range(host, given, &fabric);
    fabric
}

/// Selecting both ends NCCL: the kind that most ports have stays, InfiniBand of two that are even.
fn keep_one_link_layer(fabric: &mut Fabric<'_>) {
    let roce = fabric.rails.iter().filter(|rail| rail.is_roce()).count();
    let infiniband = fabric.rails.len() - roce;
    if roce == 0 || infiniband == 0 {
        return;
    }
    let roce_stays = roce > infiniband;
    for rail in fabric.rails.iter_mut().filter(|rail| rail.is_roce() != roce_stays) {
        rail.nccl = false;
        fabric.left_out.insert(
            rail.name(),
            "not for NCCL: the other ports have another link layer, and NCCL takes one".into(),
        );
    }
}

/// What the user says; else the family that most rails have, IPv4 where they are even.
fn choose_family(host: &Host, given: &Given<'_>, fabric: &Fabric<'_>) -> Option<Family> {
    let count =
        |family| fabric.nccl_roce().filter(|rail| routable(host, rail, family).next().is_some()).count();
    let (v4, v6) = (count(Family::V4), count(Family::V6));
    let said = given.variables.get("NCCL_IB_ADDR_FAMILY").and_then(|value| Family::of_variable(value));
    let said = given.range.map(|(address, _)| Family::of_address(address)).or(said);
    match said {
        Some(family) if v4 + v6 > 0 => Some(family),
        _ if v4 + v6 == 0 => None,
        _ => Some(if v4 >= v6 { Family::V4 } else { Family::V6 }),
    }
}

/// The lowest index of the family, within the range that the user says; of the other family where there is none.
fn choose_own<'a>(host: &'a Host, given: &Given<'_>, fabric: &mut Fabric<'a>) {
    let within = |address: Option<IpAddr>| {
        given.range.is_none_or(|(net, len)| address.is_some_and(|address| in_subnet(address, net, len)))
    };
    let family = fabric.family;
    for rail in &mut fabric.rails {
        let of = |family| routable(host, rail, family).find(|entry| within(entry.address));
        let any = || Family::BOTH.into_iter().find_map(of);
        rail.own = family.and_then(of).or_else(any);
    }
}

fn keep_one_family(fabric: &mut Fabric<'_>) {
    let Some(family) = fabric.family else { return };
    for rail in fabric.rails.iter_mut().filter(|rail| rail.nccl && rail.is_roce()) {
        let why = match rail.own {
            Some(own) if Family::of(own) == family => continue,
            Some(_) => format!("not for NCCL: no address of {}, which the others have", family.variable()),
            None => "not for NCCL: only link-local GIDs, or none in the range".to_owned(),
        };
        rail.nccl = false;
        fabric.left_out.insert(rail.name(), why);
    }
}

fn keep_list_short(fabric: &mut Fabric<'_>) {
    for rail in fabric.rails.iter_mut().filter(|rail| rail.nccl).skip(NCCL_LIST) {
        rail.nccl = false;
        fabric.left_out.insert(rail.name(), format!("not for NCCL: it takes {NCCL_LIST} of a list"));
    }
}

/// The smallest network that holds the fabric network of each rail. In a Pod's own file it may be narrowed to own
/// addresses, where NCCL would else take another GID.
fn tell_range(host: &Host, given: &Given<'_>, fabric: &Fabric<'_>) -> Result<Network, String> {
    if let Some(range) = given.range {
        return Ok(range);
    }
    let own: Vec<IpAddr> = fabric.nccl_roce().filter_map(|rail| rail.own?.address).collect();
    if own.is_empty() {
        return Err("no RoCE port with an own address that reaches further than its segment".into());
    }
    let networks: Option<Vec<Network>> =
        fabric.nccl_roce().filter_map(|rail| rail.own).map(|own| network_of(host, own)).collect();
    let networks = networks.ok_or("the subnet of an own address is not known")?;
    let wide = cover(&networks).filter(|(_, prefix)| *prefix > 0);
    if given.reach == Reach::OwnFile && !fabric.mistaken(given, wide).is_empty() {
        let hosts: Vec<Network> = own.iter().map(|address| (*address, width(*address))).collect();
        let narrow = cover(&hosts);
        if narrow.is_some() && fabric.mistaken(given, narrow).is_empty() {
            return narrow.ok_or_else(String::new);
        }
    }
    wide.ok_or_else(|| "the rails' networks have nothing in common".into())
}

/// The widest route out of the interface that holds the address, the default route left out; else its subnet. None where
/// there is no more than the address itself.
fn network_of(host: &Host, own: &crate::host::GidEntry) -> Option<Network> {
    let (address, netdev) = (own.address?, own.netdev.as_deref()?);
    let subnet = host.netdev(netdev)?.addresses.iter().find(|(has, _)| *has == address).copied();
    let routes = host.routes.iter().filter(|route| route.netdev.as_deref() == Some(netdev));
    let through = routes
        .map(|route| route.destination)
        .filter(|(to, prefix)| *prefix > 0 && in_subnet(address, *to, *prefix));
    let widest = subnet.into_iter().chain(through).min_by_key(|(_, prefix)| *prefix)?;
    (widest.1 < width(address) - 1).then(|| (masked(address, widest.1), widest.1))
}

/// The smallest network that holds all; None of different families.
pub(super) fn cover(networks: &[Network]) -> Option<Network> {
    let (first, rest) = networks.split_first()?;
    let common = rest.iter().try_fold(*first, |(address, prefix), (other, length)| {
        (address.is_ipv4() == other.is_ipv4()).then_some(())?;
        let most = prefix.min(*length);
        let prefix = (0..=most).rev().find(|prefix| in_subnet(*other, address, *prefix))?;
        Some((address, prefix))
    })?;
    Some((masked(common.0, common.1), common.1))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}
