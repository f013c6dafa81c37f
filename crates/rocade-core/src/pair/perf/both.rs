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
