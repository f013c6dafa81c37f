//! `rocade config generate`: a configuration for hosts as they are, and why each HCA that is not in it is left out.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use rocade_core::Host;
use rocade_core::config::{Section, render_agent_config};
use rocade_core::plan::{Generated, NoConfig, Omission, generate};
use serde_json::Value;

use crate::outcome::{Advice, Outcome, print, tell};
use crate::source::Source;

/// Arguments of `rocade config generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Look at recorded hosts instead of this one: a file for each, and one configuration for all
    #[arg(long, value_name = "FILE", num_args = 1..)]
    from: Vec<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Yaml)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// YAML of kind AgentConfig, with what is left out as comments
    Yaml,
    /// The same as JSON; what is left out goes to stderr
    Json,
}

/// Looks and prints; 1 where no HCA is a rail.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let hosts = read_hosts(&args.from)?;
    let Generated { config, sections, left_out } = match generate(&hosts) {
        Ok(generated) => generated,
        Err(none @ NoConfig::NoRail(_)) => {
            tell(&format!(
                "rocade: {none}\nhint: `rocade inventory` shows what each HCA is for; a configuration may name any"
            ));
            return Ok(Outcome::Failed);
        }
        Err(error @ NoConfig::NoName) => {
            let hint =
                "generate a file for each kind of host, or record them with --no-scrub, which keeps names";
            return Err(anyhow::Error::new(error).context(Advice::new("no configuration", hint)));
        }
    };
    let sections = sections.into_iter().map(|(nodes, resources)| Section::new(nodes, &resources)).collect();
    let yaml = render_agent_config(&config, sections);
    match args.output {
        Form::Yaml => print(&format!("{}{yaml}", comments(hosts.len(), &left_out)))?,
        Form::Json => {
            left_out.iter().for_each(|omission| tell(&format!("rocade: left out {}", line(omission))));
            let value: Value = serde_saphyr::from_str(&yaml).context("write JSON")?;
            print(&format!("{}\n", serde_json::to_string_pretty(&value)?))?;
        }
    }
    Ok(Outcome::Good)
}

fn read_hosts(files: &[PathBuf]) -> anyhow::Result<Vec<Host>> {
    if files.is_empty() {
        return Ok(vec![Source { from: None }.read_shown()?]);
    }
    files.iter().map(|file| Source::read_recorded("--from", file)).collect()
}

fn comments(hosts: usize, left_out: &[Omission]) -> String {
    let of = if hosts == 1 { "one host".to_owned() } else { format!("{hosts} hosts") };
    let mut text = format!("# Made by `rocade config generate` of {of}: one resource for each rail.\n");
    if !left_out.is_empty() {
        text.push_str("# Left out:\n");
        text.extend(left_out.iter().map(|omission| format!("#   {}\n", line(omission))));
    }
    text
}

/// `node-1 mlx5_2: management: bond0 carries the default route`.
fn line(omission: &Omission) -> String {
    let host = omission.host.as_ref().map(|host| format!("{host} ")).unwrap_or_default();
    format!("{host}{}: {}", omission.hca, omission.why)
}
