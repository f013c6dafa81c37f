//! Asks the kubelet what it gave to which Pod, and which devices it would give. The answers name each device of the node
//! in a message of its own, tens of thousands of them; what is only counted is never held.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};
use rocade_core::PciAddress;
use tokio::time::timeout;

use crate::api::pod_resources::pod_resources_lister_client::PodResourcesListerClient;
use crate::api::pod_resources::{AllocatableResourcesRequest, ContainerDevices, ListPodResourcesRequest};
use crate::dial::dial;
use crate::error::chain;
use crate::state::Holder;

/// For both answers together.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the kubelet's own clients allow (k8s.io/kubernetes/pkg/kubelet/apis/podresources/constants.go).
const MOST: usize = 16 << 20;

/// Field `devices` of AllocatableResourcesResponse.
const DEVICES: u32 = 1;

/// What the kubelet says.
#[derive(Debug, Default)]
pub(crate) struct KubeletView {
    /// All devices that Pods hold, of all resources of the node.
    pub(crate) held: Vec<Held>,
    /// Resource → entries among the devices to be had: one for each NUMA node of each device.
    pub(crate) allocatable: BTreeMap<String, u32>,
    /// Resource and ID of what plugins offer by PCI address.
    pub(crate) functions: BTreeSet<(String, String)>,
}

/// A device that a Pod holds.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) resource: String,
    pub(crate) id: String,
    pub(crate) holder: Holder,
}

/// AllocatableResourcesResponse, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Resource → device IDs in the answer.
    pub counts: BTreeMap<String, u32>,
    /// Resource and ID of each device that is called by a PCI address.
    pub functions: BTreeSet<(String, String)>,
}

impl Message for Allocatable {
    /// Only for a kubelet that tests play: as many devices as are counted, all of one ID.
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        for (resource, count) in &self.counts {
            for devices in (0..*count).map(|n| entry(resource, n)) {
                encoding::message::encode(DEVICES, &devices, buffer);
            }
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != DEVICES {
            return encoding::skip_field(wire_type, tag, buffer, context);
        }
        let mut devices = ContainerDevices::default();
        encoding::message::merge(wire_type, &mut devices, buffer, context)?;
        let count = u32::try_from(devices.device_ids.len()).unwrap_or(u32::MAX);
        let functions = devices.device_ids.into_iter().filter(|id| id.parse::<PciAddress>().is_ok());
        self.functions.extend(functions.map(|id| (devices.resource_name.clone(), id)));
        *self.counts.entry(devices.resource_name).or_default() += count;
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        let entries =
            self.counts.iter().flat_map(|(resource, count)| (0..*count).map(|n| entry(resource, n)));
        entries.map(|devices| encoding::message::encoded_len(DEVICES, &devices)).sum()
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.functions.clear();
    }
}

fn entry(resource: &str, n: u32) -> ContainerDevices {
    ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: vec![n.to_string()],
        ..ContainerDevices::default()
    }
}

/// Asks for both.
///
/// # Errors
/// Why there is no answer, in one line.
pub(crate) async fn ask_kubelet(socket: &Path) -> Result<KubeletView, String> {
    let asked = timeout(PATIENCE, ask(socket)).await;
    asked
        .unwrap_or_else(|_| Err(format!("did not answer within {} s", PATIENCE.as_secs())))
        .map_err(|why| format!("{} does not tell: {why}", socket.display()))
}

async fn ask(socket: &Path) -> Result<KubeletView, String> {
    let channel = dial(socket).await.map_err(|error| chain(&error))?;
    let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(MOST);
    let refused = |status: tonic::Status| format!("{} ({:?})", status.message(), status.code());
    let list = client.list(ListPodResourcesRequest {}).await.map_err(refused)?.into_inner();
    let mut view = KubeletView::default();
    for pod in list.pod_resources {
        for container in pod.containers {
            let holder =
                Holder { namespace: pod.namespace.clone(), pod: pod.name.clone(), container: container.name };
            for devices in container.devices {
                view.held.extend(devices.device_ids.into_iter().map(|id| Held {
                    resource: devices.resource_name.clone(),
                    id,
                    holder: holder.clone(),
                }));
            }
        }
    }
    let allocatable = client.get_allocatable_resources(AllocatableResourcesRequest {}).await;
    let allocatable = allocatable.map_err(refused)?.into_inner();
    (view.allocatable, view.functions) = (allocatable.counts, allocatable.functions);
    Ok(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_and_those_called_by_a_pci_address_are_kept() {
        let entry = |resource: &str, id: &str| ContainerDevices {
            resource_name: resource.into(),
            device_ids: vec![id.into()],
            ..ContainerDevices::default()
        };
        let mut answer = Vec::new();
        for devices in [
            entry("rdma/a", "0"),
            entry("rdma/a", "1"),
            entry("x/vf", "0000:01:00.2"),
            entry("x/gpu", "GPU-1"),
        ] {
            encoding::message::encode(DEVICES, &devices, &mut answer);
        }
        let read = Allocatable::decode(&*answer).unwrap();
        assert_eq!(
            read.counts,
            [("rdma/a", 2), ("x/gpu", 1), ("x/vf", 1)].map(|(r, n)| (r.to_owned(), n)).into()
        );
        assert_eq!(read.functions, [("x/vf".to_owned(), "0000:01:00.2".to_owned())].into());
    }
}
