//! What a document says for one node: its sections applied, defaults filled in.

use std::collections::{BTreeMap, BTreeSet};

use super::super::value::normal_id;
use super::super::{
    Cdi, CharDevices, Config, DEFAULT_PREFIX, Dialect, Health, Publish, Resource, Selectors, Sharing, Slots,
};
use super::form::{
    CdiForm, CharDeviceWord, Document, HealthForm, Mode, PublishForm, ResourceForm, Section, SelectorsForm,
    SharingForm,
};
use super::words::SlotsWord;
use crate::names::ResourceName;
use crate::policy::matches;

/// GIDs that a Pod's interface takes where nobody says it: link-local and one address, each as RoCE v1 and v2.
const GIDS_PER_POD: u32 = 4;

impl Document {
    /// What it says for the node of that name with these labels.
    pub(in crate::config) fn for_node(
        &self,
        name: Option<&str>,
        labels: &BTreeMap<String, String>,
    ) -> Config {
        let mut whole = Document { sections: Vec::new(), ..self.clone() };
        let mut resources = std::mem::take(&mut whole.resources);
        for section in self.sections.iter().filter(|section| section.means(name, labels)) {
            whole.rescan_interval = section.rescan_interval.or(whole.rescan_interval);
            whole.topology_hints = section.topology_hints.or(whole.topology_hints);
            whole.cdi = section.cdi.over(&whole.cdi);
            whole.publish = section.publish.over(&whole.publish);
            whole.health = section.health.over(&whole.health);
            for resource in &section.resources {
                let same =
                    |r: &&mut ResourceForm| r.name == resource.name && whole.is_same_prefix(r, resource);
                match resources.iter_mut().find(same) {
                    Some(replaced) => *replaced = resource.clone(),
                    None => resources.push(resource.clone()),
                }
            }
        }
        Config {
            dialect: Dialect::AgentConfig,
            update_interval_s: whole.rescan_interval.map(|time| time.0.as_secs()).filter(|s| *s > 0),
            topology_hints: whole.topology_hints.unwrap_or(true),
            cdi: whole.cdi.settle(),
            publish: whole.publish.settle(),
            resources: resources.iter().filter_map(|resource| whole.settle(resource)).collect(),
        }
    }

    /// The name of every resource, of all sections too.
    pub(in crate::config) fn resource_names(&self) -> BTreeSet<ResourceName> {
        let of_sections = self.sections.iter().flat_map(|section| &section.resources);
        let all = self.resources.iter().chain(of_sections);
        all.filter_map(|form| ResourceName::new(self.prefix_of(form), &form.name).ok()).collect()
    }

    /// Whether any section asks for labels of the node.
    pub(in crate::config) fn needs_node_labels(&self) -> bool {
        self.sections.iter().any(|section| !section.node_labels.is_empty())
    }

    /// Whether any section asks for the node's name.
    pub(in crate::config) fn needs_node_name(&self) -> bool {
        self.sections.iter().any(|section| !section.nodes.is_empty())
    }

    /// The prefix of one of its resources.
    pub(super) fn prefix_of<'a>(&'a self, resource: &'a ResourceForm) -> &'a str {
        resource.prefix.as_deref().or(self.resource_prefix.as_deref()).unwrap_or(DEFAULT_PREFIX)
    }

    fn is_same_prefix(&self, a: &ResourceForm, b: &ResourceForm) -> bool {
        self.prefix_of(a) == self.prefix_of(b)
    }

    /// None for a name that the rules refuse.
    fn settle(&self, form: &ResourceForm) -> Option<Resource> {
        let asked = |word| form.char_devices.contains(&word);
        let class = form.dscp.map(|dscp| dscp << 2).or(form.traffic_class);
        Some(Resource {
            name: ResourceName::new(self.prefix_of(form), &form.name).ok()?,
            sharing: form.sharing.settle(),
            selectors: form.selectors.settle(),
            exclude: form.exclude.iter().map(SelectorsForm::settle).collect(),
            char_devices: CharDevices {
                umad: asked(CharDeviceWord::Umad),
                issm: asked(CharDeviceWord::Issm),
            },
            traffic_class: class.and_then(|class| class.try_into().ok()),
            service_level: form.service_level.and_then(|level| level.try_into().ok()),
            health: form.health.over(&self.health).settle(),
        })
    }
}

impl Section {
    /// Whether it counts on that node.
    fn means(&self, name: Option<&str>, labels: &BTreeMap<String, String>) -> bool {
        let named =
            self.nodes.is_empty() || name.is_some_and(|name| self.nodes.iter().any(|n| matches(n, name)));
        let has =
            |(key, wanted): (&String, &String)| labels.get(key).is_some_and(|value| matches(wanted, value));
        named && self.node_labels.iter().all(has)
    }
}

impl CdiForm {
    fn over(&self, other: &CdiForm) -> CdiForm {
        CdiForm {
            enabled: self.enabled.or(other.enabled),
            runtime: self.runtime.clone().or_else(|| other.runtime.clone()),
        }
    }

    fn settle(&self) -> Cdi {
        if self.enabled == Some(true) { Cdi::On { runtime: self.runtime.clone() } } else { Cdi::Off }
    }
}

impl PublishForm {
    fn over(&self, other: &PublishForm) -> PublishForm {
        PublishForm {
            labels: self.labels.or(other.labels),
            nfd_keys: self.nfd_keys.or(other.nfd_keys),
            condition: self.condition.or(other.condition),
            taint: self.taint.or(other.taint),
            events: self.events.or(other.events),
        }
    }

    fn settle(&self) -> Publish {
        Publish {
            labels: self.labels.unwrap_or_default(),
            nfd_keys: self.nfd_keys.unwrap_or_default(),
            condition: self.condition.unwrap_or_default(),
            taint: self.taint.unwrap_or_default(),
            events: self.events.unwrap_or_default(),
        }
    }
}

impl HealthForm {
    fn over(&self, other: &HealthForm) -> HealthForm {
        HealthForm {
            policy: self.policy.or(other.policy),
            down_after: self.down_after.or(other.down_after),
            up_after: self.up_after.or(other.up_after),
            degraded: self.degraded.or(other.degraded),
        }
    }

    fn settle(&self) -> Health {
        Health {
            policy: self.policy.unwrap_or(Health::WITHHOLD.policy),
            down_after: self.down_after.map_or(Health::WITHHOLD.down_after, |time| time.0),
            up_after: self.up_after.map_or(Health::WITHHOLD.up_after, |time| time.0),
            degraded: self.degraded.unwrap_or(Health::WITHHOLD.degraded),
        }
    }
}

impl SharingForm {
    fn settle(&self) -> Sharing {
        let number =
            |value: Option<i64>, default| value.and_then(|value| value.try_into().ok()).unwrap_or(default);
        match (self.mode, self.slots) {
            (Mode::Hca, _) => Sharing::Hca { share: number(self.share, 1) },
            (Mode::Tokens, Some(SlotsWord::Number(slots))) => {
                Sharing::Tokens(Slots::Fixed(number(Some(slots), 0)))
            }
            (Mode::Tokens, _) => {
                Sharing::Tokens(Slots::Auto { gids_per_pod: number(self.gids_per_pod, GIDS_PER_POD) })
            }
        }
    }
}

impl SelectorsForm {
    fn settle(&self) -> Selectors {
        let ids = |ids: &[String]| ids.iter().filter_map(|id| normal_id(id)).collect();
        Selectors {
            vendors: ids(&self.vendors),
            device_ids: ids(&self.device_ids),
            drivers: self.drivers.clone(),
            if_names: self.netdevs.clone(),
            link_types: Vec::new(),
            hcas: self.hcas.clone(),
            pci_addresses: self.pci_addresses.iter().map(|address| address.to_ascii_lowercase()).collect(),
            link_layers: self.link_layers.iter().copied().map(Into::into).collect(),
            transports: self.transports.clone(),
            roles: self.roles.clone(),
            numa_nodes: self.numa_nodes.iter().filter_map(|node| (*node).try_into().ok()).collect(),
            functions: self.functions.clone(),
            min_rate_gbps: self.min_rate_gbps,
        }
    }
}
