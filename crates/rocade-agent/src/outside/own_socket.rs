//! The unix socket of `rocade status`: for its owner alone, put in place whole, and taken away only while it is still
//! this agent's. During an update two agents have the same path: the newer one's socket replaces the older one's, and
//! the older comes back when the newer has gone.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use inotify::{EventStream, Inotify, WatchMask};
use tokio::net::UnixListener;
use tokio::time::sleep;
use tokio_stream::StreamExt;

use super::http::Limit;
use super::pages::{Asker, Pages};
use crate::sockets::FileId;

/// Between two tries to make the socket.
const AGAIN: Duration = Duration::from_secs(60);

/// Room for some tens of events with their names.
const BUFFER: usize = 4096;

/// A socket that is taken away when it goes, if it is still there.
struct OwnSocket {
    path: PathBuf,
    inode: Option<(u64, u64)>,
    listener: UnixListener,
}

impl OwnSocket {
    fn bind(path: &Path) -> io::Result<OwnSocket> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        // Made under a name of its own: the path never has a socket that all may open or nobody serves.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{:x}", since.as_nanos()));
        let temporary = PathBuf::from(temporary);
        let listener = UnixListener::bind(&temporary)?;
        let placed = std::fs::set_permissions(&temporary, PermissionsExt::from_mode(0o600))
            .and_then(|()| std::fs::rename(&temporary, path));
        if let Err(error) = placed {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
        Ok(OwnSocket { path: path.to_owned(), inode: inode(path), listener })
    }
}

impl Drop for OwnSocket {
    fn drop(&mut self) {
        if self.inode.is_some() && inode(&self.path) == self.inode {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    FileId::of(path).map(FileId::inode)
}

/// Makes the socket and answers on it, again whenever it is gone. Never ends.
pub(super) async fn run_socket(path: &Path, pages: &Arc<Pages>) {
    loop {
        match OwnSocket::bind(path) {
            Ok(socket) => run_accept(&socket, pages).await,
            Err(error) => {
                tracing::warn!(socket = %path.display(), %error, "`rocade status` is not answered here");
                sleep(AGAIN).await;
            }
        }
    }
}

/// Answers until no socket is at the path any more.
async fn run_accept(socket: &OwnSocket, pages: &Arc<Pages>) {
    let limit = Limit::new();
    let mut events = socket.path.parent().and_then(|dir| watch(dir).ok());
    loop {
        tokio::select! {
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => limit.answer(stream, pages, Asker::Owner).await,
                Err(error) => {
                    tracing::warn!(socket = %socket.path.display(), %error, "cannot take a connection");
                    sleep(Duration::from_secs(1)).await;
                }
            },
            () = next(&mut events) => if inode(&socket.path).is_none() {
                return;
            },
        }
    }
}

/// Waits for something to go from the directory; for ever where it is not watched.
async fn next(events: &mut Option<EventStream<[u8; BUFFER]>>) {
    match events {
        Some(stream) => {
            if stream.next().await.is_none() {
                *events = None;
            }
        }
        None => std::future::pending().await,
    }
}

fn watch(dir: &Path) -> io::Result<EventStream<[u8; BUFFER]>> {
    let inotify = Inotify::init()?;
    inotify.watches().add(dir, WatchMask::DELETE | WatchMask::MOVED_FROM | WatchMask::ONLYDIR)?;
    inotify.into_event_stream([0; BUFFER])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone_and_goes_with_the_agent() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("made/agent.sock");
        let socket = OwnSocket::bind(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(socket);
        assert_eq!(std::fs::read_dir(temp.path().join("made")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn an_older_agent_that_ends_leaves_the_newer_ones_socket() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("agent.sock");
        let older = OwnSocket::bind(&path).unwrap();
        let newer = OwnSocket::bind(&path).unwrap();
        drop(older);
        assert_eq!(inode(&path), newer.inode);
        drop(newer);
        assert!(!path.exists());
    }
}
