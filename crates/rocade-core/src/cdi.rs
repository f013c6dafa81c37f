//! The container device interface: what a spec file for a host's HCAs says, and which container runtimes honour the
//! names. Form and versions: github.com/cncf-tags/container-device-interface SPEC.md. Writing the file is the agent's
//! business.

use serde::Serialize;

use crate::host::{CharDevice, Hca, Host};
use crate::plan;

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
    /// What may be done with it, as `rw`.
    pub permissions: &'static str,
}

impl Edits {
    fn of<'d>(devices: impl IntoIterator<Item = &'d CharDevice>) -> Edits {
        let there = devices.into_iter().filter(|device| device.is_there());
        Edits { device_nodes: there.map(|d| DeviceNode { path: d.path(), permissions: "rw" }).collect() }
    }

    fn is_empty(&self) -> bool {
        self.device_nodes.is_empty()
    }
}

/// What a container is granted, by names and by nodes that no name brings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Names as a grant has them: `rocade.dev/hca=0000:0c:00.0`.
    pub names: Vec<String>,
    /// Paths of the nodes that are granted as such.
    pub nodes: Vec<String>,
}

/// The spec file for all HCAs of a host; its devices are empty where no HCA has a node. A device is named as the HCA is
/// in device IDs, the same after a restart and a reboot: a container that the kubelet starts again is made by the name
/// that was granted.
pub fn spec(host: &Host) -> Spec {
    let devices: Vec<Device> = host.hcas.iter().flat_map(|hca| devices(host, hca)).collect();
    let digit = |device: &Device| device.name.starts_with(|c: char| c.is_ascii_digit());
    Spec {
        cdi_version: if devices.iter().any(digit) { "0.5.0" } else { "0.3.0" },
        kind: KIND,
        container_edits: Edits::of(&host.rdma_cm),
        devices,
    }
}

/// The verbs device has the HCA's name, what lets one send management packets or announce a subnet manager a suffix.
fn devices(host: &Host, hca: &Hca) -> Vec<Device> {
    let name = allowed(&plan::id(host, hca));
    let parts = [
        ("", Edits::of(&hca.uverbs)),
        (".umad", Edits::of(hca.ports.iter().filter_map(|port| port.umad.as_ref()))),
        (".issm", Edits::of(hca.ports.iter().filter_map(|port| port.issm.as_ref()))),
    ];
    let there = parts.into_iter().filter(|(_, edits)| !edits.is_empty());
    there.map(|(suffix, edits)| Device { name: format!("{name}{suffix}"), container_edits: edits }).collect()
}

impl Spec {
    /// The names that stand for these nodes, and the nodes that no name brings.
    pub fn split(&self, nodes: &[String]) -> Split {
        let brings = |edits: &Edits| edits.device_nodes.iter().all(|node| nodes.contains(&node.path));
        let chosen: Vec<&Device> =
            self.devices.iter().filter(|device| brings(&device.container_edits)).collect();
        let edits = chosen.iter().map(|device| &device.container_edits);
        // What any device brings comes with the first.
        let brought: Vec<&str> = edits
            .chain(std::iter::once(&self.container_edits).filter(|_| !chosen.is_empty()))
            .flat_map(|edits| edits.device_nodes.iter().map(|node| node.path.as_str()))
            .collect();
        Split {
            names: chosen.iter().map(|device| format!("{KIND}={}", device.name)).collect(),
            nodes: nodes.iter().filter(|node| !brought.contains(&node.as_str())).cloned().collect(),
        }
    }
}

/// In the characters of a CDI name, which begins and ends with a letter or digit; the kernel allows nearly all others
/// in an HCA's name, and two different names stay different.
fn allowed(name: &str) -> String {
    let last = name.len().saturating_sub(1);
    let fits = |at: usize, byte: u8| {
        byte.is_ascii_alphanumeric() || (at > 0 && at < last && matches!(byte, b'_' | b'-' | b'.' | b':'))
    };
    let text = |(at, byte): (usize, u8)| {
        if fits(at, byte) { char::from(byte).into() } else { format!("x{byte:02x}") }
    };
    name.bytes().enumerate().map(text).collect()
}

#[cfg(test)]
mod tests;
