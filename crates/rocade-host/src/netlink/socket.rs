//! Asking a live kernel: one socket a protocol and question, replies cut into payloads.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer};
use netlink_sys::Socket;

use super::rdma::Request;
use crate::errno::Errno;
use crate::root::{Answer, Refusal};

const HEADER_LEN: usize = 16;
/// include/linux/socket.h.
const MSG_TRUNC: i32 = 0x20;
/// The kernel's own address.
const KERNEL: u32 = 0;

/// Room for a reply: the kernel makes those of a dump no larger (net/netlink/af_netlink.c netlink_recvmsg).
const ROOM: usize = 32 << 10;

/// Sends one request and gives the decoded payloads of its replies.
pub(crate) fn ask<T>(protocol: isize, request: Request, parse: fn(&[u8]) -> Option<T>) -> Answer<Vec<T>> {
    let (kind, dump, payload) = request;
    let message = frame(kind, dump, &payload);
    let replies = match exchange(protocol, &message, dump, ROOM)? {
        Replies::All(replies) => replies,
        Replies::Larger(bytes) => match exchange(protocol, &message, dump, bytes)? {
            Replies::All(replies) => replies,
            Replies::Larger(_) => return Err(Refusal::Garbled),
        },
    };
    replies.iter().map(|p| parse(p).ok_or(Refusal::Garbled)).collect()
}

/// What came of a question.
enum Replies {
    /// The payloads.
    All(Vec<Vec<u8>>),
    /// A datagram of so many bytes found too little room.
    Larger(usize),
}

/// The kernel gives an unbound socket its address with the first message, which goes to the kernel as no other is named.
fn exchange(protocol: isize, message: &[u8], dump: bool, room: usize) -> Answer<Replies> {
    let socket = Socket::new(protocol).map_err(refused)?;
    socket.send(message, 0).map_err(refused)?;
    let mut payloads = Vec::new();
    let mut datagram = Vec::with_capacity(room);
    loop {
        datagram.clear();
        // With MSG_TRUNC the true size is told, whatever the room.
        let (bytes, sender) = match socket.recv_from(&mut datagram, MSG_TRUNC) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            received => received.map_err(refused)?,
        };
        // Other processes can send to a socket, too.
        if sender.port_number() != KERNEL {
            continue;
        }
        if bytes > datagram.len() {
            return Ok(Replies::Larger(bytes));
        }
        if parse_datagram(&datagram, dump, &mut payloads)? == Progress::Done {
            return Ok(Replies::All(payloads));
        }
    }
}

pub(crate) fn refused(error: io::Error) -> Refusal {
    error.raw_os_error().map_or(Refusal::Garbled, |raw| Refusal::Errno(Errno::from_raw(raw)))
}

fn frame(kind: u16, dump: bool, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER_LEN + payload.len()];
    let length = message.len() as u32;
    let mut buffer = NetlinkBuffer::new(&mut message[..]);
    buffer.set_length(length);
    buffer.set_message_type(kind);
    buffer.set_flags(NLM_F_REQUEST | if dump { NLM_F_DUMP } else { 0 });
    buffer.set_sequence_number(1);
    message[HEADER_LEN..].copy_from_slice(payload);
    message
}

/// Whether more datagrams follow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    More,
}

/// Cuts one datagram into payloads. A dump ends with DONE; a single answer is itself the end.
pub(crate) fn parse_datagram(datagram: &[u8], dump: bool, payloads: &mut Vec<Vec<u8>>) -> Answer<Progress> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let message = NetlinkBuffer::new_checked(rest).map_err(|_| Refusal::Garbled)?;
        let length = message.length() as usize;
        let payload = rest.get(HEADER_LEN..length).ok_or(Refusal::Garbled)?;
        match message.message_type() {
            NLMSG_DONE => return check_status(payload).map(|()| Progress::Done),
            NLMSG_ERROR => return check_status(payload).map(|()| Progress::Done),
            _ => payloads.push(payload.to_vec()),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(if dump { Progress::More } else { Progress::Done })
}

/// ERROR and DONE open with a negated error number; 0 is success.
fn check_status(payload: &[u8]) -> Answer<()> {
    let code = payload.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
    if code < 0 { Err(Refusal::Errno(Errno::from_raw(code.saturating_neg()))) } else { Ok(()) }
}
