//! The variables by which NCCL, UCX, NVSHMEM, libfabric's verbs provider and Gloo use the HCAs that a process was
//! granted, each with its reason. Owns which and why; reads nothing, and does not write them out.
//!
//! What the user has set wins and is named. An index into a GID table is right in one Pod and wrong in the next, and
//! launchers hand variables on: it is given on request, or for a file that stays in this Pod.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;

use crate::finding::Finding;
use crate::host::{Host, LinkLayer};
use crate::names::{GidIndex, HcaName, PciAddress, PortNum};
use crate::pod::Tried;

mod contradictions;
mod devices;
mod fabric;
mod gids;
mod libraries;
mod lists;
mod pairing;
mod rules;
mod sheet;
mod sockets;
#[cfg(test)]
mod tests;
mod version;

pub use contradictions::FOUND;
pub(crate) use contradictions::instead_of_off;
pub(crate) use devices::usable_ports;
pub use pairing::Pair;
pub use rules::{RULES, Rule};
pub use version::{NcclSource, NcclVersion, version_of_library};

/// A network: an address and its prefix length.
pub type Network = (IpAddr, u8);

/// What is known beside the host, and asked for.
#[derive(Debug, Clone)]
pub struct Given<'a> {
    /// Variables of the process: what it was granted (ROCADE_…), and what the user has set. Empty values count as not
    /// set.
    pub variables: &'a BTreeMap<String, String>,
    /// What trying to open verbs devices gave.
    pub tried: &'a Tried,
    /// The NCCL that will run.
    pub nccl: NcclVersion,
    /// How it is known.
    pub nccl_source: NcclSource,
    /// Whether an index is asked for.
    pub gid_index: bool,
    /// The fabric's network where the user says it.
    pub range: Option<Network>,
    /// How far the answer goes.
    pub reach: Reach,
    /// The GPUs of this container; None for all that are seen.
    pub gpus: Option<&'a [PciAddress]>,
}

/// Where variables come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// An environment, which launchers may hand on to other Pods.
    Handed,
    /// A file that is read in this Pod alone.
    OwnFile,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Environment {
    /// Ports that jobs use, nearest to the first GPU first.
    pub ports: Vec<ChosenPort>,
    /// HCAs and ports that they do not use → why not.
    pub left_out: BTreeMap<String, String>,
    /// GPUs and the HCA nearest to each; empty where distances tell nothing.
    pub pairs: Vec<Pair>,
    /// NCCL as it was reckoned with.
    pub nccl: NcclVersion,
    /// How that is known.
    pub nccl_source: NcclSource,
    /// All variables, set or left unset.
    pub variables: Vec<Variable>,
    /// What the user has set and does not fit, and what no variable can mend.
    pub findings: Vec<Finding>,
}

/// A port that jobs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChosenPort {
    /// Its HCA.
    pub hca: HcaName,
    /// Its number.
    pub port: PortNum,
    /// What link it has.
    pub link_layer: LinkLayer,
    /// Index of the GID of this namespace's own address; None on InfiniBand, and where there is none but a link-local.
    pub gid_index: Option<GidIndex>,
    /// That address.
    pub address: Option<IpAddr>,
    /// The interface that has it.
    pub netdev: Option<String>,
    /// Whether NCCL and NVSHMEM use it too: they take one link layer and one address family.
    pub nccl: bool,
}

/// A variable of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Whose it is.
    pub library: Library,
    /// Its value; None where it is left unset.
    pub value: Option<String>,
    /// Whose value that is.
    pub by: By,
    /// Why, in words.
    pub why: String,
    /// The rule ([`RULES`]).
    pub rule: &'static str,
}

/// Whose value a variable has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Told by the rules.
    Rule,
    /// Set before by the user.
    User,
}

/// A library that reads variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    /// <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>
    Nccl,
    /// <https://openucx.readthedocs.io/en/master/faq.html>, `ucx_info -c -f`
    Ucx,
    /// <https://docs.nvidia.com/nvshmem/api/gen/env.html>
    Nvshmem,
    /// fi_verbs(7), <https://ofiwg.github.io/libfabric/main/man/fi_verbs.7.html>
    Libfabric,
    /// <https://docs.pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use>
    Gloo,
}

impl Environment {
    /// The value of a variable; None where it is left unset.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|variable| variable.name == name)?.value.as_deref()
    }

    /// Whether there is anything that a job could use.
    pub fn is_usable(&self) -> bool {
        !self.ports.is_empty()
    }
}

/// Tells the variables. The host must have been judged ([`crate::judge`]).
pub fn environment(host: &Host, given: &Given<'_>) -> Environment {
    let devices = devices::choose(host, given.tried, given.variables);
    let fabric = fabric::settle(host, given, &devices);
    let pairs = pairing::pair(host, given, &fabric.rails);
    let rails = pairing::nearest_first(&fabric.rails, &pairs);
    let mut sheet = sheet::Sheet::new(given);
    let facts = libraries::Facts { host, given, rails: &rails, fabric: &fabric, pairs: &pairs };
    libraries::fill(&facts, &mut sheet);
    let findings = contradictions::find(&facts);
    let mut left_out = devices.left_out;
    left_out.extend(fabric.left_out.clone());
    Environment {
        ports: rails.iter().map(|rail| rail.told()).collect(),
        left_out,
        pairs: pairs.pairs,
        nccl: given.nccl,
        nccl_source: given.nccl_source.clone(),
        variables: sheet.variables,
        findings,
    }
}
