use std::time::Duration;

use rocade_core::config::{Config, Publish, parse_config_json};
use rocade_host::Root;
use tokio::time::{sleep, timeout};

use super::*;
use crate::node::state_of;

fn state(host: &str, publish: Publish) -> Arc<NodeState> {
    let host = format!("{}/../../fixtures/hosts/{host}.host", env!("CARGO_MANIFEST_DIR"));
    let text =
        r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}]}"#;
    let config = parse_config_json("config.json", text, true).unwrap().0;
    state_of(Root::open(host).unwrap(), Config { publish, ..config })
}

fn publish(labels: Labels) -> Publish {
    Publish { labels, ..Publish::default() }
}

async fn wait_for(is: impl Fn() -> bool) {
    let looks = async {
        while !is() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(30), looks).await.expect("it comes about");
}

#[tokio::test]
async fn the_feature_file_is_written_whole_and_taken_away_when_it_is_turned_off() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    let (write, states) = watch::channel(state("seed-4hca-bond", publish(Labels::Nfd)));
    let run = tokio::spawn(run_feature_file(temp.path().to_owned(), Memory::read(None), states));
    wait_for(|| path.exists()).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("rdma.rocade.dev/hcas=4\n") && !text.contains("feature.node"), "{text}");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    write.send_replace(state("seed-4hca-bond", publish(Labels::Off)));
    wait_for(|| !path.exists()).await;
    run.abort();
}

#[tokio::test]
async fn a_file_that_an_earlier_agent_left_is_taken_away_by_one_that_was_not_asked_for_labels() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(FILE);
    fs::write(&path, "rdma.rocade.dev/capable=true\n").unwrap();
    fs::write(temp.path().join("another"), "x=y\n").unwrap();
    let (_write, states) = watch::channel(state("seed-4hca-bond", publish(Labels::Off)));
    let run = tokio::spawn(run_feature_file(temp.path().to_owned(), Memory::read(None), states));
    wait_for(|| !path.exists()).await;
    assert!(temp.path().join("another").exists());
    run.abort();
}

#[test]
fn what_ports_showed_since_boot_outlives_the_agent() {
    let temp = tempfile::tempdir().unwrap();
    let up = state("seed-4hca-bond", Publish::default());
    let mut down = (*up.host).clone();
    down.hcas.iter_mut().flat_map(|hca| &mut hca.ports).for_each(|port| port.state = Some("DOWN".into()));
    let before = Memory::read(Some(temp.path())).labels(&up.host, false);
    assert_eq!(before["rdma.rocade.dev/ports-active-at-boot"], "4");
    assert_eq!(Memory::read(Some(temp.path())).labels(&down, false), before);
    assert_eq!(Memory::read(None).labels(&down, false)["rdma.rocade.dev/ports-active-at-boot"], "0");
}
