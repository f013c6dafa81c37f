//! `rocade exec`: sets the variables of `rocade env` and becomes the program. It is the same process afterwards: signals
//! and exit code are the program's own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rocade_core::environment::{By, Environment, Reach};

use crate::env::{See, Wish, say_findings, say_users, say_why};
use crate::outcome::{Outcome, tell, tell_error};
use crate::source::Source;

/// Arguments of `rocade exec`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    wish: Wish,
    /// Do not run the program where no HCA can be used; the exit code is 125
    #[arg(long)]
    require: bool,
    /// Say on stderr why each variable was set or left unset
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    program: Vec<OsString>,
}

/// Becomes the program; returns only where that failed.
pub(crate) fn run(args: &Args) -> Outcome {
    let told = match See::of(&args.source, &args.wish) {
        Ok(seen) => seen.with_own_variables().tell(&args.wish, Reach::Handed),
        Err(error) => {
            tell_error(&error);
            return Outcome::NotRun;
        }
    };
    if args.verbose {
        say_why(&told)
    } else {
        say_users(&told)
    }
    say_findings(&told);
    let Some((program, arguments)) = args.program.split_first() else { return Outcome::NotRun };
    if args.require && !told.is_usable() {
        tell(&format!("rocade: {} is not run: no HCA can be used", program.display()));
        return Outcome::NotRun;
    }
    let error = with_variables(Command::new(program).args(arguments), &told).exec();
    tell(&format!("rocade: {}: {error}", program.display()));
    if error.kind() == io::ErrorKind::NotFound { Outcome::NotFound } else { Outcome::NotRunnable }
}

/// What the user has set is handed on as it is.
fn with_variables<'a>(command: &'a mut Command, told: &Environment) -> &'a mut Command {
    let ours = told.variables.iter().filter(|variable| variable.by == By::Rule);
    command.envs(ours.filter_map(|variable| Some((variable.name, variable.value.as_ref()?))))
}
