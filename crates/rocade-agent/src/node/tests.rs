use std::path::Path;

use rocade_core::config::parse_config_json;
use tokio::time::timeout;

use super::*;

const HANG: Duration = Duration::from_secs(30);

/// A host with one RoCE HCA without PCI function, made of files.
fn write_hca(host: &Path, name: &str, state: &str) {
    let write = |path: &str, text: &str| {
        let path = host.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let port = format!("sys/class/infiniband/{name}/ports/1");
    write(&format!("{port}/state"), state);
    write(&format!("{port}/link_layer"), "InfiniBand\n");
    write(&format!("{port}/gids/0"), "fe80:0000:0000:0000:0000:0000:0000:0001\n");
}

#[tokio::test]
async fn a_host_that_changed_is_published_at_the_interval_that_was_asked_for() {
    let host = tempfile::tempdir().unwrap();
    write_hca(host.path(), "mlx5_0", "4: ACTIVE\n");
    let text = r#"{"periodicUpdateInterval": 1, "configList": [
        {"resourceName": "a", "rdmaHcaMax": 1, "selectors": {"ifNames": ["eth1"]}}]}"#;
    let setup = Setup {
        config: Arc::new(parse_config_json("config.json", text, true).unwrap().0),
        root: Arc::new(Root::live(host.path()).unwrap()),
        reload: None,
        pod_resources: host.path().join("kubelet.sock"),
    };
    let (node, mut states) = Node::new(setup, mpsc::unbounded_channel());
    let node = tokio::spawn(node.run());
    let mut wait = async |count| {
        let looked =
            |state: &Arc<NodeState>| state.look.is_some() && state.resources[0].pool.left_out.len() == count;
        timeout(HANG, states.wait_for(looked)).await.unwrap().unwrap();
    };
    wait(1).await;
    std::fs::remove_dir_all(host.path().join("sys/class/infiniband/mlx5_0")).unwrap();
    wait(0).await;
    node.abort();
}
