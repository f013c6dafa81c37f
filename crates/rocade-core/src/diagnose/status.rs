//! What the errno of a transition, the status of a completion, or silence means, once no fact of both ends explains it.

use crate::host::{GidType, LinkLayer};
use crate::pair::perf::Operation;

use super::{Evidence, Said, because, errno, infiniband, path};

pub(super) fn transition_failed(evidence: &Evidence<'_>, errno: i32) -> Said {
    let facts = || {
        path::unlike_ends(evidence)
            .or_else(|| path::foreign_gid(evidence))
            .or_else(|| of_infiniband(evidence).then(|| infiniband::keeps_apart(evidence)).flatten())
    };
    facts().unwrap_or_else(|| refused(evidence, errno))
}

fn of_infiniband(evidence: &Evidence<'_>) -> bool {
    evidence.local.link_layer == Some(LinkLayer::InfiniBand)
}

fn refused(evidence: &Evidence<'_>, errno: i32) -> Said {
    let (remote, netdev) = (path::remote_in_words(evidence), path::netdev_in_words(evidence));
    match errno {
        errno::ETIMEDOUT | errno::EHOSTUNREACH => path::wrong_rail(evidence).unwrap_or_else(|| {
            let ping = format!(
                "try `ping -I {netdev} {remote}`: is it the same rail and VLAN, and is the address still there?"
            );
            let ping = untold_index(evidence).map_or(ping.clone(), |index| format!("{ping} {index}"));
            because(
                format!("nobody on {netdev} answers for {remote}, the other end's GID"),
                path::other_subnet(evidence).map_or(ping.clone(), |subnet| format!("{subnet}; {ping}")),
            )
        }),
        errno::ENETUNREACH => path::wrong_rail(evidence).unwrap_or_else(|| {
            because(
                format!("this end has no route to {remote}, the other end's GID, over {netdev}"),
                path::other_subnet(evidence).unwrap_or_else(|| format!("see `ip route get {remote} oif {netdev}`")),
            )
        }),
        errno::ENODEV => because(
            format!("the netdev of this end's GID ({netdev}) is gone, or of another network namespace"),
            "choose another GID with -x INDEX, or HCA with -d",
        ),
        errno::EINVAL => because(
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
const REM_ACCESS_ERR: u32 = 10;
const REM_OP_ERR: u32 = 11;
const RETRY_EXC_ERR: u32 = 12;
const RNR_RETRY_EXC_ERR: u32 = 13;

pub(super) fn completion_failed(evidence: &Evidence<'_>, status: u32, done: u64) -> Said {
    if done == 0
        && let Some(said) = path::unlike_ends(evidence)
    {
        return said;
    }
    // rxe, with a GID of another namespace.
    if (status, done) == (LOC_QP_OP_ERR, 0)
        && let Some(said) = path::foreign_gid(evidence)
    {
        return said;
    }
    let sends = evidence.operation == Some(Operation::Send);
    match status {
        LOC_LEN_ERR if sends => too_large(evidence),
        LOC_QP_OP_ERR if sends && !size_is_right(evidence, done) => too_large(evidence),
        REM_ACCESS_ERR if !sends => no_access(evidence, done),
        REM_INV_REQ_ERR..=REM_OP_ERR if sends => refused_by_remote(evidence, done),
        REM_INV_REQ_ERR..=REM_OP_ERR => because(
            "the other end refuses this operation",
            "start the same test with the same options at both ends, and see the other end's output",
        ),
        // A receive that is not there is another status: the next one.
        RETRY_EXC_ERR => nothing_arrives(evidence, done, None),
        RNR_RETRY_EXC_ERR => because("the other end had no receive posted for too long (RNR)", POST_MORE),
        WR_FLUSH_ERR => because("the QP broke down before this request", "see the first error above"),
        _ => because("the HCA gave up a work request", "see `dmesg` for the driver's reason"),
    }
}

/// The ends' sizes, where both are known and differ.
fn unlike_sizes(evidence: &Evidence<'_>) -> Option<Said> {
    let (here, there) = (evidence.local.message_bytes?, evidence.remote.message_bytes?);
    (here != there).then(|| {
        because(
            format!("this end's messages have {here} bytes, the other end's {there}"),
            "give both ends the same -s",
        )
    })
}

fn in_bytes(size: Option<u64>) -> String {
    size.map_or_else(|| "messages".to_owned(), |size| format!("messages of {size} bytes"))
}

/// Messages of the one size went well before, so that their size is not what is wrong.
fn size_is_right(evidence: &Evidence<'_>, done: u64) -> bool {
    done > 0 && evidence.local.message_bytes.is_some()
}

fn no_access(evidence: &Evidence<'_>, done: u64) -> Said {
    if size_is_right(evidence, done) {
        return because(
            format!("the other end's memory takes no more messages after {done} that it took"),
            "see its output: it ended, or registered less than both ends use",
        );
    }
    unlike_sizes(evidence).unwrap_or_else(|| {
        because(
            format!(
                "the other end's memory does not take {}: it registered less, or not for this operation",
                in_bytes(evidence.local.message_bytes)
            ),
            "give both ends the same -s (with -a, both -a), and start the same test at both",
        )
    })
}

fn refused_by_remote(evidence: &Evidence<'_>, done: u64) -> Said {
    if size_is_right(evidence, done) {
        return because(
            format!("the other end refuses a message after {done} that it took"),
            "see its output, and its `dmesg`: it failed on its side",
        );
    }
    unlike_sizes(evidence).unwrap_or_else(|| {
        because(
            format!("the other end refuses {}", in_bytes(evidence.local.message_bytes)),
            "give both ends the same -s",
        )
    })
}

fn too_large(evidence: &Evidence<'_>) -> Said {
    unlike_sizes(evidence).unwrap_or_else(|| {
        let own = evidence.local.message_bytes;
        let own = own.map_or_else(|| "this end's".to_owned(), |size| format!("{size} bytes"));
        because(format!("the other end's messages are larger than {own}"), "give both ends the same -s")
    })
}

pub(super) fn other_size(evidence: &Evidence<'_>, seen: u32) -> Said {
    let own = evidence.local.message_bytes;
    let own = own.map_or_else(String::new, |size| format!(", this one of {size}"));
    because(format!("the other end sends messages of {seen} bytes{own}"), "give both ends the same -s")
}

const POST_MORE: &str = "it is stuck or too slow: see its output; give it a larger -r";

/// The counters are of the whole port, and of requests: what they say of this test is likely, and nothing where this end
/// makes none.
fn not_ready(evidence: &Evidence<'_>) -> Option<Said> {
    if (evidence.operation, evidence.sends) != (Some(Operation::Send), Some(true)) {
        return None;
    }
    let counted = evidence.counted.grown_in_words(RNR)?;
    let cause = "the other end seems to have no receive posted (RNR)";
    Some(because(format!("{cause}: this port counted {counted}"), POST_MORE))
}

/// This end got, or the other end sent, RNR NAKs: the path is in order.
const RNR: &[&str] = &["rnr_nak_retry_err", "rcvd_rnr_err", "retry_rnr_exceeded_err"];
/// Signs of packets that got lost, or overtook each other.
const LOSS: &[&str] =
    &["packet_seq_err", "rcvd_seq_err", "out_of_sequence", "out_of_seq_request", "implied_nak_seq_err"];
/// Signs of answers that came late or never: a busy host has some as well.
const RETRIES: &[&str] =
    &["local_ack_timeout_err", "completer_retry_err", "retry_exceeded_err", "duplicate_request"];

/// Nothing completed for the whole time.
pub(super) fn silent(evidence: &Evidence<'_>, done: u64) -> Said {
    nothing_arrives(evidence, done, not_ready(evidence))
}

/// For the whole time, or for all the HCA's retries. That the other end is not ready is said before what is only
/// suspected.
fn nothing_arrives(evidence: &Evidence<'_>, done: u64, not_ready: Option<Said>) -> Said {
    if done > 0 {
        return not_ready.unwrap_or_else(|| stopped_midway(evidence, done));
    }
    let facts = match evidence.local.link_layer {
        Some(LinkLayer::InfiniBand) => infiniband::keeps_apart(evidence).or(not_ready),
        _ => path::foreign_gid(evidence)
            .or_else(|| path::wrong_rail(evidence))
            .or_else(|| path::too_large_packets(evidence))
            .or(not_ready)
            .or_else(|| path::arp_flux(evidence)),
    };
    path::unlike_ends(evidence).or(facts).unwrap_or_else(|| nothing_came(evidence))
}

fn nothing_came(evidence: &Evidence<'_>) -> Said {
    let (remote, netdev) = (path::remote_in_words(evidence), path::netdev_in_words(evidence));
    let mut cause = format!("both ends are connected, but no packet came back from {remote} over {netdev}");
    if let Some(counted) = evidence.counted.grown_in_words(&[LOSS, RETRIES].concat()) {
        cause = format!("{cause} (this port counted {counted})");
    }
    if of_infiniband(evidence) {
        return because(cause, infiniband::suspects(evidence));
    }
    let reached = evidence.reach.filter(|reach| reach.small);
    if let Some(reach) = reached {
        let fits = if reach.large { ", large ones too" } else { "" };
        cause = format!("{cause}, though the addresses reach each other by plain UDP{fits}");
    }
    // A v1 GID is of the same address as a v2 one, so that the addresses reaching each other says nothing of it.
    if evidence.local.gid_type == Some(GidType::V1) {
        let segment = match evidence.remote.gid_type {
            None => {
                "this end's GID is RoCE v1, so the other end's must be too, and in the same Ethernet segment"
            }
            Some(_) => "both GIDs are RoCE v1 (EtherType 0x8915), which stays within an Ethernet segment",
        };
        return because(
            cause,
            format!("{segment}: choose RoCE v2 GIDs at both ends (-x INDEX; -g INDEX in ibv_rc_pingpong)"),
        );
    }
    let subnet = path::other_subnet(evidence);
    let mut suspects: Vec<String> = subnet.into_iter().map(|subnet| format!("{subnet};")).collect();
    suspects.push("is the other end still running?".to_owned());
    suspects.extend(untold_index(evidence));
    suspects.push(match reached {
        Some(_) => "Then look for a filter of UDP port 4791, RoCE v2's".to_owned(),
        None => format!(
            "Then try `ping -I {netdev} {remote}`, look for a filter of UDP port 4791 and a switch MTU below the port's, and \
             with several rails in one subnet for ARP answers from the wrong one (net.ipv4.conf.*.arp_ignore)"
        ),
    });
    because(cause, suspects.join(" "))
}

/// Of an end that does not tell its GID's type a person may have chosen the index, which is another one in each Pod.
fn untold_index(evidence: &Evidence<'_>) -> Option<String> {
    let is_told = evidence.remote.gid_type.is_some();
    let known = evidence.remote.endpoint.filter(|remote| !remote.gid.is_zero() && !is_told)?;
    let address = known.gid.address()?;
    Some(format!(
        "Is {address} an address of its own network namespace, and its GID index (-x, -g) that of RoCE v2 there (see \
         `show_gids`)?"
    ))
}

fn stopped_midway(evidence: &Evidence<'_>, done: u64) -> Said {
    match evidence.counted.grown_in_words(LOSS) {
        Some(counted) => because(
            format!(
                "the other end fell silent after {done} messages, and packets were lost or reordered: this port counted {counted}"
            ),
            format!(
                "look for drops on the way: a priority that is not lossless{}, a switch's buffers, a bad cable; or it ended: \
                 see its output",
                class(evidence)
            ),
        ),
        None => because(
            format!("the other end fell silent after {done} messages"),
            "it ended, or was started with a smaller -n: see its output",
        ),
    }
}

/// The HCA told of a failure unasked. An access error of a QP is one of what the other end reaches for
/// (IBV_EVENT_QP_ACCESS_ERR, in libibverbs' words).
pub(super) fn told_of(event: &str, on: &str, done: u64) -> Said {
    let cause = format!("{on} told of `{event}` after {done} messages");
    if event.contains("access violation") {
        return because(
            format!("{cause}: the other end reaches for memory that this end has not registered for it"),
            "give both ends the same -s (with -a, both -a), and start the same test at both",
        );
    }
    because(
        cause,
        "see the kernel's log (dmesg) and the port's state: a port error is a link that went down, a QP's error one \
         that the HCA gave up",
    )
}

/// The traffic class in use, and what forces another one.
fn class(evidence: &Evidence<'_>) -> String {
    let port = evidence.choice.and_then(|choice| evidence.host.hca(choice.hca.as_str())?.port(choice.port));
    let forced = port.and_then(|port| port.traffic_class);
    match (forced, evidence.local.traffic_class) {
        (Some(forced), _) => format!(" (the port forces traffic class {forced}, DSCP {})", forced >> 2),
        (None, Some(class)) => format!(" (traffic class {class}, DSCP {})", class >> 2),
        (None, None) => String::new(),
    }
}
