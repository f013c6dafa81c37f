//! `rocade pingpong`: proves RDMA between two ends, of which either may be ibv_rc_pingpong. Wires TCP, the choice of
//! the GID, the run and its report together; each of them lives elsewhere.

pub(crate) mod report;
pub(crate) mod stock;

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use clap::value_parser;
use rocade_core::diagnose::End;
use rocade_core::gid::{Choice, Connection, NoChoice, Wish, choose_gid, loopback};
use rocade_core::pair::perf::Operation;
use rocade_core::pair::{PairResult, Role};
use rocade_core::{GidIndex, HcaName, Host, PortNum};
use rocade_verbs::Library;
use rocade_verbs::device::Mtu;
use rocade_verbs::pingpong::{Pingpong, Setup};

use crate::cli::Output;
use crate::evidence::{Known, Watch, keep_stderr};
use crate::outcome::{Outcome, print};
use crate::source::Source;
use crate::tcp::{Meeting, Reach};

/// Longest wait for the other end, where nobody says another.
const TIMEOUT_SECONDS: u64 = 10;
const AFTER_HELP: &str = "\
Letters are ibv_rc_pingpong's, and its long names are understood too. Neither end tells the other its -s, -n and -m: \
they must be the same at both. With -c a client fills each message with bytes of its own and checks that they come \
back unchanged, as any server returns them; a server checks that the client sends what ibv_rc_pingpong or `rocade \
pingpong -c` sends.

Exit code: 0 all round trips made, 1 RDMA failed, 2 the test could not be made.";

/// Arguments of `rocade pingpong`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The end that waits; without it this end is the one
    server: Option<String>,
    /// HCA to use [default: the one that has the connection's address]
    #[arg(short = 'd', long, alias = "ib-dev")]
    hca: Option<HcaName>,
    /// Port of the HCA [default: as for the HCA]
    #[arg(short = 'i', long, alias = "ib-port", value_parser = value_parser!(u32).range(1..=255))]
    hca_port: Option<u32>,
    /// TCP port of the exchange
    #[arg(short = 'p', long, alias = "port", value_parser = value_parser!(u16).range(1..), default_value_t = 18515)]
    tcp_port: u16,
    /// Bytes of a message
    #[arg(short, long, value_parser = value_parser!(u32).range(1..=1 << 30), default_value_t = 4096)]
    size: u32,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096 [default: 1024, or the port's if that is smaller]
    #[arg(short, long, value_parser = parse_mtu)]
    mtu: Option<Mtu>,
    /// Receives kept posted
    #[arg(short, long, value_parser = value_parser!(u32).range(1..=1 << 20), default_value_t = 500)]
    rx_depth: u32,
    /// Round trips
    #[arg(short = 'n', long, alias = "iters", value_parser = value_parser!(u32).range(1..), default_value_t = 1000)]
    iterations: u32,
    /// Service level
    #[arg(short = 'l', long, value_parser = value_parser!(u8).range(0..=15), default_value_t = 0)]
    sl: u8,
    /// Sleep until something completes, instead of polling
    #[arg(short, long)]
    events: bool,
    /// GID index to use whatever it holds [default: the GID of the connection's address]
    #[arg(short = 'x', short_alias = 'g', long, alias = "gid-idx")]
    gid_index: Option<u32>,
    /// Check each byte that arrives
    #[arg(short, long, alias = "chk")]
    check: bool,
    /// Longest wait for the other end once it is connected, and for the connection to a server
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..=86400), default_value_t = TIMEOUT_SECONDS)]
    timeout: u64,
    #[command(flatten)]
    reach: Reach,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Print what ibv_rc_pingpong prints, and nothing else
    #[arg(skip)]
    as_stock: bool,
}

fn parse_mtu(text: &str) -> Result<Mtu, String> {
    let mtu = text.parse().ok().and_then(Mtu::from_bytes);
    mtu.ok_or_else(|| "an MTU is 256, 512, 1024, 2048 or 4096".to_owned())
}

/// Makes what needs no other end sure before it connects; then runs the test.
pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let meeting = Meeting::begin(args.server.as_deref(), &args.reach, args.tcp_port, args.timeout())?;
    let mut known =
        Known { host: Source { from: None }.read()?, operation: Some(Operation::Send), ..Known::default() };
    known.sends = Some(true);
    match attempt(args, meeting, &mut known) {
        Ok(result) => {
            print(&report::render_result(&result, args.output)?)?;
            report::tell_loopback(&result, args.output, args.as_stock)?;
            Ok(Outcome::Good)
        }
        Err(error) => known.conclude("pingpong", error),
    }
}

fn attempt(args: &Args, meeting: Meeting<'_>, known: &mut Known) -> anyhow::Result<PairResult> {
    let likely = choose(&known.host, args, None)?;
    let library = Library::load()?;
    let (offered, said) = keep_stderr(|| library.require_any(&likely.hca));
    known.library_said = said;
    offered?;
    let stream = meeting.meet()?;
    if args.role() == Role::Server {
        // By the time a client comes, GIDs may have come and gone.
        Source { from: None }.renew(&mut known.host)?;
    }
    let connection = connection(&stream)?;
    let choice = choose(&known.host, args, Some(connection))?;
    report::tell_choice(&choice);
    known.connection = Some(connection);
    known.watch = Watch::over(&choice);
    known.local = End {
        message_bytes: Some(u64::from(args.size)),
        pkey_index: Some(0),
        service_level: Some(args.sl),
        receive_depth: Some(args.rx_depth),
        ..End::over(&known.host, &choice)
    };
    // Neither end says whether it is ibv_rc_pingpong, which asks for this.
    known.remote.hop_limit = Some(1);
    known.choice = Some(choice.clone());
    let mut pingpong = Pingpong::prepare(&library, args.setup(&choice))?;
    known.local.endpoint = Some(*pingpong.local());
    known.local.mtu_bytes = Some(pingpong.mtu_bytes());
    let result = test(args, &mut pingpong, &stream, &choice);
    known.remote.endpoint = pingpong.remote().copied();
    let mut result = result?;
    let loopback = loopback(&known.host, &choice, &result.remote, known.connection);
    result.loopback = loopback.map(|loopback| loopback.to_string());
    Ok(result)
}

fn choose(host: &Host, args: &Args, connection: Option<Connection>) -> Result<Choice, NoChoice> {
    let wish = Wish {
        hca: args.hca.as_ref(),
        port: args.hca_port.map(PortNum),
        gid_index: args.gid_index.map(GidIndex),
        connection,
        ipv6: false,
    };
    choose_gid(host, &wish)
}

fn connection(stream: &TcpStream) -> anyhow::Result<Connection> {
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let read = || Ok::<_, std::io::Error>(Connection { local: local?.ip(), peer: peer?.ip() });
    read().context("read the connection's addresses")
}

fn test(
    args: &Args,
    pingpong: &mut Pingpong,
    stream: &TcpStream,
    choice: &Choice,
) -> anyhow::Result<PairResult> {
    let show = |text: String| if args.output == Output::Table { print(&text) } else { Ok(()) };
    show(report::render_local(pingpong.local()))?;
    let connected = pingpong.connect(stream);
    let remote = pingpong.remote().copied();
    if let Some(remote) = &remote {
        show(report::render_remote(remote))?;
    }
    connected?;
    let figures = pingpong.run()?;
    let seconds = figures.elapsed.as_secs_f64();
    Ok(PairResult {
        test: "pingpong".to_owned(),
        role: args.role(),
        choice: choice.clone(),
        local: *pingpong.local(),
        remote: remote.context("connected without the other end's address")?,
        mtu_bytes: pingpong.mtu_bytes(),
        message_bytes: args.size,
        iterations: args.iterations,
        loopback: None,
        bytes: figures.bytes,
        data_checked: args.check,
        seconds,
        mbit_per_second: figures.bytes as f64 * 8.0 / seconds / 1e6,
        usec_per_iteration: seconds * 1e6 / f64::from(args.iterations),
    })
}

impl Args {
    fn role(&self) -> Role {
        if self.server.is_some() { Role::Client } else { Role::Server }
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    fn setup(&self, choice: &Choice) -> Setup {
        Setup {
            hca: choice.hca.clone(),
            port: choice.port,
            gid_index: choice.gid.as_ref().map(|gid| gid.index),
            role: self.role(),
            message_bytes: self.size,
            mtu: self.mtu,
            rx_depth: self.rx_depth,
            iterations: self.iterations,
            service_level: self.sl,
            events: self.events,
            check_data: self.check,
            timeout: self.timeout(),
        }
    }
}
