//! What is odd about a plan as a whole: HCAs in several hands, more slots than addresses have room for, resources that
//! nothing stands behind.

use super::{NoSlots, Pool, PoolMember, slots};
use crate::finding::{Finding, Severity};
use crate::host::{Host, LinkLayer};

/// What other device plugins and drivers offer to Pods on this node: names of their resources, and their device IDs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherOffers(pub Vec<(String, String)>);

/// Device plugins that give out network functions call them by their PCI addresses or their HCAs.
impl OtherOffers {
    fn of(&self, member: &PoolMember) -> impl Iterator<Item = &str> {
        let address = member.pci_address.map(|address| address.to_string());
        let name = member.hca.as_str();
        let offers = self.0.iter().filter(move |(_, id)| id == name || Some(id) == address.as_ref());
        offers.map(|(resource, _)| resource.as_str())
    }
}

/// All findings about pools. Those that count GIDs need them read, and are left out where they are not.
pub fn findings(host: &Host, pools: &[Pool], others: &OtherOffers) -> Vec<Finding> {
    let mut findings = Vec::new();
    for pool in pools {
        findings.extend(say_nothing_behind(pool));
        findings.extend(say_too_many(host, pool));
        findings.extend(say_once(pool));
    }
    findings.extend(say_shared(pools));
    findings.extend(say_others(pools, others));
    findings
}

fn say_nothing_behind(pool: &Pool) -> Option<Finding> {
    let why = pool.why_no_slots.as_ref().filter(|_| !pool.is_removed())?;
    let mut seen = why.to_string();
    for near in &pool.near_misses {
        seen.push_str(&format!("; {near}"));
    }
    if *why == NoSlots::NoHca && pool.near_misses.is_empty() {
        let reasons = pool.left_out.iter().map(|out| format!("; {}: {}", out.hca, out.reason));
        seen.extend(reasons);
    }
    Some(Finding {
        code: "RDC730",
        severity: Severity::Error,
        subject: pool.resource.to_string(),
        seen,
        wanted: "at least one device ID".into(),
        cure: String::new(),
    })
}

/// Each address of a Pod takes an entry for RoCE v1 and one for v2 (drivers/infiniband/core/roce_gid_mgmt.c).
fn say_too_many(host: &Host, pool: &Pool) -> Option<Finding> {
    if pool.share().is_some() {
        return None;
    }
    let room = |(member, port): (&PoolMember, _)| {
        let (entries, own) = slots::table(host, port)?;
        Some((entries.saturating_sub(own) / 2, format!("{}/{}", member.hca, port.port), entries, own))
    };
    let roce = slots::ports(host, &pool.members).filter(|(_, port)| port.link_layer == LinkLayer::Ethernet);
    let (room, port, entries, own) = roce.filter_map(room).min()?;
    (pool.slots > room).then(|| Finding {
        code: "RDC731",
        severity: Severity::Warning,
        subject: pool.resource.to_string(),
        seen: format!(
            "{} slots; the GID table of {port} has {entries} entries, {own} of them the host's own",
            pool.slots
        ),
        wanted: format!("at most {room} slots, for each address of a Pod takes two entries"),
        cure: "the Pods beyond get no GID, and no connection: give fewer slots".into(),
    })
}

fn say_once(pool: &Pool) -> Option<Finding> {
    (pool.exclusive_netns && pool.slots > 0).then(|| Finding {
        code: "RDC732",
        severity: Severity::Warning,
        subject: pool.resource.to_string(),
        seen: "RDMA network namespaces are exclusive: each HCA is offered once".into(),
        wanted: "shared namespaces, for HCAs that Pods share".into(),
        cure: "only a Pod whose CNI plugin moves the RDMA device can use it; to share HCAs, boot with \
               ib_core netns_mode=1, or `rdma system set netns shared` while no other namespace has one"
            .into(),
    })
}

/// Of HCAs that several resources offer.
fn say_shared(pools: &[Pool]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, pool) in pools.iter().enumerate() {
        for member in &pool.members {
            let has = |other: &&Pool| other.members.iter().any(|m| m.id == member.id);
            if pools[..at].iter().any(|other| has(&other)) {
                continue;
            }
            let all: Vec<&Pool> = pools.iter().filter(has).collect();
            if all.len() < 2 {
                continue;
            }
            let names: Vec<_> = all.iter().map(|pool| pool.resource.to_string()).collect();
            let is_promised = all.iter().any(|pool| pool.share() == Some(1));
            let promised = "in one resource, for one of them promises it to one Pod alone";
            findings.push(Finding {
                code: "RDC733",
                severity: if is_promised { Severity::Warning } else { Severity::Note },
                subject: member.hca.to_string(),
                seen: format!("in {}", names.join(", ")),
                wanted: if is_promised { promised.into() } else { "in one resource".into() },
                cure: match is_promised {
                    true => "it goes to one Pod at a time, whichever asks first".into(),
                    false => "the slots of both add up".into(),
                },
            });
        }
    }
    findings
}

/// Of HCAs that something else offers too. The kubelet does not know that it is the same device.
fn say_others(pools: &[Pool], others: &OtherOffers) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for (pool, member) in pools.iter().flat_map(|pool| pool.members.iter().map(move |m| (pool, m))) {
        for other in others.of(member) {
            let is_certain = pool.exclusive_netns || pool.share() == Some(1);
            findings.push(Finding {
                code: "RDC734",
                severity: if is_certain { Severity::Error } else { Severity::Warning },
                subject: member.hca.to_string(),
                seen: format!("in {}, and offered as {other} too", pool.resource),
                wanted: "offered by one of them".into(),
                cure: "take it out of one: the kubelet gives both to different Pods".into(),
            });
        }
    }
    findings
}
