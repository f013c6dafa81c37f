//! `rocade status`: asks the agent of this node for its document and shows it. What it means is core's to say.

mod render;

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use rocade_agent::outside::{AGENT_SOCKET, read_status, write_log_level};

use crate::outcome::{Advice, Outcome, print, tell};
use crate::terminal::Terminal;

/// Arguments of `rocade status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's socket
    #[arg(long, value_name = "PATH", default_value = AGENT_SOCKET)]
    socket: PathBuf,
    /// Change the level of the agent's log until it is started again, as info, debug or rocade_agent=trace; shows
    /// nothing
    #[arg(long, value_name = "LEVEL", conflicts_with = "output")]
    log_level: Option<String>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Resources, what is wrong, and what went wrong last
    Table,
    /// Also HCAs, grants, what is out of each pool, and sockets
    Wide,
    /// One JSON document
    Json,
    /// The same as YAML
    Yaml,
}

/// Asks, prints, and fails where something that was configured is not served.
pub(crate) fn run(args: &Args, terminal: Terminal) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("start the event loop")?;
    let advice = || {
        let hint = "run it on the node, in the agent's Pod: kubectl exec -n NAMESPACE POD -- rocade status; \
                    --socket names another socket";
        Advice::new("cannot ask the agent", hint)
    };
    if let Some(level) = &args.log_level {
        runtime.block_on(write_log_level(&args.socket, level)).with_context(advice)?;
        return Ok(Outcome::Good);
    }
    let status = runtime.block_on(read_status(&args.socket)).with_context(advice)?;
    print(&match args.output {
        Form::Table => render::table(&status, terminal, false),
        Form::Wide => render::table(&status, terminal, true),
        Form::Json => format!("{}\n", serde_json::to_string_pretty(&status)?),
        Form::Yaml => serde_saphyr::to_string(&status)?,
    })?;
    let unserved = status.unserved();
    if unserved.is_empty() {
        return Ok(Outcome::Good);
    }
    if matches!(args.output, Form::Json | Form::Yaml) {
        unserved.iter().for_each(|why| tell(&format!("rocade: {why}")));
    }
    Ok(Outcome::Failed)
}
