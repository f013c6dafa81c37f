//! Both ends on one host, told by what this end sees of the other.

use super::super::{loopback, loopback_of_boot};
use super::*;
use crate::pair::Endpoint;
use crate::pair::perf::EndFacts;

fn over(host: &Host, hca: &str) -> Choice {
    let hca: HcaName = hca.parse().unwrap();
    choose_gid(host, &Wish { hca: Some(&hca), ..Wish::default() }).unwrap()
}

fn remote(lid: u16, address: Option<&str>) -> Endpoint {
    let gid = address.map_or(Gid([0; 16]), |address| Gid::from_address(address.parse().unwrap()));
    Endpoint { lid, qpn: 1, psn: 1, gid }
}

fn told(host: &Host, remote: &Endpoint, connection: Option<Connection>) -> Option<String> {
    loopback(host, &over(host, "rxe1"), remote, connection).map(|loopback| loopback.to_string())
}

const ONE_HCA: &str = "loopback, not fabric: both ends are on rxe1";
const ONE_HOST: &str = "loopback, not fabric: both ends are on this host (rxe1 and rxe2)";

#[test]
fn a_gid_of_this_host_is_loopback_and_any_other_is_not() {
    for (address, wanted) in [
        ("10.1.0.1", Some(ONE_HCA)),
        // Another Pod's, on the same HCA.
        ("10.1.0.77", Some(ONE_HCA)),
        ("10.2.0.1", Some(ONE_HOST)),
        ("10.1.0.2", None),
        ("192.168.7.1", None),
    ] {
        assert_eq!(told(&two_rails(), &remote(0, Some(address)), None).as_deref(), wanted, "{address}");
    }
}

#[test]
fn a_tcp_connection_within_the_host_alone_shows_nothing() {
    let forwarded = connection("127.0.0.1", "127.0.0.1");
    assert_eq!(told(&two_rails(), &remote(0, Some("10.1.0.2")), forwarded), None);
}

/// Two InfiniBand ports with LIDs 8 (to 11, as LMC is 2) and 20.
fn infiniband() -> Host {
    let mut host = two_rails();
    for (hca, lid) in host.hcas.iter_mut().zip([8, 20]) {
        let port = &mut hca.ports[0];
        (port.link_layer, port.transport) = (LinkLayer::InfiniBand, Transport::Infiniband);
        (port.lid, port.lmc, port.sm_lid) = (Some(lid), Some(2), Some(1));
    }
    judged(host)
}

#[test]
fn on_infiniband_the_lid_tells_and_that_of_another_port_only_if_tcp_stayed_on_the_host() {
    let (within, out) = (connection("10.1.0.1", "192.168.7.1"), connection("10.1.0.1", "10.1.0.2"));
    for (lid, connection, wanted) in [
        (8, None, Some(ONE_HCA)),
        (11, out, Some(ONE_HCA)),
        (12, within, None),
        (20, within, Some(ONE_HOST)),
        // Ports of separate fabrics may have one LID.
        (20, out, None),
        (20, None, None),
        (7, within, None),
    ] {
        assert_eq!(told(&infiniband(), &remote(lid, None), connection).as_deref(), wanted, "{lid}");
    }
}

/// Two Pods of a node whose namespaces have an HCA each: neither lists the other's GID.
#[test]
fn ends_that_tell_of_one_boot_are_on_one_host_whatever_their_namespaces_list() {
    let (host, boot) = (two_rails(), Some("8e8a1cf2-0c9d-4d8e-9f51-7a4e1f2c3b4d"));
    let facts = |hca, boot: Option<&str>| EndFacts {
        boot_id: boot.map(str::to_owned),
        ..EndFacts::over(&host, &over(&host, hca), None)
    };
    let told = |own, (hca, there)| {
        loopback_of_boot(&facts("rxe1", own), &facts(hca, there)).map(|loopback| loopback.to_string())
    };
    assert_eq!(told(boot, ("rxe2", boot)).as_deref(), Some(ONE_HOST));
    assert_eq!(told(boot, ("rxe1", boot)).as_deref(), Some(ONE_HCA));
    assert_eq!(told(boot, ("rxe1", Some("0b8d6a0e-5c0f-4f0e-8f6c-3f2d1e0c9b8a"))), None);
    for (own, there) in [(None, boot), (boot, None), (None, None)] {
        assert_eq!(told(own, ("rxe1", there)), None);
    }
}
