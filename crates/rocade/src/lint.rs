//! `rocade lint`: judges manifests before they are applied. The rules are core's; here are the flags, the files and the
//! exit code.

mod render;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use rocade_core::config::{ConfigFile, parse_config};
use rocade_core::lint::{Against, Source, lint};

use crate::outcome::{Advice, FailOn, Outcome, print, tell};

/// Arguments of `rocade lint`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Manifests, as YAML or JSON, with any number of documents; `-` for stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The namespace that they will be applied in
    #[arg(short, long)]
    namespace: Option<String>,
    /// The agent's configuration, which says what resources there are: YAML of kind AgentConfig, or the
    /// k8s-rdma-shared-dev-plugin's config.json
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A recorded node, which says what HCAs stand behind the resources
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Exit with 1 from this severity on
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Error)]
    fail_on: FailOn,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people, with the lines to change
    Table,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
    /// What can be mended by changing lines, as a unified diff for `patch -p1` or `git apply`
    Patch,
}

/// Reads, judges and prints. Files that are no manifests are findings; where any is, nothing is passed.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let texts = args.files.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
    let sources: Vec<Source<'_>> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    let config = args.config.as_deref().map(read_config).transpose()?;
    let host =
        args.from.as_deref().map(|file| crate::source::Source::read_recorded("--from", file)).transpose()?;
    let against =
        Against { namespace: args.namespace.as_deref(), config: config.as_ref(), host: host.as_ref() };
    let report = lint(&sources, &against);
    print(&match args.output {
        Form::Table => render::table(&sources, &report),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&render::document(&sources, &report)?)?),
        Form::Yaml => serde_saphyr::to_string(&render::document(&sources, &report)?)?,
        Form::Patch => sources.iter().enumerate().map(|(file, source)| report.patch(file, source)).collect(),
    })?;
    if report.unread > 0 {
        tell(&format!(
            "rocade: {} could not be read, so nothing is passed",
            render::documents(report.unread)
        ));
        return Ok(Outcome::CouldNotLook);
    }
    Ok(if args.fail_on.is_met(report.worst()) { Outcome::Failed } else { Outcome::Good })
}

/// The name and the text of a file.
fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("read stdin")?;
        return Ok(("stdin".into(), String::from_utf8_lossy(&bytes).into_owned()));
    }
    let advice =
        || Advice::new(format!("cannot read {}", file.display()), "name files of manifests, or - for stdin");
    let bytes = fs::read(file).with_context(advice)?;
    Ok((file.display().to_string(), String::from_utf8_lossy(&bytes).into_owned()))
}

fn read_config(file: &Path) -> anyhow::Result<ConfigFile> {
    let advice = |hint: &str| Advice::new(format!("--config {}", file.display()), hint);
    let bytes = fs::read(file).with_context(|| advice("name a configuration that you may read"))?;
    match parse_config(&file.display().to_string(), &String::from_utf8_lossy(&bytes), false) {
        Ok((config, _)) => Ok(config),
        Err(findings) => {
            findings.iter().for_each(|finding| tell(&format!("rocade: {finding}")));
            Err(anyhow::anyhow!("the configuration is refused"))
                .context(advice("correct what is said above; `rocade config validate` says it too"))
        }
    }
}
