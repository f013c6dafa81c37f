use super::*;

fn device(message: &str) -> Option<(String, String)> {
    match parse_uevent(message.as_bytes())? {
        Event::Device { subsystem, action, .. } => Some((subsystem, action)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_verbs_device_and_rdma_cm_concern_and_other_devices_do_not() {
    let uverbs = "add@/devices/x/uverbs0\0ACTION=add\0DEVPATH=/devices/x/uverbs0\0SUBSYSTEM=infiniband_verbs\0\
                  MAJOR=231\0MINOR=192\0DEVNAME=infiniband/uverbs0\0SEQNUM=7\0";
    assert_eq!(device(uverbs), Some(("infiniband_verbs".into(), "add".into())));
    let misc = |node| format!("add@/devices/virtual/misc/x\0ACTION=add\0SUBSYSTEM=misc\0DEVNAME={node}\0");
    assert_eq!(device(&misc("infiniband/rdma_cm")), Some(("misc".into(), "add".into())));
    assert_eq!(device(&misc("vhost-net")), None);
    assert_eq!(device("add@/devices/x/net/eth0\0ACTION=add\0SUBSYSTEM=net\0"), None);
    assert_eq!(device("libudev\0\u{1}\u{2}"), None);
    assert_eq!(device(""), None);
}

/// A message of route netlink: header, payload, padding.
fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut message = Vec::from((16 + payload.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(payload);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

#[test]
fn interfaces_and_addresses_of_one_datagram_are_all_told() {
    // ifinfomsg: family, padding, type, index, flags, change; then IFLA_IFNAME.
    let mut link = vec![0, 0, 1, 0];
    link.extend(7u32.to_ne_bytes());
    link.extend([0; 8]);
    link.extend([9, 0, 3, 0]);
    link.extend(b"eth1\0\0\0\0");
    let mut address = vec![2, 24, 0, 0];
    address.extend(7u32.to_ne_bytes());
    let mut datagram = message(RTM_DELLINK, &link);
    datagram.extend(message(RTM_NEWADDR, &address));
    datagram.extend(message(24, &address));
    let interface = Event::Interface { index: 7, name: "eth1".into(), kind: None };
    assert_eq!(parse_route(&datagram), [interface, Event::Address { index: 7 }]);
    assert_eq!(parse_route(&datagram[..10]), []);
}

#[test]
fn a_source_without_a_message_would_block_and_an_interface_that_changes_is_told() {
    let socket = EventSocket::open(Source::Interfaces { addresses: true }).unwrap();
    match socket.read() {
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        // Whatever else happens on this machine meanwhile.
        Ok(events) => assert!(events.iter().all(|e| !matches!(e, Event::Device { .. }))),
    }
}

#[test]
fn a_message_that_is_not_the_kernels_is_dropped() {
    let ours = EventSocket::open(Source::Devices).unwrap();
    let mut address = SocketAddr::new(0, 0);
    ours.socket.get_address(&mut address).unwrap();
    let mut stranger = Socket::new(NETLINK_KOBJECT_UEVENT).unwrap();
    stranger.bind_auto().unwrap();
    let text = b"add@/x\0ACTION=add\0SUBSYSTEM=infiniband\0";
    // Without CAP_NET_ADMIN the kernel refuses to carry it, which is as good.
    if stranger.send_to(text, &address, 0).is_ok() {
        assert!(!matches!(ours.read().as_deref(), Ok([Event::Device { .. }, ..])));
    }
}
