//! What is written to the API server, against one that only remembers: over TLS, with the token of the moment.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rocade_agent::outside::{Access, Outside};
use rocade_agent::{ConfigSource, Error, Options, run_agent};
use rocade_core::config::{Config, Labels, Publish, parse_config_json};
use rocade_host::Root;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::HANG;
use crate::kubelet::Kubelet;

/// Since when the node has been without fault, by what an earlier agent wrote.
const SINCE: &str = "2026-01-02T03:04:05Z";

/// A request as it came.
#[derive(Debug, Clone)]
struct Asked {
    what: String,
    kind: String,
    token: String,
    body: Value,
}

/// An API server that answers everything with the same node, after as many refusals as it was told.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    async fn start(account: &Path, refusals: usize) -> Server {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        std::fs::write(account.join("ca.crt"), made.cert.pem()).unwrap();
        std::fs::write(account.join("token"), "first\n").unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { port: listener.local_addr().unwrap().port(), asked: Arc::default() };
        tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            Arc::clone(&server.asked),
            refusals,
        ));
        server
    }

    /// Waits for a request that is so.
    async fn wait(&self, is: impl Fn(&Asked) -> bool) -> Asked {
        let looks = async {
            loop {
                if let Some(asked) = self.asked.lock().unwrap().iter().find(|asked| is(asked)) {
                    return asked.clone();
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = timeout(HANG, looks).await;
        waited.unwrap_or_else(|_| panic!("not asked so: {:#?}", self.asked.lock().unwrap()))
    }
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, all: Arc<Mutex<Vec<Asked>>>, refusals: usize) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(stream) = tls.accept(stream).await else { continue };
        let answer = service_fn(|request: Request<Incoming>| {
            let all = Arc::clone(&all);
            async move {
                let asked = read(request).await;
                let mut all = all.lock().unwrap();
                all.push(asked);
                let refused = all.len() <= refusals;
                let taint = json!({"key": "rdma.rocade.dev/not-ready", "effect": "NoSchedule"});
                let condition =
                    json!({"type": "RdmaDegraded", "status": "False", "lastTransitionTime": SINCE});
                let node = json!({
                    "metadata": {"name": "node1", "resourceVersion": "7", "labels": {"pool": "gpu"}},
                    "spec": {"taints": [taint]}, "status": {"conditions": [condition]},
                });
                let body = if refused { json!({"message": "no"}) } else { node };
                let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
                *response.status_mut() = if refused { StatusCode::FORBIDDEN } else { StatusCode::OK };
                Ok::<_, Infallible>(response)
            }
        });
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
    }
}

async fn read(request: Request<Incoming>) -> Asked {
    let header = |name: &str| {
        request.headers().get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    };
    let (what, kind, token) =
        (format!("{} {}", request.method(), request.uri()), header("content-type"), header("authorization"));
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Asked { what, kind, token, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
}

fn options(dir: &Path, server: &Server, publish: Publish) -> Options {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
    let text =
        r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"ifNames": ["ens18np0"]}}]}"#;
    let config = parse_config_json("config.json", text, true).unwrap().0;
    std::fs::create_dir_all(dir.join("p")).unwrap();
    Options {
        outside: Outside {
            features_dir: dir.join("features.d"),
            node: Some("node1".into()),
            api_server: Access::new("localhost".into(), server.port, dir.to_owned()),
            ..Outside::default()
        },
        ..Options::new(Config { publish, ..config }, Root::open(host).unwrap(), dir.join("p"))
    }
}

#[tokio::test]
async fn labels_are_applied_by_a_field_manager_of_their_own_and_the_condition_to_the_status() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 0).await;
    let publish = Publish { labels: Labels::Api, condition: true, ..Publish::default() };
    let run = tokio::spawn(run_agent(options(temp.path(), &server, publish), std::future::pending()));
    let labels = server.wait(|asked| asked.body["metadata"]["labels"].is_object()).await;
    assert_eq!(labels.what, "PATCH /api/v1/nodes/node1?fieldManager=rocade&force=true");
    assert_eq!(labels.kind, "application/apply-patch+yaml");
    assert_eq!(labels.token, "Bearer first");
    assert_eq!(labels.body["metadata"]["labels"]["rdma.rocade.dev/hcas"], "4");
    let condition = server.wait(|asked| asked.body["status"].is_object()).await;
    assert_eq!(condition.what, "PATCH /api/v1/nodes/node1/status?fieldManager=rocade&force=true");
    let condition = &condition.body["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("RdmaDegraded"), &json!("False")));
    // An agent that starts is no transition.
    assert_eq!(condition["lastTransitionTime"], SINCE);
    run.abort();
}

#[tokio::test]
async fn the_taint_stays_while_no_kubelet_has_taken_the_resources() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 0).await;
    let publish = Publish { labels: Labels::Api, taint: true, ..Publish::default() };
    let run = tokio::spawn(run_agent(options(temp.path(), &server, publish), std::future::pending()));
    server.wait(|asked| asked.body["metadata"]["labels"].is_object()).await;
    tokio::task::yield_now().await;
    assert!(server.asked.lock().unwrap().iter().all(|asked| asked.body["spec"].is_null()));
    run.abort();
}

#[tokio::test]
async fn the_taint_is_taken_off_once_the_kubelet_watches_all_resources() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 0).await;
    let _kubelet = Kubelet::start(&temp.path().join("p"), 0);
    let publish = Publish { taint: true, ..Publish::default() };
    let run = tokio::spawn(run_agent(options(temp.path(), &server, publish), std::future::pending()));
    let patch = server.wait(|asked| asked.body["spec"].is_object()).await;
    assert_eq!(
        (patch.kind.as_str(), &patch.body["spec"]["taints"]),
        ("application/merge-patch+json", &json!([]))
    );
    assert_eq!(patch.body["metadata"]["resourceVersion"], "7");
    run.abort();
}

#[tokio::test]
async fn nothing_is_asked_of_a_server_that_nobody_configured() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 0).await;
    let run =
        tokio::spawn(run_agent(options(temp.path(), &server, Publish::default()), std::future::pending()));
    let served = async {
        while !std::fs::read_dir(temp.path().join("p"))
            .unwrap()
            .any(|e| e.unwrap().path().extension().is_some_and(|x| x == "sock"))
        {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(HANG, served).await.unwrap();
    assert!(server.asked.lock().unwrap().is_empty());
    run.abort();
}

#[tokio::test]
async fn a_server_that_refuses_is_asked_again_with_the_token_of_then() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 1).await;
    let publish = Publish { labels: Labels::Api, ..Publish::default() };
    let run = tokio::spawn(run_agent(options(temp.path(), &server, publish), std::future::pending()));
    server.wait(|_| true).await;
    std::fs::write(temp.path().join("token"), "second\n").unwrap();
    server.wait(|asked| asked.token == "Bearer second").await;
    run.abort();
}

#[tokio::test]
async fn the_node_is_asked_for_its_labels_only_where_sections_ask_for_them() {
    let temp = tempfile::tempdir().unwrap();
    let server = Server::start(temp.path(), 1).await;
    let file = temp.path().join("agent.yaml");
    let resource = "{name: a, sharing: {mode: hca}, selectors: {netdevs: [e]}}";
    let text = format!(
        "apiVersion: rocade.dev/v1alpha1\nkind: AgentConfig\nsections:\n- nodes: [node1]\n  resources: [{resource}]\n"
    );
    let source = ConfigSource {
        file: Some(file.clone()),
        node: Some("node1".into()),
        api_server: Access::new("localhost".into(), server.port, temp.path().to_owned()),
        ..ConfigSource::default()
    };
    std::fs::write(&file, &text).unwrap();
    assert_eq!(source.read().await.unwrap().config.resources.len(), 1);
    assert!(server.asked.lock().unwrap().is_empty());
    std::fs::write(&file, text.replace("nodes: [node1]", "nodeLabels: {pool: gpu}")).unwrap();
    assert!(matches!(source.read().await, Err(Error::NodeLabels { .. })), "the first answer is a refusal");
    assert_eq!(source.read().await.unwrap().config.resources.len(), 1);
    std::fs::write(&file, text.replace("nodes: [node1]", "nodeLabels: {pool: storage}")).unwrap();
    assert_eq!(source.read().await.unwrap().config.resources, []);
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().all(|asked| asked.what == "GET /api/v1/nodes/node1"), "{asked:?}");
}
