//! What is known of resources: their names by the configuration, and what a node has behind them by a recorded host.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{Config, ConfigFile, Sharing, distance, nearest};
use crate::host::{Host, LinkLayer};
use crate::names::ResourceName;
use crate::plan::{netdevs_of, plan};

/// Words in the names of resources that stand for RDMA, where no configuration says which do.
const RDMA_WORDS: [&str; 8] = ["rdma", "hca", "roce", "infiniband", "mlnx", "mlx5", "ibsriov", "hostdev"];

/// Resources of RDMA.
#[derive(Debug, Default)]
pub(super) struct Pools<'a> {
    /// The names that configurations make on some node; None where none is known.
    names: Option<BTreeSet<String>>,
    /// How each is shared, where that does not depend on the node.
    sharing: BTreeMap<String, Sharing>,
    /// What stands behind them on the host; empty without one.
    on_host: BTreeMap<String, PoolOnHost<'a>>,
}

/// What stands behind a resource on a host.
#[derive(Debug)]
pub(super) struct PoolOnHost<'a> {
    /// How many there are.
    pub(super) slots: u32,
    /// HCAs by name.
    pub(super) hcas: Vec<String>,
    /// Link layers of the ports that are meant.
    pub(super) link_layers: BTreeSet<&'static str>,
    /// Interfaces that belong to them.
    pub(super) netdevs: BTreeSet<&'a str>,
}

/// What a node's ports need of a Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// All of them an interface of the Pod's own.
    Ethernet,
    /// None of them.
    InfiniBand,
    /// Some of them.
    Mixed,
    /// Nothing tells it.
    Unknown,
}

impl<'a> Pools<'a> {
    pub(super) fn of(configs: &[&ConfigFile], host: Option<&'a Host>) -> Pools<'a> {
        if configs.is_empty() {
            return Pools::default();
        }
        let names = configs.iter().flat_map(|config| config.resource_names()).map(|name| name.to_string());
        let mut pools = Pools { names: Some(names.collect()), ..Pools::default() };
        let name = host.and_then(|host| host.hostname.as_deref());
        for config in configs.iter().map(|config| config.for_node(name, &BTreeMap::new())) {
            let shared =
                config.resources.iter().map(|resource| (resource.name.to_string(), resource.sharing));
            pools.sharing.extend(shared);
            pools.on_host.extend(host.into_iter().flat_map(|host| on_host(host, &config)));
        }
        pools
    }

    /// Whether the resource is one of RDMA: by configuration, else by its name.
    pub(super) fn is_rdma(&self, resource: &str) -> bool {
        let small = resource.to_ascii_lowercase();
        self.names.as_ref().is_some_and(|names| names.contains(resource))
            || RDMA_WORDS.iter().any(|word| small.contains(word))
    }

    /// Whether some node has it; None where no configuration is known.
    pub(super) fn is_made(&self, resource: &str) -> Option<bool> {
        self.names.as_ref().map(|names| names.contains(resource))
    }

    /// All names, and the one most like `resource`. Rails have names that are alike: where two are as near, neither.
    pub(super) fn names(&self, resource: &str) -> (String, Option<&str>) {
        let names: Vec<&str> = self.names.iter().flatten().map(String::as_str).collect();
        let changes = |name: &str| distance(&resource.to_ascii_lowercase(), &name.to_ascii_lowercase());
        let near = nearest(resource, &names);
        let is_only = |near: &&str| names.iter().filter(|name| changes(name) <= changes(near)).count() == 1;
        (names.join(", "), near.filter(is_only))
    }

    /// How it is shared.
    pub(super) fn sharing(&self, resource: &str) -> Option<Sharing> {
        self.sharing.get(resource).copied()
    }

    /// What stands behind it on the host.
    pub(super) fn on_host(&self, resource: &str) -> Option<&PoolOnHost<'a>> {
        self.on_host.get(resource)
    }

    /// What its ports need.
    pub(super) fn layer(&self, resource: &str) -> Layer {
        let Some(layers) = self.on_host(resource).map(|pool| &pool.link_layers) else {
            return Layer::Unknown;
        };
        match (layers.contains("Ethernet"), layers.contains("InfiniBand")) {
            (true, true) => Layer::Mixed,
            (true, false) => Layer::Ethernet,
            (false, true) => Layer::InfiniBand,
            (false, false) => Layer::Unknown,
        }
    }
}

/// Why Kubernetes takes no such name for an extended resource; None where it does.
pub(super) fn refused(resource: &str) -> Option<String> {
    resource.parse::<ResourceName>().err().map(|error| error.wanted.to_owned())
}

fn on_host<'a>(host: &'a Host, config: &Config) -> Vec<(String, PoolOnHost<'a>)> {
    let pools = plan(host, config);
    let facts = pools.iter().map(|pool| {
        let ports =
            pool.members.iter().filter_map(|member| Some((host.hca(member.hca.as_str())?, &member.ports)));
        let layers = ports.flat_map(|(hca, wanted)| {
            hca.ports.iter().filter(|port| wanted.contains(&port.port)).map(|port| &port.link_layer)
        });
        let named = layers.filter_map(|layer| match layer {
            LinkLayer::Ethernet => Some("Ethernet"),
            LinkLayer::InfiniBand => Some("InfiniBand"),
            _ => None,
        });
        let facts = PoolOnHost {
            slots: pool.slots,
            hcas: pool.members.iter().map(|member| member.hca.to_string()).collect(),
            link_layers: named.collect(),
            netdevs: netdevs_of(host, pool),
        };
        (pool.resource.to_string(), facts)
    });
    facts.collect()
}
