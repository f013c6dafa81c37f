//! The Pods that run, and what each was granted: nothing of it may get lost, and no device may be given twice.

use std::collections::{BTreeSet, VecDeque};

use anyhow::{Result, ensure};
use rocade_lab::native::NativeNode;
use rocade_lab::native::pod_resources::Devices;

use crate::RESOURCES;

/// So many Pods run at a time; older ones are taken away.
const KEPT: usize = 3;

/// What the container sees in /dev/infiniband.
const NODES: &str = "issm0 issm3 issm4 rdma_cm umad0 umad3 umad4 uverbs0 uverbs3 uverbs4";

/// Pods, oldest first, with their grants as they were when admitted.
#[derive(Debug, Default)]
pub(crate) struct Grants(VecDeque<(String, Devices)>);

impl Grants {
    /// Has a new Pod admitted that asks for one of each resource.
    pub(crate) fn admit(&mut self, node: &NativeNode, pod: String) -> Result<()> {
        let nodes = node.run_probe(&pod, &RESOURCES)?;
        ensure!(nodes == NODES.split(' ').collect::<Vec<_>>(), "{pod} has {nodes:?}");
        let held = node.granted(&pod)?;
        let one = RESOURCES.iter().all(|r| held.get(*r).is_some_and(|ids| ids.len() == 1));
        ensure!(one && held.len() == RESOURCES.len(), "{pod} holds {held:?}");
        self.0.push_back((pod, held));
        Ok(())
    }

    /// That each Pod holds what it was granted, and none holds what another has.
    pub(crate) fn verify(&self, node: &NativeNode) -> Result<()> {
        let mut given = BTreeSet::new();
        for (pod, held) in &self.0 {
            let now = node.granted(pod)?;
            ensure!(now == *held, "{pod} was granted {held:?} and holds {now:?}");
            for (resource, ids) in held {
                let doubly = ids.iter().find(|id| !given.insert((resource.clone(), (*id).clone())));
                ensure!(doubly.is_none(), "{pod} holds {doubly:?} of {resource}, and so does another Pod");
            }
        }
        Ok(())
    }

    /// Takes all but the latest Pods away.
    pub(crate) fn thin(&mut self, node: &NativeNode) -> Result<()> {
        while self.0.len() > KEPT {
            let oldest = self.0.pop_front();
            oldest.map_or(Ok(()), |(pod, _)| node.remove_probe(&pod))?;
        }
        Ok(())
    }

    /// Takes all Pods away.
    pub(crate) fn end(self, node: &NativeNode) -> Result<()> {
        self.0.iter().try_for_each(|(pod, _)| node.remove_probe(pod))
    }
}
