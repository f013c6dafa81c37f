//! A kubelet as far as a device plugin sees it: kubelet.sock, Register, and the calls it makes back. Like the real one
//! it removes every socket of the directory when it starts, dials back within Register, and reads one ListAndWatch
//! stream per endpoint. Unlike it, it can be told to refuse, to stay silent and to close streams.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rocade_agent::api::device_plugin_client::DevicePluginClient;
use rocade_agent::api::plugin_registration::registration_client::RegistrationClient;
use rocade_agent::api::plugin_registration::{InfoRequest, RegistrationStatus};
use rocade_agent::api::pod_resources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use rocade_agent::api::pod_resources::{
    AllocatableResourcesRequest, ContainerDevices, ContainerResources, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};
use rocade_agent::api::registration_server::{Registration, RegistrationServer};
use rocade_agent::api::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, Device, DevicePluginOptions, Empty,
    RegisterRequest,
};
use rocade_agent::pod_resources::Allocatable;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Request, Response, Status};

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

/// How a kubelet does not take a registration.
#[derive(Clone, Copy)]
pub(crate) enum Unwilling {
    /// With this code.
    Refuses(Code),
    /// It never answers.
    Hangs,
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
        Kubelet::start_unwilling(dir, refusals, Unwilling::Refuses(Code::Unavailable))
    }

    /// Starts in the directory and does not take the first `times` registrations, in this manner.
    pub(crate) fn start_unwilling(dir: &Path, times: usize, how: Unwilling) -> Kubelet {
        fs::create_dir_all(dir).unwrap();
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_socket() {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        Kubelet::serve(dir, times, how)
    }

    /// Starts without removing anything, as the real one never does.
    pub(crate) fn start_beside(dir: &Path) -> Kubelet {
        Kubelet::serve(dir, 0, Unwilling::Hangs)
    }

    fn serve(dir: &Path, refusals: usize, how: Unwilling) -> Kubelet {
        let listener = UnixListener::bind(dir.join("kubelet.sock")).unwrap();
        let (send, registrations) = mpsc::unbounded_channel();
        let calls = Arc::new(AtomicUsize::new(0));
        let streams = Arc::default();
        let door = Door {
            dir: dir.to_owned(),
            refusals,
            how,
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
    how: Unwilling,
    calls: Arc<AtomicUsize>,
    send: mpsc::UnboundedSender<Registered>,
    streams: Arc<std::sync::Mutex<Vec<tokio::task::AbortHandle>>>,
}

#[tonic::async_trait]
impl Registration for Door {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.refusals {
            return match self.how {
                Unwilling::Refuses(code) => Err(Status::new(code, "not yet")),
                Unwilling::Hangs => std::future::pending().await,
            };
        }
        let request = request.into_inner();
        let (resource, version, endpoint) = (request.resource_name, request.version, request.endpoint);
        let channel = dial(self.dir.join(&endpoint)).await?;
        let registered = watch_plugin(channel, resource, version, endpoint).await?;
        self.streams.lock().unwrap().push(registered.stream.abort_handle());
        let _ = self.send.send(registered);
        Ok(Response::new(Empty {}))
    }
}

/// As the kubelet's device manager dials.
async fn dial(path: PathBuf) -> Result<Channel, Status> {
    let connect = move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    };
    let address = Endpoint::from_static("http://localhost");
    let dialled = address.connect_with_connector(tower::service_fn(connect)).await;
    dialled.map_err(|error| Status::internal(format!("dial: {error}")))
}

async fn watch_plugin(
    channel: Channel,
    resource: String,
    version: String,
    endpoint: String,
) -> Result<Registered, Status> {
    let mut client = DevicePluginClient::new(channel);
    let options = client.get_device_plugin_options(Empty {}).await?.into_inner();
    let (write, lists) = watch::channel(None);
    let stream = tokio::spawn(read_lists(client.clone(), write));
    Ok(Registered { resource, version, endpoint, options, lists, client, stream })
}

/// The kubelet's plugin watcher: waits for a socket in plugins_registry, asks who is there and takes it.
pub(crate) async fn find_plugin(registry: &Path) -> Registered {
    let find = async {
        loop {
            let entries = fs::read_dir(registry).into_iter().flatten().map(Result::unwrap);
            let mut sockets = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_socket()));
            if let Some(socket) = sockets.next() {
                return socket.path();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let path = timeout(HANG, find).await.expect("a socket is made");
    let mut registration = RegistrationClient::new(dial(path.clone()).await.unwrap());
    let info = registration.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.r#type.as_str(), info.endpoint.as_str()), ("DevicePlugin", ""));
    assert_eq!(info.supported_versions, ["v1beta1"]);
    let endpoint = path.file_name().unwrap().to_str().unwrap().to_owned();
    let channel = dial(path).await.unwrap();
    let registered = watch_plugin(channel, info.name, "v1beta1".into(), endpoint).await.unwrap();
    let status = RegistrationStatus { plugin_registered: true, error: String::new() };
    registration.notify_registration_status(status).await.unwrap();
    registered
}

/// The kubelet's socket of grants: says of each resource how many devices there are, and who holds which.
pub(crate) struct Grants {
    pub(crate) counts: BTreeMap<String, u32>,
    pub(crate) held: Vec<(String, String)>,
}

/// Serves what `grants` holds at the time of each question, until it is dropped.
pub(crate) fn serve_grants(root: &Path, grants: Arc<std::sync::Mutex<Grants>>) -> JoinHandle<()> {
    fs::create_dir_all(root.join("pod-resources")).unwrap();
    let listener = UnixListener::bind(root.join("pod-resources/kubelet.sock")).unwrap();
    let server = Server::builder().add_service(PodResourcesListerServer::new(Lister(grants)));
    let server = server.serve_with_incoming(UnixListenerStream::new(listener));
    tokio::spawn(async move { server.await.expect("the fake kubelet tells of grants") })
}

struct Lister(Arc<std::sync::Mutex<Grants>>);

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let held = self.0.lock().unwrap().held.clone();
        let pod = |(resource_name, id): (String, String)| PodResources {
            name: format!("pod-{id}"),
            namespace: "n".into(),
            containers: vec![ContainerResources {
                name: "c".into(),
                devices: vec![ContainerDevices { resource_name, device_ids: vec![id], topology: None }],
                ..ContainerResources::default()
            }],
            ..PodResources::default()
        };
        Ok(Response::new(ListPodResourcesResponse { pod_resources: held.into_iter().map(pod).collect() }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<Allocatable>, Status> {
        Ok(Response::new(Allocatable {
            counts: self.0.lock().unwrap().counts.clone(),
            ..Allocatable::default()
        }))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

async fn read_lists(mut client: DevicePluginClient<Channel>, write: watch::Sender<Option<Vec<Device>>>) {
    let Ok(answer) = client.list_and_watch(Empty {}).await else { return };
    let mut stream = answer.into_inner();
    while let Ok(Some(list)) = stream.message().await {
        write.send_replace(Some(list.devices().collect()));
    }
}
