//! The directories that a reading is at: files of one directory are read one after the other, and looking each up from
//! the top costs more than reading it. Kept for one reading only, since a device may go and come back under its name.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A port's directory, its GIDs, their types and their netdevs are read in turn.
const MOST: usize = 6;

/// A directory by its path.
type Kept = (Box<[u8]>, Arc<OwnedFd>);

/// The directories used last, the latest first.
#[derive(Debug, Default)]
pub(super) struct Near(Mutex<VecDeque<Kept>>);

impl Near {
    /// The directory of that path, opened where it is not at hand.
    pub(super) fn get<E>(
        &self,
        dir: &Path,
        open: impl FnOnce(&Path) -> Result<OwnedFd, E>,
    ) -> Result<Arc<OwnedFd>, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = dir.as_os_str().as_bytes();
        if let Some(at) = kept.iter().position(|(known, _)| **known == *name) {
            kept.swap(0, at);
            return Ok(Arc::clone(&kept[0].1));
        }
        let fd = Arc::new(open(dir)?);
        kept.truncate(MOST - 1);
        kept.push_front((name.into(), Arc::clone(&fd)));
        Ok(fd)
    }
}

/// Directory and name of a path; None where it ends in none. Cheaper than by components.
pub(super) fn split(path: &Path) -> Option<(&Path, &Path)> {
    let bytes = path.as_os_str().as_bytes();
    let slash = bytes.iter().rposition(|b| *b == b'/').filter(|slash| *slash > 0)?;
    let name = &bytes[slash + 1..];
    let is_name = !matches!(name, b"" | b"." | b"..");
    is_name.then(|| (Path::new(OsStr::from_bytes(&bytes[..slash])), Path::new(OsStr::from_bytes(name))))
}
