//! A kubelet as far as a device plugin sees it, for measurements: kubelet.sock, Register, and the calls that the real
//! one makes back, with nothing else going on beside them. It is told nothing of who registers.

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod api {
    include!("fake_kubelet/v1beta1.rs");
}

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use tokio::net::UnixListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

use api::device_plugin_client::DevicePluginClient;
use api::registration_server::{Registration, RegistrationServer};
use api::{AllocateRequest, ContainerAllocateRequest, Empty, ListAndWatchResponse, RegisterRequest};

/// A generous limit: only a hang reaches it.
const HANG: Duration = Duration::from_secs(30);

/// Listens until it is dropped.
#[derive(Debug)]
pub struct FakeKubelet {
    registered: UnboundedReceiver<Registered>,
    server: JoinHandle<()>,
}

/// A plugin's resource, dialled and watched.
#[derive(Debug)]
pub struct Registered {
    /// When Register came.
    pub at: SystemTime,
    /// Its name.
    pub resource: String,
    client: DevicePluginClient<Channel>,
    lists: Streaming<ListAndWatchResponse>,
}

impl FakeKubelet {
    /// Makes kubelet.sock in `dir`, in place of one that is there.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn listen(dir: &Path) -> Result<FakeKubelet> {
        let socket = dir.join("kubelet.sock");
        let _ = fs::remove_file(&socket);
        let listener =
            UnixListener::bind(&socket).with_context(|| format!("listen on {}", socket.display()))?;
        let (send, registered) = mpsc::unbounded_channel();
        let service = RegistrationServer::new(Door { dir: dir.to_owned(), send });
        let serve = Server::builder().add_service(service);
        let serve = serve.serve_with_incoming(UnixListenerStream::new(listener));
        // It ends with an error only when the listener does, and then no registration comes.
        let server = tokio::spawn(async { drop(serve.await) });
        Ok(FakeKubelet { registered, server })
    }

    /// The next registration.
    ///
    /// # Errors
    /// None comes.
    pub async fn next(&mut self) -> Result<Registered> {
        let next = timeout(HANG, self.registered.recv()).await.context("no registration came")?;
        next.context("the fake kubelet ended")
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Registered {
    /// The next device list: its IDs, and its size on the wire in bytes.
    ///
    /// # Errors
    /// None comes.
    pub async fn list(&mut self) -> Result<(Vec<String>, usize)> {
        let list = timeout(HANG, self.lists.message()).await.context("no list came")??;
        let list = list.context("the plugin ended ListAndWatch")?;
        let size = prost::Message::encoded_len(&list);
        Ok((list.devices.into_iter().map(|device| device.id).collect(), size))
    }

    /// Asks for one device; how long the answer took, and how many device nodes it names.
    ///
    /// # Errors
    /// It is refused or none comes.
    pub async fn allocate(&mut self, id: &str) -> Result<(Duration, usize)> {
        let container = ContainerAllocateRequest { devices_ids: vec![id.to_owned()] };
        let request = AllocateRequest { container_requests: vec![container] };
        let begun = Instant::now();
        let answer = timeout(HANG, self.client.allocate(request)).await.context("no answer came")??;
        let took = begun.elapsed();
        let containers = answer.into_inner().container_responses;
        ensure!(containers.len() == 1, "{} answers for one container", containers.len());
        Ok((took, containers[0].devices.len()))
    }
}

/// Takes registrations.
struct Door {
    dir: PathBuf,
    send: UnboundedSender<Registered>,
}

#[tonic::async_trait]
impl Registration for Door {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let at = SystemTime::now();
        let request = request.into_inner();
        let path = self.dir.join(&request.endpoint);
        let address = Endpoint::from_shared(format!("unix://{}", path.display()));
        let address = address.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = address.connect().await.map_err(|error| Status::internal(error.to_string()))?;
        let mut client = DevicePluginClient::new(channel);
        client.get_device_plugin_options(Empty {}).await?;
        let lists = client.list_and_watch(Empty {}).await?.into_inner();
        let resource = request.resource_name;
        // Nobody waits for it any more when the measurement is over.
        let _ = self.send.send(Registered { at, resource, client, lists });
        Ok(Response::new(Empty {}))
    }
}
