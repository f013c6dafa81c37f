//! What is known of the Pod that was looked at from inside.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::PciAddress;

/// A Pod, or another container with a network namespace of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Pod {
    /// Name; None where nothing tells it.
    pub name: Option<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Extended resources that it asked for, as far as a recording holds its specification.
    pub resources: BTreeMap<String, String>,
    /// Annotations, by the downward API's file.
    pub annotations: BTreeMap<String, String>,
    /// Networks that it asked for (annotation k8s.v1.cni.cncf.io/networks).
    pub networks: Option<String>,
    /// What it got (annotation k8s.v1.cni.cncf.io/network-status).
    pub network_status: Vec<PodNetwork>,
    /// What its environment says it was granted; None where nothing says it.
    pub grants: Option<Vec<PodGrant>>,
}

/// A row of the network-status annotation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PodNetwork {
    /// Name of the network, as `default/macvlan-ens18np0`.
    pub name: String,
    /// Interface in the Pod.
    pub interface: Option<String>,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Hardware address.
    pub mac: Option<String>,
}

/// A granted HCA.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PodGrant {
    /// Where it is said: the name of a variable, or `granted` of a recorded specification.
    pub source: String,
    /// Name of the HCA when it was granted, where that is said.
    pub hca: Option<String>,
    /// PCI function that was granted, where that is said.
    pub pci_address: Option<PciAddress>,
    /// Nodes that came with it, as `/dev/infiniband/uverbs2`.
    pub nodes: Vec<String>,
}
