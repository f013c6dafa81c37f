//! A configuration → the document that says it, shortest first: what is as it is by default is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::{Cdi, Config, DEFAULT_PREFIX, Health, Publish, Resource, Selectors, Sharing, Slots};
use super::form::{
    CdiForm, CharDeviceWord, Document, HealthForm, Mode, PublishForm, ResourceForm, Section, SelectorsForm,
    SharingForm,
};
use super::words::{LinkLayerWord, SlotsWord, Time};
use super::{API_VERSION, KIND};
use crate::host::LinkLayer;

impl Section {
    /// One that adds resources on the nodes of these names, which are patterns.
    pub fn new(nodes: Vec<String>, resources: &[Resource]) -> Section {
        let resources = resources.iter().map(|r| resource(r, &HealthForm::default())).collect();
        Section { nodes, resources, ..Section::default() }
    }

    /// The same for those nodes alone that have these labels, whose values are patterns.
    pub fn with_node_labels(self, node_labels: BTreeMap<String, String>) -> Section {
        Section { node_labels, ..self }
    }
}

/// YAML; a document has nothing that it cannot hold.
pub(super) fn text(document: &Document) -> String {
    serde_saphyr::to_string(document).unwrap_or_default()
}

pub(super) fn document(config: &Config, sections: Vec<Section>) -> Document {
    // Beside sections, whose resources take the document's health too, each says its own.
    let common = if sections.is_empty() { common_health(&config.resources) } else { HealthForm::default() };
    Document {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        resource_prefix: None,
        rescan_interval: config.update_interval_s.map(|seconds| Time(Duration::from_secs(seconds))),
        topology_hints: Some(config.topology_hints).filter(|hints| !hints),
        cdi: cdi(&config.cdi),
        publish: publish(&config.publish),
        resources: config.resources.iter().map(|r| resource(r, &common)).collect(),
        health: common,
        sections,
    }
}

/// The health that all resources share, to be said once.
fn common_health(resources: &[Resource]) -> HealthForm {
    match resources {
        [first, rest @ ..] if rest.iter().all(|r| r.health == first.health) => health(&first.health),
        _ => HealthForm::default(),
    }
}

fn cdi(cdi: &Cdi) -> CdiForm {
    match cdi {
        Cdi::Off => CdiForm::default(),
        Cdi::On { runtime } => CdiForm { enabled: Some(true), runtime: runtime.clone() },
    }
}

fn publish(publish: &Publish) -> PublishForm {
    let on = |value: bool| Some(value).filter(|on| *on);
    PublishForm {
        labels: Some(publish.labels).filter(|labels| *labels != Default::default()),
        nfd_keys: on(publish.nfd_keys),
        condition: on(publish.condition),
        taint: on(publish.taint),
        events: on(publish.events),
    }
}

fn health(health: &Health) -> HealthForm {
    let usual = Health::WITHHOLD;
    HealthForm {
        policy: Some(health.policy).filter(|policy| *policy != usual.policy),
        down_after: Some(Time(health.down_after)).filter(|time| time.0 != usual.down_after),
        up_after: Some(Time(health.up_after)).filter(|time| time.0 != usual.up_after),
        degraded: Some(health.degraded).filter(|degraded| *degraded != usual.degraded),
    }
}

fn resource(resource: &Resource, common: &HealthForm) -> ResourceForm {
    let own = health(&resource.health);
    let devices = [
        (resource.char_devices.umad, CharDeviceWord::Umad),
        (resource.char_devices.issm, CharDeviceWord::Issm),
    ];
    ResourceForm {
        name: resource.name.name().to_owned(),
        prefix: Some(resource.name.domain()).filter(|prefix| *prefix != DEFAULT_PREFIX).map(str::to_owned),
        sharing: sharing(resource.sharing),
        selectors: selectors(&resource.selectors),
        exclude: resource.exclude.iter().map(selectors).collect(),
        char_devices: devices.into_iter().filter_map(|(asked, word)| asked.then_some(word)).collect(),
        traffic_class: resource.traffic_class.map(Into::into),
        dscp: None,
        service_level: resource.service_level.map(Into::into),
        health: if own == *common { HealthForm::default() } else { own },
    }
}

fn sharing(sharing: Sharing) -> SharingForm {
    let form = |mode| SharingForm { mode, slots: None, gids_per_pod: None, share: None };
    match sharing {
        Sharing::Tokens(Slots::Fixed(slots)) => {
            SharingForm { slots: Some(SlotsWord::Number(slots.into())), ..form(Mode::Tokens) }
        }
        Sharing::Tokens(Slots::Auto { gids_per_pod }) => SharingForm {
            slots: Some(SlotsWord::Auto),
            gids_per_pod: Some(gids_per_pod.into()),
            ..form(Mode::Tokens)
        },
        Sharing::Hca { share } => {
            SharingForm { share: Some(share.into()).filter(|share| *share != 1), ..form(Mode::Hca) }
        }
    }
}

fn selectors(selectors: &Selectors) -> SelectorsForm {
    let word = |layer: &LinkLayer| match layer {
        LinkLayer::InfiniBand => Some(LinkLayerWord::Infiniband),
        LinkLayer::Ethernet => Some(LinkLayerWord::Ethernet),
        LinkLayer::Unknown => None,
    };
    SelectorsForm {
        hcas: selectors.hcas.clone(),
        netdevs: selectors.if_names.clone(),
        pci_addresses: selectors.pci_addresses.clone(),
        vendors: selectors.vendors.clone(),
        device_ids: selectors.device_ids.clone(),
        drivers: selectors.drivers.clone(),
        link_layers: selectors.link_layers.iter().filter_map(word).collect(),
        transports: selectors.transports.clone(),
        roles: selectors.roles.clone(),
        numa_nodes: selectors.numa_nodes.iter().copied().map(Into::into).collect(),
        functions: selectors.functions.clone(),
        min_rate_gbps: selectors.min_rate_gbps,
    }
}
