//! `rocade config convert`: a config.json as a `kind: AgentConfig` that plans the same.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rocade_core::config::{Dialect, render_agent_config, to_agent_config};

use super::validate::read;
use crate::outcome::{Advice, Outcome, print, tell};

/// Arguments of `rocade config convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The k8s-rdma-shared-dev-plugin's config.json
    file: PathBuf,
    /// Refuse a configuration with warnings
    #[arg(long)]
    strict: bool,
}

/// Prints the YAML; what is odd in the file, and what cannot be carried over, is told on stderr.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (file, findings) = match read(&args.file, args.strict)? {
        Ok(read) => read,
        Err(findings) => {
            findings.iter().for_each(|finding| tell(&finding.to_string()));
            return Ok(Outcome::Failed);
        }
    };
    let config = file.for_node(None, &BTreeMap::new());
    if config.dialect == Dialect::AgentConfig {
        let advice = Advice::new(args.file.display().to_string(), "convert takes a config.json");
        return Err(anyhow::anyhow!("it is of kind AgentConfig already").context(advice));
    }
    let (config, left) = to_agent_config(&config);
    findings.iter().chain(&left).for_each(|finding| tell(&finding.to_string()));
    if config.resources.is_empty() {
        tell("no resource is left to convert");
        return Ok(Outcome::Failed);
    }
    print(&render_agent_config(&config, Vec::new()))?;
    Ok(Outcome::Good)
}
