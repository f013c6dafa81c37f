//! What reading a host costs, in one process: read and parse of a tree on tmpfs, against a bare open-read-close loop by
//! resolved paths over just the files that were needed. The files are taken from strace, so that both sides are what
//! they say. `cargo bench --package rocade-host --bench reading`; exit code 1 where a goal is missed.

#![allow(clippy::unwrap_used, reason = "what is missing here ends the benchmark")]

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rocade_core::Host;
use rocade_host::{Archive, Patience, Root, Scope, read_parts, read_patiently};
use rustix::fs::{CWD, Mode, OFlags};

#[path = "reading/lay_out.rs"]
mod lay_out;
#[path = "reading/made.rs"]
mod made;

/// At most this many times the bare loop, and for the agent this part of a whole reading.
const MOST_OF_BARE: f64 = 1.5;
const MOST_OF_WHOLE: f64 = 0.5;
/// Peak memory with 512 HCAs.
const MOST_KIB: u64 = 16 << 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[1..] {
        // As strace runs it, and to see the memory of a reading alone.
        [mode, dir, scope] if mode == "once" => {
            black_box(read(Path::new(dir), scope_of(scope)));
            let status = fs::read_to_string("/proc/self/status").unwrap();
            print!("{}", status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap());
            ExitCode::SUCCESS
        }
        _ => run(),
    }
}

fn run() -> ExitCode {
    let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/ib-sriov-40-devices.host");
    let recorded = scratch.path().join("recorded");
    lay_out::lay_out(&Archive::parse(&fs::read(fixture).unwrap()).unwrap(), &recorded).unwrap();
    let mut hosts = vec![("recorded 40 devices".to_owned(), recorded)];
    for hcas in [64, 128, 256, 512] {
        let dir = scratch.path().join(hcas.to_string());
        made::lay_out(&dir, hcas).unwrap();
        hosts.push((format!("made {hcas} HCAs, 128 GIDs"), dir));
    }
    println!(
        "{:24} {:>6} {:>7} {:>6} {:>6} {:>6} {:>6}  whole ms  bare ms  ratio  agent ms  of whole  us/HCA",
        "host", "files", "per HCA", "GID", "port", "device", "other"
    );
    let mut met = true;
    for (name, dir) in &hosts {
        met &= measure(name, dir);
    }
    let kib = peak_kib(&hosts.last().unwrap().1);
    println!("VmHWM with 512 HCAs: {kib} KiB, goal {MOST_KIB} KiB");
    println!(
        "goals: ratio at most {MOST_OF_BARE}, agent at most {MOST_OF_WHOLE} of whole: {}",
        if met { "met" } else { "MISSED" }
    );
    if met && kib <= MOST_KIB { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn measure(name: &str, dir: &Path) -> bool {
    let needed = needed_files(dir, "all");
    let hcas = fs::read_dir(dir.join("sys/class/infiniband")).unwrap().count();
    let (mut whole, mut bare, mut agent) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that all meet the same noise.
    let start = Instant::now();
    while whole.len() < 15 || start.elapsed() < Duration::from_secs(3) && whole.len() < 200 {
        whole.push(time(|| drop(black_box(read(dir, Scope::ALL)))));
        bare.push(time(|| read_bare(&needed)));
        agent.push(time(|| drop(black_box(read(dir, Scope::GRANTS)))));
    }
    let [whole, bare, agent] = [whole, bare, agent].map(median);
    let count =
        |is_it: &dyn Fn(&str) -> bool| needed.iter().filter(|path| is_it(path.to_str().unwrap())).count();
    let gids = count(&|path| path.contains("/gids/") || path.contains("/gid_attrs/"));
    let ports = count(&|path| path.contains("/ports/")) - gids;
    let devices = count(&|path| path.contains("/infiniband/") && path.contains("/devices/")) - ports - gids;
    println!(
        "{name:24} {:6} {:7.1} {gids:6} {ports:6} {devices:6} {:6}  {:8.2} {:8.2}  {:5.2}  {:8.2}  {:8.2}  {:6.1}",
        needed.len(),
        needed.len() as f64 / hcas as f64,
        needed.len() - gids - ports - devices,
        whole * 1e3,
        bare * 1e3,
        whole / bare,
        agent * 1e3,
        agent / whole,
        whole * 1e6 / hcas as f64,
    );
    whole / bare <= MOST_OF_BARE && agent / whole <= MOST_OF_WHOLE
}

fn read(dir: &Path, scope: Scope) -> Host {
    let root = Root::live(dir).unwrap();
    read_patiently(&root, Patience::default(), move |root| read_parts(root, scope)).0
}

fn scope_of(name: &str) -> Scope {
    if name == "all" { Scope::ALL } else { Scope::GRANTS }
}

fn read_bare(files: &[PathBuf]) {
    let mut page = [0; 4096];
    for file in files {
        let fd = rustix::fs::openat(CWD, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        black_box(rustix::io::read(&fd, &mut page).unwrap());
    }
}

/// The files that a reading opened for their content, each once, by their real paths.
fn needed_files(dir: &Path, scope: &str) -> Vec<PathBuf> {
    let trace = dir.with_extension("trace");
    let this = env::current_exe().unwrap();
    let status = Command::new("strace")
        .args(["-f", "-y", "-qq", "-s", "0", "-e", "trace=openat,openat2", "-e", "signal=none", "-o"])
        .arg(&trace)
        .arg(this)
        .args(["once", dir.to_str().unwrap(), scope])
        .output()
        .expect("strace is installed");
    assert!(status.status.success());
    let mut seen = std::collections::HashSet::new();
    let trace = fs::read_to_string(trace).unwrap();
    let opened = trace.lines().filter(|line| !line.contains("O_DIRECTORY") && !line.contains("O_PATH"));
    let paths = opened.filter_map(|line| {
        let (_, path) = line.rsplit_once(" = ")?.1.split_once('<')?;
        Some(PathBuf::from(path.strip_suffix('>')?))
    });
    paths.filter(|path| path.starts_with(dir) && seen.insert(path.clone())).collect()
}

fn peak_kib(dir: &Path) -> u64 {
    let output = Command::new(env::current_exe().unwrap()).arg("once").arg(dir).arg("all").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
