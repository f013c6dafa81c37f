//! What may stand in a `kind: AgentConfig`: every key with its type. The comments are the descriptions of the JSON schema.

use std::borrow::Cow;
use std::collections::BTreeMap;

use garde::Validate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rules::{self, within};
use super::words::{LinkLayerWord, SlotsWord, Time, id_schema, not_empty};
use crate::config::{Degraded, HealthPolicy, Labels, MAX_SLOTS};
use crate::host::{FunctionKind, RoleKind, Transport};

/// A configuration of rocade's node agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "AgentConfig")]
pub(in crate::config) struct Document {
    /// The version of the form.
    #[garde(skip)]
    #[schemars(extend("const" = crate::policy::API_VERSION))]
    pub(super) api_version: String,
    /// The kind of the document.
    #[garde(skip)]
    #[schemars(extend("const" = super::KIND))]
    pub(super) kind: String,
    /// Prefix of resources that name none: what stands before the slash of `rdma/hca_a`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::prefix)))]
    #[schemars(extend("default" = crate::config::DEFAULT_PREFIX))]
    pub(super) resource_prefix: Option<String>,
    /// Time between two looks at the whole host, whatever happens on it, in whole seconds. Without it, and with 0s, the
    /// host is looked at as its events tell, and seldom besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::whole_seconds)))]
    pub(super) rescan_interval: Option<Time>,
    /// Whether devices carry their NUMA node, of which the kubelet's topology manager makes hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(skip)]
    #[schemars(extend("default" = true))]
    pub(super) topology_hints: Option<bool>,
    /// Whether containers get their device nodes by CDI names.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(dive)]
    pub(super) cdi: CdiForm,
    /// What the cluster is told besides the resources.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(skip)]
    pub(super) publish: PublishForm,
    /// What becomes of HCAs that are not ACTIVE, for resources that do not say it themselves.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(skip)]
    pub(super) health: HealthForm,
    /// The resources of every node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(dive)]
    pub(super) resources: Vec<ResourceForm>,
    /// What holds for some nodes only. Every section that names a node counts there, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(dive)]
    pub(super) sections: Vec<Section>,
}

/// What holds for some nodes only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Section {
    /// Names of nodes, `*` for any text.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::node)))]
    #[schemars(length(min = 1))]
    pub(super) nodes: Vec<String>,
    /// Labels that a node has to have, each with this value, `*` for any text. They need access to the API server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[garde(custom(rules::node_labels))]
    pub(super) node_labels: BTreeMap<String, String>,
    /// Instead of the document's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::whole_seconds)))]
    pub(super) rescan_interval: Option<Time>,
    /// Instead of the document's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(skip)]
    pub(super) topology_hints: Option<bool>,
    /// Key by key instead of the document's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(dive)]
    pub(super) cdi: CdiForm,
    /// Key by key instead of the document's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(skip)]
    pub(super) publish: PublishForm,
    /// Key by key instead of the document's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(skip)]
    pub(super) health: HealthForm,
    /// Beside those of every node; one of the same name and prefix stands for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[garde(dive)]
    pub(super) resources: Vec<ResourceForm>,
}

/// How containers get their device nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct CdiForm {
    /// By CDI names, where the container runtime is known to honour them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(skip)]
    #[schemars(extend("default" = false))]
    pub(super) enabled: Option<bool>,
    /// The container runtime with its version, as `containerd 2.0.1`; without it its socket is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::not_blank)))]
    pub(super) runtime: Option<String>,
}

/// What the cluster is told besides the resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct PublishForm {
    /// How node labels of hardware facts are set: not at all, by a feature file of the node feature discovery, or by the
    /// API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "none"))]
    pub(super) labels: Option<Labels>,
    /// The node feature discovery's own keys feature.node.kubernetes.io/custom-rdma.capable and .available too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(super) nfd_keys: Option<bool>,
    /// The NodeCondition RdmaDegraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(super) condition: Option<bool>,
    /// Take the taint rdma.rocade.dev/not-ready off once all is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(super) taint: Option<bool>,
    /// Events on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub(super) events: Option<bool>,
}

/// What becomes of HCAs that are not ACTIVE.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct HealthForm {
    /// Whether the kubelet is told (`withhold`), or only log, metrics and status (`report`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "withhold"))]
    pub(super) policy: Option<HealthPolicy>,
    /// How long an HCA must have been down before it is unhealthy. One that is down when the agent starts is at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30s"))]
    pub(super) down_after: Option<Time>,
    /// How long it must have been up before it is healthy again; longer while it flaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "10s"))]
    pub(super) up_after: Option<Time>,
    /// What a resource of several HCAs behind the same device IDs does when some fail: all IDs are unhealthy
    /// (`withhold`), new grants are made of the others (`degrade`), nothing (`ignore`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "degrade"))]
    pub(super) degraded: Option<Degraded>,
}

/// One extended resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Resource")]
pub(super) struct ResourceForm {
    /// What stands behind the slash of `rdma/hca_a`.
    #[garde(custom(rules::name))]
    pub(super) name: String,
    /// What stands before it, instead of the document's resourcePrefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::prefix)))]
    pub(super) prefix: Option<String>,
    /// What a device ID stands for, and how many there are.
    #[garde(custom(rules::sharing))]
    pub(super) sharing: SharingForm,
    /// Which HCAs stand behind it: of every list that is there, one entry must fit.
    #[garde(dive)]
    pub(super) selectors: SelectorsForm,
    /// HCAs that any of these selects are out of it.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(dive)]
    #[schemars(length(min = 1))]
    pub(super) exclude: Vec<SelectorsForm>,
    /// Char devices besides uverbs and rdma_cm. Either gives a tenant access to the subnet manager's side.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(skip)]
    #[schemars(length(min = 1))]
    pub(super) char_devices: Vec<CharDeviceWord>,
    /// Traffic class that its Pods should use; DSCP is in the upper six bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(within(0, 255))))]
    #[schemars(range(min = 0, max = 255))]
    pub(super) traffic_class: Option<i64>,
    /// The same as a DSCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(within(0, 63))))]
    #[schemars(range(min = 0, max = 63))]
    pub(super) dscp: Option<i64>,
    /// Service level that its Pods should use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(within(0, 15))))]
    #[schemars(range(min = 0, max = 15))]
    pub(super) service_level: Option<i64>,
    /// Key by key instead of the document's and the section's.
    #[serde(default, skip_serializing_if = "is_default")]
    #[garde(skip)]
    pub(super) health: HealthForm,
}

/// What a device ID stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
pub(super) struct SharingForm {
    /// `tokens`: each of them is worth all HCAs of the resource. `hca`: one HCA.
    pub(super) mode: Mode,
    /// With tokens: how many there are; `auto`: as many as the narrowest port's GID table holds beside the host's own
    /// entries (not on InfiniBand).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) slots: Option<SlotsWord>,
    /// With `slots: auto`: GIDs that a Pod's interface takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4096), extend("default" = 4))]
    pub(super) gids_per_pod: Option<i64>,
    /// With hca: how many Pods may have the same one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_SLOTS), extend("default" = 1))]
    pub(super) share: Option<i64>,
}

/// What a device ID stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Mode {
    Tokens,
    Hca,
}

/// A char device that not every Pod needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum CharDeviceWord {
    Umad,
    Issm,
}

/// Which HCAs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Selectors", extend("minProperties" = 1))]
pub(super) struct SelectorsForm {
    /// Names of HCAs as `mlx5_0`, `*` for any text.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::hca)))]
    #[schemars(length(min = 1))]
    pub(super) hcas: Vec<String>,
    /// Names of their interfaces as `ens18np0`, `*` for any text; bonds, their members and VLAN, macvlan, ipvlan and IPoIB
    /// children count.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::netdev)))]
    #[schemars(length(min = 1))]
    pub(super) netdevs: Vec<String>,
    /// PCI addresses as `0000:4d:00.0`, `*` for any text.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::address)))]
    #[schemars(length(min = 1))]
    pub(super) pci_addresses: Vec<String>,
    /// PCI vendor ids as `15b3`.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::vendor)))]
    #[schemars(schema_with = "id_schema")]
    pub(super) vendors: Vec<String>,
    /// PCI device ids as `1021`.
    #[serde(
        default,
        rename = "deviceIDs",
        deserialize_with = "not_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[garde(inner(custom(rules::device_id)))]
    #[schemars(schema_with = "id_schema")]
    pub(super) device_ids: Vec<String>,
    /// Drivers of the PCI function as `mlx5_core`.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(rules::driver)))]
    #[schemars(length(min = 1))]
    pub(super) drivers: Vec<String>,
    /// Link layers of ports.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(skip)]
    #[schemars(length(min = 1))]
    pub(super) link_layers: Vec<LinkLayerWord>,
    /// What ports speak.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(skip)]
    #[schemars(length(min = 1))]
    pub(super) transports: Vec<Transport>,
    /// What the HCA is for, as `rocade inventory` shows it.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(skip)]
    #[schemars(length(min = 1))]
    pub(super) roles: Vec<RoleKind>,
    /// NUMA nodes.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(inner(custom(within(0, 4095))))]
    #[schemars(length(min = 1), inner(range(min = 0, max = 4095)))]
    pub(super) numa_nodes: Vec<i64>,
    /// Physical, virtual or scalable functions.
    #[serde(default, deserialize_with = "not_empty", skip_serializing_if = "Vec::is_empty")]
    #[garde(skip)]
    #[schemars(length(min = 1))]
    pub(super) functions: Vec<FunctionKind>,
    /// The least rate of a port in Gbit/s (10⁹ bit/s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[garde(inner(custom(rules::rate)))]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(super) min_rate_gbps: Option<f64>,
}

impl SelectorsForm {
    /// Whether only InfiniBand can be meant.
    pub(super) fn are_infiniband(&self) -> bool {
        let all_are = |transports: &[Transport]| {
            !transports.is_empty()
                && transports.iter().all(|t| matches!(t, Transport::Infiniband | Transport::Opa))
        };
        self.link_layers == [LinkLayerWord::Infiniband] || all_are(&self.transports)
    }
}

/// A key as it stands in the file, by the name of its field.
pub(super) fn key(field: &str) -> Cow<'_, str> {
    if field == "device_ids" {
        return "deviceIDs".into();
    }
    let mut parts = field.split('_');
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| {
        let (initial, tail) = part.split_at(part.len().min(1));
        format!("{}{tail}", initial.to_ascii_uppercase())
    });
    std::iter::once(first.to_owned()).chain(rest).collect::<String>().into()
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
