//! What the kubelet asks of one resource: its options, its device list, its grants. Lists come from the node's state,
//! grants from its one writer.

use std::sync::Arc;

use rocade_core::config::Sharing;
use rocade_core::plan::{Grant, Pool};
use rocade_core::{Host, ResourceName};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::api::device_plugin_server::DevicePlugin;
use crate::api::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, DevicePluginOptions, DeviceSpec, Empty, PreStartContainerRequest,
    PreStartContainerResponse, PreferredAllocationRequest, PreferredAllocationResponse,
};
use crate::cdi::SpecFile;
use crate::list::DeviceList;
use crate::node::{Ask, Notice};
use crate::state::NodeState;

/// One resource's side of the device plugin API.
pub(crate) struct Plugin {
    pub(crate) resource: ResourceName,
    pub(crate) options: DevicePluginOptions,
    pub(crate) states: watch::Receiver<Arc<NodeState>>,
    pub(crate) tell: mpsc::UnboundedSender<Notice>,
    pub(crate) cdi: Arc<SpecFile>,
    /// How many ListAndWatch streams are open.
    pub(crate) streams: watch::Sender<usize>,
    /// Becomes true when the streams must end.
    pub(crate) closing: watch::Receiver<bool>,
}

/// What the kubelet may ask of a resource. It knows an order of its own where all IDs stand for the same HCAs.
pub(crate) fn options(sharing: Sharing) -> DevicePluginOptions {
    let has_choice = matches!(sharing, Sharing::Hca { .. });
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: has_choice }
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(self.options))
    }

    type ListAndWatchStream = ReceiverStream<Result<DeviceList, Status>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let (send, receive) = mpsc::channel(1);
        let open = OpenStream::new(self.streams.clone());
        tokio::spawn(run_list(self.resource.clone(), self.states.clone(), self.closing.clone(), send, open));
        Ok(Response::new(ReceiverStream::new(receive)))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let ids = request.into_inner().container_requests.into_iter().map(|r| r.devices_ids).collect();
        let (reply, answer) = oneshot::channel();
        let ask = Ask { resource: self.resource.clone(), ids, reply };
        let _ = self.tell.send(Notice::Allocate(ask));
        let grants = answer.await.map_err(|_| Status::unavailable("the agent is ending"))?;
        let grants = grants.map_err(|denied| Status::invalid_argument(denied.to_string()))?;
        let host = Arc::clone(&self.states.borrow().host);
        let container_responses = grants.into_iter().map(|grant| self.respond(&host, grant)).collect();
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let state = Arc::clone(&self.states.borrow());
        let Some(resource) = state.resource(&self.resource) else {
            return Err(Status::unavailable(format!("{} is offered no more", self.resource)));
        };
        let prefer = |pool: &Pool, available: &[String], must: &[String], size: i32| {
            pool.prefer(available, must, usize::try_from(size).unwrap_or(0))
        };
        let requests = request.into_inner().container_requests;
        let container_responses = requests.iter().map(|r| ContainerPreferredAllocationResponse {
            device_i_ds: prefer(
                &resource.pool,
                &r.available_device_i_ds,
                &r.must_include_device_i_ds,
                r.allocation_size,
            ),
        });
        Ok(Response::new(PreferredAllocationResponse { container_responses: container_responses.collect() }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// Sends the whole list now and whenever it changes, until the kubelet goes or the endpoint closes. Before the host was
/// looked at there is nothing to send.
async fn run_list(
    resource: ResourceName,
    mut states: watch::Receiver<Arc<NodeState>>,
    mut closing: watch::Receiver<bool>,
    send: mpsc::Sender<Result<DeviceList, Status>>,
    _open: OpenStream,
) {
    let mut sent = None;
    loop {
        // Taken before the list: what is left to tell when the endpoint closes is told.
        let is_closing = *closing.borrow_and_update();
        let list = {
            let state = states.borrow_and_update();
            let list = state.resource(&resource).map(|r| r.listing.list.clone());
            // What is offered no more has no device left.
            state.look.is_some().then(|| list.unwrap_or_default())
        };
        if list.is_some() && sent != list {
            if send.send(Ok(list.clone().unwrap_or_default())).await.is_err() {
                return;
            }
            sent = list;
        }
        if is_closing {
            return;
        }
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            changed = closing.changed() => if changed.is_err() { return },
            () = send.closed() => return,
        }
    }
}

impl Plugin {
    fn respond(&self, host: &Host, grant: Grant) -> ContainerAllocateResponse {
        let split = self.cdi.split(host, grant.nodes);
        let node = |path: String| DeviceSpec {
            container_path: path.clone(),
            host_path: path,
            permissions: grant.permissions.to_owned(),
        };
        ContainerAllocateResponse {
            envs: grant.variables.into_iter().collect(),
            devices: split.nodes.into_iter().map(node).collect(),
            cdi_devices: split.names.into_iter().map(|name| CdiDevice { name }).collect(),
            ..ContainerAllocateResponse::default()
        }
    }
}

/// Counts a stream for as long as it is served.
struct OpenStream(watch::Sender<usize>);

impl OpenStream {
    fn new(streams: watch::Sender<usize>) -> Self {
        streams.send_modify(|open| *open += 1);
        OpenStream(streams)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::time::{Duration, SystemTime};

    use rocade_core::config::{Config, Resource, Selectors};
    use rocade_core::plan::plan;
    use tokio_stream::StreamExt;

    use super::*;
    use crate::state::{Listing, Look, Registration, ResourceState, Way};

    fn state(looked: bool, devices: usize) -> Arc<NodeState> {
        let resource = Resource::of_config_json("rdma/a".parse().unwrap(), 1, Selectors::default());
        let config = Config::of_config_json(None, vec![resource]);
        let list = DeviceList::new((0..devices).map(|n| (n.to_string(), true, Vec::new())));
        let resource = ResourceState {
            pool: Arc::new(plan(&Host::default(), &config).remove(0)),
            listing: Arc::new(Listing { list, ..Listing::default() }),
            registration: Registration::waiting(Way::Kubelet),
            holders: None,
            allocatable: None,
            repairs: 0,
        };
        let look = Look { at: SystemTime::now(), took: Duration::ZERO, silent: Vec::new() };
        Arc::new(NodeState {
            generation: 1,
            config: Arc::new(config),
            config_error: None,
            config_failures: 0,
            host: Arc::default(),
            look: looked.then_some(look),
            hcas: BTreeMap::new(),
            resources: vec![resource],
            grants: Vec::new(),
            errors: VecDeque::new(),
        })
    }

    #[tokio::test]
    async fn a_list_is_sent_anew_when_it_changed_and_the_stream_ends_when_the_endpoint_closes() {
        let (write, states) = watch::channel(state(false, 9));
        let (close, closing) = watch::channel(false);
        let streams = watch::Sender::new(0);
        let plugin = Plugin {
            resource: "rdma/a".parse().unwrap(),
            options: DevicePluginOptions::default(),
            states,
            tell: mpsc::unbounded_channel().0,
            cdi: Arc::new(SpecFile::new("/none".into(), Vec::new())),
            streams: streams.clone(),
            closing,
        };
        let mut lists = plugin.list_and_watch(Request::new(Empty {})).await.unwrap().into_inner();
        let mut next = async || lists.next().await.map(|list| list.unwrap().devices().count());
        tokio::task::yield_now().await;
        // Of a host that nobody has looked at yet nothing is told.
        write.send_replace(state(true, 2));
        assert_eq!(next().await, Some(2));
        assert_eq!(*streams.borrow(), 1);
        write.send_replace(state(true, 0));
        assert_eq!(next().await, Some(0));
        // An equal list is not sent again: the next is that of three.
        write.send_replace(state(true, 0));
        tokio::task::yield_now().await;
        write.send_replace(state(true, 3));
        assert_eq!(next().await, Some(3));
        close.send_replace(true);
        assert_eq!(next().await, None);
        assert_eq!(*streams.borrow(), 0);
    }
}
