//! All resources that are served: one loop for each that is configured, from when it is to when it is no more and no Pod
//! holds any of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocade_core::ResourceName;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::api::DevicePluginOptions;
use crate::cdi::SpecFile;
use crate::endpoint::Offer;
use crate::node::Notice;
use crate::plugin::options;
use crate::resource::{Choice, Resource, run_resource};
use crate::sockets::{Sighting, Sockets};
use crate::state::NodeState;

/// What all resources are served with.
pub(crate) struct Serving {
    pub(crate) states: watch::Receiver<Arc<NodeState>>,
    pub(crate) tell: mpsc::UnboundedSender<Notice>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) cdi: Arc<SpecFile>,
    pub(crate) choice: Choice,
    pub(crate) sightings: watch::Receiver<Sighting>,
}

/// A resource's loop, as others see it.
struct Running {
    options: DevicePluginOptions,
    end: watch::Sender<bool>,
}

/// Serves what is offered until `ending` becomes true.
pub(crate) async fn run_resources(mut serving: Serving, mut ending: watch::Receiver<bool>) {
    let mut running: BTreeMap<ResourceName, Running> = BTreeMap::new();
    let mut loops: JoinSet<ResourceName> = JoinSet::new();
    while !*ending.borrow() {
        let state = Arc::clone(&serving.states.borrow_and_update());
        let wanted = state.resources.iter().map(|r| (r.pool.resource.clone(), options(r.pool.sharing)));
        let wanted: BTreeMap<ResourceName, DevicePluginOptions> = wanted.collect();
        for (name, loop_) in &running {
            // The kubelet asks for options only when a resource is registered.
            if wanted.get(name) != Some(&loop_.options) {
                loop_.end.send_replace(true);
            }
        }
        for (name, options) in wanted {
            running.entry(name.clone()).or_insert_with(|| {
                let (end, ended) = watch::channel(false);
                loops.spawn(serve(&serving, name, options, ended));
                Running { options, end }
            });
        }
        tokio::select! {
            _ = serving.states.changed() => {}
            Some(ended) = loops.join_next() => match ended {
                Ok(name) => drop(running.remove(&name)),
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            },
            _ = ending.wait_for(|ending| *ending) => {}
        }
    }
    for loop_ in running.values() {
        loop_.end.send_replace(true);
    }
    while loops.join_next().await.is_some() {}
}

fn serve(
    serving: &Serving,
    name: ResourceName,
    options: DevicePluginOptions,
    ended: watch::Receiver<bool>,
) -> impl Future<Output = ResourceName> + use<> {
    let (states, tell) = (serving.states.clone(), serving.tell.clone());
    let cdi = Arc::clone(&serving.cdi);
    let offer = Offer { resource: name.clone(), options, states, tell, cdi };
    let resource = Resource {
        offer,
        sockets: Arc::clone(&serving.sockets),
        choice: serving.choice,
        sightings: serving.sightings.clone(),
    };
    async move {
        run_resource(resource, ended).await;
        name
    }
}
