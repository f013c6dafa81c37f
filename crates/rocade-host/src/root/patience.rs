//! Reads a live host although one of its files may never answer: a driver that waits for its firmware, a server that
//! is gone. The reading runs in a thread of its own; one that hangs is left behind, and the next one goes around what
//! it hung on. A reading asks the same in the same order each time, so nothing of the rest is lost.

use std::collections::BTreeSet;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Answer, Filling, Refusal, Root};
use crate::errno::Errno;

/// How long a live host is waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For one file, directory or netlink question: vital product data takes seconds on some cards.
    pub each: Duration,
    /// For all of it. Afterwards hardly any more is waited for, what hung on one device is asked of no other, and
    /// twice as long ends it.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { each: Duration::from_secs(5), whole: Duration::from_secs(30) }
    }
}

/// How long is waited for one answer once the patience is over.
const HURRY: Duration = Duration::from_millis(50);

/// Gives what `read` makes of the host, and the paths or names of files that did not answer: those read as failing
/// with ETIMEDOUT. A thread that hangs in the kernel stays behind and ends when the kernel lets it.
pub fn read_patiently<T: Send + 'static>(
    root: &Root,
    patience: Patience,
    read: impl Fn(&Root) -> T + Send + Sync + 'static,
) -> (T, Vec<PathBuf>) {
    let Filling::Live(live) = &root.0 else { return (read(root), Vec::new()) };
    let start = Instant::now();
    let read = Arc::new(read);
    let mut silent = BTreeSet::new();
    loop {
        let watch = Arc::new(Watch { silent: silent.clone(), ..Watch::default() });
        let attempt = Root(Filling::Live(live.for_one_reading(Some(&watch))));
        let (send, receive) = mpsc::channel();
        let reading = Arc::clone(&read);
        // A machine that cannot start a thread is read without.
        let Ok(thread) = thread::Builder::new().spawn(move || drop(send.send(reading(&attempt)))) else {
            return (read(root), Vec::new());
        };
        match wait(&receive, &watch, patience, start) {
            Waited::Read(value) => return (value, silent.into_iter().collect()),
            Waited::Hung(path) => drop(silent.insert(path)),
            Waited::Died => {
                if let Err(panic) = thread.join() {
                    panic::resume_unwind(panic);
                }
            }
        }
        watch.is_left.store(true, Ordering::Relaxed);
    }
}

enum Waited<T> {
    Read(T),
    Hung(PathBuf),
    Died,
}

fn wait<T>(receive: &Receiver<T>, watch: &Watch, patience: Patience, start: Instant) -> Waited<T> {
    let mut last = (0, Instant::now());
    loop {
        let late = start.elapsed() > patience.whole;
        let limit = if late { HURRY.min(patience.each) } else { patience.each };
        match receive.recv_timeout(limit / 4) {
            Ok(value) => return Waited::Read(value),
            Err(RecvTimeoutError::Disconnected) => return Waited::Died,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let step = watch.step.load(Ordering::Acquire);
        if step != last.0 {
            last = (step, Instant::now());
        } else if last.1.elapsed() >= limit && watch.is_asking() {
            return Waited::Hung(give_up(&lock(&watch.path), start.elapsed(), patience.whole));
        }
    }
}

/// What is gone around from now on: a path, later all files of its name, at last everything.
fn give_up(path: &Path, elapsed: Duration, whole: Duration) -> PathBuf {
    match path.file_name() {
        Some(_) if elapsed > whole * 2 => PathBuf::from("/"),
        Some(name) if elapsed > whole => PathBuf::from(name),
        _ => path.to_owned(),
    }
}

/// What one reading is at, for the one who waits for it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Raised when the kernel is asked, and when it has answered.
    step: AtomicU64,
    path: Mutex<PathBuf>,
    is_asking: AtomicBool,
    is_left: AtomicBool,
    /// Paths that are not asked for, nor what lies below them, and names that are asked for nowhere.
    silent: BTreeSet<PathBuf>,
}

impl Watch {
    /// Notes that the kernel is asked for a path, until the value goes; refuses what did not answer before.
    pub(super) fn ask(&self, path: &Path) -> Answer<Asking<'_>> {
        if self.is_left.load(Ordering::Relaxed) || self.is_silent(path) {
            return Err(Refusal::Errno(Errno::TIMEDOUT));
        }
        let mut noted = lock(&self.path);
        noted.as_mut_os_string().clear();
        noted.as_mut_os_string().push(path);
        drop(noted);
        self.is_asking.store(true, Ordering::Relaxed);
        self.step.fetch_add(1, Ordering::Release);
        Ok(Asking(self))
    }

    fn is_silent(&self, path: &Path) -> bool {
        let is_listed = |path: &Path| self.silent.contains(path);
        !self.silent.is_empty()
            && (path.ancestors().any(is_listed) || path.file_name().map(Path::new).is_some_and(is_listed))
    }

    fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}

/// A question that the kernel has not answered yet.
pub(super) struct Asking<'a>(&'a Watch);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.is_asking.store(false, Ordering::Relaxed);
        self.0.step.fetch_add(1, Ordering::Release);
    }
}

fn lock(path: &Mutex<PathBuf>) -> MutexGuard<'_, PathBuf> {
    path.lock().unwrap_or_else(PoisonError::into_inner)
}
