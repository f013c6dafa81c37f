//! Watches the kubelet's device-plugin directory: by inotify, by a slow look besides, and by a quicker look while
//! there is no directory to watch. It judges nothing; whoever waits compares with what it knew.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use inotify::{EventMask, EventStream, Inotify, WatchMask};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_stream::StreamExt;

use crate::sockets::{FileId, Sighting, Sockets};

/// Between two looks while events come.
const SLOW_LOOK: Duration = Duration::from_secs(60);

/// Between two looks while there is no directory, no watch to be had, or no kubelet.sock: a removed directory is not told
/// of as long as a socket that was bound in it is open, and the agent keeps its own open for a kubelet that lives on.
const QUICK_LOOK: Duration = Duration::from_secs(1);

/// Room for some tens of events with their names.
const BUFFER: usize = 4096;

/// Sends a sighting at each event. Never ends.
pub(crate) async fn run_directory_watch(sockets: Arc<Sockets>, see: watch::Sender<Sighting>) {
    loop {
        match watch_directory(sockets.dir()) {
            Ok(events) => {
                see.send_replace(sockets.look());
                run_events(&sockets, events, &see).await;
            }
            Err(error) => {
                tracing::debug!(dir = %sockets.dir().display(), %error, "no watch on the directory, polling it");
                sleep(QUICK_LOOK).await;
            }
        }
        see.send_replace(sockets.look());
    }
}

/// Runs until the directory that is watched is no longer the one of that name.
async fn run_events(sockets: &Sockets, mut events: EventStream<[u8; BUFFER]>, see: &watch::Sender<Sighting>) {
    let inode = |id: FileId| id.inode();
    let watched = FileId::of(sockets.dir()).map(inode);
    loop {
        let pause = if see.borrow().kubelet.is_some() { SLOW_LOOK } else { QUICK_LOOK };
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) if !is_end(event.mask) => {}
                _ => return,
            },
            () = sleep(pause) => if FileId::of(sockets.dir()).map(inode) != watched {
                return;
            },
        }
        see.send_replace(sockets.look());
    }
}

fn watch_directory(dir: &Path) -> std::io::Result<EventStream<[u8; BUFFER]>> {
    let inotify = Inotify::init()?;
    let entries = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVED_FROM | WatchMask::MOVED_TO;
    let itself = WatchMask::DELETE_SELF | WatchMask::MOVE_SELF | WatchMask::ONLYDIR;
    inotify.watches().add(dir, entries | itself)?;
    inotify.into_event_stream([0; BUFFER])
}

fn is_end(mask: EventMask) -> bool {
    mask.intersects(EventMask::DELETE_SELF | EventMask::MOVE_SELF | EventMask::IGNORED | EventMask::UNMOUNT)
}
