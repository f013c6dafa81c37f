//! One socket in the device-plugin directory with the server behind it, from bind to unlink.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rocade_core::ResourceName;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::api::device_plugin_server::DevicePluginServer;
use crate::error::Error;
use crate::plugin::Plugin;
use crate::sockets::FileId;
use crate::state::NodeState;

/// Longest wait for calls in progress when an endpoint closes; Allocate takes microseconds.
const DRAIN: Duration = Duration::from_secs(2);

/// A served socket.
pub(crate) struct Endpoint {
    path: PathBuf,
    id: Option<FileId>,
    streams: watch::Receiver<usize>,
    closing: watch::Sender<bool>,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Endpoint {
    /// Binds and serves; when this returns, the kubelet can dial.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub(crate) fn open(
        path: PathBuf,
        resource: ResourceName,
        states: watch::Receiver<Arc<NodeState>>,
    ) -> Result<Endpoint, Error> {
        let listener =
            UnixListener::bind(&path).map_err(|source| Error::Listen { path: path.clone(), source })?;
        let (closing, mut closed) = watch::channel(false);
        let (opened, streams) = watch::channel(0);
        let plugin = Plugin { resource, states, streams: opened, closing: closing.subscribe() };
        let shutdown = async move {
            // An endpoint that was dropped closes as well.
            let _ = closed.wait_for(|closing| *closing).await;
        };
        let server = Server::builder()
            .add_service(DevicePluginServer::new(plugin))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown);
        Ok(Endpoint { id: FileId::of(&path), path, streams, closing, server: tokio::spawn(server) })
    }

    /// Whether the socket in the directory is still this one.
    pub(crate) fn is_in_place(&self) -> bool {
        self.id.is_some() && FileId::of(&self.path).map(FileId::inode) == self.id.map(FileId::inode)
    }

    /// The number of open ListAndWatch streams.
    pub(crate) fn streams(&self) -> watch::Receiver<usize> {
        self.streams.clone()
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
