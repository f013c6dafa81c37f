//! Figures as a table: each tool's with their spread, the median of the paired ratios with its interval, and the goal.

use rocade_lab::paired::{self, Interval};

use crate::cells::Tool;

/// What must hold of the interval of rocade's part of the stock tool's figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// 0.95 or more for certain, and nothing that shows less than 1.
    NotLess,
    /// The mirror of it.
    NotMore,
    /// Below this for certain.
    Below(f64),
}

/// One measure, of both tools in turn.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    unit: &'static str,
    goal: Goal,
    ours: Vec<f64>,
    stock: Vec<f64>,
}

impl Row {
    pub(crate) fn new(name: String, unit: &'static str, goal: Goal) -> Row {
        Row { name, unit, goal, ours: Vec::new(), stock: Vec::new() }
    }

    pub(crate) fn add(&mut self, tool: Tool, figure: f64) {
        match tool {
            Tool::Rocade => self.ours.push(figure),
            Tool::Stock => self.stock.push(figure),
        }
    }

    fn interval(&self) -> Option<Interval> {
        let ratios: Vec<f64> = self.ours.iter().zip(&self.stock).map(|(ours, stock)| ours / stock).collect();
        paired::interval(&ratios)
    }
}

impl Goal {
    fn is_met(self, interval: &Interval) -> bool {
        match self {
            Goal::NotLess => interval.lower >= 0.95 && interval.upper >= 1.0,
            Goal::NotMore => interval.upper <= 1.05 && interval.lower <= 1.0,
            Goal::Below(part) => interval.upper < part,
        }
    }

    fn words(self) -> String {
        match self {
            Goal::NotLess => ">= 0.95 .. 1.00".to_owned(),
            Goal::NotMore => "<= 1.00 .. 1.05".to_owned(),
            Goal::Below(part) => format!("< {part:.2}"),
        }
    }
}

/// Prints all rows; whether each goal is met.
pub(crate) fn print(rows: &[Row]) -> bool {
    println!(
        "The ratio is rocade's figure over the stock tool's: median of the pairs, 95 % interval of the median."
    );
    println!("Bandwidth is messages/s times the size, so that one ratio is both's.");
    println!(
        "{:36} {:>10}  {:22} {:22} {:22} {:16}",
        "median (least-most)", "", "rocade", "perftest", "ratio (interval)", "goal"
    );
    let mut all_met = true;
    for row in rows {
        let interval = row.interval();
        let is_met = interval.is_some_and(|interval| row.goal.is_met(&interval));
        all_met &= is_met;
        let ratio = interval
            .map_or_else(String::new, |it| format!("{:.2} ({:.2}-{:.2})", it.median, it.lower, it.upper));
        let (ours, stock, goal) = (shown(&row.ours), shown(&row.stock), row.goal.words());
        let met = if is_met { "met" } else { "MISSED" };
        println!("{:36} {:>10}  {ours:22} {stock:22} {ratio:22} {goal:16} {met}", row.name, row.unit);
    }
    all_met
}

fn shown(figures: &[f64]) -> String {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [least, median, most] = [0, sorted.len() / 2, sorted.len().saturating_sub(1)]
        .map(|at| sorted.get(at).copied().unwrap_or(f64::NAN));
    let places = if median < 20.0 { 2 } else { 0 };
    format!("{median:.places$} ({least:.places$}-{most:.places$})")
}
