//! Order of the exchange, in both roles: each end tells its address, then the client says that it is done.

use std::net::TcpStream;
use std::time::Duration;

use rocade_core::pair::{DONE, Endpoint, MESSAGE_BYTES, Role};

use crate::error::{Ended, VerbsError};
use crate::exchange;

/// Exchanges addresses; `bind` connects our QP to the other end's. The server's is bound before it answers, so that the
/// client may send at once; the client says it is done before it turns to its own. Each message has the timeout.
pub(super) fn shake_hands(
    stream: &TcpStream,
    role: Role,
    local: &Endpoint,
    timeout: Duration,
    bind: impl FnOnce(Endpoint) -> Result<(), VerbsError>,
) -> Result<(), VerbsError> {
    let send_address = || exchange::send(stream, &local.to_message(), "this end's address", timeout);
    match role {
        Role::Server => {
            bind(receive_address(stream, timeout)?)?;
            send_address()?;
            receive_done(stream, timeout)
        }
        Role::Client => {
            send_address()?;
            let remote = receive_address(stream, timeout)?;
            exchange::send(stream, DONE, "`done`", timeout)?;
            bind(remote)
        }
    }
}

fn receive_address(stream: &TcpStream, timeout: Duration) -> Result<Endpoint, VerbsError> {
    let message: [u8; MESSAGE_BYTES] = exchange::receive(stream, "the other end's address", timeout)?;
    Ok(Endpoint::from_message(&message)?)
}

fn receive_done(stream: &TcpStream, timeout: Duration) -> Result<(), VerbsError> {
    let wanted = "the client's `done`";
    let seen: [u8; DONE.len()] = exchange::receive(stream, wanted, timeout)?;
    if seen == *DONE {
        return Ok(());
    }
    let (wanted, seen) = (wanted.to_owned(), seen.to_vec());
    Err(VerbsError::Exchange { wanted, seen, end: Ended::Whole, source: None })
}

#[cfg(test)]
mod misbehaving;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};

    use rocade_core::Gid;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    fn endpoint(qpn: u32) -> Endpoint {
        Endpoint { lid: 0, qpn, psn: 7, gid: Gid::from_address("10.1.0.1".parse().unwrap()) }
    }

    /// Our end of a connection whose other end plays a part.
    fn against<T: Send + 'static>(
        part: impl FnOnce(TcpStream) -> T + Send + 'static,
    ) -> (TcpStream, JoinHandle<T>) {
        let (stream, other) = exchange::connected_ends();
        (stream, thread::spawn(move || part(other)))
    }

    fn refusal(role: Role, timeout: Duration, part: impl FnOnce(TcpStream) + Send + 'static) -> VerbsError {
        let (stream, _) = against(part);
        let unreached = |_| panic!("bound to an end that sent no address");
        shake_hands(&stream, role, &endpoint(1), timeout, unreached).unwrap_err()
    }

    /// Holds the connection until the other end has gone.
    fn silent(stream: TcpStream) {
        let _ = std::io::copy(&mut &stream, &mut std::io::sink());
    }

    #[test]
    fn two_ends_learn_each_others_address() {
        let (stream, server) = against(|stream| {
            let mut seen = None;
            let bind = |remote| {
                seen = Some(remote);
                Ok(())
            };
            shake_hands(&stream, Role::Server, &endpoint(2), LONG, bind).unwrap();
            seen
        });
        let mut seen = None;
        let bind = |remote| {
            seen = Some(remote);
            Ok(())
        };
        shake_hands(&stream, Role::Client, &endpoint(1), LONG, bind).unwrap();
        assert_eq!((seen, server.join().unwrap()), (Some(endpoint(2)), Some(endpoint(1))));
    }

    #[test]
    fn a_server_is_bound_before_it_answers() {
        let (bound, is_bound) = mpsc::channel();
        let (stream, client) = against(move |mut stream| {
            stream.write_all(&endpoint(1).to_message()).unwrap();
            stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
            let in_time = is_bound.try_recv().is_ok();
            stream.write_all(DONE).unwrap();
            in_time
        });
        let bind = |_| {
            bound.send(()).unwrap();
            Ok(())
        };
        shake_hands(&stream, Role::Server, &endpoint(2), LONG, bind).unwrap();
        assert!(client.join().unwrap());
    }

    #[test]
    fn a_client_is_done_before_it_is_bound() {
        let (done, is_done) = mpsc::channel();
        let (stream, server) = against(move |mut stream| {
            stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
            stream.write_all(&endpoint(2).to_message()).unwrap();
            let mut last = [0; DONE.len()];
            stream.read_exact(&mut last).unwrap();
            done.send(last).unwrap();
        });
        let bind = |_| {
            assert_eq!(&is_done.recv_timeout(LONG).unwrap(), DONE);
            Ok(())
        };
        shake_hands(&stream, Role::Client, &endpoint(1), LONG, bind).unwrap();
        server.join().unwrap();
    }

    #[test]
    fn a_server_that_cannot_bind_answers_nothing() {
        let (stream, client) = against(|mut stream| {
            stream.write_all(&endpoint(1).to_message()).unwrap();
            stream.read(&mut [0]).unwrap()
        });
        let failed = |_| Err(VerbsError::Silence { seconds: 0, done: 0, of: None });
        shake_hands(&stream, Role::Server, &endpoint(2), LONG, failed).unwrap_err();
        drop(stream);
        assert_eq!(client.join().unwrap(), 0);
    }

    #[test]
    fn a_peer_that_says_nothing_closes_or_sends_garbage_is_told_in_both_roles() {
        for role in [Role::Server, Role::Client] {
            let error = refusal(role, SHORT, silent).to_string();
            assert!(error.ends_with("the time of 0.2 s was up after 0 bytes"), "{role:?}: {error}");
            let error = refusal(role, LONG, |mut stream| {
                stream.write_all(&[b'G'; MESSAGE_BYTES]).unwrap();
                silent(stream);
            });
            assert!(matches!(error, VerbsError::Garbage { .. }), "{role:?}: {error}");
            let error = refusal(role, LONG, |mut stream| {
                stream.write_all(b"HTTP/1.1 400").unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                silent(stream);
            });
            let error = error.to_string();
            assert!(
                error.ends_with("closed the connection after 12 bytes: `HTTP/1.1 400`"),
                "{role:?}: {error}"
            );
        }
    }
}
