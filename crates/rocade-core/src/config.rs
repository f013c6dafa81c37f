//! Configuration as text → types. The types are the same whichever format they were written in; each format has a
//! file below. Which file is read, and when, is the agent's business.

mod config_json;
mod json;

pub use config_json::{DEFAULT_PREFIX, parse_config_json};

use crate::names::ResourceName;

/// What an administrator wants offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Seconds between two looks at the whole host; None: look once.
    pub update_interval_s: Option<u64>,
    /// The resources, in the order of the file; each name once.
    pub resources: Vec<Resource>,
}

/// One extended resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// As Pods ask for it.
    pub name: ResourceName,
    /// How many Pods may share the HCAs: device IDs "0" to "slots - 1".
    pub slots: u32,
    /// Which HCAs stand behind it.
    pub selectors: Selectors,
}

/// Which HCAs: every list that is not empty must hold a value of the HCA. Values are compared as they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selectors {
    /// PCI vendor ids, as `15b3`.
    pub vendors: Vec<String>,
    /// PCI device ids, as `1021`.
    pub device_ids: Vec<String>,
    /// Drivers of the PCI function, as `mlx5_core`.
    pub drivers: Vec<String>,
    /// Network interfaces.
    pub if_names: Vec<String>,
    /// `infiniband`, `ether`.
    pub link_types: Vec<String>,
}

impl Selectors {
    /// Whether nothing is selected by anything.
    pub fn is_empty(&self) -> bool {
        let lists = [&self.vendors, &self.device_ids, &self.drivers, &self.if_names, &self.link_types];
        lists.iter().all(|list| list.is_empty())
    }
}
