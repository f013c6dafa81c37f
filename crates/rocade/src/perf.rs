//! `rocade write-bw` and its five sisters: measure RDMA between two ends, of which either may be perftest's tool. Flags,
//! wiring and exit code; what runs over the connection is the session's.

pub(crate) mod expectation;
pub(crate) mod options;
pub(crate) mod progress;
pub(crate) mod session;
pub(crate) mod size;
pub(crate) mod table;

use std::net::TcpStream;

use clap::value_parser;
use rocade_core::diagnose::Diagnosis;
use rocade_core::pair::Role;
use rocade_core::pair::perf::expect::{Expected, judge};
use rocade_core::pair::perf::message::Unit;
use rocade_core::pair::perf::{Options, PerfResult, Test};
use rocade_verbs::{Library, VerbsError};

use self::expectation::Expectations;
use self::options::{TCP_PORT, What, Where};
use self::progress::ProgressLine;
use self::session::{Ended, Failed, Seen, Session, choose};
use crate::cli::Output;
use crate::outcome::{Advice, Outcome, print, tell_error};
use crate::pingpong::report::tell_choice;
use crate::source::Source;
use crate::tcp::{self, Reach};

const AFTER_HELP: &str = "\
Letters are perftest's, but for -o. Of two ends of rocade the client's options hold for both. A stock tool at the other \
end must be started with the same test, -s (a server of write-bw or read-bw with the client's or a larger one), -n, -q, \
-b and -a. Gbit/s are 10⁹ bit/s, of one direction, or of both together with -b; latency is half a round trip, of a read \
the whole.

Exit code: 0 measured, and as expected; 1 RDMA failed, or less than expected; 2 the test could not be made.";

/// Arguments of a test.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The end that waits; without it this end is the one
    server: Option<String>,
    /// TCP port of the exchange
    #[arg(short = 'p', long, alias = "port", value_parser = value_parser!(u16).range(1..), default_value_t = TCP_PORT)]
    tcp_port: u16,
    #[command(flatten)]
    place: Where,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    expectations: Expectations,
    #[command(flatten)]
    unneeded: Unneeded,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Stock options that ask for what is always so.
#[derive(Debug, clap::Args)]
struct Unneeded {
    /// No warning about the CPU's frequency: none is given
    #[arg(short = 'F', long = "CPU-freq", hide = true)]
    cpu_freq: bool,
    /// Bandwidth in 10⁹ bit/s, as it always is
    #[arg(long = "report_gbits", hide = true)]
    report_gbits: bool,
}

/// Makes sure what needs no other end before it connects; then runs the test.
pub(crate) fn run(args: &Args, test: Test) -> anyhow::Result<Outcome> {
    let options = args.what.settle(test)?;
    let expected = args.expectations.settle(test)?;
    let host = Source { from: None }.read()?;
    let likely = choose(&host, &args.place, None)?;
    let library = Library::load().map_err(advise)?;
    library.require_any(&likely.hca).map_err(advise)?;
    let (stream, host) = match &args.server {
        Some(server) => (args.dial(server, test)?, host),
        // By the time a client comes, GIDs may have come and gone.
        None => (tcp::accept(args.reach.bind, args.tcp_port)?, Source { from: None }.read()?),
    };
    let session = Session {
        library: &library,
        host: &host,
        role: if args.server.is_some() { Role::Client } else { Role::Server },
        options: &options,
        place: &args.place,
        unit: Unit::Mebibytes,
        accept: &|_: &Options| Ok(()),
    };
    let mut line = ProgressLine::on_stderr();
    let ended = session.run(&stream, &mut |seen| match seen {
        Seen::Chosen(choice) => tell_choice(choice),
        Seen::Connected(_) => {}
        Seen::Progress(progress) => line.show(progress),
    });
    line.clear();
    match ended {
        Ok(ended) => conclude(args, ended, &expected),
        Err(failed) => tell_failed(test.name(), failed),
    }
}

fn conclude(args: &Args, ended: Ended, expected: &[Expected]) -> anyhow::Result<Outcome> {
    let Ended { mut result, port_gbps } = ended;
    result.verdict = judge(&result, expected, port_gbps);
    print(&render(&result, args.output)?)?;
    Ok(match &result.verdict {
        Some(verdict) if !verdict.pass => Outcome::Failed,
        _ => Outcome::Good,
    })
}

fn render(result: &PerfResult, output: Output) -> anyhow::Result<String> {
    match output {
        Output::Json => Ok(format!("{}\n", serde_json::to_string_pretty(result)?)),
        Output::Table => Ok(table::render_result(result)),
    }
}

/// A failure of RDMA is found; what kept the test from being made is an error.
pub(crate) fn tell_failed(test: &str, failed: Failed) -> anyhow::Result<Outcome> {
    match failed {
        Failed::Other(error) => Err(error),
        Failed::Test(error, diagnosis) => {
            let of_rdma = error.failure().is_some_and(|failure| failure.is_of_rdma());
            let error = failure(test, error, &diagnosis);
            if !of_rdma {
                return Err(error);
            }
            tell_error(&error);
            Ok(Outcome::Failed)
        }
    }
}

impl Args {
    fn dial(&self, server: &str, test: Test) -> anyhow::Result<TcpStream> {
        let program = format!("`rocade {test}` (or {})", test.stock_name());
        self.reach.dial(server, self.tcp_port, self.place.timeout(), &program).connect()
    }
}

/// The error of a test, with what was found of its cause.
pub(crate) fn failure(test: &str, error: VerbsError, diagnosis: &Diagnosis) -> anyhow::Error {
    anyhow::Error::from(error).context(Advice::diagnosed(test, diagnosis))
}

/// An error of verbs ahead of any test.
pub(crate) fn advise(error: VerbsError) -> anyhow::Error {
    match error.cure() {
        Some(cure) => anyhow::Error::from(error).context(Advice::new("cannot test", cure)),
        None => error.into(),
    }
}
