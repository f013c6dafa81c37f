//! The model: what a host's RDMA is, and the rules over it. No file, network, clock or environment is
//! touched here; text comes in as `&str`, answers go out as types.
#![forbid(unsafe_code)]

pub mod absence;
pub mod cdi;
pub mod check;
pub mod config;
pub mod diagnose;
pub mod distance;
pub mod environment;
pub mod finding;
pub mod gid;
pub mod health;
pub mod host;
pub mod labels;
pub mod lint;
pub mod names;
pub mod pair;
pub mod plan;
pub mod pod;
pub mod policy;
pub mod relate;
pub mod role;
pub mod status;
pub mod usable;
pub mod verify;

pub use finding::{Finding, Severity};
pub use host::{
    Accessible, CharDevice, GidEntry, GidType, Hca, Host, LinkLayer, Netdev, NetnsMode, Parent, PcieLink,
    Port, Transport, Usable,
};
pub use names::{Gid, GidIndex, Guid, HcaName, PciAddress, PciId, PortNum, ResourceName};

/// Judges a host that was read: which ports can be used, and what each HCA is for.
pub fn judge(host: &mut Host) {
    usable::judge(host);
    role::judge(host);
}
