//! Whether an address answers plain UDP, small and as large as RDMA's packets. Only after a test failed, a few datagrams,
//! and no right is needed for it: an end where nothing listens on a port says so by ICMP, which the socket reports.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use rocade_core::diagnose::Reach;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};

/// Where traceroute starts, and nobody listens.
const PORT: u16 = 33434;
/// Datagrams of a size, as one may get lost. The kernel answers six at once, and one a second after that (icmp_ratelimit).
const ATTEMPTS: usize = 3;
/// Longest wait for the answer to one.
const WAIT: Duration = Duration::from_millis(300);

/// Asks from one address to the other, with IP packets of `large_bytes` too. None where the socket cannot be had.
pub(super) fn ask(from: IpAddr, to: IpAddr, large_bytes: Option<u32>) -> Option<Reach> {
    ask_port(from, SocketAddr::new(to, PORT), large_bytes)
}

fn ask_port(from: IpAddr, to: SocketAddr, large_bytes: Option<u32>) -> Option<Reach> {
    let small = answers(from, to, &[0; 8]).ok()?;
    // 20 or 40 bytes of IP, 8 of UDP.
    let headers = if to.is_ipv4() { 28 } else { 48 };
    let payload = |bytes: u32| vec![0; bytes.saturating_sub(headers) as usize];
    // Larger than the netdev of the route takes: nobody was asked.
    let large = large_bytes.filter(|_| small).and_then(|bytes| answers(from, to, &payload(bytes)).ok());
    Some(Reach { small, large_bytes: large_bytes.filter(|_| large.is_some()), large: large == Some(true) })
}

/// Whether one of the datagrams is answered with "port unreachable".
fn answers(from: IpAddr, to: SocketAddr, payload: &[u8]) -> io::Result<bool> {
    let socket = UdpSocket::bind((from, 0))?;
    // Not in fragments, whatever the kernel has learned of the way.
    match to.is_ipv4() {
        true => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
        false => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
    }
    socket.connect(to)?;
    socket.set_read_timeout(Some(WAIT))?;
    for _ in 0..ATTEMPTS {
        match socket.send(payload).and_then(|_| socket.recv(&mut [0; 1])) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(true),
            Err(error) if is_timeout(&error) => {}
            Err(error) => return Err(error),
            // Something listens there, and says something: no answer to this question.
            Ok(_) => return Ok(false),
        }
    }
    Ok(false)
}

/// Linux answers EAGAIN when SO_RCVTIMEO is over.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn an_address_where_nothing_listens_answers_both_sizes() {
        let reach = ask(HERE, HERE, Some(4140)).unwrap();
        assert_eq!(reach, Reach { small: true, large_bytes: Some(4140), large: true });
        assert_eq!(ask(HERE, HERE, None).unwrap(), Reach { small: true, large_bytes: None, large: false });
    }

    #[test]
    fn who_says_nothing_to_the_small_one_is_not_asked_for_more() {
        let silent = UdpSocket::bind((HERE, 0)).unwrap();
        let reach = ask_port(HERE, silent.local_addr().unwrap(), Some(4140));
        assert_eq!(reach, Some(Reach { small: false, large_bytes: None, large: false }));
    }

    #[test]
    fn what_this_ends_own_netdev_does_not_take_was_not_asked() {
        // Larger than UDP over IPv4 can be.
        let reach = ask(HERE, HERE, Some(70_000));
        assert_eq!(reach, Some(Reach { small: true, large_bytes: None, large: false }));
    }
}
