use super::*;
use crate::host::{CharDevice, Role};
use crate::names::PortNum;
use crate::{Accessible, PciId};

fn hca(name: &str, vendor: u16, transport: Transport, layer: LinkLayer, state: &str, rate: f64) -> Hca {
    let port = Port {
        transport,
        link_layer: layer,
        state: Some(state.into()),
        rate_gbps: Some(rate),
        ..Port::new(PortNum(1))
    };
    Hca { pci_id: Some(PciId { vendor, device: 1 }), ports: vec![port], ..Hca::new(name.parse().unwrap()) }
}

fn roce(name: &str, vendor: u16, state: &str, rate: f64) -> Hca {
    hca(name, vendor, Transport::Roce, LinkLayer::Ethernet, state, rate)
}

fn host(hcas: Vec<Hca>) -> Host {
    Host { hcas, netns_mode: Some(NetnsMode::Shared), ..Host::default() }
}

fn node(name: &str) -> CharDevice {
    CharDevice { node: name.into(), major: 231, minor: 192, accessible: Accessible::Yes }
}

fn of(host: &Host) -> BTreeMap<String, String> {
    labels(host, SinceBoot::default().saw(host), true)
}

#[test]
fn a_host_with_rdma_of_any_vendor_is_capable_f22() {
    let labels = of(&host(vec![roce("irdma0", 0x8086, "ACTIVE", 100.0)]));
    assert_eq!(labels["rdma.rocade.dev/capable"], "true");
    assert_eq!(labels["rdma.rocade.dev/vendors"], "8086");
    assert_eq!(labels[NFD_CAPABLE], "true");
}

#[test]
fn modules_are_asked_for_nothing_and_a_host_without_hca_has_no_label_f23() {
    assert_eq!(of(&host(Vec::new())), BTreeMap::new());
    let efa = hca("efa_0", 0x1d0f, Transport::Efa, LinkLayer::Unknown, "ACTIVE", 100.0);
    assert_eq!(of(&host(vec![efa])), BTreeMap::new());
    // Built in, the modules are listed nowhere: what can be used shows by its nodes.
    let mut built_in =
        host(vec![Hca { uverbs: Some(node("uverbs0")), ..roce("mlx5_0", 0x15b3, "ACTIVE", 100.0) }]);
    assert!(!of(&built_in).contains_key(NFD_AVAILABLE));
    built_in.rdma_cm = Some(node("rdma_cm"));
    assert_eq!(of(&built_in)[NFD_AVAILABLE], "true");
}

#[test]
fn nfds_keys_are_set_on_request_alone() {
    let host = host(vec![roce("mlx5_0", 0x15b3, "ACTIVE", 100.0)]);
    let labels = labels(&host, SinceBoot::default(), false);
    assert!(labels.keys().all(|key| key.starts_with(PREFIX)), "{labels:?}");
}

#[test]
fn a_link_that_goes_down_takes_no_label_away() {
    let up = host(vec![roce("mlx5_0", 0x15b3, "ACTIVE", 400.0), roce("mlx5_1", 0x15b3, "ACTIVE", 400.0)]);
    let down = host(vec![roce("mlx5_0", 0x15b3, "DOWN", 40.0), roce("mlx5_1", 0x15b3, "ACTIVE", 400.0)]);
    let since = SinceBoot::default().saw(&up);
    assert_eq!(labels(&down, since.saw(&down), false), labels(&up, since, false));
    assert_eq!(labels(&up, since, false)["rdma.rocade.dev/ports-active-at-boot"], "2");
    assert_eq!(labels(&up, since, false)["rdma.rocade.dev/rate-gbps"], "400");
}

#[test]
fn every_value_is_one_that_a_label_can_have() {
    let bridge = Role { kind: RoleKind::Bridge, ground: String::new() };
    let host = host(vec![
        roce("mlx5_0", 0x15b3, "ACTIVE", 400.0),
        hca("mlx5_1", 0x15b3, Transport::Infiniband, LinkLayer::InfiniBand, "INIT", 2.5),
        Hca { software: true, pci_id: None, ..roce("rxe0", 0, "ACTIVE", 2.5) },
        Hca { role: bridge, ..roce("mlx5_9", 0x15b3, "ACTIVE", 800.0) },
    ]);
    let labels = of(&host);
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    assert!(labels.values().all(|value| value.len() <= 63 && value.chars().all(fits)), "{labels:?}");
    assert_eq!(labels["rdma.rocade.dev/link-layer"], "ethernet_infiniband");
    assert_eq!(labels["rdma.rocade.dev/vendors"], "15b3_software");
    // The one that manages a switch is not among them.
    assert_eq!(labels["rdma.rocade.dev/hcas"], "3");
    assert_eq!(labels["rdma.rocade.dev/rate-gbps"], "400");
}
