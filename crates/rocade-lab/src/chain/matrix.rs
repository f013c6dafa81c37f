//! Rows of bandwidth and latency tests: each tool of perftest at either end, of Debian 13 and 12, and rocade at both. A
//! cell is judged by both exit codes, by the figures where both ends must print the same, and by the port's counters.

use std::fmt::Write;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rocade_core::pair::perf::{Measure, Operation, PerfResult, Test};

mod all_sizes;

use super::families;
use super::pingpong::{counters, gid_index, run_pair};
use super::place::Place;
use super::{Chain, Row, Seen, both_streams, passed, wait_for};
use crate::cluster::plan;

/// Set to anything, the rows go through sizes, numbers of QPs and directions.
const FULL: &str = "ROCADE_MATRIX_FULL";

/// Which ends rocade has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Asking,
    Answering,
    Both,
}

/// One test of the matrix.
#[derive(Debug, Clone, Copy)]
struct Cell {
    test: Test,
    ends: Ends,
    bytes: u32,
    qps: u32,
    both_ways: bool,
    /// Each byte is compared, which only two ends of rocade do.
    checked: bool,
    messages: u32,
}

/// After the rows of the guide.
pub fn matrix_rows() -> Vec<Row<Chain>> {
    let mut rows = vec![
        Row {
            name: "all six tests, rocade with perftest of Debian 13 at either end",
            typed: vec!["ib_write_bw -d rxe1 -x INDEX …  (other end: rocade write-bw … ADDRESS)".into()],
            run: |chain| stock(chain, ""),
        },
        Row {
            name: "all six tests, perftest and libibverbs of Debian 12 at both ends",
            typed: vec!["the same in a tree of Debian 12".into()],
            run: |chain| stock(chain, "debian12 "),
        },
        Row {
            name: "all six tests, rocade at both ends, without and with each byte compared",
            typed: vec!["rocade write-bw --check …  (other end: rocade write-bw)".into()],
            run: |chain| matrix(chain, "", &[Ends::Both]),
        },
        families::row(),
    ];
    if std::env::var_os(FULL).is_some() {
        rows.push(all_sizes::row());
    }
    rows
}

fn stock(chain: &Chain, tree: &str) -> Result<Seen> {
    matrix(chain, tree, &[Ends::Asking, Ends::Answering])
}

fn matrix(chain: &Chain, tree: &str, ends: &[Ends]) -> Result<Seen> {
    let index = gid_index(chain, Place::Node(plan::NODES[0]))?;
    ensure!(index == gid_index(chain, Place::Node(plan::NODES[1]))?, "the nodes' GID tables differ");
    let cells = cells(ends, std::env::var_os(FULL).is_some());
    let held = resources(chain)?;
    let (mut table, mut failed) = (String::new(), Vec::new());
    for cell in &cells {
        let line = match meet(chain, tree, index.0, cell) {
            Ok(line) => line,
            Err(error) => {
                failed.push(format!("{}: {error:#}", cell.name()));
                "FAILED".to_owned()
            }
        };
        writeln!(table, "{:<52} {line}", cell.name())?;
    }
    println!("{table}");
    ensure!(failed.is_empty(), "{} of {} cells failed:\n{}", failed.len(), cells.len(), failed.join("\n"));
    wait_for(Duration::from_secs(10), || {
        let now = resources(chain)?;
        Ok(if now == held { Ok(()) } else { Err(format!("RDMA objects were {held}, are {now}")) })
    })?;
    let verdict = format!(
        "{} cells: exit codes, figures of both ends, bytes by the port's counters; no RDMA object is left",
        cells.len()
    );
    passed(table, verdict)
}

/// The kernel's count of QPs, CQs, MRs, PDs and contexts of both nodes.
fn resources(chain: &Chain) -> Result<String> {
    plan::NODES.iter().map(|node| chain.node(node, "rdma resource")).collect()
}

fn cells(ends: &[Ends], full: bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    let ends = ends.iter().flat_map(|ends| {
        let checks: &[bool] = if *ends == Ends::Both { &[false, true] } else { &[false] };
        checks.iter().map(|checked| (*ends, *checked))
    });
    for ((ends, checked), test) in ends.clone().flat_map(|ends| Test::ALL.map(|test| (ends, test))) {
        let bandwidth = test.measure == Measure::Bandwidth;
        let sizes: &[u32] = if full { &[2, 4096, 65536] } else { &[4096] };
        let qps: &[u32] = if full && bandwidth { &[1, 4] } else { &[1] };
        let ways: &[bool] = if full && bandwidth { &[false, true] } else { &[false] };
        for (bytes, qps, both_ways) in sizes
            .iter()
            .flat_map(|size| qps.iter().flat_map(move |qps| ways.iter().map(move |way| (*size, *qps, *way))))
        {
            let messages = if bandwidth { 64 } else { 50 };
            cells.push(Cell { test, ends, bytes, qps, both_ways, checked, messages });
        }
    }
    if !full {
        let test = Test { operation: Operation::Write, measure: Measure::Bandwidth };
        let (bytes, qps, both_ways, messages) = (65536, 2, true, 16);
        cells.extend(ends.map(|(ends, checked)| Cell {
            test,
            ends,
            bytes,
            qps,
            both_ways,
            checked,
            messages,
        }));
    }
    cells
}

/// Runs a cell and holds it against what was asked for; gives the figures.
fn meet(chain: &Chain, tree: &str, index: u32, cell: &Cell) -> Result<String> {
    let [at, from] = plan::NODES.map(Place::Node);
    let address = plan::rail_address(1, 1);
    let (server, client) = cell.lines(tree, index, &address);
    let before = counters(chain, at.name())?;
    let (served, asked) = run_pair(chain, (at, &server), (from, &client))?;
    let after = counters(chain, at.name())?;
    for (line, output) in [(&server, &served), (&client, &asked)] {
        ensure!(output.status.success(), "`{line}`: {}\n{}", output.status, both_streams(output));
    }
    let moved: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    cell.judge_counters(&moved)?;
    let of = |is_rocade, output: &Output| cell.figure(is_rocade, &String::from_utf8_lossy(&output.stdout));
    let asked_figure = of(cell.ends != Ends::Answering, &asked).context("the client's figure")?;
    let served_figure = of(cell.ends != Ends::Asking, &served).context("the server's figure")?;
    if cell.prints_the_same() {
        let (one, other) = (asked_figure.context("no figure of the client")?, served_figure);
        let other = other.context("no figure of the server")?;
        // A stock tool prints two or six places.
        ensure!((one - other).abs() <= 0.005 + one * 1e-3, "the ends print {one} and {other} Gbit/s");
    }
    let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.4}"));
    let unit = if cell.test.measure == Measure::Bandwidth { "Gbit/s" } else { "us" };
    let figures = format!("{} {unit}; server {}", shown(asked_figure), shown(served_figure));
    // Both exit codes were asserted above.
    Ok(format!("exit 0, server 0; {figures}; counted {moved:?}"))
}

impl Cell {
    fn name(&self) -> String {
        let ends = match self.ends {
            Ends::Asking => format!("rocade -> {}", self.test.stock_name()),
            Ends::Answering => format!("{} -> rocade", self.test.stock_name()),
            Ends::Both => format!("rocade -> rocade {}", self.test),
        };
        let both = if self.both_ways { " -b" } else { "" };
        let check = if self.checked { " --check" } else { "" };
        format!("{ends} -s {} -q {}{both}{check}", self.bytes, self.qps)
    }

    /// The server's and the client's command line.
    fn lines(&self, tree: &str, index: u32, address: &str) -> (String, String) {
        let Cell { test, bytes, qps, messages, .. } = self;
        let both = if self.both_ways { " -b" } else { "" };
        let many =
            if test.measure == Measure::Bandwidth { format!(" -q {qps}{both}") } else { String::new() };
        let check = if self.checked { " --check" } else { "" };
        let common = format!("-d rxe1 -s {bytes} -n {messages}{many}");
        let gbits = if test.measure == Measure::Bandwidth { " --report_gbits" } else { "" };
        let stock = format!("{tree}{} -F -x {index} {common}{gbits}", test.stock_name());
        let rocade = format!("{tree}rocade {test} {common}{gbits} -o json");
        match self.ends {
            Ends::Asking => (stock, format!("{rocade} {address}")),
            Ends::Answering => (rocade, format!("{stock} {address}")),
            Ends::Both => (format!("rocade {test} -d rxe1 -o json"), format!("{rocade}{check} {address}")),
        }
    }

    /// What an end printed: Gbit/s, or the typical latency, µs. None where it prints nothing, as the answering end of a
    /// read's latency does.
    fn figure(&self, is_rocade: bool, said: &str) -> Result<Option<f64>> {
        if is_rocade { self.figure_of_rocade(said) } else { Ok(self.figure_of_stock(said)) }
    }

    fn figure_of_rocade(&self, said: &str) -> Result<Option<f64>> {
        let result: PerfResult = serde_json::from_str(said).with_context(|| said.to_owned())?;
        ensure!(result.options.data_seed.is_some() == self.checked, "data checked or not: {said}");
        let size = result.results.first();
        ensure!(size.is_none_or(|size| size.message_bytes == self.bytes), "another size: {said}");
        Ok(size.and_then(|size| match self.test.measure {
            Measure::Bandwidth => size.bandwidth.map(|it| it.average_gbps),
            Measure::Latency => size.latency.map(|it| it.p50_us),
        }))
    }

    /// The row that begins with the size: average bandwidth is its fourth field, typical latency its fifth.
    fn figure_of_stock(&self, said: &str) -> Option<f64> {
        let row = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut row = row.filter(|row| row.first().is_some_and(|it| *it == self.bytes.to_string()));
        let at = if self.test.measure == Measure::Bandwidth { 3 } else { 4 };
        row.next()?.get(at)?.parse().ok()
    }

    /// Of a write or read of one direction the server prints what the client found, and of both the ends print the sum.
    fn prints_the_same(&self) -> bool {
        let bandwidth = self.test.measure == Measure::Bandwidth;
        bandwidth && (self.ends == Ends::Both || self.test.operation != Operation::Send)
    }

    /// `moved`: bytes that the server's port sent and received. Headers and repeats come on top.
    fn judge_counters(&self, moved: &[u64]) -> Result<()> {
        let one_way = u64::from(self.bytes) * u64::from(self.messages) * u64::from(self.qps);
        let lat_both = self.test.measure == Measure::Latency && self.test.operation != Operation::Read;
        let both = self.both_ways || lat_both;
        let (sent, received) = match self.test.operation {
            _ if both => (one_way, one_way),
            Operation::Read => (one_way, 0),
            Operation::Write | Operation::Send => (0, one_way),
        };
        ensure!(
            moved[0] >= sent && moved[1] >= received,
            "the server's port sent and received {moved:?} bytes, wanted {sent} and {received} at least"
        );
        Ok(())
    }
}
