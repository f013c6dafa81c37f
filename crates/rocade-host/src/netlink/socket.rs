//! Asking a live kernel: one socket a protocol and question, replies cut into payloads.

use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer};
use netlink_sys::{Socket, SocketAddr};

use super::rdma::Request;
use crate::errno::Errno;
use crate::root::{Answer, Refusal};

const HEADER_LEN: usize = 16;

/// Sends one request and gives the decoded payloads of its replies.
pub(crate) fn ask<T>(protocol: isize, request: Request, parse: fn(&[u8]) -> Option<T>) -> Answer<Vec<T>> {
    let socket = open(protocol).map_err(refused)?;
    let (kind, dump, payload) = request;
    socket.send(&frame(kind, dump, &payload), 0).map_err(refused)?;
    let mut payloads = Vec::new();
    loop {
        let (datagram, _) = socket.recv_from_full().map_err(refused)?;
        if parse_datagram(&datagram, dump, &mut payloads)? == Progress::Done {
            break;
        }
    }
    payloads.iter().map(|p| parse(p).ok_or(Refusal::Garbled)).collect()
}

fn open(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
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
