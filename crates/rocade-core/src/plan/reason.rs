//! Why an HCA is not in a pool, in words.

use std::fmt;

use serde::Serialize;

use crate::host::Transport;
use crate::names::{HcaName, PortNum, ResourceName};

/// Why an HCA is not in a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A selector holds none of the HCA's values: the first that does.
    Selector {
        /// Key of the selector, as the configuration writes it.
        key: &'static str,
        /// What the selector lists.
        wanted: Vec<String>,
        /// What the HCA has.
        seen: Vec<String>,
        /// What was probably meant, in words.
        near: Option<String>,
    },
    /// Each selector is met by a port, but none by all of them.
    NoPort,
    /// An exclude list of the resource selects it; which of them, from 0.
    Excluded(usize),
    /// It manages an NVSwitch, and is not named.
    Bridge,
    /// RDMA devices belong to one network namespace each, and this resource offers it already.
    OfferedBy(ResourceName),
    /// It is granted with this HCA, being the other half of its physical port.
    HalfOf(HcaName),
    /// Its PCI function has no driver: it is going away.
    NoDriver,
    /// No port speaks InfiniBand or RoCE; what they speak instead.
    Transport(Transport),
    /// Every port has a GID table of length 0: RoCE is off, or the function is a switchdev manager.
    NoGidTable,
    /// A software HCA on an interface of this hardware HCA.
    SoftwareOn(HcaName),
    /// The node below /dev/infiniband that is not there.
    NoNode(String),
    /// The kernel made no such char device for a port, and the resource asks for it.
    NoCharDevice {
        /// `umad` or `issm`.
        kind: &'static str,
        /// The port.
        port: PortNum,
    },
    /// The kernel made no verbs device for it.
    NoVerbs,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Selector { key, wanted, seen, near } => {
                let seen = if seen.is_empty() { "none".to_owned() } else { seen.join(", ") };
                write!(f, "{key} wants {}, it has {seen}", wanted.join(" or "))?;
                near.iter().try_for_each(|near| write!(f, "; {near}"))
            }
            Reason::NoPort => f.write_str("no one port meets all selectors, though each is met by some port"),
            Reason::Excluded(index) => write!(f, "exclude[{index}] selects it"),
            Reason::Bridge => f.write_str(
                "it manages an NVSwitch: only its name or PCI address in the selectors takes it in",
            ),
            Reason::OfferedBy(resource) => write!(
                f,
                "RDMA namespaces are exclusive, so that one Pod has it at a time, and {resource} offers it"
            ),
            Reason::HalfOf(hca) => {
                write!(f, "it is the other half of {hca}'s physical port, and granted with {hca}")
            }
            Reason::NoDriver => f.write_str("no driver is bound to its PCI function"),
            Reason::Transport(transport) => write!(f, "it speaks {transport:?}, not InfiniBand or RoCE"),
            Reason::NoGidTable => {
                f.write_str("its GID table has length 0: RoCE is off, or it only manages a switch")
            }
            Reason::SoftwareOn(hca) => write!(f, "it is a software HCA on an interface of {hca}"),
            Reason::NoNode(path) => write!(f, "{path} is not there"),
            Reason::NoCharDevice { kind, port } => {
                write!(f, "the kernel made no {kind} device for port {port} (module ib_umad)")
            }
            Reason::NoVerbs => f.write_str("the kernel made no verbs device for it (module ib_uverbs)"),
        }
    }
}
