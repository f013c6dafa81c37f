//! What lies in the kubelet's plugin directories: who listens on which socket, and which were left behind. Dials each,
//! which tells its listener's process (unix(7), SO_PEERCRED); sends and removes nothing.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocade_core::ResourceName;
use rocade_core::status::{Owner, SocketSeen};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// For a listener whose queue is full.
const PATIENCE: Duration = Duration::from_secs(1);

/// All sockets of the directories, by path; `own` are those of this agent, with what each serves.
pub(super) async fn read_plugin_sockets(
    dirs: &[PathBuf],
    own: &BTreeMap<PathBuf, ResourceName>,
) -> Vec<SocketSeen> {
    let mut seen = Vec::new();
    for path in dirs.iter().flat_map(|dir| sockets(dir)) {
        let resource = own.get(&path).cloned();
        let owner = match &resource {
            Some(_) => Owner::Own,
            None => read_owner(&path).await,
        };
        seen.push(SocketSeen { path: path.display().to_string(), owner, resource });
    }
    seen
}

fn sockets(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let mut paths: Vec<_> = sockets.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

async fn read_owner(path: &Path) -> Owner {
    let stream = match timeout(PATIENCE, UnixStream::connect(path)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return Owner::Nobody,
        Ok(Err(error)) => return Owner::Unknown(error.to_string()),
        Err(_) => return Owner::Unknown("it takes no connection".into()),
    };
    if path.file_name().is_some_and(|name| name == "kubelet.sock") {
        return Owner::Kubelet;
    }
    // 0 stands for a process outside this PID namespace.
    match stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok()) {
        None | Some(0) => Owner::Elsewhere,
        Some(pid) if pid == std::process::id() => Owner::Own,
        Some(pid) => Owner::Process { pid, name: name(pid) },
    }
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| String::new(), |name| name.trim_end().into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn owners_and_sockets_that_were_left_behind_are_told_apart_f38() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        drop(UnixListener::bind(at("left.sock")).unwrap());
        let _kubelet = UnixListener::bind(at("kubelet.sock")).unwrap();
        let _served = UnixListener::bind(at("rocade.sock")).unwrap();
        let _other = UnixListener::bind(at("sriov.sock")).unwrap();
        std::fs::write(at("kubelet_internal_checkpoint"), "").unwrap();
        let resource: ResourceName = "rdma/hca_a".parse().unwrap();
        let own = [(at("rocade.sock"), resource.clone())].into();
        let seen = read_plugin_sockets(&[temp.path().to_owned(), at("no such")], &own).await;
        let owners: Vec<_> = seen.iter().map(|s| (s.path.rsplit('/').next().unwrap(), &s.owner)).collect();
        let wanted = [
            ("kubelet.sock", &Owner::Kubelet),
            ("left.sock", &Owner::Nobody),
            ("rocade.sock", &Owner::Own),
            // A test and what it dials are one process.
            ("sriov.sock", &Owner::Own),
        ];
        assert_eq!(owners, wanted);
        assert_eq!(seen[2].resource, Some(resource));
    }
}
