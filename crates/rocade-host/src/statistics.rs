//! The statistics that drivers name themselves (`ethtool -S`), of the interfaces that RDMA runs over. Owns which
//! interfaces are asked, and how an archive holds the answers; what an answer is made of is `decode`'s matter.

use std::collections::{BTreeMap, HashSet};

use rocade_core::Host;
use serde::{Deserialize, Serialize};

use crate::errno::Errno;
use crate::netdevs::read_links;
use crate::netlink::route::ETHERNET;
use crate::root::{Answer, Refusal, Root};

mod decode;

pub(crate) use decode::NAME_LEN;
pub use decode::decode_statistics;

/// Name → value, in the driver's words.
pub(crate) type Statistics = BTreeMap<String, u64>;

/// The statistics of an interface as an archive holds them: `values`, or the errno that `failed` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticsRecord {
    /// Name of the interface.
    pub netdev: String,
    /// Name → value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<BTreeMap<String, u64>>,
    /// The kernel's refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Errno>,
}

impl StatisticsRecord {
    /// None where there is no answer to record.
    fn of(netdev: &str, answer: Answer<Statistics>) -> Option<StatisticsRecord> {
        let (values, failed) = match answer {
            Ok(values) => (Some(values), None),
            Err(Refusal::Errno(errno)) => (None, Some(errno)),
            Err(Refusal::NeverTried | Refusal::Garbled) => return None,
        };
        Some(StatisticsRecord { netdev: netdev.to_owned(), values, failed })
    }

    pub(crate) fn answer(&self) -> Answer<Statistics> {
        match (&self.values, self.failed) {
            (Some(values), _) => Ok(values.clone()),
            (None, Some(errno)) => Err(Refusal::Errno(errno)),
            (None, None) => Err(Refusal::NeverTried),
        }
    }
}

/// Those of the interfaces of ports, and of the members of bonds that are. A driver may ask its firmware for each of
/// them, so others are left alone.
pub(crate) fn read(root: &Root, host: &mut Host) {
    let ports = host.hcas.iter().flat_map(|hca| &hca.ports);
    let names = ports.flat_map(|port| [&port.netdev, &port.netlink_netdev]).flatten();
    let of_ports: HashSet<String> = names.cloned().collect();
    for netdev in &mut host.netdevs {
        let is_of_port =
            [Some(&netdev.name), netdev.master.as_ref()].into_iter().flatten().any(|n| of_ports.contains(n));
        if !is_of_port || !has_driver(netdev.kind.as_deref(), netdev.link_type) {
            continue;
        }
        match root.statistics(&netdev.name) {
            Ok(statistics) => netdev.statistics = Some(statistics),
            Err(Refusal::Errno(Errno::OPNOTSUPP)) => {}
            Err(Refusal::NeverTried) => {
                host.unknown.insert("netdevs.statistics".into(), Refusal::NeverTried.to_string());
            }
            Err(refusal) => {
                host.unknown.insert(format!("netdevs.{}.statistics", netdev.name), refusal.to_string());
            }
        }
    }
}

/// Those of all interfaces that have a driver of their own: which of them belongs to a port is the reader's matter.
pub(crate) fn record(root: &Root) -> Vec<StatisticsRecord> {
    let links = read_links(root).unwrap_or_default();
    let own = links.iter().filter(|link| has_driver(link.kind.as_deref(), link.link_type));
    own.filter_map(|link| StatisticsRecord::of(&link.name, root.statistics(&link.name))).collect()
}

/// Not so are bonds, VLANs and their like, which have a kind, nor IPoIB interfaces, whose HCA has counters.
fn has_driver(kind: Option<&str>, link_type: u16) -> bool {
    kind.is_none() && link_type == ETHERNET
}
