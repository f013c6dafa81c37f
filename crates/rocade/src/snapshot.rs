//! `rocade snapshot`: records this host into one text file, without what tells whose host it is.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rocade_host::{Archive, Key, Scrubber, record};

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
    /// Keep addresses, GUIDs, serial numbers and names as they are
    #[arg(long)]
    no_scrub: bool,
    /// Replace by this key, a file or a text: with the same one, several recordings keep what is equal in them
    /// equal [default: a new key that is not kept]
    #[arg(long, value_name = "FILE|TEXT", conflicts_with = "no_scrub")]
    key: Option<OsString>,
}

/// How often another new key is tried where a replacement happens to be another thing's original.
const NEW_KEYS: usize = 16;

/// Records, scrubs and writes.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let recorded = args.source.read_by(record)?;
    let (archive, said) = if args.no_scrub {
        (recorded, "holds addresses, GUIDs, serial numbers and names as they are: look before you pass it on")
    } else {
        scrub(&recorded, args.key.as_deref())?
    };
    let text = archive.print();
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
    tell(&format!("rocade: the recording {said}"));
    Ok(Outcome::Good)
}

/// The scrubbed archive, and what to tell of it.
fn scrub(recorded: &Archive, key: Option<&OsStr>) -> anyhow::Result<(Archive, &'static str)> {
    let Some(key) = key else {
        let mut scrubber = Scrubber::of(recorded, &fresh_key()?);
        for _ in 1..NEW_KEYS {
            if !scrubber.is_ambiguous() {
                break;
            }
            scrubber = Scrubber::of(recorded, &fresh_key()?);
        }
        let said = "has other addresses, GUIDs, serial numbers and names, by a new key that is not kept; --key makes \
                    several recordings agree, --no-scrub keeps all";
        return Ok((scrubber.replace_archive(recorded), said));
    };
    let (secret, said) = if Path::new(key).exists() {
        let unreadable = || {
            let hint = "--key takes a file that can be read, or any text that names no file";
            Advice::new(format!("cannot read the key {}", key.display()), hint)
        };
        let said = "has other addresses, GUIDs, serial numbers and names, by the key in the file";
        (fs::read(key).with_context(unreadable)?, said)
    } else {
        let said = "has other addresses, GUIDs, serial numbers and names, by the key given as text";
        (key.as_encoded_bytes().to_owned(), said)
    };
    anyhow::ensure!(
        !secret.is_empty(),
        Advice::new("the key is empty", "give --key a file with content, or a text")
    );
    Ok((Scrubber::of(recorded, &Key::from_secret(&secret)).replace_archive(recorded), said))
}

fn fresh_key() -> anyhow::Result<Key> {
    Key::fresh().context("cannot get a random key from the kernel")
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
