//! How far a test is, on one line of a terminal that the next one takes the place of.

use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use rocade_core::pair::perf::Measure;
use rocade_verbs::perftest::Progress;
use rocade_verbs::pingpong::SoFar;

use super::size::size_in_words;

/// A shorter run needs no such line.
const QUIET: Duration = Duration::from_secs(1);
/// To the start of the line, which is emptied.
const BACK: &str = "\r\x1b[K";

/// The line; gone when it is dropped.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    terminal: bool,
    shown: bool,
}

impl ProgressLine {
    /// Nothing is ever shown where stderr is no terminal.
    pub(crate) fn on_stderr() -> ProgressLine {
        ProgressLine { terminal: stderr().is_terminal(), shown: false }
    }

    /// Shows how far it is, unless the run is short so far.
    pub(crate) fn show(&mut self, progress: &Progress) {
        self.put(progress.elapsed, || render(progress));
    }

    /// The same of a pingpong.
    pub(crate) fn show_round_trips(&mut self, so_far: &SoFar) {
        self.put(so_far.elapsed, || render_round_trips(so_far));
    }

    fn put(&mut self, elapsed: Duration, words: impl FnOnce() -> String) {
        if self.terminal && elapsed >= QUIET {
            self.shown = true;
            let _ = write!(stderr(), "{BACK}{}", words()).and_then(|()| stderr().flush());
        }
    }

    /// Makes room for other lines.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(stderr(), "{BACK}").and_then(|()| stderr().flush());
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

fn render_round_trips(so_far: &SoFar) -> String {
    let share = u64::from(so_far.done.min(so_far.of)) * 100 / u64::from(so_far.of.max(1));
    format!(
        "{share} % in {:.0} s, {:.2} us a round trip",
        so_far.elapsed.as_secs_f64(),
        so_far.round_trip_us()
    )
}

fn render(progress: &Progress) -> String {
    let size = size_in_words(progress.message_bytes);
    let share = match progress.of {
        Some(of) if of > 0 => format!("{} %", progress.done.min(of) * 100 / of),
        _ => format!("{} messages", progress.done),
    };
    let figure = match progress.test.measure {
        Measure::Bandwidth => format!("{:.2} Gbit/s", progress.gbps()),
        Measure::Latency => format!("{:.2} us", progress.us()),
    };
    format!("{size}: {share} in {:.0} s, {figure}", progress.elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use rocade_core::pair::perf::{Operation, Test};

    use super::*;

    #[test]
    fn the_line_tells_size_share_time_and_rate() {
        let progress = Progress {
            test: Test::ALL[0],
            message_bytes: 65536,
            done: 1250,
            of: Some(5000),
            elapsed: Duration::from_millis(2400),
        };
        assert_eq!(render(&progress), "64K: 25 % in 2 s, 0.27 Gbit/s");
        assert_eq!(render(&Progress { of: None, ..progress }), "64K: 1250 messages in 2 s, 0.27 Gbit/s");
        let so_far = SoFar { done: 250, of: 1000, elapsed: Duration::from_millis(2400) };
        assert_eq!(render_round_trips(&so_far), "25 % in 2 s, 9600.00 us a round trip");
        let latency = |operation| {
            let test = Test { operation, measure: Measure::Latency };
            render(&Progress { test, message_bytes: 2, ..progress })
        };
        assert_eq!(latency(Operation::Send), "2: 25 % in 2 s, 960.00 us");
        assert_eq!(latency(Operation::Read), "2: 25 % in 2 s, 1920.00 us");
    }

    #[test]
    fn nothing_is_shown_where_stderr_is_no_terminal_or_the_run_is_short() {
        let progress =
            |elapsed| Progress { test: Test::ALL[0], message_bytes: 2, done: 1, of: None, elapsed };
        let mut pipe = ProgressLine { terminal: false, shown: false };
        pipe.show(&progress(10 * QUIET));
        let mut short = ProgressLine { terminal: true, shown: false };
        short.show(&progress(QUIET / 2));
        assert!(!pipe.shown && !short.shown);
    }
}
