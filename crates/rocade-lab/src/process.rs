//! A program that runs inside a holder's namespaces and is told to end from inside, by the number that it has there.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::command;
use crate::holder::Holder;

/// Of everything here that takes a second or less on an idle machine.
const LIMIT: Duration = Duration::from_secs(90);

/// How a process is told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGKILL.
    Kill,
}

/// Writes its own number, then becomes the program.
const START: &str = "echo $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; exec \"$@\"";

/// One that was started; dropping it does not end it, its holder's end does.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Where it wrote its number, as seen from outside.
    pid_file: PathBuf,
}

impl Process {
    /// Starts `program` with what is set in its environment; its output goes to `logs/NAME.log`, and the name must be
    /// new. The holder's folder is writable at the same path inside.
    pub(crate) fn start(holder: &Holder, name: &str, program: &Command) -> Result<Process> {
        let mut start = holder.command("sh");
        let pid_file = holder.folder().join(format!("{name}.pid"));
        start.args(["-c", START]).arg(&pid_file).arg(program.get_program()).args(program.get_args());
        start.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Ok(Process { child: holder.spawn(name, &mut start)?, pid_file })
    }

    /// How it ended; None while it runs.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("ask for a process")
    }

    /// The number that it has inside.
    pub(crate) fn pid(&self) -> Result<String> {
        let read = || fs::read_to_string(&self.pid_file).ok();
        Ok(wait("a program to start", read)?.trim().to_owned())
    }

    /// Signals it and waits until it has ended.
    pub(crate) fn end(mut self, holder: &Holder, signal: Signal) -> Result<()> {
        let flag = match signal {
            Signal::Term => "-TERM",
            Signal::Kill => "-KILL",
        };
        let pid = self.pid()?;
        ensure!(self.ended()?.is_none(), "process {pid} had ended before it was told to");
        command::run(holder.command("kill").args([flag, &pid]))?;
        wait("a program to end", || self.child.try_wait().ok().flatten()).map(drop)
    }

    /// Waits for its end, which its holder's end brings.
    pub(crate) fn reap(mut self) -> Result<()> {
        self.child.wait().context("wait for a process").map(drop)
    }
}

/// Asks every few milliseconds until there is an answer.
pub(crate) fn wait<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return Ok(answer);
        }
        if begun.elapsed() > LIMIT {
            bail!("waited {} s for {what}", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
