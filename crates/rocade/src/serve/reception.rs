//! Where connections come in. One thread looks at all of them: a connection has no thread and no memory of a test before
//! its first bytes are a client's, and there is a place for it.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rocade_core::pair::perf::block::{self, Failed};
use rocade_core::pair::perf::message::{Announcement, VERSION_BYTES};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, send};

use super::first::{First, LOOKED_AT, judge};
use super::limits::Limits;
use crate::tcp::ready;

/// Between two looks while something waits that poll(2) does not tell of.
const TICK: Duration = Duration::from_millis(50);

/// A connection that is not served yet.
struct Guest<Port> {
    stream: TcpStream,
    from: SocketAddr,
    port: Port,
    since: Instant,
    first: First,
    /// Part of its first message has come: it stays readable, so it is looked at each tick.
    started: bool,
}

/// A client whose first message has come.
pub(super) struct Client<Port> {
    /// Its connection, which blocks again.
    pub(super) stream: TcpStream,
    /// Its address.
    pub(super) from: SocketAddr,
    /// Of the listener that it came to.
    pub(super) port: Port,
    /// Whether it wants a pingpong, or a bandwidth or latency test.
    pub(super) pingpong: bool,
    /// Taken until the client is dropped.
    place: Arc<Place>,
}

/// What a served client takes.
#[derive(Default)]
struct Place {
    is_broken_off: AtomicBool,
}

impl<Port> Client<Port> {
    /// Whether the service ended its connection, and has said so.
    pub(super) fn is_broken_off(&self) -> bool {
        self.place.is_broken_off.load(Ordering::Relaxed)
    }
}

/// A client that is served.
struct Served {
    stream: TcpStream,
    from: SocketAddr,
    first: First,
    /// When its time is up.
    deadline: Instant,
    place: Arc<Place>,
}

impl Served {
    /// Once. A client of rocade hears the reason, as it is past the versions: its thread began with them.
    fn break_off(&self, why: &str, tell: fn(&str)) {
        if self.place.is_broken_off.swap(true, Ordering::Relaxed) {
            return;
        }
        tell(&format!("rocade: {} broken off: {why}", self.from));
        if self.first == First::Rocade {
            say(&self.stream, &failed(why, Some(false)));
        }
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The block by which rocade hears that this end gives up, or refuses.
fn failed(reason: &str, of_rdma: Option<bool>) -> Vec<u8> {
    block::write(&Failed { reason: reason.to_owned(), of_rdma }).unwrap_or_default()
}

/// Best effort, without waiting.
fn say(stream: &TcpStream, message: &[u8]) {
    let _ = send(stream, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

impl<Port> Guest<Port> {
    /// A client of rocade hears why, where it expects this end's version and options.
    fn turn_away(&mut self, why: &str, tell: fn(&str)) {
        tell(&format!("rocade: {} turned away: {why}", self.from));
        // What is left unread would make the kernel throw away what was said.
        if self.first == First::Rocade && self.stream.read_exact(&mut [0; VERSION_BYTES]).is_ok() {
            say(&self.stream, &[&Announcement::own()[..], &failed(why, None)].concat());
        }
    }
}

/// All connections.
pub(super) struct Reception<Port> {
    listeners: Vec<(TcpListener, Port)>,
    guests: Vec<Guest<Port>>,
    served: Vec<Served>,
    limits: Limits,
    /// Readable once no more is to be accepted.
    stop: OwnedFd,
    tell: fn(&str),
}

impl<Port: Copy> Reception<Port> {
    /// `tell` hears of those that are turned away.
    pub(super) fn new(
        listeners: Vec<(TcpListener, Port)>,
        limits: Limits,
        stop: impl Into<OwnedFd>,
        tell: fn(&str),
    ) -> io::Result<Reception<Port>> {
        for (listener, _) in &listeners {
            listener.set_nonblocking(true)?;
        }
        let (guests, served, stop) = (vec![], vec![], stop.into());
        Ok(Reception { listeners, guests, served, limits, stop, tell })
    }

    /// Hands each client to `serve`, which must not block, until it is told to stop; then gives those that are served
    /// the grace to end, and closes the connections of those that do not.
    pub(super) fn run(mut self, grace: Duration, serve: &mut dyn FnMut(Client<Port>)) -> io::Result<()> {
        while !self.wait()? {
            self.accept();
            self.look();
            self.dismiss();
            self.seat(serve);
        }
        self.listeners.clear();
        self.guests.clear();
        let deadline = Instant::now() + grace;
        while !self.served.is_empty() && Instant::now() < deadline {
            thread::sleep(TICK);
            self.dismiss();
        }
        for served in &self.served {
            served.break_off("the service was told to end", self.tell);
        }
        Ok(())
    }

    /// Until something is to be done; true once it is to stop.
    fn wait(&self) -> io::Result<bool> {
        let silent = self.guests.iter().filter(|guest| guest.first == First::More && !guest.started);
        let listeners = self.listeners.iter().map(|(listener, _)| listener.as_fd());
        let all =
            [self.stop.as_fd()].into_iter().chain(listeners).chain(silent.map(|guest| guest.stream.as_fd()));
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let idle = self.guests.is_empty() && self.served.is_empty();
        let tick = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        match poll(&mut polled, (!idle).then_some(&tick)) {
            Ok(_) => Ok(!polled[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Takes in who has come; past the limit of guests the newest goes away.
    fn accept(&mut self) {
        for (listener, port) in &self.listeners {
            loop {
                let (stream, from) = match listener.accept() {
                    Ok(guest) => guest,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // As with too many open files: not at once again.
                        thread::sleep(TICK);
                        break;
                    }
                };
                if self.guests.len() >= self.limits.guests || stream.set_nonblocking(true).is_err() {
                    (self.tell)(&format!("rocade: {from} turned away: too many connections wait already"));
                    continue;
                }
                let (port, since) = (*port, Instant::now());
                self.guests.push(Guest { stream, from, port, since, first: First::More, started: false });
            }
        }
    }

    /// Looks at the first bytes of those that have not shown enough yet.
    fn look(&mut self) {
        let (patience, tell) = (self.limits.patience, self.tell);
        let (seconds, most) = (patience.as_secs(), self.limits.clients);
        let full = format!(
            "as many clients as may be at once ({most}) are served, and no place became free within {seconds} s"
        );
        self.guests.retain_mut(|guest| {
            let mut bytes = [0; LOOKED_AT];
            if guest.first == First::More {
                match guest.stream.peek(&mut bytes) {
                    // It closed.
                    Ok(0) => return false,
                    Ok(count) => (guest.first, guest.started) = (judge(&bytes[..count]), true),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return false,
                }
            }
            let why = match guest.first {
                First::Unknown => "its first bytes are no test's",
                First::More if guest.since.elapsed() >= patience => "it said too little for too long",
                _ if guest.since.elapsed() >= patience => full.as_str(),
                _ => return true,
            };
            guest.turn_away(why, tell);
            false
        });
    }

    /// Forgets those that have been served, and breaks off those whose time is up.
    fn dismiss(&mut self) {
        let now = Instant::now();
        // The place is dropped by the client's thread; the list holds the other count.
        self.served.retain(|served| Arc::strong_count(&served.place) > 1);
        let why = format!("the {} s that a client has here are up", self.limits.time.as_secs());
        for served in self.served.iter().filter(|served| now >= served.deadline) {
            served.break_off(&why, self.tell);
        }
    }

    /// Serves those that are known for clients, as far as there are places, in the order they came.
    fn seat(&mut self, serve: &mut dyn FnMut(Client<Port>)) {
        let mut at = 0;
        while at < self.guests.len() && self.served.len() < self.limits.clients {
            if !matches!(self.guests[at].first, First::Perftest | First::Rocade | First::Pingpong) {
                at += 1;
                continue;
            }
            let Guest { stream, from, port, first, .. } = self.guests.remove(at);
            let both = stream.set_nonblocking(false).and_then(|()| ready(stream));
            let Ok((stream, watched)) = both.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
                (self.tell)(&format!("rocade: {from} turned away: too many files are open"));
                continue;
            };
            let place = Arc::<Place>::default();
            let (deadline, kept) = (Instant::now() + self.limits.time, Arc::clone(&place));
            self.served.push(Served { stream: watched, from, first, deadline, place: kept });
            serve(Client { stream, from, port, pingpong: first == First::Pingpong, place });
        }
    }
}

#[cfg(test)]
mod tests;
