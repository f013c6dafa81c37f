//! Running other programs: checked, captured, and never left behind.
//! Owns how a failed program becomes an error. Which programs run, and where, is its callers' business.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// How many of a failed program's last lines go into the error.
const SHOWN_LINES: usize = 20;

/// Runs to the end with no stdin and captures both streams; an error unless it exits 0.
///
/// # Errors
/// The program is missing, or it failed: the error ends with the last lines it wrote.
pub fn run(command: &mut Command) -> Result<Output> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("start {}", shown(command)))?;
    if output.status.success() {
        return Ok(output);
    }
    bail!("{}: {}\n{}", shown(command), output.status, last_lines(&output));
}

/// [`run`], giving what the program wrote on stdout.
///
/// # Errors
/// As [`run`].
pub fn run_text(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&run(command)?.stdout).into_owned())
}

/// A long builder (compiler, package tool) in process and mount namespaces of its own that the kernel ends when
/// the calling thread ends, however it ends: nothing it started or mounted stays behind.
pub fn contained(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "--"]).arg(program);
    command
}

/// The command as a person would type it, for messages.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn last_lines(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}
