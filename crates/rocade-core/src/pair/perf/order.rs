//! Which messages are due when, in each tool (the main function of perftest's src/*_bw.c and *_lat.c, 4.5 to 26.04), and
//! between two ends of rocade. The version, memory and MTU go ahead of all this, alike in every tool.

use super::{Amount, Measure, Operation, Options, Sizes};

/// One exchange. In each the client writes and then reads, the server reads and then writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Each QP's key in turn.
    Keys,
    /// The first QP's key again, which says only that its sender has come so far.
    Barrier,
    /// The figures of a bandwidth test, by stock tools.
    Report,
    /// The figures of any test, between two ends of rocade.
    Results,
}

/// A test's exchanges, in order. What lies between them is each end's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Up to where each end connects its QPs.
    pub opening: Vec<Step>,
    /// Once they are connected.
    pub connected: Vec<Step>,
    /// Ahead of each size, once its receives are posted.
    pub before_each: Vec<Step>,
    /// Once each size has run.
    pub after_each: Vec<Step>,
    /// Then, to tell what was found of it.
    pub found_each: Vec<Step>,
    /// Once all sizes have.
    pub closing: Vec<Step>,
}

impl Order {
    /// Between a stock tool and any end.
    pub fn stock(options: &Options) -> Order {
        use Step::{Barrier, Keys, Report};
        let both_send = options.bidirectional;
        let many = options.sizes != Sizes::One(options.sizes.largest());
        let (opening, connected) = match (options.test.operation, options.test.measure) {
            (Operation::Send, _) => (vec![Keys], vec![Barrier, Keys]),
            (_, Measure::Bandwidth) => (vec![Keys], vec![Keys, Barrier]),
            (_, Measure::Latency) => (vec![Barrier, Keys], vec![Keys, Barrier]),
        };
        let when = |condition: bool, step: Step| if condition { vec![step] } else { vec![] };
        let (before_each, after_each, found_each, closing) =
            match (options.test.operation, options.test.measure) {
                (Operation::Send, Measure::Bandwidth) => {
                    let by_count = matches!(options.amount, Amount::Iterations(_));
                    let found = [when(both_send && by_count, Report), when(many, Barrier)].concat();
                    (vec![Barrier], vec![], found, vec![Barrier])
                }
                (_, Measure::Bandwidth) if both_send => {
                    (vec![Barrier], when(many, Barrier), vec![Report], vec![Barrier])
                }
                (_, Measure::Bandwidth) => (vec![], vec![], vec![], vec![Barrier, Report, Barrier]),
                (Operation::Send, Measure::Latency) => (vec![Barrier], vec![], vec![], vec![Barrier]),
                (Operation::Read, Measure::Latency) => (vec![], vec![], vec![], vec![Barrier]),
                (Operation::Write, Measure::Latency) => (vec![], vec![], vec![], vec![]),
            };
        Order { opening, connected, before_each, after_each, found_each, closing }
    }

    /// Between two ends of rocade, whatever the test.
    pub fn own() -> Order {
        use Step::{Barrier, Keys, Results};
        Order {
            opening: vec![Keys],
            connected: vec![Barrier],
            before_each: vec![Barrier],
            after_each: vec![Barrier],
            found_each: vec![Results],
            closing: vec![],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::perf::Test;

    /// One line a tool: its exchanges in one direction, and with -b; `[..]` is gone through once a size, `*` with -a alone.
    const TOOLS: &[(&str, &str, &str)] = &[
        (
            "write-bw",
            "Keys | Keys Barrier | [run] Barrier Report Barrier",
            "Keys | Keys Barrier | [Barrier run *Barrier Report] Barrier",
        ),
        (
            "read-bw",
            "Keys | Keys Barrier | [run] Barrier Report Barrier",
            "Keys | Keys Barrier | [Barrier run *Barrier Report] Barrier",
        ),
        (
            "send-bw",
            "Keys | Barrier Keys | [Barrier run *Barrier] Barrier",
            "Keys | Barrier Keys | [Barrier run Report *Barrier] Barrier",
        ),
        ("write-lat", "Barrier Keys | Keys Barrier | [run]", ""),
        ("read-lat", "Barrier Keys | Keys Barrier | [run] Barrier", ""),
        ("send-lat", "Keys | Barrier Keys | [Barrier run] Barrier", ""),
    ];

    fn in_words(order: &Order) -> String {
        let words = |steps: &[Step]| steps.iter().map(|step| format!("{step:?} ")).collect::<String>();
        let Order { opening, connected, before_each, after_each, found_each, closing } = order;
        let each = format!("{}run {}{}", words(before_each), words(after_each), words(found_each));
        let text =
            format!("{}| {}| [{}] {}", words(opening), words(connected), each.trim_end(), words(closing));
        text.trim_end().to_owned()
    }

    #[test]
    fn each_tool_has_the_order_of_its_main_function() {
        for (name, one_way, both_ways) in TOOLS {
            let test = Test::ALL.into_iter().find(|test| test.name() == *name).unwrap();
            for (bidirectional, expected) in [(false, one_way), (true, both_ways)] {
                for sizes in [Sizes::One(64), Sizes::All] {
                    let all = sizes == Sizes::All;
                    let options = Options { bidirectional, sizes, ..Options::stock(test) };
                    let star = if all { "" } else { "*Barrier" };
                    let expected =
                        expected.replace(star, "").replace('*', "").replace("  ", " ").replace(" ]", "]");
                    if !expected.is_empty() {
                        assert_eq!(
                            in_words(&Order::stock(&options)),
                            expected,
                            "{name} {bidirectional} {all}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sends_both_ways_by_time_are_not_reported() {
        let test = Test { operation: Operation::Send, measure: Measure::Bandwidth };
        let options = Options { bidirectional: true, amount: Amount::Seconds(4), ..Options::stock(test) };
        assert_eq!(in_words(&Order::stock(&options)), "Keys | Barrier Keys | [Barrier run] Barrier");
    }
}
