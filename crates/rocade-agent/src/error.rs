//! What can go wrong in the agent: errors that end it, and attempts that it repeats.

use std::io;
use std::path::PathBuf;

use rocade_core::Finding;

/// Why the agent does not run, or why an attempt failed that it will repeat.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration file could not be read.
    #[error("cannot read the configuration {}", path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The configuration has errors; nothing was registered.
    #[error("the configuration {} is refused and nothing is registered:\n{}", path.display(), lines(findings))]
    ConfigRefused {
        /// The file.
        path: PathBuf,
        /// All that is wrong or odd with it.
        findings: Vec<Finding>,
    },
    /// The configuration has sections by node label, and the API server did not tell the labels.
    #[error("the configuration asks for labels of the node {node}: {why}")]
    NodeLabels {
        /// This node.
        node: String,
        /// Why they are not known.
        why: String,
    },
    /// A unix socket's path has room for 107 bytes.
    #[error("{} is too long for a socket's path of at most 107 bytes", path.display())]
    SocketPathTooLong {
        /// The path as it would be.
        path: PathBuf,
    },
    /// The socket that the kubelet is to dial could not be made.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kubelet could not be dialled.
    #[error("cannot dial {}", path.display())]
    Dial {
        /// kubelet.sock.
        path: PathBuf,
        /// Why.
        source: tonic::transport::Error,
    },
    /// The kubelet did not take the registration.
    #[error("the kubelet refused {resource}: {} ({:?})", status.message(), status.code())]
    Refused {
        /// The resource.
        resource: String,
        /// Its answer.
        status: Box<tonic::Status>,
    },
    /// The kubelet found the socket and did not take what it offers.
    #[error("the kubelet found the socket and refused {resource}: {why}")]
    NotTaken {
        /// The resource.
        resource: String,
        /// Its reason.
        why: String,
    },
    /// The kubelet went away as soon as it had come.
    #[error("the kubelet closed ListAndWatch after less than {seconds} s")]
    Dropped {
        /// How long it would have had to stay.
        seconds: u64,
    },
    /// The kubelet said nothing for longer than its own limits allow.
    #[error("the kubelet did not {what} within {seconds} s")]
    Silent {
        /// What it was to do.
        what: &'static str,
        /// How long it was waited for.
        seconds: u64,
    },
}

impl Error {
    /// The error and its causes in one line, for a log. Layers of the transport repeat what lies below them: each thing
    /// is said once.
    pub(crate) fn chain(&self) -> String {
        chain(self)
    }
}

/// An error and its causes in one line, each thing once.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use tonic::transport::Endpoint;

    use super::*;

    #[tokio::test]
    async fn the_reason_of_a_failed_dial_is_said_once() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("kubelet.sock");
        let address = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
        let source = address.connect().await.unwrap_err();
        let text = Error::Dial { path, source }.chain();
        assert_eq!(text.matches("No such file or directory").count(), 1, "{text}");
    }
}
