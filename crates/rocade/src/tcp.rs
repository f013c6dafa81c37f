//! The TCP connection of a test: made or waited for. What goes over it is the test's own.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rocade_core::diagnose::Failure;
use rustix::io::Errno;
use rustix::net::sockopt::{
    Timeout, set_ipv6_v6only, set_socket_keepalive, set_socket_reuseaddr, set_socket_timeout,
    set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use crate::outcome::{Advice, tell};

/// Between two attempts while the other end is awaited.
const RETRY: Duration = Duration::from_millis(100);
/// Silence until the other host is asked whether it is still there, and between three times that it is.
const KEEPALIVE: Duration = Duration::from_secs(5);

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
    fn dial<'a>(&self, server: &'a str, port: u16, timeout: Duration) -> Dial<'a> {
        Dial { server, port, from: self.bind, timeout, wait: Duration::from_secs(self.wait) }
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
}

impl Dial<'_> {
    /// Connects to the first address that answers.
    pub(crate) fn connect(&self) -> Result<TcpStream, Unreached> {
        let deadline = Instant::now() + self.wait;
        let mut told = false;
        loop {
            match self.attempt() {
                Err(unreached) if Instant::now() < deadline && unreached.is_early() => {
                    if !told {
                        tell(&format!("rocade: waiting for {}, TCP port {}", self.server, self.port));
                    }
                    told = true;
                    thread::sleep(RETRY);
                }
                result => return result,
            }
        }
    }

    fn attempt(&self) -> Result<TcpStream, Unreached> {
        let server = || self.server.to_owned();
        let bare = self.server.strip_prefix('[').and_then(|s| s.strip_suffix(']')).unwrap_or(self.server);
        let all = (bare, self.port).to_socket_addrs();
        let all = all.map_err(|source| Unreached::Name { server: server(), source })?;
        let fits = |address: &SocketAddr| self.from.is_none_or(|from| from.is_ipv4() == address.is_ipv4());
        let mut last = None;
        for address in all.filter(fits) {
            match dial(address, self.from, self.timeout).and_then(ready) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(match (last, self.from) {
            (None, Some(from)) => Unreached::Family { server: server(), from },
            (last, _) => {
                let source = last.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
                Unreached::Port { server: server(), port: self.port, source }
            }
        })
    }
}

/// There is no connection to the other end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    /// Its name has no address.
    #[error("cannot resolve {server}")]
    Name {
        /// As it was given.
        server: String,
        source: io::Error,
    },
    /// It has no address of the family that this end is to connect from.
    #[error("{server} has no {} address to connect to from {from}", if .from.is_ipv4() { "IPv4" } else { "IPv6" })]
    Family {
        /// As it was given.
        server: String,
        /// This end's, as it was given.
        from: IpAddr,
    },
    /// No address answered.
    #[error("cannot connect to {server}, TCP port {port}")]
    Port {
        /// As it was given.
        server: String,
        port: u16,
        /// Of the last one.
        source: io::Error,
    },
}

impl Unreached {
    /// The failure that this is, for a diagnosis; None where the error says all there is to say.
    pub(crate) fn failure(&self) -> Option<Failure> {
        Some(match self {
            Unreached::Name { server, .. } => Failure::Resolve { name: server.clone() },
            Unreached::Family { .. } => return None,
            Unreached::Port { server, port, source } => {
                let errno = match source.kind() {
                    io::ErrorKind::TimedOut => Errno::TIMEDOUT.raw_os_error(),
                    _ => source.raw_os_error().unwrap_or_default(),
                };
                Failure::Tcp { server: server.clone(), port: *port, errno }
            }
        })
    }

    /// What to do about one that is no failure.
    pub(crate) fn cure(&self) -> Option<&'static str> {
        match self {
            Unreached::Family { .. } => Some("give --bind an address of the other family, or leave it out"),
            Unreached::Name { .. } | Unreached::Port { .. } => None,
        }
    }

    /// Whether it may be because the other end has not come so far.
    fn is_early(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut};
        match self {
            Unreached::Name { .. } => true,
            Unreached::Family { .. } => false,
            Unreached::Port { source, .. } => {
                matches!(source.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut)
            }
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
        Err(Errno::INPROGRESS) => Err(Errno::TIMEDOUT.into()),
        result => result.map_err(io::Error::from).map(|()| TcpStream::from(socket)),
    }
}

/// How the connection of a test is to come about.
#[derive(Debug)]
pub(crate) enum Meeting<'a> {
    /// This end connects.
    Dial(Dial<'a>),
    /// This end waits, and listens already.
    Wait(TcpListener),
}

impl<'a> Meeting<'a> {
    /// An end that waits, which has no server, listens from now on, ahead of all that takes time: scripts start the
    /// other end a second later.
    pub(crate) fn begin(
        server: Option<&'a str>,
        reach: &Reach,
        port: u16,
        timeout: Duration,
    ) -> anyhow::Result<Meeting<'a>> {
        if let Some(server) = server {
            return Ok(Meeting::Dial(reach.dial(server, port, timeout)));
        }
        let listener = listen(reach.bind, port)?;
        tell(&format!("rocade: waiting for a client on TCP port {port}"));
        Ok(Meeting::Wait(listener))
    }

    /// Connects, or waits for one client and listens no more.
    pub(crate) fn meet(self) -> anyhow::Result<TcpStream> {
        match self {
            Meeting::Dial(dial) => Ok(dial.connect()?),
            Meeting::Wait(listener) => {
                let (stream, _) = listener.accept().context("accept a client")?;
                ready(stream).context("set TCP_NODELAY")
            }
        }
    }
}

/// Listens on an address of this host; on all of them, IPv6 and IPv4, without one.
pub(crate) fn listen(address: Option<IpAddr>, port: u16) -> anyhow::Result<TcpListener> {
    let listener = match address {
        Some(address) => TcpListener::bind((address, port)),
        None => listen_on_all(port).or_else(|error| match error.kind() {
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            // A kernel without IPv6.
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
        }),
    };
    let hint = "is another test waiting there? choose a free port with -p at both ends";
    listener.with_context(|| Advice::new(format!("cannot listen on TCP port {port}"), hint))
}

/// Connections that may wait to be accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// IPv6 and IPv4 with one socket, also where net.ipv6.bindv6only is set.
fn listen_on_all(port: u16) -> io::Result<TcpListener> {
    let socket = socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_ipv6_v6only(&socket, false)?;
    bind(&socket, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

/// Small messages go at once: the other end reads each with one `read`. A host that has gone is noticed while an end that
/// only receives waits for the end of the other's run.
pub(crate) fn ready(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    set_socket_keepalive(&stream, true)?;
    set_tcp_keepidle(&stream, KEEPALIVE)?;
    set_tcp_keepintvl(&stream, KEEPALIVE)?;
    set_tcp_keepcnt(&stream, 3)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(port: u16) -> Dial<'static> {
        let (timeout, wait) = (Duration::from_secs(60), Duration::ZERO);
        Dial { server: "127.0.0.1", port, from: None, timeout, wait }
    }

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_client_that_waits_meets_a_server_that_comes_later() {
        let port = free_port();
        let refused = format!("{:#}", anyhow::Error::from(to(port).connect().unwrap_err()));
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
    fn an_end_that_waits_is_there_for_its_client_from_the_begin() {
        let port = free_port();
        let reach = Reach { bind: Some("127.0.0.1".parse().unwrap()), wait: 0 };
        let meeting = Meeting::begin(None, &reach, port, Duration::ZERO).unwrap();
        let client = to(port).connect().unwrap();
        let server = meeting.meet().unwrap();
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert!(to(port).connect().is_err());
    }

    #[test]
    fn a_client_connects_from_the_address_that_it_is_told() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let from = "127.0.0.9".parse().unwrap();
        let dial = Dial { from: Some(from), ..to(listener.local_addr().unwrap().port()) };
        let stream = dial.connect().unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), from);
        let foreign = Dial { from: Some("192.0.2.1".parse().unwrap()), ..dial };
        let failure = foreign.connect().unwrap_err().failure();
        assert!(matches!(failure, Some(Failure::Tcp { errno: 99, .. })), "{failure:?}");
    }

    #[test]
    fn an_address_to_connect_from_that_no_address_of_the_name_goes_with_is_told() {
        for (server, from, wanted) in [
            ("127.0.0.1", "::1", "127.0.0.1 has no IPv6 address to connect to from ::1"),
            ("[::1]", "127.0.0.1", "[::1] has no IPv4 address to connect to from 127.0.0.1"),
        ] {
            let wait = Duration::from_secs(60);
            let dial = Dial { server, from: Some(from.parse().unwrap()), wait, ..to(1) };
            let error = dial.connect().unwrap_err();
            assert_eq!(error.to_string(), wanted);
            assert!(error.failure().is_none() && error.cure().is_some_and(|cure| cure.contains("--bind")));
        }
    }

    /// Where IPv6 listens alone unless asked otherwise (net.ipv6.bindv6only), too.
    #[test]
    fn without_an_address_both_families_are_listened_for() {
        let listener = listen(None, 0).unwrap();
        let local = listener.local_addr().unwrap();
        assert!(local.is_ipv4() || !rustix::net::sockopt::ipv6_v6only(&listener).unwrap());
        let client = to(local.port()).connect().unwrap();
        assert_eq!(listener.accept().unwrap().1.port(), client.local_addr().unwrap().port());
    }

    #[test]
    fn a_name_that_means_nothing_is_an_error_of_its_own() {
        let error = Dial { server: "nowhere.invalid", ..to(1) }.connect().unwrap_err();
        assert_eq!(error.to_string(), "cannot resolve nowhere.invalid");
        assert_eq!(error.failure(), Some(Failure::Resolve { name: "nowhere.invalid".to_owned() }));
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
