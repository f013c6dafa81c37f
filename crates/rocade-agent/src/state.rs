//! The one state of the node and its one writer: what stands behind each resource now.

use std::sync::Arc;
use std::time::Duration;

use rocade_core::config::Config;
use rocade_core::plan::{Pool, plan};
use rocade_host::{Patience, Root, Scope, read_parts, read_patiently};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// All pools, in the order of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) pools: Vec<Pool>,
}

/// Looks at the whole host.
pub(crate) fn read_state(root: &Root, config: &Config) -> NodeState {
    let (host, silent) = read_patiently(root, Patience::default(), |root| read_parts(root, Scope::GRANTS));
    for path in silent {
        tracing::warn!(path = %path.display(), "does not answer; the rest was read without it");
    }
    NodeState { pools: plan(&host, config) }
}

/// Looks again and again and publishes what changed. Never ends.
pub(crate) async fn run_rescans(root: Root, config: Config, write: watch::Sender<Arc<NodeState>>) {
    let Some(seconds) = config.update_interval_s else { return std::future::pending().await };
    let period = Duration::from_secs(seconds);
    // An interval beyond the clock's end is as good as none.
    let Some(first) = Instant::now().checked_add(period) else { return std::future::pending().await };
    let mut ticks = interval_at(first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let new = read_state(&root, &config);
        write.send_if_modified(|state| {
            let changed = **state != new;
            if changed {
                log_pools(Some(state), &new);
                *state = Arc::new(new);
            }
            changed
        });
    }
}

/// One line for each pool that is new or changed: with HCAs what they are, without why there are none.
pub(crate) fn log_pools(old: Option<&NodeState>, new: &NodeState) {
    for (i, pool) in new.pools.iter().enumerate() {
        if old.is_some_and(|old| old.pools.get(i) == Some(pool)) {
            continue;
        }
        let resource = &pool.resource;
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
        let config = parse_config_json("config.json", text, true).unwrap().0;
        let root = Root::live(host.path()).unwrap();
        let (write, mut states) = watch::channel(Arc::new(read_state(&root, &config)));
        assert_eq!(states.borrow_and_update().pools[0].left_out.len(), 1);
        let rescans = tokio::spawn(run_rescans(root, config, write));
        std::fs::remove_dir_all(&hca).unwrap();
        tokio::time::timeout(Duration::from_secs(30), states.changed()).await.unwrap().unwrap();
        assert_eq!(states.borrow().pools[0].left_out, []);
        rescans.abort();
    }
}
