//! A device list that is written out only while it is sent: tens of thousands of tokens are one run of numbers here, and
//! a megabyte on the wire. The kubelet's gRPC client takes messages of 4 MiB.

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

use crate::api::{Device, HEALTHY, NumaNode, TopologyInfo, UNHEALTHY};

/// Most bytes of a message that the kubelet receives (grpc-go, defaultClientMaxReceiveMessageSize).
pub const MAX_BYTES: usize = 4 << 20;

/// Field `devices` of ListAndWatchResponse.
pub(crate) const DEVICES: u32 = 1;

/// All devices of a resource, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceList(Vec<Run>);

/// Devices that differ in their numbers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    ids: Ids,
    healthy: bool,
    numa: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ids {
    /// From the first number to the last.
    Numbers(u32, u32),
    One(String),
}

impl DeviceList {
    /// The list of these IDs, whether each is healthy, and its NUMA nodes where they are known.
    pub fn new(devices: impl Iterator<Item = (String, bool, Vec<u32>)>) -> DeviceList {
        let mut list = DeviceList::default();
        devices.for_each(|(id, healthy, numa)| list.push(id, healthy, numa));
        list
    }

    /// The devices one by one.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        self.0.iter().cloned().flat_map(Run::into_devices)
    }

    /// The same, of a list that is needed no more.
    pub(crate) fn into_devices(self) -> impl Iterator<Item = Device> {
        self.0.into_iter().flat_map(Run::into_devices)
    }

    /// Bytes of the message.
    pub fn len_bytes(&self) -> usize {
        self.encoded_len()
    }

    fn push(&mut self, id: String, healthy: bool, numa: Vec<u32>) {
        // Only what reads back as the same text is a number: "01" and "+1" are other IDs than "1".
        let number = id.parse::<u32>().ok().filter(|number| number.to_string() == id);
        if let (Some(number), Some(run)) = (number, self.0.last_mut())
            && let Ids::Numbers(_, last) = &mut run.ids
            && last.checked_add(1) == Some(number)
            && (run.healthy, &run.numa) == (healthy, &numa)
        {
            *last = number;
            return;
        }
        let ids = number.map_or(Ids::One(id), |number| Ids::Numbers(number, number));
        self.0.push(Run { ids, healthy, numa });
    }
}

impl Run {
    fn into_devices(self) -> impl Iterator<Item = Device> {
        let (numbers, one) = match &self.ids {
            Ids::Numbers(first, last) => (Some(*first..=*last), None),
            Ids::One(id) => (None, Some(id.clone())),
        };
        let ids = numbers.into_iter().flatten().map(|number| number.to_string()).chain(one);
        ids.map(move |id| self.device(id))
    }

    fn device(&self, id: String) -> Device {
        let health = if self.healthy { HEALTHY } else { UNHEALTHY };
        // An empty topology is not the same as none: the kubelet made hints of it once.
        let nodes: Vec<_> = self.numa.iter().map(|node| NumaNode { id: i64::from(*node) }).collect();
        let topology = Some(TopologyInfo { nodes }).filter(|topology| !topology.nodes.is_empty());
        Device { id, health: health.to_owned(), topology }
    }

    /// Bytes of its devices in the message. Numbers of as many digits take as many bytes.
    fn encoded_len(&self) -> usize {
        let of = |id: String| encoding::message::encoded_len(DEVICES, &self.device(id));
        match &self.ids {
            Ids::One(id) => of(id.clone()),
            Ids::Numbers(first, last) => {
                let (first, last) = (u64::from(*first), u64::from(*last));
                let mut bytes = 0;
                let mut from = first;
                while from <= last {
                    let digits = from.to_string().len() as u32;
                    let to = last.min(10_u64.pow(digits) - 1);
                    bytes += (to - from + 1) as usize * of(from.to_string());
                    from = to + 1;
                }
                bytes
            }
        }
    }
}

impl Message for DeviceList {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        self.devices().for_each(|device| encoding::message::encode(DEVICES, &device, buffer));
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
        let mut device = Device::default();
        encoding::message::merge(wire_type, &mut device, buffer, context)?;
        let nodes = device.topology.into_iter().flat_map(|topology| topology.nodes);
        let numa = nodes.filter_map(|node| u32::try_from(node.id).ok()).collect();
        self.push(device.id, device.health == HEALTHY, numa);
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.iter().map(Run::encoded_len).sum()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_as_it_was_made_and_by_the_size_of_its_message() {
        let devices = [("0".to_owned(), true, vec![]), ("0000:31:00.0".to_owned(), false, vec![0, 1])];
        let list = DeviceList::new(devices.into_iter());
        let bytes = list.encode_to_vec();
        assert_eq!(bytes.len(), list.len_bytes());
        let back = DeviceList::decode(bytes.as_slice()).unwrap();
        assert_eq!(back, list);
        let seen: Vec<_> = back.devices().collect();
        assert_eq!((seen[0].id.as_str(), seen[0].health.as_str()), ("0", "Healthy"));
        assert_eq!(seen[0].topology, None);
        assert_eq!((seen[1].id.as_str(), seen[1].health.as_str()), ("0000:31:00.0", "Unhealthy"));
        assert_eq!(seen[1].topology.as_ref().unwrap().nodes, [NumaNode { id: 0 }, NumaNode { id: 1 }]);
        assert_eq!(seen.len(), 2);
    }

    #[test]
    fn numbers_that_follow_are_one_run_whose_size_is_known_without_writing_it() {
        let token = |n: u32| (n.to_string(), n != 12_345, vec![1]);
        let list = DeviceList::new((0..64_000).map(token));
        assert_eq!(list.0.len(), 3, "those before the unhealthy one, itself, those after it");
        assert_eq!(list.encode_to_vec().len(), list.len_bytes());
        assert_eq!(
            list.devices().map(|d| d.id).collect::<Vec<_>>(),
            (0..64_000).map(|n| n.to_string()).collect::<Vec<_>>()
        );
        let odd = ["1", "01", "+2", "4294967295", "4294967296", "3"].map(|id| (id.to_owned(), true, vec![]));
        let list = DeviceList::new(odd.clone().into_iter());
        assert_eq!(list.devices().map(|d| d.id).collect::<Vec<_>>(), odd.map(|(id, ..)| id));
        assert_eq!(list.encode_to_vec().len(), list.len_bytes());
    }
}
