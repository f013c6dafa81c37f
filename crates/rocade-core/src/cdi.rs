//! The container device interface: what a spec file for a host's HCAs says, and which container runtimes honour the
//! names. Form and versions: github.com/cncf-tags/container-device-interface SPEC.md. Writing the file is the agent's
//! business.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::host::{Accessible, CharDevice, Hca, Host};
use crate::names::{HcaName, PciAddress};

mod runtime;

pub use runtime::{Runtime, refuse_runtime};

/// The kind of all devices.
pub const KIND: &str = "rocade.dev/hca";

/// A spec file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The lowest version that has all that is used: older runtimes refuse a newer one whole.
    pub cdi_version: &'static str,
    /// [`KIND`].
    pub kind: &'static str,
    /// An HCA's verbs device, and apart from it what lets one send management packets.
    pub devices: Vec<Device>,
    /// What any of the devices brings: rdma_cm.
    #[serde(skip_serializing_if = "Edits::is_empty")]
    pub container_edits: Edits,
}

/// A named device of a spec file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Its name within the kind.
    pub name: String,
    /// What a container gets.
    pub container_edits: Edits,
}

/// What is changed in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edits {
    /// Nodes that it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<DeviceNode>,
}

/// A device node, on the host and in the container at the same path. The runtime looks its numbers up when it makes the
/// container, so that a spec file does not grow old.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceNode {
    /// The path.
    pub path: String,
    /// What may be done with it, as `rwm`.
    pub permissions: &'static str,
}

impl Edits {
    fn of<'d>(devices: impl IntoIterator<Item = &'d CharDevice>) -> Edits {
        let there = devices.into_iter().filter(|device| device.accessible == Accessible::Yes);
        Edits { device_nodes: there.map(|d| DeviceNode { path: d.path(), permissions: "rwm" }).collect() }
    }

    fn is_empty(&self) -> bool {
        self.device_nodes.is_empty()
    }
}

/// What of an HCA a CDI device stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// uverbsN.
    Verbs,
    /// umadN of all ports.
    Umad,
    /// issmN of all ports.
    Issm,
}

/// The spec file for all HCAs of a host; its devices are empty where no HCA has a node.
pub fn spec(host: &Host) -> Spec {
    let names = Names::of(host);
    let devices: Vec<Device> = host.hcas.iter().flat_map(|hca| devices(&names, hca)).collect();
    let digit = |device: &Device| device.name.starts_with(|c: char| c.is_ascii_digit());
    Spec {
        cdi_version: if devices.iter().any(digit) { "0.5.0" } else { "0.3.0" },
        kind: KIND,
        container_edits: Edits::of(&host.rdma_cm),
        devices,
    }
}

fn devices(names: &Names, hca: &Hca) -> Vec<Device> {
    let parts = [
        (Part::Verbs, Edits::of(&hca.uverbs)),
        (Part::Umad, Edits::of(hca.ports.iter().filter_map(|port| port.umad.as_ref()))),
        (Part::Issm, Edits::of(hca.ports.iter().filter_map(|port| port.issm.as_ref()))),
    ];
    let there = parts.into_iter().filter(|(_, edits)| !edits.is_empty());
    there
        .filter_map(|(part, edits)| {
            Some(Device { name: names.device(&hca.name, part)?, container_edits: edits })
        })
        .collect()
}

/// The names of a host's devices: the same after a restart and a reboot, for a container that the kubelet starts again
/// is made by the name that was granted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(BTreeMap<HcaName, String>);

impl Names {
    /// By PCI address, with the HCA's name where several HCAs share it; by the HCA's name where there is none.
    pub fn of(host: &Host) -> Names {
        let shared =
            |address: PciAddress| host.hcas.iter().filter(|hca| hca.pci_address == Some(address)).count() > 1;
        let name = |hca: &Hca| match hca.pci_address {
            Some(address) if shared(address) => format!("{address}-{}", allowed(hca.name.as_str())),
            Some(address) => address.to_string(),
            None => allowed(hca.name.as_str()),
        };
        Names(host.hcas.iter().map(|hca| (hca.name.clone(), name(hca))).collect())
    }

    /// The name within the kind; None for an HCA that was not on the host.
    pub fn device(&self, hca: &HcaName, part: Part) -> Option<String> {
        let name = self.0.get(hca)?;
        Some(match part {
            Part::Verbs => name.clone(),
            Part::Umad => format!("{name}.umad"),
            Part::Issm => format!("{name}.issm"),
        })
    }

    /// The name as a grant has it: `rocade.dev/hca=0000:0c:00.0`.
    pub fn qualified(&self, hca: &HcaName, part: Part) -> Option<String> {
        Some(format!("{KIND}={}", self.device(hca, part)?))
    }
}

/// In the characters of a CDI name, which begins and ends with a letter or digit; the kernel allows nearly all others
/// in an HCA's name, and two different names stay different.
fn allowed(name: &str) -> String {
    let last = name.len().saturating_sub(1);
    let fits = |at: usize, byte: u8| {
        byte.is_ascii_alphanumeric() || (at > 0 && at < last && matches!(byte, b'_' | b'-' | b'.'))
    };
    let text = |(at, byte): (usize, u8)| {
        if fits(at, byte) { char::from(byte).into() } else { format!("x{byte:02x}") }
    };
    name.bytes().enumerate().map(text).collect()
}

#[cfg(test)]
mod tests;
