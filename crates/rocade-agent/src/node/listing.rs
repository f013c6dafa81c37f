//! What the kubelet is told of one resource, made anew only when something that it is made of changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rocade_core::health::{Condition, Tracker, Verdict};
use rocade_core::plan::{Holdings, Pool, PoolMember, Standing};

use crate::list::{DeviceList, MAX_BYTES};
use crate::state::Listing;

/// A list and what it was made of.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) listing: Arc<Listing>,
    /// HCAs that have failed.
    pub(super) failed: BTreeSet<String>,
    /// How many entries the kubelet makes of the healthy devices: one for each NUMA node of each.
    pub(super) entries: u32,
    made_of: Option<MadeOf>,
}

#[derive(PartialEq)]
struct MadeOf {
    pool: Pool,
    missing: Option<String>,
    /// How often what Pods hold had changed.
    held: u64,
    hints: bool,
}

/// What Pods hold, and how often that has changed.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) holdings: &'a Holdings,
    pub(super) changes: u64,
}

impl Listed {
    /// True when the list is another now.
    pub(super) fn update(&mut self, pool: &Pool, tracker: &Tracker, held: Held<'_>, hints: bool) -> bool {
        let (failed, missing) = (tracker.failed(&pool.resource), tracker.missing(pool));
        let same = self.made_of.as_ref().is_some_and(|old| {
            old.pool == *pool && old.missing == missing && old.held == held.changes && old.hints == hints
        });
        if same && failed == self.failed {
            return false;
        }
        self.failed = failed;
        let listing = self.list(pool, tracker, missing.as_deref(), held.holdings, hints);
        self.made_of = Some(MadeOf { pool: pool.clone(), missing, held: held.changes, hints });
        if *self.listing == listing {
            return false;
        }
        self.listing = Arc::new(listing);
        true
    }

    fn list(
        &mut self,
        pool: &Pool,
        tracker: &Tracker,
        missing: Option<&str>,
        holdings: &Holdings,
        hints: bool,
    ) -> Listing {
        let verdicts: BTreeMap<&str, &Verdict> =
            tracker.of(&pool.resource).map(|(id, verdict)| (id.as_str(), verdict)).collect();
        let mut listing = Listing::default();
        let mut reasons: BTreeMap<String, u32> = BTreeMap::new();
        self.entries = 0;
        let list = DeviceList::new(holdings.list(pool).map(|listed| {
            let is_kept = listed.standing == Standing::Kept;
            let withheld = missing.filter(|_| !is_kept);
            let healthy = withheld.is_none() && listed.is_healthy(pool, &self.failed);
            let numa = if hints { listed.device.numa_nodes } else { Vec::new() };
            listing.devices += 1;
            if healthy {
                listing.healthy += 1;
                self.entries += u32::try_from(numa.len()).unwrap_or(u32::MAX).max(1);
            } else {
                let failed = || why(listed.device.members, &verdicts);
                let reason = match listed.standing {
                    Standing::Taken => "a Pod holds its HCA by another ID".to_owned(),
                    _ => withheld.map_or_else(failed, str::to_owned),
                };
                *reasons.entry(reason).or_default() += 1;
            }
            (listed.device.id, healthy, numa)
        }));
        if list.len_bytes() > MAX_BYTES {
            self.entries = 0;
            return too_long(listing.devices, list.len_bytes());
        }
        Listing { reasons: reasons.into_iter().collect(), list, ..listing }
    }
}

/// The kubelet would drop the whole list and with it the stream: none is sent, and the reason is told.
fn too_long(devices: u32, bytes: usize) -> Listing {
    let fit = u64::from(devices) * MAX_BYTES as u64 / bytes as u64;
    let why = format!(
        "the list of {devices} devices takes {bytes} bytes and the kubelet receives {MAX_BYTES}: {fit} would fit"
    );
    tracing::error!("{why}");
    Listing { reasons: vec![(why, devices)], ..Listing::default() }
}

/// Whether a Pod holds a device of the HCA.
pub(super) fn is_held(holdings: &Holdings, pool: &Pool, member: &PoolMember) -> bool {
    holdings.list(pool).any(|listed| {
        matches!(listed.standing, Standing::Held | Standing::Taken)
            && listed.device.members.iter().any(|m| m.id == member.id)
    })
}

fn why(members: &[PoolMember], verdicts: &BTreeMap<&str, &Verdict>) -> String {
    let reason = |member: &PoolMember| match verdicts.get(member.id.as_str()) {
        Some(verdict) if verdict.healthy => None,
        Some(verdict) if verdict.condition == Condition::Up => {
            Some(format!("{} is ACTIVE again, not for long enough", verdict.hca))
        }
        Some(verdict) => Some(verdict.reason.clone()),
        None => None,
    };
    members.iter().filter_map(reason).collect::<Vec<_>>().join("; ")
}
