//! The kubelet's own view of the devices, compared with what it was told. A message that was lost, or a late end of
//! another instance that it took for this one's, shows here and nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rocade_core::ResourceName;
use rocade_core::plan::{OtherOffers, Pool};
use tokio::time::Instant;

use super::{Node, hasten};
use crate::pod_resources::KubeletView;
use crate::state::{Holder, Phase};

/// Between two comparisons while nothing happens.
const SELDOM: Duration = Duration::from_secs(900);

/// Between two while Pods hold what the configuration has no more: it goes with the last of them.
const LEAVING: Duration = Duration::from_secs(60);

/// Between a difference and the second look at it: the kubelet takes a list in when it likes.
const AGAIN: Duration = Duration::from_secs(2);

/// The longest wait between two repairs of a difference that stays.
const LONGEST: Duration = SELDOM;

/// What is known of the kubelet's view, by resource.
#[derive(Default)]
pub(super) struct Views(BTreeMap<ResourceName, View>);

#[derive(Default)]
struct View {
    allocatable: Option<u32>,
    /// How often in a row it differed from what it was told.
    differs: u32,
    repairs: u64,
    /// Not mended again before.
    rest: Option<Instant>,
    wait: Duration,
}

impl Views {
    pub(super) fn allocatable(&self, resource: &ResourceName) -> Option<u32> {
        self.0.get(resource)?.allocatable
    }

    pub(super) fn repairs(&self, resource: &ResourceName) -> u64 {
        self.0.get(resource).map_or(0, |view| view.repairs)
    }

    /// What it was told is another now: differences begin anew.
    pub(super) fn forget(&mut self) {
        self.0.values_mut().for_each(|view| view.differs = 0);
    }
}

impl View {
    /// Takes in a comparison; true when it must be mended.
    fn compare(&mut self, same: bool, now: Instant) -> bool {
        if same {
            (self.differs, self.rest, self.wait) = (0, None, Duration::ZERO);
            return false;
        }
        self.differs += 1;
        if self.differs < 2 || self.rest.is_some_and(|rest| rest > now) {
            return false;
        }
        self.wait = (self.wait * 2).clamp(Duration::from_secs(15), LONGEST);
        (self.rest, self.differs) = (Some(now + self.wait), 0);
        self.repairs += 1;
        true
    }
}

impl Node {
    pub(super) fn take_kubelet(&mut self, view: Result<KubeletView, String>, now: Instant) {
        let is_leaving = self.pools.iter().any(Pool::is_removed);
        hasten(&mut self.due.kubelet, now + if is_leaving { LEAVING } else { SELDOM });
        match view {
            Ok(view) => {
                self.take_holders(&view);
                self.compare(&view, now);
            }
            Err(text) => {
                self.views.0.values_mut().for_each(|view| view.allocatable = None);
                // While there is no kubelet it is not the one to tell.
                let is_there = self.registrations.values().any(|r| r.streams > 0);
                if is_there && self.errors.back().is_none_or(|last| last.text != text) {
                    self.keep_error("the kubelet's Pods and devices", &text);
                }
            }
        }
        self.is_kubelet_asked = true;
        if self.first.is_some() {
            self.begin();
        }
        self.publish_soon();
    }

    fn take_holders(&mut self, view: &KubeletView) {
        let held = view.held.iter().map(|held| (held.resource.as_str(), held.id.as_str()));
        let before = self.holdings.clone();
        self.holdings.confirm(&self.pools, held);
        let mut holders: BTreeMap<ResourceName, BTreeMap<String, Holder>> = BTreeMap::new();
        let own = self.pools.iter().map(|pool| (pool.resource.to_string(), &pool.resource));
        let own: BTreeMap<String, &ResourceName> = own.collect();
        for held in &view.held {
            if let Some(resource) = own.get(&held.resource) {
                let of = holders.entry((*resource).clone()).or_default();
                of.insert(held.id.clone(), held.holder.clone());
            }
        }
        let held = view.held.iter().map(|held| (&held.resource, &held.id));
        let offered = view.functions.iter().map(|(resource, id)| (resource, id));
        let others: BTreeSet<_> =
            held.chain(offered).filter(|(resource, _)| !own.contains_key(*resource)).collect();
        let others = OtherOffers(others.into_iter().map(|(name, id)| (name.clone(), id.clone())).collect());
        if others != std::mem::replace(&mut self.others, others.clone()) {
            self.tell_findings();
        }
        let first = self.holders.is_none();
        self.holders = Some(holders.into_iter().map(|(name, of)| (name, Arc::new(of))).collect());
        self.forget_grants();
        if before != self.holdings {
            self.holdings_changes += 1;
        }
        let is_over = |pool: &Pool| pool.is_removed() && !self.holdings.holds_any(&pool.resource);
        if first || self.pools.iter().any(is_over) {
            // What seemed in use for want of an answer may not be, and what was kept for Pods goes with the last.
            self.replan();
        } else if before != self.holdings {
            self.relist();
        }
    }

    fn compare(&mut self, view: &KubeletView, now: Instant) {
        let mut differs = false;
        for pool in &self.pools {
            let resource = &pool.resource;
            let is_watched = self.registrations.get(resource).is_some_and(|r| r.phase == Phase::Watched);
            let (Some(listed), true) = (self.listed.get(resource), is_watched) else { continue };
            let entries = view.allocatable.get(&resource.to_string()).copied().unwrap_or(0);
            let same = entries == listed.entries;
            let known = self.views.0.entry(resource.clone()).or_default();
            known.allocatable = Some(if same { listed.listing.healthy } else { entries });
            if known.compare(same, now) {
                tracing::warn!(
                    %resource, healthy = listed.listing.healthy, kubelet = entries,
                    "the kubelet counts other devices than it was told of, registering again"
                );
            }
            differs |= !same;
        }
        if differs {
            hasten(&mut self.due.kubelet, now + AGAIN);
        }
    }
}
