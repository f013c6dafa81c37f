//! One RDMA device: what it is, where it sits, what it belongs together with. Its ports are in `port`, the PCI
//! facts in `pci`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CharDevice, Counter, IommuGroup, PcieLink, PcieSettings, Port, Unknown, Vpd};
use crate::names::{Guid, HcaName, PciAddress, PciId, PortNum};

/// One RDMA device: an entry of /sys/class/infiniband.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hca {
    /// Name of the entry.
    pub name: HcaName,
    /// The PCI function it sits on, also when an auxiliary device (SF) lies between.
    pub pci_address: Option<PciAddress>,
    /// What kind of device is its direct parent.
    pub parent: Parent,
    /// Vendor and device id of the PCI function.
    pub pci_id: Option<PciId>,
    /// Subsystem vendor and device id of the PCI function: tells boards of one chip apart.
    pub pci_subsystem: Option<PciId>,
    /// Driver bound to the PCI function (or to the parent where there is none), as `mlx5_core`.
    pub driver: Option<String>,
    /// NUMA node; None also when the kernel says -1 (unknown to the firmware).
    pub numa_node: Option<u32>,
    /// Node GUID (…/node_guid).
    pub node_guid: Option<Guid>,
    /// System image GUID (…/sys_image_guid): equal on ports of one card.
    pub sys_image_guid: Option<Guid>,
    /// Firmware version (…/fw_ver); None when empty, as with rxe.
    pub fw_version: Option<String>,
    /// Board id (…/board_id), as MT_0000000838; absent on many drivers.
    pub board_id: Option<String>,
    /// Free text (…/hca_type), as MT4129; absent on many drivers.
    pub hca_type: Option<String>,
    /// Hardware revision (…/hw_rev).
    pub hw_rev: Option<String>,
    /// Number of …/node_type: 1 CA, 4 iWARP (RNIC), 5 usNIC, 6 usNIC UDP, 7 unspecified (EFA).
    pub node_type: Option<u32>,
    /// What kind of function it is; None without a PCI function, and where sysfs does not tell (a VF that was
    /// passed into a machine looks like a PF there).
    pub function: Option<FunctionKind>,
    /// The PF of this VF (…/device/physfn).
    pub physical_function: Option<PciAddress>,
    /// Number of the scalable function (…/sfnum of the auxiliary device); None on other functions.
    pub sf_number: Option<u32>,
    /// Whether it is made of software over a netdev: rxe, siw.
    pub software: bool,
    /// The RDMA device that this one is a part of (RDMA netlink, from Linux 6.11 on): a device for subnet management
    /// alone.
    pub parent_hca: Option<HcaName>,
    /// What else belongs to the same card, function or physical port.
    pub companions: Vec<Companion>,
    /// The ports that are data planes of one card; None where the card has no planes that the kernel shows.
    pub planes: Option<Planes>,
    /// Part number and name from the vital product data; None where there is none or it cannot be read.
    pub vpd: Option<Vpd>,
    /// Whether it manages an NVSwitch and carries no traffic (VPD says `SMDL=SW_MNG`); None where VPD cannot be
    /// read.
    pub switch_management: Option<bool>,
    /// PCIe link of the function, now and at most.
    pub pcie: Option<PcieLink>,
    /// Settings in the PCIe capability of the function; None on a VF (its registers are its PF's) and where config
    /// space cannot be read.
    pub pcie_settings: Option<PcieSettings>,
    /// Root bus, as `pci0000:48`; None without a PCI function.
    pub pci_root: Option<String>,
    /// Bridges above the function, the root port first: [`super::Host::bridges`] holds them.
    pub pci_path: Vec<PciAddress>,
    /// The function's IOMMU group; None where there is no IOMMU.
    pub iommu: Option<IommuGroup>,
    /// All netdevs below the parent device (…/device/net/), sorted; a port's own netdev is in the port.
    pub parent_netdevs: Vec<String>,
    /// The verbs char device; None when the kernel made none.
    pub uverbs: Option<CharDevice>,
    /// Version of the driver's verbs interface (…/abi_version of the verbs device): libibverbs needs a provider of
    /// this version.
    pub uverbs_abi: Option<u32>,
    /// Counters of the whole device (…/hw_counters); empty where the driver keeps them by port, or unread.
    pub counters: Vec<Counter>,
    /// What the driver's health reporters say of the function (devlink); empty where it has none, or unread.
    #[serde(default)]
    pub health: Vec<HealthReporter>,
    /// What it is for, with the ground.
    pub role: Role,
    /// Ports by number.
    pub ports: Vec<Port>,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub unknown: Unknown,
}

impl Hca {
    /// An HCA of which nothing but its name is known.
    pub fn new(name: HcaName) -> Hca {
        Hca {
            name,
            pci_address: None,
            parent: Parent::Other,
            pci_id: None,
            pci_subsystem: None,
            driver: None,
            numa_node: None,
            node_guid: None,
            sys_image_guid: None,
            fw_version: None,
            board_id: None,
            hca_type: None,
            hw_rev: None,
            node_type: None,
            function: None,
            physical_function: None,
            sf_number: None,
            software: false,
            parent_hca: None,
            companions: Vec::new(),
            planes: None,
            vpd: None,
            switch_management: None,
            pcie: None,
            pcie_settings: None,
            pci_root: None,
            pci_path: Vec::new(),
            iommu: None,
            parent_netdevs: Vec::new(),
            uverbs: None,
            uverbs_abi: None,
            counters: Vec::new(),
            health: Vec::new(),
            role: Role::default(),
            ports: Vec::new(),
            unknown: Unknown::new(),
        }
    }

    /// rdma-core's name for the provider of its driver (a directory of providers/ there); None for software HCAs, and
    /// where it is not known.
    pub fn verbs_provider(&self) -> Option<&'static str> {
        if self.software {
            return None;
        }
        Some(match self.driver.as_deref()? {
            "mlx5_core" => "mlx5",
            "mlx4_core" => "mlx4",
            "ice" | "irdma" | "idpf" => "irdma",
            "bnxt_en" => "bnxt_re",
            "efa" => "efa",
            "erdma" => "erdma",
            "hns3" => "hns",
            "hfi1" => "hfi1verbs",
            "ib_qib" => "ipathverbs",
            "cxgb4" => "cxgb4",
            "qede" => "qedr",
            "mana" => "mana",
            "ionic" => "ionic",
            _ => return None,
        })
    }

    /// The port of that number.
    pub fn port(&self, port: PortNum) -> Option<&Port> {
        self.ports.iter().find(|p| p.port == port)
    }
}

/// Direct parent of an HCA in the device tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Parent {
    /// A PCI function.
    Pci,
    /// An auxiliary device: a scalable function.
    Auxiliary,
    /// A virtio device.
    Virtio,
    /// A Hyper-V VMBus device.
    Vmbus,
    /// None: software HCAs (rxe, siw) lie in devices/virtual.
    None,
    /// A bus that this version does not know.
    Other,
}

/// A health reporter of a device (devlink).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReporter {
    /// Its name, as `fw_fatal`.
    pub name: String,
    /// Whether it says that all is well now.
    pub healthy: bool,
    /// Errors that it reported since the driver was loaded; None where it does not count.
    pub errors: Option<u64>,
    /// Recoveries that it made.
    pub recoveries: Option<u64>,
}

/// Kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FunctionKind {
    /// Physical function.
    Pf,
    /// Virtual function: sysfs names its PF.
    Vf,
    /// Scalable function, an auxiliary device below its PF.
    Sf,
}

/// Something that belongs together with an HCA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Companion {
    /// How they belong together.
    pub relation: Relation,
    /// The other RDMA device; None for a PCI function that has none of its own (the second port of a LAG).
    pub hca: Option<HcaName>,
    /// PCI function of the other.
    pub pci_address: Option<PciAddress>,
    /// The netdev by which they belong together, for a LAG the member.
    pub netdev: Option<String>,
}

/// How two RDMA devices belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// A member of the bond that this HCA drives as one LAG device.
    LagMember,
    /// The other half of the same physical port: one offers verbs and general management, the other subnet
    /// management (RDMA netlink names a parent device, or both carry one node GUID on one function).
    SplitPlane,
    /// Another RDMA device on the same PCI function (rxe over an HCA's netdev).
    SameFunction,
    /// Another port of the same card (equal system image GUID, or the same PCI slot).
    SameCard,
}

/// Ports of one card that carry its traffic together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planes {
    /// The ports, by number; other ports of the HCA carry no traffic.
    pub ports: Vec<PortNum>,
    /// How many of them are ACTIVE.
    pub up: u32,
    /// What that makes of the card.
    pub verdict: PlanesVerdict,
}

/// State of a card with several planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanesVerdict {
    /// All planes are up.
    Healthy,
    /// Some are.
    Degraded,
    /// None is.
    Down,
}

/// What an HCA is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Role {
    /// The role.
    pub kind: RoleKind,
    /// What tells it, in words.
    pub ground: String,
}

impl Default for Role {
    fn default() -> Self {
        Role { kind: RoleKind::Unknown, ground: "not judged".into() }
    }
}

/// The roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleKind {
    /// A rail of the compute fabric.
    Fabric,
    /// Storage traffic.
    Storage,
    /// Carries the host's default route, or what leads to the API server.
    Management,
    /// Manages an NVSwitch domain; no traffic of Pods.
    Bridge,
    /// No port is up.
    Down,
    /// It could not be told.
    Unknown,
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RoleKind::Fabric => "fabric",
            RoleKind::Storage => "storage",
            RoleKind::Management => "management",
            RoleKind::Bridge => "bridge",
            RoleKind::Down => "down",
            RoleKind::Unknown => "unknown",
        })
    }
}
