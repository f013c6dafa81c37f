//! Where the writer's hints come from: the kernel's events, and directories in which something comes or goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocade_core::Host;
use rocade_host::Root;
use rocade_host::events::{Event, EventSocket, Source};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, watch};

use crate::directory::run_directory_watch;
use crate::node::{Hint, Notice};
use crate::state::NodeState;

/// Where char devices of RDMA lie.
const NODES: &str = "/dev/infiniband";

/// Kinds of interfaces that lie on HCAs' own, or are told of as an HCA's.
const KINDS: [&str; 7] = ["bond", "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "ipoib"];

/// Tells the writer what the kernel tells, and what happens to device nodes. Never ends.
pub(crate) async fn run_sources(
    root: Arc<Root>,
    addresses: bool,
    states: watch::Receiver<Arc<NodeState>>,
    tell: mpsc::UnboundedSender<Notice>,
) {
    let open = |source| {
        let opened = root.events(source);
        if let Err(why) = &opened {
            tracing::debug!(?source, %why, "no events");
        }
        opened.ok()
    };
    let devices = open(Source::Devices);
    let interfaces = open(Source::Interfaces { addresses });
    // The host is looked at more often without; that RDMA events are missing is made up for by the others.
    let _ = tell.send(Notice::Events(devices.is_some() && interfaces.is_some()));
    let rdma = open(Source::Rdma);
    tokio::join!(
        run_socket(devices, &states, &tell),
        run_socket(interfaces, &states, &tell),
        run_socket(rdma, &states, &tell),
        run_nodes(root.local(NODES), &tell),
    );
}

async fn run_nodes(dir: Option<PathBuf>, tell: &mpsc::UnboundedSender<Notice>) {
    match dir {
        Some(dir) => run_directory_watch(&dir, || drop(tell.send(Notice::Hint(Hint::Whole)))).await,
        None => std::future::pending().await,
    }
}

async fn run_socket(
    socket: Option<EventSocket>,
    states: &watch::Receiver<Arc<NodeState>>,
    tell: &mpsc::UnboundedSender<Notice>,
) {
    let Some(socket) = socket else { return std::future::pending().await };
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that change or close their descriptor; this has one for life"
    )]
    let Ok(socket) = AsyncFd::with_interest(socket, Interest::READABLE) else {
        return std::future::pending().await;
    };
    loop {
        let Ok(mut ready) = socket.readable().await else { return std::future::pending().await };
        match ready.try_io(|socket| socket.get_ref().read()) {
            Ok(Ok(events)) => {
                let host = Arc::clone(&states.borrow().host);
                for hint in events.iter().filter_map(|event| hint(event, &host)) {
                    let _ = tell.send(Notice::Hint(hint));
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the kernel tells no more, looking at the host more often");
                let _ = tell.send(Notice::Events(false));
                return std::future::pending().await;
            }
            // Nothing more to read.
            Err(_) => {}
        }
    }
}

/// What an event asks for; None where it is about what no HCA has to do with: the interfaces of Pods come and go.
fn hint(event: &Event, host: &Host) -> Option<Hint> {
    match event {
        Event::Device { .. } | Event::Rdma | Event::Lost => Some(Hint::Whole),
        Event::Interface { name, kind, .. } => {
            let is_kind = kind.as_deref().is_none_or(|kind| KINDS.contains(&kind));
            (is_kind || is_of_hca(host, name)).then_some(Hint::States)
        }
        Event::Address { index } => {
            let netdev = host.netdevs.iter().find(|netdev| netdev.ifindex == *index)?;
            is_of_hca(host, &netdev.name).then_some(Hint::Whole)
        }
    }
}

fn is_of_hca(host: &Host, name: &str) -> bool {
    host.hcas.iter().any(|hca| {
        let ports = hca.ports.iter().flat_map(|port| {
            let own = port.netdev.iter().chain(&port.netlink_netdev);
            own.chain(&port.bond_members).chain(&port.child_netdevs)
        });
        ports.chain(&hca.parent_netdevs).any(|netdev| netdev == name)
    })
}

/// Tells the writer when something in the configuration's folder changes: a ConfigMap is swapped by its link `..data`.
/// Never ends.
pub(crate) async fn run_config_watch(file: &Path, tell: &mpsc::UnboundedSender<Notice>) {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    run_directory_watch(folder, || drop(tell.send(Notice::ConfigChanged))).await;
}

#[cfg(test)]
mod tests {
    use rocade_host::{Scope, read_parts};

    use super::*;

    #[test]
    fn interfaces_of_pods_ask_for_nothing_and_those_of_hcas_for_port_states_at_once() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
        let host = read_parts(&Root::open(path).unwrap(), Scope::GRANTS);
        let interface = |name: &str, kind: Option<&str>| {
            let event = Event::Interface { index: 9, name: name.into(), kind: kind.map(str::to_owned) };
            hint(&event, &host)
        };
        assert_eq!(interface("veth1234", Some("veth")), None);
        assert_eq!(interface("cni0", Some("bridge")), None);
        assert_eq!(interface("ens18np0", None), Some(Hint::States));
        assert_eq!(interface("ens18np0.100", Some("vlan")), Some(Hint::States));
        assert_eq!(hint(&Event::Lost, &host), Some(Hint::Whole));
        let index = host.netdev("ens18np0").unwrap().ifindex;
        assert_eq!(hint(&Event::Address { index }, &host), Some(Hint::Whole));
        assert_eq!(hint(&Event::Address { index: 9999 }, &host), None);
    }
}
