//! One end of a test as a diagnosis sees it: what this end knows of itself, and what the other end told or its tool is
//! known for.

use serde::{Deserialize, Serialize};

use crate::gid::Choice;
use crate::host::{GidType, Host, LinkLayer};
use crate::names::Pkey;
use crate::pair::Endpoint;

/// Facts of one end; None is unknown. Ends that are rocade tell each other theirs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    /// Size of its messages, bytes.
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
    /// Hop limit of its packets: 1 with ibv_rc_pingpong, which stops at the first router.
    pub hop_limit: Option<u8>,
    /// Receives that it keeps posted.
    pub receive_depth: Option<u32>,
}

impl End {
    /// What the model knows of the end that runs over a choice.
    pub fn over(host: &Host, choice: &Choice) -> End {
        let port = host.hca(choice.hca.as_str()).and_then(|hca| hca.port(choice.port));
        let entry = choice.gid.as_ref();
        let netdev = entry.and_then(|entry| entry.netdev.clone());
        let netdev_mtu = netdev.as_deref().and_then(|name| host.netdev(name)).map(|netdev| netdev.mtu);
        End {
            link_layer: port.map(|port| port.link_layer.clone()).filter(|layer| *layer != LinkLayer::Unknown),
            gid_type: entry.and_then(|entry| entry.gid_type),
            netdev,
            netdev_mtu,
            sm_lid: port.and_then(|port| port.sm_lid),
            ..End::default()
        }
    }
}
