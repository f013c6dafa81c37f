//! Device IDs: which there are, what each is worth, whether it is healthy, what a container gets for some of them.

use std::collections::BTreeSet;

use super::{NoSlots, Pool, PoolMember};
use crate::config::{Degraded, HealthPolicy, Sharing, Slots};

/// A device as the kubelet counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device<'p> {
    /// Its ID: a number of tokens, the ID of an HCA, or that and `-` and the number of a share.
    pub id: String,
    /// The HCAs that it is worth.
    pub members: &'p [PoolMember],
    /// NUMA nodes of all of them, in order; empty where one of them is unknown.
    pub numa_nodes: Vec<u32>,
}

/// What a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// IDs of the HCAs ([`PoolMember::id`]), each once.
    pub hcas: Vec<String>,
    /// Device nodes, each once; the same path on the host and in the container.
    pub nodes: Vec<String>,
    /// cgroup permissions of the nodes.
    pub permissions: &'static str,
    /// Names and values of variables that tell what was granted: `mlx5_0:1,mlx5_1:1`.
    pub variables: Vec<(String, String)>,
}

/// An ID that the pool does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource} has no device {id:?}, it has {have}")]
pub struct UnknownId {
    /// The resource that was asked for it.
    pub resource: String,
    /// The ID.
    pub id: String,
    /// What there is, in words.
    pub have: String,
}

impl Pool {
    /// The sharing in words: `tokens`, `tokens by GIDs`, `hca`, `hca, 4 Pods each`.
    pub fn sharing_text(&self) -> String {
        sharing_text(self.sharing)
    }

    /// What its IDs are worth, in words: `63 tokens, 1 HCA, no bandwidth isolation`.
    pub fn worth_text(&self) -> String {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let hcas = count(self.members.len(), "HCA");
        let slots = self.slots as usize;
        match self.share() {
            _ if self.is_removed() => NoSlots::Removed.to_string(),
            None => format!("{}, {hcas}, no bandwidth isolation", count(slots, "token")),
            Some(1) => format!("{}, each for one Pod", hcas),
            Some(share) => format!("{}, {hcas}, up to {share} Pods each", count(slots, "share")),
        }
    }

    /// How many Pods may have the same HCA; None for tokens, each of which is worth all HCAs.
    pub fn share(&self) -> Option<u32> {
        match self.sharing {
            Sharing::Tokens(_) => None,
            Sharing::Hca { .. } if self.exclusive_netns => Some(1),
            Sharing::Hca { share } => Some(share),
        }
    }

    /// All devices, in order. Made one by one: there may be 64 000.
    pub fn devices(&self) -> impl Iterator<Item = Device<'_>> {
        let all_nodes = numa_nodes(&self.members);
        (0..self.slots).map(move |n| match self.share() {
            None => Device { id: n.to_string(), members: &self.members, numa_nodes: all_nodes.clone() },
            Some(share) => {
                let at = (n / share) as usize;
                let members = &self.members[at..=at];
                let id = share_id(&members[0], share, n % share);
                Device { id, members, numa_nodes: numa_nodes(members) }
            }
        })
    }

    /// The HCAs that an ID is worth; None where the pool has no such ID.
    pub fn members_of(&self, id: &str) -> Option<&[PoolMember]> {
        match self.share() {
            _ if self.slots == 0 => None,
            None => is_number_below(id, self.slots).then_some(&self.members),
            Some(1) => self.member_slice(id),
            Some(share) => {
                let (member, n) = id.rsplit_once('-')?;
                is_number_below(n, share).then(|| self.member_slice(member))?
            }
        }
    }

    fn member_slice(&self, id: &str) -> Option<&[PoolMember]> {
        let at = self.members.iter().position(|member| member.id == id)?;
        self.members.get(at..=at)
    }

    /// Whether the kubelet may hand out this device ID.
    pub fn has_id(&self, id: &str) -> bool {
        self.members_of(id).is_some()
    }

    /// Whether a device is healthy where these HCAs ([`PoolMember::id`]) have failed.
    pub fn is_healthy(&self, device: &Device<'_>, failed: &BTreeSet<String>) -> bool {
        let bad = device.members.iter().filter(|member| failed.contains(&member.id)).count();
        match (self.health.policy, self.health.degraded) {
            (HealthPolicy::Report, _) => true,
            _ if bad == device.members.len() => false,
            (HealthPolicy::Withhold, Degraded::Withhold) => bad == 0,
            (HealthPolicy::Withhold, Degraded::Degrade | Degraded::Ignore) => true,
        }
    }

    /// What a container gets for IDs.
    ///
    /// # Errors
    /// The first ID that the pool does not have.
    pub fn grant(&self, ids: &[impl AsRef<str>]) -> Result<Grant, UnknownId> {
        self.grant_without(ids, &BTreeSet::new())
    }

    /// The same where these HCAs ([`PoolMember::id`]) have failed: a pool that degrades grants the others alone,
    /// unless none is left.
    ///
    /// # Errors
    /// The first ID that the pool does not have.
    pub fn grant_without(
        &self,
        ids: &[impl AsRef<str>],
        failed: &BTreeSet<String>,
    ) -> Result<Grant, UnknownId> {
        let mut granted: Vec<&PoolMember> = Vec::new();
        for id in ids.iter().map(AsRef::as_ref) {
            let members = self.members_of(id).ok_or_else(|| self.unknown(id))?;
            for member in members {
                if !granted.iter().any(|have| have.id == member.id) {
                    granted.push(member);
                }
            }
        }
        let whole = |member: &&PoolMember| !failed.contains(&member.id);
        if self.health.degraded == Degraded::Degrade
            && self.health.policy == HealthPolicy::Withhold
            && granted.iter().any(whole)
        {
            granted.retain(whole);
        }
        Ok(self.grant_of(&granted))
    }

    fn grant_of(&self, members: &[&PoolMember]) -> Grant {
        let mut seen = BTreeSet::new();
        let all = members.iter().flat_map(|member| &member.nodes).chain(&self.rdma_cm);
        let nodes = all.filter(|node| seen.insert(*node)).cloned().collect();
        let ports = members.iter().map(|member| member.ports_text()).collect::<Vec<_>>().join(",");
        let mut variables = vec![(self.resource.grant_variable(), ports)];
        let number = |of: &str, value: Option<u8>| Some((self.resource.variable(of), value?.to_string()));
        variables.extend(number("TC", self.traffic_class));
        variables.extend(number("SL", self.service_level));
        Grant {
            hcas: members.iter().map(|member| member.id.clone()).collect(),
            nodes,
            permissions: self.permissions,
            variables,
        }
    }

    fn unknown(&self, id: &str) -> UnknownId {
        let have = match (self.slots, self.share()) {
            (0, _) => "no device now".to_owned(),
            (n, None) => format!("0 to {}", n - 1),
            _ => self.devices().map(|device| device.id).take(8).collect::<Vec<_>>().join(", "),
        };
        UnknownId { resource: self.resource.to_string(), id: id.to_owned(), have }
    }

    /// The HCAs and ports: `mlx5_0:1,mlx5_1:1`.
    pub fn ports_text(&self) -> String {
        self.members.iter().map(PoolMember::ports_text).collect::<Vec<_>>().join(",")
    }
}

pub(super) fn write_sharing<S: serde::Serializer>(sharing: &Sharing, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&sharing_text(*sharing))
}

fn sharing_text(sharing: Sharing) -> String {
    match sharing {
        Sharing::Tokens(Slots::Fixed(_)) => "tokens".to_owned(),
        Sharing::Tokens(Slots::Auto { .. }) => "tokens by GIDs".to_owned(),
        Sharing::Hca { share: 1 } => "hca".to_owned(),
        Sharing::Hca { share } => format!("hca, {share} Pods each"),
    }
}

fn share_id(member: &PoolMember, share: u32, n: u32) -> String {
    if share == 1 { member.id.clone() } else { format!("{}-{n}", member.id) }
}

/// Parsing alone would also take "+1" and "01".
fn is_number_below(text: &str, end: u32) -> bool {
    text.parse::<u32>().is_ok_and(|n| n < end && n.to_string() == text)
}

fn numa_nodes(members: &[PoolMember]) -> Vec<u32> {
    let nodes: Option<BTreeSet<u32>> = members.iter().map(|member| member.numa_node).collect();
    nodes.unwrap_or_default().into_iter().collect()
}
