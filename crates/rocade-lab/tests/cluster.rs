//! The chain on the two-node cluster, a test for each row, and what a lab leaves behind. Rows run in their order, on
//! one cluster. Run by `make test`; needs root, and fails where something is missing. `ROCADE_ROWS=macvlan,memlock` runs
//! the rows whose names hold one of the words, with the cluster's start and end.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use rocade_lab::cache::Cache;
use rocade_lab::chain::{self, Binary, Chain, Row, Seen};
use rocade_lab::cluster::{Cluster, Options};
use rocade_lab::steps::Steps;
use rocade_lab::traces::Traces;
use rocade_lab::{interrupt, product};

const START: &str = "lab: the cluster starts";
const END: &str = "lab: nothing is left when it has ended";

/// Shared by the trials; taken by the one that ends it.
type Shared<T> = Arc<Mutex<Option<T>>>;

fn main() {
    interrupt::install().expect("signal handlers");
    // Each row builds on those before it.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let mut trials = trials();
    if let Ok(words) = std::env::var("ROCADE_ROWS") {
        trials.retain(|trial| words.split(',').chain([START, END]).any(|word| trial.name().contains(word)));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn trials() -> Vec<Trial> {
    let before = Arc::new(traces().expect("the machine's processes, mounts and interfaces"));
    let (chain, binary) = (Shared::<Chain>::default(), Shared::<Binary>::default());
    let mut trials = vec![
        trial("lab: without root it says so before anything long", without_root),
        trial("lab: without /dev/net/tun it says so before anything long", without_tun),
        trial("lab: without go it says so before anything long", without_go),
    ];
    for (signal, end) in [("INT", (Some(130), None)), ("KILL", (None, Some(9)))] {
        let before = before.clone();
        let name = format!("lab: SIG{signal} in the midst of a start leaves nothing");
        trials.push(trial(&name, move || interrupted_start(signal, end, &before)));
    }
    let (to_chain, to_binary) = (chain.clone(), binary.clone());
    trials.push(trial(START, move || start(&to_chain, &to_binary)));
    trials.extend(chain::recorded_rows().into_iter().map(|row| row_trial(row, &binary, |_, error| error)));
    let logs = |chain: &Chain, error| chain.cluster.with_logs(error);
    let rows = chain::exclusive_rows()
        .into_iter()
        .chain(chain::cluster_rows())
        .chain(chain::limit_rows())
        .chain(chain::verified_rows())
        .chain(chain::matrix_rows())
        .chain(chain::broken_rows())
        .chain(chain::serving_rows())
        .chain(chain::stock_name_rows())
        .chain(chain::agreement_rows())
        .chain(chain::recording_rows())
        .chain(chain::watching_rows())
        .chain(chain::timing_rows())
        .chain(chain::reported_rows())
        .chain(chain::asked_rows())
        .chain(chain::survival_rows())
        .chain(chain::link_rows());
    trials.extend(rows.map(|row| row_trial(row, &chain, logs)));
    trials.push(trial(END, move || end(&chain, &before)));
    trials
}

fn trial(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || run().map_err(|error| Failed::from(format!("{error:#}"))))
}

fn row_trial<C: Send + 'static>(
    row: Row<C>,
    bench: &Shared<C>,
    explain: fn(&C, anyhow::Error) -> anyhow::Error,
) -> Trial {
    let bench = bench.clone();
    trial(row.name, move || {
        let bench = bench.lock().expect("no trial panics");
        let bench = bench.as_ref().context("not run: the cluster did not start")?;
        match (row.run)(bench).map_err(|error| explain(bench, error))? {
            Seen::Passed { verdict, .. } => println!("  {verdict}"),
            Seen::NotProven { reason } => bail!("not proven: {reason}"),
        }
        Ok(())
    })
}

fn start(chain: &Shared<Chain>, binary: &Shared<Binary>) -> Result<()> {
    let cache = Cache::open(Steps::new())?;
    let rocade = product::build(cache.steps())?;
    *binary.lock().expect("no trial panics") = Some(Binary::of(&rocade));
    let cluster = Cluster::start(&cache, &Options { rocade: Some(rocade.clone()), ..Options::default() })?;
    product::give(&cache, &cluster, &rocade)?;
    *chain.lock().expect("no trial panics") = Some(Chain::on(cluster));
    Ok(())
}

fn end(chain: &Shared<Chain>, before: &Traces) -> Result<()> {
    let chain =
        chain.lock().expect("no trial panics").take().context("not run: the cluster did not start")?;
    chain.cluster.stop()?;
    nothing_beyond(before)
}

fn traces() -> Result<Traces> {
    Traces::read(&Cache::open(Steps::new())?)
}

/// The kernel takes namespaces down a moment after their last process.
fn nothing_beyond(before: &Traces) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = traces()?;
        let left = now.beyond(before);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < Duration::from_secs(20), "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// `end` is the exit code, or the signal, that the demo must end with. Its stderr is not read any more by then.
fn interrupted_start(signal: &str, end: (Option<i32>, Option<i32>), before: &Traces) -> Result<()> {
    let mut demo = lab(&["demo"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let said = read_until(&mut demo, "waiting for the API server")?;
    let pid = demo.id().to_string();
    Command::new("kill").args(["-s", signal, &pid]).status()?;
    let status = demo.wait()?;
    ensure!((status.code(), status.signal()) == end, "an interrupted start says {status}: {said}");
    nothing_beyond(before)
}

fn read_until(child: &mut Child, mark: &str) -> Result<String> {
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().context("no stderr")?).lines() {
        let line = line?;
        eprintln!("{line}");
        said += &format!("{line}\n");
        if line.contains(mark) {
            return Ok(said);
        }
    }
    bail!("ended before it said `{mark}`: {said}");
}

fn without_root() -> Result<()> {
    // In a user namespace without a mapping every right is gone, while root's files stay readable.
    refused(
        Command::new("unshare").args(["--user", env!("CARGO_BIN_EXE_rocade-lab"), "demo"]).output()?,
        "root",
    )
}

fn without_tun() -> Result<()> {
    let script = "mount -t tmpfs none /dev/net && exec \"$0\" demo";
    let mut command = Command::new("unshare");
    refused(
        command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_rocade-lab")]).output()?,
        "/dev/net/tun",
    )
}

fn without_go() -> Result<()> {
    let empty = tempfile::tempdir()?;
    refused(lab(&["demo"]).env("PATH", empty.path()).output()?, "no go: ")
}

/// Exit code 2, one error that names what lacks and what to do, and no step begun.
fn refused(output: Output, lacking: &str) -> Result<()> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2), "{}: {said}", output.status);
    ensure!(said.contains(lacking), "`{lacking}` is not named: {said}");
    ensure!(!said.contains(" …"), "something was begun: {said}");
    Ok(())
}

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocade-lab"));
    command.args(arguments);
    command
}
