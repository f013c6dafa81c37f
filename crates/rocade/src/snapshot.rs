//! `rocade snapshot`: records this host into one text file.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rocade_host::record;

use crate::outcome::{Advice, Outcome, print, tell};
use crate::source::Source;

/// Arguments of `rocade snapshot`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// File to write; `-` is stdout
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Records and writes.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let text = record(&args.source.open()?).print();
    if args.out == Path::new("-") {
        print(&text)?;
    } else {
        write_whole(&args.out, text.as_bytes()).with_context(|| {
            Advice::new(
                format!("cannot write {}", args.out.display()),
                "give --out a file in a directory that you may write to",
            )
        })?;
    }
    tell(
        "rocade: the recording holds addresses, GUIDs, serial numbers and names as they are: look before you pass it on",
    );
    Ok(Outcome::Good)
}

/// Under its own name the file is there whole or not at all. Only a plain file is replaced so: a device or pipe, or a
/// link (/dev/stdout is one), stays what it is and is written into.
fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(fs::write(path, content)?);
    }
    let mut name = path.file_name().context("not a file name")?.to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = File::create_new(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("a.host");
        fs::create_dir(&target).unwrap();
        assert!(write_whole(&target, b"x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_is_written_through_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("a.host"), dir.path().join("link"));
        fs::write(&target, "what was there before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_whole(&link, b"x").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"x");
    }
}
