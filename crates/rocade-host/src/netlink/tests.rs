//! Real replies of a Linux 6.1 machine with soft-RoCE (fixtures/netlink: `<` lines are datagrams in hexadecimal,
//! decoded beside them).

use serde_json::Value;

use super::rdma::{parse_device, parse_port, parse_system};
use super::route::{parse_address, parse_link};
use super::socket::{Progress, parse_datagram};
use crate::errno::Errno;
use crate::root::Refusal;

const HEX: &str = include_str!("../../../../fixtures/netlink/rxe-vm-6.1.hex");
const DECODED: &str = include_str!("../../../../fixtures/netlink/rxe-vm-6.1.decoded.json");

/// The datagrams that answered a request.
fn datagrams(request: &str) -> Vec<Vec<u8>> {
    let section = HEX.split("## ").find_map(|s| s.strip_prefix(request)?.strip_prefix('\n')).unwrap();
    let bytes = |hex: &str| {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    section.lines().filter_map(|line| line.strip_prefix("< ")).map(bytes).collect()
}

fn payloads(request: &str, dump: bool) -> Result<Vec<Vec<u8>>, Refusal> {
    let mut payloads = Vec::new();
    for datagram in datagrams(request) {
        if parse_datagram(&datagram, dump, &mut payloads)? == Progress::Done {
            return Ok(payloads);
        }
    }
    panic!("{request}: no end");
}

/// The attributes that the capture's own decoding gives for each reply.
fn decoded(request: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(DECODED).unwrap();
    let section = all.as_array().unwrap().iter().find(|s| s["request"] == request).unwrap();
    section["replies"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["attrs"].is_object())
        .map(|r| r["attrs"].clone())
        .collect()
}

#[test]
fn the_namespace_mode_is_decoded() {
    let payloads = payloads("rdma SYS_GET", false).unwrap();
    assert_eq!(parse_system(&payloads[0]).unwrap().netns_mode, 1);
}

#[test]
fn devices_are_decoded_as_the_capture_says() {
    let request = "rdma GET dump";
    let devices: Vec<_> = payloads(request, true).unwrap().iter().map(|p| parse_device(p).unwrap()).collect();
    let wanted = decoded(request);
    assert_eq!((devices.len(), wanted.len()), (4, 4));
    for (device, wanted) in devices.iter().zip(&wanted) {
        assert_eq!(wanted["1:dev_index"], format!("{:#x}", device.index));
        assert_eq!(wanted["2:dev_name"], device.name);
        assert_eq!(wanted["6:node_guid"], format!("{:#x}", device.node_guid.unwrap().0));
        assert_eq!(wanted["14:dev_node_type"], format!("{:#x}", device.node_type.unwrap()));
        assert_eq!(wanted["67:dev_protocol"], device.protocol.as_deref().unwrap());
    }
}

#[test]
fn ports_are_decoded_as_the_capture_says() {
    for device in 0..4 {
        let request = format!("rdma PORT_GET dump dev {device}");
        let ports: Vec<_> =
            payloads(&request, true).unwrap().iter().map(|p| parse_port(p).unwrap()).collect();
        let wanted = decoded(&request);
        assert_eq!((ports.len(), wanted.len()), (1, 1));
        assert_eq!(wanted[0]["2:dev_name"], ports[0].device);
        assert_eq!(wanted[0]["12:port_state"], format!("{:#x}", ports[0].state.unwrap()));
        assert_eq!(wanted[0]["13:port_phys_state"], format!("{:#x}", ports[0].phys_state.unwrap()));
        assert_eq!(wanted[0]["51:ndev_name"].as_str(), ports[0].netdev.as_deref());
    }
}

#[test]
fn a_device_that_is_gone_is_the_kernels_errno() {
    let answer = payloads("rdma PORT_GET dump dev 4 (no such device)", true);
    assert_eq!(answer, Err(Refusal::Errno(Errno::INVAL)));
}

#[test]
fn interfaces_and_addresses_are_decoded() {
    let links: Vec<_> =
        payloads("route GETLINK dump", true).unwrap().iter().map(|p| parse_link(p).unwrap()).collect();
    let link = |name: &str| links.iter().find(|link| link.name == name).unwrap();
    assert_eq!((link("lo").index, link("lo").mtu, link("lo").link_type), (1, 65536, 772));
    assert_eq!(link("eth0").mac.as_deref(), Some("52:54:00:12:34:56"));
    assert_eq!(
        (link("eth0.100").kind.as_deref(), link("eth0.100").lower),
        (Some("vlan"), Some(link("eth0").index))
    );
    assert_eq!((link("eth2").master, link("eth2").lower_is_foreign), (Some(link("bond1").index), false));

    let addresses: Vec<_> =
        payloads("route GETADDR dump", true).unwrap().iter().map(|p| parse_address(p).unwrap()).collect();
    assert_eq!(addresses.len(), 19);
    let eth0: Vec<_> = addresses.iter().filter(|a| a.index == link("eth0").index).collect();
    assert!(
        eth0.iter().any(|a| a.address == "10.9.0.1".parse::<std::net::IpAddr>().unwrap() && a.prefix == 24)
    );
}

#[test]
fn replies_cut_anywhere_are_refused_without_a_panic() {
    for request in ["rdma GET dump", "route GETLINK dump", "route GETADDR dump"] {
        for datagram in datagrams(request) {
            for end in 0..datagram.len() {
                let mut payloads = Vec::new();
                let _ = parse_datagram(&datagram[..end], true, &mut payloads);
                let cut = &datagram[16.min(end)..end];
                let _ = (
                    parse_device(cut),
                    parse_port(cut),
                    parse_system(cut),
                    parse_link(cut),
                    parse_address(cut),
                );
            }
        }
    }
}
