//! How long a test that works may take for something: between two of its completions, and until an end that is done hears
//! of the other. Pure; which time that is measured is the caller's.

use std::time::Duration;

use super::{Amount, Operation, Options, Sizes};
use crate::pair::Role;

/// No path in order is taken to be slower: bytes, and messages, a second. Soft-RoCE in an emulated machine moves 34 MiB/s.
const SLOWEST_BYTES: f64 = 10e6;
const SLOWEST_MESSAGES: f64 = 10e3;
/// In a test of several sizes a completion comes at the latest after so many bytes of a QP: what a hundred messages of
/// the largest size are that is moderated without being asked.
const MODERATED: u32 = 100 * 8192;
/// Both directions of one path differ by less than this.
const SLOWER: u32 = 9;
/// What is compared beside a message of each QP at most, bytes, in both directions.
const COMPARED: u64 = 2 * (16 << 20);

impl Options {
    /// Sends of a QP from one completion to the next, of a size: [`Options::cq_moderation`], and in a test of several
    /// sizes fewer of large messages, which would be long under way together.
    pub fn moderation(&self, message_bytes: u32) -> u32 {
        match self.sizes {
            Sizes::One(_) => self.cq_moderation,
            _ => self.cq_moderation.min(MODERATED / message_bytes.max(1)).max(1),
        }
    }

    /// So long nothing may complete in messages of a size before it is taken for a failure: the timeout, or what lies
    /// between two completions of an end at the slowest.
    pub fn silence(&self, message_bytes: u32, timeout: Duration) -> Duration {
        let together = self.moderation(message_bytes).min(self.tx_depth);
        timeout.max(self.takes(together, message_bytes))
    }

    /// So long an end waits for the other's next word while neither runs: the timeout, and what comparing takes.
    pub fn slack(&self, timeout: Duration) -> Duration {
        let compared = self.data_seed.map_or(0, |_| COMPARED);
        timeout + self.takes(1, self.sizes.largest()) + seconds(compared as f64 / SLOWEST_BYTES)
    }

    /// So long an end of that role, whose part of a size took `own`, waits for the first word of the other; None for as
    /// long as the connection lives. An end that only answers is done at once, and a stock tool that it answers may have
    /// been given any number or time.
    pub fn patience(&self, role: Role, is_stock: bool, timeout: Duration, own: Duration) -> Option<Duration> {
        let slack = self.slack(timeout);
        match (role, self.amount) {
            _ if self.both_post() => Some(slack + own * SLOWER),
            (Role::Client, _) => Some(slack),
            (Role::Server, Amount::Seconds(time)) if !is_stock => {
                // What may be under way goes ahead of the time as warm-up, and is left at the end.
                let drained = 2 * self.takes(self.tx_depth, self.sizes.largest());
                Some(slack + Duration::from_secs(time.into()) + drained)
            }
            // Both ends of sends by number are done with the last one.
            (Role::Server, Amount::Iterations(_)) if self.test.operation == Operation::Send => Some(slack),
            (Role::Server, _) => None,
        }
    }

    /// So many messages of each QP at the slowest: what a limit of the rate leaves, by half.
    fn takes(&self, messages: u32, message_bytes: u32) -> Duration {
        let messages = f64::from(self.qps) * f64::from(messages);
        let limit = self.rate_limit_gbps.map_or(f64::INFINITY, |gbps| gbps * 1e9 / 8.0 / 2.0);
        let bytes = messages * f64::from(message_bytes);
        seconds(bytes / SLOWEST_BYTES.min(limit) + messages / SLOWEST_MESSAGES)
    }
}

/// So long nothing may complete in a ping-pong of messages of a size: the timeout, or one there and back at the slowest.
pub fn round_trip(message_bytes: u32, timeout: Duration) -> Duration {
    timeout.max(seconds(2.0 * f64::from(message_bytes) / SLOWEST_BYTES))
}

/// A day at most.
fn seconds(seconds: f64) -> Duration {
    const DAY: f64 = 86_400.0;
    Duration::from_secs_f64(seconds.clamp(0.0, DAY))
}

#[cfg(test)]
mod tests {
    use super::super::Test;
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    fn options(name: &str, change: impl FnOnce(&mut Options)) -> Options {
        let test = Test::ALL.into_iter().find(|test| test.name() == name).unwrap();
        let mut options = Options::stock(test);
        change(&mut options);
        options
    }

    #[test]
    fn large_messages_of_a_test_of_several_sizes_make_a_completion_each_and_one_size_as_it_was_asked() {
        let all = options("write-bw", |o| o.sizes = Sizes::All);
        for (bytes, wanted) in [(2, 100), (8192, 100), (16384, 50), (65536, 12), (1 << 20, 1), (8 << 20, 1)] {
            assert_eq!(all.moderation(bytes), wanted, "{bytes}");
            let one = options("write-bw", |o| o.sizes = Sizes::One(bytes));
            assert_eq!(one.moderation(bytes), 100, "{bytes}");
        }
        let list = options("send-bw", |o| (o.sizes, o.cq_moderation) = (Sizes::List(vec![64, 1 << 30]), 4));
        assert_eq!((list.moderation(64), list.moderation(1 << 30)), (4, 1));
    }

    /// In each: what the options are, the size, and the seconds of silence that end a test with a timeout of 10 s.
    #[test]
    fn a_dead_path_is_told_within_the_timeout_at_ordinary_sizes_and_a_slow_one_has_the_time_that_it_needs() {
        type Case = (&'static str, fn(&mut Options), u32, std::ops::RangeInclusive<u64>);
        let cases: [Case; 10] = [
            ("write-bw", |_| (), 65536, 10..=10),
            ("write-bw", |o| o.qps = 32, 65536, 21..=22),
            ("write-bw", |o| (o.qps, o.cq_moderation) = (32, 1), 65536, 10..=10),
            ("write-bw", |o| o.sizes = Sizes::All, 8 << 20, 10..=10),
            // 839 MB, which an emulated soft-RoCE takes 24 s for.
            ("write-bw", |o| o.sizes = Sizes::One(8 << 20), 8 << 20, 83..=84),
            ("write-bw", |o| (o.sizes, o.tx_depth) = (Sizes::One(8 << 20), 4), 8 << 20, 10..=10),
            // 268 MB at 10 Gbit/s, and at 10 MB/s.
            ("write-bw", |o| (o.sizes, o.qps) = (Sizes::All, 32), 8 << 20, 26..=27),
            ("write-lat", |o| o.sizes = Sizes::One(1 << 30), 1 << 30, 107..=108),
            ("read-lat", |_| (), 2, 10..=10),
            // 100 messages of 64 KiB at half of 1 Mbit/s.
            ("write-bw", |o| o.rate_limit_gbps = Some(0.001), 65536, 104..=105),
        ];
        for (name, change, bytes, wanted) in cases {
            let options = options(name, change);
            let silence = options.silence(bytes, TEN);
            assert!(wanted.contains(&silence.as_secs()), "{options:?}: {silence:?}");
        }
    }

    #[test]
    fn a_large_message_there_and_back_has_its_time_too() {
        assert_eq!(round_trip(4096, TEN), TEN);
        assert!((214..=215).contains(&round_trip(1 << 30, TEN).as_secs()));
    }

    #[test]
    fn an_end_that_is_done_waits_for_the_timeout_and_one_that_answers_until_the_connection_ends() {
        let minute = Duration::from_secs(60);
        let waits = |options: &Options, role, is_stock| {
            options.patience(role, is_stock, TEN, minute).map(|patience| patience.as_secs())
        };
        let timed = |o: &mut Options| o.amount = Amount::Seconds(5);
        for is_stock in [true, false] {
            for name in ["write-bw", "read-bw", "read-lat"] {
                let options = options(name, |_| ());
                assert_eq!(waits(&options, Role::Client, is_stock), Some(10), "{name}");
                assert_eq!(waits(&options, Role::Server, is_stock), None, "{name}");
            }
            for role in [Role::Client, Role::Server] {
                assert_eq!(waits(&options("send-bw", |_| ()), role, is_stock), Some(10));
                // The other direction may be slower.
                let both = options("write-bw", |o| o.bidirectional = true);
                assert_eq!(waits(&both, role, is_stock), Some(10 + 9 * 60));
                assert_eq!(waits(&options("send-lat", |_| ()), role, is_stock), Some(10 + 9 * 60));
            }
            for name in ["write-bw", "send-bw"] {
                assert_eq!(waits(&options(name, timed), Role::Client, is_stock), Some(10));
            }
        }
        for name in ["write-bw", "send-bw", "read-lat"] {
            let options = options(name, timed);
            // A stock client's time need not be this end's; that of rocade is, and what is under way at its end.
            assert_eq!(waits(&options, Role::Server, true), None, "{name}");
            assert!(waits(&options, Role::Server, false).is_some_and(|time| (15..20).contains(&time)));
        }
        let large = options("write-bw", |o| (o.amount, o.sizes) = (Amount::Seconds(5), Sizes::One(8 << 20)));
        // Twice 1 GiB.
        assert!(waits(&large, Role::Server, false).is_some_and(|time| time > 15 + 2 * 107));
    }

    #[test]
    fn an_end_that_compares_has_the_time_for_it() {
        let plain = options("write-bw", |_| ());
        let checked = options("write-bw", |o| o.data_seed = Some(1));
        assert!(checked.slack(TEN) > plain.slack(TEN) + Duration::from_secs(3));
        let huge = options("write-bw", |o| (o.qps, o.sizes) = (4, Sizes::One(1 << 30)));
        assert!(huge.slack(TEN) > Duration::from_secs(400));
        let most = options("write-bw", |o| {
            (o.qps, o.sizes, o.rate_limit_gbps) = (16384, Sizes::One(0x7fff_ffff), Some(1e-9));
        });
        assert_eq!(most.slack(TEN), Duration::from_secs(86_410));
    }
}
