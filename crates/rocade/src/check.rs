//! `rocade check`: judges a host, this one or a recorded one, against a policy, a baseline and itself. The rules are
//! core's; here are the flags, the files and the exit code.

mod render;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use rocade_core::Host;
use rocade_core::check::{Against, check};
use rocade_core::policy::{Policy, PolicyError};

use crate::outcome::{Advice, FailOn, Outcome, print};
use crate::source::Source;

/// Arguments of `rocade check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// What is expected, and which codes are silenced (YAML, kind: Policy)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The group of the policy that this host is in, where its name does not tell
    #[arg(long, value_name = "NAME", requires = "policy")]
    group: Option<String>,
    /// The same host when it was good, recorded by `rocade snapshot`: what changed since is a finding
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Exit with 1 from this severity on
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// Read twice, so many seconds apart, and judge what the counters grew in between
    #[arg(long, value_name = "SECONDS", conflicts_with = "from", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: Option<u64>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
    /// One line for the node problem detector's custom plugin
    Npd,
}

/// Reads, judges and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let policy = args.policy.as_deref().map(read_policy).transpose()?;
    if let (Some(policy), Some(group)) = (&policy, &args.group) {
        find_group(policy, group)?;
    }
    let baseline =
        args.baseline.as_deref().map(|file| Source::read_recorded("--baseline", file)).transpose()?;
    let earlier = args.watch.map(|seconds| wait(&args.source, seconds)).transpose()?;
    let host = args.source.read()?;
    let against = Against {
        policy: policy.as_ref(),
        group: args.group.as_deref(),
        baseline: baseline.as_ref(),
        earlier: earlier.as_ref(),
        within: None,
    };
    let report = check(&host, &against);
    let failed = args.fail_on.is_met(report.worst());
    print(&match args.output {
        Form::Table => render::table(&host, &report),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&render::document(&report)?)?),
        Form::Yaml => serde_saphyr::to_string(&render::document(&report)?)?,
        Form::Npd => render::npd(&report),
    })?;
    Ok(match (failed, report.unjudged.iter().filter(|unjudged| unjudged.expected).count()) {
        (true, _) => Outcome::Failed,
        (false, 0) => Outcome::Good,
        (false, expected) => {
            eprintln!(
                "rocade: {expected} of what the policy expects could not be judged, so nothing is passed"
            );
            Outcome::CouldNotLook
        }
    })
}

fn read_policy(file: &Path) -> anyhow::Result<Policy> {
    let advice = |hint: &str| Advice::new(format!("--policy {}", file.display()), hint);
    let text = fs::read_to_string(file)
        .with_context(|| advice("--policy takes a YAML file of kind Policy; docs/policy.md describes it"))?;
    Policy::parse(&file.display().to_string(), &text).map_err(|error| {
        let hint = match error {
            PolicyError::Version { .. } => "use the rocade that this policy was written for",
            PolicyError::Kind { .. } | PolicyError::Wrong { .. } => "docs/policy.md describes the form",
        };
        anyhow::Error::new(error).context(advice(hint))
    })
}

fn find_group(policy: &Policy, group: &str) -> anyhow::Result<()> {
    let names: Vec<_> = policy.groups.iter().map(|g| g.name.as_str()).collect();
    if names.contains(&group) {
        return Ok(());
    }
    let hint =
        format!("the policy has {}", if names.is_empty() { "no groups".into() } else { names.join(", ") });
    Err(anyhow::anyhow!("the policy has no group `{group}`")
        .context(Advice::new(format!("--group {group}"), hint)))
}

/// The first of two readings.
fn wait(source: &Source, seconds: u64) -> anyhow::Result<Host> {
    let host = source.read()?;
    std::thread::sleep(Duration::from_secs(seconds));
    Ok(host)
}
