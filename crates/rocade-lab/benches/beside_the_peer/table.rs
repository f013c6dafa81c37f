//! Figures as a table: each with its spread, as a part of the peer's, and what was to be reached.

/// What must hold of the medians.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    /// At most this part of the peer's.
    Part(f64),
    /// At most this.
    AtMost(f64),
}

/// One measure, of both.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    unit: &'static str,
    ours: Vec<f64>,
    /// Empty where the peer was not measured.
    theirs: Vec<f64>,
    goal: Goal,
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        unit: &'static str,
        ours: Vec<f64>,
        theirs: Vec<f64>,
        goal: Goal,
    ) -> Row {
        Row { name, unit, ours, theirs, goal }
    }

    fn is_met(&self) -> bool {
        match self.goal {
            Goal::Part(part) => median(&self.ours) <= part * median(&self.theirs),
            Goal::AtMost(most) => median(&self.ours) <= most,
        }
    }

    /// The medians' ratio, and those of the runs that followed one another.
    fn ratio(&self) -> String {
        if self.theirs.is_empty() {
            return String::new();
        }
        let pairs: Vec<f64> =
            self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| ours / theirs).collect();
        let of_medians = median(&self.ours) / median(&self.theirs);
        let (least, most) = ends(&pairs);
        format!("{of_medians:.2} ({least:.2}-{most:.2})")
    }
}

/// Prints all rows; whether each goal is met.
pub(crate) fn print(rows: &[Row]) -> bool {
    println!(
        "{:20} {:>3}  {:26} {:26} {:18} {:14}",
        "median (spread)", "", "rocade", "peer", "ratio", "goal"
    );
    for row in rows {
        let goal = match row.goal {
            Goal::Part(part) => format!("ratio {part:.2}"),
            Goal::AtMost(most) => format!("{most:.2} {}", row.unit),
        };
        let met = if row.is_met() { "met" } else { "MISSED" };
        let (ours, theirs, ratio) = (shown(&row.ours), shown(&row.theirs), row.ratio());
        println!("{:20} {:>3}  {ours:26} {theirs:26} {ratio:18} {goal:14} {met}", row.name, row.unit);
    }
    rows.iter().all(Row::is_met)
}

fn shown(values: &[f64]) -> String {
    let (least, most) = ends(values);
    match values {
        [] => String::new(),
        [only] => format!("{only:.3}"),
        _ => format!("{:.3} ({least:.3}-{most:.3})", median(values)),
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(*v), most.max(*v)))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
