//! HTTP/1.1 for a few pages: one request a connection, so that nothing is left open while nobody asks, and an end to
//! whoever is slow. Owns listening and limits; what is answered is `pages`' business.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Listen;
use super::pages::{Asker, Pages};

/// Requests that are answered at once; others wait.
const AT_ONCE: usize = 32;

/// For a request's head to come.
const HEAD: Duration = Duration::from_secs(2);

/// For all of it: a host whose files do not answer is waited for within this.
const WHOLE: Duration = Duration::from_secs(90);

/// Bytes of a head.
const BUFFER: usize = 16 << 10;

/// Between two tries to have an address that another has, as the agent before this one during an update.
const AGAIN: Duration = Duration::from_secs(5);

/// How many requests are in work.
pub(super) struct Limit(Arc<Semaphore>);

impl Limit {
    pub(super) fn new() -> Limit {
        Limit(Arc::new(Semaphore::new(AT_ONCE)))
    }

    /// Answers one connection in a task of its own, once there is room for it.
    pub(super) async fn answer<S>(&self, stream: S, pages: &Arc<Pages>, asker: Asker)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(room) = Arc::clone(&self.0).acquire_owned().await else { return };
        let pages = Arc::clone(pages);
        tokio::spawn(async move {
            let _room = room;
            let answer = service_fn(|request| {
                let pages = Arc::clone(&pages);
                async move { Ok::<_, Infallible>(pages.answer(request, asker).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(BUFFER)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            if let Ok(Err(error)) = timeout(WHOLE, connection).await {
                tracing::debug!(%error, "a request ended before its answer");
            }
        });
    }
}

/// Listens on an address and answers. Never ends: an address that another has is waited for.
pub(super) async fn run_listener(listen: Listen, pages: &Arc<Pages>) {
    let listener = bind(listen).await;
    tracing::info!(%listen, "tells health and metrics");
    let limit = Limit::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => limit.answer(stream, pages, Asker::Anyone).await,
            // Out of descriptors: others close some.
            Err(error) => {
                tracing::warn!(%listen, %error, "cannot take a connection");
                sleep(AGAIN).await;
            }
        }
    }
}

async fn bind(listen: Listen) -> TcpListener {
    let mut said = false;
    loop {
        let mut last = None;
        for address in listen.addresses() {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last.filter(|_| !said) {
            tracing::error!(%listen, %error, "no health and metrics until this address can be had");
            said = true;
        }
        sleep(AGAIN).await;
    }
}
