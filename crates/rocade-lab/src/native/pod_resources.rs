//! The kubelet's own view of devices: the PodResources API v1, asked over its socket.

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod api {
    include!("pod_resources_v1.rs");
}

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tonic::transport::{Channel, Endpoint};

use api::pod_resources_lister_client::PodResourcesListerClient;
use api::{AllocatableResourcesRequest, ContainerDevices, ListPodResourcesRequest};

/// The kubelet answers at once or not at all.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Resource → its device IDs, sorted.
pub type Devices = BTreeMap<String, Vec<String>>;

/// All healthy devices, granted or not, by GetAllocatableResources.
///
/// # Errors
/// No kubelet answers on the socket.
pub fn allocatable(socket: &Path) -> Result<Devices> {
    let answer = ask(socket, async |mut client| {
        client.get_allocatable_resources(AllocatableResourcesRequest {}).await
    })?;
    Ok(by_resource(answer.devices))
}

/// The devices that each active Pod holds, by name, by List.
///
/// # Errors
/// As [`allocatable`].
pub fn granted(socket: &Path) -> Result<BTreeMap<String, Devices>> {
    let answer = ask(socket, async |mut client| client.list(ListPodResourcesRequest {}).await)?;
    let pods = answer.pod_resources.into_iter();
    Ok(pods.map(|pod| (pod.name, by_resource(pod.containers.into_iter().flat_map(|c| c.devices)))).collect())
}

fn ask<T>(
    socket: &Path,
    call: impl AsyncFnOnce(PodResourcesListerClient<Channel>) -> Result<tonic::Response<T>, tonic::Status>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let address = Endpoint::from_shared(format!("unix://{}", socket.display()))?;
        let asked = async {
            let channel = address.connect().await.with_context(|| format!("dial {}", socket.display()))?;
            call(PodResourcesListerClient::new(channel)).await.context("ask the kubelet")
        };
        Ok(tokio::time::timeout(ANSWER_LIMIT, asked)
            .await
            .context("the kubelet does not answer")??
            .into_inner())
    })
}

fn by_resource(devices: impl IntoIterator<Item = ContainerDevices>) -> Devices {
    let mut all = Devices::new();
    for entry in devices {
        all.entry(entry.resource_name).or_default().extend(entry.device_ids);
    }
    all.values_mut().for_each(|ids| ids.sort());
    all
}
