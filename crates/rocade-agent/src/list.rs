//! A device list as it travels: ListAndWatchResponse in its encoded form. Tens of thousands of devices are kept once and
//! sent to every stream without being built again; the kubelet's gRPC client takes messages of 4 MiB.

use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};

use crate::api::{Device, HEALTHY, NumaNode, TopologyInfo, UNHEALTHY};

/// Most bytes of a message that the kubelet receives (grpc-go, defaultClientMaxReceiveMessageSize).
pub const MAX_BYTES: usize = 4 << 20;

/// Field `devices` of ListAndWatchResponse.
const DEVICES: u32 = 1;

/// All devices of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceList(Bytes);

impl DeviceList {
    /// The list of these IDs, whether each is healthy, and its NUMA nodes where they are known.
    pub fn new(devices: impl Iterator<Item = (String, bool, Vec<u32>)>) -> DeviceList {
        let mut encoded = Vec::new();
        for (id, healthy, numa) in devices {
            let health = if healthy { HEALTHY } else { UNHEALTHY };
            // An empty topology is not the same as none: the kubelet made hints of it once.
            let nodes: Vec<_> = numa.into_iter().map(|node| NumaNode { id: i64::from(node) }).collect();
            let topology = Some(TopologyInfo { nodes }).filter(|topology| !topology.nodes.is_empty());
            let device = Device { id, health: health.to_owned(), topology };
            encoding::message::encode(DEVICES, &device, &mut encoded);
        }
        // Growing doubled the room; what lives long is kept in what it needs, and never there twice.
        encoded.shrink_to_fit();
        DeviceList(Bytes::from(encoded))
    }

    /// The devices one by one.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        let mut rest = self.0.clone();
        std::iter::from_fn(move || {
            encoding::decode_key(&mut rest).ok()?;
            Device::decode_length_delimited(&mut rest).ok()
        })
    }

    /// Bytes of the message.
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }
}

impl Message for DeviceList {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.0);
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
        let mut encoded = BytesMut::from(std::mem::take(&mut self.0));
        encoding::message::encode(DEVICES, &device, &mut encoded);
        self.0 = encoded.freeze();
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
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
}
