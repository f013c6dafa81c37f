//! What the container runtime is: the two questions of its interface to the kubelet (CRI, runtime.v1.RuntimeService) that
//! tell it, with the fields that matter of their messages (k8s.io/cri-api pkg/apis/runtime/v1/api.proto).

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rocade_core::cdi::Runtime;
use tokio::time::timeout;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::dial::dial;

/// For both questions.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, PartialEq, prost::Message)]
struct VersionRequest {}

#[derive(Clone, PartialEq, prost::Message)]
struct VersionResponse {
    #[prost(string, tag = "2")]
    runtime_name: String,
    #[prost(string, tag = "3")]
    runtime_version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusRequest {
    #[prost(bool, tag = "1")]
    verbose: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StatusResponse {
    /// With `verbose`; containerd puts its configuration there as JSON.
    #[prost(map = "string, string", tag = "2")]
    info: HashMap<String, String>,
}

/// Asks the runtime behind a socket for its name, its version, and whether CDI is on.
pub(crate) async fn read_runtime(socket: &Path) -> Result<Runtime, String> {
    let wrong = |what: &str| format!("the container runtime on {} {what}", socket.display());
    let asked = timeout(PATIENCE, ask(socket)).await;
    let (version, status) = asked
        .map_err(|_| wrong("does not answer"))?
        .map_err(|error| wrong(&format!("does not tell its version: {error}")))?;
    let text = format!("{} {}", version.runtime_name, version.runtime_version);
    let mut runtime: Runtime = text.parse().map_err(|error| wrong(&format!("is not known: {error}")))?;
    runtime.enabled = status.and_then(|status| enabled(&status.info));
    Ok(runtime)
}

async fn ask(socket: &Path) -> Result<(VersionResponse, Option<StatusResponse>), Box<dyn std::error::Error>> {
    let mut runtime = Grpc::new(dial(socket).await?);
    let version = call(&mut runtime, "Version", VersionRequest {}).await?;
    // A runtime that keeps its configuration to itself is known by its version alone.
    let status = call(&mut runtime, "Status", StatusRequest { verbose: true }).await.ok();
    Ok((version, status))
}

async fn call<Q, A>(
    runtime: &mut Grpc<Channel>,
    method: &str,
    question: Q,
) -> Result<A, Box<dyn std::error::Error>>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    runtime.ready().await?;
    let path: PathAndQuery = format!("/runtime.v1.RuntimeService/{method}").parse()?;
    Ok(runtime.unary(Request::new(question), path, ProstCodec::default()).await?.into_inner())
}

/// `enableCDI` of containerd's configuration.
fn enabled(info: &HashMap<String, String>) -> Option<bool> {
    let config: serde_json::Value = serde_json::from_str(info.get("config")?).ok()?;
    config["enableCDI"].as_bool()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_tells_whether_cdi_is_on() {
        let info = |config: &str| HashMap::from([("config".to_owned(), config.to_owned())]);
        assert_eq!(enabled(&info(r#"{"enableCDI": true, "cdiSpecDirs": ["/etc/cdi"]}"#)), Some(true));
        assert_eq!(enabled(&info(r#"{"enableCDI": false}"#)), Some(false));
        assert_eq!(enabled(&info("not JSON")), None);
        assert_eq!(enabled(&HashMap::new()), None);
    }

    #[tokio::test]
    async fn a_socket_that_nobody_serves_is_said_to_be_so() {
        let temp = tempfile::tempdir().unwrap();
        let why = read_runtime(&temp.path().join("containerd.sock")).await.unwrap_err();
        assert!(why.contains("containerd.sock does not tell its version"), "{why}");
    }
}
