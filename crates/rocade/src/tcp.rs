//! The TCP connection of a test: made or waited for. What goes over it is the test's own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::outcome::{Advice, tell};

/// Between two attempts while the other end is awaited.
const RETRY: Duration = Duration::from_millis(100);

/// Options of how two ends reach each other.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Reach {
    /// Address of this host to connect from, or to listen on [default: by the routes; all addresses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<IpAddr>,
    /// Try again for so long where nobody listens yet
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=86400))]
    pub(crate) wait: u64,
}

impl Reach {
    /// What to connect to.
    pub(crate) fn dial<'a>(
        &self,
        server: &'a str,
        port: u16,
        timeout: Duration,
        program: &'a str,
    ) -> Dial<'a> {
        Dial { server, port, from: self.bind, timeout, wait: Duration::from_secs(self.wait), program }
    }
}

/// What to connect to, and how patiently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dial<'a> {
    /// Name or address of the other end; an IPv6 address may stand in brackets.
    pub(crate) server: &'a str,
    /// TCP port.
    pub(crate) port: u16,
    /// Address of this host to connect from; None for what the routes say.
    pub(crate) from: Option<IpAddr>,
    /// Longest wait for one address to answer.
    pub(crate) timeout: Duration,
    /// So long a name without addresses and a port that nobody listens on are tried again.
    pub(crate) wait: Duration,
    /// What is to be started at the other end, as `rocade pingpong (or ibv_rc_pingpong)`.
    pub(crate) program: &'a str,
}

impl Dial<'_> {
    /// Connects to the first address that answers.
    pub(crate) fn connect(&self) -> anyhow::Result<TcpStream> {
        let deadline = Instant::now() + self.wait;
        let mut told = false;
        loop {
            match self.attempt() {
                Err(error) if Instant::now() < deadline && is_early(&error) => {
                    if !told {
                        tell(&format!("rocade: waiting for {}, TCP port {}", self.server, self.port));
                    }
                    told = true;
                    thread::sleep(RETRY);
                }
                result => return result.map_err(|error| self.advise(error)),
            }
        }
    }

    fn attempt(&self) -> Result<TcpStream, Failed> {
        let bare = self.server.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(self.server);
        let all = (bare, self.port).to_socket_addrs().map_err(Failed::Resolve)?;
        let fits = |address: &SocketAddr| self.from.is_none_or(|from| from.is_ipv4() == address.is_ipv4());
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in all.filter(fits) {
            match dial(address, self.from, self.timeout).and_then(ready) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(Failed::Connect(last))
    }

    fn advise(&self, failed: Failed) -> anyhow::Error {
        let Dial { server, port, program, .. } = self;
        match failed {
            Failed::Resolve(error) => anyhow::Error::new(error).context(format!("cannot resolve {server}")),
            Failed::Connect(error) => anyhow::Error::new(error).context(Advice::new(
                format!("cannot connect to {server}, TCP port {port}"),
                format!("start {program} there first (or give --wait), and see that nothing blocks the port"),
            )),
        }
    }
}

/// Why an attempt came to nothing.
#[derive(Debug)]
enum Failed {
    Resolve(io::Error),
    Connect(io::Error),
}

/// Whether that may be because the other end has not come so far.
fn is_early(failed: &Failed) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
    match failed {
        Failed::Resolve(_) => true,
        Failed::Connect(error) => {
            matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut)
        }
    }
}

fn dial(to: SocketAddr, from: Option<IpAddr>, timeout: Duration) -> io::Result<TcpStream> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    if let Some(from) = from {
        bind(&socket, &SocketAddr::new(from, 0))?;
    }
    match connect(&socket, &to) {
        // How Linux says that SO_SNDTIMEO is over.
        Err(rustix::io::Errno::INPROGRESS) => Err(io::ErrorKind::TimedOut.into()),
        result => result.map_err(io::Error::from).map(|()| TcpStream::from(socket)),
    }
}

/// Waits for one client and listens no more.
pub(crate) fn accept(address: Option<IpAddr>, port: u16) -> anyhow::Result<TcpStream> {
    let listener = listen(address, port)?;
    tell(&format!("rocade: waiting for a client on TCP port {port}"));
    let (stream, _) = listener.accept().context("accept a client")?;
    ready(stream).context("set TCP_NODELAY")
}

/// Listens on an address of this host; on all of them, IPv6 and IPv4, without one.
pub(crate) fn listen(address: Option<IpAddr>, port: u16) -> anyhow::Result<TcpListener> {
    let listener = match address {
        Some(address) => TcpListener::bind((address, port)),
        None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            // A kernel without IPv6.
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
        }),
    };
    let hint = "is another test waiting there? choose a free port with -p at both ends";
    listener.with_context(|| Advice::new(format!("cannot listen on TCP port {port}"), hint))
}

/// Small messages go at once: the other end reads each with one `read`.
pub(crate) fn ready(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Dial<'static> {
        let (timeout, wait) = (Duration::from_secs(60), Duration::ZERO);
        Dial { server: "127.0.0.1", port, from: None, timeout, wait, program: "a server" }
    }

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_client_that_waits_meets_a_server_that_comes_later() {
        let port = free_port();
        let refused = format!("{:#}", to(port).connect().unwrap_err());
        assert!(refused.starts_with(&format!("cannot connect to 127.0.0.1, TCP port {port}: ")), "{refused}");
        let server = thread::spawn(move || {
            thread::sleep(3 * RETRY);
            TcpListener::bind(("127.0.0.1", port)).unwrap().accept().unwrap().1
        });
        let stream = Dial { wait: Duration::from_secs(60), ..to(port) }.connect().unwrap();
        assert_eq!(stream.local_addr().unwrap(), server.join().unwrap());
        assert!(stream.nodelay().unwrap());
    }

    #[test]
    fn a_client_connects_from_the_address_that_it_is_told() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let from = "127.0.0.9".parse().unwrap();
        let dial = Dial { from: Some(from), ..to(listener.local_addr().unwrap().port()) };
        let stream = dial.connect().unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from);
        let foreign = Dial { from: Some("192.0.2.1".parse().unwrap()), ..dial };
        assert!(format!("{:#}", foreign.connect().unwrap_err()).contains("Cannot assign requested address"));
    }

    #[test]
    fn a_name_that_means_nothing_is_an_error_of_its_own() {
        let error = Dial { server: "nowhere.invalid", ..to(1) }.connect().unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot resolve nowhere.invalid: "), "{error:#}");
    }

    #[test]
    fn a_listener_is_bound_to_the_address_that_it_is_told() {
        let listener = listen(Some("127.0.0.7".parse().unwrap()), 0).unwrap();
        assert_eq!(listener.local_addr().unwrap().ip().to_string(), "127.0.0.7");
        let taken = listener.local_addr().unwrap().port();
        let error = listen(Some("127.0.0.7".parse().unwrap()), taken).unwrap_err();
        assert!(
            format!("{error:#}").starts_with(&format!("cannot listen on TCP port {taken}: ")),
            "{error:#}"
        );
    }
}
