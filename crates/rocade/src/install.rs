//! `rocade install`: puts the program into a directory, and beside it the links under whose names it stands in for other
//! tools. The links are relative, so that they hold where the directory is mounted elsewhere: an init container fills a
//! volume, and any image finds the tools in it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::links::Link;
use crate::outcome::{Advice, Outcome, print};

const PROGRAM: &str = "rocade";
const ELF: &[u8; 4] = b"\x7fELF";

const AFTER_HELP: &str = "\
The program is copied there as `rocade`, and the links point to the copy beside them, so that the directory may be \
mounted elsewhere; its host needs the same processor and a glibc no older than the program's. With --links the program \
stays where it is, and the links point to it by its full path.

Exit code: 0 all is there, 2 nothing was made, or not all.";

/// Arguments of `rocade install`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Directory that is in PATH, or that a volume is mounted on
    dir: PathBuf,
    /// Make the links alone, to the program where it is
    #[arg(long)]
    links: bool,
}

/// Looks at all names first: with a foreign file among them nothing is made.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let program = std::env::current_exe().context("find the path of this program")?;
    let copy = args.dir.join(PROGRAM);
    let stays = args.links || is_same_file(&copy, &program);
    let places: Vec<PathBuf> = Link::all().map(|link| args.dir.join(link.name())).collect();
    if !stays {
        refuse_foreign_program(&copy)?;
    }
    for place in &places {
        refuse_foreign_link(place, &program)?;
    }
    let made = |place: &Path| {
        Advice::new(format!("cannot make {}", place.display()), "give a directory that you may write to")
    };
    if !stays {
        put(&program, &copy).with_context(|| made(&copy))?;
        print(&format!("{}\n", copy.display()))?;
    }
    let target = if args.links { program.as_path() } else { Path::new(PROGRAM) };
    for place in &places {
        link(place, target).with_context(|| made(place))?;
        print(&format!("{} -> {}\n", place.display(), target.display()))?;
    }
    Ok(Outcome::Good)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// What may be replaced is an older program of the name, or a link to one.
fn refuse_foreign_program(copy: &Path) -> anyhow::Result<()> {
    let look = || -> io::Result<bool> {
        let kind = fs::symlink_metadata(copy)?.file_type();
        if kind.is_symlink() {
            return Ok(fs::read_link(copy)?.file_name() == Some(PROGRAM.as_ref()));
        }
        let mut start = [0; ELF.len()];
        Ok(kind.is_file() && File::open(copy)?.read_exact(&mut start).is_ok() && &start == ELF)
    };
    match look() {
        Ok(true) => Ok(()),
        Ok(false) => bail!(refusal(copy, "is there and is no rocade")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("look at {}", copy.display())),
    }
}

/// What may be replaced is a link to this program or to another rocade.
fn refuse_foreign_link(place: &Path, program: &Path) -> anyhow::Result<()> {
    match fs::read_link(place) {
        Ok(target) if target == program || target.file_name() == Some(PROGRAM.as_ref()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory) => {
            Err(error).with_context(|| format!("look at {}", place.display()))
        }
        _ => bail!(refusal(place, "is there and is no link to rocade")),
    }
}

fn refusal(place: &Path, why: &str) -> Advice {
    Advice::new(
        format!("{} {why}; nothing was made", place.display()),
        "choose a directory of its own for the links, before the other one in PATH",
    )
}

/// The name is there all the time, and always a whole program: a copy beside it takes its place.
fn put(program: &Path, copy: &Path) -> io::Result<()> {
    let temporary = beside(copy);
    let whole = || {
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&temporary)?;
        io::copy(&mut File::open(program)?, &mut to)?;
        to.sync_all()?;
        fs::rename(&temporary, copy)
    };
    whole().inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn link(place: &Path, target: &Path) -> io::Result<()> {
    let temporary = beside(place);
    symlink(target, &temporary)?;
    fs::rename(&temporary, place).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn beside(place: &Path) -> PathBuf {
    place.with_extension(format!("{}.tmp", std::process::id()))
}
