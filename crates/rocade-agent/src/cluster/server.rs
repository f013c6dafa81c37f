//! The API server, as a Pod reaches it: the few requests that write a Node's parts, over TLS, with the token of the
//! service account. A connection a request: hours lie between two. Types of Kubernetes' own, watches and all else that a
//! client library brings would be most of the program.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Where a Pod has its service account's token and the server's CA.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Who owns the fields that are applied.
const FIELD_MANAGER: &str = "rocade";

/// For one request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of an answer: a Node with many images is some tens of KiB.
const MOST: usize = 4 << 20;

/// How something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Server-side apply, by the field manager.
    Apply,
    /// JSON merge patch.
    Merge,
    /// A new object.
    Create,
}

/// How the API server is reached.
#[derive(Debug, Clone)]
pub struct Access {
    host: String,
    port: u16,
    account: PathBuf,
}

/// Why the API server did not do it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    /// The service account is not mounted.
    #[error("cannot read {} (automountServiceAccountToken, see deploy/components/api): {source}", path.display())]
    Account {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The server was not reached, or did not speak as it must.
    #[error("the API server {at}: {what}")]
    Talk {
        /// Its address.
        at: String,
        /// What went wrong.
        what: String,
    },
    /// It refused.
    #[error("the API server answers {method} {path} with {status}: {message}")]
    Refused {
        /// What was asked.
        method: Method,
        /// Of what.
        path: String,
        /// Its code.
        status: StatusCode,
        /// Its words.
        message: String,
    },
}

impl ServerError {
    /// Whether the server found something wrong with the object, which another try does not mend.
    pub(super) fn is_about_the_object(&self) -> bool {
        let wrong = [StatusCode::BAD_REQUEST, StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY];
        matches!(self, ServerError::Refused { status, .. } if wrong.contains(status))
    }
}

impl Default for Access {
    /// As every Pod reaches it by name.
    fn default() -> Self {
        Access::new("kubernetes.default.svc".into(), 443, SERVICE_ACCOUNT.into())
    }
}

impl Access {
    /// By address or name, with the directory that has `token` and `ca.crt`.
    pub fn new(host: String, port: u16, account: PathBuf) -> Access {
        Access { host, port, account }
    }

    /// As the variables of a Pod tell: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
    pub fn of_pod(host: Option<String>, port: Option<String>) -> Access {
        let port = port.and_then(|port| port.parse().ok()).unwrap_or(443);
        host.map_or_else(Access::default, |host| Access::new(host, port, SERVICE_ACCOUNT.into()))
    }

    /// The labels of a node.
    pub(crate) async fn read_node_labels(&self, node: &str) -> Result<BTreeMap<String, String>, ServerError> {
        let object = self.read(&format!("/api/v1/nodes/{node}")).await?;
        Ok(serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default())
    }

    /// Reads an object.
    pub(super) async fn read(&self, path: &str) -> Result<Value, ServerError> {
        self.send(Method::GET, path, path, "", Bytes::new()).await
    }

    /// Writes an object, or parts of one.
    pub(super) async fn write(&self, write: Write, path: &str, body: &Value) -> Result<(), ServerError> {
        let (method, kind, query) = match write {
            // By force: the fields are this agent's by their names.
            Write::Apply => (Method::PATCH, "application/apply-patch+yaml", "&force=true"),
            Write::Merge => (Method::PATCH, "application/merge-patch+json", ""),
            Write::Create => (Method::POST, "application/json", ""),
        };
        let target = format!("{path}?fieldManager={FIELD_MANAGER}{query}");
        self.send(method, path, &target, kind, body.to_string().into()).await.map(drop)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        target: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<Value, ServerError> {
        let exchange = self.exchange(method.clone(), target, kind, body);
        let (status, body) = timeout(PATIENCE, exchange).await.map_err(|_| self.talk("did not answer"))??;
        let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        if status.is_success() {
            return Ok(answer);
        }
        let message = answer["message"].as_str().unwrap_or("no reason").to_owned();
        Err(ServerError::Refused { method, path: path.to_owned(), status, message })
    }

    async fn exchange(
        &self,
        method: Method,
        target: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), ServerError> {
        // Tokens are given anew every hour or so.
        let token = self.account_file("token")?;
        let tls = TlsConnector::from(Arc::new(self.trust()?));
        let name = ServerName::try_from(self.host.clone()).map_err(|error| self.talk(error))?;
        let tcp =
            TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|error| self.talk(error))?;
        let stream = tls.connect(name, tcp).await.map_err(|error| self.talk(error))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.talk(error))?;
        // It ends with the sender, and whoever waits for an answer learns of its failure.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, self.authority())
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, format!("Bearer {}", token.trim()))
            .header(CONTENT_TYPE, kind)
            .body(Full::new(body))
            .map_err(|error| self.talk(error))?;
        let answer = sender.send_request(request).await.map_err(|error| self.talk(error))?;
        let status = answer.status();
        let body =
            Limited::new(answer.into_body(), MOST).collect().await.map_err(|error| self.talk(error))?;
        Ok((status, body.to_bytes()))
    }

    /// Only the cluster's own CA is trusted.
    fn trust(&self) -> Result<ClientConfig, ServerError> {
        let pem = self.account_file("ca.crt")?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| self.talk(format!("ca.crt: {error}")))?;
            roots.add(certificate).map_err(|error| self.talk(format!("ca.crt: {error}")))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| self.talk(error))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    fn account_file(&self, name: &str) -> Result<String, ServerError> {
        let path: PathBuf = Path::new(&self.account).join(name);
        std::fs::read_to_string(&path).map_err(|source| ServerError::Account { path, source })
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn talk(&self, what: impl std::fmt::Display) -> ServerError {
        ServerError::Talk { at: self.authority(), what: what.to_string() }
    }
}
