//! `rocade pingpong`: proves RDMA between two ends, of which either may be ibv_rc_pingpong. Wires TCP, the choice of
//! the GID, the run and its report together; each of them lives elsewhere.

mod expectation;
pub(crate) mod report;
pub(crate) mod stock;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::rc::Rc;

use anyhow::Context;
use clap::value_parser;
use rocade_core::diagnose::End;
use rocade_core::gid::{Choice, loopback};
use rocade_core::pair::expect::judge;
use rocade_core::pair::perf::Operation;
use rocade_core::pair::{PairResult, Role};
use rocade_verbs::Library;
use rocade_verbs::device::Mtu;
use rocade_verbs::pingpong::{HOP_LIMIT, Pingpong, Setup};

use self::expectation::Expectations;
use crate::cli::Output;
use crate::evidence::{Form, Known, Watch, keep_stderr};
use crate::outcome::{Outcome, print};
use crate::perf::cpus::{cpus_in_words, usable_cpus};
use crate::perf::options::Where;
use crate::perf::progress::ProgressLine;
use crate::perf::session::{choose, choose_again, connection_of};
use crate::source::Source;
use crate::tcp::{Meeting, Reach};

const AFTER_HELP: &str = "\
Letters are ibv_rc_pingpong's, but for -o and -x, and its long names are understood too. Neither end tells the other \
its -s, -n and -m: they must be the same at both. A list of sizes, several QPs and a test by time are more than its \
protocol has room for; `rocade send-lat` and its kin have them. With -c a client fills each message with bytes of its own and checks that they come \
back unchanged, as any server returns them; a server checks that the client sends what ibv_rc_pingpong or `rocade \
pingpong -c` sends.

Exit code: 0 all round trips made, and as expected; 1 RDMA failed, or they took longer than expected; 2 the test could \
not be made.";

/// Arguments of `rocade pingpong`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("gid_index", |arg| arg.short_alias('g').alias("gid-idx")))]
pub(crate) struct Args {
    /// The end that waits; without it this end is the one
    server: Option<String>,
    /// TCP port of the exchange
    #[arg(short = 'p', long, alias = "port", value_parser = value_parser!(u16).range(1..), default_value_t = 18515)]
    tcp_port: u16,
    #[command(flatten)]
    place: Where,
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
    /// Traffic class: the TOS byte of RoCE v2's IP header
    #[arg(long, default_value_t = 0)]
    tclass: u8,
    /// The same by its DSCP, 0 to 63
    #[arg(long, value_parser = value_parser!(u8).range(..=63), conflicts_with = "tclass")]
    dscp: Option<u8>,
    /// Index of the partition key
    #[arg(long, default_value_t = 0)]
    pkey_index: u16,
    /// Routers that a packet may pass, and one; on RoCE the kernel takes the route's own
    #[arg(long, default_value_t = HOP_LIMIT)]
    hop_limit: u8,
    /// Check each byte that arrives
    #[arg(short, long, alias = "chk")]
    check: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    expectations: Expectations,
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
    let expected = args.expectations.settle(args.size)?;
    let meeting = Meeting::begin(args.server.as_deref(), &args.reach, args.tcp_port, args.place.timeout())?;
    let mut known =
        Known { host: Source { from: None }.read()?, operation: Some(Operation::Send), ..Known::default() };
    known.sends = Some(true);
    match attempt(args, meeting, &mut known) {
        Ok(mut result) => {
            result.verdict = judge(&result, &expected);
            print(&report::render_result(&result, args.output)?)?;
            report::tell_remarks(&result, args.output, args.as_stock)?;
            let is_good = result.verdict.is_none_or(|verdict| verdict.pass);
            Ok(if is_good { Outcome::Good } else { Outcome::Failed })
        }
        Err(error) => known.conclude_as(Form::of(args.output), "pingpong", error),
    }
}

fn attempt(args: &Args, meeting: Meeting<'_>, known: &mut Known) -> anyhow::Result<PairResult> {
    let likely = choose(&known.host, &args.place, None)?;
    let library = Library::load()?;
    let (offered, said) = keep_stderr(|| library.require_any(&likely.hca));
    known.library_said = said;
    offered?;
    let stream = meeting.meet()?;
    if args.role() == Role::Server {
        // By the time a client comes, GIDs may have come and gone.
        Source { from: None }.renew(&mut known.host)?;
    }
    let connection = connection_of(&stream)?;
    known.connection = Some(connection);
    // Neither end says whether it is ibv_rc_pingpong, which asks for this.
    known.remote.hop_limit = Some(1);
    let first = choose(&known.host, &args.place, known.connection)?;
    let (mut pingpong, choice) = match open(args, &library, &first, known) {
        Ok(pingpong) => (pingpong, first),
        Err(error) => match choose_again(&known.host, &args.place, known.connection, &first, &error) {
            Some(second) => (open(args, &library, &second, known)?, second),
            None => return Err(error),
        },
    };
    known.local.endpoint = Some(*pingpong.local());
    known.local.mtu_bytes = Some(pingpong.mtu_bytes());
    let result = test(args, &mut pingpong, &stream, &choice);
    known.remote.endpoint = pingpong.remote().copied();
    let mut result = result?;
    let loopback = loopback(&known.host, &choice, &result.remote, known.connection);
    result.loopback = loopback.map(|loopback| loopback.to_string());
    result.counters = known.watch.as_ref().map(|watch| watch.counted().all_grown()).unwrap_or_default();
    Ok(result)
}

/// Tells a choice, and makes this end's verbs objects over it.
fn open(args: &Args, library: &Rc<Library>, choice: &Choice, known: &mut Known) -> anyhow::Result<Pingpong> {
    report::tell_choice(choice);
    known.watch = Watch::over(choice);
    known.local = End {
        message_bytes: Some(u64::from(args.size)),
        pkey_index: Some(args.pkey_index.into()),
        service_level: Some(args.sl),
        traffic_class: Some(args.traffic_class()),
        receive_depth: Some(args.rx_depth),
        ..End::over(&known.host, choice)
    };
    known.choice = Some(choice.clone());
    Ok(Pingpong::prepare(library, args.setup(choice)?)?)
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
    let mut line = ProgressLine::on_stderr();
    let figures = pingpong.run(&mut |so_far| line.show_round_trips(&so_far))?;
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
        cpus: cpus_in_words(),
        bytes: figures.bytes,
        data_checked: args.check,
        seconds,
        mbit_per_second: figures.bytes as f64 * 8.0 / seconds / 1e6,
        usec_per_iteration: seconds * 1e6 / f64::from(args.iterations),
        counters: BTreeMap::new(),
        verdict: None,
    })
}

impl Args {
    fn role(&self) -> Role {
        if self.server.is_some() { Role::Client } else { Role::Server }
    }

    fn traffic_class(&self) -> u8 {
        self.dscp.map_or(self.tclass, |dscp| dscp << 2)
    }

    fn setup(&self, choice: &Choice) -> anyhow::Result<Setup> {
        Ok(Setup {
            hca: choice.hca.clone(),
            port: choice.port,
            gid_index: choice.gid.as_ref().map(|gid| gid.index),
            role: self.role(),
            message_bytes: self.size,
            mtu: self.mtu,
            rx_depth: self.rx_depth,
            iterations: self.iterations,
            service_level: self.sl,
            traffic_class: self.traffic_class(),
            pkey_index: self.pkey_index,
            hop_limit: self.hop_limit,
            events: self.events,
            check_data: self.check,
            timeout: self.place.timeout(),
            hugepages: self.place.hugepages,
            cpus: usable_cpus(&self.place, &choice.hca)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rocade_core::PortNum;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Line::try_parse_from(["pingpong"].into_iter().chain(line.split_whitespace())).unwrap().args
    }

    fn setup(line: &str) -> Setup {
        let choice = Choice {
            hca: "nonexistent0".parse().unwrap(),
            port: PortNum(1),
            gid: None,
            reason: String::new(),
            warnings: vec![],
        };
        parse(line).setup(&choice).unwrap()
    }

    #[test]
    fn what_one_end_alone_decides_reaches_the_run() {
        let plain = setup("");
        assert_eq!((plain.traffic_class, plain.pkey_index, plain.hop_limit), (0, 0, 64));
        assert_eq!((plain.hugepages, plain.cpus, plain.message_bytes), (false, None, 4096));
        let own = setup("--dscp 26 --pkey-index 2 --hop-limit 5 --hugepages --timeout 30 -l 3 10.0.0.1");
        assert_eq!((own.traffic_class, own.pkey_index, own.hop_limit), (104, 2, 5));
        assert_eq!((own.hugepages, own.timeout.as_secs(), own.service_level), (true, 30, 3));
        assert_eq!((setup("--tclass 106").traffic_class, own.role), (106, Role::Client));
    }

    #[test]
    fn the_gid_index_has_the_stock_letter_and_long_name_too() {
        for line in ["-x 3", "-g 3", "--gid-index 3", "--gid-idx 3"] {
            assert_eq!(parse(line).place.gid_index, Some(3), "{line}");
        }
        let place = parse("-d mlx5_1 -i 2 --ipv6 --numa 1").place;
        assert_eq!((place.hca_port, place.ipv6, place.numa), (Some(PortNum(2)), true, Some(1)));
    }

    #[test]
    fn two_names_of_the_traffic_class_exclude_each_other() {
        for line in ["--tclass 1 --dscp 1", "--dscp 64", "-i 0"] {
            assert!(Line::try_parse_from(["pingpong"].into_iter().chain(line.split_whitespace())).is_err());
        }
    }
}
