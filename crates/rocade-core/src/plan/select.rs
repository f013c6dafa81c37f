//! What selectors say of one HCA: which of its ports they mean, or the first that has none of its values.

use super::{Reason, near_miss, netdevs};
use crate::config::{Dialect, Resource, Selectors};
use crate::host::{Hca, Host, LinkLayer, Port, RoleKind};
use crate::names::PortNum;
use crate::policy;

/// A selector beside an HCA.
pub(super) struct Key {
    /// As the configuration writes it.
    pub(super) name: &'static str,
    /// Its values.
    pub(super) wanted: Vec<String>,
    /// The HCA's.
    pub(super) seen: Vec<String>,
    fits: Fits,
}

/// When a wanted value means a seen one.
#[derive(Debug, Clone, Copy)]
enum Fits {
    Same,
    /// Whatever the case, with 0x or without.
    Hex,
    /// `*` stands for any text.
    Pattern,
    /// Numbers.
    AtLeast,
}

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
pub(super) fn keys(host: &Host, dialect: Dialect, s: &Selectors, hca: &Hca) -> Vec<Key> {
    let mut keys = of_card(s, hca);
    keys.extend(of_names(host, dialect, s, hca));
    keys.extend(of_ports(s, hca));
    keys.extend(of_place(s, hca));
    keys.retain(|key| !key.wanted.is_empty());
    keys
}

fn of_card(s: &Selectors, hca: &Hca) -> Vec<Key> {
    let id = |id: u16| format!("{id:04x}");
    let (vendor, device) = (hca.pci_id.map(|pci| id(pci.vendor)), hca.pci_id.map(|pci| id(pci.device)));
    vec![
        key("vendors", Fits::Hex, &s.vendors, || vendor.into_iter().collect()),
        key("deviceIDs", Fits::Hex, &s.device_ids, || device.into_iter().collect()),
        key("drivers", Fits::Same, &s.drivers, || hca.driver.iter().cloned().collect()),
    ]
}

/// config.json has no patterns, and another word for interfaces.
fn of_names(host: &Host, dialect: Dialect, s: &Selectors, hca: &Hca) -> Vec<Key> {
    let (interfaces, fits) = match dialect {
        Dialect::ConfigJson => ("ifNames", Fits::Same),
        Dialect::AgentConfig => ("netdevs", Fits::Pattern),
    };
    let netdevs = || netdevs::of_hca(host, hca).into_iter().map(str::to_owned).collect();
    // That plugin's name of an interface that is not there: a blank entry means HCAs without one.
    let blank = |wanted: &[String]| {
        let asked = dialect == Dialect::ConfigJson && wanted.iter().any(String::is_empty);
        (asked && netdevs::own(hca).is_empty()).then(String::new)
    };
    let with_blank = |mut seen: Vec<String>, wanted: &[String]| {
        seen.extend(blank(wanted));
        seen
    };
    vec![
        key("hcas", Fits::Pattern, &s.hcas, || vec![hca.name.to_string()]),
        key("pciAddresses", Fits::Pattern, &s.pci_addresses, || texts(hca.pci_address.as_slice())),
        key(interfaces, fits, &s.if_names, || with_blank(netdevs(), &s.if_names)),
        key("linkTypes", Fits::Same, &s.link_types, || {
            with_blank(netdevs::link_types(host, hca), &s.link_types)
        }),
    ]
}

fn of_ports(s: &Selectors, hca: &Hca) -> Vec<Key> {
    let ports = |value: fn(&Port) -> Option<String>| {
        let mut values: Vec<_> = hca.ports.iter().filter_map(value).collect();
        values.dedup();
        values
    };
    let layers: Vec<_> = s.link_layers.iter().map(layer).collect();
    let transports: Vec<_> = s.transports.iter().map(word).collect();
    let rate = |port: &Port| port.rate_gbps.map(|rate| rate.to_string());
    vec![
        key("linkLayers", Fits::Same, &layers, || ports(|port| Some(layer(&port.link_layer)))),
        key("transports", Fits::Same, &transports, || ports(|port| Some(word(&port.transport)))),
        key("minRateGbps", Fits::AtLeast, &texts(s.min_rate_gbps.as_slice()), || ports(rate)),
    ]
}

fn of_place(s: &Selectors, hca: &Hca) -> Vec<Key> {
    let functions: Vec<_> = s.functions.iter().map(word).collect();
    vec![
        key("roles", Fits::Same, &texts(&s.roles), || vec![hca.role.kind.to_string()]),
        key("functions", Fits::Same, &functions, || hca.function.iter().map(word).collect()),
        key("numaNodes", Fits::Same, &texts(&s.numa_nodes), || texts(hca.numa_node.as_slice())),
    ]
}

fn key(name: &'static str, fits: Fits, wanted: &[String], seen: impl FnOnce() -> Vec<String>) -> Key {
    // What is not asked is not looked up.
    let seen = if wanted.is_empty() { Vec::new() } else { seen() };
    Key { name, wanted: wanted.to_vec(), seen, fits }
}

fn texts(values: &[impl ToString]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

impl Key {
    pub(super) fn is_met(&self) -> bool {
        self.wanted.iter().any(|wanted| self.is_met_by(wanted))
    }

    pub(super) fn is_met_by(&self, wanted: &str) -> bool {
        self.seen.iter().any(|seen| self.fits.holds(wanted, seen))
    }
}

impl Fits {
    fn holds(self, wanted: &str, seen: &str) -> bool {
        let number = |text: &str| text.parse::<f64>().ok();
        match self {
            Fits::Same => wanted == seen,
            Fits::Hex => plain_hex(wanted) == seen,
            Fits::Pattern => policy::matches(wanted, seen),
            Fits::AtLeast => number(wanted).zip(number(seen)).is_some_and(|(wanted, seen)| seen >= wanted),
        }
    }
}

/// Whether a wanted interface means this one. config.json has no patterns.
pub(super) fn fits_name(dialect: Dialect, wanted: &str, name: &str) -> bool {
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
