//! The TCP connection of a test: made or waited for. What goes over it is the test's own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::Context;

use crate::outcome::{Advice, tell};

/// Connects to the first address of `server` that answers.
pub(super) fn connect(server: &str, port: u16, timeout: Duration) -> anyhow::Result<TcpStream> {
    let literal = server.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(server);
    let addresses = (literal, port).to_socket_addrs().with_context(|| format!("cannot resolve {server}"))?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return ready(stream),
            Err(error) => last = error,
        }
    }
    let hint =
        "start `rocade pingpong` (or ibv_rc_pingpong) there first, and see that nothing blocks the port";
    Err(last).with_context(|| Advice::new(format!("cannot connect to {server}, TCP port {port}"), hint))
}

/// Waits for one client, over IPv6 and IPv4, and listens no more.
pub(super) fn accept(port: u16) -> anyhow::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| match error.kind() {
        io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
        // A kernel without IPv6.
        _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
    });
    let hint = "is another test waiting there? choose a free port with -p at both ends";
    let listener =
        listener.with_context(|| Advice::new(format!("cannot listen on TCP port {port}"), hint))?;
    tell(&format!("rocade: waiting for a client on TCP port {port}"));
    let (stream, _) = listener.accept().context("accept a client")?;
    ready(stream)
}

/// Small messages go at once: the other end reads each with one `read`.
fn ready(stream: TcpStream) -> anyhow::Result<TcpStream> {
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    Ok(stream)
}
