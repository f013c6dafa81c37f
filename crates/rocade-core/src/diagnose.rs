//! Why a test between two ends failed, in a sentence with a cure, from what this end saw and knows of both. Pure: the
//! evidence is gathered elsewhere.

use std::net::IpAddr;

use crate::gid::Choice;
use crate::host::{GidType, Host, LinkLayer};
use crate::names::Gid;
use crate::pair::Endpoint;

#[cfg(test)]
mod tests;

/// What is known about a failed test.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// This end's host.
    pub host: &'a Host,
    /// What this end ran over.
    pub choice: &'a Choice,
    /// What the other end said of itself.
    pub remote: &'a Endpoint,
    /// Size of one message at this end, bytes.
    pub message_bytes: u32,
    /// What failed, and how.
    pub failure: Failure,
}

/// What failed, as verbs told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The QP could not be brought to RTR or RTS: errno of ibv_modify_qp.
    Transition {
        /// Linux errno.
        errno: i32,
    },
    /// A work request completed with a status other than success.
    Completion {
        /// `enum ibv_wc_status` (infiniband/verbs.h).
        status: u32,
        /// Round trips before it.
        done: u32,
    },
    /// Nothing completed for the whole timeout.
    Silence {
        /// Round trips before it.
        done: u32,
    },
    /// A message of another size than ours arrived.
    Size {
        /// Its bytes.
        seen: u32,
    },
    /// A received byte is not what was to come.
    Data,
}

/// The cause as far as the evidence goes, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// One sentence.
    pub cause: String,
    /// What to do.
    pub cure: String,
}

fn because(cause: impl Into<String>, cure: impl Into<String>) -> Diagnosis {
    Diagnosis { cause: cause.into(), cure: cure.into() }
}

/// Facts that alone explain a failure come first, then what the status means.
pub fn diagnose(evidence: &Evidence<'_>) -> Diagnosis {
    match evidence.failure {
        Failure::Size { seen } => because(
            format!("the other end sends messages of {seen} bytes, this one of {}", evidence.message_bytes),
            "give both ends the same -s",
        ),
        Failure::Data => because(
            "data arrived changed, though every packet's checksum was right",
            "suspect memory, the PCIe path or the IOMMU of one of the hosts; try each against a third",
        ),
        Failure::Transition { errno } => {
            unlike_gids(evidence).unwrap_or_else(|| transition_failed(evidence, errno))
        }
        Failure::Completion { status, done } => match done {
            0 => unlike_gids(evidence).unwrap_or_else(|| completion_failed(evidence, status, done)),
            _ => completion_failed(evidence, status, done),
        },
        Failure::Silence { done } => match done {
            0 => unlike_gids(evidence).unwrap_or_else(|| nothing_came(evidence)),
            _ => stopped_midway(done),
        },
    }
}

/// The two GIDs cannot work together, whatever the status says.
fn unlike_gids(evidence: &Evidence<'_>) -> Option<Diagnosis> {
    let remote = evidence.remote.gid;
    let Some(entry) = &evidence.choice.gid else {
        let ethernet = evidence.remote.lid == 0 && !remote.is_zero();
        return ethernet.then(|| {
            because(
                "this end is on InfiniBand, the other on Ethernet (its LID is 0)",
                "choose HCAs of one fabric with -d",
            )
        });
    };
    let hca = evidence.host.hca(evidence.choice.hca.as_str());
    let port = hca.and_then(|hca| hca.port(evidence.choice.port));
    if port.is_some_and(|port| port.link_layer == LinkLayer::InfiniBand) {
        return None;
    }
    let local = entry.gid;
    if remote.is_zero() {
        return Some(because(
            "the other end sent no GID, which RoCE needs",
            "start the other end with the index of a RoCE v2 GID (ibv_rc_pingpong -g INDEX)",
        ));
    }
    if local.is_link_local() != remote.is_link_local() {
        return Some(because(
            format!(
                "one GID is link-local, the other is not ({} here, {} there)",
                words(local),
                words(remote)
            ),
            "choose GIDs of routable addresses at both ends (-x INDEX)",
        ));
    }
    if local.ipv4().is_some() != remote.ipv4().is_some() {
        return Some(because(
            format!("one GID is IPv4, the other IPv6 ({} here, {} there)", words(local), words(remote)),
            "choose GIDs of one family at both ends (-x INDEX)",
        ));
    }
    None
}

/// Linux errno values (include/uapi/asm-generic/errno.h), equal on x86_64 and aarch64.
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const ENETUNREACH: i32 = 101;
const ETIMEDOUT: i32 = 110;
const EHOSTUNREACH: i32 = 113;

fn transition_failed(evidence: &Evidence<'_>, errno: i32) -> Diagnosis {
    let (remote, netdev) = (words(evidence.remote.gid), netdev(evidence));
    match errno {
        ETIMEDOUT | EHOSTUNREACH => {
            let ping = format!(
                "try `ping -I {netdev} {remote}`: is it the same rail and VLAN, and is the address still there?"
            );
            because(
                format!("nobody on {netdev} answers for {remote}, the other end's GID"),
                other_subnet(evidence).map_or(ping.clone(), |subnet| format!("{subnet}; {ping}")),
            )
        }
        ENETUNREACH => because(
            format!("this end has no route to {remote}, the other end's GID, over {netdev}"),
            other_subnet(evidence).unwrap_or_else(|| format!("see `ip route get {remote} oif {netdev}`")),
        ),
        ENODEV => because(
            format!("the netdev of this end's GID ({netdev}) is gone, or of another network namespace"),
            "choose another GID with -x INDEX, or HCA with -d",
        ),
        EINVAL => because(
            format!("the kernel refuses the path to {remote}"),
            "usual causes: a GID index that has become unset, an MTU larger than the port's, GIDs of unlike kinds",
        ),
        _ => because("the kernel refuses to connect the QP", "see `dmesg` for the driver's reason"),
    }
}

/// `enum ibv_wc_status`.
const LOC_LEN_ERR: u32 = 1;
/// What rxe says where others say LOC_LEN_ERR.
const LOC_QP_OP_ERR: u32 = 2;
const WR_FLUSH_ERR: u32 = 5;
const REM_INV_REQ_ERR: u32 = 9;
const REM_OP_ERR: u32 = 11;
const RETRY_EXC_ERR: u32 = 12;
const RNR_RETRY_EXC_ERR: u32 = 13;

fn completion_failed(evidence: &Evidence<'_>, status: u32, done: u32) -> Diagnosis {
    match status {
        LOC_LEN_ERR => too_large(evidence),
        LOC_QP_OP_ERR if done == 0 => too_large(evidence),
        REM_INV_REQ_ERR..=REM_OP_ERR => because(
            format!("the other end refuses messages of {} bytes", evidence.message_bytes),
            "give both ends the same -s",
        ),
        RETRY_EXC_ERR if done == 0 => nothing_came(evidence),
        RETRY_EXC_ERR => stopped_midway(done),
        RNR_RETRY_EXC_ERR => because(
            "the other end had no receive posted for too long",
            "it is stuck or too slow: see its output; give it a larger -r",
        ),
        WR_FLUSH_ERR => because("the QP broke down before this request", "see the first error above"),
        _ => because("the HCA gave up a work request", "see `dmesg` for the driver's reason"),
    }
}

fn too_large(evidence: &Evidence<'_>) -> Diagnosis {
    because(
        format!("the other end's messages are larger than {} bytes", evidence.message_bytes),
        "give both ends the same -s",
    )
}

fn nothing_came(evidence: &Evidence<'_>) -> Diagnosis {
    let (remote, netdev) = (words(evidence.remote.gid), netdev(evidence));
    let cause = format!("both ends are connected, but no packet came back from {remote} over {netdev}");
    if evidence.choice.gid.is_none() {
        return because(
            cause,
            "is the other end still running? see the port counters and the subnet manager",
        );
    }
    if let Some(GidType::V1) = evidence.choice.gid.as_ref().and_then(|gid| gid.gid_type) {
        return because(
            cause,
            "this end's GID is RoCE v1: choose a RoCE v2 GID, as the other end surely does",
        );
    }
    let mut cure = format!(
        "is the other end still running? then try `ping -I {netdev} {remote}`, look for a filter of UDP port 4791 and \
         a switch MTU below the port's, and with several rails in one subnet for ARP answers from the wrong one \
         (net.ipv4.conf.*.arp_ignore)"
    );
    if let Some(subnet) = other_subnet(evidence) {
        cure = format!("{subnet}; {cure}");
    }
    because(cause, cure)
}

fn stopped_midway(done: u32) -> Diagnosis {
    because(
        format!("the other end fell silent after {done} round trips"),
        "it ended, or was started with a smaller -n: see its output",
    )
}

/// Says so if the other end's address is in none of this end's subnets on the netdev in use.
fn other_subnet(evidence: &Evidence<'_>) -> Option<String> {
    let remote = evidence.remote.gid.address()?;
    let netdev = evidence.host.netdev(evidence.choice.gid.as_ref()?.netdev.as_deref()?)?;
    let mut alike = netdev.addresses.iter().filter(|(own, _)| own.is_ipv4() == remote.is_ipv4()).peekable();
    alike.peek()?;
    let outside = !alike.any(|(own, prefix)| crate::gid::in_subnet(remote, *own, *prefix));
    outside.then(|| {
        format!("{remote} is in another subnet, so a router must carry it (ibv_rc_pingpong's hop limit of 1 stops there)")
    })
}

fn netdev<'a>(evidence: &Evidence<'a>) -> &'a str {
    let netdev = evidence.choice.gid.as_ref().and_then(|gid| gid.netdev.as_deref());
    netdev.unwrap_or(evidence.choice.hca.as_str())
}

fn words(gid: Gid) -> String {
    gid.address().map_or_else(|| "no GID".to_owned(), |address: IpAddr| address.to_string())
}
