//! What can keep a host from being read at all. Single files that cannot be read are no errors: see `Refusal`.

use std::io;
use std::path::PathBuf;

use crate::archive::WrongLine;

/// A host that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A recorded host's file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not a recorded host, or a damaged one.
    #[error("{}:{line}: not a recorded host", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Line of the fault, from 1.
        line: usize,
        /// What was seen there and what was wanted.
        source: WrongLine,
    },
    /// The root directory of a live host cannot be opened.
    #[error("cannot open {}", path.display())]
    OpenRoot {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
