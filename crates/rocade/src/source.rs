//! Which host a reading command reads: this one, or a recorded one.

use std::path::{Path, PathBuf};

use rocade_core::Host;
use rocade_core::usable::judge;
use rocade_host::{Error, Root, read_host};

use crate::outcome::Advice;

/// `--from` of every reading command.
#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// Read a recorded host instead of this one
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
}

impl Source {
    /// Opens the host.
    pub(crate) fn open(&self) -> anyhow::Result<Root> {
        let Some(file) = &self.from else { return Ok(Root::live("/")?) };
        Root::open(file).map_err(|error| advise(error, file))
    }

    /// Reads the host and judges its ports.
    pub(crate) fn read(&self) -> anyhow::Result<Host> {
        let mut host = read_host(&self.open()?);
        judge(&mut host);
        Ok(host)
    }
}

fn advise(error: Error, file: &Path) -> anyhow::Error {
    let hint = match error {
        Error::Snapshot { .. } => "record a host with `rocade snapshot --out FILE`, and send the file whole",
        Error::Read { .. } | Error::OpenRoot { .. } => {
            "--from takes a file written by `rocade snapshot --out FILE`"
        }
    };
    anyhow::Error::new(error).context(Advice::new(format!("--from {}", file.display()), hint))
}
