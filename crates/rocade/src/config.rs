//! `rocade config`: looks at configurations of the agent without running it. What they mean is core's to say; here are
//! the files, the forms of output and the exit codes.

mod convert;
mod generate;
mod validate;

use crate::outcome::Outcome;

/// What can be done with a configuration.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say what is wrong or odd in a configuration, with file, line and key
    Validate(validate::Args),
    /// Write a k8s-rdma-shared-dev-plugin's config.json as YAML of kind AgentConfig that offers the same
    Convert(convert::Args),
    /// Write one for this host, or for recorded ones: a resource for each rail of the compute fabric
    Generate(generate::Args),
}

/// Runs the command to its end.
pub(crate) fn run(command: &Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Validate(args) => validate::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Generate(args) => generate::run(args),
    }
}
