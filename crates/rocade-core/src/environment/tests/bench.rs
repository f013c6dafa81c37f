//! Hosts of the rows, built of short texts, and judged as read ones are.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::*;
use crate::host::{
    Accelerator, Accessible, CharDevice, GidEntry, GidType, Hca, LinkLayer, Netdev, Pod, PodGrant, Port,
    Route, Transport,
};
use crate::names::Gid;

/// A host and what is given beside it.
#[derive(Debug, Clone)]
pub(super) struct Bench {
    host: Host,
    variables: BTreeMap<String, String>,
    tried: Tried,
    nccl: NcclVersion,
    gid_index: bool,
    range: Option<Network>,
    reach: Reach,
}

/// A Pod with a default route over eth0, to which nothing was granted by name.
pub(super) fn pod() -> Bench {
    let host =
        Host { pod: Some(Pod::default()), default_route_netdev: Some("eth0".into()), ..Host::default() };
    let bench = Bench {
        host,
        variables: BTreeMap::new(),
        tried: Tried::new(),
        nccl: NcclVersion::ASSUMED,
        gid_index: false,
        range: None,
        reach: Reach::Handed,
    };
    bench.netdev("eth0", &["10.244.1.44/24"])
}

impl Bench {
    /// A RoCE HCA with an ACTIVE port 1 and these GIDs, each `INDEX v1|v2|? NETDEV ADDRESS`.
    pub(super) fn roce(mut self, name: &str, gids: &[&str]) -> Bench {
        let n = u32::try_from(self.host.hcas.len()).unwrap();
        let uverbs = CharDevice {
            node: format!("uverbs{n}"),
            major: 231,
            minor: 192 + n,
            accessible: Accessible::Yes,
        };
        self.host.hcas.push(Hca { uverbs: Some(uverbs), ..Hca::new(name.parse().unwrap()) });
        self.port(1, gids)
    }

    /// An InfiniBand HCA with an ACTIVE port 1.
    pub(super) fn infiniband(self, name: &str) -> Bench {
        self.roce(name, &[]).with_port(|port| {
            port.link_layer = LinkLayer::InfiniBand;
            port.transport = Transport::Infiniband;
            (port.lid, port.sm_lid) = (Some(7), Some(1));
        })
    }

    /// One more port of the last HCA.
    pub(super) fn port(mut self, number: u32, gids: &[&str]) -> Bench {
        let gids: Vec<GidEntry> = gids.iter().map(|text| entry(text)).collect();
        let port = Port {
            link_layer: LinkLayer::Ethernet,
            transport: Transport::Roce,
            state: Some("ACTIVE".into()),
            gid_table_len: Some(256),
            gids,
            ..Port::new(PortNum(number))
        };
        self.host.hcas.last_mut().unwrap().ports.push(port);
        self
    }

    /// Changes the last port.
    pub(super) fn with_port(mut self, change: impl Fn(&mut Port)) -> Bench {
        change(self.host.hcas.last_mut().unwrap().ports.last_mut().unwrap());
        self
    }

    /// Changes the last HCA.
    pub(super) fn with_hca(mut self, change: impl Fn(&mut Hca)) -> Bench {
        change(self.host.hcas.last_mut().unwrap());
        self
    }

    /// The last port is in another state than ACTIVE.
    pub(super) fn state(self, state: &str) -> Bench {
        self.with_port(|port| port.state = Some(state.into()))
    }

    /// What stands in /dev/infiniband for the last HCA.
    pub(super) fn node(self, accessible: Accessible) -> Bench {
        self.with_hca(|hca| hca.uverbs.as_mut().unwrap().accessible = accessible)
    }

    /// Where the last HCA is: bridges above it, root bus and NUMA node.
    pub(super) fn at(self, bridges: &[u8], root: &str, numa: u32) -> Bench {
        self.with_hca(|hca| {
            hca.pci_address = Some(PciAddress { domain: 1, bus: numa as u8, device: 9, function: 0 });
            (hca.pci_path, hca.pci_root) = (path(bridges), Some(root.into()));
            hca.numa_node = Some(numa);
        })
    }

    /// A GPU below these bridges.
    pub(super) fn gpu(mut self, bridges: &[u8], root: &str, numa: u32) -> Bench {
        let n = self.host.accelerators.len() as u8;
        self.host.accelerators.push(Accelerator {
            pci_address: PciAddress { domain: 2, bus: n, device: 0, function: 0 },
            pci_id: None,
            class: 0x0302,
            driver: Some("nvidia".into()),
            numa_node: Some(numa),
            pci_root: Some(root.into()),
            pci_path: path(bridges),
            iommu: None,
            distances: BTreeMap::new(),
            unknown: BTreeMap::new(),
        });
        self
    }

    /// An interface of this namespace with addresses `10.1.0.5/24`.
    pub(super) fn netdev(mut self, name: &str, addresses: &[&str]) -> Bench {
        let addresses = addresses.iter().map(|text| network(text)).collect();
        self.host.netdevs.retain(|netdev| netdev.name != name);
        let (ifindex, link_type) = (self.host.netdevs.len() as u32 + 1, 1);
        let netdev =
            Netdev { name: name.into(), ifindex, link_type, up: true, addresses, ..Netdev::default() };
        self.host.netdevs.push(netdev);
        self
    }

    /// A route `10.0.0.0/8` out of an interface.
    pub(super) fn route(mut self, to: &str, netdev: &str) -> Bench {
        self.host.routes.push(Route {
            table: 254,
            kind: "unicast".into(),
            destination: network(to),
            gateway: None,
            netdev: Some(netdev.into()),
            metric: None,
            source: None,
        });
        self
    }

    /// The variable by which a resource grants ports: `mlx5_0:1,mlx5_1:1`.
    pub(super) fn granted(self, resource: &str, ports: &str) -> Bench {
        let hcas = ports.split(',').map(|port| PodGrant {
            hca: Some(port.split(':').next().unwrap().into()),
            ..PodGrant::default()
        });
        let mut bench = self.set(&format!("ROCADE_GRANT_{resource}"), ports);
        bench.host.pod.as_mut().unwrap().grants.get_or_insert_default().extend(hcas);
        bench
    }

    /// A grant by PCI address alone.
    pub(super) fn granted_at(mut self, address: &str) -> Bench {
        let grant = PodGrant { pci_address: Some(address.parse().unwrap()), ..PodGrant::default() };
        self.host.pod.as_mut().unwrap().grants.get_or_insert_default().push(grant);
        self
    }

    /// A variable of the process.
    pub(super) fn set(mut self, name: &str, value: &str) -> Bench {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Opening an HCA's verbs device was tried.
    pub(super) fn tried(mut self, hca: &str, refused: Option<&str>) -> Bench {
        self.tried.insert(hca.parse().unwrap(), refused.map(str::to_owned));
        self
    }

    pub(super) fn nccl(mut self, version: &str) -> Bench {
        self.nccl = version.parse().unwrap();
        self
    }

    /// Indexes are asked for.
    pub(super) fn with_index(mut self) -> Bench {
        self.gid_index = true;
        self
    }

    /// For a file that stays in this Pod.
    pub(super) fn own_file(mut self) -> Bench {
        self.reach = Reach::OwnFile;
        self
    }

    /// The user says the fabric's network.
    pub(super) fn range(mut self, text: &str) -> Bench {
        self.range = Some(network(text));
        self
    }

    /// Changes anything else of the host.
    pub(super) fn with(mut self, change: impl Fn(&mut Host)) -> Bench {
        change(&mut self.host);
        self
    }

    pub(super) fn tell(&self) -> Environment {
        let mut host = self.host.clone();
        crate::distance::fill(&mut host);
        crate::judge(&mut host);
        environment(
            &host,
            &Given {
                variables: &self.variables,
                tried: &self.tried,
                nccl: self.nccl,
                nccl_source: NcclSource::Assumed,
                gid_index: self.gid_index,
                range: self.range,
                reach: self.reach,
                gpus: None,
            },
        )
    }
}

/// A Pod with net1 on mlx5_2, whose table begins with the host's entries.
pub(super) fn macvlan_pod() -> Bench {
    pod().netdev("net1", &["10.1.0.5/24"]).roce("mlx5_2", OWN_ON_NET1)
}

/// A usual table: link-local first, then the address, each as v1 and v2.
pub(super) const OWN_ON_NET1: &[&str] =
    &["0 v1 net1 fe80::5", "1 v2 net1 fe80::5", "2 v1 net1 10.1.0.5", "3 v2 net1 10.1.0.5"];

/// The same for net2 and 10.1.1.5.
pub(super) const OWN_ON_NET2: &[&str] =
    &["0 v1 net2 fe80::6", "1 v2 net2 fe80::6", "2 v1 net2 10.1.1.5", "3 v2 net2 10.1.1.5"];

fn network(text: &str) -> Network {
    let (address, prefix) = text.split_once('/').unwrap();
    (address.parse().unwrap(), prefix.parse().unwrap())
}

fn entry(text: &str) -> GidEntry {
    let [index, version, netdev, address] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
    let address: IpAddr = address.parse().unwrap();
    GidEntry {
        index: GidIndex(index.parse().unwrap()),
        gid: Gid::from_address(address),
        gid_type: match version {
            "v1" => Some(GidType::V1),
            "v2" => Some(GidType::V2),
            _ => None,
        },
        netdev: Some(netdev.into()),
        address: Some(address),
    }
}

fn path(bridges: &[u8]) -> Vec<PciAddress> {
    bridges.iter().map(|n| PciAddress { domain: 0, bus: 0, device: *n, function: 0 }).collect()
}
