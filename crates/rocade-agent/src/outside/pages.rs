//! What is answered to which request. Anyone may ask for health, readiness and metrics; the document of grants and the
//! log's level are for whoever may open the agent's own socket.

use std::sync::Arc;
use std::time::SystemTime;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{Mutex, watch};

use super::report::{Agent, read_report};
use super::{Log, Place, metrics};
use crate::cdi::{SpecFile, Switch};
use crate::state::NodeState;

/// Page of the status document.
pub(super) const STATUS: &str = "/status";
/// Page of the log's level.
pub(super) const LOG_LEVEL: &str = "/loglevel";

/// Bytes of a filter.
const LEVEL_MOST: usize = 4096;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// Whoever can open the agent's own socket.
    Owner,
    /// Whoever reaches its address.
    Anyone,
}

/// All pages.
pub(super) struct Pages {
    place: Arc<Place>,
    states: watch::Receiver<Arc<NodeState>>,
    config: String,
    log: Option<Arc<dyn Log>>,
    cdi: Arc<SpecFile>,
    started: SystemTime,
    /// Held while the host is read: two who ask at once do not read it twice at once.
    reading: Mutex<()>,
}

type Answer = Response<Full<Bytes>>;

impl Pages {
    pub(super) fn new(
        place: Place,
        states: watch::Receiver<Arc<NodeState>>,
        config: String,
        log: Option<Arc<dyn Log>>,
        cdi: Arc<SpecFile>,
        started: SystemTime,
    ) -> Pages {
        Pages { place: Arc::new(place), states, config, log, cdi, started, reading: Mutex::new(()) }
    }

    /// Answers any request.
    pub(super) async fn answer(&self, request: Request<Incoming>, asker: Asker) -> Answer {
        let page = (request.uri().path(), asker);
        let wanted = if page == (LOG_LEVEL, Asker::Owner) { Method::PUT } else { Method::GET };
        let known =
            matches!(page, ("/healthz" | "/readyz" | "/metrics", _) | (STATUS | LOG_LEVEL, Asker::Owner));
        match page.0 {
            _ if !known => text(StatusCode::NOT_FOUND, "here are /healthz, /readyz and /metrics\n"),
            _ if *request.method() != wanted => wrong_method(&wanted),
            // Answering at all shows that the loop turns.
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics().await,
            STATUS => self.status().await,
            _ => self.set_level(request).await,
        }
    }

    fn state(&self) -> Arc<NodeState> {
        Arc::clone(&self.states.borrow())
    }

    fn agent(&self) -> Agent<'_> {
        let log_level = self.log.as_ref().map_or_else(|| "fixed".to_owned(), |log| log.level());
        let refused = match self.cdi.switch() {
            Switch::Refused(why) => vec![why],
            Switch::Off | Switch::On => Vec::new(),
        };
        Agent { config: &self.config, log_level, refused, started: Some(self.started) }
    }

    fn ready(&self) -> Answer {
        let unready = super::report::report(&self.state(), &self.agent()).unready();
        match unready.as_slice() {
            [] => text(StatusCode::OK, "ok\n"),
            why => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{}\n", why.join("\n"))),
        }
    }

    async fn metrics(&self) -> Answer {
        let reading = self.reading.lock().await;
        let (place, state, started) = (Arc::clone(&self.place), self.state(), self.started);
        // A driver may take its time over counters, and the kubelet does not wait for those.
        let text =
            tokio::task::spawn_blocking(move || metrics::read_metrics(&place.root, state, started)).await;
        drop(reading);
        match text {
            Ok(body) => answer(StatusCode::OK, metrics::CONTENT_TYPE, body),
            Err(error) => text_of_failure(&error),
        }
    }

    async fn status(&self) -> Answer {
        let report = read_report(&self.state(), &self.agent(), &self.place).await;
        match serde_json::to_string(&report) {
            Ok(body) => answer(StatusCode::OK, "application/json", body),
            Err(error) => text_of_failure(&error),
        }
    }

    async fn set_level(&self, request: Request<Incoming>) -> Answer {
        let Some(log) = &self.log else {
            return text(StatusCode::BAD_REQUEST, "this agent's log level is fixed\n");
        };
        let body = match Limited::new(request.into_body(), LEVEL_MOST).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return text(StatusCode::BAD_REQUEST, &format!("{error}\n")),
        };
        let level = String::from_utf8_lossy(&body);
        match log.set_level(level.trim()) {
            Ok(()) => {
                tracing::info!(level = level.trim(), "changed the log level");
                text(StatusCode::OK, "ok\n")
            }
            Err(why) => text(StatusCode::BAD_REQUEST, &format!("{why}\n")),
        }
    }
}

fn text(status: StatusCode, body: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", body.to_owned())
}

fn text_of_failure(error: &dyn std::error::Error) -> Answer {
    tracing::error!(%error, "could not answer");
    text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n"))
}

fn wrong_method(wanted: &Method) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, &format!("{wanted} it\n"));
    if let Ok(value) = wanted.as_str().parse() {
        answer.headers_mut().insert(ALLOW, value);
    }
    answer
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    answer
}
