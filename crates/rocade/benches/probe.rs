//! What `rocade verify --probe` costs in a Pod, against an empty Rust program and against `true`: system calls, by strace,
//! and time. The Pod is made: /sys, /dev and the network in namespaces of their own, with /dev/null and its like in place of verbs
//! devices, so that the verdict is PASS. `cargo bench --package rocade --bench probe`; needs root, strace, unshare and ip.
//! Exit code 1 where more than the goal does not depend on HCAs, 2 where it could not be measured.

#![allow(clippy::unwrap_used, reason = "what is missing here ends the benchmark")]

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

#[path = "probe/pod.rs"]
mod pod;

/// System calls beyond those of an empty program that no HCA accounts for, at most.
const MOST: usize = 40;
const RUNS: usize = 300;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[1..] {
        [mode, granted, empty, scratch] if mode == "inside" => {
            inside(granted, Path::new(empty), Path::new(scratch))
        }
        _ => run(),
    }
}

/// As cargo runs it.
fn run() -> ExitCode {
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let empty = build_empty(scratch.path());
    let count = |granted: usize, seen: usize| {
        let told = in_pod(scratch.path(), &empty, granted, seen);
        let numbers: Vec<f64> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [calls, empty, probe_us, true_us] = numbers[..] else { panic!("{told}") };
        println!(
            "{granted} granted of {seen} seen: {calls} system calls, an empty program {empty}; {probe_us:.0} us, `true` \
             {true_us:.0} us, ratio {:.2}",
            probe_us / true_us
        );
        (calls as usize, empty as usize)
    };
    let ((one, empty), (two, _), (one_of_two, _)) = (count(1, 1), count(2, 2), count(1, 2));
    let independent = 2 * one - two - empty;
    println!("an HCA that is granted: {}, one that is only seen: {}", two - one, one_of_two - one);
    let is_met = independent <= MOST;
    let word = if is_met { "met" } else { "MISSED" };
    println!("independent of HCAs, beyond an empty program: {independent}, goal {MOST}: {word}");
    if is_met { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// An empty program, built as the product is.
fn build_empty(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("empty.rs"), dir.join("empty"));
    fs::write(&source, "fn main() {}\n").unwrap();
    let flags = ["-Copt-level=s", "-Clto=fat", "-Ccodegen-units=1", "-Cpanic=abort", "-Cstrip=symbols"];
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc).args(flags).arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(status.success(), "rustc: {status}");
    program
}

/// This program again, inside a Pod that is made of so many HCAs; gives what it prints.
fn in_pod(scratch: &Path, empty: &Path, granted: usize, seen: usize) -> String {
    let tree = scratch.join(format!("{granted}-{seen}"));
    pod::lay_out(&tree, granted, seen).unwrap();
    let names: Vec<String> = (0..granted).map(|n| format!("mlx5_{n}:1")).collect();
    let output = pod::enter(&tree, seen)
        .arg(env::current_exe().unwrap())
        .args(["inside", &names.join(",")])
        .args([empty, scratch])
        .stderr(Stdio::inherit())
        .output()
        .expect("unshare is installed");
    if output.status.code() != Some(0) {
        eprintln!("probe: a Pod of {seen} HCAs could not be measured: {}", output.status);
        std::process::exit(2);
    }
    String::from_utf8(output.stdout).unwrap()
}

/// In the Pod: prints system calls of the probe and of the empty program, and microseconds of the probe and of `true`.
fn inside(granted: &str, empty: &Path, scratch: &Path) -> ExitCode {
    let probe = || {
        let mut probe = Command::new(env!("CARGO_BIN_EXE_rocade"));
        probe.args(["verify", "--probe"]).env_clear();
        probe.env(pod::IN_KUBERNETES.0, pod::IN_KUBERNETES.1).env(pod::GRANT, granted);
        probe
    };
    let calls = [calls(&probe(), scratch), calls(&Command::new(empty), scratch)];
    let (mut of_probe, mut of_true) = (Vec::new(), Vec::new());
    // In turn, so that both meet the same noise.
    for _ in 0..RUNS {
        of_probe.push(microseconds(probe()));
        of_true.push(microseconds(Command::new("true")));
    }
    println!("{} {} {} {}", calls[0], calls[1], median(of_probe), median(of_true));
    ExitCode::SUCCESS
}

/// System calls from exec to exit, of all threads.
fn calls(program: &Command, scratch: &Path) -> usize {
    let trace = scratch.join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "signal=none", "-o"]).arg(&trace);
    strace.arg(program.get_program()).args(program.get_args()).env_clear();
    strace.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let status = strace.status().expect("strace is installed");
    assert!(status.success() && status.signal().is_none(), "{program:?}: {status}: no PASS");
    // A call that another thread interrupted is printed in two parts.
    fs::read_to_string(&trace).unwrap().lines().filter(|line| !line.contains(" resumed>")).count()
}

fn microseconds(mut program: Command) -> f64 {
    let start = Instant::now();
    assert!(program.status().unwrap().success(), "{program:?}");
    start.elapsed().as_secs_f64() * 1e6
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
