//! The log: on stderr, at RUST_LOG's levels where it is set and can be read, as text or as JSON, one object a line. Its
//! level can be changed while it is written.

use std::io::IsTerminal;

use clap::ValueEnum;
use rocade_agent::outside::Log;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::terminal;

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// The level of a log that was started.
pub(crate) struct Level(reload::Handle<EnvFilter, Registry>);

/// Starts the log, once in a process.
pub(crate) fn start(default_level: &str, format: Format, no_color: bool) -> Level {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_level));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    match format {
        Format::Text => {
            let colour = std::io::stderr().is_terminal() && terminal::may_colour(no_color);
            registry.with(lines.with_ansi(colour)).init();
        }
        Format::Json => registry.with(lines.json().flatten_event(true)).init(),
    }
    Level(handle)
}

impl Log for Level {
    fn level(&self) -> String {
        self.0.with_current(EnvFilter::to_string).unwrap_or_default()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        let wrong = |why: String| {
            format!("`{level}` is no level of a log, as info, debug or rocade_agent=trace: {why}")
        };
        if level.is_empty() {
            return Err(wrong("it is empty".into()));
        }
        let filter = EnvFilter::try_new(level).map_err(|error| wrong(error.to_string()))?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}
