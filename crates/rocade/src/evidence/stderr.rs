//! What a C library writes to stderr while it is called, kept for the diagnosis and passed on.

use std::fs::File;
use std::io::{Read, Seek, Write, stderr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::dup2_stderr;

/// Runs a function and returns with its value what was written to stderr meanwhile, by any thread. It appears on stderr
/// afterwards. Where stderr cannot be kept the text is empty.
pub(crate) fn keep_stderr<T>(run: impl FnOnce() -> T) -> (T, String) {
    // A second one would take the first one's file for the real stderr.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(kept) = Kept::start() else { return (run(), String::new()) };
    let value = run();
    let text = kept.stop();
    let _ = stderr().write_all(text.as_bytes());
    (value, text)
}

/// Stderr is a file in memory until this is dropped.
struct Kept {
    real: OwnedFd,
    memory: File,
}

impl Kept {
    fn start() -> Option<Kept> {
        let memory = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC).ok()?);
        let real = fcntl_dupfd_cloexec(stderr(), 3).ok()?;
        dup2_stderr(&memory).ok()?;
        Some(Kept { real, memory })
    }

    fn stop(self) -> String {
        let mut memory = self.memory.try_clone();
        drop(self);
        let mut bytes = Vec::new();
        if let Ok(memory) = &mut memory {
            let _ = memory.rewind().and_then(|()| memory.read_to_end(&mut bytes));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = dup2_stderr(&self.real);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As C's fprintf does it: past Rust's own stderr, which the test harness may hold.
    fn write_below(text: &str) {
        rustix::io::write(rustix::stdio::stderr(), text.as_bytes()).unwrap();
    }

    #[test]
    fn what_is_written_meanwhile_is_returned_and_what_comes_later_is_not() {
        let (value, text) = keep_stderr(|| {
            write_below("libibverbs: Warning: one\n");
            7
        });
        assert_eq!(value, 7);
        assert!(text.contains("libibverbs: Warning: one\n"), "{text}");
        let (_, text) = keep_stderr(|| ());
        assert!(!text.contains("Warning: one"), "{text}");
    }
}
