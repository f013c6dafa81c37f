//! Which HCAs stand behind which resource, and for every HCA why it is in or out. What an ID is worth and what a
//! container is granted for it is in `device`, how many there are in `slots`, which Pods hold what in `held`.
//! Port state is not looked at: whether an HCA that is down is offered is the health policy's to say.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::config::{Config, Dialect, Health, Labels, Resource, Sharing};
use crate::distance::Place;
use crate::host::{CharDevice, Hca, Host, NetnsMode};
use crate::names::{HcaName, PciAddress, PortNum, ResourceName};

mod device;
mod findings;
mod fitness;
mod generate;
mod granted;
mod held;
mod identity;
mod near_miss;
mod netdevs;
mod prefer;
mod reason;
mod select;
mod slots;

pub use device::{Device, Grant, UnknownId};
pub use findings::{OtherOffers, findings};
pub use generate::{Generated, NoConfig, Omission, generate};
pub use granted::{GrantedNode, check_granted, number_nodes};
pub use held::{Holdings, Listed, Refused, Standing};
pub(crate) use identity::id;
pub use reason::Reason;
pub use slots::NoSlots;

/// A resource and the HCAs behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// As Pods ask for it.
    pub resource: ResourceName,
    /// What an ID stands for, as configured.
    #[serde(serialize_with = "device::write_sharing")]
    pub sharing: Sharing,
    /// The HCAs in the pool.
    pub members: Vec<PoolMember>,
    /// The HCAs out of it, each with the first reason.
    pub left_out: Vec<LeftOut>,
    /// What was selected and nothing has, each in words: `ens3: no such interface`.
    pub near_misses: Vec<String>,
    /// How many device IDs there are.
    pub slots: u32,
    /// Why there is no device ID; None where there are some.
    pub why_no_slots: Option<NoSlots>,
    /// Whether RDMA devices belong to one network namespace each, so that each HCA is offered once whatever `sharing`
    /// says.
    pub exclusive_netns: bool,
    /// /dev/infiniband/rdma_cm, where it is there.
    pub rdma_cm: Option<String>,
    /// cgroup permissions of the nodes: `rw`, or `rwm` as that plugin's Pods have them.
    pub permissions: &'static str,
    /// Traffic class (0 to 255) that its Pods should use.
    pub traffic_class: Option<u8>,
    /// Service level (0 to 15) that its Pods should use.
    pub service_level: Option<u8>,
    /// What becomes of HCAs that fail.
    #[serde(skip)]
    pub health: Health,
}

impl Pool {
    /// The same resource once the configuration has it no more: nothing of it is given to a Pod, and what Pods hold of
    /// it ([`Holdings::list`]) is listed until they have ended.
    pub fn removed(&self) -> Pool {
        let (members, left_out, near_misses) = (Vec::new(), Vec::new(), Vec::new());
        let why_no_slots = Some(NoSlots::Removed);
        Pool { members, left_out, near_misses, slots: 0, why_no_slots, ..self.clone() }
    }

    /// Whether the configuration has it no more.
    pub fn is_removed(&self) -> bool {
        self.why_no_slots == Some(NoSlots::Removed)
    }
}

/// An HCA of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolMember {
    /// Its name.
    pub hca: HcaName,
    /// What it is called in device IDs and CDI, over renames, restarts and reboots: the PCI address; with `-` and the
    /// HCA's name where several HCAs share the function; the HCA's name where there is none.
    pub id: String,
    /// The ports that the selectors meant.
    pub ports: Vec<PortNum>,
    /// Other RDMA devices that are granted with it: other halves of the same physical port.
    pub companions: Vec<HcaName>,
    /// Paths of the device nodes that a container gets, with those of companions: issm and umad as asked for, uverbs.
    pub nodes: Vec<String>,
    /// How selected interfaces lead to it where they are not its ports' own: `bond0 = mlx5_bond_0 (LAG)`.
    pub found_by: Vec<String>,
    /// Its PCI function.
    pub pci_address: Option<PciAddress>,
    /// NUMA node; None where it is unknown.
    pub numa_node: Option<u32>,
    /// Root bus, as `pci0000:48`.
    pub pci_root: Option<String>,
    /// Bridges above the function, the root port first.
    pub pci_path: Vec<PciAddress>,
}

impl PoolMember {
    /// Where it is in the PCI tree.
    pub fn place(&self) -> Place<'_> {
        Place { root: self.pci_root.as_deref(), bridges: &self.pci_path, numa_node: self.numa_node }
    }

    /// The HCA and its ports: `mlx5_0:1,mlx5_0:2`.
    pub fn ports_text(&self) -> String {
        self.ports.iter().map(|port| format!("{}:{port}", self.hca)).collect::<Vec<_>>().join(",")
    }
}

/// An HCA that is not in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its name.
    pub hca: HcaName,
    /// The first thing that kept it out.
    pub reason: Reason,
}

/// What must have been read of a host, beside HCAs, ports, netdevs and char devices, for a configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// GID tables: slots are counted by them.
    pub gids: bool,
    /// Roles, and so all that they are told from (labels leave out what manages a switch); the host must have been
    /// judged ([`crate::judge`]).
    pub roles: bool,
}

/// What a configuration needs to be known of a host.
pub fn needs(config: &Config) -> Needs {
    let chosen = || config.resources.iter().flat_map(|r| std::iter::once(&r.selectors).chain(&r.exclude));
    Needs {
        gids: config.resources.iter().any(slots::is_auto),
        roles: chosen().any(|selectors| !selectors.roles.is_empty()) || config.publish.labels != Labels::Off,
    }
}

/// Works out every pool of a configuration on a host, in the configuration's order.
pub fn plan(host: &Host, config: &Config) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for resource in &config.resources {
        pools.push(plan_pool(host, config.dialect, resource, &pools));
    }
    pools
}

/// Every interface by which an HCA of the pool may be meant: those of the ports that its selectors meant, bonds of them,
/// their members, and VLAN, macvlan, ipvlan and IPoIB children.
pub(crate) fn netdevs_of<'h>(host: &'h Host, pool: &Pool) -> BTreeSet<&'h str> {
    let members =
        pool.members.iter().filter_map(|member| Some((host.hca(member.hca.as_str())?, &member.ports)));
    let ports = members.flat_map(|(hca, wanted)| {
        hca.ports.iter().filter(|port| wanted.contains(&port.port)).map(move |port| (hca, port))
    });
    ports.flat_map(|(hca, port)| netdevs::of_port(host, hca, port)).collect()
}

fn plan_pool(host: &Host, dialect: Dialect, resource: &Resource, earlier: &[Pool]) -> Pool {
    let exclusive_netns = host.netns_mode == Some(NetnsMode::Exclusive);
    let (mut members, mut left_out) = (Vec::new(), Vec::new());
    for hca in &host.hcas {
        let decided = select::meant_ports(host, dialect, resource, hca).and_then(|ports| {
            let unfit = fitness::check(host, hca)
                .or_else(|| fitness::check_nodes(host, dialect, resource.char_devices, hca, &ports))
                .or_else(|| fitness::check_offered(earlier.iter().filter(|_| exclusive_netns), hca));
            unfit.map_or(Ok(ports), Err)
        });
        match decided {
            Err(reason) => left_out.push(LeftOut { hca: hca.name.clone(), reason }),
            Ok(ports) => members.push(member(host, resource, hca, ports)),
        }
    }
    let (slots, why_no_slots) = match slots::count(host, resource, &members, exclusive_netns) {
        Ok(slots) => (slots, None),
        Err(why) => (0, Some(why)),
    };
    Pool {
        resource: resource.name.clone(),
        sharing: resource.sharing,
        near_misses: near_miss::of_pool(host, dialect, &resource.selectors),
        members,
        left_out,
        slots,
        why_no_slots,
        exclusive_netns,
        rdma_cm: host.rdma_cm.as_ref().filter(|d| d.is_there()).map(CharDevice::path),
        permissions: if dialect == Dialect::ConfigJson { "rwm" } else { "rw" },
        traffic_class: resource.traffic_class,
        service_level: resource.service_level,
        health: resource.health,
    }
}

fn member(host: &Host, resource: &Resource, hca: &Hca, ports: Vec<PortNum>) -> PoolMember {
    let halves = identity::other_halves(host, hca);
    let asked = resource.char_devices;
    PoolMember {
        hca: hca.name.clone(),
        id: identity::id(host, hca),
        nodes: std::iter::once(hca)
            .chain(halves.iter().copied())
            .flat_map(|h| fitness::nodes(asked, h))
            .collect(),
        companions: halves.iter().map(|half| half.name.clone()).collect(),
        found_by: netdevs::ways(host, hca, |name| select::names_interface(resource, name)),
        ports,
        pci_address: hca.pci_address,
        numa_node: hca.numa_node,
        pci_root: hca.pci_root.clone(),
        pci_path: hca.pci_path.clone(),
    }
}

#[cfg(test)]
mod tests;
