//! How a command ends: its exit code, its data on stdout, and an error printed once as a chain with a hint.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use rocade_core::Severity;

/// What a command found, as the exit code that says so. An error is always [`Outcome::CouldNotLook`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All that was asked for is good.
    Good = 0,
    /// It looked, and found failures.
    Failed = 1,
    /// It could not look: usage, unreadable file, no connection.
    CouldNotLook = 2,
    /// A program was not run for a reason of rocade's own, as env(1) and timeout(1) have it.
    NotRun = 125,
    /// A program was found and cannot be run (POSIX, Shell Command Language 2.8.2).
    NotRunnable = 126,
    /// A program was not found.
    NotFound = 127,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        ExitCode::from(outcome as u8)
    }
}

/// From which severity on a finding is a failure: `--fail-on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FailOn {
    Error,
    Warning,
    Note,
    Never,
}

impl FailOn {
    /// Whether the worst that was found is a failure.
    pub(crate) fn is_met(self, worst: Option<Severity>) -> bool {
        let from = match self {
            FailOn::Error => Severity::Error,
            FailOn::Warning => Severity::Warning,
            FailOn::Note => Severity::Note,
            FailOn::Never => return false,
        };
        worst.is_some_and(|worst| worst >= from)
    }
}

/// An error's sentence together with what to do about it; put on an error with `.context(Advice::new(…))`.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Advice {
    what: String,
    hint: String,
}

impl Advice {
    /// `what` stands in the chain like any context; `hint` is printed on a line of its own.
    pub(crate) fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Advice { what: what.into(), hint: hint.into() }
    }
}

/// The reader of our stdout (`| head`) had enough, which is no failure.
#[derive(Debug, thiserror::Error)]
#[error("the reader of stdout went away")]
struct ReaderGone;

/// Writes data to stdout whole.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        result => result.context("write to stdout"),
    }
}

/// Tells people a line on stderr. Where that cannot be written there is nobody to tell, which keeps nothing from being
/// done.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Turns a command's result into how the process ends; an error that ends it is printed here.
pub(crate) fn report(result: anyhow::Result<Outcome>) -> Outcome {
    match result {
        Ok(outcome) => outcome,
        Err(error) if error.is::<ReaderGone>() => Outcome::Good,
        Err(error) => {
            tell_error(&error);
            Outcome::CouldNotLook
        }
    }
}

/// Prints an error's chain and hint on stderr.
pub(crate) fn tell_error(error: &anyhow::Error) {
    tell(render_error(error).trim_end());
}

/// What to do about an error, where it says so.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&str> {
    Some(&error.downcast_ref::<Advice>()?.hint)
}

fn render_error(error: &anyhow::Error) -> String {
    let mut text = format!("rocade: {error:#}\n");
    if let Some(hint) = hint(error) {
        text.push_str(&format!("hint: {hint}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_its_chain_once_and_then_the_hint() {
        let cause = anyhow::Error::from(io::Error::other("No such file"));
        let error = cause.context(Advice::new("cannot read a.host", "record one with rocade snapshot"));
        assert_eq!(
            render_error(&error.context("inventory")),
            "rocade: inventory: cannot read a.host: No such file\nhint: record one with rocade snapshot\n"
        );
    }
}
