//! What the agent shows beside the kubelet: its pages over HTTP and its socket.
#![allow(clippy::unwrap_used, reason = "what is not as it must be ends the test")]

mod cluster;
#[allow(dead_code, reason = "the tests of the protocol ask more of it")]
#[path = "../protocol/kubelet.rs"]
mod kubelet;
#[path = "../protocol/made_host.rs"]
mod made_host;
mod page;
mod served;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocade_agent::outside::{AskError, Log, Outside, read_status, write_log_level};
use rocade_agent::{Options, run_agent};
use rocade_core::config::parse_config_json;
use rocade_core::status::Phase;
use rocade_host::Root;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// A generous limit: only a hang reaches it.
const HANG: Duration = Duration::from_secs(60);

/// A log that only remembers its level.
struct Remembered(Mutex<String>);

impl Log for Remembered {
    fn level(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn set_level(&self, level: &str) -> Result<(), String> {
        if level == "loud" {
            return Err("`loud` is no level".into());
        }
        *self.0.lock().unwrap() = level.to_owned();
        Ok(())
    }
}

struct Agent {
    temp: tempfile::TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    run: JoinHandle<()>,
}

impl Agent {
    /// On the recorded host with four HCAs, one of which is offered; no kubelet is there.
    async fn start() -> Agent {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("p")).unwrap();
        Agent::start_in(temp, |_| ()).await
    }

    /// The same in a directory whose `p` is the kubelet's, with other options.
    async fn start_in(temp: tempfile::TempDir, change: impl FnOnce(&mut Options)) -> Agent {
        let address = free_address();
        let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/seed-4hca-bond.host");
        let text = r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"ifNames": ["ens18np0"]}}]}"#;
        let outside = Outside {
            socket: Some(temp.path().join("run/agent.sock")),
            listen: Some(address.to_string().parse().unwrap()),
            config: "/etc/config.json".into(),
            log: Some(Arc::new(Remembered(Mutex::new("info".into())))),
            features_dir: temp.path().join("features.d"),
            cdi_dir: temp.path().join("cdi"),
            ..Outside::default()
        };
        let config = parse_config_json("config.json", text, true).unwrap().0;
        let new = Options::new(config, Root::open(host).unwrap(), temp.path().join("p"));
        let mut options = Options { outside, ..new };
        change(&mut options);
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(async move {
            let stopped = async move { stopped.await.unwrap_or_default() };
            run_agent(options, stopped).await.unwrap();
        });
        let agent = Agent { temp, address, stop: Some(stop), run };
        agent.wait_for(|agent| agent.socket().exists() && TcpStream::connect(agent.address).is_ok()).await;
        // It shows itself before it has looked at the host.
        let looks = async {
            while !agent.get("/metrics").await.1.contains("\nrocade_look_timestamp_seconds") {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(HANG, looks).await.expect("it looks at the host");
        agent
    }

    async fn wait_for(&self, is: impl Fn(&Agent) -> bool) {
        let looks = async {
            while !is(self) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(HANG, looks).await.expect("it comes about");
    }

    fn socket(&self) -> PathBuf {
        self.temp.path().join("run/agent.sock")
    }

    /// Status line and body of an answer over TCP.
    async fn get(&self, page: &str) -> (String, String) {
        self.ask(&format!("GET {page} HTTP/1.1\r\nHost: x\r\n\r\n")).await
    }

    async fn ask(&self, request: &str) -> (String, String) {
        let (address, request) = (self.address, request.to_owned());
        let exchange = tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(HANG)).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        });
        let answer = exchange.await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    async fn stop(mut self) -> tempfile::TempDir {
        self.stop.take().map(|stop| stop.send(()));
        timeout(HANG, &mut self.run).await.expect("the agent stops").expect("it did not panic");
        self.temp
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn an_agent_without_kubelet_is_alive_and_not_ready_and_says_why() {
    let agent = Agent::start().await;
    assert_eq!(agent.get("/healthz").await, ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    let (status, body) = agent.get("/readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(body.starts_with("rdma/a: no kubelet has taken it yet"), "{body}");
    agent.stop().await;
}

#[tokio::test]
async fn metrics_are_told_to_anyone_and_the_document_of_grants_to_the_sockets_owner() {
    let agent = Agent::start().await;
    let (status, body) = agent.get("/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(body.contains("rocade_resource_slots{resource=\"rdma/a\"} 8.0"), "{body}");
    assert_eq!(agent.get("/status").await.0, "HTTP/1.1 404 Not Found");
    let put = "PUT /loglevel HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\ntrace";
    assert_eq!(agent.ask(put).await.0, "HTTP/1.1 404 Not Found");
    let seen = read_status(&agent.socket()).await.unwrap();
    assert_eq!(seen.agent.log_level, "info");
    agent.stop().await;
}

#[tokio::test]
async fn the_document_tells_resources_what_is_out_and_sockets() {
    let agent = Agent::start().await;
    agent.wait_for(|agent| fs::read_dir(agent.temp.path().join("p")).unwrap().count() == 1).await;
    let seen = read_status(&agent.socket()).await.unwrap();
    assert_eq!((seen.agent.config.as_str(), seen.kubelet.there), ("/etc/config.json", false));
    let resource = &seen.resources[0];
    assert_eq!((resource.slots, resource.healthy), (8, 8));
    assert_ne!(resource.registration.phase, Phase::Watched);
    assert_eq!(resource.members, ["mlx5_0:1"]);
    assert!(resource.left_out.iter().any(|out| out.reason.contains("ens18np0")), "{:?}", resource.left_out);
    assert_eq!(seen.sockets.len(), 1, "{:?}", seen.sockets);
    assert!(!seen.unserved().is_empty());
    agent.stop().await;
}

#[tokio::test]
async fn the_logs_level_is_changed_at_run_time_and_a_wrong_one_refused() {
    let agent = Agent::start().await;
    write_log_level(&agent.socket(), "debug").await.unwrap();
    assert_eq!(read_status(&agent.socket()).await.unwrap().agent.log_level, "debug");
    let refused = write_log_level(&agent.socket(), "loud").await.unwrap_err();
    assert!(matches!(&refused, AskError::Refused(why) if why == "`loud` is no level"), "{refused}");
    agent.stop().await;
}

#[tokio::test]
async fn a_socket_that_a_stranger_removed_is_made_again_and_goes_with_the_agent() {
    let agent = Agent::start().await;
    fs::remove_file(agent.socket()).unwrap();
    agent.wait_for(|agent| UnixStream::connect(agent.socket()).is_ok()).await;
    read_status(&agent.socket()).await.unwrap();
    let temp = agent.stop().await;
    assert_eq!(fs::read_dir(temp.path().join("run")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_wrong_method_and_what_is_no_request_are_answered_as_such() {
    let agent = Agent::start().await;
    let post = "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(agent.ask(post).await.0, "HTTP/1.1 405 Method Not Allowed");
    assert_eq!(agent.ask("\x16\x03\x01 hello\r\n\r\n").await.0, "HTTP/1.1 400 Bad Request");
    agent.stop().await;
}

#[tokio::test]
async fn many_who_connect_and_say_nothing_do_not_keep_the_sockets_owner_from_an_answer() {
    let agent = Agent::start().await;
    let mut idle: Vec<_> = (0..64).map(|_| TcpStream::connect(agent.address).unwrap()).collect();
    read_status(&agent.socket()).await.unwrap();
    // Each is hung up on before long, so that others come to their turn.
    assert_eq!(agent.get("/healthz").await.0, "HTTP/1.1 200 OK");
    let hung_up = tokio::task::spawn_blocking(move || {
        idle[0].set_read_timeout(Some(HANG)).unwrap();
        idle[0].read_to_end(&mut Vec::new()).is_ok()
    });
    assert!(hung_up.await.unwrap());
    agent.stop().await;
}

#[tokio::test]
async fn an_address_that_another_has_is_had_once_it_is_free() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("agent.sock");
    assert!(matches!(read_status(&socket).await, Err(AskError::Dial { .. })));
    let address = taken.local_addr().unwrap();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/no-rdma.host");
    let text =
        r#"{"configList": [{"resourceName": "a", "rdmaHcaMax": 8, "selectors": {"vendors": ["15b3"]}}]}"#;
    let config = parse_config_json("config.json", text, true).unwrap().0;
    let options = Options {
        outside: Outside {
            socket: Some(socket.clone()),
            listen: Some(address.to_string().parse().unwrap()),
            ..Outside::default()
        },
        ..Options::new(config, Root::open(host).unwrap(), temp.path().join("p"))
    };
    let run = tokio::spawn(run_agent(options, std::future::pending()));
    let free = async {
        while read_status(&socket).await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
        drop(taken);
        while tokio::net::TcpStream::connect(address).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(HANG, free).await.expect("it listens once the address is free");
    run.abort();
}
