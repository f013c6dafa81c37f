//! `rocade verify`: the Pod's PASS or FAIL. The rules are core's; here are the flags, what is read and tried, and the exit
//! code.

mod register;
mod render;
mod traffic;

use std::error::Error;
use std::iter;
use std::mem::ManuallyDrop;

use clap::ValueEnum;
use rocade_core::check::Within;
use rocade_core::host::Limit;
use rocade_core::verify::{Verdict, verify};
use rocade_core::{Host, judge};
use rocade_host::{Root, Scope, read_ipc_lock, read_parts, try_verbs};
use rocade_verbs::VerbsError;

use crate::outcome::{Outcome, print};
use crate::perf::size::parse_size;
use crate::source::Source;

/// Arguments of `rocade verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Register so much memory on each HCA that opens, as 64MiB: the proof that it can be locked
    #[arg(long, value_name = "SIZE", conflicts_with = "from", value_parser = parse_bytes)]
    register: Option<u32>,
    /// Have each granted HCA write to itself and compare the bytes: the proof that it moves them
    #[arg(long, conflicts_with = "from")]
    traffic: bool,
    /// Print nothing, register nothing and send nothing: the exit code alone, for probes and init containers
    #[arg(long, conflicts_with_all = ["register", "traffic", "output"])]
    probe: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people; the first line is the verdict
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

impl Args {
    /// Whether nothing is to be said.
    pub(crate) fn is_probe(&self) -> bool {
        self.probe
    }
}

/// The exit code alone. Read in this thread, without a second one that would go around files that never answer: whoever
/// probes has a time limit.
pub(crate) fn probe(args: &Args) -> anyhow::Result<Outcome> {
    let root = args.source.open()?;
    // The process ends next: the kernel closes what is still open.
    let root = ManuallyDrop::new(root.at_once().unwrap_or(root));
    let mut host = read_parts(&root, Scope::POD);
    judge(&mut host);
    // Without a limit of locked memory no right has to lift it.
    let is_limited = host.memlock.is_none_or(|memlock| memlock.soft != Limit::Unlimited);
    let ipc_lock = if is_limited { read_ipc_lock(&root) } else { None };
    let within = Within { tried: try_verbs(&root, &host), ipc_lock, ..Within::default() };
    Ok(outcome(&verify(&host, &within)))
}

/// Reads, tries, judges and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (host, mut within) = args.source.read_by(read)?;
    if let Some(bytes) = args.register {
        register::on_each(&host, bytes, &mut within);
    }
    if args.traffic {
        traffic::on_each(&host, &mut within);
    }
    let verdict = verify(&host, &within);
    print(&shown(args.output, &verdict)?)?;
    Ok(outcome(&verdict))
}

fn outcome(verdict: &Verdict) -> Outcome {
    if verdict.pass { Outcome::Good } else { Outcome::Failed }
}

fn shown(form: Form, verdict: &Verdict) -> anyhow::Result<String> {
    Ok(match form {
        Form::Table => render::table(verdict),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&render::document(verdict)?)?),
        Form::Yaml => serde_saphyr::to_string(&render::document(verdict)?)?,
    })
}

/// A host, live or recorded, and this process where the host is this one.
fn read(root: &Root) -> (Host, Within) {
    let mut host = read_parts(root, Scope { counters: false, ..Scope::ALL });
    judge(&mut host);
    let tried = try_verbs(root, &host);
    let is_live = root.local("/").is_some();
    let within = Within {
        tried,
        user: is_live.then(|| rustix::process::geteuid().as_raw()),
        ipc_lock: read_ipc_lock(root),
        shm_bytes: root.local("/dev/shm").and_then(|path| {
            let size = rustix::fs::statvfs(path).ok()?;
            Some(size.f_blocks * size.f_frsize)
        }),
        ..Within::default()
    };
    (host, within)
}

/// An error with its causes.
fn chain(error: &VerbsError) -> String {
    let causes = iter::successors(Some(error as &dyn Error), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Bytes with K, M or G, KiB, MiB or GiB, for 2¹⁰, 2²⁰ and 2³⁰ of them; not none.
fn parse_bytes(text: &str) -> Result<u32, String> {
    let short = text.strip_suffix("iB").unwrap_or(text);
    let size = match short.strip_suffix(['G', 'g']) {
        Some(number) => number.parse::<u32>().ok().and_then(|number| number.checked_mul(1 << 30)),
        None => parse_size(short).ok(),
    };
    size.filter(|bytes| *bytes > 0)
        .ok_or_else(|| "a size is a number of bytes, or of KiB, MiB or GiB, below 4 GiB: 64MiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_written_as_kubernetes_readers_expect_them() {
        for (text, bytes) in
            [("64MiB", 64 << 20), ("64M", 64 << 20), ("8KiB", 8192), ("1GiB", 1 << 30), ("4096", 4096)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "0", "0M", "iB", "4GiB", "-1", "64MB", "1.5GiB", "64Mi"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
