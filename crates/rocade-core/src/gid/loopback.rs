//! Whether a test's two ends are one host, so that what it measured is no fabric.

use std::fmt;

use super::{Choice, Connection};
use crate::host::{GidEntry, Hca, Host, LinkLayer, Port};
use crate::names::{Gid, HcaName};
use crate::pair::Endpoint;
use crate::pair::perf::EndFacts;

/// No fabric lies between both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loopback {
    /// Both are on one HCA, in one network namespace or in two.
    Hca(HcaName),
    /// They are on two HCAs of one host: this end's, and the other's.
    Host(HcaName, HcaName),
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loopback::Hca(hca) => write!(f, "loopback, not fabric: both ends are on {hca}"),
            Loopback::Host(own, other) => {
                write!(f, "loopback, not fabric: both ends are on this host ({own} and {other})")
            }
        }
    }
}

/// By the other end's GID, if one of this host's tables has it; on InfiniBand without a GID by its LID, which is one of
/// this host's ports' if it is this port's, or if the TCP connection did not leave this host either. None where neither
/// shows it: the other end may still be on this host, in a namespace that is not seen from here ([`loopback_of_boot`]).
pub fn loopback(
    host: &Host,
    choice: &Choice,
    remote: &Endpoint,
    connection: Option<Connection>,
) -> Option<Loopback> {
    let own = host.hca(choice.hca.as_str())?;
    let port = own.port(choice.port)?;
    let other = match remote.gid.is_zero() {
        false => hca_of_gid(host, own, remote.gid)?,
        true if port.link_layer == LinkLayer::InfiniBand => {
            hca_of_lid(host, own, port, remote.lid, connection)?
        }
        true => return None,
    };
    Some(match other.name == own.name {
        true => Loopback::Hca(own.name.clone()),
        false => Loopback::Host(own.name.clone(), other.name.clone()),
    })
}

/// By the boot that both ends' kernels tell of, where both are rocade: also where each namespace has its own HCAs, and sees
/// nothing of the other's. HCAs have one name in all namespaces of a kernel.
pub fn loopback_of_boot(own: &EndFacts, told: &EndFacts) -> Option<Loopback> {
    let is_one = own.boot_id.is_some() && own.boot_id == told.boot_id;
    is_one.then(|| match own.hca == told.hca {
        true => Loopback::Hca(own.hca.clone()),
        false => Loopback::Host(own.hca.clone(), told.hca.clone()),
    })
}

/// The HCA whose tables have the GID, this end's first.
fn hca_of_gid<'a>(host: &'a Host, own: &'a Hca, gid: Gid) -> Option<&'a Hca> {
    let has =
        |hca: &&Hca| hca.ports.iter().flat_map(|port| &port.gids).any(|entry: &GidEntry| entry.gid == gid);
    Some(own).filter(has).or_else(|| host.hcas.iter().find(has))
}

fn hca_of_lid<'a>(
    host: &'a Host,
    own: &'a Hca,
    port: &Port,
    lid: u16,
    connection: Option<Connection>,
) -> Option<&'a Hca> {
    if has_lid(port, lid) {
        return Some(own);
    }
    let within = host.has_address(connection?.peer);
    let has = |hca: &&Hca| {
        hca.ports.iter().any(|port| port.link_layer == LinkLayer::InfiniBand && has_lid(port, lid))
    };
    host.hcas.iter().find(has).filter(|_| within)
}

/// Whether the LID is one of the port's: its own, and with LMC the 2^LMC from it on.
fn has_lid(port: &Port, lid: u16) -> bool {
    let Some(own) = port.lid.filter(|own| *own != 0) else { return false };
    lid >= own && u32::from(lid - own) < 1 << port.lmc.unwrap_or(0).min(7)
}
