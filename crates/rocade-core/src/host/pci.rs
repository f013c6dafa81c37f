//! What PCI says of a function, of the bridges above it, and of accelerators. Numbers of registers from
//! include/uapi/linux/pci_regs.h.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::names::{PciAddress, PciId};

/// PCIe link speed (kernel's words, as `32.0 GT/s PCIe`) and width in lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PcieLink {
    /// …/current_link_speed.
    pub speed: Option<String>,
    /// …/current_link_width; 0 where the function does not say (a VF).
    pub width: Option<u32>,
    /// …/max_link_speed.
    pub max_speed: Option<String>,
    /// …/max_link_width.
    pub max_width: Option<u32>,
    /// …/max_link_speed of the bridge above: a card can do no more than its slot.
    pub parent_max_speed: Option<String>,
    /// …/max_link_width of the bridge above.
    pub parent_max_width: Option<u32>,
}

impl PcieLink {
    /// Whether it runs below what both ends can do; None where that cannot be told.
    pub fn is_degraded(&self) -> Option<bool> {
        let (speed, width) = (gigatransfers(self.speed.as_deref()?)?, self.width.filter(|w| *w > 0)?);
        let (most, widest) = (gigatransfers(self.max_speed.as_deref()?)?, self.max_width.filter(|w| *w > 0)?);
        let most = self.parent_max_speed.as_deref().and_then(gigatransfers).map_or(most, |p| most.min(p));
        let widest = self.parent_max_width.filter(|w| *w > 0).map_or(widest, |p| widest.min(p));
        Some(speed < most || width < widest)
    }
}

/// `32.0 GT/s PCIe` → 32.0; None for `Unknown`.
fn gigatransfers(text: &str) -> Option<f64> {
    text.split_once(" GT/s")?.0.parse::<f64>().ok().filter(|speed| speed.is_finite())
}

/// Device control of a PCIe function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PcieSettings {
    /// Largest payload of a packet, bytes.
    pub max_payload: u32,
    /// Largest read that it asks for at once, bytes.
    pub max_read_request: u32,
    /// Whether it may let its packets be reordered.
    pub relaxed_ordering: bool,
}

/// IOMMU group of a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IommuGroup {
    /// Number of the group.
    pub group: u32,
    /// …/type: `identity` is pass-through, `DMA` and `DMA-FQ` translate. None before Linux 4.19, or unreadable.
    pub kind: Option<String>,
}

/// Vital product data of a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vpd {
    /// The product's name.
    pub name: Option<String>,
    /// Field PN.
    pub part_number: Option<String>,
    /// Field SN.
    pub serial_number: Option<String>,
}

/// A PCI bridge above an HCA or an accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bridge {
    /// Its address.
    pub pci_address: PciAddress,
    /// What kind of port it is; None where config space cannot be read.
    pub port_type: Option<PortType>,
    /// Settings of its PCIe capability.
    pub settings: Option<PcieSettings>,
    /// Access control services; None where they cannot be read.
    pub acs: Option<Acs>,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: Unknown,
}

/// Kind of a PCIe port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortType {
    /// Root port.
    Root,
    /// A switch's port towards the root.
    Upstream,
    /// A switch's port towards a device.
    Downstream,
    /// Another kind of bridge.
    Other,
}

/// State of access control services of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Acs {
    /// The bridge has no such capability.
    Absent,
    /// All off.
    Off,
    /// On, peer-to-peer requests are not redirected.
    On,
    /// Peer-to-peer requests or completions are redirected to the root: GPUDirect is slow or fails on bare metal.
    Redirect,
}

/// A PCI function of class network (0x02) or InfiniBand (0x0c06) that no RDMA device sits on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkCard {
    /// Its address.
    pub pci_address: PciAddress,
    /// Vendor and device id.
    pub pci_id: Option<PciId>,
    /// PCI class and subclass: 0x0200 Ethernet, 0x0207 InfiniBand, 0x0208 fabric.
    pub class: u16,
    /// Driver that is bound.
    pub driver: Option<String>,
}

impl NetworkCard {
    /// Whether it is a card of a kind that always does RDMA.
    pub fn is_rdma_hardware(&self) -> bool {
        // Mellanox makes no network card without it; the classes are InfiniBand's and Omni-Path's.
        matches!(self.class, 0x0207 | 0x0208 | 0x0c06) || self.pci_id.is_some_and(|id| id.vendor == 0x15b3)
    }
}

/// A GPU or another accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accelerator {
    /// Its PCI function.
    pub pci_address: PciAddress,
    /// Vendor and device id.
    pub pci_id: Option<PciId>,
    /// PCI class: 0x0300 VGA, 0x0302 3D controller, 0x0380 other display, 0x1200 processing accelerator.
    pub class: u16,
    /// Driver that is bound, as `nvidia`.
    pub driver: Option<String>,
    /// NUMA node; None also when the kernel says -1.
    pub numa_node: Option<u32>,
    /// Root bus, as `pci0000:48`.
    pub pci_root: Option<String>,
    /// Bridges above it, the root port first.
    pub pci_path: Vec<PciAddress>,
    /// Its IOMMU group.
    pub iommu: Option<IommuGroup>,
    /// HCA name → how far it is.
    pub distances: BTreeMap<String, Distance>,
    /// Fields of this object that could not be read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: Unknown,
}

/// How far an HCA is from an accelerator, by the names that NCCL and nvidia-smi use; nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Distance {
    /// At most one PCIe switch between.
    Pix,
    /// Several PCIe switches, not the host bridge.
    Pxb,
    /// Through the CPU's PCIe host bridge.
    Phb,
    /// Through several host bridges of one NUMA node.
    Node,
    /// Between NUMA nodes.
    Sys,
    /// It could not be told: different root buses, and a NUMA node is not known.
    Unknown,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Distance::Pix => "PIX",
            Distance::Pxb => "PXB",
            Distance::Phb => "PHB",
            Distance::Node => "NODE",
            Distance::Sys => "SYS",
            Distance::Unknown => "?",
        })
    }
}
