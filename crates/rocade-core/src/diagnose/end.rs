//! One end of a test as a diagnosis sees it: what this end knows of itself, and what the other end told or its tool is
//! known for.

use crate::gid::Choice;
use crate::host::{GidType, Host, LinkLayer, Port};
use crate::names::Pkey;
use crate::pair::Endpoint;
use crate::pair::perf::EndFacts;

/// Facts of one end; None is unknown. Ends that are rocade tell each other some of them: [`EndFacts`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct End {
    /// Where its QP is to be reached.
    pub endpoint: Option<Endpoint>,
    /// Link layer of its port.
    pub link_layer: Option<LinkLayer>,
    /// Type of its GID.
    pub gid_type: Option<GidType>,
    /// Name of the netdev of its GID, in its own namespace.
    pub netdev: Option<String>,
    /// MTU of that netdev, bytes.
    pub netdev_mtu: Option<u32>,
    /// Path MTU of its QP, bytes.
    pub mtu_bytes: Option<u32>,
    /// Size of its messages, bytes; None also where they have several.
    pub message_bytes: Option<u64>,
    /// Its partition key; 0x0000 where the entry that it uses is unset.
    pub pkey: Option<Pkey>,
    /// The index of that key.
    pub pkey_index: Option<u32>,
    /// Entries that the table of partition keys has.
    pub pkey_table_len: Option<u32>,
    /// LID of the subnet manager of its port; 0 where there is none.
    pub sm_lid: Option<u16>,
    /// Service level of its QP.
    pub service_level: Option<u8>,
    /// Traffic class of its QP.
    pub traffic_class: Option<u8>,
    /// Hop limit that its QP asks for.
    pub hop_limit: Option<u8>,
    /// Receives that it keeps posted.
    pub receive_depth: Option<u32>,
}

impl End {
    /// What the model knows of this host's end over a choice; what the QP has is for the caller to add.
    pub fn over(host: &Host, choice: &Choice) -> End {
        let port = port_of(host, choice);
        let entry = choice.gid.as_ref();
        let netdev = entry.and_then(|entry| entry.netdev.clone());
        let netdev_mtu = netdev.as_deref().and_then(|name| host.netdev(name)).map(|netdev| netdev.mtu);
        let on_infiniband = port.filter(|port| port.link_layer == LinkLayer::InfiniBand);
        End {
            link_layer: port.map(|port| port.link_layer.clone()).filter(|layer| *layer != LinkLayer::Unknown),
            gid_type: entry.and_then(|entry| entry.gid_type),
            netdev,
            netdev_mtu,
            sm_lid: on_infiniband.and_then(|port| port.sm_lid),
            ..End::default()
        }
    }
}

impl From<&EndFacts> for End {
    /// What the other end, which is rocade too, told of itself.
    fn from(told: &EndFacts) -> End {
        let link_layer = match told.link_layer.as_deref() {
            Some(INFINIBAND) => Some(LinkLayer::InfiniBand),
            Some(ETHERNET) => Some(LinkLayer::Ethernet),
            _ => None,
        };
        End {
            link_layer,
            gid_type: told.gid_type,
            netdev: told.netdev.clone(),
            netdev_mtu: told.netdev_mtu_bytes,
            pkey: told.pkey,
            sm_lid: told.sm_lid,
            ..End::default()
        }
    }
}

const INFINIBAND: &str = "infiniband";
const ETHERNET: &str = "ethernet";

impl EndFacts {
    /// What this host's end over a choice tells the other one, but for the kernel's boot, which is no part of the model;
    /// `pkey` is the partition key that its QP uses.
    pub fn over(host: &Host, choice: &Choice, pkey: Option<Pkey>) -> EndFacts {
        let (end, port) = (End::over(host, choice), port_of(host, choice));
        let link_layer = match end.link_layer {
            Some(LinkLayer::InfiniBand) => Some(INFINIBAND.to_owned()),
            Some(LinkLayer::Ethernet) => Some(ETHERNET.to_owned()),
            _ => None,
        };
        let pod = host.pod.as_ref().and_then(|pod| pod.name.clone());
        EndFacts {
            host: pod.or_else(|| host.hostname.clone()).unwrap_or_default(),
            hca: choice.hca.clone(),
            port: choice.port,
            link_layer,
            netdev: end.netdev.or_else(|| port?.netdev.clone()),
            gid: choice.gid.as_ref().map(|entry| entry.gid),
            gid_type: end.gid_type,
            netdev_mtu_bytes: end.netdev_mtu,
            active_mtu_bytes: port.and_then(|port| port.active_mtu),
            rate_gbps: port.and_then(|port| port.rate_gbps),
            pkey: pkey.filter(|_| end.link_layer == Some(LinkLayer::InfiniBand)),
            sm_lid: end.sm_lid,
            boot_id: None,
        }
    }
}

fn port_of<'a>(host: &'a Host, choice: &Choice) -> Option<&'a Port> {
    host.hca(choice.hca.as_str())?.port(choice.port)
}
