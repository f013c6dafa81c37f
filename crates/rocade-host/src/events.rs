//! What the kernel tells unasked: device events, interface events, RDMA events. Here sockets are opened and what they
//! say is parsed; whoever waits for them does so by the file descriptor. Nothing that is told is believed further than
//! that there is something to look at.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use netlink_packet_core::NetlinkBuffer;
use netlink_sys::protocols::{NETLINK_KOBJECT_UEVENT, NETLINK_RDMA, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

use crate::netlink::route;

mod uevent;

pub use uevent::parse_uevent;

/// RDMA_NL_GROUP_NOTIFY (include/uapi/rdma/rdma_netlink.h, Linux 6.12).
const RDMA_NOTIFY: u32 = 4;

/// Group 1 is the kernel's, group 2 udevd's.
const UEVENT_KERNEL: u32 = 1;

/// RTMGRP_LINK (include/uapi/linux/rtnetlink.h).
const LINK: u32 = 1;

/// RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
const ADDRESSES: u32 = 0x10 | 0x100;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;

/// Room for a burst: a driver that is loaded tells hundreds of things at once.
const BUFFER: usize = 1 << 20;

/// Who tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Devices that come, go, and are bound to drivers (kobject uevents).
    Devices,
    /// Interfaces that come, go and change (route netlink).
    Interfaces {
        /// Addresses of interfaces too.
        addresses: bool,
    },
    /// RDMA devices that come, go and are renamed (RDMA netlink, told from Linux 6.12 on).
    Rdma,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A device of a subsystem that RDMA depends on.
    Device {
        /// `infiniband`, `infiniband_verbs`, `infiniband_mad`, `pci`, `auxiliary`, `misc`.
        subsystem: String,
        /// `add`, `remove`, `change`, `move`, `bind`, `unbind`.
        action: String,
        /// Path below /sys.
        path: String,
    },
    /// An interface came, went or changed.
    Interface {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
        /// Its kind, as `veth`; None for the netdev of a device.
        kind: Option<String>,
    },
    /// An address of an interface came or went.
    Address {
        /// Index of the interface.
        index: u32,
    },
    /// An RDMA device came, went or was renamed.
    Rdma,
    /// More was told than there was room for.
    Lost,
}

/// An open source.
#[derive(Debug)]
pub struct EventSocket {
    socket: Socket,
    source: Source,
}

impl EventSocket {
    /// Opens a source; reading never blocks.
    ///
    /// # Errors
    /// The kernel's: it has no such protocol (RDMA without ib_core), or a container may not listen.
    pub fn open(source: Source) -> io::Result<EventSocket> {
        let (protocol, groups) = match source {
            Source::Devices => (NETLINK_KOBJECT_UEVENT, UEVENT_KERNEL),
            Source::Interfaces { addresses: false } => (NETLINK_ROUTE, LINK),
            Source::Interfaces { addresses: true } => (NETLINK_ROUTE, LINK | ADDRESSES),
            Source::Rdma => (NETLINK_RDMA, 0),
        };
        let mut socket = Socket::new(protocol)?;
        socket.set_non_blocking(true)?;
        // The default does as well where more is refused.
        let _ = socket.set_rx_buf_sz(BUFFER);
        socket.bind(&SocketAddr::new(0, groups))?;
        if source == Source::Rdma {
            socket.add_membership(RDMA_NOTIFY)?;
        }
        Ok(EventSocket { socket, source })
    }

    /// The events of the next message; empty when it was about something else.
    ///
    /// # Errors
    /// `WouldBlock` when there is no message; anything else ends the source.
    pub fn read(&self) -> io::Result<Vec<Event>> {
        let (message, sender) = match self.socket.recv_from_full() {
            Ok(message) => message,
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                return Ok(vec![Event::Lost]);
            }
            Err(error) => return Err(error),
        };
        // Any process may send to these groups' sockets; the kernel's port is 0.
        if sender.port_number() != 0 {
            return Ok(Vec::new());
        }
        Ok(match self.source {
            Source::Devices => parse_uevent(&message).into_iter().collect(),
            Source::Interfaces { .. } => parse_route(&message),
            Source::Rdma => vec![Event::Rdma],
        })
    }
}

impl AsFd for EventSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for EventSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The events of a route netlink message; what cannot be decoded ends it.
fn parse_route(message: &[u8]) -> Vec<Event> {
    let (mut events, mut rest) = (Vec::new(), message);
    while let Ok(one) = NetlinkBuffer::new_checked(rest) {
        let length = one.length() as usize;
        let Some(payload) = rest.get(16..length) else { break };
        events.extend(match one.message_type() {
            RTM_NEWLINK | RTM_DELLINK => route::parse_link(payload).map(|link| Event::Interface {
                index: link.index,
                name: link.name,
                kind: link.kind,
            }),
            // struct ifaddrmsg: four bytes, then the index.
            RTM_NEWADDR | RTM_DELADDR => payload
                .get(4..8)
                .and_then(|index| index.try_into().ok())
                .map(|index| Event::Address { index: u32::from_ne_bytes(index) }),
            _ => None,
        });
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    events
}

#[cfg(test)]
mod tests;
