//! `rocade agent`: reads the configuration, opens the host and serves until it is told to stop.

mod go_flags;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use rocade_agent::outside::{AGENT_SOCKET, Access, Listen, Outside};
use rocade_agent::{
    AGENT_YAML, CONFIG_JSON, Choice, ConfigSource, Configured, DEVICE_PLUGIN_DIR, Error, Options,
    find_kubelet_root, run_agent,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::log::{Format, Level};
use crate::outcome::{Advice, Outcome};
use crate::source::Source;

/// What the agent is told on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to offer: YAML of kind AgentConfig, or the k8s-rdma-shared-dev-plugin's config.json [default:
    /// /etc/rocade/agent.yaml, else /k8s-rdma-shared-dev-plugin/config.json]
    #[arg(long, value_name = "FILE", visible_alias = "config-file")]
    config: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Refuse a configuration with warnings
    #[arg(long)]
    strict: bool,
    /// Directory of kubelet.sock; without it below --kubelet-root-dir where it is there, else /var/lib/kubelet/device-plugins
    #[arg(long, value_name = "DIR")]
    device_plugin_dir: Option<PathBuf>,
    /// By which way the kubelet is told of resources
    #[arg(long, value_enum, value_name = "WAY", default_value_t = Registration::Auto)]
    registration: Registration,
    /// Tell /healthz, /readyz and /metrics on this address, as :9407; nowhere without it
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<Listen>,
    /// Socket for `rocade status`
    #[arg(long, value_name = "PATH", default_value = AGENT_SOCKET)]
    socket: PathBuf,
    /// Name of this node, for sections of the configuration that ask for it, and for labels, condition, taint and events
    /// by the API server
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,
    /// Form of the log
    #[arg(long, value_enum, default_value_t = Format::Text)]
    log_format: Format,
    #[command(flatten)]
    plugin: PluginFlags,
}

/// By which way resources are registered.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Registration {
    /// On kubelet.sock; by the plugin watcher where that does not work
    Auto,
    /// On kubelet.sock alone
    Kubelet,
    /// By a socket in plugins_registry alone
    Watcher,
}

impl From<Registration> for Choice {
    fn from(registration: Registration) -> Choice {
        match registration {
            Registration::Auto => Choice::Auto,
            Registration::Kubelet => Choice::Kubelet,
            Registration::Watcher => Choice::Watcher,
        }
    }
}

/// Flags of the k8s-rdma-shared-dev-plugin's own, with one dash as well, as Go takes them.
#[derive(Debug, clap::Args)]
struct PluginFlags {
    /// Grant CDI names, as `cdi.enabled` of a configuration does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = go_flags::parse_bool)]
    use_cdi: Option<bool>,
    /// The kubelet's root directory; without it found by the kubelet's process or at known places
    #[arg(long, value_name = "DIR")]
    kubelet_root_dir: Option<PathBuf>,
    /// Print the version
    #[arg(short = 'v', long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}

pub(crate) use go_flags::with_two_dashes;

impl Args {
    /// Form of the log.
    pub(crate) fn log_format(&self) -> Format {
        self.log_format
    }

    fn config_source(&self) -> ConfigSource {
        ConfigSource {
            file: self.config.clone(),
            strict: self.strict,
            node: self.node_name.clone().filter(|name| !name.is_empty()),
            api_server: api_server(),
            use_cdi: self.plugin.use_cdi == Some(true),
        }
    }

    /// The kubelet has it at the same place whatever its root directory is.
    fn device_plugin_dir(&self) -> PathBuf {
        let of_root = self.plugin.kubelet_root_dir.as_ref().map(|root| root.join("device-plugins"));
        let there = || of_root.filter(|dir| dir.is_dir());
        self.device_plugin_dir.clone().or_else(there).unwrap_or_else(|| DEVICE_PLUGIN_DIR.into())
    }
}

/// Serves until SIGTERM or SIGINT; SIGHUP has the configuration read and the host looked at again.
pub(crate) fn run(args: &Args, log: Level) -> anyhow::Result<Outcome> {
    // The command line and the linker's work are done with.
    rocade_host::let_go_of_program();
    let root = args.source.open()?;
    let outside = Outside {
        socket: Some(args.socket.clone()),
        listen: args.listen,
        log: Some(Arc::new(log)),
        node: args.node_name.clone(),
        api_server: api_server(),
        ..Outside::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("start the event loop")?.block_on(async {
        let stop = stop_signal()?;
        tokio::pin!(stop);
        let source = args.config_source();
        let configured = tokio::select! {
            () = &mut stop => return Ok(Outcome::Good),
            configured = source.read_patiently() => configured.map_err(advise)?,
        };
        let Configured { config, file, findings } = configured;
        findings.iter().for_each(|finding| tracing::warn!("{finding}"));
        let outside = Outside { config: file.display().to_string(), ..outside };
        let options = Options {
            reload: Some(source),
            kubelet_root: args.plugin.kubelet_root_dir.clone().unwrap_or_else(find_kubelet_root),
            registration: args.registration.into(),
            outside,
            again: hangup_signal()?,
            ..Options::new(config, root, args.device_plugin_dir())
        };
        run_agent(options, stop).await.context("the agent cannot serve")?;
        Ok(Outcome::Good)
    })
}

fn api_server() -> Access {
    Access::of_pod(env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT"))
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Done at SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A message at each SIGHUP.
fn hangup_signal() -> anyhow::Result<mpsc::UnboundedReceiver<()>> {
    let mut hangup = signal(SignalKind::hangup()).context("wait for SIGHUP")?;
    let (ask, again) = mpsc::unbounded_channel();
    tokio::spawn(async move { while hangup.recv().await.is_some() && ask.send(()).is_ok() {} });
    Ok(again)
}

fn advise(error: Error) -> anyhow::Error {
    match error {
        Error::ReadConfig { .. } => {
            let hint = format!(
                "write one, or name it with --config FILE; without that it is looked for at {AGENT_YAML} and \
                 {CONFIG_JSON}"
            );
            anyhow::Error::from(error).context(Advice::new("no configuration", hint))
        }
        error => error.into(),
    }
}
