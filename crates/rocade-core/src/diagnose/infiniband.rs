//! What keeps two InfiniBand ports apart: no subnet manager, partitions, subnets, service levels.

use crate::gid::loopback;
use crate::host::Port;
use crate::names::Gid;
use crate::pair::Endpoint;

use super::{Evidence, Said, because};

/// The key that both ends agree in but for the membership bit (InfiniBand Architecture Specification, vol. 1, 10.9.1.1).
const KEY: u16 = 0x7fff;

/// Facts of both ends that alone keep packets from arriving.
pub(crate) fn keeps_apart(evidence: &Evidence<'_>) -> Option<Said> {
    without_manager(evidence)
        .or_else(|| wrong_key(evidence))
        .or_else(|| partitions(evidence))
        .or_else(|| subnets(evidence))
}

pub(super) fn lacks_manager(port: &Port) -> bool {
    port.sm_lid == Some(0) || port.state.as_deref() == Some("INIT")
}

pub(super) fn no_manager(port: &str) -> Said {
    because(
        format!("no subnet manager has set up {port}: its state is INIT or its SM LID 0"),
        "start a subnet manager on the fabric (opensm, or the switch's), and see that the port is on that fabric",
    )
}

fn without_manager(evidence: &Evidence<'_>) -> Option<Said> {
    let choice = evidence.choice?;
    let port = evidence.host.hca(choice.hca.as_str())?.port(choice.port)?;
    if lacks_manager(port) {
        return Some(no_manager(&format!("{}/{}", choice.hca, choice.port)));
    }
    (evidence.remote.sm_lid == Some(0)).then(|| no_manager("the other end's port"))
}

/// This end's index of the partition key leads nowhere.
pub(super) fn wrong_key(evidence: &Evidence<'_>) -> Option<Said> {
    let local = &evidence.local;
    let index = local.pkey_index?;
    let cure = "choose the index of a set key (--pkey-index): see /sys/class/infiniband/HCA/ports/PORT/pkeys";
    if let Some(len) = local.pkey_table_len.filter(|len| index >= *len) {
        return Some(because(
            format!("index {index} is beyond the port's table of partition keys, which has {len} entries"),
            cure,
        ));
    }
    (local.pkey?.0 == 0)
        .then(|| because(format!("no partition key is set at index {index} of this end"), cure))
}

fn partitions(evidence: &Evidence<'_>) -> Option<Said> {
    let (local, remote) = (evidence.local.pkey?, evidence.remote.pkey?);
    if local.0 & KEY != remote.0 & KEY {
        return Some(because(
            format!("the ends are in unlike partitions: {local} here, {remote} there"),
            "choose keys of one partition at both ends (--pkey-index)",
        ));
    }
    (local.is_limited() && remote.is_limited()).then(|| {
        because(
            format!("both ends are limited members of the partition ({local} here, {remote} there), and those do not talk"),
            "have the subnet manager make one of them a full member (0x8000 set)",
        )
    })
}

/// Ports of unlike subnets, and separate fabrics whose subnets have one prefix.
fn subnets(evidence: &Evidence<'_>) -> Option<Said> {
    let (local, remote) = (evidence.local.endpoint?, evidence.remote.endpoint?);
    let known = !local.gid.is_zero() && !remote.gid.is_zero() && local.gid != remote.gid;
    if known && prefix(local.gid) != prefix(remote.gid) {
        return Some(because(
            format!(
                "the ends are in unlike subnets: prefix {:016x} here, {:016x} there",
                prefix(local.gid),
                prefix(remote.gid)
            ),
            "choose ports of one fabric with -d; between subnets InfiniBand needs a router",
        ));
    }
    let separate = "separate fabrics with one subnet prefix";
    let cure = "choose ports of one fabric with -d, and give each fabric a subnet prefix of its own (opensm: subnet_prefix)";
    let managers = evidence.local.sm_lid.zip(evidence.remote.sm_lid).filter(|(here, there)| here != there);
    if let Some((here, there)) = managers {
        let seen = format!("their subnet managers are at LID {here} here, LID {there} there");
        return Some(because(format!("the ends are on {separate}: {seen}"), cure));
    }
    // Virtual functions of one HCA have one LID, and GUIDs of their own.
    let alike = known && local.lid == remote.lid && !is_within(evidence, &remote);
    alike.then(|| {
        because(
            format!(
                "both ports have LID {}: the ends are on {separate}, unless they are functions of one HCA",
                local.lid
            ),
            cure,
        )
    })
}

/// Whether the other end is seen to be on this host.
fn is_within(evidence: &Evidence<'_>, remote: &Endpoint) -> bool {
    evidence.choice.is_some_and(|choice| {
        loopback(evidence.host, choice, remote, evidence.connection).is_some()
            || evidence.connection.is_some_and(|connection| evidence.host.has_address(connection.peer))
    })
}

fn prefix(gid: Gid) -> u64 {
    u64::from_be_bytes(gid.0[..8].try_into().expect("8 of 16 bytes"))
}

/// What is worth a look where nothing came back and no fact says why.
pub(super) fn suspects(evidence: &Evidence<'_>) -> String {
    let mut suspects = vec!["is the other end still running?".to_owned()];
    if let Some(level) = evidence.local.service_level.filter(|level| *level != 0) {
        suspects.push(format!("does the fabric carry service level {level} (try -S 0)?"));
    }
    if evidence.local.pkey.is_some_and(|key| key.is_limited()) {
        suspects
            .push("this end is a limited member of its partition: the other must be a full one".to_owned());
    }
    suspects.push("do both ports have the same subnet manager (`rocade check`)?".to_owned());
    suspects.join(" ")
}
