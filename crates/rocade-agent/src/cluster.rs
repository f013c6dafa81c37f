//! What the cluster sees of this node through the API server: labels, the condition RdmaDegraded, the start-up taint,
//! events. Each only where the configuration asks for it; otherwise nothing is read, opened or written here, and the
//! agent needs no token. What is to be said is core's, how an object says it `objects`'.

mod objects;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::config::{Labels, Publish};
use rocade_core::status::Status;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::labels::Memory;
use crate::outside::report_state;
use crate::state::{NodeState, wait_for_look};
use objects::{Happened, TAINT};
use server::{ServerError, Write};

pub use server::Access;

/// Events that are kept while the API server does not take them.
const MOST_EVENTS: usize = 64;

/// Where events about what has no namespace are.
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// After this it is said again, as somebody may have changed it.
const REASSERT: Duration = Duration::from_secs(3600);

/// First and longest pause after the API server refused or was not there.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// What is to be seen of the node; None where it was not asked for.
#[derive(Debug, Clone, Default, PartialEq)]
struct Wanted {
    labels: Option<BTreeMap<String, String>>,
    /// Why the node is degraded; empty where it is not.
    degraded: Option<Vec<String>>,
    /// Whether the taint is to be taken off.
    untaint: bool,
}

impl Wanted {
    fn of(state: &NodeState, status: &Status, memory: &mut Memory) -> Wanted {
        let publish = &state.config.publish;
        Wanted {
            labels: (publish.labels == Labels::Api).then(|| memory.labels(&state.host, publish.nfd_keys)),
            degraded: publish.condition.then(|| status.degraded()),
            untaint: publish.taint && status.unready().is_empty(),
        }
    }
}

/// What was written, and is the API server's now as far as is known.
#[derive(Debug, Default)]
struct Written {
    wanted: Wanted,
    at: Option<Instant>,
    /// Since when the condition is what it is, as Kubernetes writes times.
    transition: Option<(bool, String)>,
}

/// The node as the cluster sees it, and what keeps it so.
struct Cluster {
    node: String,
    access: Access,
    written: Written,
}

/// Keeps the node as the configuration wants it seen. Never ends.
pub(crate) async fn run_cluster(
    node: Option<String>,
    access: Access,
    mut memory: Memory,
    mut states: watch::Receiver<Arc<NodeState>>,
) {
    let Some(node) = node else { return refuse(states).await };
    let mut cluster = Cluster { node, access, written: Written::default() };
    let (mut backoff, mut happened, mut before) = (BACKOFF.0, Vec::new(), None);
    wait_for_look(&mut states).await;
    loop {
        let state = Arc::clone(&states.borrow_and_update());
        let status = report_state(&state);
        if state.config.publish.events {
            happened.extend(before.iter().flat_map(|before| objects::happened(before, &status)));
        }
        let wanted = Wanted::of(&state, &status, &mut memory);
        before = Some(status);
        happened.truncate(MOST_EVENTS);
        let failed = cluster.write(wanted, &mut happened).await.inspect_err(|error| {
            tracing::error!(%error, "the cluster does not see this node as configured");
        });
        if failed.is_err() {
            // Whatever changes meanwhile, a server that refuses is left alone.
            sleep(backoff).await;
            backoff = (backoff * 2).min(BACKOFF.1);
            continue;
        }
        backoff = BACKOFF.0;
        let again = cluster.written.at.map(|at| at + REASSERT);
        tokio::select! {
            changed = states.changed() => if changed.is_err() { std::future::pending().await },
            () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
        }
    }
}

/// Without a name there is no node to write to.
async fn refuse(mut states: watch::Receiver<Arc<NodeState>>) {
    let asks = |publish: &Publish| {
        publish.labels == Labels::Api || publish.condition || publish.taint || publish.events
    };
    let _ = states.wait_for(|state| asks(&state.config.publish)).await;
    tracing::error!(
        "labels, condition, taint and events want the node's name: set NODE_NAME, or --node-name"
    );
    std::future::pending().await
}

impl Cluster {
    /// Writes what is not written yet. What was asked for once and is not any more is taken away.
    async fn write(&mut self, wanted: Wanted, happened: &mut Vec<Happened>) -> Result<(), ServerError> {
        let due = self.written.at.is_some_and(|at| at.elapsed() >= REASSERT);
        let last = &self.written.wanted;
        if due || last.labels != wanted.labels {
            let none = BTreeMap::new();
            let labels = wanted.labels.as_ref().unwrap_or(&none);
            self.access.write(Write::Apply, &self.path(""), &objects::labels(&self.node, labels)).await?;
            self.written.wanted.labels.clone_from(&wanted.labels);
            self.written.at = Some(Instant::now());
        }
        if due || self.written.wanted.degraded != wanted.degraded {
            let condition = match &wanted.degraded {
                Some(why) => Some(self.condition(why).await?),
                None => None,
            };
            let body = objects::condition(&self.node, condition);
            self.access.write(Write::Apply, &self.path("/status"), &body).await?;
            self.written.wanted.degraded.clone_from(&wanted.degraded);
            self.written.at = Some(Instant::now());
        }
        if wanted.untaint && !self.written.wanted.untaint {
            self.untaint().await?;
        }
        self.written.wanted.untaint = wanted.untaint;
        while let Some(event) = happened.first() {
            let body = objects::event(&self.node, event, SystemTime::now());
            match self.access.write(Write::Create, EVENTS, &body).await {
                // An event that is refused for what it says would be refused for ever.
                Err(error) if error.is_about_the_object() => {
                    tracing::error!(%error, event = event.note, "left an event out");
                }
                written => written?,
            }
            happened.remove(0);
        }
        Ok(())
    }

    fn path(&self, below: &str) -> String {
        format!("/api/v1/nodes/{}{below}", self.node)
    }

    /// The condition; what an earlier agent wrote of it counts, so that a restart is no transition.
    async fn condition(&mut self, why: &[String]) -> Result<Value, ServerError> {
        let (now, degraded) = (objects::seconds(SystemTime::now()), !why.is_empty());
        let since = match &self.written.transition {
            Some((last, since)) => (*last == degraded).then(|| since.clone()),
            None => objects::degraded_since(&self.access.read(&self.path("")).await?, degraded),
        };
        let since = since.unwrap_or_else(|| now.clone());
        let condition = objects::degraded(why, &since, &now);
        self.written.transition = Some((degraded, since));
        Ok(condition)
    }

    /// Takes the taint off, and no other that was set meanwhile: the list has no parts of its own owners.
    async fn untaint(&self) -> Result<(), ServerError> {
        let node = self.access.read(&self.path("")).await?;
        let Some(body) = objects::without_taint(&node) else { return Ok(()) };
        self.access.write(Write::Merge, &self.path(""), &body).await?;
        tracing::info!(taint = TAINT, "took the start-up taint off: all resources are offered");
        Ok(())
    }
}

#[cfg(test)]
mod tests;
