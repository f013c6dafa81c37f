//! `rocade verify`: the Pod's PASS or FAIL. The rules are core's; here are the flags, what is read and tried, and the exit
//! code.

mod register;
mod render;
mod traffic;

use std::error::Error;
use std::iter;

use clap::ValueEnum;
use rocade_core::check::Within;
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

/// Reads, tries, judges and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (host, mut within) = args.source.read_by(if args.probe { read_least } else { read })?;
    if let Some(bytes) = args.register {
        register::on_each(&host, bytes, &mut within);
    }
    if args.traffic {
        traffic::on_each(&host, &mut within);
    }
    let verdict = verify(&host, &within);
    if !args.probe {
        print(&shown(args.output, &verdict)?)?;
    }
    Ok(if verdict.pass { Outcome::Good } else { Outcome::Failed })
}

fn shown(form: Form, verdict: &Verdict) -> anyhow::Result<String> {
    Ok(match form {
        Form::Table => render::table(verdict),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&render::document(verdict)?)?),
        Form::Yaml => serde_saphyr::to_string(&render::document(verdict)?)?,
    })
}

/// All that a verdict tells.
fn read(root: &Root) -> (Host, Within) {
    read_within(root, Scope { counters: false, ..Scope::ALL })
}

/// What decides a verdict, without what it only tells.
fn read_least(root: &Root) -> (Host, Within) {
    read_within(root, Scope::POD)
}

/// A host, live or recorded, and this process where the host is this one.
fn read_within(root: &Root, scope: Scope) -> (Host, Within) {
    let mut host = read_parts(root, scope);
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
