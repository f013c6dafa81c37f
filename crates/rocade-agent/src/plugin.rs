//! What the kubelet asks of one resource: its options, its device list, its grants. The answers come from the node's
//! state as it is when asked.

use std::sync::Arc;

use rocade_core::ResourceName;
use rocade_core::plan::Pool;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::api::device_plugin_server::DevicePlugin;
use crate::api::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, ContainerAllocateResponse,
    DevicePluginOptions, DeviceSpec, Empty, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse,
};
use crate::list::DeviceList;
use crate::state::NodeState;

/// One resource's side of the device plugin API.
pub(crate) struct Plugin {
    pub(crate) resource: ResourceName,
    pub(crate) states: watch::Receiver<Arc<NodeState>>,
    /// How many ListAndWatch streams are open.
    pub(crate) streams: watch::Sender<usize>,
    /// Becomes true when the streams must end.
    pub(crate) closing: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(DevicePluginOptions::default()))
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
        let state = Arc::clone(&self.states.borrow());
        let pool = match state.resource(&self.resource) {
            Some(resource) => &resource.pool,
            None => return Err(Status::unavailable(format!("{} is offered no more", self.resource))),
        };
        let requests = request.into_inner().container_requests;
        let container_responses = requests.iter().map(|r| grant(pool, r)).collect::<Result<_, _>>()?;
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented("not among the options: all IDs of a resource stand for the same HCAs"))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// Sends the whole list now and whenever it changes, until the kubelet goes or the endpoint closes.
async fn run_list(
    resource: ResourceName,
    mut states: watch::Receiver<Arc<NodeState>>,
    mut closing: watch::Receiver<bool>,
    send: mpsc::Sender<Result<DeviceList, Status>>,
    _open: OpenStream,
) {
    let mut sent = None;
    loop {
        let listing = states.borrow_and_update().resource(&resource).map(|r| r.listing.list.clone());
        // What is offered no more has no device left.
        let list = listing.unwrap_or_default();
        if sent.as_ref() != Some(&list) {
            if send.send(Ok(list.clone())).await.is_err() {
                return;
            }
            sent = Some(list);
        }
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            _ = closing.wait_for(|closing| *closing) => return,
            () = send.closed() => return,
        }
    }
}

fn grant(pool: &Pool, request: &ContainerAllocateRequest) -> Result<ContainerAllocateResponse, Status> {
    let grant = pool.grant(&request.devices_ids).map_err(|unknown| {
        tracing::error!(resource = %pool.resource, device = unknown.id, "refused to grant a device that is not offered");
        Status::invalid_argument(unknown.to_string())
    })?;
    tracing::debug!(resource = %pool.resource, devices = ?request.devices_ids, "granted");
    let node = |path: String| DeviceSpec {
        container_path: path.clone(),
        host_path: path,
        permissions: grant.permissions.to_owned(),
    };
    Ok(ContainerAllocateResponse {
        envs: grant.variables.into_iter().collect(),
        devices: grant.nodes.into_iter().map(node).collect(),
        ..ContainerAllocateResponse::default()
    })
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
    use tokio_stream::StreamExt;

    use super::*;
    use crate::node::read_state;

    fn state(slots: u32) -> Arc<NodeState> {
        let text = format!(
            r#"{{"configList": [{{"resourceName": "a", "rdmaHcaMax": {slots}, "selectors": {{"ifNames": ["ens18np0"]}}}}]}}"#
        );
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/seed-4hca-bond.host");
        let config = rocade_core::config::parse_config_json("config.json", &text, false).unwrap().0;
        Arc::new(read_state(&rocade_host::Root::open(host).unwrap(), &Arc::new(config)))
    }

    #[tokio::test]
    async fn a_list_is_sent_anew_when_it_changed_and_the_stream_ends_when_the_endpoint_closes() {
        let (write, states) = watch::channel(state(2));
        let (close, closing) = watch::channel(false);
        let streams = watch::Sender::new(0);
        let plugin =
            Plugin { resource: "rdma/a".parse().unwrap(), states, streams: streams.clone(), closing };
        let mut lists = plugin.list_and_watch(Request::new(Empty {})).await.unwrap().into_inner();
        let mut next = async || lists.next().await.map(|list| list.unwrap().devices().count());
        assert_eq!(next().await, Some(2));
        assert_eq!(*streams.borrow(), 1);
        write.send_replace(state(0));
        assert_eq!(next().await, Some(0));
        // An equal list is not sent again: the next is that of three.
        write.send_replace(state(0));
        tokio::task::yield_now().await;
        write.send_replace(state(3));
        assert_eq!(next().await, Some(3));
        close.send_replace(true);
        assert_eq!(next().await, None);
        assert_eq!(*streams.borrow(), 0);
    }
}
