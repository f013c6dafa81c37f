//! rocade's agent beside the k8s-rdma-shared-dev-plugin, in one run: the same recorded host laid out as files, the same
//! config.json, the same fake kubelet, each call through the socket. Prints each figure with its spread and as a part
//! of the peer's; exit code 1 where a goal is missed, 2 where something could not be measured.
//! `ROCADE_BENCH_ROUNDS` starts of each (10); `ROCADE_BENCH_IDLE_S` seconds idle (60), beside one another.

mod plugins;
mod table;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rocade_lab::cache::Cache;
use rocade_lab::fake_kubelet::{FakeKubelet, Registered};
use rocade_lab::stage::{Player, Stage};
use rocade_lab::steps::Steps;
use rocade_lab::{host_packages, interrupt, peer, preflight};

use plugins::Plugin;
use table::{Goal, Row};

const ROCADE_LAB: &str = env!("CARGO_BIN_EXE_rocade-lab");
const CALLS: usize = 1000;
const SLOTS: usize = 100;
const MANY_SLOTS: usize = 64_000;

/// What one run of a plugin gave.
#[derive(Debug)]
struct Figures {
    start_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    peak_mib: f64,
    list_bytes: usize,
}

/// A plugin that the fake kubelet watches.
struct Running {
    player: Player,
    registered: Registered,
    ids: Vec<String>,
    list_bytes: usize,
    // Last, so that what it watches ends before it.
    _kubelet: FakeKubelet,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let measured = runtime.context("start the event loop").and_then(|runtime| runtime.block_on(measure()));
    match measured {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("beside_the_peer: {error:#}");
            ExitCode::from(2)
        }
    }
}

async fn measure() -> Result<bool> {
    interrupt::install()?;
    let cache = Cache::open(Steps::new())?;
    preflight::require(&cache)?;
    host_packages::install(&cache)?;
    let (rocade, peer) = (Plugin::rocade(&cache)?, Plugin::peer(&cache)?);
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    let mut stages = [
        Stage::start(&cache, &host, Path::new(ROCADE_LAB))?,
        Stage::start(&cache, &host, Path::new(ROCADE_LAB))?,
    ];
    let rounds = number("ROCADE_BENCH_ROUNDS", 10)?;
    let idle = Duration::from_secs(number("ROCADE_BENCH_IDLE_S", 60)?);
    println!(
        "rocade beside k8s-rdma-shared-dev-plugin {}, seed-4hca-bond, 4 HCAs in one resource",
        peer::version()?
    );
    println!(
        "{rounds} runs of each in turn, {CALLS} calls of Allocate in each, then {} s idle",
        idle.as_secs()
    );

    let (mut ours, mut theirs, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(run_once(&mut stages[0], &rocade, SLOTS).await?);
        theirs.push(run_once(&mut stages[1], &peer, SLOTS).await?);
    }
    for _ in 0..3 {
        many.push(run_once(&mut stages[0], &rocade, MANY_SLOTS).await?);
    }
    let [(our_switches, our_peak), (their_switches, their_peak)] =
        run_idle(&mut stages, [&rocade, &peer], idle).await?;

    let of = |figures: &[Figures], value: fn(&Figures) -> f64| figures.iter().map(value).collect::<Vec<_>>();
    let row = |name, unit, value, goal| Row::new(name, unit, of(&ours, value), of(&theirs, value), goal);
    let rows = [
        row("start to Register", "ms", |f| f.start_ms, Goal::Part(1.0 / 3.0)),
        row("Allocate, p50", "ms", |f| f.p50_ms, Goal::Part(2.0 / 3.0)),
        row("Allocate, p99", "ms", |f| f.p99_ms, Goal::Part(1.0 / 2.0)),
        row("VmHWM", "MiB", |f| f.peak_mib, Goal::Part(1.0 / 3.0)),
        Row::new("VmHWM, also idle", "MiB", vec![our_peak], vec![their_peak], Goal::Part(1.0 / 3.0)),
        Row::new("switches a minute", "", vec![our_switches], vec![their_switches], Goal::AtMost(1.0)),
        // 10 MB as the unit is defined.
        Row::new(
            "VmHWM, 64000 slots",
            "MiB",
            of(&many, |f| f.peak_mib),
            Vec::new(),
            Goal::AtMost(1e7 / 1_048_576.0),
        ),
    ];
    println!("the list of {MANY_SLOTS} devices has {} bytes; a kubelet takes 4194304", many[0].list_bytes);
    Ok(table::print(&rows))
}

async fn run_once(stage: &mut Stage, plugin: &Plugin, slots: usize) -> Result<Figures> {
    let mut running = start(stage, plugin, slots).await?;
    let start = running.registered.at.duration_since(running.player.started()?)?;
    let (p50_ms, p99_ms) = allocate(&mut running).await.with_context(|| running.player.said())?;
    plugin.scrape(stage)?;
    let peak_mib = running.player.peak_kib()? as f64 / 1024.0;
    let list_bytes = running.list_bytes;
    stage.end(running.player)?;
    Ok(Figures { start_ms: start.as_secs_f64() * 1e3, p50_ms, p99_ms, peak_mib, list_bytes })
}

/// Both at once: voluntary switches a minute, and MiB after calls of Allocate that follow.
async fn run_idle(stages: &mut [Stage; 2], plugins: [&Plugin; 2], idle: Duration) -> Result<[(f64, f64); 2]> {
    let [one, other] = stages;
    let mut running = [start(one, plugins[0], SLOTS).await?, start(other, plugins[1], SLOTS).await?];
    // What belongs to the start is over by then.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let count = |running: &[Running; 2]| -> Result<[u64; 2]> {
        Ok([running[0].player.voluntary_switches()?, running[1].player.voluntary_switches()?])
    };
    let before = count(&running)?;
    tokio::time::sleep(idle).await;
    let after = count(&running)?;
    let mut figures = [(0.0, 0.0); 2];
    for (i, (running, stage)) in running.iter_mut().zip([&*one, &*other]).enumerate() {
        allocate(running).await?;
        plugins[i].scrape(stage)?;
        let switches = after[i].saturating_sub(before[i]) as f64 * 60.0 / idle.as_secs_f64();
        figures[i] = (switches, running.player.peak_kib()? as f64 / 1024.0);
    }
    let [first, second] = running;
    one.end(first.player)?;
    other.end(second.player)?;
    Ok(figures)
}

async fn start(stage: &mut Stage, plugin: &Plugin, slots: usize) -> Result<Running> {
    let config = plugins::write_config(stage.folder(), slots)?;
    let mut kubelet = FakeKubelet::listen(&stage.plugin_dir())?;
    let player = stage.play(&plugin.command(&config))?;
    let watched = async {
        let mut registered = kubelet.next().await?;
        let (ids, bytes) = registered.list().await?;
        ensure!(registered.resource == plugins::RESOURCE, "{} registered", registered.resource);
        ensure!(ids.len() == slots, "{} devices were listed, not {slots}", ids.len());
        Ok((registered, ids, bytes))
    };
    let (registered, ids, list_bytes) = watched.await.with_context(|| player.said())?;
    Ok(Running { player, registered, ids, list_bytes, _kubelet: kubelet })
}

/// p50 and p99 in milliseconds.
async fn allocate(running: &mut Running) -> Result<(f64, f64)> {
    let mut took = Vec::with_capacity(CALLS);
    for call in 0..CALLS {
        let id = &running.ids[call % running.ids.len()];
        let (time, nodes) = running.registered.allocate(id).await?;
        // Four HCAs with three nodes each, and rdma_cm: once, or as the peer has it once for each.
        ensure!(nodes == 13 || nodes == 16, "{nodes} device nodes were granted");
        took.push(time.as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    Ok((took[CALLS / 2], took[CALLS * 99 / 100]))
}

fn number(variable: &str, default: u64) -> Result<u64> {
    let value = std::env::var(variable).map_or(Ok(default), |text| text.parse());
    let value = value.with_context(|| format!("{variable} must be a number"))?;
    ensure!(value > 0, "{variable} must be 1 or more");
    Ok(value)
}
