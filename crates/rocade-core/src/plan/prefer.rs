//! Which of the free devices the kubelet had best take: different HCAs, near to each other, the least shared first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Pool, PoolMember};
use crate::distance;

/// A free device: the place of its HCA in the pool, and its ID.
type Free<'a> = (usize, &'a str);

impl Pool {
    /// `size` of the available IDs, those that must be included first; fewer where there are no more. IDs that the
    /// pool does not have (a Pod holds them still) are taken last, and only as far as they must be.
    pub fn prefer(
        &self,
        available: &[impl AsRef<str>],
        must_include: &[impl AsRef<str>],
        size: usize,
    ) -> Vec<String> {
        let mut chosen: Vec<String> = must_include.iter().map(|id| id.as_ref().to_owned()).collect();
        let mut free: Vec<&str> =
            available.iter().map(AsRef::as_ref).filter(|id| !chosen.iter().any(|have| have == id)).collect();
        let missing = size.saturating_sub(chosen.len());
        if self.share().is_none() {
            free.sort_by_key(|id| id.parse::<u32>().map_or((true, 0), |n| (false, n)));
            free.dedup();
            chosen.extend(free.into_iter().take(missing).map(str::to_owned));
            return chosen;
        }
        let place = |id: &str| {
            self.members.iter().position(|m| self.members_of(id).is_some_and(|of| of[0].id == m.id))
        };
        let had: Vec<usize> = chosen.iter().filter_map(|id| place(id)).collect();
        let mut known: Vec<Free<'_>> = free.iter().filter_map(|id| Some((place(id)?, *id))).collect();
        known.sort_by_key(|(at, id)| (*at, id.len(), *id));
        known.dedup();
        let picked = Choice { pool: self, free: &known }.best(&had, missing);
        chosen.extend(picked.into_iter().map(str::to_owned));
        let rest = free.iter().filter(|id| place(id).is_none()).take(size.saturating_sub(chosen.len()));
        let rest: Vec<_> = rest.map(|id| (*id).to_owned()).collect();
        chosen.extend(rest);
        chosen
    }
}

struct Choice<'a> {
    pool: &'a Pool,
    free: &'a [Free<'a>],
}

impl<'a> Choice<'a> {
    /// Grown from each HCA that could be the first; the set whose HCAs are nearest to each other wins, then the one
    /// with the least shared.
    fn best(&self, had: &[usize], size: usize) -> Vec<&'a str> {
        let seeds: Vec<Option<usize>> = match had {
            [] => self.counts(&[]).into_keys().map(Some).collect(),
            _ => vec![None],
        };
        let grown = seeds.into_iter().map(|seed| self.grow(had, seed, size));
        grown.min_by_key(|(cost, _)| *cost).map_or_else(Vec::new, |(_, ids)| ids)
    }

    fn grow(
        &self,
        had: &[usize],
        seed: Option<usize>,
        size: usize,
    ) -> ((usize, u64, Reverse<usize>), Vec<&'a str>) {
        let (mut places, mut ids, mut apart, mut room) = (had.to_vec(), Vec::new(), 0, 0);
        while ids.len() < size {
            let counts = self.counts(&ids);
            let first = seed.filter(|_| ids.is_empty()).filter(|at| counts.contains_key(at));
            let cost = |at: usize| places.iter().map(|have| self.apart(*have, at)).sum::<u64>();
            let used = |at: usize| places.iter().filter(|have| **have == at).count();
            let next = first.or_else(|| {
                counts.keys().copied().min_by_key(|at| (used(*at), cost(*at), Reverse(counts[at]), *at))
            });
            let Some(at) = next else { break };
            (apart, room) = (apart + cost(at), room + counts[&at]);
            places.push(at);
            ids.extend(
                self.free.iter().find(|(place, id)| *place == at && !ids.contains(id)).map(|(_, id)| *id),
            );
        }
        let mut hcas = places.clone();
        hcas.sort_unstable();
        let all = hcas.len();
        hcas.dedup();
        ((all - hcas.len(), apart, Reverse(room)), ids)
    }

    /// How many free devices each HCA has beside those taken.
    fn counts(&self, taken: &[&str]) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for (at, _) in self.free.iter().filter(|(_, id)| !taken.contains(id)) {
            *counts.entry(*at).or_insert(0) += 1;
        }
        counts
    }

    fn apart(&self, a: usize, b: usize) -> u64 {
        let member = |at: usize| -> &PoolMember { &self.pool.members[at] };
        if a == b { 0 } else { distance::tell(&member(a).place(), &member(b).place()) as u64 }
    }
}
