//! What two ends that both measured print: the same.

use super::{Bandwidth, Intervals, Options, SizeResult};
use crate::pair::Role;

/// Of what each end found of one size, what both print: the sum where both sent, otherwise the client's, or the only
/// one that there is.
pub fn of_both(
    options: &Options,
    role: Role,
    own: Option<SizeResult>,
    theirs: Option<SizeResult>,
) -> Option<SizeResult> {
    let (client, server) = match role {
        Role::Client => (own, theirs),
        Role::Server => (theirs, own),
    };
    match (client, server) {
        (Some(client), Some(server)) if options.bidirectional => Some(sum(&client, &server)),
        (client, server) => client.or(server),
    }
}

fn sum(one: &SizeResult, other: &SizeResult) -> SizeResult {
    let bandwidth = one.bandwidth.as_ref().zip(other.bandwidth.as_ref());
    SizeResult {
        message_bytes: one.message_bytes,
        messages: one.messages.saturating_add(other.messages),
        seconds: one.seconds.max(other.seconds),
        bandwidth: bandwidth.map(|(one, other)| Bandwidth {
            average_gbps: one.average_gbps + other.average_gbps,
            peak_gbps: one.peak_gbps.zip(other.peak_gbps).map(|(one, other)| one + other),
            messages_per_second: one.messages_per_second + other.messages_per_second,
            intervals: one.intervals.zip(other.intervals).map(sum_intervals),
        }),
        latency: None,
    }
}

/// Stretches of both ends do not begin at one time: the slowest of the sum is no slower than this, nor the fastest faster.
fn sum_intervals((one, other): (Intervals, Intervals)) -> Intervals {
    Intervals {
        seconds: one.seconds.max(other.seconds),
        count: one.count.min(other.count),
        min_gbps: one.min_gbps + other.min_gbps,
        average_gbps: one.average_gbps + other.average_gbps,
        max_gbps: one.max_gbps + other.max_gbps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::perf::{Measure, Operation, Test};

    fn found(messages: u64, seconds: f64, peak_gbps: Option<f64>) -> SizeResult {
        let intervals = Intervals { seconds: 1.0, count: 3, min_gbps: 1.0, average_gbps: 2.0, max_gbps: 3.0 };
        let bandwidth =
            Bandwidth { average_gbps: 2.0, peak_gbps, messages_per_second: 10.0, intervals: Some(intervals) };
        SizeResult { message_bytes: 64, messages, seconds, bandwidth: Some(bandwidth), latency: None }
    }

    fn options(bidirectional: bool) -> Options {
        let test = Test { operation: Operation::Write, measure: Measure::Bandwidth };
        Options { bidirectional, ..Options::stock(test) }
    }

    #[test]
    fn both_ends_print_the_sum_where_both_sent() {
        let (client, server) = (found(10, 1.0, Some(5.0)), found(20, 2.0, Some(6.0)));
        let at_client = of_both(&options(true), Role::Client, Some(client.clone()), Some(server.clone()));
        let at_server = of_both(&options(true), Role::Server, Some(server), Some(client));
        assert_eq!(at_client, at_server);
        let sum = at_client.unwrap();
        let bandwidth = sum.bandwidth.unwrap();
        assert_eq!((sum.messages, sum.seconds, bandwidth.average_gbps), (30, 2.0, 4.0));
        assert_eq!((bandwidth.peak_gbps, bandwidth.messages_per_second), (Some(11.0), 20.0));
        assert_eq!(bandwidth.intervals.unwrap().max_gbps, 6.0);
    }

    #[test]
    fn a_peak_that_one_end_lacks_is_not_summed() {
        let sum =
            of_both(&options(true), Role::Client, Some(found(1, 1.0, None)), Some(found(1, 1.0, Some(6.0))));
        assert_eq!(sum.unwrap().bandwidth.unwrap().peak_gbps, None);
    }

    #[test]
    fn both_ends_print_the_clients_in_one_direction() {
        let (client, server) = (found(10, 1.0, None), found(20, 2.0, None));
        let (own, theirs) = (Some(client.clone()), Some(server.clone()));
        assert_eq!(of_both(&options(false), Role::Client, own.clone(), theirs.clone()), Some(client.clone()));
        assert_eq!(of_both(&options(false), Role::Server, theirs, own), Some(client.clone()));
        assert_eq!(of_both(&options(false), Role::Server, None, Some(client.clone())), Some(client));
        assert_eq!(of_both(&options(false), Role::Client, None, None), None);
    }
}
