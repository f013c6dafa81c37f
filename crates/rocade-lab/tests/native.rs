//! The agent beside a real kubelet that is restarted again and again, on the native node: `ROCADE_NATIVE_RESTARTS`
//! times (20). Run by `make test`; needs root, and fails where something is missing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use rocade_lab::cache::Cache;
use rocade_lab::native::pod_resources::Devices;
use rocade_lab::native::{NativeNode, Options, Signal, cgroups};
use rocade_lab::steps::Steps;
use rocade_lab::traces::Traces;
use rocade_lab::{interrupt, product};

/// Set in a process of this test that only starts a node, says `up` and waits to be killed.
const HOLD: &str = "ROCADE_NATIVE_HOLD";

const RESOURCES: [&str; 3] = ["rdma/hca_ens18", "rdma/hca_ens20", "rdma/hca_ens21"];
const SLOTS: usize = 100;

/// Sysctls that a kubelet writes where it can.
const SYSCTLS: [&str; 4] =
    ["vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"];

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

/// The machine as it was.
#[derive(Debug)]
struct Before {
    traces: Traces,
    sysctls: Vec<String>,
    places: BTreeSet<&'static str>,
}

type Shared = Arc<Mutex<Option<NativeNode>>>;

fn trials() -> Vec<Trial> {
    let before =
        Before { traces: traces().expect("the machine's traces"), sysctls: sysctls(), places: places() };
    let (before, node) = (Arc::new(before), Shared::default());
    let (to_node, restarted, ended) = (node.clone(), node.clone(), node);
    let (killed, interrupted) = (before.clone(), before.clone());
    vec![
        trial("native: the node starts and lists every device", move || {
            let node = start()?;
            let listed = node.wait_for_allocatable(is_full).map(drop);
            node.with_logs(listed)?;
            *to_node.lock().expect("no trial panics") = Some(node);
            Ok(())
        }),
        trial("native: each new kubelet lists every device and admits a Pod", move || {
            let mut node = restarted.lock().expect("no trial panics");
            let node = node.as_mut().context("not run: the node did not start")?;
            let result = restart_kubelets(node);
            node.with_logs(result)
        }),
        trial("native: nothing is left when it has ended", move || {
            let node = ended.lock().expect("no trial panics").take();
            node.context("not run: the node did not start")?.stop()?;
            nothing_beyond(&before)
        }),
        trial("native: nothing runs on when its process is killed", move || end_process("-KILL", &killed)),
        trial("native: nothing is left when its process is interrupted", move || {
            end_process("-INT", &interrupted)
        }),
    ]
}

fn trial(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || run().map_err(|error| Failed::from(format!("{error:#}"))))
}

fn start() -> Result<NativeNode> {
    let cache = Cache::open(Steps::new())?;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let options = Options {
        rocade: product::build(cache.steps())?,
        host: fixtures.join("hosts/seed-4hca-bond.host"),
        config: fixtures.join("configs/three-rails.json"),
    };
    NativeNode::start(&cache, options)
}

fn traces() -> Result<Traces> {
    Traces::read(&Cache::open(Steps::new())?)
}

fn is_full(devices: &Devices) -> bool {
    RESOURCES.iter().all(|resource| devices.get(*resource).is_some_and(|ids| ids.len() == SLOTS))
}

fn restart_kubelets(node: &mut NativeNode) -> Result<()> {
    let restarts = std::env::var("ROCADE_NATIVE_RESTARTS").map_or(Ok(20), |n| n.parse())?;
    ensure!(restarts > 0, "ROCADE_NATIVE_RESTARTS must be 1 or more");
    let (mut listed, mut admitted, mut earlier) = (Vec::new(), Vec::new(), None::<(String, Devices)>);
    for round in 0..restarts {
        let begun = Instant::now();
        node.restart_kubelet(if round % 2 == 0 { Signal::Term } else { Signal::Kill })?;
        node.wait_for_allocatable(is_full)?;
        listed.push(begun.elapsed());
        let pod = format!("probe-{round}");
        let nodes = node.run_probe(&pod, &RESOURCES)?;
        admitted.push(begun.elapsed());
        let wanted = "issm0 issm3 issm4 rdma_cm umad0 umad3 umad4 uverbs0 uverbs3 uverbs4";
        ensure!(nodes == wanted.split(' ').collect::<Vec<_>>(), "{pod} has {nodes:?}");
        let held = node.granted(&pod)?.with_context(|| format!("the kubelet does not know {pod}"))?;
        ensure!(
            RESOURCES.iter().all(|r| held.get(*r).is_some_and(|ids| ids.len() == 1)),
            "{pod} holds {held:?}"
        );
        if let Some((pod, held)) = earlier.replace((pod, held)) {
            let kept = node.granted(&pod)?;
            ensure!(kept.as_ref() == Some(&held), "{pod} held {held:?} and after the restart {kept:?}");
            node.remove_probe(&pod)?;
        }
    }
    println!("  {restarts} kubelets: every device listed after {}", summary(&mut listed));
    println!("  {restarts} kubelets: a new Pod running after {}", summary(&mut admitted));
    Ok(())
}

fn summary(times: &mut [Duration]) -> String {
    times.sort();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    format!("{:.2} s (median), {:.2} s (slowest)", median.as_secs_f64(), slowest.as_secs_f64())
}

/// Starts a node in a process of its own and sends that a signal which ends it.
fn end_process(signal: &str, before: &Before) -> Result<()> {
    let mut process = Command::new(std::env::current_exe()?).env(HOLD, "1").stdout(Stdio::piped()).spawn()?;
    let mut said = String::new();
    BufReader::new(process.stdout.take().context("no stdout")?).read_line(&mut said)?;
    Command::new("kill").args([signal, &process.id().to_string()]).status()?;
    process.wait()?;
    ensure!(said == "up\n", "the process said {said:?}");
    nothing_beyond(before)
}

/// The kernel takes namespaces down a moment after their last process.
fn nothing_beyond(before: &Before) -> Result<()> {
    let begun = Instant::now();
    loop {
        let (now, groups) = (traces()?, cgroups::groups()?);
        let left = now.beyond(&before.traces);
        if left.is_empty() && groups.is_empty() {
            break;
        }
        ensure!(begun.elapsed() < Duration::from_secs(20), "left behind: {left:?} {groups:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(sysctls() == before.sysctls, "sysctls were {:?} and are {:?}", before.sysctls, sysctls());
    ensure!(places() == before.places, "there were {:?} and are {:?}", before.places, places());
    Ok(())
}

/// Those that kubelet and containerd make where they can.
fn places() -> BTreeSet<&'static str> {
    let places = ["/var/lib/kubelet", "/dev/infiniband", "/etc/cni", "/var/log/pods", "/var/log/containers"];
    places.into_iter().filter(|place| Path::new(place).exists()).collect()
}

fn sysctls() -> Vec<String> {
    let read = |key: &&str| fs::read_to_string(Path::new("/proc/sys").join(key)).unwrap_or_default();
    SYSCTLS.iter().map(read).collect()
}
