//! Connections over loopback TCP: none of these needs an HCA.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use rocade_core::pair::perf::block::{HEADER_BYTES, Kind, parse_header, parse_payload};

use super::super::limits::Memory;
use super::*;

const HANG: Duration = Duration::from_secs(60);

/// A reception in a thread of its own.
struct Running {
    address: SocketAddr,
    clients: Receiver<Client<u8>>,
    stop: Option<UnixStream>,
    thread: Option<thread::JoinHandle<io::Result<()>>>,
}

fn limits() -> Limits {
    Limits { clients: 1, guests: 8, patience: HANG, time: HANG, memory: Memory::of(1 << 30) }
}

/// What was told, by the tests of this file at once.
static TOLD: Mutex<String> = Mutex::new(String::new());

fn tell(line: &str) {
    *TOLD.lock().unwrap() += &format!("{line}\n");
}

fn is_told(line: &str) -> bool {
    TOLD.lock().unwrap().lines().any(|told| told == line)
}

fn start(limits: Limits) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = UnixStream::pair().unwrap();
    let (sender, clients): (Sender<Client<u8>>, _) = channel();
    let reception = Reception::new(vec![(listener, 7)], limits, stopped, tell).unwrap();
    let thread = thread::spawn(move || {
        reception.run(Duration::from_millis(200), &mut |client| drop(sender.send(client)))
    });
    Running { address, clients, stop: Some(stop), thread: Some(thread) }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    }

    fn hello(&self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(&Announcement::own()).unwrap();
        stream
    }

    fn client(&self) -> Client<u8> {
        self.clients.recv_timeout(HANG).unwrap()
    }

    fn is_idle(&self) -> bool {
        self.clients.recv_timeout(4 * TICK).is_err()
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

/// Whether the other end closes; it may reset, as it leaves bytes unread.
fn is_closed(mut stream: TcpStream) -> bool {
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_client_is_handed_over_with_its_first_message_still_to_be_read() {
    let mut running = start(limits());
    let mut stream = running.connect();
    for part in Announcement::own().chunks(5) {
        stream.write_all(part).unwrap();
        thread::sleep(TICK);
    }
    let mut client = running.client();
    assert_eq!((client.from, client.port, client.pingpong), (stream.local_addr().unwrap(), 7, false));
    let mut message = [0; 16];
    client.stream.read_exact(&mut message).unwrap();
    assert_eq!(message, Announcement::own());
    let mut pingpong = running.connect();
    drop(client);
    pingpong.write_all(b"0000:000012:29a650:00000000000000000000ffff0a090001\0").unwrap();
    assert!(running.client().pingpong);
    running.stop();
}

#[test]
fn unknown_bytes_are_turned_away_at_once_and_take_no_place() {
    let mut running = start(limits());
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01", b"0123456789012345"] {
        let mut stream = running.connect();
        stream.write_all(bytes).unwrap();
        assert!(is_closed(stream), "{}", bytes.escape_ascii());
    }
    drop(running.connect());
    let _stream = running.hello();
    assert_eq!(running.client().port, 7);
    running.stop();
}

#[test]
fn silence_is_turned_away_after_its_time_and_keeps_no_client_waiting() {
    let mut running = start(Limits { patience: 10 * TICK, ..limits() });
    let silent: Vec<TcpStream> = (0..4).map(|_| running.connect()).collect();
    let mut half = running.connect();
    half.write_all(b"6.0").unwrap();
    let _stream = running.hello();
    drop(running.client());
    assert!(silent.into_iter().chain([half]).all(is_closed));
    running.stop();
}

#[test]
fn no_more_guests_wait_than_the_limit_says() {
    let mut running = start(Limits { guests: 2, ..limits() });
    let waiting = [running.connect(), running.connect()];
    thread::sleep(4 * TICK);
    assert!(is_closed(running.connect()));
    drop(waiting);
    running.stop();
}

#[test]
fn a_client_waits_for_a_place_and_gets_it_when_another_ends() {
    let mut running = start(limits());
    let _one = running.hello();
    let first = running.client();
    let second = running.hello();
    assert!(running.is_idle(), "two clients are served in one place");
    drop(first);
    assert_eq!(running.client().from, second.local_addr().unwrap());
    running.stop();
}

/// All that comes until the other end closes.
fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

fn parse_failed(bytes: &[u8]) -> Failed {
    let (header, payload) = bytes.split_first_chunk::<HEADER_BYTES>().unwrap();
    assert_eq!(parse_header(header).unwrap(), (Kind::Failed, payload.len()));
    parse_payload(payload).unwrap()
}

#[test]
fn a_client_without_a_place_is_turned_away_after_its_time_in_words_where_it_is_rocade() {
    let mut running = start(Limits { patience: 20 * TICK, ..limits() });
    let _one = running.hello();
    let _served = running.client();
    let (second, mut stock) = (running.hello(), running.connect());
    stock.write_all(b"6.06\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
    let said = read_to_end(&second);
    let (version, failed) = said.split_first_chunk::<VERSION_BYTES>().unwrap();
    assert_eq!(version, &Announcement::own());
    let reason = "as many clients as may be at once (1) are served, and no place became free within 1 s";
    assert_eq!(parse_failed(failed), Failed { reason: reason.into(), of_rdma: None });
    let from = second.local_addr().unwrap();
    assert!(is_told(&format!("rocade: {from} turned away: {reason}")));
    assert!(is_closed(stock));
    running.stop();
}

#[test]
fn a_client_whose_time_is_up_is_broken_off_and_told_so_where_it_is_rocade() {
    let mut running = start(Limits { time: 20 * TICK, ..limits() });
    let stream = running.hello();
    let client = running.client();
    assert!(!client.is_broken_off());
    let reason = "the 1 s that a client has here are up";
    assert_eq!(parse_failed(&read_to_end(&stream)), Failed { reason: reason.into(), of_rdma: Some(false) });
    assert!(client.is_broken_off());
    assert!(is_told(&format!("rocade: {} broken off: {reason}", stream.local_addr().unwrap())));
    drop(client);
    let mut pingpong = running.connect();
    pingpong.write_all(b"0000:000012:29a650:00000000000000000000ffff0a090001\0").unwrap();
    let client = running.client();
    assert!(read_to_end(&pingpong).is_empty() && client.is_broken_off());
    running.stop();
}

#[test]
fn the_end_lets_those_that_are_served_end_and_breaks_off_the_rest() {
    let mut running = start(limits());
    let (stream, waiting) = (running.hello(), running.connect());
    let client = running.client();
    running.stop();
    assert_eq!(parse_failed(&read_to_end(&stream)).reason, "the service was told to end");
    assert!(is_closed(waiting) && client.is_broken_off());
    assert!(TcpStream::connect(running.address).is_err());
    drop(client);
}
