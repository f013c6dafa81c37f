//! Character devices below /dev/infiniband.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::HcaName;

/// A character device and whether its node can be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CharDevice {
    /// Name below /dev/infiniband, as `uverbs0`.
    pub node: String,
    /// Number of the kernel's device (…/dev of its class entry).
    pub major: u32,
    /// Number of the kernel's device.
    pub minor: u32,
    /// What /dev/infiniband holds under that name.
    pub accessible: Accessible,
}

/// Where the kernel's RDMA devices have their nodes.
const FOLDER: &str = "/dev/infiniband/";

impl CharDevice {
    /// Path of the node on the host.
    pub fn path(&self) -> String {
        format!("{FOLDER}{}", self.node)
    }

    /// Whether that is the path of the node.
    pub fn is_at(&self, path: &str) -> bool {
        path.strip_prefix(FOLDER) == Some(self.node.as_str())
    }

    /// Whether the node is there and opens this device.
    pub fn is_there(&self) -> bool {
        self.accessible == Accessible::Yes
    }
}

/// State of a device node below /dev/infiniband.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accessible {
    /// There, a character device of the right number.
    Yes,
    /// Not there.
    Missing,
    /// There, but not this character device.
    Other,
    /// Could not be looked at.
    Unknown,
}

/// A character device in /dev/infiniband. Its name says nothing: numbers are given anew when a driver is loaded again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenNode {
    /// Name below /dev/infiniband.
    pub name: String,
    /// Number of the node.
    pub major: u32,
    /// Number of the node.
    pub minor: u32,
    /// The HCA whose device has that number now; None for rdma_cm, and where none has it.
    pub hca: Option<HcaName>,
}
