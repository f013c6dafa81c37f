//! Watches a directory in which something comes or goes, also one that is not there yet: by inotify, of the nearest
//! directory above it that is there, and by a slow look besides. It judges nothing; whoever waits compares with what it
//! knew.

use std::io;
use std::path::Path;
use std::time::Duration;

use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio::time::sleep;
use tokio_stream::StreamExt;

use crate::sockets::FileId;

/// Between two looks while events come.
const SLOW_LOOK: Duration = Duration::from_secs(900);

/// Looks after an event.
const AFTER: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Between two looks while there is no watch to be had.
const QUICK_LOOK: Duration = Duration::from_secs(1);

/// Room for some tens of events with their names.
const BUFFER: usize = 4096;

/// Calls `seen` when the watch begins and at each event. Never ends.
pub(crate) async fn run_directory_watch(dir: &Path, seen: impl Fn()) {
    loop {
        match watch_nearest(dir) {
            Ok((at, events)) => {
                seen();
                run_events(at, dir, events, &seen).await;
            }
            Err(error) => {
                tracing::debug!(dir = %dir.display(), %error, "no watch on the directory, polling it");
                sleep(QUICK_LOOK).await;
            }
        }
        seen();
    }
}

/// Runs until the directory that is watched is no longer the one of that name, or the wanted one is there. A directory in
/// which somebody listens on a socket does not say that it was removed; but what was in it went before, and so it is
/// looked for shortly after each event.
async fn run_events(at: &Path, wanted: &Path, mut events: EventStream<[u8; BUFFER]>, seen: &impl Fn()) {
    let id = || FileId::of_target(at).map(FileId::inode);
    let (watched, mut after) = (id(), AFTER.iter());
    let is_nearest = || at == wanted || !next_below(at, wanted).exists();
    while is_nearest() && id() == watched {
        let wait = *after.next().unwrap_or(&SLOW_LOOK);
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) if !is_end(event.mask) => {
                    after = AFTER.iter();
                    // What happens above the wanted directory is of no concern until that is there.
                    if at == wanted {
                        seen();
                    }
                }
                _ => return,
            },
            () = sleep(wait) => {}
        }
    }
}

/// A watch on the directory, or on the nearest one above it that is there.
fn watch_nearest(dir: &Path) -> io::Result<(&Path, EventStream<[u8; BUFFER]>)> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for at in dir.ancestors() {
        let at = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        match watch(at, at == dir) {
            Ok(events) => return Ok((at, events)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn watch(dir: &Path, wanted: bool) -> io::Result<EventStream<[u8; BUFFER]>> {
    let inotify = Inotify::init()?;
    let entries = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVED_FROM | WatchMask::MOVED_TO;
    // A file that is written in place, and a node whose permissions change.
    let contents = if wanted { WatchMask::CLOSE_WRITE | WatchMask::ATTRIB } else { WatchMask::empty() };
    let itself = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
    inotify.watches().add(dir, entries | contents | itself)?;
    inotify.into_event_stream([0; BUFFER])
}

fn next_below<'a>(at: &Path, wanted: &'a Path) -> &'a Path {
    wanted.ancestors().take_while(|above| *above != at).last().unwrap_or(wanted)
}

fn is_end(mask: EventMask) -> bool {
    mask.intersects(EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_directory_that_is_made_later_is_watched_from_then_on_and_made_again_too() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        let seen = Cell::new(0);
        let changed = tokio::sync::Notify::new();
        let watch = run_directory_watch(&dir, || {
            seen.set(seen.get() + 1);
            changed.notify_one();
        });
        let test = async {
            let next = async || {
                let wait = tokio::time::timeout(Duration::from_secs(30), changed.notified());
                wait.await.expect("the change is seen");
            };
            next().await;
            for _ in 0..2 {
                std::fs::create_dir_all(&dir).unwrap();
                next().await;
                std::fs::write(dir.join("file"), "").unwrap();
                while seen.replace(0) == 0 || dir.join("file").exists() {
                    next().await;
                    let _ = std::fs::remove_file(dir.join("file"));
                }
                std::fs::remove_dir_all(temp.path().join("a")).unwrap();
                next().await;
            }
        };
        tokio::select! {
            () = watch => unreachable!("it never ends"),
            () = test => {}
        }
    }
}
