//! Which of the free devices the kubelet had best take: different HCAs, near to each other, the least shared first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Pool, PoolMember};
use crate::distance;

/// Free devices by the place of their HCA in the pool.
type Free<'a> = BTreeMap<usize, Vec<&'a str>>;

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
            let member = self.members_of(id)?.first()?;
            self.members.iter().position(|other| std::ptr::eq(other, member))
        };
        let had: Vec<usize> = chosen.iter().filter_map(|id| place(id)).collect();
        free.sort_by_key(|id| (id.len(), *id));
        free.dedup();
        let mut known = Free::new();
        free.iter()
            .filter_map(|id| Some((place(id)?, *id)))
            .for_each(|(at, id)| known.entry(at).or_default().push(id));
        let picked = Choice { pool: self, free: known }.best(&had, missing);
        chosen.extend(picked.into_iter().map(str::to_owned));
        let rest = free.iter().filter(|id| place(id).is_none()).take(size.saturating_sub(chosen.len()));
        let rest: Vec<_> = rest.map(|id| (*id).to_owned()).collect();
        chosen.extend(rest);
        chosen
    }
}

struct Choice<'a> {
    pool: &'a Pool,
    free: Free<'a>,
}

/// The less of the first the better, and so on: how often an HCA is there twice, how far they are apart, how many
/// others share them.
type Cost = (usize, u64, Reverse<usize>);

impl<'a> Choice<'a> {
    /// Grown from each HCA that could be the first; the set whose HCAs are nearest to each other wins, then the one
    /// with the least shared.
    fn best(&self, had: &[usize], size: usize) -> Vec<&'a str> {
        let seeds: Vec<Option<usize>> = match had {
            [] => self.free.keys().copied().map(Some).collect(),
            _ => vec![None],
        };
        let grown = seeds.into_iter().map(|seed| self.grow(had, seed, size));
        grown.min_by_key(|(cost, _)| *cost).map_or_else(Vec::new, |(_, ids)| ids)
    }

    fn grow(&self, had: &[usize], seed: Option<usize>, size: usize) -> (Cost, Vec<&'a str>) {
        let (mut places, mut ids, mut apart, mut room) = (had.to_vec(), Vec::new(), 0, 0);
        let mut taken: BTreeMap<usize, usize> = BTreeMap::new();
        while ids.len() < size {
            let left = |at: usize| self.free[&at].len() - taken.get(&at).copied().unwrap_or(0);
            let cost = |at: usize| places.iter().map(|have| self.apart(*have, at)).sum::<u64>();
            let used = |at: usize| places.iter().filter(|have| **have == at).count();
            let open = || self.free.keys().copied().filter(|at| left(*at) > 0);
            let best = || open().min_by_key(|at| (used(*at), cost(*at), Reverse(left(*at)), *at));
            let Some(at) = seed.filter(|_| ids.is_empty()).or_else(best) else { break };
            (apart, room) = (apart + cost(at), room + left(at));
            places.push(at);
            let next = taken.entry(at).or_insert(0);
            ids.push(self.free[&at][*next]);
            *next += 1;
        }
        let hcas: BTreeSet<usize> = places.iter().copied().collect();
        ((places.len() - hcas.len(), apart, Reverse(room)), ids)
    }

    fn apart(&self, a: usize, b: usize) -> u64 {
        let member = |at: usize| -> &PoolMember { &self.pool.members[at] };
        if a == b { 0 } else { distance::tell(&member(a).place(), &member(b).place()) as u64 }
    }
}
