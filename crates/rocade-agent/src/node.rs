//! The one writer of the node's state: it looks at the host, plans, and publishes what changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rocade_core::Host;
use rocade_core::config::Config;
use rocade_core::plan::{Pool, plan};
use rocade_host::{Patience, Root, Scope, read_parts, read_patiently};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::list::DeviceList;
use crate::state::{Listing, Look, NodeState, Registration, ResourceState, Way};

/// Looks at the whole host for the first time.
pub(crate) fn read_state(root: &Root, config: &Arc<Config>) -> NodeState {
    let (host, look) = read(root);
    let resources = plan(&host, config).into_iter().map(|pool| ResourceState {
        listing: Arc::new(list(&pool)),
        pool: Arc::new(pool),
        registration: Registration::waiting(Way::Kubelet),
        holders: None,
        allocatable: None,
    });
    let resources = resources.collect();
    NodeState {
        generation: 1,
        config: Arc::clone(config),
        config_error: None,
        host: Arc::new(host),
        look,
        hcas: BTreeMap::new(),
        resources,
        grants: Vec::new(),
        errors: VecDeque::new(),
    }
}

fn read(root: &Root) -> (Host, Look) {
    let start = std::time::Instant::now();
    let (host, silent) = read_patiently(root, Patience::default(), |root| read_parts(root, Scope::GRANTS));
    for path in &silent {
        tracing::warn!(path = %path.display(), "does not answer; the rest was read without it");
    }
    (host, Look { at: SystemTime::now(), took: start.elapsed(), silent })
}

/// Looks again and again and publishes what changed. Never ends.
pub(crate) async fn run_rescans(root: Arc<Root>, config: Arc<Config>, write: watch::Sender<Arc<NodeState>>) {
    let Some(seconds) = config.update_interval_s else { return std::future::pending().await };
    let period = Duration::from_secs(seconds);
    // An interval beyond the clock's end is as good as none.
    let Some(first) = Instant::now().checked_add(period) else { return std::future::pending().await };
    let mut ticks = interval_at(first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (host, look) = read(&root);
        let old = Arc::clone(&write.borrow());
        if *old.host == host {
            continue;
        }
        let mut new =
            NodeState { generation: old.generation + 1, host: Arc::new(host), look, ..(*old).clone() };
        for (resource, pool) in new.resources.iter_mut().zip(plan(&new.host, &config)) {
            resource.listing = Arc::new(list(&pool));
            resource.pool = Arc::new(pool);
        }
        log_pools(Some(&old), &new);
        write.send_replace(Arc::new(new));
    }
}

fn list(pool: &Pool) -> Listing {
    let ids: Vec<_> = (0..pool.slots).map(|n| n.to_string()).collect();
    let list = DeviceList::new(ids.iter().map(|id| (id.as_str(), true, None)));
    Listing { devices: pool.slots, healthy: pool.slots, reasons: Vec::new(), list }
}

/// One line for each pool that is new or changed: with HCAs what they are, without why there are none.
pub(crate) fn log_pools(old: Option<&NodeState>, new: &NodeState) {
    for pool in new.resources.iter().map(|r| &r.pool) {
        let resource = &pool.resource;
        if old.and_then(|old| old.resource(resource)).is_some_and(|old| old.pool == *pool) {
            continue;
        }
        if pool.members.is_empty() {
            let why: Vec<_> =
                pool.left_out.iter().map(|out| format!("{}: {}", out.hca, out.reason)).collect();
            tracing::warn!(%resource, why = why.join("; "), "no HCA stands behind the resource");
        } else {
            tracing::info!(%resource, slots = pool.slots, hcas = pool.ports_text(), "found HCAs");
        }
    }
}

#[cfg(test)]
mod tests {
    use rocade_core::config::parse_config_json;

    use super::*;

    #[tokio::test]
    async fn a_host_that_changed_is_published_at_the_next_look() {
        let host = tempfile::tempdir().unwrap();
        let hca = host.path().join("sys/class/infiniband/mlx5_0");
        std::fs::create_dir_all(hca.join("ports")).unwrap();
        let text = r#"{"periodicUpdateInterval": 1, "configList": [
            {"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["eth1"]}}]}"#;
        let config = Arc::new(parse_config_json("config.json", text, true).unwrap().0);
        let root = Arc::new(Root::live(host.path()).unwrap());
        let (write, mut states) = watch::channel(Arc::new(read_state(&root, &config)));
        assert_eq!(states.borrow_and_update().resources[0].pool.left_out.len(), 1);
        let rescans = tokio::spawn(run_rescans(root, config, write));
        std::fs::remove_dir_all(&hca).unwrap();
        tokio::time::timeout(Duration::from_secs(30), states.changed()).await.unwrap().unwrap();
        assert_eq!(states.borrow().resources[0].pool.left_out, []);
        rescans.abort();
    }
}
