//! What Pods hold, over whatever happens to the plan: which device IDs the kubelet must be told, and which of them it
//! may give away. When a Pod ends is the kubelet's to say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Device, Grant, Pool, PoolMember, UnknownId};
use crate::names::ResourceName;

/// The device IDs that Pods hold, of all resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holdings {
    claims: BTreeMap<String, BTreeMap<String, Claim>>,
}

/// A Pod's hold on HCAs by one device ID.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Claim {
    /// IDs of the HCAs ([`super::PoolMember::id`]), shared by claims on the same.
    hcas: Arc<[String]>,
    kind: Kind,
    /// Whether the resource is one of the configuration's, now or when it was granted.
    own: bool,
    /// Whether the kubelet has named it.
    confirmed: bool,
    /// Whether it was missing in the kubelet's last list.
    missed: bool,
}

/// What a Pod was promised of its HCAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing: a token.
    Shared,
    /// That they are shared with few others.
    Share,
    /// That no one else has them.
    Exclusive,
}

/// A device as the kubelet must be told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<'p> {
    /// The device; without HCAs where the plan no longer has it.
    pub device: Device<'p>,
    /// Who has it.
    pub standing: Standing,
}

/// Who has a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody: it may be given to a Pod.
    Free,
    /// A Pod.
    Held,
    /// A Pod, and the plan no longer has it: it goes when the Pod does.
    Kept,
    /// Nobody, but its HCA is in the hands of a Pod that was given it by another ID.
    Taken,
}

/// Why a device is not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The pool has no such device.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
    /// Another Pod has its HCA.
    #[error("{resource} cannot give {id:?}: a Pod holds its HCA by {by}")]
    Taken {
        /// The resource that was asked for it.
        resource: String,
        /// The ID.
        id: String,
        /// Resource and ID by which it is held.
        by: String,
    },
}

impl Holdings {
    /// Grants devices of a pool and holds them from now on. A device that the kubelet gives anew is free of the Pod
    /// that had it. `failed` are HCAs that have failed ([`Pool::grant_without`]).
    ///
    /// # Errors
    /// An ID that there is not, or that stands for an HCA in the hands of another Pod.
    pub fn grant(
        &mut self,
        pools: &[Pool],
        at: usize,
        ids: &[impl AsRef<str>],
        failed: &BTreeSet<String>,
    ) -> Result<Grant, Refused> {
        let (pool, resource) = (&pools[at], pools[at].resource.to_string());
        let ids: Vec<&str> = ids.iter().map(AsRef::as_ref).collect();
        // A token that was taken out of the plan while a Pod held it is worth what the others are.
        let kept = |id: &str| !pool.has_id(id) && pool.share().is_none() && self.holds(&resource, id);
        let known: Vec<&str> = ids.iter().map(|id| if kept(id) { "0" } else { *id }).collect();
        let others = Others { holdings: self, except: Some((&resource, &ids)) };
        let asked = count_by_hca(pool, &known);
        for (id, known) in ids.iter().zip(&known) {
            if let Some(by) = others.in_the_way(pool, known, &asked) {
                return Err(Refused::Taken { resource, id: (*id).to_owned(), by });
            }
        }
        let grant = pool.grant_without(&known, failed)?;
        let claims = self.claims.entry(resource).or_default();
        for (id, known) in ids.iter().zip(known) {
            let claim = claim_of(pool, known, claims.values().next());
            claims.insert((*id).to_owned(), claim);
        }
        Ok(grant)
    }

    /// Takes over what the kubelet says that Pods hold: resource and ID of every device of every resource. What it
    /// does not name is free; what was granted and never yet named only at the second time, since the kubelet may
    /// have made its list before.
    pub fn confirm<'a>(&mut self, pools: &[Pool], held: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut named: BTreeSet<(&str, &str)> = BTreeSet::new();
        for (resource, id) in held {
            named.insert((resource, id));
            let claims = self.claims.entry(resource.to_owned()).or_default();
            if !claims.contains_key(id) {
                let claim = resolve(pools, resource, id, claims.values().next());
                claims.insert(id.to_owned(), claim);
            }
            let Some(claim) = claims.get_mut(id) else { continue };
            (claim.confirmed, claim.missed) = (true, false);
        }
        self.claims.retain(|resource, claims| {
            claims.retain(|id, claim| {
                let is_named = named.contains(&(resource.as_str(), id.as_str()));
                let is_new = !claim.confirmed && !claim.missed;
                claim.missed = !is_named;
                is_named || is_new
            });
            !claims.is_empty()
        });
    }

    /// Whether a Pod holds it.
    pub fn holds(&self, resource: &str, id: &str) -> bool {
        self.claims.get(resource).is_some_and(|claims| claims.contains_key(id))
    }

    /// Whether a Pod holds a device of the resource.
    pub fn holds_any(&self, resource: &ResourceName) -> bool {
        self.claims.get(&resource.to_string()).is_some_and(|claims| !claims.is_empty())
    }

    /// All devices of a pool: those of the plan, then those that are kept for Pods. The kubelet must be told of each.
    pub fn list<'p>(&'p self, pool: &'p Pool) -> impl Iterator<Item = Listed<'p>> {
        let held = self.claims.get(&pool.resource.to_string());
        let is_held = move |id: &str| held.is_some_and(|claims| claims.contains_key(id));
        let all = Others { holdings: self, except: None };
        let mut room: Vec<usize> = pool.members.iter().map(|member| all.room(pool, &member.id)).collect();
        let tokens_free = pool.share().is_none() && all.are_tokens_free(pool);
        let planned = pool.devices().enumerate().map(move |(n, device)| {
            let is_free = match pool.share() {
                None => tokens_free,
                Some(share) => {
                    let left = &mut room[n / share as usize];
                    let has_room = *left > 0;
                    // Only what nobody holds uses room up.
                    *left -= usize::from(has_room && !is_held(&device.id));
                    has_room
                }
            };
            let standing = match (is_held(&device.id), is_free) {
                (true, _) => Standing::Held,
                (false, true) => Standing::Free,
                (false, false) => Standing::Taken,
            };
            Listed { device, standing }
        });
        let kept = held.into_iter().flatten().filter(|(id, _)| !pool.has_id(id)).map(|(id, claim)| {
            let of_claim = pool.members.iter().filter(|member| claim.hcas.contains(&member.id));
            let numa: Option<BTreeSet<u32>> = of_claim.map(|member| member.numa_node).collect();
            let numa_nodes = numa.unwrap_or_default().into_iter().collect();
            Listed { device: Device { id: id.clone(), members: &[], numa_nodes }, standing: Standing::Kept }
        });
        planned.chain(kept)
    }
}

/// All that is held, or all but some IDs of a resource.
struct Others<'a> {
    holdings: &'a Holdings,
    except: Option<(&'a str, &'a [&'a str])>,
}

impl<'a> Others<'a> {
    /// How many devices of an HCA nobody holds and may still be given.
    fn room(&self, pool: &Pool, hca: &str) -> usize {
        let exclusive = |claim: &Claim| claim.own && claim.kind == Kind::Exclusive;
        match pool.share() {
            None => 0,
            Some(1) => usize::from(self.on(hca).next().is_none()),
            Some(_) if self.on(hca).any(|(_, _, claim)| exclusive(claim)) => 0,
            Some(share) => {
                let held = self.on(hca).filter(|(_, _, claim)| claim.own && claim.kind == Kind::Share);
                (share as usize).saturating_sub(held.count())
            }
        }
    }

    /// Whether nobody was promised one of the pool's HCAs, and, where namespaces are exclusive, nobody has one. Asked
    /// at each grant, so tokens are passed over before HCAs are compared.
    fn are_tokens_free(&self, pool: &Pool) -> bool {
        let bars = |claim: &Claim| claim.own && (claim.kind == Kind::Exclusive || pool.exclusive_netns);
        let is_of_pool = |claim: &Claim| pool.members.iter().any(|member| claim.hcas.contains(&member.id));
        !self.all().any(|(_, _, claim)| bars(claim) && is_of_pool(claim))
    }

    /// Resource and ID of a hold because of which an ID cannot be granted, where `asked` says how many devices of each
    /// HCA are asked for at once.
    fn in_the_way(&self, pool: &Pool, id: &str, asked: &BTreeMap<&str, usize>) -> Option<String> {
        let members = pool.members_of(id)?;
        let is_free = match pool.share() {
            None => self.are_tokens_free(pool),
            Some(_) => {
                members.iter().all(|m| self.room(pool, &m.id) >= asked.get(&*m.id).copied().unwrap_or(1))
            }
        };
        if is_free {
            return None;
        }
        let mut by = members.iter().flat_map(|member| self.on(&member.id));
        by.next().map(|(resource, id, _)| format!("{resource} {id}"))
    }

    fn on<'b>(&'b self, hca: &'b str) -> impl Iterator<Item = (&'a str, &'a str, &'a Claim)> + use<'a, 'b> {
        self.all().filter(move |(_, _, claim)| claim.hcas.iter().any(|held| held == hca))
    }

    fn all<'b>(&'b self) -> impl Iterator<Item = (&'a str, &'a str, &'a Claim)> + use<'a, 'b> {
        let counts = |resource: &str, id: &str| {
            self.except.is_none_or(|(except, ids)| resource != except || !ids.contains(&id))
        };
        let all = self.holdings.claims.iter().flat_map(|(resource, claims)| {
            claims.iter().map(move |(id, claim)| (resource.as_str(), id.as_str(), claim))
        });
        all.filter(move |(resource, id, _)| counts(resource, id))
    }
}

/// How many devices of each HCA a request asks for.
fn count_by_hca<'p>(pool: &'p Pool, ids: &[&str]) -> BTreeMap<&'p str, usize> {
    let mut counts = BTreeMap::new();
    for member in ids.iter().flat_map(|id| pool.members_of(id).unwrap_or_default()) {
        *counts.entry(member.id.as_str()).or_insert(0) += 1;
    }
    counts
}

impl Listed<'_> {
    /// What the kubelet is told where these HCAs have failed. A device that is kept is healthy: whether its HCA is
    /// well cannot be seen, and the Pod must be able to start again.
    pub fn is_healthy(&self, pool: &Pool, failed: &BTreeSet<String>) -> bool {
        match self.standing {
            Standing::Free | Standing::Held => pool.is_healthy(&self.device, failed),
            Standing::Kept => true,
            Standing::Taken => false,
        }
    }
}

/// `other` is a claim on the same pool: tokens all stand for the same HCAs.
fn claim_of(pool: &Pool, id: &str, other: Option<&Claim>) -> Claim {
    let members = pool.members_of(id).unwrap_or_default();
    let kind = match pool.share() {
        _ if pool.exclusive_netns => Kind::Exclusive,
        None => Kind::Shared,
        Some(1) => Kind::Exclusive,
        Some(_) => Kind::Share,
    };
    Claim { hcas: ids_of(members, other), kind, own: true, confirmed: false, missed: false }
}

fn ids_of(members: &[PoolMember], other: Option<&Claim>) -> Arc<[String]> {
    let ids = members.iter().map(|member| &member.id);
    match other.filter(|other| other.hcas.iter().eq(ids.clone())) {
        Some(other) => Arc::clone(&other.hcas),
        None => ids.cloned().collect(),
    }
}

/// What an ID that was granted before this agent started stands for. Where the plan does not have it, its own form
/// tells: a number of tokens, or an HCA, and a share of it.
fn resolve(pools: &[Pool], resource: &str, id: &str, other: Option<&Claim>) -> Claim {
    let pool = pools.iter().find(|pool| pool.resource.to_string() == resource);
    if let Some(pool) = pool.filter(|pool| pool.has_id(id)) {
        return claim_of(pool, id, other);
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let share = id.rsplit_once('-').filter(|(_, n)| is_number(n)).map(|(hca, _)| hca.to_owned());
    let (hcas, kind) = match share {
        _ if is_number(id) => (ids_of(pool.map_or(&[], |pool| &pool.members), other), Kind::Shared),
        Some(hca) => ([hca, id.to_owned()].into(), Kind::Share),
        None => ([id.to_owned()].into(), Kind::Exclusive),
    };
    Claim { hcas, kind, own: pool.is_some(), confirmed: false, missed: false }
}

#[cfg(test)]
mod tests;
