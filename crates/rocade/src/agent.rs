//! `rocade agent`: reads the configuration, opens the host and serves until it is told to stop.

use std::path::PathBuf;

use anyhow::Context;
use rocade_agent::{CONFIG_JSON, DEVICE_PLUGIN_DIR, Error, Options, read_config, run_agent};
use tokio::signal::unix::{SignalKind, signal};

use crate::outcome::{Advice, Outcome};
use crate::source::Source;

/// What the agent is told on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The k8s-rdma-shared-dev-plugin's configuration
    #[arg(long, value_name = "FILE", default_value = CONFIG_JSON)]
    config: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Refuse a configuration with warnings
    #[arg(long)]
    strict: bool,
    /// Directory of kubelet.sock
    #[arg(long, value_name = "DIR", default_value = DEVICE_PLUGIN_DIR)]
    device_plugin_dir: PathBuf,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (config, findings) = read_config(&args.config, args.strict).map_err(advise)?;
    findings.iter().for_each(|finding| tracing::warn!("{finding}"));
    let options =
        Options { config, root: args.source.open()?, device_plugin_dir: args.device_plugin_dir.clone() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start the event loop")?.block_on(serve(options))
}

async fn serve(options: Options) -> anyhow::Result<Outcome> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    run_agent(options, stop).await.context("the agent cannot serve")?;
    Ok(Outcome::Good)
}

fn advise(error: Error) -> anyhow::Error {
    match error {
        Error::ReadConfig { .. } => {
            let hint = format!(
                "write one, or name it with --config FILE; without that it is looked for at {CONFIG_JSON}"
            );
            anyhow::Error::from(error).context(Advice::new("no configuration", hint))
        }
        error => error.into(),
    }
}
