//! What was granted to whom, and whether it is still what it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::HcaName;
use rocade_core::plan::{Grant, check_granted, number_nodes};

use super::{Ask, Denied, Node};
use crate::state::{Granted, HcaState};

/// From a grant to the question whose Pod it is: it is admitted by then.
const NAMED: Duration = Duration::from_secs(2);

impl Node {
    /// Answers a request from the newest state.
    pub(super) fn allocate(&mut self, ask: Ask) {
        let Ask { resource, ids, reply } = ask;
        let granted = match self.pools.iter().position(|pool| pool.resource == resource) {
            None => Err(Denied::NotOffered(resource)),
            Some(at) => self.grant(at, &ids),
        };
        if let Err(denied) = &granted {
            self.keep_error("Allocate", &denied.to_string());
        }
        // The kubelet may have gone meanwhile; what it asked for is then found free by the next look at its Pods.
        let _ = reply.send(granted);
    }

    fn grant(&mut self, at: usize, ids: &[Vec<String>]) -> Result<Vec<Grant>, Denied> {
        let resource = self.pools[at].resource.clone();
        let failed = self.listed.get(&resource).map(|listed| listed.failed.clone()).unwrap_or_default();
        let mut grants = Vec::new();
        for ids in ids {
            let grant = self.holdings.grant(&self.pools, at, ids, &failed)?;
            self.note_grant(at, ids, &grant);
            grants.push(grant);
        }
        self.granted_anew();
        self.publish_soon();
        self.ask_soon(NAMED);
        Ok(grants)
    }

    fn note_grant(&mut self, at: usize, ids: &[String], grant: &Grant) {
        let resource = &self.pools[at].resource;
        let nodes = number_nodes(&self.host, &grant.nodes);
        let ports = grant.variables.first().map_or("", |(_, ports)| ports);
        let last = self.grants.values().next_back();
        let same = last.filter(|last| (&*last.nodes, &*last.ports) == (&*nodes, ports));
        let granted = Arc::new(Granted {
            resource: resource.clone(),
            ids: ids.to_vec(),
            at: SystemTime::now(),
            ports: same.map_or_else(|| ports.into(), |last| Arc::clone(&last.ports)),
            nodes: same.map_or_else(|| nodes.into(), |last| Arc::clone(&last.nodes)),
            faults: Vec::new(),
        });
        tracing::debug!(%resource, devices = ?ids, hcas = %granted.ports, "granted");
        for id in ids {
            self.grants.insert((resource.clone(), id.clone()), Arc::clone(&granted));
        }
    }

    /// Forgets the grants that no Pod holds any more.
    pub(super) fn forget_grants(&mut self) {
        let holdings = &self.holdings;
        self.grants.retain(|(resource, id), _| holdings.holds(&resource.to_string(), id));
    }

    /// Finds grants whose device nodes open something else now.
    pub(super) fn check_grants(&mut self) {
        let mut changed: BTreeMap<*const Granted, Arc<Granted>> = BTreeMap::new();
        for granted in self.grants.values_mut() {
            let faults = check_granted(&self.host, &granted.nodes);
            if faults == granted.faults {
                continue;
            }
            let new = changed.entry(Arc::as_ptr(granted)).or_insert_with(|| {
                for fault in &faults {
                    tracing::error!(resource = %granted.resource, devices = ?granted.ids, "a grant is wrong now: {fault}");
                }
                Arc::new(Granted { faults, ..(**granted).clone() })
            });
            *granted = Arc::clone(new);
        }
    }

    /// Each grant once, oldest first.
    pub(super) fn distinct_grants(&self) -> Vec<Arc<Granted>> {
        let mut grants: Vec<_> = self.grants.values().map(Arc::clone).collect();
        grants.sort_by_key(|granted| (granted.at, Arc::as_ptr(granted)));
        grants.dedup_by(|a, b| Arc::ptr_eq(a, b));
        grants
    }

    /// Health of each HCA over all pools: the worst of what its pools mean of it.
    pub(super) fn hca_states(&self) -> BTreeMap<HcaName, HcaState> {
        let mut states: BTreeMap<HcaName, HcaState> = BTreeMap::new();
        let verdicts = self.pools.iter().flat_map(|pool| self.tracker.of(&pool.resource));
        for (_, verdict) in verdicts {
            let state = HcaState {
                condition: verdict.condition,
                healthy: verdict.healthy,
                reason: verdict.reason.clone(),
                since: self.started.1 + verdict.since,
                flaps: verdict.flaps,
            };
            let worse = |old: &HcaState| (state.healthy, old.condition) < (old.healthy, state.condition);
            match states.get_mut(&verdict.hca) {
                Some(old) if worse(old) => *old = state,
                Some(_) => {}
                None => drop(states.insert(verdict.hca.clone(), state)),
            }
        }
        states
    }
}
