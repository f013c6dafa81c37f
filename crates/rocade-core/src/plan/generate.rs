//! A configuration for hosts as they are: one resource for each rail of their compute fabrics, and why everything else
//! is left out. The roles must have been judged ([`crate::judge`]).

use std::collections::BTreeMap;

use super::fitness;
use crate::config::{
    CharDevices, Config, DEFAULT_PREFIX, Dialect, Health, Resource, Selectors, Sharing, Slots,
};
use crate::host::{FunctionKind, Hca, Host, LinkLayer, Port, RoleKind};
use crate::names::{HcaName, ResourceName, compare_natural};

/// GIDs that a Pod's interface takes: a link-local address and one of IPv4, each for RoCE v1 and v2.
const GIDS_PER_POD: u32 = 4;

/// InfiniBand has no table that Pods fill: a number that no node's Pods reach.
const INFINIBAND_SLOTS: u32 = 100;

/// A configuration and what is not in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// What holds for every host.
    pub config: Config,
    /// What holds for some alone: names of nodes, and resources. Empty where all are alike.
    pub sections: Vec<(Vec<String>, Vec<Resource>)>,
    /// HCAs that are in no resource, each with the reason.
    pub left_out: Vec<Omission>,
}

/// An HCA that is in no resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omission {
    /// Name of its host; None where it is not known.
    pub host: Option<String>,
    /// Its name.
    pub hca: HcaName,
    /// Why, in words.
    pub why: String,
}

/// Why there is no configuration for some hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoConfig {
    /// No HCA of theirs is a rail.
    #[error("no HCA here is a rail of a compute fabric{}", list(.0))]
    NoRail(Vec<Omission>),
    /// They are unlike, and a section needs the name of its nodes.
    #[error("the hosts are unlike, and the name of one of them is not known: a section needs it")]
    NoName,
}

/// Writes a configuration that fits all hosts; where their rails differ, a section for each kind of host.
///
/// # Errors
/// There is nothing to offer, or unlike hosts cannot be told apart.
pub fn generate(hosts: &[Host]) -> Result<Generated, NoConfig> {
    let mut kinds: Vec<(Vec<Resource>, Vec<Option<String>>)> = Vec::new();
    let mut left_out = Vec::new();
    for host in hosts {
        let (resources, omissions) = of_host(host);
        left_out.extend(omissions);
        match kinds.iter_mut().find(|(kind, _)| *kind == resources) {
            Some((_, names)) => names.push(host.hostname.clone()),
            None => kinds.push((resources, vec![host.hostname.clone()])),
        }
    }
    if kinds.iter().all(|(resources, _)| resources.is_empty()) {
        return Err(NoConfig::NoRail(left_out));
    }
    let everywhere = |resource: &&Resource| kinds.iter().all(|(kind, _)| kind.contains(resource));
    let common: Vec<Resource> =
        kinds.first().into_iter().flat_map(|(kind, _)| kind).filter(everywhere).cloned().collect();
    let mut sections = Vec::new();
    for (kind, names) in &kinds {
        let own: Vec<Resource> = kind.iter().filter(|resource| !common.contains(resource)).cloned().collect();
        if !own.is_empty() {
            let names: Option<Vec<String>> = names.iter().cloned().collect();
            sections.push((names.ok_or(NoConfig::NoName)?, own));
        }
    }
    let config = Config {
        dialect: Dialect::AgentConfig,
        topology_hints: true,
        ..Config::of_config_json(None, common)
    };
    Ok(Generated { config, sections, left_out })
}

/// A resource for each rail, in the order in which people count their names, and the other HCAs.
fn of_host(host: &Host) -> (Vec<Resource>, Vec<Omission>) {
    let mut left_out = Vec::new();
    let mut rails: BTreeMap<String, Vec<(&Hca, Option<&Port>)>> = BTreeMap::new();
    for hca in &host.hcas {
        match why_out(host, hca) {
            Some(why) => left_out.push(Omission { host: host.hostname.clone(), hca: hca.name.clone(), why }),
            None => {
                for port in rail_ports(hca) {
                    rails.entry(name(hca, port)).or_default().push((hca, port));
                }
            }
        }
    }
    let mut rails: Vec<_> = rails.into_iter().collect();
    rails.sort_by(|(a, _), (b, _)| compare_natural(a, b));
    let mut resources = Vec::new();
    for (name, rails) in &rails {
        let is_alone = rails.len() == 1;
        for (hca, port) in rails {
            let name = if is_alone { name.clone() } else { format!("{name}_{}", plain(hca.name.as_str())) };
            resources.extend(resource(&name, hca, *port));
        }
    }
    (resources, left_out)
}

/// Why an HCA is no rail, or cannot be offered.
fn why_out(host: &Host, hca: &Hca) -> Option<String> {
    if hca.role.kind != RoleKind::Fabric {
        return Some(format!("{}: {}", hca.role.kind, hca.role.ground));
    }
    let ports: Vec<_> = hca.ports.iter().map(|port| port.port).collect();
    let unfit = fitness::check(host, hca)
        .or_else(|| fitness::check_nodes(host, Dialect::AgentConfig, CharDevices::default(), hca, &ports));
    if let Some(reason) = unfit {
        return Some(reason.to_string());
    }
    let card = card_of(host, hca).filter(|card| why_out(host, card).is_none())?;
    Some(format!("a function of {}, which is offered whole", card.name))
}

/// The HCA of the card that a VF or SF is a part of.
fn card_of<'h>(host: &'h Host, hca: &Hca) -> Option<&'h Hca> {
    let address = match hca.function? {
        FunctionKind::Vf => hca.physical_function?,
        FunctionKind::Sf => hca.pci_address?,
        FunctionKind::Pf => return None,
    };
    host.hcas.iter().find(|card| card.pci_address == Some(address) && card.function == Some(FunctionKind::Pf))
}

/// Each port that is up; none in particular where several carry one card's traffic.
fn rail_ports(hca: &Hca) -> Vec<Option<&Port>> {
    if hca.planes.is_some() {
        return vec![None];
    }
    hca.ports.iter().filter(|port| port.state.as_deref() == Some("ACTIVE")).map(Some).collect()
}

/// `hca_ens18` of interface ens18np0; of the HCA's own name where there is no interface.
fn name(hca: &Hca, port: Option<&Port>) -> String {
    let netdev = port.and_then(|port| port.netdev.as_deref()).map(without_port_name);
    format!("hca_{}", plain(netdev.unwrap_or(hca.name.as_str())))
}

/// The kernel's name of a switch port (`np0`) behind the slot's.
fn without_port_name(netdev: &str) -> &str {
    let is_port = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    netdev.rsplit_once("np").filter(|(_, rest)| is_port(rest)).map_or(netdev, |(slot, _)| slot)
}

/// What a name of config.json may hold too.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn resource(name: &str, hca: &Hca, port: Option<&Port>) -> Option<Resource> {
    let is_ethernet = |port: &Port| port.link_layer == LinkLayer::Ethernet;
    let slots = match port.map_or_else(|| hca.ports.iter().all(is_ethernet), is_ethernet) {
        true => Slots::Auto { gids_per_pod: GIDS_PER_POD },
        false => Slots::Fixed(INFINIBAND_SLOTS),
    };
    let name: ResourceName = ResourceName::new(DEFAULT_PREFIX, name).ok()?;
    Some(Resource {
        sharing: Sharing::Tokens(slots),
        char_devices: CharDevices::default(),
        health: Health::WITHHOLD,
        ..Resource::of_config_json(name, 0, selectors(hca, port))
    })
}

/// By interface, which alike hosts call alike; else by the HCA's place, or its name.
fn selectors(hca: &Hca, port: Option<&Port>) -> Selectors {
    match (port.and_then(|port| port.netdev.clone()), hca.pci_address) {
        (Some(netdev), _) => Selectors { if_names: vec![netdev], ..Selectors::default() },
        (None, Some(address)) if hca.function != Some(FunctionKind::Sf) => {
            Selectors { pci_addresses: vec![address.to_string()], ..Selectors::default() }
        }
        (None, _) => Selectors { hcas: vec![hca.name.to_string()], ..Selectors::default() },
    }
}

fn list(left_out: &[Omission]) -> String {
    let of = |omission: &Omission| format!("; {}: {}", omission.hca, omission.why);
    left_out.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
