//! Names of the agent's sockets, and what lies in the kubelet's directories of plugins. Only sockets of rocade's own
//! naming are ever removed, and of those only ones that nobody listens on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocade_core::ResourceName;
use tokio::net::UnixStream;

use crate::error::Error;
use crate::state::Way;

/// sockaddr_un has 108 bytes, the last of them zero (unix(7)).
const MAX_PATH: usize = 107;

/// Longest wait for a stale socket's refusal, which comes at once.
const PROBE: Duration = Duration::from_secs(1);

/// What tells a file from another that came later under the same name: file systems give inode numbers again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl FileId {
    /// Of the file itself, not of what a link points to; None when there is none.
    pub(crate) fn of(path: &Path) -> Option<FileId> {
        let meta = path.symlink_metadata().ok()?;
        Some(FileId { device: meta.dev(), inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }

    /// Of what a link points to.
    pub(crate) fn of_target(path: &Path) -> Option<FileId> {
        let meta = path.metadata().ok()?;
        Some(FileId { device: meta.dev(), inode: meta.ino(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }

    /// Device and inode number alone: a directory changes whenever an entry does.
    pub(crate) fn inode(self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

/// What was last seen in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// kubelet.sock, when it is there.
    pub(crate) kubelet: Option<FileId>,
}

/// The directories, and the names that this process gives its sockets in them.
#[derive(Debug)]
pub(crate) struct Sockets {
    dir: PathBuf,
    registry: PathBuf,
    start: u64,
    count: AtomicU32,
}

impl Sockets {
    /// Takes the process's start from the clock. `registry` is the directory in which the kubelet looks for plugins.
    ///
    /// # Errors
    /// The directory leaves no room for a socket's name.
    pub(crate) fn new(dir: PathBuf, registry: PathBuf) -> Result<Sockets, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from(since.as_nanos()).unwrap_or_default();
        let absolute = |dir: PathBuf| std::path::absolute(&dir).unwrap_or(dir);
        let (dir, registry) = (absolute(dir), absolute(registry));
        let sockets = Sockets { dir, registry, start, count: AtomicU32::new(0) };
        let path = sockets.dir.join(with_count(Way::Kubelet, &short(u64::MAX, start), u32::MAX));
        if path.as_os_str().len() > MAX_PATH {
            return Err(Error::SocketPathTooLong { path });
        }
        Ok(sockets)
    }

    /// The directory of kubelet.sock.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory in which the kubelet looks for plugins.
    pub(crate) fn registry(&self) -> &Path {
        &self.registry
    }

    /// Whether that directory is there.
    pub(crate) fn has_registry(&self) -> bool {
        self.registry.is_dir()
    }

    /// The kubelet's socket.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.dir.join("kubelet.sock")
    }

    pub(crate) fn look(&self) -> Sighting {
        Sighting { kubelet: FileId::of(&self.kubelet()) }
    }

    /// A path that no socket had before: the kubelet tells a resource's endpoints apart by their paths, and a late end
    /// of an old one must not be taken for the new one's.
    pub(crate) fn next_path(&self, way: Way, resource: &ResourceName) -> PathBuf {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let dir = if way == Way::Kubelet { &self.dir } else { &self.registry };
        let plain = format!("{}_{}-{:x}", resource.domain(), resource.name(), self.start);
        // Measured with the longest count, so that one process does not name its sockets in two ways.
        let longest = dir.join(with_count(way, &plain, u32::MAX));
        if longest.as_os_str().len() <= MAX_PATH {
            return dir.join(with_count(way, &plain, count));
        }
        let mut hasher = DefaultHasher::new();
        resource.hash(&mut hasher);
        dir.join(with_count(way, &short(hasher.finish(), self.start), count))
    }

    /// Removes sockets that earlier instances left behind. One that answers belongs to a living instance.
    pub(crate) async fn remove_stale(&self) {
        for dir in [&self.dir, &self.registry] {
            let Ok(entries) = std::fs::read_dir(dir) else { continue };
            for entry in entries.flatten() {
                let ours = entry.file_name().to_str().is_some_and(is_ours);
                let socket = entry.file_type().is_ok_and(|t| t.is_socket());
                if ours
                    && socket
                    && is_dead(&entry.path()).await
                    && std::fs::remove_file(entry.path()).is_ok()
                {
                    tracing::info!(socket = %entry.path().display(), "removed a socket that an earlier agent left");
                }
            }
        }
    }
}

/// The kubelet dials a socket that it found by the bare path and makes of that the `:authority` of its calls, which is no
/// host's name. Where the path has an `@`, what is before it counts as a user's name, in which all is allowed.
fn with_count(way: Way, plain: &str, count: u32) -> String {
    match way {
        Way::Kubelet => format!("rocade-{plain}.{count:x}.sock"),
        Way::Watcher => format!("rocade.dev-{plain}.{count:x}@reg.sock"),
    }
}

fn short(hash: u64, start: u64) -> String {
    format!("{hash:016x}-{start:x}")
}

fn is_ours(name: &str) -> bool {
    let registered = name.starts_with("rocade-") && name.ends_with(".sock");
    registered || (name.starts_with("rocade.dev-") && name.ends_with("@reg.sock"))
}

async fn is_dead(socket: &Path) -> bool {
    let dialled = tokio::time::timeout(PROBE, UnixStream::connect(socket)).await;
    matches!(dialled, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(dir: &str, way: Way, resource: &str) -> PathBuf {
        let sockets = Sockets::new(dir.into(), dir.into()).unwrap();
        sockets.next_path(way, &resource.parse().unwrap())
    }

    #[test]
    fn each_name_is_the_resource_and_a_start_that_never_comes_again() {
        let sockets = Sockets::new("/d".into(), "/r".into()).unwrap();
        let resource: ResourceName = "rdma/hca_a".parse().unwrap();
        let mut names = Vec::new();
        for (way, start, end) in [
            (Way::Kubelet, "/d/rocade-rdma_hca_a-", ".sock"),
            (Way::Watcher, "/r/rocade.dev-rdma_hca_a-", "@reg.sock"),
        ] {
            for _ in 0..2 {
                let path = sockets.next_path(way, &resource).display().to_string();
                assert!(path.starts_with(start) && path.ends_with(end), "{path}");
                assert!(is_ours(path.rsplit('/').next().unwrap()));
                names.push(path);
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 4);
    }

    #[test]
    fn a_name_too_long_for_a_socket_becomes_a_hash_of_the_resource() {
        let resource = |last| format!("{}.example.org/hca_{last}", "a".repeat(60));
        for way in [Way::Kubelet, Way::Watcher] {
            let a = name(crate::DEVICE_PLUGIN_DIR, way, &resource('a')).display().to_string();
            let b = name(crate::DEVICE_PLUGIN_DIR, way, &resource('b')).display().to_string();
            assert!(a.len() <= MAX_PATH, "{a}");
            let hash = |path: &str| path.rsplit('/').next().unwrap().split('-').nth(1).unwrap().to_owned();
            assert_ne!(hash(&a), hash(&b));
        }
    }

    #[test]
    fn a_directory_without_room_for_a_name_is_an_error_that_says_so() {
        let error = Sockets::new(format!("/{}", "d".repeat(90)).into(), "/r".into()).unwrap_err();
        assert!(error.to_string().contains("at most 107 bytes"), "{error}");
    }
}
