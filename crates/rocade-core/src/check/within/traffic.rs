//! What writes of a port to itself show: that RDMA moves bytes over it, that it does not, or nothing, where an HCA does
//! not loop its own packets back. Connecting alone proves nothing: a data path may fall back to TCP without an error.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::{Case, Sheet, port_name};
use super::Within;
use crate::diagnose::{Counted, End, Evidence, Failure, State, diagnose, keeps_apart};
use crate::gid::{Choice, Wish, choose_gid};
use crate::host::{Host, LinkLayer, Usable};
use crate::names::{HcaName, Pkey, PortNum};
use crate::pair::perf::Operation;
use crate::pod::{Opens, held};

/// One attempt of a port to write to itself, over two QPs of this process.
#[derive(Debug, Clone)]
pub struct Looped {
    /// The port, and the GID at both ends.
    pub choice: Choice,
    /// Its partition key at index 0, which was used; None where it is not known.
    pub pkey: Option<Pkey>,
    /// What the port counted meanwhile, of all connections.
    pub counted: Counted,
    /// Bytes that arrived as they were written; or what went wrong.
    pub ended: Result<u64, Broke>,
}

/// Why a write to oneself failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broke {
    /// The error as it was said.
    pub why: String,
    /// The same for a diagnosis; None where the error says all.
    pub failure: Option<Failure>,
}

/// What it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// All bytes arrived as they were written.
    Proven,
    /// They did not.
    Failed,
    /// Nothing came back, and nothing says that it should have: many HCAs can be told not to loop back.
    Inconclusive,
}

/// What writes of a port to itself came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// What they show.
    pub shown: Shown,
    /// Bytes that arrived as they were written.
    pub bytes: u64,
    /// Counters of the port that grew meanwhile, of all connections. Some HCAs do not count what they loop back.
    pub counted: BTreeMap<String, u64>,
}

impl Traffic {
    /// Bytes that the port counted as sent, those of other connections too; None where it counted none.
    /// `port_xmit_data` counts words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband).
    pub fn data_sent_bytes(&self) -> Option<u64> {
        self.counted.get("port_xmit_data").map(|words| words.saturating_mul(4))
    }
}

/// `enum ibv_wc_status`: nobody answered.
const RETRY_EXC_ERR: u32 = 12;
const ATTEMPT: &str = "a write of the port to itself";

/// What was tried on that port; None where nothing was.
pub(crate) fn of_port(host: &Host, within: &Within, hca: &HcaName, port: PortNum) -> Option<Traffic> {
    let one = looped(within, hca, port)?;
    let shown = match judge_one(host, one) {
        Judgement::Proven => Shown::Proven,
        Judgement::Inconclusive(_) => Shown::Inconclusive,
        Judgement::Failed { .. } => Shown::Failed,
    };
    let bytes = one.ended.as_ref().ok().copied().unwrap_or(0);
    Some(Traffic { shown, bytes, counted: one.counted.all_grown() })
}

fn looped<'a>(within: &'a Within, hca: &HcaName, port: PortNum) -> Option<&'a Looped> {
    within.looped.as_ref()?.iter().find(|one| one.choice.hca == *hca && one.choice.port == port)
}

/// RDC615.
pub(super) fn broken(case: &Case<'_>, sheet: &mut Sheet<'_>) {
    let Some(within) = case.against.within else { return };
    let Some(all) = &within.looped else { return };
    for one in all {
        let port = format!("{}/{}", one.choice.hca, one.choice.port);
        match judge_one(case.host, one) {
            Judgement::Proven => {}
            Judgement::Inconclusive(why) => sheet.unjudged(port, why),
            Judgement::Failed { cause, cure } => {
                sheet.find(port, cause, "the bytes arrive as they were written").cure = cure;
            }
        }
    }
    for (hca, port, why) in untried(case, within) {
        sheet.unjudged(format!("{hca}/{port}"), format!("nothing was written: {why}"));
    }
}

/// Ports of this Pod that can be used, and that nothing was written over.
fn untried<'a>(case: &Case<'a>, within: &Within) -> Vec<(&'a HcaName, PortNum, String)> {
    let own = held(case.host, &within.tried).into_iter();
    let own = own.filter(|held| held.granted != Some(false) && held.opens == Opens::Yes);
    let ports = own.flat_map(|held| held.hca.ports.iter().map(move |port| (held.hca, port)));
    let ports = ports
        .filter(|(hca, port)| port.usable != Usable::No && looped(within, &hca.name, port.port).is_none());
    ports
        .map(|(hca, port)| {
            let wish = Wish { hca: Some(&hca.name), port: Some(port.port), ..Wish::default() };
            let why = choose_gid(case.host, &wish).err().map(|error| error.to_string());
            (&hca.name, port.port, why.unwrap_or_else(|| format!("{} was not tried", port_name(hca, port))))
        })
        .collect()
}

enum Judgement {
    Proven,
    Inconclusive(String),
    Failed { cause: String, cure: String },
}

fn judge_one(host: &Host, one: &Looped) -> Judgement {
    let Err(broke) = &one.ended else { return Judgement::Proven };
    let failed = |cause: String, cure: String| Judgement::Failed {
        cause: format!("{ATTEMPT} failed ({}): {cause}", broke.why),
        cure,
    };
    let Some(failure) = broke.failure.clone() else {
        return failed("the test itself could not be made".into(), "see `rocade check` and `dmesg`".into());
    };
    let evidence = evidence(host, one, failure);
    let no_answer = matches!(
        evidence.failure,
        Failure::Completion { status: RETRY_EXC_ERR, done: 0 } | Failure::Silence { done: 0 }
    );
    if no_answer {
        return unanswered(host, one, &evidence, &broke.why);
    }
    if let Failure::Transition { to: State::Rtr, errno: ETIMEDOUT | ENETUNREACH | EHOSTUNREACH } =
        evidence.failure
    {
        let (cause, cure) = no_way(&one.choice);
        return failed(cause, cure);
    }
    let diagnosis = diagnose(&evidence);
    failed(diagnosis.cause, diagnosis.cure)
}

/// Linux errno values (include/uapi/asm-generic/errno.h).
const ENETUNREACH: i32 = 101;
const ETIMEDOUT: i32 = 110;
const EHOSTUNREACH: i32 = 113;

/// Both ends are this one.
fn evidence<'a>(host: &'a Host, one: &'a Looped, failure: Failure) -> Evidence<'a> {
    let end = End { pkey: one.pkey, pkey_index: Some(0), ..End::over(host, &one.choice) };
    Evidence {
        choice: Some(&one.choice),
        operation: Some(Operation::Write),
        remote: end.clone(),
        local: end,
        counted: one.counted.clone(),
        memlock: host.memlock,
        ..Evidence::of(failure, host)
    }
}

/// No packet came back: a failure only where the port must have looped it back.
fn unanswered(host: &Host, one: &Looped, evidence: &Evidence<'_>, why: &str) -> Judgement {
    if evidence.local.link_layer == Some(LinkLayer::InfiniBand)
        && let Some((cause, cure)) = keeps_apart(evidence)
    {
        return Judgement::Failed { cause: format!("{ATTEMPT} failed ({why}): {cause}"), cure };
    }
    if host.hca(one.choice.hca.as_str()).is_some_and(|hca| hca.software) {
        return Judgement::Failed {
            cause: format!("{ATTEMPT} got no answer ({why}), and an HCA of software always loops back"),
            cure: "see `dmesg` of the node, and whether the interface of the GID is up; recreate the Pod"
                .into(),
        };
    }
    Judgement::Inconclusive(format!(
        "{ATTEMPT} got no answer ({why}): the HCA, its firmware or its embedded switch may not loop back; `rocade \
         pingpong` between two Pods proves the path"
    ))
}

fn no_way(choice: &Choice) -> (String, String) {
    let entry = choice.gid.as_ref();
    let netdev = entry.and_then(|gid| gid.netdev.as_deref()).unwrap_or("its interface");
    let address = entry.and_then(|gid| gid.address).map_or_else(|| "its address".into(), |a| a.to_string());
    (
        format!("the kernel finds no way from {address} on {netdev} to itself"),
        format!("see `ip route get {address}`: it must be local, and {netdev} up"),
    )
}
