//! Messages of a test's exchange over a connected TCP stream: each whole, and each within its time. Generic bytes;
//! what they mean is `rocade_core::pair`'s matter.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::{Ended, VerbsError};

/// Sends a message in one piece, as stock tools read each with one `read`.
pub fn send(stream: &TcpStream, message: &[u8], what: &str, timeout: Duration) -> Result<(), VerbsError> {
    let sent = stream.set_write_timeout(Some(timeout)).and_then(|()| (&*stream).write_all(message));
    sent.map_err(|source| VerbsError::Exchange {
        wanted: format!("to send {what}"),
        seen: vec![],
        end: if is_timeout(&source) { Ended::TimeUp { after: timeout } } else { Ended::Broke },
        source: Some(source),
    })
}

/// Receives a message of exactly N bytes, however it is cut up, within the timeout in all.
pub fn receive<const N: usize>(
    stream: &TcpStream,
    what: &str,
    timeout: Duration,
) -> Result<[u8; N], VerbsError> {
    let mut message = [0; N];
    fill(stream, &mut message, what, Some(timeout))?;
    Ok(message)
}

/// Of a message that has begun, as each is written at once.
const REST: Duration = Duration::from_secs(5);

/// Fills a message, within the timeout in all; None waits for its begin for as long as the connection lives.
pub(crate) fn fill(
    stream: &TcpStream,
    message: &mut [u8],
    what: &str,
    timeout: Option<Duration>,
) -> Result<(), VerbsError> {
    let (mut start, mut timeout) = (Instant::now(), timeout);
    let mut filled = 0;
    while filled < message.len() {
        let (end, source) = match read_before(start, timeout, stream, &mut message[filled..]) {
            Ok(0) => (Ended::Closed, None),
            Ok(count) => {
                filled += count;
                if timeout.is_none() {
                    (start, timeout) = (Instant::now(), Some(REST));
                }
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => (Ended::TimeUp { after: timeout.unwrap_or_default() }, None),
            Err(error) => (Ended::Broke, Some(error)),
        };
        let (wanted, seen) = (what.to_owned(), message[..filled].to_vec());
        return Err(VerbsError::Exchange { wanted, seen, end, source });
    }
    Ok(())
}

/// Bytes that have come already, left where they are: how many; None for none so far, 0 if there will be none.
pub(crate) fn peek(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    stream.set_nonblocking(true)?;
    let seen = stream.peek(buffer);
    stream.set_nonblocking(false)?;
    match seen {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn read_before(
    start: Instant,
    timeout: Option<Duration>,
    mut stream: &TcpStream,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
    if left.is_some_and(|left| left.is_zero()) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(left)?;
    stream.read(buffer)
}

/// Linux answers EAGAIN when SO_RCVTIMEO is over.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Two ends of a unix socket pair, which read, write, time out and break as TCP's do, but need no interface that is up.
#[cfg(test)]
pub(crate) fn connected_ends() -> (TcpStream, TcpStream) {
    use std::os::fd::OwnedFd;
    let (one, other) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    (OwnedFd::from(one).into(), OwnedFd::from(other).into())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A connection to a peer that does as it is told.
    fn connected_to(peer: impl FnOnce(TcpStream) + Send + 'static) -> TcpStream {
        let (stream, other) = connected_ends();
        thread::spawn(move || peer(other));
        stream
    }

    fn answer(timeout: Duration, peer: impl FnOnce(TcpStream) + Send + 'static) -> String {
        let stream = connected_to(peer);
        receive::<8>(&stream, "an address", timeout).unwrap_err().to_string()
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn a_message_in_pieces_is_put_together() {
        let stream = connected_to(|mut peer| {
            for byte in b"12345678" {
                peer.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        assert_eq!(&receive::<8>(&stream, "an address", LONG).unwrap(), b"12345678");
    }

    #[test]
    fn a_silent_peer_is_left_when_the_time_is_up() {
        let text = answer(SHORT, |peer| {
            // Holds the connection until the reader has gone.
            let _ = (&peer).read(&mut [0]);
        });
        assert_eq!(text, "wanted an address; the time of 0.2 s was up after 0 bytes");
    }

    #[test]
    fn a_peer_that_trickles_does_not_stretch_the_time() {
        let text = answer(SHORT, |mut peer| {
            // One byte each 60 ms: the eighth would come only after 480 ms.
            while peer.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(60));
            }
        });
        assert!(text.contains("the time of 0.2 s was up after"), "{text}");
    }

    #[test]
    fn a_message_without_a_limit_is_waited_for_until_it_begins() {
        let stream = connected_to(|mut peer| {
            thread::sleep(2 * SHORT);
            peer.write_all(b"1234").unwrap();
            let _ = (&peer).read(&mut [0]);
        });
        let start = Instant::now();
        let error = fill(&stream, &mut [0; 8], "an address", None).unwrap_err().to_string();
        assert_eq!(error, "wanted an address; the time of 5 s was up after 4 bytes: `1234`");
        assert!(start.elapsed() >= 2 * SHORT + REST);
    }

    #[test]
    fn a_peer_that_closes_is_told_from_a_silent_one() {
        assert_eq!(
            answer(LONG, drop),
            "wanted an address; the other end closed the connection after 0 bytes"
        );
    }

    #[test]
    fn half_a_message_is_shown() {
        let text = answer(LONG, |mut peer| peer.write_all(b"GET\r\n").unwrap());
        assert!(text.ends_with("closed the connection after 5 bytes: `GET\\r\\n`"), "{text}");
    }

    #[test]
    fn a_peer_that_resets_is_an_error_with_its_cause() {
        let stream = connected_to(|peer| {
            // Closing with unread bytes makes Linux send a reset.
            let mut first = [0];
            peer.peek(&mut first).unwrap();
        });
        send(&stream, b"unread", "an address", LONG).unwrap();
        let error = receive::<8>(&stream, "an address", LONG).unwrap_err();
        assert!(matches!(error, VerbsError::Exchange { source: Some(_), .. }), "{error:?}");
    }
}
