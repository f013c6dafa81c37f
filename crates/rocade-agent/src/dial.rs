//! Dialling a unix socket by its path, whatever characters that has: an address in the form of a URI has none for some.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint, Error};

/// For one connection; a socket that is listened on takes it at once.
const DIAL: Duration = Duration::from_secs(10);

/// A connection to the socket.
///
/// # Errors
/// Nobody listens there.
pub(crate) async fn dial(path: &Path) -> Result<Channel, Error> {
    // What the address says goes into `:authority` alone.
    let address = Endpoint::from_static("http://localhost").connect_timeout(DIAL);
    address.connect_with_connector(Socket(path.to_owned())).await
}

struct Socket(PathBuf);

impl Service<Uri> for Socket {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<UnixStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}
