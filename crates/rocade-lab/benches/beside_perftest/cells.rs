//! What is measured: command lines of both tools with the same options, and the figures that they print.

use anyhow::{Context, Result, ensure};
use rocade_core::GidIndex;
use rocade_core::pair::perf::{Measure, Operation, PerfResult, SizeResult, Test};
use rocade_lab::cluster::plan;
use rocade_lab::paired;

use crate::ends::Ends;
use crate::table::{Goal, Row};

/// Whose tests run, at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Stock,
    Rocade,
}

/// What is taken of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// Messages a second, and so bandwidth.
    Rate,
    /// Typical and 99th percentile, by the stock tool's definitions.
    Latency,
    /// User CPU of the client per message: the slope between n and 4n messages, so that its start does not count.
    UserCpu,
    /// From the client's exec to its first packet on the rail.
    Start,
}

/// A test with its options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    figure: Figure,
    test: Test,
    bytes: u32,
    qps: u32,
    /// Of each QP.
    messages: u32,
}

/// More than 20 000, up to which both tools keep a peak; what that costs after the test would be in the slope.
const CPU_MESSAGES: u32 = 21_000;
const LATENCY_MESSAGES: u32 = 10_000;

/// All of them, the short ones first.
pub(crate) fn all() -> Vec<Cell> {
    let test = |operation, measure| Test { operation, measure };
    let write = test(Operation::Write, Measure::Bandwidth);
    let sizes = [
        (64, 1, 10_000),
        (64, 32, 400),
        (4096, 1, 4000),
        (4096, 32, 150),
        (65_536, 1, 400),
        (65_536, 32, 12),
    ];
    let rate = |(bytes, qps, messages)| Cell { figure: Figure::Rate, test: write, bytes, qps, messages };
    let mut cells: Vec<Cell> = sizes.map(rate).into();
    cells.push(rate((1 << 20, 1, 20)));
    for operation in [Operation::Read, Operation::Send] {
        cells.push(Cell { test: test(operation, Measure::Bandwidth), ..rate((4096, 1, 4000)) });
    }
    cells.push(Cell { figure: Figure::Start, ..rate((64, 1, 5)) });
    for operation in [Operation::Write, Operation::Read, Operation::Send] {
        let (figure, test) = (Figure::Latency, test(operation, Measure::Latency));
        cells.push(Cell { figure, test, bytes: 2, qps: 1, messages: LATENCY_MESSAGES });
    }
    cells.push(Cell { figure: Figure::UserCpu, ..rate((64, 1, CPU_MESSAGES)) });
    cells
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        let Cell { test, bytes, qps, .. } = self;
        match self.figure {
            Figure::Rate => format!("{test} {bytes} B, {qps} QP"),
            Figure::Latency => format!("{test} {bytes} B"),
            Figure::UserCpu => format!("{test} {bytes} B, user CPU a message"),
            Figure::Start => format!("{test}, start to first packet"),
        }
    }

    /// Without figures.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |what: &str, unit, goal| Row::new(format!("{}{what}", self.name()), unit, goal);
        match self.figure {
            Figure::Rate => vec![row("", "messages/s", Goal::NotLess)],
            Figure::Latency => vec![row(", typical", "us", Goal::NotMore), row(", p99", "us", Goal::NotMore)],
            Figure::UserCpu => vec![row("", "us", Goal::NotMore)],
            Figure::Start => vec![row("", "ms", Goal::Below(1.0 / 3.0))],
        }
    }

    /// Of so many, how many it is measured in: a slope differs so much that the fewest are enough, and takes long.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.figure == Figure::UserCpu { paired::LEAST } else { rounds }
    }

    /// Two CPUs carry the virtual CPUs, which wait in a loop, and the threads that carry their packets. Where all are alike, a
    /// latency's 99 % is how long the host lets a waiting one run on; bandwidth is less where the packets go first.
    pub(crate) fn nice_of_cpus(&self) -> i32 {
        if self.figure == Figure::Latency { 10 } else { 0 }
    }

    /// A figure for each row.
    pub(crate) fn measure(&self, ends: &mut Ends, tool: Tool) -> Result<Vec<f64>> {
        match self.figure {
            Figure::Rate => Ok(vec![self.rate(tool, &self.run(ends, tool, "", self.messages)?)?]),
            Figure::Latency => self.latency(tool, &self.run(ends, tool, "", self.messages)?),
            Figure::Start => self.start(ends, tool).map(|ms| vec![ms]),
            Figure::UserCpu => {
                let few = self.user_seconds(ends, tool, self.messages)?;
                let many = self.user_seconds(ends, tool, 4 * self.messages)?;
                Ok(vec![(many - few) * 1e6 / f64::from(3 * self.messages)])
            }
        }
    }

    /// What the client said of a test.
    fn run(&self, ends: &mut Ends, tool: Tool, before: &str, messages: u32) -> Result<String> {
        // By the management network, the rail carries nothing but RDMA.
        let address = match self.figure {
            Figure::Start => plan::address(1),
            _ => plan::rail_address(1, 1),
        };
        let line = self.line(tool, ends.gid_index(), messages);
        let server = match tool {
            Tool::Stock => line.clone(),
            // It takes all else from the client.
            Tool::Rocade => format!("rocade {} -d rxe1 -x {}", self.test, ends.gid_index()),
        };
        ends.test(&server, before, &format!("{line} {address}"))
    }

    fn line(&self, tool: Tool, gid_index: GidIndex, messages: u32) -> String {
        let Cell { test, bytes, qps, .. } = self;
        let program = match tool {
            Tool::Stock => format!("{} -F", test.stock_name()),
            Tool::Rocade => format!("rocade {test} -o json"),
        };
        // A packet's time is long enough for 32 QPs that share an emulated CPU.
        let common = format!("-d rxe1 -x {gid_index} -s {bytes} -n {messages} -m 4096 -u 18");
        // As both tools have it unless told otherwise.
        let moderation = if *bytes > 8192 { 1 } else { 100 };
        let own = match (test.measure, test.operation) {
            (Measure::Bandwidth, Operation::Read) => format!("-q {qps} -t 128 -Q {moderation}"),
            (Measure::Bandwidth, _) => format!("-q {qps} -t 128 -Q {moderation} -I 0"),
            (Measure::Latency, Operation::Read) => String::new(),
            (Measure::Latency, _) => "-I 0".to_owned(),
        };
        format!("{program} {common} {own}")
    }

    fn rate(&self, tool: Tool, said: &str) -> Result<f64> {
        match tool {
            Tool::Rocade => {
                let bandwidth = size_of_rocade(said)?.bandwidth.context("no bandwidth")?;
                Ok(bandwidth.messages_per_second)
            }
            Tool::Stock => {
                // It prints MiB/s with 2 places, and millions of messages a second with 6.
                let row = self.row_of_stock(said)?;
                let (mib, millions) = (row.get(3), row.get(4));
                let (mib, millions) = mib.zip(millions).with_context(|| said.to_owned())?;
                let large = self.bytes > 4096;
                Ok(if large { mib * 1_048_576.0 / f64::from(self.bytes) } else { millions * 1e6 })
            }
        }
    }

    fn latency(&self, tool: Tool, said: &str) -> Result<Vec<f64>> {
        match tool {
            Tool::Rocade => {
                let latency = size_of_rocade(said)?.latency.and_then(|latency| latency.stock);
                latency.map(|it| vec![it.typical_us, it.p99_us]).with_context(|| said.to_owned())
            }
            // bytes, messages, min, max, typical, average, deviation, 99 %, 99.9 %
            Tool::Stock => match self.row_of_stock(said)?[..] {
                [_, _, _, _, typical, _, _, p99, _] => Ok(vec![typical, p99]),
                _ => anyhow::bail!("no row of a latency: {said}"),
            },
        }
    }

    /// The row that begins with the size.
    fn row_of_stock(&self, said: &str) -> Result<Vec<f64>> {
        let rows =
            said.lines().map(|line| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>());
        let mut rows = rows.flatten().filter(|row| row.first() == Some(&f64::from(self.bytes)));
        rows.next().with_context(|| format!("no row of {} bytes: {said}", self.bytes))
    }

    fn user_seconds(&self, ends: &mut Ends, tool: Tool, messages: u32) -> Result<f64> {
        let said = self.run(ends, tool, "TIMEFORMAT='user %3U'; time", messages)?;
        let seconds = said.lines().find_map(|line| line.strip_prefix("user "));
        seconds.and_then(|it| it.parse().ok()).with_context(|| format!("no user time: {said}"))
    }

    /// Milliseconds, by the kernel's events of the client's node, whose times are of one clock.
    fn start(&self, ends: &mut Ends, tool: Tool) -> Result<f64> {
        let program = if tool == Tool::Stock { self.test.stock_name() } else { "rocade" };
        ends.ask(&format!(
            "cd /sys/kernel/tracing; [ -d events ] || mount -t tracefs tracefs .; cd /sys/kernel/tracing; echo >trace; \
             echo 'filename ~ \"*/{program}\"' >events/sched/sched_process_exec/filter; \
             echo 'name == \"eth1\" && protocol == 0x800' >events/net/net_dev_start_xmit/filter; \
             echo 1 | tee events/sched/sched_process_exec/enable >events/net/net_dev_start_xmit/enable; cd /"
        ))?;
        // The other end waits already, as where a person starts both.
        self.run(ends, tool, "sleep 1;", self.messages)?;
        let said = ends.ask(
            "cd /sys/kernel/tracing; echo 0 | tee events/sched/sched_process_exec/enable >events/net/net_dev_start_xmit/enable; \
             cat trace; cd /",
        )?;
        let at = |event: &str| {
            let time = said.lines().find_map(|line| line.split_once(event)?.0.split_whitespace().last());
            let seconds = time.and_then(|time| time.trim_end_matches(':').parse::<f64>().ok());
            seconds.with_context(|| format!("no {event} {said}"))
        };
        let (exec, packet) = (at("sched_process_exec:")?, at("net_dev_start_xmit:")?);
        ensure!(packet > exec, "a packet came before the start: {said}");
        Ok((packet - exec) * 1e3)
    }
}

/// The one size of rocade's JSON, which follows what it wrote on stderr.
fn size_of_rocade(said: &str) -> Result<SizeResult> {
    let json = said.find("\n{").map_or(said, |at| &said[at..]);
    let result: PerfResult = serde_json::from_str(json).with_context(|| said.to_owned())?;
    ensure!(result.options.data_seed.is_none(), "data was checked: {said}");
    result.results.into_iter().next().with_context(|| format!("no result: {said}"))
}
