//! One socket in a directory of plugins with the server behind it, from bind to unlink.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rocade_core::ResourceName;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::api::DevicePluginOptions;
use crate::api::plugin_registration::registration_server::RegistrationServer;
use crate::cdi::SpecFile;
use crate::error::Error;
use crate::node::Notice;
use crate::pieces::PluginService;
use crate::plugin::Plugin;
use crate::sockets::FileId;
use crate::state::{NodeState, Way};
use crate::watcher::Introduction;

/// Longest wait for calls in progress when an endpoint closes; Allocate takes microseconds.
const DRAIN: Duration = Duration::from_secs(2);

/// A served socket.
pub(crate) struct Endpoint {
    path: PathBuf,
    id: Option<FileId>,
    streams: watch::Receiver<usize>,
    /// Why a kubelet that found the socket does not take it.
    refusals: watch::Receiver<Option<String>>,
    closing: watch::Sender<bool>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// What is served on a socket.
#[derive(Clone)]
pub(crate) struct Offer {
    pub(crate) resource: ResourceName,
    pub(crate) options: DevicePluginOptions,
    pub(crate) states: watch::Receiver<Arc<NodeState>>,
    pub(crate) tell: mpsc::UnboundedSender<Notice>,
    pub(crate) cdi: Arc<SpecFile>,
}

impl Endpoint {
    /// Binds and serves; when this returns, the kubelet can dial.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn open(path: PathBuf, way: Way, offer: Offer) -> Result<Endpoint, Error> {
        let listener =
            UnixListener::bind(&path).map_err(|source| Error::Listen { path: path.clone(), source })?;
        let (closing, mut closed) = watch::channel(false);
        let (opened, streams) = watch::channel(0);
        let (refuse, refusals) = watch::channel(None);
        let Offer { resource, options, states, tell, cdi } = offer;
        let introduction = Introduction { resource: resource.clone(), refuse };
        let closing_streams = closing.subscribe();
        let plugin =
            Plugin { resource, options, states, tell, cdi, streams: opened, closing: closing_streams };
        let shutdown = async move {
            // An endpoint that was dropped closes as well.
            let _ = closed.wait_for(|closing| *closing).await;
        };
        let server = Server::builder()
            .add_service(PluginService::new(plugin))
            .add_optional_service((way == Way::Watcher).then(|| RegistrationServer::new(introduction)))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown);
        let id = FileId::of(&path);
        Ok(Endpoint { path, id, streams, refusals, closing, server: tokio::spawn(server) })
    }

    /// The path of the socket.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the socket in the directory is still this one.
    pub(crate) fn is_in_place(&self) -> bool {
        self.id.is_some() && FileId::of(&self.path).map(FileId::inode) == self.id.map(FileId::inode)
    }

    /// The number of open ListAndWatch streams.
    pub(crate) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.clone()
    }

    /// Why a kubelet that found the socket does not take it; None while it does not say so.
    pub(crate) fn refusals(&self) -> watch::Receiver<Option<String>> {
        self.refusals.clone()
    }

    /// Ends all streams, lets calls end, and removes the socket if it is still this one. The kubelet before 1.37 takes
    /// a late end of an old endpoint for the new one's, so this is complete before another is registered.
    pub(crate) async fn close(mut self) {
        if self.is_in_place() {
            // A kubelet that starts clears its directory, so the socket may go at any moment.
            match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(socket = %self.path.display(), %error, "left a socket behind");
                }
                _ => {}
            }
        }
        self.closing.send_replace(true);
        if tokio::time::timeout(DRAIN, &mut self.server).await.is_err() {
            self.server.abort();
        }
    }
}
