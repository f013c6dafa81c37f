//! `rocade agent`: reads the configuration, opens the host and serves until it is told to stop.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use rocade_agent::outside::{AGENT_SOCKET, Access, Listen, Outside};
use rocade_agent::{CONFIG_JSON, DEVICE_PLUGIN_DIR, Error, Options, read_config, run_agent};
use tokio::signal::unix::{SignalKind, signal};

use crate::log::{Format, Level};
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
    /// Tell /healthz, /readyz and /metrics on this address, as :9407; nowhere without it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
    /// Socket for `rocade status`
    #[arg(long, value_name = "PATH", default_value = AGENT_SOCKET)]
    socket: PathBuf,
    /// Name of this node, for labels, condition, taint and events by the API server
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Form of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
}

impl Args {
    /// Form of the log.
    pub(crate) fn log_format(&self) -> Format {
        self.log_format
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(args: &Args, log: Level) -> anyhow::Result<Outcome> {
    let (config, findings) = read_config(&args.config, args.strict).map_err(advise)?;
    findings.iter().for_each(|finding| tracing::warn!("{finding}"));
    let outside = Outside {
        socket: Some(args.socket.clone()),
        listen: args.listen,
        config: args.config.display().to_string(),
        log: Some(Arc::new(log)),
        node: args.node_name.clone(),
        api_server: Access::of_pod(env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")),
        ..Outside::default()
    };
    let options = Options {
        config,
        root: args.source.open()?,
        device_plugin_dir: args.device_plugin_dir.clone(),
        outside,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start the event loop")?.block_on(serve(options))
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
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
