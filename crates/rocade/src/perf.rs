//! `rocade write-bw` and its five sisters: measure RDMA between two ends, of which either may be perftest's tool. Flags,
//! wiring and exit code; what runs over the connection is the session's.

pub(crate) mod cpus;
pub(crate) mod expectation;
pub(crate) mod options;
pub(crate) mod progress;
pub(crate) mod refused;
pub(crate) mod session;
pub(crate) mod size;
pub(crate) mod table;

use std::rc::Rc;

use clap::value_parser;
use rocade_core::pair::Role;
use rocade_core::pair::perf::expect::{Expected, judge};
use rocade_core::pair::perf::message::Unit;
use rocade_core::pair::perf::{Options, PerfResult, Test};
use rocade_verbs::Library;

use self::expectation::Expectations;
use self::options::{TCP_PORT, What, Where};
use self::progress::ProgressLine;
use self::refused::Refusal;
use self::session::{Connected, Ended, Seen, Session, choose};
use crate::cli::Output;
use crate::evidence::{Form, Known, keep_stderr};
use crate::outcome::{Outcome, print, tell};
use crate::pingpong::report::tell_choice;
use crate::source::Source;
use crate::tcp::{Meeting, Reach};

const AFTER_HELP: &str = "\
Letters are perftest's, but for -o, whose outstanding reads are --outs here; what perftest has and rocade has not, as -R \
and -T, is refused with the reason. Of two ends of rocade the client's options hold for both. A stock tool at the other \
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
    /// No warning about the CPU's frequency: none is given
    #[arg(short = 'F', long = "CPU-freq", hide = true)]
    cpu_freq: bool,
    /// Tell a stock tool at the other end, which prints what it is told, 10⁹ bit/s instead of MiB/s: where it was started
    /// with this too
    #[arg(long = "report_gbits", alias = "report-gbits")]
    report_gbits: bool,
    /// Connection type: RC, of which alone these tests are
    #[arg(short = 'c', long, hide = true, value_parser = parse_connection)]
    connection: Option<String>,
    #[command(flatten)]
    refusal: Refusal<true>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

fn parse_connection(text: &str) -> Result<String, String> {
    if text == "RC" { Ok(text.to_owned()) } else { Err("rocade tests RC alone".to_owned()) }
}

/// Runs the test, and tells what came of it.
pub(crate) fn run(args: &Args, test: Test) -> anyhow::Result<Outcome> {
    args.refusal.check(test)?;
    let options = args.what.settle(test)?;
    let role = if args.server.is_some() { Role::Client } else { Role::Server };
    let expected = args.expectations.settle(&options, role)?;
    let (server, timeout) = (args.server.as_deref(), args.place.timeout());
    let meeting = Meeting::begin(server, &args.reach, args.tcp_port, timeout)?;
    let mut known = Known { host: Source { from: None }.read()?, ..Known::default() };
    match attempt(args, &options, meeting, &mut known) {
        Ok(ended) => conclude(args, ended, &expected),
        Err(error) => known.conclude_as(Form::of(args.output), test.name(), error),
    }
}

/// Makes sure what needs no other end before it connects; then runs the test.
fn attempt(args: &Args, options: &Options, meeting: Meeting<'_>, known: &mut Known) -> anyhow::Result<Ended> {
    let library = load(&args.place, known)?;
    let role = if args.server.is_some() { Role::Client } else { Role::Server };
    let stream = meeting.meet()?;
    if role == Role::Server {
        // By the time a client comes, GIDs may have come and gone.
        Source { from: None }.renew(&mut known.host)?;
    }
    let unit = if args.report_gbits { Unit::Gigabits } else { Unit::Mebibytes };
    let (place, accept) = (&args.place, &|_: &Options, _| Ok(()));
    let session = Session { library: &library, role, options, place, unit, accept };
    let mut line = ProgressLine::on_stderr();
    session.run(&stream, known, &mut |seen| match seen {
        Seen::Chosen(choice) => tell_choice(choice),
        Seen::Connected(connected) => tell_lowered(connected),
        Seen::Samples(_) | Seen::Found(_) => {}
        Seen::Progress(progress) => line.show(progress),
    })
}

/// Of what there is less than was asked for.
pub(crate) fn tell_lowered(connected: &Connected<'_>) {
    connected.lowered().iter().for_each(|line| tell(&format!("rocade: {line}")));
}

/// libibverbs, which offers an HCA that a test can run over.
pub(crate) fn load(place: &Where, known: &mut Known) -> anyhow::Result<Rc<Library>> {
    let likely = choose(&known.host, place, None)?;
    let library = Library::load()?;
    let (offered, said) = keep_stderr(|| library.require_any(&likely.hca));
    known.library_said = said;
    offered?;
    Ok(library)
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
