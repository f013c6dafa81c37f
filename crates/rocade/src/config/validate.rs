//! `rocade config validate`: every finding about a configuration.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use rocade_core::config::{ConfigFile, Dialect, Parsed, parse_config};
use rocade_core::{Finding, Severity};
use serde_json::{Value, json};

use crate::outcome::{Advice, Outcome, print};

/// Arguments of `rocade config validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The k8s-rdma-shared-dev-plugin's config.json, or YAML of kind AgentConfig
    file: PathBuf,
    /// Take every warning for an error
    #[arg(long)]
    strict: bool,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people, a finding a line
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

/// Reads the file and prints what is wrong or odd in it; 1 if any of that is an error.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (config, findings) = match read(&args.file, args.strict)? {
        Ok((config, findings)) => (Some(config), findings),
        Err(findings) => (None, findings),
    };
    let document = || document(&args.file, config.as_ref(), &findings);
    print(&match args.output {
        Form::Table => table(&args.file, config.as_ref(), &findings),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&document())?),
        Form::Yaml => serde_saphyr::to_string(&document())?,
    })?;
    Ok(if config.is_some() { Outcome::Good } else { Outcome::Failed })
}

/// What core says of the file's text.
pub(super) fn read(file: &Path, strict: bool) -> anyhow::Result<Parsed<ConfigFile>> {
    let advice = || Advice::new(format!("cannot read {}", file.display()), "name a file that you may read");
    let bytes = fs::read(file).with_context(advice)?;
    Ok(parse_config(&file.display().to_string(), &String::from_utf8_lossy(&bytes), strict))
}

fn table(file: &Path, config: Option<&ConfigFile>, findings: &[Finding]) -> String {
    let mut text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    let count = |severity, word: &str| match findings.iter().filter(|f| f.severity == severity).count() {
        1 => format!("1 {word}"),
        n => format!("{n} {word}s"),
    };
    let verdict = match config {
        Some(_) => format!("good, {}", count(Severity::Warning, "warning")),
        None => format!("refused, {}", count(Severity::Error, "error")),
    };
    text.push_str(&format!("{}: {verdict}\n", file.display()));
    text
}

fn document(file: &Path, config: Option<&ConfigFile>, findings: &[Finding]) -> Value {
    let dialect = config.map(|config| match config.dialect() {
        Dialect::ConfigJson => "config.json",
        Dialect::AgentConfig => "AgentConfig",
    });
    json!({
        "schema_version": 1,
        "file": file.display().to_string(),
        "accepted": config.is_some(),
        "dialect": dialect,
        "findings": findings,
    })
}
