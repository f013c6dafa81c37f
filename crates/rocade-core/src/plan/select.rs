//! What selectors say of one HCA: which of its ports they mean, or the first that has none of its values.

use super::{Reason, near_miss, netdevs};
use crate::config::{Dialect, Resource, Selectors};
use crate::host::{Hca, Host, LinkLayer, Port, RoleKind};
use crate::names::PortNum;
use crate::policy;

/// A selector beside an HCA.
pub(super) struct Key<'s> {
    /// As the configuration writes it.
    pub(super) name: &'static str,
    /// Its values.
    pub(super) wanted: Vec<String>,
    /// The HCA's.
    pub(super) seen: Vec<String>,
    /// Whether a wanted value means a seen one.
    pub(super) fits: Fits<'s>,
}

pub(super) type Fits<'s> = Box<dyn Fn(&str, &str) -> bool + 's>;

/// The ports of an HCA that a resource means, or why it means none.
pub(super) fn meant_ports(
    host: &Host,
    dialect: Dialect,
    resource: &Resource,
    hca: &Hca,
) -> Result<Vec<PortNum>, Reason> {
    let selectors = &resource.selectors;
    if let Some(key) = keys(host, dialect, selectors, hca).into_iter().find(|key| !key.is_met()) {
        let near = near_miss::of_key(host, &key, Some(hca));
        return Err(Reason::Selector { key: key.name, wanted: key.wanted, seen: key.seen, near });
    }
    let excludes = |exclude: &Selectors| {
        !exclude.is_empty() && keys(host, dialect, exclude, hca).iter().all(Key::is_met)
    };
    if let Some(index) = resource.exclude.iter().position(excludes) {
        return Err(Reason::Excluded(index));
    }
    if dialect == Dialect::AgentConfig && is_bridge(hca) && !is_named(selectors, hca) {
        return Err(Reason::Bridge);
    }
    ports(host, dialect, selectors, hca)
}

/// Those that meet all selectors of ports. An interface of the parent device is that of no port in particular; a port
/// without GID table beside one that has it carries no traffic.
fn ports(host: &Host, dialect: Dialect, selectors: &Selectors, hca: &Hca) -> Result<Vec<PortNum>, Reason> {
    let named = |port: &&Port| {
        let names = netdevs::of_port(host, hca, port);
        selectors.if_names.iter().any(|wanted| names.iter().any(|name| fits_name(dialect, wanted, name)))
    };
    let any_named = hca.ports.iter().any(|port| named(&port));
    let has_table = |port: &Port| port.gid_table_len != Some(0);
    let any_table = hca.ports.iter().any(has_table);
    let meets = |port: &&Port| {
        (!any_named || named(port))
            && (!any_table || has_table(port))
            && (selectors.link_layers.is_empty() || selectors.link_layers.contains(&port.link_layer))
            && (selectors.transports.is_empty() || selectors.transports.contains(&port.transport))
            && selectors.min_rate_gbps.is_none_or(|least| port.rate_gbps.is_some_and(|rate| rate >= least))
    };
    let meant: Vec<_> = hca.ports.iter().filter(meets).map(|port| port.port).collect();
    if meant.is_empty() && !hca.ports.is_empty() { Err(Reason::NoPort) } else { Ok(meant) }
}

fn is_bridge(hca: &Hca) -> bool {
    hca.switch_management == Some(true) || hca.role.kind == RoleKind::Bridge
}

/// Whether the selectors name the HCA itself, not by a pattern.
fn is_named(selectors: &Selectors, hca: &Hca) -> bool {
    let address = hca.pci_address.map(|address| address.to_string());
    selectors.hcas.iter().any(|name| name == hca.name.as_str())
        || selectors.pci_addresses.iter().any(|wanted| Some(wanted) == address.as_ref())
}

/// Whether a resource names an interface.
pub(super) fn names_interface(resource: &Resource, name: &str) -> bool {
    resource.selectors.if_names.iter().any(|wanted| policy::matches(wanted, name))
}

/// The selectors that say something, each beside the HCA's values, in the order in which they are asked.
pub(super) fn keys(host: &Host, dialect: Dialect, s: &Selectors, hca: &Hca) -> Vec<Key<'static>> {
    let id = |text: fn(u16, u16) -> u16| hca.pci_id.map(|p| format!("{:04x}", text(p.vendor, p.device)));
    let ports = |value: fn(&Port) -> Option<String>| {
        let mut values: Vec<_> = hca.ports.iter().filter_map(value).collect();
        values.dedup();
        values
    };
    let words = |values: &[String]| values.to_vec();
    let name: fn(Dialect) -> Fits<'static> = |dialect| Box::new(move |w, s| fits_name(dialect, w, s));
    let same: fn() -> Fits<'static> = || Box::new(|wanted, seen| wanted == seen);
    let hex: fn() -> Fits<'static> = || Box::new(|wanted, seen| plain_hex(wanted) == seen);
    let glob: fn() -> Fits<'static> = || Box::new(policy::matches);
    let key = |name, wanted, seen, fits| Key { name, wanted, seen, fits };
    let least: fn() -> Fits<'static> = || {
        Box::new(|wanted, seen| {
            wanted.parse::<f64>().ok().is_some_and(|w| seen.parse::<f64>().is_ok_and(|s| s >= w))
        })
    };
    let interfaces = if dialect == Dialect::ConfigJson { "ifNames" } else { "netdevs" };
    let netdevs = || netdevs::of_hca(host, hca).into_iter().map(str::to_owned).collect();
    let all: [(bool, &dyn Fn() -> Key<'static>); 13] = [
        (s.vendors.is_empty(), &|| {
            key("vendors", words(&s.vendors), id(|vendor, _| vendor).into_iter().collect(), hex())
        }),
        (s.device_ids.is_empty(), &|| {
            key("deviceIDs", words(&s.device_ids), id(|_, device| device).into_iter().collect(), hex())
        }),
        (s.drivers.is_empty(), &|| {
            key("drivers", words(&s.drivers), hca.driver.iter().cloned().collect(), same())
        }),
        (s.hcas.is_empty(), &|| key("hcas", words(&s.hcas), vec![hca.name.to_string()], glob())),
        (s.pci_addresses.is_empty(), &|| {
            let address = hca.pci_address.iter().map(ToString::to_string).collect();
            key("pciAddresses", words(&s.pci_addresses), address, glob())
        }),
        (s.if_names.is_empty(), &|| key(interfaces, words(&s.if_names), netdevs(), name(dialect))),
        (s.link_types.is_empty(), &|| {
            key("linkTypes", words(&s.link_types), netdevs::link_types(host, hca), same())
        }),
        (s.link_layers.is_empty(), &|| {
            let wanted = s.link_layers.iter().map(layer).collect();
            key("linkLayers", wanted, ports(|port| Some(layer(&port.link_layer))), same())
        }),
        (s.transports.is_empty(), &|| {
            let wanted = s.transports.iter().map(word).collect();
            key("transports", wanted, ports(|port| Some(word(&port.transport))), same())
        }),
        (s.roles.is_empty(), &|| {
            let wanted = s.roles.iter().map(ToString::to_string).collect();
            key("roles", wanted, vec![hca.role.kind.to_string()], same())
        }),
        (s.functions.is_empty(), &|| {
            let wanted = s.functions.iter().map(word).collect();
            key("functions", wanted, hca.function.iter().map(word).collect(), same())
        }),
        (s.numa_nodes.is_empty(), &|| {
            let wanted = s.numa_nodes.iter().map(ToString::to_string).collect();
            key("numaNodes", wanted, hca.numa_node.iter().map(ToString::to_string).collect(), same())
        }),
        (s.min_rate_gbps.is_none(), &|| {
            let wanted = s.min_rate_gbps.iter().map(ToString::to_string).collect();
            key("minRateGbps", wanted, ports(|port| port.rate_gbps.map(|rate| rate.to_string())), least())
        }),
    ];
    all.into_iter().filter(|(unset, _)| !unset).map(|(_, key)| key()).collect()
}

impl Key<'_> {
    pub(super) fn is_met(&self) -> bool {
        self.wanted.iter().any(|wanted| self.is_met_by(wanted))
    }

    pub(super) fn is_met_by(&self, wanted: &str) -> bool {
        self.seen.iter().any(|seen| (self.fits)(wanted, seen))
    }
}

/// config.json has no patterns.
fn fits_name(dialect: Dialect, wanted: &str, name: &str) -> bool {
    match dialect {
        Dialect::ConfigJson => wanted == name,
        Dialect::AgentConfig => policy::matches(wanted, name),
    }
}

/// `0x15B3` → `15b3`.
fn plain_hex(id: &str) -> String {
    let id = id.to_ascii_lowercase();
    id.strip_prefix("0x").unwrap_or(&id).to_owned()
}

/// A value as JSON writes it.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A link layer as configurations write it.
fn layer(layer: &LinkLayer) -> String {
    word(layer).to_ascii_lowercase()
}
