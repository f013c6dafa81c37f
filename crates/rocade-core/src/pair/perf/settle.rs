//! Which options of a test go together, and what of them follows from others, as the stock tools have it
//! (perftest_parameters.c, force_dependecies) and where rocade can more.

use super::{Amount, Measure, Operation, Options, Sizes};

/// Most QPs, sends under way, receives kept posted and sends to a completion, as in the stock tools.
const MOST_QPS: u32 = 16384;
const MOST_DEPTH: u32 = 15_000;
const MOST_MODERATION: u32 = 1024;
/// The greatest message of an RC QP (InfiniBand Architecture 9.7.2, 2³¹ bytes) less one, as in the stock tools.
const MOST_BYTES: u32 = 0x7fff_ffff;
const ITERATIONS: std::ops::RangeInclusive<u64> = 5..=1 << 32;
/// Larger messages make a completion each, unless asked otherwise.
const MODERATED_BYTES: u32 = 8192;

/// Options that do not go together, or are out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{seen}: {wanted}")]
pub struct Contradiction {
    /// What was given.
    pub seen: String,
    /// What could be.
    pub wanted: String,
}

fn no(seen: impl Into<String>, wanted: impl Into<String>) -> Result<(), Contradiction> {
    Err(Contradiction { seen: seen.into(), wanted: wanted.into() })
}

impl Options {
    /// Lowers what is more than other options allow: sends under way to the messages of a QP, the completions' distance
    /// to the sends under way; and gives each large message a completion unless a distance was asked for.
    pub fn settled(mut self, moderation_asked: bool) -> Result<Options, Contradiction> {
        self.check()?;
        if let Amount::Iterations(iterations) = self.amount {
            self.tx_depth = self.tx_depth.min(u32::try_from(iterations).unwrap_or(u32::MAX));
        }
        let large = matches!(&self.sizes, Sizes::One(bytes) if *bytes > MODERATED_BYTES);
        if large && !moderation_asked && !self.events {
            self.cq_moderation = 1;
        }
        let receives = if self.test.operation == Operation::Send { self.rx_depth } else { u32::MAX };
        self.cq_moderation = self.cq_moderation.min(self.tx_depth).min(receives);
        Ok(self)
    }

    /// What an end has less of than was asked for, a sentence each: of the path MTU and the inline size, bytes, and of
    /// reads under way. What is asked for without an option is not told.
    pub fn lowered(&self, mtu_bytes: u32, inline_bytes: u32, outstanding_reads: u8) -> Vec<String> {
        let is_inline = self.sizes.each().iter().any(|bytes| *bytes <= self.inline_bytes);
        let usual = Options::stock(self.test).inline_bytes;
        let inline = Some(self.inline_bytes).filter(|asked| is_inline && *asked != usual);
        let told = |asked: Option<u32>, has: u32, what: &str, why: &str| {
            let asked = asked.filter(|asked| *asked > has)?;
            Some(format!("{what} {has}, not {asked} as asked for: {why}"))
        };
        let reads = self.outstanding_reads.map(u32::from);
        [
            told(self.mtu_bytes, mtu_bytes, "the path MTU in bytes is", "a port has no more"),
            told(
                inline,
                inline_bytes,
                "the largest inline message in bytes is",
                "a QP of this HCA has no more",
            ),
            told(reads, outstanding_reads.into(), "the reads under way are", "the HCA has no more"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Whether all of this can be done together.
    pub fn check(&self) -> Result<(), Contradiction> {
        self.check_ranges()?;
        self.check_measure()?;
        self.check_operation()
    }

    fn check_ranges(&self) -> Result<(), Contradiction> {
        let sizes = self.sizes.each();
        if sizes.is_empty() {
            return no("no size", "a test needs one at least");
        }
        if let Some(size) = sizes.iter().find(|size| !(1..=MOST_BYTES).contains(size)) {
            return no(format!("messages of {size} bytes"), format!("1 to {MOST_BYTES}"));
        }
        let ranges = [
            (self.qps, MOST_QPS, "QPs"),
            (self.tx_depth, MOST_DEPTH, "sends under way"),
            (self.rx_depth, MOST_DEPTH, "receives kept posted"),
            (self.cq_moderation, MOST_MODERATION, "sends to a completion"),
        ];
        if let Some((seen, most, what)) =
            ranges.into_iter().find(|(seen, most, _)| !(1..=*most).contains(seen))
        {
            return no(format!("{seen} {what}"), format!("1 to {most}"));
        }
        match self.amount {
            Amount::Iterations(count) if !ITERATIONS.contains(&count) => {
                return no(
                    format!("{count} messages"),
                    format!("{} to {}", ITERATIONS.start(), ITERATIONS.end()),
                );
            }
            Amount::Seconds(0) => return no("a test of 0 s", "1 s or more"),
            Amount::Seconds(seconds)
                if self.margin_seconds.is_some_and(|margin| margin >= seconds.div_ceil(2)) =>
            {
                return no(
                    format!("a test of {seconds} s, of which nothing is counted"),
                    "a margin of less than half of it",
                );
            }
            Amount::Seconds(_) if self.sizes == Sizes::All => {
                return no(
                    "all sizes by time",
                    "all sizes go with a number of messages, a time with one size or a list",
                );
            }
            _ => {}
        }
        let fields = [(self.service_level, 0, 15, "service level"), (self.ack_timeout, 0, 31, "ACK timeout")];
        let hops = (self.hop_limit, 1, 255, "hop limit");
        match fields.into_iter().chain([hops]).find(|(seen, least, most, _)| !(*least..=*most).contains(seen))
        {
            Some((seen, least, most, what)) => no(format!("{what} {seen}"), format!("{least} to {most}")),
            None => Ok(()),
        }
    }

    fn check_measure(&self) -> Result<(), Contradiction> {
        if self.test.measure == Measure::Bandwidth {
            return match self.rate_limit_gbps {
                Some(rate) if !(rate.is_finite() && rate > 0.0) => {
                    no(format!("a rate limit of {rate} Gbit/s"), "more than 0")
                }
                _ => Ok(()),
            };
        }
        let only = "only a bandwidth test has that; a latency test has one message under way";
        match self {
            _ if self.qps != 1 => no(format!("{} QPs in {}", self.qps, self.test), only),
            _ if self.bidirectional => no(format!("both directions in {}", self.test), only),
            _ if self.tx_depth != 1 => {
                no(format!("{} sends under way in {}", self.tx_depth, self.test), only)
            }
            _ if self.cq_moderation != 1 => no(format!("completions moderated in {}", self.test), only),
            _ if self.rate_limit_gbps.is_some() => no(format!("a rate limit in {}", self.test), only),
            _ => Ok(()),
        }
    }

    fn check_operation(&self) -> Result<(), Contradiction> {
        let operation = self.test.operation;
        if self.outstanding_reads == Some(0) {
            return no("0 outstanding reads", "1 or more");
        }
        if operation != Operation::Read && self.outstanding_reads.is_some() {
            return no(format!("outstanding reads in {}", self.test), "only a test of reads has them");
        }
        if operation == Operation::Read && self.inline_bytes > 0 {
            return no(
                format!("inline messages in {}", self.test),
                "a read carries nothing to the other end",
            );
        }
        if operation == Operation::Write && self.test.measure == Measure::Latency && self.events {
            return no(
                format!("events in {}", self.test),
                "a write makes no event where it arrives, so both ends poll",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Test;
    use super::*;

    fn options(name: &str, change: impl FnOnce(&mut Options)) -> Options {
        let test = Test::ALL.into_iter().find(|test| test.name() == name).unwrap();
        let mut options = Options::stock(test);
        change(&mut options);
        options
    }

    #[test]
    fn every_test_without_options_goes_together() {
        for test in Test::ALL {
            assert_eq!(Options::stock(test).check(), Ok(()), "{test}");
        }
    }

    #[test]
    fn large_messages_make_a_completion_each_unless_a_distance_was_asked_for() {
        for (size, asked, wanted) in [(8192, false, 100), (8193, false, 1), (65536, true, 100)] {
            let settled = options("write-bw", |o| o.sizes = Sizes::One(size)).settled(asked).unwrap();
            assert_eq!(settled.cq_moderation, wanted, "{size}");
        }
        assert_eq!(options("write-bw", |o| o.sizes = Sizes::All).settled(false).unwrap().cq_moderation, 100);
    }

    #[test]
    fn depth_and_completions_follow_what_is_less() {
        let settled = options("send-bw", |o| {
            (o.amount, o.sizes, o.rx_depth) = (Amount::Iterations(50), Sizes::One(64), 20);
        });
        let settled = settled.settled(false).unwrap();
        assert_eq!((settled.tx_depth, settled.cq_moderation), (50, 20));
    }

    /// A change of the options, and a word of what is said of it.
    type Case = (&'static str, fn(&mut Options), &'static str);

    #[test]
    fn what_does_not_go_together_is_named() {
        let cases: [Case; 17] = [
            ("write-lat", |o| o.qps = 4, "4 QPs in write-lat: only a bandwidth test"),
            ("send-lat", |o| o.bidirectional = true, "both directions in send-lat"),
            ("read-lat", |o| o.tx_depth = 128, "128 sends under way in read-lat"),
            ("write-lat", |o| o.rate_limit_gbps = Some(1.0), "a rate limit in write-lat"),
            ("write-lat", |o| o.events = true, "events in write-lat"),
            ("write-bw", |o| o.outstanding_reads = Some(4), "outstanding reads in write-bw"),
            ("read-bw", |o| o.inline_bytes = 64, "inline messages in read-bw"),
            ("write-bw", |o| o.sizes = Sizes::List(vec![]), "no size"),
            ("write-bw", |o| o.sizes = Sizes::List(vec![4, 0]), "messages of 0 bytes: 1 to 2147483647"),
            ("write-bw", |o| o.amount = Amount::Iterations(4), "4 messages: 5 to"),
            ("write-bw", |o| o.amount = Amount::Seconds(0), "a test of 0 s"),
            ("write-bw", |o| (o.amount, o.sizes) = (Amount::Seconds(9), Sizes::All), "all sizes by time"),
            (
                "write-bw",
                |o| (o.amount, o.margin_seconds) = (Amount::Seconds(4), Some(2)),
                "a test of 4 s, of which",
            ),
            ("write-bw", |o| o.qps = 16385, "16385 QPs: 1 to 16384"),
            ("write-bw", |o| o.service_level = 16, "service level 16: 0 to 15"),
            ("write-bw", |o| o.hop_limit = 0, "hop limit 0: 1 to 255"),
            ("write-bw", |o| o.rate_limit_gbps = Some(f64::NAN), "a rate limit of NaN"),
        ];
        for (test, change, wanted) in cases {
            let said = options(test, change).check().unwrap_err().to_string();
            assert!(said.starts_with(wanted), "{said}");
        }
    }

    #[test]
    fn what_an_end_has_less_of_than_was_asked_for_is_told_and_nothing_else() {
        let asked = options("write-lat", |o| (o.mtu_bytes, o.inline_bytes) = (Some(4096), 512));
        assert_eq!(
            asked.lowered(1024, 256, 1),
            [
                "the path MTU in bytes is 1024, not 4096 as asked for: a port has no more",
                "the largest inline message in bytes is 256, not 512 as asked for: a QP of this HCA has no more"
            ]
        );
        assert!(asked.lowered(4096, 512, 1).is_empty() && asked.lowered(4096, 1024, 1).is_empty());
        let reads = options("read-bw", |o| o.outstanding_reads = Some(16));
        assert_eq!(
            reads.lowered(1024, 0, 4),
            ["the reads under way are 4, not 16 as asked for: the HCA has no more"]
        );
        // Nobody asked for these: the inline size that the tool has itself, and messages that are too large for one.
        assert!(options("write-lat", |_| ()).lowered(256, 0, 1).is_empty());
        let large = options("write-bw", |o| (o.inline_bytes, o.sizes) = (64, Sizes::One(65536)));
        assert!(large.lowered(1024, 0, 1).is_empty());
    }
}
