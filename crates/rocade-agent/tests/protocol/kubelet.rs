//! A kubelet as far as a device plugin sees it: kubelet.sock, Register, and the calls it makes back. Like the real one
//! it removes every socket of the directory when it starts, dials back within Register, and reads one ListAndWatch
//! stream per endpoint. Unlike it, it can be told to refuse, to stay silent and to close streams.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocade_agent::api::device_plugin_client::DevicePluginClient;
use rocade_agent::api::registration_server::{Registration, RegistrationServer};
use rocade_agent::api::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, Device, DevicePluginOptions, Empty,
    RegisterRequest,
};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// A generous limit: only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// A registration that was taken.
pub(crate) struct Registered {
    pub(crate) resource: String,
    pub(crate) version: String,
    pub(crate) endpoint: String,
    pub(crate) options: DevicePluginOptions,
    pub(crate) lists: watch::Receiver<Option<Vec<Device>>>,
    client: DevicePluginClient<Channel>,
    stream: JoinHandle<()>,
}

impl Registered {
    /// The device list, once one came.
    pub(crate) async fn list(&mut self) -> Vec<Device> {
        let list = timeout(HANG, self.lists.wait_for(Option::is_some)).await.expect("a list comes");
        list.expect("the stream lives").clone().expect("it is some")
    }

    /// Waits until the plugin ends the stream.
    pub(crate) async fn ended(self) {
        timeout(HANG, self.stream).await.expect("the stream ends").expect("no panic");
    }

    /// Whether the stream is open.
    pub(crate) fn is_watching(&self) -> bool {
        !self.stream.is_finished()
    }

    /// Ends the stream from the kubelet's side.
    pub(crate) fn hang_up(&self) {
        self.stream.abort();
    }

    pub(crate) async fn allocate(&mut self, ids: &[&str]) -> Result<ContainerAllocateResponse, Status> {
        let devices_ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let request = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
        let answer = timeout(HANG, self.client.allocate(request)).await.expect("Allocate answers")?;
        let mut containers = answer.into_inner().container_responses;
        assert_eq!(containers.len(), 1);
        Ok(containers.remove(0))
    }
}

/// A running kubelet; dropping it is `kill -9`: streams end, kubelet.sock stays behind.
pub(crate) struct Kubelet {
    registrations: mpsc::UnboundedReceiver<Registered>,
    server: JoinHandle<()>,
    streams: Arc<std::sync::Mutex<Vec<tokio::task::AbortHandle>>>,
    calls: Arc<AtomicUsize>,
}

impl Kubelet {
    /// Starts in the directory and refuses the first `refusals` registrations.
    pub(crate) fn start(dir: &Path, refusals: usize) -> Kubelet {
        fs::create_dir_all(dir).unwrap();
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_socket() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        Kubelet::serve(dir, refusals)
    }

    /// Starts without removing anything, as the real one never does.
    pub(crate) fn start_beside(dir: &Path) -> Kubelet {
        Kubelet::serve(dir, 0)
    }

    fn serve(dir: &Path, refusals: usize) -> Kubelet {
        let listener = UnixListener::bind(dir.join("kubelet.sock")).unwrap();
        let (send, registrations) = mpsc::unbounded_channel();
        let calls = Arc::new(AtomicUsize::new(0));
        let streams = Arc::default();
        let door = Door {
            dir: dir.to_owned(),
            refusals,
            calls: Arc::clone(&calls),
            send,
            streams: Arc::clone(&streams),
        };
        let server = Server::builder().add_service(RegistrationServer::new(door));
        let server = server.serve_with_incoming(UnixListenerStream::new(listener));
        let server = tokio::spawn(async move { server.await.expect("the fake kubelet serves") });
        Kubelet { registrations, server, streams, calls }
    }

    /// The next registration that is taken.
    pub(crate) async fn next(&mut self) -> Registered {
        timeout(HANG, self.registrations.recv())
            .await
            .expect("a registration comes")
            .expect("the kubelet lives")
    }

    /// How often Register was called.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.server.abort();
        self.streams.lock().unwrap().iter().for_each(tokio::task::AbortHandle::abort);
    }
}

struct Door {
    dir: PathBuf,
    refusals: usize,
    calls: Arc<AtomicUsize>,
    send: mpsc::UnboundedSender<Registered>,
    streams: Arc<std::sync::Mutex<Vec<tokio::task::AbortHandle>>>,
}

#[tonic::async_trait]
impl Registration for Door {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.refusals {
            return Err(Status::unavailable("not yet"));
        }
        let request = request.into_inner();
        let path = self.dir.join(&request.endpoint);
        let address = Endpoint::from_shared(format!("unix://{}", path.display())).unwrap();
        let channel = address.connect().await.map_err(|e| Status::internal(format!("dial: {e}")))?;
        let mut client = DevicePluginClient::new(channel);
        let options = client.get_device_plugin_options(Empty {}).await?.into_inner();
        let (write, lists) = watch::channel(None);
        let stream = tokio::spawn(read_lists(client.clone(), write));
        self.streams.lock().unwrap().push(stream.abort_handle());
        let (resource, version, endpoint) = (request.resource_name, request.version, request.endpoint);
        let _ = self.send.send(Registered { resource, version, endpoint, options, lists, client, stream });
        Ok(Response::new(Empty {}))
    }
}

async fn read_lists(mut client: DevicePluginClient<Channel>, write: watch::Sender<Option<Vec<Device>>>) {
    let Ok(answer) = client.list_and_watch(Empty {}).await else { return };
    let mut stream = answer.into_inner();
    while let Ok(Some(list)) = stream.message().await {
        write.send_replace(Some(list.devices().collect()));
    }
}
