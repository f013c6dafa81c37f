//! The other end of the agent's socket: asks it, and says what to do where it cannot be asked.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rocade_core::status::{STATUS_VERSION, Status};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::pages;

/// For the whole answer: the agent asks the kubelet, and waits for a host whose files do not answer.
const PATIENCE: Duration = Duration::from_secs(100);

/// Bytes of an answer: a document of hundreds of HCAs and tens of thousands of grants is below it.
const MOST: usize = 64 << 20;

/// Why an agent told nothing.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error("no agent answers on {}", path.display())]
    Dial {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It listens and does not answer.
    #[error("the agent on {} did not answer within {seconds} s", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// What listens there does not speak as an agent does.
    #[error("what listens on {} does not answer as an agent does: {what}", path.display())]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// What was wrong.
        what: String,
    },
    /// The agent's document is of another version.
    #[error("the agent on {} tells version {seen} of its status, this program reads {STATUS_VERSION}", path.display())]
    Version {
        /// The socket.
        path: PathBuf,
        /// The version of its document.
        seen: u64,
    },
    /// It refused, in its own words.
    #[error("the agent refused: {0}")]
    Refused(String),
}

/// Asks for the status document.
///
/// # Errors
/// No agent is there, or what is there tells no document of this version.
pub async fn read_status(path: &Path) -> Result<Status, AskError> {
    let body = ask(path, Method::GET, pages::STATUS, "").await?;
    let foreign =
        |error: serde_json::Error| AskError::Foreign { path: path.to_owned(), what: error.to_string() };
    let document: serde_json::Value = serde_json::from_slice(&body).map_err(foreign)?;
    let seen = document["schema_version"].as_u64().unwrap_or(0);
    if seen != u64::from(STATUS_VERSION) {
        return Err(AskError::Version { path: path.to_owned(), seen });
    }
    serde_json::from_value(document).map_err(foreign)
}

/// Puts another filter in force in the agent's log, until it is started again.
///
/// # Errors
/// No agent is there, or it refuses the filter.
pub async fn write_log_level(path: &Path, level: &str) -> Result<(), AskError> {
    ask(path, Method::PUT, pages::LOG_LEVEL, level).await.map(drop)
}

async fn ask(path: &Path, method: Method, page: &str, body: &str) -> Result<Bytes, AskError> {
    let silent = |_| AskError::Silent { path: path.to_owned(), seconds: PATIENCE.as_secs() };
    timeout(PATIENCE, exchange(path, method, page, body)).await.map_err(silent)?
}

async fn exchange(path: &Path, method: Method, page: &str, body: &str) -> Result<Bytes, AskError> {
    let foreign = |what: String| AskError::Foreign { path: path.to_owned(), what };
    let stream = UnixStream::connect(path).await;
    let stream = stream.map_err(|source| AskError::Dial { path: path.to_owned(), source })?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| foreign(error.to_string()))?;
    // It ends with its one answer, and whoever waits for that learns of its failure.
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(page).header("host", "agent");
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    let request = request.map_err(|error| foreign(error.to_string()))?;
    let answer = sender.send_request(request).await.map_err(|error| foreign(error.to_string()))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST).collect().await;
    let body = body.map_err(|error| foreign(error.to_string()))?.to_bytes();
    match status {
        StatusCode::OK => Ok(body),
        StatusCode::BAD_REQUEST => {
            Err(AskError::Refused(String::from_utf8_lossy(&body).trim_end().to_owned()))
        }
        status => Err(foreign(format!("it answers {page} with {status}"))),
    }
}
