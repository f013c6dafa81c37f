//! A program that runs inside the native node and is told to end from inside, by the number that it has there.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, Result, ensure};

use super::{Signal, wait};
use crate::command;
use crate::holder::Holder;

/// Writes its own number, then becomes the program.
const START: &str = "echo $$ > \"$0.part\"; mv \"$0.part\" \"$0\"; exec \"$@\"";

/// One that was started; dropping it does not end it, its node's end does.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Where it wrote its number, as seen from outside.
    pid_file: PathBuf,
}

impl Process {
    /// Starts `program`, whose output goes to `logs/NAME.log`; the name must be new.
    pub(super) fn start(holder: &Holder, name: &str, program: &Command) -> Result<Process> {
        let mut start = holder.command("sh");
        start.args(["-c", START]).arg(format!("/run/native/{name}.pid"));
        start.arg(program.get_program()).args(program.get_args());
        let child = holder.spawn(name, &mut start)?;
        Ok(Process { child, pid_file: holder.folder().join(format!("{name}.pid")) })
    }

    /// How it ended; None while it runs.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("ask for a process")
    }

    /// The number that it has inside.
    pub(super) fn pid(&self) -> Result<String> {
        let read = || fs::read_to_string(&self.pid_file).ok();
        Ok(wait("a program to start", read)?.trim().to_owned())
    }

    /// Signals it and waits until it has ended.
    pub(super) fn end(mut self, holder: &Holder, signal: Signal) -> Result<()> {
        let flag = match signal {
            Signal::Term => "-TERM",
            Signal::Kill => "-KILL",
        };
        let pid = self.pid()?;
        ensure!(self.ended()?.is_none(), "process {pid} had ended before it was told to");
        command::run(holder.command("kill").args([flag, &pid]))?;
        wait("a program to end", || self.child.try_wait().ok().flatten()).map(drop)
    }

    /// Waits for its end, which its node's end brings.
    pub(super) fn reap(mut self) -> Result<()> {
        self.child.wait().context("wait for a process").map(drop)
    }
}
