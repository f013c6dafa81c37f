//! The agent beside a real kubelet, on the native node: whatever befalls either of them or the directory between them,
//! every device is listed again, a new Pod is admitted, and every Pod keeps what it was granted. How often each thing
//! befalls them is told by `ROCADE_NATIVE_RESTARTS`, `_KILLS`, `_UPDATES` and `_MISHAPS` (5 each), the kubelet's release
//! by `ROCADE_NATIVE_KUBERNETES` (1.37). Needs root, and fails where something is missing.

mod grants;
mod left_behind;
mod rounds;
mod takeover;

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use rocade_lab::cache::Cache;
use rocade_lab::native::pod_resources::Devices;
use rocade_lab::native::{NativeNode, Options};
use rocade_lab::steps::Steps;
use rocade_lab::{interrupt, product};

use left_behind::Before;

/// Set in a process of this test that only starts a node, says `up` and waits to be killed.
const HOLD: &str = "ROCADE_NATIVE_HOLD";

const RESOURCES: [&str; 3] = ["rdma/hca_ens18", "rdma/hca_ens20", "rdma/hca_ens21"];
const SLOTS: usize = 100;

fn main() {
    interrupt::install().expect("signal handlers");
    if std::env::var_os(HOLD).is_some() {
        let _node = start().expect("the node starts");
        println!("up");
        loop {
            std::thread::park();
        }
    }
    // Each trial builds on those before it.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials()).exit();
}

type Shared = Arc<Mutex<Option<NativeNode>>>;

fn trials() -> Vec<Trial> {
    let before = Arc::new(Before::read().expect("the machine's traces"));
    let (killed, interrupted) = (before.clone(), before.clone());
    let node = Shared::default();
    let (to_node, ended) = (node.clone(), node.clone());
    vec![
        trial("native: the node starts and lists every device", move || {
            let node = start()?;
            let listed = node.wait_for_allocatable(is_full).map(drop);
            node.with_logs(listed)?;
            *to_node.lock().expect("no trial panics") = Some(node);
            Ok(())
        }),
        on(&node, "native: each new kubelet lists every device and admits a Pod", rounds::restart_kubelets),
        on(&node, "native: an agent that was killed is replaced by the next", rounds::kill_agents),
        on(&node, "native: an update by two agents at once loses no capacity", rounds::update_agents),
        on(
            &node,
            "native: sockets that a stranger removed or replaced are made anew",
            rounds::remove_sockets,
        ),
        on(&node, "native: a removed plugin directory costs nothing", rounds::remove_directory),
        on(&node, "native: an agent that starts on a full disk serves when it can", rounds::fill_disk),
        on(
            &node,
            "native: a takeover from the plugin that most have, and back, costs no Pod its grant",
            takeover::take_over,
        ),
        on(&node, "native: a list of 64000 devices reaches the kubelet", takeover::list_many),
        trial("native: nothing is left when it has ended", move || {
            let node = ended.lock().expect("no trial panics").take();
            node.context("not run: the node did not start")?.stop()?;
            before.nothing_beyond()
        }),
        trial("native: nothing runs on when its process is killed", move || killed.end_process("-KILL")),
        trial("native: nothing is left when its process is interrupted", move || {
            interrupted.end_process("-INT")
        }),
    ]
}

fn trial(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || run().map_err(|error| Failed::from(format!("{error:#}"))))
}

/// A trial on the running node.
fn on(node: &Shared, name: &str, run: fn(&mut NativeNode) -> Result<()>) -> Trial {
    let node = node.clone();
    trial(name, move || {
        let mut node = node.lock().expect("no trial panics");
        let node = node.as_mut().context("not run: the node did not start")?;
        let result = run(node);
        node.with_logs(result)
    })
}

fn start() -> Result<NativeNode> {
    let cache = Cache::open(Steps::new())?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let options = Options {
        rocade: product::build(cache.steps())?,
        host: fixtures.join("hosts/seed-4hca-bond.host"),
        config: fixtures.join("configs/three-rails.json"),
        kubernetes: std::env::var("ROCADE_NATIVE_KUBERNETES").as_deref().unwrap_or("1.37").parse()?,
        launcher: env!("CARGO_BIN_EXE_rocade-lab").into(),
    };
    NativeNode::start(&cache, options)
}

fn is_full(devices: &Devices) -> bool {
    RESOURCES.iter().all(|resource| devices.get(*resource).is_some_and(|ids| ids.len() == SLOTS))
}
