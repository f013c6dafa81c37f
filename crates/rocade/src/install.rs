//! `rocade install`: makes the links under whose names the binary stands in for other tools.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::links::Link;
use crate::outcome::{Advice, Outcome, print};

/// Arguments of `rocade install`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the links, which is in PATH
    dir: PathBuf,
}

/// Looks at all names first: with a foreign file among them no link is made.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("find the path of this program")?;
    let places = Link::ALL.map(|link| args.dir.join(link.name()));
    for place in &places {
        refuse_foreign(place, &program)?;
    }
    for place in &places {
        link(place, &program).with_context(|| {
            Advice::new(format!("cannot make {}", place.display()), "give a directory that you may write to")
        })?;
        print(&format!("{} -> {}\n", place.display(), program.display()))?;
    }
    Ok(Outcome::Good)
}

/// What may be replaced is a link to this program or to another rocade.
fn refuse_foreign(place: &Path, program: &Path) -> anyhow::Result<()> {
    match fs::read_link(place) {
        Ok(target) if target == program || target.file_name() == Some("rocade".as_ref()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory) => {
            Err(error).with_context(|| format!("look at {}", place.display()))
        }
        _ => bail!(Advice::new(
            format!("{} is there and is no link to rocade; no link was made", place.display()),
            "choose a directory of its own for the links, before the other one in PATH",
        )),
    }
}

/// The name is there all the time: a link beside it takes its place.
fn link(place: &Path, program: &Path) -> io::Result<()> {
    let temporary = place.with_extension(format!("{}.tmp", std::process::id()));
    symlink(program, &temporary)?;
    fs::rename(&temporary, place).inspect_err(|_| drop(fs::remove_file(&temporary)))
}
