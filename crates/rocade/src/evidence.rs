//! Gathers what a diagnosis takes beside what a failed test itself knows: counters, limits, partition keys, whether the
//! other end's address answers. What it means is `rocade_core::diagnose`'s matter.

use rocade_core::diagnose::{Counted, Evidence, Failure, Phase, Reach, packet_bytes};
use rocade_core::gid::Choice;
use rocade_core::host::{Counter, Limit, Memlock};
use rocade_core::names::Pkey;
use rocade_core::pod::Tried;
use rocade_core::{Gid, HcaName, Host, LinkLayer, PortNum};
use rocade_host::{Root, read_ipc_lock, read_pkey_table, read_port_counters, try_verbs};
use rustix::process::{Resource, getrlimit};

mod known;
mod reach;
mod stderr;

pub(crate) use known::{Form, Known};
pub(crate) use stderr::keep_stderr;

/// The port that a test runs over, watched from before its first packet.
pub(crate) struct Watch {
    root: Root,
    hca: HcaName,
    port: PortNum,
    before: Vec<Counter>,
}

impl Watch {
    /// Reads the port's counters; None where /sys is not to be had.
    pub(crate) fn over(choice: &Choice) -> Option<Watch> {
        let root = Root::live("/").ok()?;
        let before = read_port_counters(&root, &choice.hca, choice.port);
        Some(Watch { root, hca: choice.hca.clone(), port: choice.port, before })
    }

    /// What the port has counted since.
    pub(crate) fn counted(&self) -> Counted {
        Counted::between(&self.before, &read_port_counters(&self.root, &self.hca, self.port))
    }

    /// The partition key at an index, 0x0000 where it is unset, and the length of the table.
    pub(crate) fn pkey(&self, index: u32) -> (Option<Pkey>, Option<u32>) {
        let table = read_pkey_table(&self.root, &self.hca, self.port);
        let len = table.last().map(|(last, _)| last + 1);
        (table.into_iter().find(|(at, _)| *at == index).map(|(_, key)| key), len)
    }
}

/// Reads what can still be read after the failure. What is known already is kept.
fn complete(evidence: &mut Evidence<'_>, watch: Option<&Watch>) {
    evidence.memlock.get_or_insert_with(memlock);
    if let Some(watch) = watch {
        evidence.counted = watch.counted();
        evidence.ipc_lock = evidence.ipc_lock.or_else(|| read_ipc_lock(&watch.root));
        let index = evidence.local.pkey_index.filter(|_| evidence.local.pkey.is_none());
        if let Some(index) = index {
            (evidence.local.pkey, evidence.local.pkey_table_len) = watch.pkey(index);
        }
    }
    if matches!(&evidence.failure, Failure::Verb { verb, .. } if verb == "ibv_open_device") {
        evidence.node_refused = evidence.choice.and_then(|choice| node_refused(evidence.host, choice));
    }
    if evidence.failure.phase() == Phase::FirstPacket && evidence.reach.is_none() {
        evidence.reach = ask_other_end(evidence);
    }
}

/// Why the HCA's node itself does not open, by errno's name; libibverbs does not say it.
fn node_refused(host: &Host, choice: &Choice) -> Option<String> {
    tried(host).remove(&choice.hca)?
}

/// Which HCAs' nodes open.
pub(crate) fn tried(host: &Host) -> Tried {
    Root::live("/").map(|root| try_verbs(&root, host)).unwrap_or_default()
}

/// Whether the addresses of both GIDs reach each other without RDMA.
fn ask_other_end(evidence: &Evidence<'_>) -> Option<Reach> {
    if evidence.local.link_layer != Some(LinkLayer::Ethernet) {
        return None;
    }
    let (local, remote) = (evidence.local.endpoint?.gid, evidence.remote.endpoint?.gid);
    let routable = |gid: Gid| gid.address().filter(|_| !gid.is_link_local());
    let (from, to) = (routable(local)?, routable(remote)?);
    let large = evidence.local.mtu_bytes.map(|mtu| packet_bytes(mtu, from.is_ipv4()));
    let fits = |bytes: &u32| evidence.local.netdev_mtu.is_some_and(|mtu| *bytes <= mtu);
    reach::ask(from, to, large.filter(fits))
}

/// Memory that this process may lock now.
fn memlock() -> Memlock {
    let limit = getrlimit(Resource::Memlock);
    let words = |limit: Option<u64>| limit.map_or(Limit::Unlimited, Limit::Bytes);
    Memlock { soft: words(limit.current), hard: words(limit.maximum) }
}
