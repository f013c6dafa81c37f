//! `rocade serve`: the waiting end of many tests, one after another or at once, for clients of rocade and of the stock
//! tools. Flags and wiring; who may come in, and what he may take, is told below.

mod client;
mod first;
mod limits;
mod reception;

use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::value_parser;
use rocade_core::pair::perf::{Amount, Measure, Operation, Options, Sizes, Test};
use signal_hook::consts::{SIGINT, SIGTERM};

use self::limits::{Limits, Memory};
use self::reception::{Client, Reception};
use crate::cli::Output;
use crate::evidence::Known;
use crate::outcome::{Advice, Outcome, tell, tell_error};
use crate::perf::load;
use crate::perf::options::{TCP_PORT, Where};
use crate::perf::size::parse_size;
use crate::source::Source;
use crate::tcp;

/// So long a connection may take to show what it is.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait at once.
const GUESTS: usize = 64;
/// What is under way at the end may take so long.
const GRACE: Duration = Duration::from_secs(10);
/// The largest message of a stock client's `-a`.
const LARGEST: u32 = 8 << 20;

const AFTER_HELP: &str = "\
Six TCP ports from --tcp-port on stand for the stock tools, whose first bytes do not tell them apart: 18515 ib_write_bw, \
18516 ib_write_lat, 18517 ib_read_bw, 18518 ib_read_lat, 18519 ib_send_bw, 18520 ib_send_lat. A client of rocade says \
what it wants, and gets it on each of them, as does a pingpong of 1000 messages of 4096 bytes. What a stock client does \
not say must be as it is given here. Each ended test is a line on stdout.

Anyone who reaches the ports can run tests: the limits hold for all of them together. SIGTERM and SIGINT end it, after \
what is under way or 10 s.

Exit code: 0 ended when told to, 2 it could not listen or nothing here can be tested.";

/// Arguments of `rocade serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// First of the six TCP ports
    #[arg(short = 'p', long, value_parser = value_parser!(u16).range(1..=65530), default_value_t = TCP_PORT)]
    tcp_port: u16,
    /// Address of this host to listen on [default: all of them]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// Clients that are served at once; others wait for 5 s
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u16).range(1..), default_value_t = 8)]
    max_clients: u16,
    /// Memory that all clients may take together, MiB
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=1 << 24), default_value_t = 1024)]
    max_memory_mib: u64,
    /// Longest time of a client; it is broken off then
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..=86400), default_value_t = 600)]
    max_seconds: u64,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    stock: Stock,
    /// Form of the lines
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// What stock clients are expected to be started with.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "What stock clients must be started with")]
struct Stock {
    /// Bytes of a message in latency tests and ib_send_bw [default: the tools']; others have room for 8 MiB
    #[arg(short, long, value_parser = parse_size)]
    size: Option<u32>,
    /// Messages in latency tests and ib_send_bw [default: the tools']; others say it
    #[arg(short = 'n', long)]
    iterations: Option<u64>,
    /// QPs of bandwidth tests
    #[arg(short = 'q', long, default_value_t = 1)]
    qps: u32,
    /// Both ends send in bandwidth tests
    #[arg(short, long)]
    bidirectional: bool,
    /// All sizes, in tests where both ends must know
    #[arg(short, long, conflicts_with = "size")]
    all: bool,
}

impl Stock {
    /// What this end does in a test with a stock client.
    fn options(&self, test: Test) -> anyhow::Result<Options> {
        let stock = Options::stock(test);
        let bandwidth = test.measure == Measure::Bandwidth;
        // The client alone decides where nothing but memory is asked of a server.
        let passive = bandwidth && test.operation != Operation::Send && !self.bidirectional;
        let sized = self.size.map_or_else(|| stock.sizes.clone(), Sizes::One);
        let sizes = match (passive, self.all) {
            (true, _) => Sizes::One(LARGEST),
            (false, true) => Sizes::All,
            (false, false) => sized,
        };
        let options = Options {
            sizes,
            amount: self.iterations.map_or(stock.amount, Amount::Iterations),
            qps: if bandwidth { self.qps } else { 1 },
            bidirectional: bandwidth && self.bidirectional,
            ..stock
        };
        options.settled(false).with_context(|| Advice::new(test.name(), "see `rocade serve --help`"))
    }
}

/// What each client's thread needs.
struct Service {
    place: Where,
    stock: Stock,
    limits: Limits,
    output: Output,
}

/// Listens until it is told to end.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let mut known = Known { host: Source { from: None }.read()?, ..Known::default() };
    if let Err(error) = load(&args.place, &mut known) {
        return known.conclude("serve", error);
    }
    for test in Test::ALL {
        args.stock.options(test)?;
    }
    let listeners = listen(args)?;
    let service = Arc::new(Service {
        place: args.place.clone(),
        stock: args.stock.clone(),
        limits: args.limits(),
        output: args.output,
    });
    let reception = Reception::new(listeners, service.limits.clone(), signals()?, tell).context("listen")?;
    let serve = |client: Client<Test>| {
        let (from, service) = (client.from, Arc::clone(&service));
        let thread = thread::Builder::new().name(format!("client {from}"));
        let started = thread.spawn(move || {
            if let Err(error) = client::serve(&service, &client) {
                tell_error(&error);
            }
        });
        if let Err(error) = started {
            tell(&format!("rocade: {from} turned away: no thread: {error}"));
        }
    };
    reception.run(GRACE, &mut { serve }).context("wait for clients")?;
    Ok(Outcome::Good)
}

/// One port a test; all of them are told.
fn listen(args: &Args) -> anyhow::Result<Vec<(TcpListener, Test)>> {
    let mut listeners = Vec::new();
    let mut words = Vec::new();
    for (test, port) in Test::ALL.into_iter().zip(args.tcp_port..) {
        listeners.push((tcp::listen(args.bind, port)?, test));
        words.push(format!("{port} {}", test.stock_name()));
    }
    let address = args.bind.map_or("all addresses".to_owned(), |address| address.to_string());
    tell(&format!("rocade: listening on {address}, TCP ports {}", words.join(", ")));
    let Limits { clients, .. } = args.limits();
    let Args { max_memory_mib, max_seconds, .. } = args;
    tell(&format!(
        "rocade: up to {clients} clients at once, {max_memory_mib} MiB for all, {max_seconds} s each"
    ));
    Ok(listeners)
}

/// Readable once the process is told to end.
fn signals() -> anyhow::Result<UnixStream> {
    let (stopped, stop) = UnixStream::pair().context("make a pair of sockets")?;
    for signal in [SIGTERM, SIGINT] {
        let stop = stop.try_clone().context("copy a socket")?;
        signal_hook::low_level::pipe::register(signal, stop).context("wait for signals")?;
    }
    Ok(stopped)
}

impl Args {
    fn limits(&self) -> Limits {
        Limits {
            clients: self.max_clients.into(),
            guests: GUESTS,
            patience: PATIENCE,
            time: Duration::from_secs(self.max_seconds),
            memory: Memory::of(self.max_memory_mib << 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use clap::Parser;

    use super::*;

    fn stock(size: Option<u32>, all: bool, bidirectional: bool) -> Stock {
        Stock { size, iterations: Some(50), qps: 4, bidirectional, all }
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// Anyone who reaches the ports can run tests, so that an address is all that keeps others out.
    #[test]
    fn a_service_that_is_bound_to_an_address_is_reached_at_no_other() {
        let bound = |first: u16| {
            let port = first.to_string();
            let line = Line::try_parse_from(["serve", "--bind", "127.0.0.7", "-p", &port]).unwrap();
            listen(&line.args)
        };
        // Six in a row that nobody has.
        let (first, listeners) =
            (20_000..60_000).step_by(6).find_map(|first| Some((first, bound(first).ok()?))).unwrap();
        assert_eq!(listeners.len(), 6);
        for ((listener, _), port) in listeners.iter().zip(first..) {
            assert_eq!(listener.local_addr().unwrap(), ([127, 0, 0, 7], port).into());
            assert!(TcpStream::connect(("127.0.0.7", port)).is_ok());
            let elsewhere = TcpStream::connect(("127.0.0.8", port)).unwrap_err();
            assert_eq!(elsewhere.kind(), std::io::ErrorKind::ConnectionRefused);
        }
    }

    #[test]
    fn a_server_that_only_lends_memory_has_room_for_every_size_of_a_stock_client() {
        for (name, one_way, both) in [
            ("write-bw", Sizes::One(LARGEST), Sizes::One(64)),
            ("read-bw", Sizes::One(LARGEST), Sizes::One(64)),
            ("send-bw", Sizes::One(64), Sizes::One(64)),
            ("write-lat", Sizes::One(64), Sizes::One(64)),
        ] {
            let test = Test::ALL.into_iter().find(|test| test.name() == name).unwrap();
            let of = |both| stock(Some(64), false, both).options(test).unwrap();
            assert_eq!((of(false).sizes, of(true).sizes), (one_way, both), "{name}");
            let many = if test.measure == Measure::Bandwidth { 4 } else { 1 };
            assert_eq!((of(false).qps, of(false).amount), (many, Amount::Iterations(50)), "{name}");
        }
        let latency = Test { operation: Operation::Send, measure: Measure::Latency };
        assert_eq!(stock(None, true, true).options(latency).unwrap().sizes, Sizes::All);
    }
}
