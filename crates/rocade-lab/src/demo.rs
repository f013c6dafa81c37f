//! The demo: every row of the chain printed with what was typed, what came back and its verdict, then one table.
//! Owns the printing and the order; rows are `chain`'s, the cluster is `cluster`'s.

use std::time::Instant;

use anyhow::{Result, bail};

use crate::cache::Cache;
use crate::chain::{self, Binary, Chain, Row, Seen};
use crate::cluster::{Cluster, Options};
use crate::steps::tell;
use crate::{host_packages, preflight, product};

/// A row's end.
struct Line {
    name: &'static str,
    verdict: Verdict,
    seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    NotProven,
}

/// Runs the demo; true if no row failed. With `keep` the cluster stays up.
///
/// # Errors
/// The machine lacks something, or the lab itself fails to start or to end.
pub fn run_demo(cache: &Cache, keep: bool) -> Result<bool> {
    let begun = Instant::now();
    preflight::require(cache)?;
    if keep && Cluster::attach(cache).is_some() {
        bail!("a lab is up already, so this one could not be kept: end it with `rocade-lab down`");
    }
    host_packages::install(cache)?;
    let rocade = product::build(cache.steps())?;
    let mut lines = show_rows(&chain::recorded_rows(), &Binary::of(&rocade));
    let cluster = Cluster::start(cache, &Options { rocade: Some(rocade.clone()), ..Options::default() })?;
    product::give(cache, &cluster, &rocade)?;
    let chain = Chain::on(cluster);
    lines.extend(show_rows(&chain::cluster_rows(), &chain));
    lines.extend(show_rows(&chain::unproven_rows(), &chain));
    let good = lines.iter().all(|line| line.verdict != Verdict::Failed);
    if !good {
        tell(&format!("{:#}", chain.cluster.with_logs(anyhow::anyhow!("a row failed"))));
    }
    if keep {
        chain.cluster.detach()?;
    } else {
        cache.steps().run("taking the lab down", || chain.cluster.stop())?;
    }
    print!("{}", render_table(&lines));
    println!("{:.0} s in all", begun.elapsed().as_secs_f64());
    if keep {
        print!("{KEPT}");
    }
    Ok(good)
}

const KEPT: &str = "
The cluster stays up. To use it:
  make lab ARGS=status                           nodes, Pods, processes
  make lab ARGS='kubectl get pods -A'            kubectl on it
  make lab ARGS='sh node1 rocade inventory'      a command on a node; without one, a shell
  make lab ARGS='kubectl exec -n demo rdma-pod1 -- rocade inventory'
  make lab ARGS=down                             ends it
";

fn show_rows<C>(rows: &[Row<C>], bench: &C) -> Vec<Line> {
    rows.iter().map(|row| show_row(row, bench)).collect()
}

fn show_row<C>(row: &Row<C>, bench: &C) -> Line {
    println!("\n── {}", row.name);
    for typed in &row.typed {
        println!("   $ {typed}");
    }
    let begun = Instant::now();
    let result = (row.run)(bench);
    let seconds = begun.elapsed().as_secs_f64();
    let (output, word, why, verdict) = match result {
        Ok(Seen::Passed { output, verdict }) => (output, "passed", verdict, Verdict::Passed),
        Ok(Seen::NotProven { reason }) => (String::new(), "not proven here", reason, Verdict::NotProven),
        Err(error) => (String::new(), "FAILED", format!("{error:#}"), Verdict::Failed),
    };
    for line in output.lines() {
        println!("     {line}");
    }
    println!("   {word}: {why} ({seconds:.1} s)");
    Line { name: row.name, verdict, seconds }
}

fn render_table(lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let mut table = format!("\n{:<width$}  {:<15}  {:>6}\n", "step", "verdict", "s");
    for line in lines {
        let word = match line.verdict {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::NotProven => "not proven here",
        };
        table += &format!("{:<width$}  {word:<15}  {:>6.1}\n", line.name, line.seconds);
    }
    let count = |verdict| lines.iter().filter(|line| line.verdict == verdict).count();
    let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
    table + &format!("{passed} passed, {failed} failed, {} not proven here\n", count(Verdict::NotProven))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_errs_is_a_failed_line_and_the_others_are_counted_apart() {
        let row = |name, run| Row { name, typed: vec![], run };
        let rows: [Row<()>; 3] = [
            row("good", |()| Ok(Seen::Passed { output: "x".into(), verdict: "y".into() })),
            row("bad", |()| anyhow::bail!("no")),
            row("cannot be shown", |()| Ok(Seen::NotProven { reason: "z".into() })),
        ];
        let table = render_table(&show_rows(&rows, &()));
        assert!(table.ends_with("1 passed, 1 failed, 1 not proven here\n"), "{table}");
    }
}
