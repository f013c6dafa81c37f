//! A row that times the inventory on a live node against the tools that it replaces, and against the bare reading of the
//! GID files, which is most of its work there. The figures are told, not judged: the node is emulated and shares its CPUs.

use anyhow::{Context, Result, ensure};

use super::{Chain, Row, Seen, passed};
use crate::cluster::plan;

const REPLACED: &str = "rdma link; rdma system; lspci; ls /sys/class/infiniband; ibv_devinfo -v";
/// Of a debug build the ratio says little.
const RUNS: usize = if cfg!(debug_assertions) { 5 } else { 25 };

/// On a node that is Ready.
pub fn timing_rows() -> Vec<Row<Chain>> {
    vec![Row {
        name: "one command takes the time of a part of those that it replaces",
        typed: vec!["time rocade inventory".into(), format!("time ({REPLACED})")],
        run: compare_times,
    }]
}

/// In turn, so that all meet the same noise.
fn compare_times(chain: &Chain) -> Result<Seen> {
    let line = format!(
        "command -v lspci ibv_devinfo >/dev/null || exit 1; now() {{ date +%s%N; }}; \
         for run in $(seq {RUNS}); do a=$(now); rocade inventory >/dev/null; b=$(now); {{ {REPLACED}; }} >/dev/null; \
         c=$(now); cat /sys/class/infiniband/*/ports/*/gids/* >/dev/null; d=$(now); \
         echo $(((b - a) / 1000)) $(((c - b) / 1000)) $(((d - c) / 1000)); done"
    );
    let said = chain.node(plan::NODES[0], &line)?;
    let runs = said.lines().map(parse_run).collect::<Result<Vec<_>>>()?;
    ensure!(runs.len() == RUNS, "{RUNS} runs wanted: {said}");
    let column = |of: fn(&[f64; 3]) -> f64| spread(runs.iter().map(of).collect());
    let profile = if cfg!(debug_assertions) { "built for debugging" } else { "built for release" };
    let told = format!(
        "rocade inventory ({profile}) {} ms, {REPLACED} {} ms: ratio {}; cat of the GID files alone {} ms, ratio {}; \
         medians of {RUNS} runs (least to most)",
        column(|[ours, ..]| ours / 1e3),
        column(|[_, theirs, _]| theirs / 1e3),
        column(|[ours, theirs, _]| ours / theirs),
        column(|[.., files]| files / 1e3),
        column(|[_, theirs, files]| files / theirs),
    );
    passed(told.clone(), told)
}

/// Three times in us.
fn parse_run(line: &str) -> Result<[f64; 3]> {
    let times = line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    times.try_into().ok().with_context(|| format!("wanted three times, seen {line}"))
}

/// `0.52 (0.44 to 0.71)`: median and range.
pub(super) fn spread(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let places = if values.last().is_some_and(|most| *most < 10.0) { 2 } else { 0 };
    let [least, median, most] = [0, values.len() / 2, values.len().saturating_sub(1)]
        .map(|at| values.get(at).copied().unwrap_or(f64::NAN));
    format!("{median:.places$} ({least:.places$} to {most:.places$})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_spread() {
        assert_eq!(spread(vec![0.6, 0.5, 0.9]), "0.60 (0.50 to 0.90)");
        assert_eq!(spread(vec![120.4, 99.6]), "120 (100 to 120)");
        assert!(parse_run("1 2").is_err() && parse_run("1 2 x").is_err());
        assert_eq!(parse_run("1 2 3").unwrap(), [1.0, 2.0, 3.0]);
    }
}
