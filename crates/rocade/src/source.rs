//! Which host a reading command reads: this one, or a recorded one.

use std::path::{Path, PathBuf};

use rocade_core::{Host, judge};
use rocade_host::{Error, Patience, Root, Scope, is_as_before, read_host, read_parts, read_patiently};

use crate::outcome::{Advice, tell};

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
        Root::open(file).map_err(|error| advise(error, "--from", file))
    }

    /// Reads what tables show of a host, which is all but counters, and judges its ports.
    pub(crate) fn read_shown(&self) -> anyhow::Result<Host> {
        self.read_by(|root| judged(read_parts(root, Scope { counters: false, ..Scope::ALL })))
    }

    /// Reads HCAs, ports, their GIDs and netdevs alone.
    pub(crate) fn read_ports(&self) -> anyhow::Result<Host> {
        self.read_by(|root| read_parts(root, Scope { gids: true, ..Scope::GRANTS }))
    }

    /// Reads the host and judges its ports.
    pub(crate) fn read(&self) -> anyhow::Result<Host> {
        self.read_by(|root| judged(read_host(root)))
    }

    /// Reads the host again where what a test chooses from is not as it was.
    pub(crate) fn renew(&self, host: &mut Host) -> anyhow::Result<()> {
        let before = host.clone();
        let read = move |root: &Root| (!is_as_before(root, &before)).then(|| judged(read_host(root)));
        if let Some(now) = self.read_by(read)? {
            *host = now;
        }
        Ok(())
    }

    /// Makes of the host what the function does; says what of it did not answer.
    pub(crate) fn read_by<T: Send + 'static>(
        &self,
        read: impl Fn(&Root) -> T + Send + Sync + 'static,
    ) -> anyhow::Result<T> {
        let (value, silent) = read_patiently(&self.open()?, Patience::default(), read);
        for path in silent {
            tell(&format!("rocade: {} does not answer; the rest was read without it", path.display()));
        }
        Ok(value)
    }

    /// Reads a recorded host that another flag than `--from` names.
    pub(crate) fn read_recorded(flag: &str, file: &Path) -> anyhow::Result<Host> {
        Root::open(file).map(|root| judged(read_host(&root))).map_err(|error| advise(error, flag, file))
    }
}

fn judged(mut host: Host) -> Host {
    judge(&mut host);
    host
}

fn advise(error: Error, flag: &str, file: &Path) -> anyhow::Error {
    let hint = match error {
        Error::Snapshot { .. } => "record a host with `rocade snapshot --out FILE`, and send the file whole",
        Error::Read { .. } | Error::OpenRoot { .. } => {
            "it takes a file written by `rocade snapshot --out FILE`"
        }
    };
    anyhow::Error::new(error).context(Advice::new(format!("{flag} {}", file.display()), hint))
}
