//! `rocade plan`: what a configuration would offer of a host, and for every HCA why it is in or out of each resource.
//! The rules are core's; here are the flags, the files and the exit code.

mod render;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use rocade_core::config::{Config, ConfigFile, parse_config};
use rocade_core::plan::{OtherOffers, findings, plan};
use rocade_core::{Host, Severity};

use crate::inventory::tell_gaps;
use crate::outcome::{Advice, Outcome, print, tell};
use crate::source::Source;

/// Arguments of `rocade plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to offer: YAML of kind AgentConfig, or the k8s-rdma-shared-dev-plugin's config.json
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    source: Source,
    /// The node whose sections of the configuration count, instead of the host's name
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Labels of the node, for sections that ask for them
    #[arg(long, value_name = "KEY=VALUE,…", value_delimiter = ',', value_parser = parse_label)]
    node_labels: Vec<(String, String)>,
    /// Refuse a configuration with warnings
    #[arg(long)]
    strict: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A line for each HCA and resource
    Table,
    /// The same with device IDs, nodes and places
    Wide,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

/// Plans and prints. A resource that nothing stands behind is a failure, as is any other error of the plan.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let file = read_config(&args.config, args.strict)?;
    let host = args.source.read_shown()?;
    tell_gaps(&host);
    let config = choose(&file, &host, args);
    let pools = plan(&host, &config);
    let findings = findings(&host, &pools, &OtherOffers::default());
    let shown = render::Shown { host: &host, pools: &pools, findings: &findings };
    print(&match args.output {
        Form::Table => shown.table(false),
        Form::Wide => shown.table(true),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&shown.document()?)?),
        Form::Yaml => serde_saphyr::to_string(&shown.document()?)?,
    })?;
    let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if failed { Outcome::Failed } else { Outcome::Good })
}

fn read_config(file: &Path, strict: bool) -> anyhow::Result<ConfigFile> {
    let advice = |hint: &str| Advice::new(format!("--config {}", file.display()), hint);
    let bytes = fs::read(file).with_context(|| advice("name a configuration that you may read"))?;
    match parse_config(&file.display().to_string(), &String::from_utf8_lossy(&bytes), strict) {
        Ok((config, findings)) => {
            findings.iter().for_each(|finding| tell(&format!("rocade: {finding}")));
            Ok(config)
        }
        Err(findings) => {
            findings.iter().for_each(|finding| tell(&format!("rocade: {finding}")));
            Err(anyhow::anyhow!("the configuration is refused"))
                .context(advice("correct what is said above; `rocade config validate` says it too"))
        }
    }
}

/// What the file says for the node; tells where that depends on labels that nobody gave.
fn choose(file: &ConfigFile, host: &Host, args: &Args) -> Config {
    let labels: BTreeMap<_, _> = args.node_labels.iter().cloned().collect();
    if file.needs_node_labels() && labels.is_empty() {
        tell("rocade: sections by node label are left out: name the node's labels with --node-labels");
    }
    file.for_node(args.node.as_deref().or(host.hostname.as_deref()), &labels)
}

fn parse_label(text: &str) -> anyhow::Result<(String, String)> {
    let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        bail!("a label is KEY=VALUE");
    };
    Ok((key.to_owned(), value.to_owned()))
}
