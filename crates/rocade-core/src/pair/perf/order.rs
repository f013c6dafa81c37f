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
