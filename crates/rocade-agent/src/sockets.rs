//! Names of the agent's sockets, and what lies in the kubelet's device-plugin directory. Only sockets of rocade's own
//! naming are ever removed, and of those only ones that nobody listens on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rocade_core::ResourceName;
use rocade_core::config::Config;
use tokio::net::UnixStream;

use crate::error::Error;

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

/// The directory, and the names that this process gives its sockets in it.
#[derive(Debug)]
pub(crate) struct Sockets {
    dir: PathBuf,
    start: u64,
    count: AtomicU32,
}

impl Sockets {
    /// Takes the process's start from the clock.
    ///
    /// # Errors
    /// The directory leaves no room for a socket's name.
    pub(crate) fn new(dir: PathBuf, config: &Config) -> Result<Sockets, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = u64::try_from(since.as_nanos()).unwrap_or_default();
        // A relative path would read as a host's name in unix://PATH.
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        let sockets = Sockets { dir, start, count: AtomicU32::new(0) };
        for resource in &config.resources {
            let path = sockets.dir.join(sockets.name(&resource.name, u32::MAX));
            if path.as_os_str().len() > MAX_PATH {
                return Err(Error::SocketPathTooLong { path });
            }
        }
        Ok(sockets)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubelet's socket.
    pub(crate) fn kubelet(&self) -> PathBuf {
        self.dir.join("kubelet.sock")
    }

    pub(crate) fn look(&self) -> Sighting {
        Sighting { kubelet: FileId::of(&self.kubelet()) }
    }

    /// A name that no socket had before: the kubelet tells a resource's endpoints apart by their paths, and a late end
    /// of an old one must not be taken for the new one's.
    pub(crate) fn next_name(&self, resource: &ResourceName) -> String {
        self.name(resource, self.count.fetch_add(1, Ordering::Relaxed))
    }

    fn name(&self, resource: &ResourceName, count: u32) -> String {
        let plain = format!("rocade-{}_{}-{:x}.", resource.domain(), resource.name(), self.start);
        // Measured with the longest count, so that one process does not name its sockets in two ways.
        let longest = self.dir.as_os_str().len() + "/".len() + plain.len() + "ffffffff.sock".len();
        if longest <= MAX_PATH {
            return format!("{plain}{count:x}.sock");
        }
        let mut hasher = DefaultHasher::new();
        resource.hash(&mut hasher);
        format!("rocade-{:016x}-{:x}.{count:x}.sock", hasher.finish(), self.start)
    }

    /// Removes sockets that earlier instances left behind. One that answers belongs to a living instance.
    pub(crate) async fn remove_stale(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let ours = name.to_str().is_some_and(|n| n.starts_with("rocade-") && n.ends_with(".sock"));
            let socket = entry.file_type().is_ok_and(|t| t.is_socket());
            if ours && socket && is_dead(&entry.path()).await && std::fs::remove_file(entry.path()).is_ok() {
                tracing::info!(socket = %entry.path().display(), "removed a socket that an earlier agent left");
            }
        }
    }
}

async fn is_dead(socket: &Path) -> bool {
    let dialled = tokio::time::timeout(PROBE, UnixStream::connect(socket)).await;
    matches!(dialled, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use rocade_core::config::{Resource, Selectors};

    use super::*;

    fn sockets(dir: &str, resource: &str) -> Result<(Sockets, ResourceName), Error> {
        let name: ResourceName = resource.parse().unwrap();
        let resource = Resource::of_config_json(name.clone(), 1, Selectors::default());
        let config = Config::of_config_json(None, vec![resource]);
        Sockets::new(dir.into(), &config).map(|sockets| (sockets, name))
    }

    #[test]
    fn each_name_is_the_resource_and_a_start_that_never_comes_again() {
        let (sockets, resource) = sockets("/d", "rdma/hca_a").unwrap();
        let (first, second) = (sockets.next_name(&resource), sockets.next_name(&resource));
        assert!(first.starts_with("rocade-rdma_hca_a-") && first.ends_with(".sock"), "{first}");
        assert_ne!(first, second);
    }

    #[test]
    fn a_name_too_long_for_a_socket_becomes_a_hash_of_the_resource() {
        let resource = |last| format!("{}.example.org/hca_{last}", "a".repeat(60));
        let (one, name) = sockets(crate::DEVICE_PLUGIN_DIR, &resource('a')).unwrap();
        let (other, other_name) = sockets(crate::DEVICE_PLUGIN_DIR, &resource('b')).unwrap();
        let (a, b) = (one.next_name(&name), other.next_name(&other_name));
        assert!(crate::DEVICE_PLUGIN_DIR.len() + 1 + a.len() <= MAX_PATH, "{a}");
        assert_ne!(a.split('-').nth(1), b.split('-').nth(1));
    }

    #[test]
    fn a_directory_without_room_for_a_name_is_an_error_that_says_so() {
        let error = sockets(&format!("/{}", "d".repeat(90)), "rdma/a").unwrap_err();
        assert!(error.to_string().contains("at most 107 bytes"), "{error}");
    }
}
