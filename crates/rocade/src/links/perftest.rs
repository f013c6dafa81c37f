//! The six perftest tools: their options (of perftest 6.06, and names of later ones) and their tables, so that scripts that parse them go on
//! working. Whatever fails ends with 1, as with the tools themselves; why is told as `rocade` tells it.

mod banner;
mod json;
mod options;
mod rows;

use std::fs;

use anyhow::{Context, bail};
use rocade_core::LinkLayer;
use rocade_core::pair::Role;
use rocade_core::pair::perf::message::{ANNOUNCED, Unit};
use rocade_core::pair::perf::statistics::Samples;
use rocade_core::pair::perf::{Measure, Operation, Options, PerfResult, SizeResult, Test};

use self::banner::{RULER, Settings, WAITING};
use self::options::Args;
use self::rows::{Row, heading, render_samples};
use crate::evidence::Known;
use crate::outcome::{Advice, Outcome, print, tell};
use crate::perf::options::{TIMEOUT_SECONDS, Where};
use crate::perf::session::{Connected, Seen, Session};
use crate::perf::{load, tell_lowered};
use crate::pingpong::report::tell_choice;
use crate::source::Source;
use crate::tcp::{Meeting, Reach};

/// Whose options they are.
const OF: &str = "perftest 6.06 and some of later ones'";

/// Reads the command line as the tool's, and does what it asks for.
pub(super) fn run(test: Test) -> anyhow::Result<Outcome> {
    let matches = match Args::command(test).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return Ok(super::unread(&error, OF)),
    };
    Ok(super::ended(Args::read(test, &matches).and_then(|args| measure(&args, test))))
}

fn measure(args: &Args, test: Test) -> anyhow::Result<Outcome> {
    if args.version {
        print(&format!("Version: {ANNOUNCED}\n"))?;
        return Ok(Outcome::Good);
    }
    let options = args.settle(test)?;
    if let Some(odd) = args.odd_mtu() {
        tell(&format!(
            "rocade: an MTU is 256, 512, 1024, 2048 or 4096, and not {odd}: the port's own is taken"
        ));
    }
    let role = if args.host.is_some() { Role::Client } else { Role::Server };
    let mut output = Output { args, role, connected: None, rows: vec![], failed: None };
    let reach = Reach { bind: args.source_ip, wait: 0 };
    let meeting = Meeting::begin(args.host.as_deref(), &reach, args.port, args.place().timeout())?;
    if role == Role::Server {
        output.print(WAITING);
    }
    let mut known = Known { host: Source { from: None }.read()?, ..Known::default() };
    match attempt(&options, meeting, &mut output, &mut known) {
        Ok(result) => output.conclude(&result),
        Err(error) => known.conclude(test.stock_name(), error),
    }
}

fn attempt(
    options: &Options,
    meeting: Meeting<'_>,
    output: &mut Output<'_>,
    known: &mut Known,
) -> anyhow::Result<PerfResult> {
    let args = output.args;
    let place = args.place();
    let library = load(&place, known)?;
    let stream = meeting.meet()?;
    if output.role == Role::Server {
        Source { from: None }.renew(&mut known.host)?;
    }
    let (role, unit, accept) = (output.role, args.unit(), &|_: &Options, _| Ok(()));
    let session = Session { library: &library, role, options, place: &place, unit, accept };
    let ended = session.run(&stream, known, &mut |seen| match seen {
        Seen::Chosen(choice) => tell_choice(choice),
        Seen::Connected(connected) => {
            tell_lowered(connected);
            output.connected(connected);
        }
        Seen::Samples(samples) => output.samples(samples),
        Seen::Found(size) => output.found(size),
        Seen::Progress(_) => {}
    })?;
    Ok(ended.result)
}

/// What is known once both ends are connected, kept for the end.
struct Kept {
    options: Options,
    choice: rocade_core::gid::Choice,
    link_type: &'static str,
    mtu_bytes: u32,
    inline_bytes: u32,
    outstanding_reads: u8,
}

impl Kept {
    fn settings(&self, role: Role) -> Settings<'_> {
        Settings {
            role,
            options: &self.options,
            choice: &self.choice,
            link_type: self.link_type,
            mtu_bytes: self.mtu_bytes,
            inline_bytes: self.inline_bytes,
            outstanding_reads: self.outstanding_reads,
        }
    }
}

/// The tool's stdout.
struct Output<'a> {
    args: &'a Args,
    role: Role,
    connected: Option<Kept>,
    /// Printed so far.
    rows: Vec<Row>,
    /// The first error of writing it.
    failed: Option<anyhow::Error>,
}

impl Output<'_> {
    /// Where the whole table is wanted.
    fn print(&mut self, text: &str) {
        if self.args.output.is_none() && self.failed.is_none() {
            self.failed = print(text).err();
        }
    }

    fn connected(&mut self, now: &Connected<'_>) {
        let kept = Kept {
            options: now.options.clone(),
            choice: now.choice.clone(),
            link_type: if now.link_layer == LinkLayer::InfiniBand { "IB" } else { "Ethernet" },
            mtu_bytes: now.mtu_bytes,
            inline_bytes: now.inline_bytes,
            outstanding_reads: now.outstanding_reads,
        };
        let settings = kept.settings(self.role);
        let mut text = settings.render() + &settings.render_keys(now.local, now.remote);
        if self.has_rows(&settings) {
            text = text + RULER + &heading(settings.options, self.args.unit());
        }
        self.print(&text);
        self.connected = Some(kept);
    }

    /// The end that is read from has nothing to say.
    fn has_rows(&self, settings: &Settings<'_>) -> bool {
        let test = settings.options.test;
        self.role == Role::Client || (test.operation, test.measure) != (Operation::Read, Measure::Latency)
    }

    /// Each time between the heading and the row, as the tools print them.
    fn samples(&mut self, samples: &Samples) {
        let args = self.args;
        if let (true, Some(kept)) = (args.report_histogram || args.report_unsorted, &self.connected) {
            let mut times: Vec<f64> = samples.each_us(kept.options.test.operation).collect();
            // None are kept of a test by time.
            if !times.is_empty() {
                self.print(&render_samples(&mut times, args.report_unsorted, args.report_histogram));
            }
        }
    }

    /// A row as soon as it is known, as the tools print it.
    fn found(&mut self, size: &SizeResult) {
        if let Some(kept) = self.connected.take() {
            self.print_row(&kept.settings(self.role), size);
            self.connected = Some(kept);
        }
    }

    fn print_row(&mut self, settings: &Settings<'_>, size: &SizeResult) {
        let args = self.args;
        let row = Row::of(size, settings.options, args.unit(), args.no_peak);
        let Some(row) = row.filter(|_| self.has_rows(settings) && self.failed.is_none()) else { return };
        let text = args.output.map_or_else(|| row.render(), |number| row.render_number(number));
        self.failed = print(&text).err();
        self.rows.push(row);
    }

    fn conclude(mut self, result: &PerfResult) -> anyhow::Result<Outcome> {
        if let Some(loopback) = &result.loopback {
            tell(&format!("rocade: {loopback}"));
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let Some(kept) = self.connected.take() else {
            bail!("the test ended before its ends were connected")
        };
        self.conclude_rows(&kept.settings(self.role), &result.results)
    }

    fn conclude_rows(&mut self, settings: &Settings<'_>, results: &[SizeResult]) -> anyhow::Result<Outcome> {
        let args = self.args;
        let known = self.rows.len();
        results.iter().skip(known).for_each(|size| self.print_row(settings, size));
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let rows = std::mem::take(&mut self.rows);
        self.print(RULER);
        if let (Some(file), Some(row)) = (args.json_file(), rows.last()) {
            let hint = "give a file that you may write with --out_json_file";
            fs::write(file, json::render(settings, row))
                .with_context(|| Advice::new(format!("cannot write {file}"), hint))?;
        }
        let Some(short) = args.limits(&rows) else { return Ok(Outcome::Good) };
        tell(short);
        Ok(Outcome::Failed)
    }
}

impl Args {
    fn unit(&self) -> Unit {
        if self.report_gbits { Unit::Gigabits } else { Unit::Mebibytes }
    }

    fn place(&self) -> Where {
        Where {
            hca: self.ib_dev.clone(),
            hca_port: Some(self.ib_port),
            gid_index: self.gid_index,
            ipv6: self.ipv6,
            cpus: None,
            numa: None,
            hugepages: self.use_hugepages,
            timeout: TIMEOUT_SECONDS,
        }
    }

    /// What the tool says of a limit that no size keeps.
    fn limits(&self, rows: &[Row]) -> Option<&'static str> {
        let reaches = |limit: f64, of: fn(&Row) -> Option<f64>| {
            rows.iter().filter_map(of).any(|figure| figure >= limit)
        };
        let average = |row: &Row| match row {
            Row::Bandwidth { average, .. } => Some(*average),
            _ => None,
        };
        let rate = |row: &Row| match row {
            Row::Bandwidth { rate_mpps, .. } => Some(*rate_mpps),
            _ => None,
        };
        if self.limit_bw.is_some_and(|limit| !reaches(limit, average)) {
            return Some("Error: BW result is below bw limit");
        }
        let slow = self.limit_msgrate.is_some_and(|limit| !reaches(limit, rate));
        slow.then_some("Error: Msg rate  is below msg_rate limit")
    }
}

#[cfg(test)]
mod tests;
