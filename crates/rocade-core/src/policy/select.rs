//! Which ports an expectation means, and why a selection means none.

use serde::Deserialize;

use super::matches;
use crate::host::{Hca, Host, Port, Transport};

/// A selection of ports: a port is meant if each key that is given holds one of its values. Text may hold `*` for any
/// text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Select {
    /// Names of HCAs.
    pub hcas: Vec<String>,
    /// PCI vendors, as `15b3`.
    pub vendors: Vec<String>,
    /// PCI devices, as `1021`.
    #[serde(rename = "deviceIDs")]
    pub device_ids: Vec<String>,
    /// Drivers of the PCI function, as `mlx5_core`, `ice`.
    pub drivers: Vec<String>,
    /// Names of the ports' netdevs.
    pub netdevs: Vec<String>,
    /// What the ports speak: `infiniband`, `roce`, `iwarp`, `efa`.
    pub transports: Vec<Transport>,
}

impl Select {
    /// Whether no key is given.
    pub fn is_empty(&self) -> bool {
        *self == Select::default()
    }

    /// Whether the port is meant.
    pub fn means(&self, hca: &Hca, port: &Port) -> bool {
        self.keys().iter().all(|(_, wanted, value)| holds(wanted, value(hca, port).as_deref()))
    }

    /// For each given key that no port meets: how many do not, and what there is instead.
    pub fn explain_none(&self, host: &Host) -> String {
        let ports: Vec<_> = host.hcas.iter().flat_map(|h| h.ports.iter().map(move |p| (h, p))).collect();
        let mut parts = Vec::new();
        for (key, wanted, value) in self.keys().iter().filter(|(_, wanted, _)| !wanted.is_empty()) {
            let mut there: Vec<String> = ports.iter().filter_map(|(h, p)| value(h, p)).collect();
            let fit = there.iter().filter(|v| holds(wanted, Some(v))).count();
            there.sort();
            there.dedup();
            let there = if there.is_empty() { "nothing".to_owned() } else { there.join(", ") };
            parts.push(format!(
                "{key} {}: {fit} of {} ports fit, there is {there}",
                wanted.join(", "),
                ports.len()
            ));
        }
        parts.join("; ")
    }

    fn keys(&self) -> [(&'static str, Vec<String>, Value); 6] {
        let transports = self.transports.iter().copied().filter_map(word).collect();
        [
            ("hcas", self.hcas.clone(), |hca, _| Some(hca.name.to_string())),
            ("vendors", self.vendors.clone(), |hca, _| hca.pci_id.map(|id| format!("{:04x}", id.vendor))),
            ("deviceIDs", self.device_ids.clone(), |hca, _| {
                hca.pci_id.map(|id| format!("{:04x}", id.device))
            }),
            ("drivers", self.drivers.clone(), |hca, _| hca.driver.clone()),
            ("netdevs", self.netdevs.clone(), |_, port| port.netdev.clone()),
            ("transports", transports, |_, port| word(port.transport)),
        ]
    }
}

type Value = fn(&Hca, &Port) -> Option<String>;

fn holds(wanted: &[String], value: Option<&str>) -> bool {
    wanted.is_empty() || value.is_some_and(|value| wanted.iter().any(|pattern| matches(pattern, value)))
}

/// A transport as policies and JSON write it.
fn word(transport: Transport) -> Option<String> {
    serde_json::to_value(transport).ok()?.as_str().map(str::to_owned)
}
