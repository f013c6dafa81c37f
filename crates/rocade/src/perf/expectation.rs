//! What a result is expected to be, as flags and a file. The verdict is core's.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rocade_core::pair::Role;
use rocade_core::pair::perf::Options;
use rocade_core::pair::perf::expect::Expected;

use crate::outcome::Advice;

/// Flags of what is expected.
#[derive(Debug, Default, Clone, clap::Args)]
pub(crate) struct Expectations {
    /// Fail below this average bandwidth of the best size: 10⁹ bit/s, or as 90% of the slower port's rate
    #[arg(long, value_name = "GBPS", value_parser = parse_gbps)]
    expect_gbps: Option<Gbps>,
    /// Fail above this median latency of the best size, us
    #[arg(long, value_name = "US", value_parser = parse_us)]
    expect_us: Option<f64>,
    /// Fail if a size is worse than in an earlier result of the same test, -q and -b, as `-o json` writes it
    #[arg(long, value_name = "RESULT.json")]
    expect_from: Option<PathBuf>,
    /// So much of the earlier bandwidth is enough, and a latency that is longer by as much
    #[arg(long, value_name = "PERCENT", requires = "expect_from", default_value = "95%", value_parser = parse_percent)]
    within: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Gbps {
    Absolute(f64),
    Share(f64),
}

impl Expectations {
    /// Reads the earlier result; all of it is what the test measures. A client says what is run, a server may be told
    /// otherwise: it judges by what was run.
    pub(crate) fn settle(&self, options: &Options, role: Role) -> anyhow::Result<Vec<Expected>> {
        let test = options.test;
        let mut all = Vec::new();
        all.extend(self.expect_gbps.map(|gbps| match gbps {
            Gbps::Absolute(gbps) => Expected::Gbps(gbps),
            Gbps::Share(share) => Expected::RateShare(share),
        }));
        all.extend(self.expect_us.map(Expected::Us));
        if let Some(file) = &self.expect_from {
            all.push(Expected::From {
                earlier: Box::new(read(file, |text| serde_json::from_str(text))?),
                within: self.within,
            });
        }
        for expected in &all {
            let hint = format!("expect what {test} measures");
            expected.check(test).context(Advice::new("nothing to judge", hint))?;
            if role == Role::Client {
                let hint = "make the earlier result with the options of this test";
                expected.check_alike(options).context(Advice::new("nothing to judge", hint))?;
            }
        }
        Ok(all)
    }
}

/// An earlier result.
pub(crate) fn read<T>(file: &Path, parse: fn(&str) -> serde_json::Result<T>) -> anyhow::Result<T> {
    let hint = "it takes a file that a test wrote with `-o json > FILE`";
    let advice = || Advice::new(format!("--expect-from {}", file.display()), hint);
    let text = std::fs::read_to_string(file).with_context(advice)?;
    parse(&text).with_context(advice)
}

/// A time that is not nothing.
pub(crate) fn parse_us(text: &str) -> Result<f64, String> {
    positive(text).ok_or_else(|| "a latency is a number of microseconds, more than 0".to_owned())
}

fn positive(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0)
}

fn parse_gbps(text: &str) -> Result<Gbps, String> {
    if text.ends_with('%') {
        return parse_percent(text).map(Gbps::Share);
    }
    positive(text)
        .map(Gbps::Absolute)
        .ok_or_else(|| "a bandwidth is a number of 10⁹ bit/s, or as 90%".to_owned())
}

/// A part of one; the sign may be left out.
pub(crate) fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let share = number.map(|percent: f64| percent / 100.0).filter(|share| (0.001..=1.0).contains(share));
    share.ok_or_else(|| "a percentage is more than 0 and at most 100%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_more_than_nothing_and_a_bandwidth_may_be_a_share_of_the_ports_rate() {
        assert_eq!(parse_gbps("380"), Ok(Gbps::Absolute(380.0)));
        assert_eq!(parse_gbps("90%"), Ok(Gbps::Share(0.9)));
        for wrong in ["", "%", "0", "-1", "nan", "inf", "101%", "0%"] {
            assert!(parse_gbps(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_us("2.5"), Ok(2.5));
        for wrong in ["", "0", "-1", "nan", "inf", "2us"] {
            assert!(parse_us(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-5", "101%", "nan", "a lot"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
        assert_eq!((parse_percent("95%"), parse_percent("95")), (Ok(0.95), Ok(0.95)));
    }
}
