//! What a pingpong's result is expected to be, as flags and a file. The verdict is core's.

use std::path::PathBuf;

use anyhow::Context;
use rocade_core::pair::expect::Expected;

use crate::outcome::Advice;
use crate::perf::expectation::{parse_percent, parse_us, read};

/// Flags of what is expected.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Expectations {
    /// Fail above this average time of a round trip, us
    #[arg(long, value_name = "US", value_parser = parse_us)]
    expect_us: Option<f64>,
    /// Fail if round trips take longer than in an earlier result of the same -s, as `-o json` writes it
    #[arg(long, value_name = "RESULT.json")]
    expect_from: Option<PathBuf>,
    /// A time that is longer by as much is short enough
    #[arg(long, value_name = "PERCENT", requires = "expect_from", default_value = "95%", value_parser = parse_percent)]
    within: f64,
}

impl Expectations {
    /// Reads the earlier result, which is of messages of that many bytes.
    pub(crate) fn settle(&self, message_bytes: u32) -> anyhow::Result<Vec<Expected>> {
        let mut all: Vec<Expected> = self.expect_us.map(Expected::Us).into_iter().collect();
        if let Some(file) = &self.expect_from {
            let earlier = Box::new(read(file, |text| serde_json::from_str(text))?);
            all.push(Expected::From { earlier, within: self.within });
        }
        for expected in &all {
            let hint = "make the earlier result with the -s of this test";
            expected.check(message_bytes).context(Advice::new("nothing to judge", hint))?;
        }
        Ok(all)
    }
}
