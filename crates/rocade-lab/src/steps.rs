//! What the lab tells while it works: one line on stderr as a step begins and one as it ends, with its time.
//! Owns wording and clock of these lines only.

use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, Result};

/// Prints steps; times are counted from when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    begun: Instant,
}

impl Steps {
    /// Starts the clock.
    pub fn new() -> Self {
        Self { begun: Instant::now() }
    }

    /// Says that `what` begins, does it, and says how long it took.
    ///
    /// # Errors
    /// Those of `work`, with `what` before them.
    pub fn run<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.note(&format!("{what} …"));
        let begun = Instant::now();
        let result = work().with_context(|| what.to_string());
        let verdict = if result.is_ok() { "done" } else { "FAILED" };
        self.note(&format!("{what}: {verdict} in {:.1} s", begun.elapsed().as_secs_f64()));
        result
    }

    /// One line, with the seconds since the start.
    pub fn note(&self, text: &str) {
        tell(&format!("[{:6.1} s] {text}", self.begun.elapsed().as_secs_f64()));
    }
}

/// A line on stderr. Where nobody reads it (`2>&1 | head`) the work goes on, and above all the taking down.
pub fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

impl Default for Steps {
    fn default() -> Self {
        Self::new()
    }
}
