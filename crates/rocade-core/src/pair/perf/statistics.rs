//! Figures of a test from what its loop wrote down: times, and how many messages were done by then. Pure; nanoseconds
//! in, microseconds and 10⁹ bit/s out. The memory that it takes does not grow with the length of a test.

use hdrhistogram::Histogram;

use super::{Bandwidth, Intervals, Latency, Operation, SizeResult, StockLatency};

#[cfg(test)]
mod tests;

/// As many samples of a latency test are kept one by one: 40 MB.
const KEPT: u64 = 10_000_000;
/// A stock tool keeps the times of its messages, and gives a peak, up to so many of one QP.
pub const PEAK_ITERATIONS: u64 = 20_000;
/// Significant digits of what a histogram tells: 1 of 1000.
const DIGITS: u8 = 3;
/// The longest time that a histogram tells from longer ones: 10 minutes.
const LONGEST: u64 = 600_000_000_000;
/// What such a histogram takes at most, bytes.
const HISTOGRAM: u64 = 512 << 10;

/// Times of a latency test's messages, from each to the next.
pub enum Samples {
    /// Each of them, ns; `filled` of them so far. The memory is touched before the test, not within.
    Kept {
        /// Room for all.
        nanoseconds: Vec<u32>,
        /// How many are there.
        filled: usize,
    },
    /// How often each time was seen, where their number is not known or great.
    Counted(Box<Histogram<u64>>),
}

impl Samples {
    /// Room for the times of so many messages; None where their number is not known.
    pub fn new(messages: Option<u64>) -> Samples {
        match messages.filter(|count| *count <= KEPT) {
            Some(count) => Samples::Kept { nanoseconds: vec![u32::MAX; count as usize], filled: 0 },
            None => {
                let histogram =
                    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("these bounds are in order");
                Samples::Counted(Box::new(histogram))
            }
        }
    }

    /// Memory that the times of so many messages take, bytes, with the sorted ones that their figures are made of.
    pub fn bytes(messages: Option<u64>) -> u64 {
        const EACH: u64 = (size_of::<u32>() + size_of::<f64>()) as u64;
        messages.filter(|count| *count <= KEPT).map_or(HISTOGRAM, |count| count * EACH)
    }

    /// Adds one; beyond the room, and from 4.3 s on a kept one, as much as there is.
    #[inline]
    pub fn add(&mut self, time: u64) {
        match self {
            Samples::Kept { nanoseconds, filled } => {
                if let Some(place) = nanoseconds.get_mut(*filled) {
                    *place = u32::try_from(time).unwrap_or(u32::MAX);
                    *filled += 1;
                }
            }
            Samples::Counted(histogram) => histogram.saturating_record(time),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Samples::Kept { filled, .. } => *filled as u64,
            Samples::Counted(histogram) => histogram.len(),
        }
    }

    /// Each latency in the order that they came, µs, as [`Samples::latency`] has them; none where they are counted.
    pub fn each_us(&self, operation: Operation) -> impl Iterator<Item = f64> + '_ {
        let kept = match self {
            Samples::Kept { nanoseconds, filled } => &nanoseconds[..*filled],
            Samples::Counted(_) => &[],
        };
        kept.iter().map(move |time| f64::from(*time) / parts(operation) / 1e3)
    }

    /// The latencies: half of each time where it is that of a message there and one back, which is all but reads. None
    /// without a sample.
    pub fn latency(self, operation: Operation) -> Option<Latency> {
        let us = |nanoseconds: f64| nanoseconds / parts(operation) / 1e3;
        match self {
            Samples::Kept { mut nanoseconds, filled } => {
                nanoseconds.truncate(filled);
                nanoseconds.sort_unstable();
                let sorted: Vec<f64> = nanoseconds.into_iter().map(|time| us(f64::from(time))).collect();
                of_sorted(&sorted)
            }
            Samples::Counted(histogram) => (!histogram.is_empty()).then(|| {
                let at = |quantile: f64| us(histogram.value_at_quantile(quantile) as f64);
                Latency {
                    min_us: us(histogram.min() as f64),
                    average_us: us(histogram.mean()),
                    stdev_us: us(histogram.stdev()),
                    p50_us: at(0.5),
                    p90_us: at(0.9),
                    p99_us: at(0.99),
                    p99_9_us: at(0.999),
                    p99_99_us: at(0.9999),
                    max_us: us(histogram.max() as f64),
                    stock: stock_of_counted(&histogram, us),
                }
            }),
        }
    }
}

/// A time from message to message is that of so many.
fn parts(operation: Operation) -> f64 {
    if operation == Operation::Read { 1.0 } else { 2.0 }
}

fn of_sorted(sorted: &[f64]) -> Option<Latency> {
    let count = sorted.len() as f64;
    let (first, last) = (sorted.first()?, sorted.last()?);
    let average = sorted.iter().sum::<f64>() / count;
    let variance = sorted.iter().map(|time| (time - average).powi(2)).sum::<f64>() / count;
    // The least that so many of them do not exceed.
    let at = |share: f64| sorted[((share * count).ceil() as usize).clamp(1, sorted.len()) - 1];
    Some(Latency {
        min_us: *first,
        average_us: average,
        stdev_us: variance.sqrt(),
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p99_9_us: at(0.999),
        p99_99_us: at(0.9999),
        max_us: *last,
        stock: stock_of_sorted(sorted),
    })
}

fn stock_of_sorted(sorted: &[f64]) -> Option<StockLatency> {
    let times = sorted.iter().map(|time| (*time, 1));
    stock(sorted.len() as u64, |index| sorted[index as usize], times)
}

fn stock_of_counted(histogram: &Histogram<u64>, us: impl Fn(f64) -> f64) -> Option<StockLatency> {
    let bins: Vec<(f64, u64)> = histogram
        .iter_recorded()
        .map(|bin| (us(bin.value_iterated_to() as f64), bin.count_at_value()))
        .collect();
    let ends: Vec<u64> = bins
        .iter()
        .scan(0, |end, (_, count)| {
            *end += count;
            Some(*end)
        })
        .collect();
    let at = |index: u64| bins[ends.partition_point(|end| *end <= index)].0;
    stock(histogram.len(), at, bins.iter().copied())
}

/// perftest's print_report_lat (src/perftest_resources.c): the two longest count for nothing but `max`, 99 % and 99.9 %.
/// `at` gives the time of an index in ascending order, `times` all of them in that order, each with how often it is there.
fn stock(
    count: u64,
    at: impl Fn(u64) -> f64,
    times: impl Iterator<Item = (f64, u64)> + Clone,
) -> Option<StockLatency> {
    let rest = count.checked_sub(2).filter(|rest| *rest > 0)?;
    let each_of_rest = || {
        times.clone().scan(rest, |left, (time, count)| {
            let taken = count.min(*left);
            *left -= taken;
            Some((time, taken as f64))
        })
    };
    let mean = |of: &dyn Fn(f64) -> f64| {
        each_of_rest().map(|(time, count)| of(time) * count).sum::<f64>() / rest as f64
    };
    let average = mean(&|time| time);
    let share = |share: f64| at(((share * rest as f64).ceil() as u64).min(count - 1));
    let typical = match rest % 2 {
        0 => f64::midpoint(at(rest / 2 - 1), at(rest / 2)),
        _ => at(rest / 2),
    };
    Some(StockLatency {
        min_us: at(0),
        max_us: at(rest),
        typical_us: typical,
        average_us: average,
        stdev_us: mean(&|time| (average - time).trunc().powi(2)).sqrt(),
        p99_us: share(0.99),
        p99_9_us: share(0.999),
    })
}

/// Times of posts and completions, ns, and how many messages were posted before, or done with, each.
#[derive(Debug, Default)]
pub struct Peak {
    posts: Vec<(u64, u64)>,
    completions: Vec<(u64, u64)>,
}

impl Peak {
    /// Room for the times of so many messages.
    pub fn new(messages: u64) -> Peak {
        let room = || Vec::with_capacity(messages as usize);
        Peak { posts: room(), completions: room() }
    }

    /// Memory that the times of so many messages take at most, bytes.
    pub fn bytes(messages: u64) -> u64 {
        messages * 2 * size_of::<(u64, u64)>() as u64
    }

    /// At `time` messages were posted, the first of them after `before` others.
    #[inline]
    pub fn posted(&mut self, time: u64, before: u64) {
        self.posts.push((time, before));
    }

    /// At `time` so many messages were done.
    #[inline]
    pub fn completed(&mut self, time: u64, done: u64) {
        self.completions.push((time, done));
    }

    /// Messages a second in the fastest stretch from a post to a completion after it; None without one.
    pub fn messages_per_second(&self) -> Option<f64> {
        let mut hull: Vec<(u64, u64)> = Vec::new();
        let mut posts = self.posts.iter().copied().peekable();
        let mut best = 0.0_f64;
        for &(time, done) in &self.completions {
            while let Some(post) = posts.next_if(|post| post.0 < time && post.1 < done) {
                while hull.len() > 1 && is_above(hull[hull.len() - 2], hull[hull.len() - 1], post) {
                    hull.pop();
                }
                hull.push(post);
            }
            // Towards a point above and right of it the slope from the hull rises up to the tangent, and then falls.
            let slope =
                |at: usize| hull.get(at).map_or(0.0, |post| (done - post.1) as f64 / (time - post.0) as f64);
            let (mut low, mut high) = (0, hull.len().saturating_sub(1));
            while low < high {
                let middle = usize::midpoint(low, high);
                if slope(middle) < slope(middle + 1) { low = middle + 1 } else { high = middle }
            }
            best = best.max(slope(low));
        }
        (best > 0.0).then_some(best * 1e9)
    }
}

/// Whether `middle` lies on or above the line from one to the other, and so is no part of the lower hull.
fn is_above(one: (u64, u64), middle: (u64, u64), other: (u64, u64)) -> bool {
    let along = |point: (u64, u64)| (i128::from(point.0 - one.0), i128::from(point.1 - one.1));
    let ((x1, y1), (x2, y2)) = (along(middle), along(other));
    y1 * x2 >= y2 * x1
}

/// How many messages were done when, at a spacing that grows with the test.
#[derive(Debug)]
pub struct Timeline {
    points: Vec<(u64, u64)>,
    spacing: u64,
    due: u64,
}

/// First distance of two points, ns.
const SPACING: u64 = 5_000_000;
const POINTS: usize = 4096;
/// Lengths that a stretch may have, ns; as many of one as there are to be.
const STRETCHES: [u64; 4] = [1_000_000_000, 500_000_000, 100_000_000, 50_000_000];
const ENOUGH: u64 = 4;

impl Timeline {
    /// Begins at `start`, with nothing done.
    pub fn new(start: u64) -> Timeline {
        Timeline::beginning_with(start, 0)
    }

    /// Begins at `start`, by when so many messages were done.
    pub fn beginning_with(start: u64, done: u64) -> Timeline {
        let mut points = Vec::with_capacity(POINTS);
        points.push((start, done));
        Timeline { points, spacing: SPACING, due: start + SPACING }
    }

    /// By `time` so many messages were done.
    #[inline]
    pub fn at(&mut self, time: u64, done: u64) {
        if time >= self.due {
            self.keep(time, done);
        }
    }

    fn keep(&mut self, time: u64, done: u64) {
        if self.points.len() == POINTS {
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.spacing *= 2;
        }
        self.points.push((time, done));
        self.due = time + self.spacing;
    }

    /// Figures of equal stretches up to `end`, by when `done` messages of so many bytes were; None where there are
    /// not two. What is left of the time after the last whole one belongs to none.
    pub fn intervals(mut self, end: u64, done: u64, message_bytes: u32) -> Option<Intervals> {
        if self.points.last().is_some_and(|last| last.0 < end) {
            self.points.push((end, done));
        }
        let start = self.points.first()?.0;
        let total = end.saturating_sub(start);
        let enough = |stretch: &&u64| **stretch >= 2 * self.spacing && total / **stretch >= ENOUGH;
        let widest = STRETCHES[0].max(2 * self.spacing);
        let stretch = STRETCHES.iter().find(enough).copied().unwrap_or(widest);
        let count = total / stretch;
        let done_at: Vec<f64> = (0..=count).map(|n| self.done_at(start + n * stretch)).collect();
        let gbps = |messages: f64| messages * f64::from(message_bytes) * 8.0 / stretch as f64;
        let figures = || done_at.windows(2).map(|ends| gbps(ends[1] - ends[0]));
        (count >= 2).then(|| Intervals {
            seconds: stretch as f64 / 1e9,
            count: count as u32,
            min_gbps: figures().fold(f64::INFINITY, f64::min),
            average_gbps: figures().sum::<f64>() / count as f64,
            max_gbps: figures().fold(0.0, f64::max),
        })
    }

    /// Between two points it is taken to have gone evenly.
    fn done_at(&self, time: u64) -> f64 {
        let after = self.points.partition_point(|point| point.0 < time);
        let Some(&(t2, n2)) = self.points.get(after) else {
            return self.points.last().map_or(0.0, |last| last.1 as f64);
        };
        let Some(&(t1, n1)) = after.checked_sub(1).and_then(|before| self.points.get(before)) else {
            return n2 as f64;
        };
        n1 as f64 + (n2 - n1) as f64 * (time - t1) as f64 / (t2 - t1) as f64
    }
}

/// The result of a bandwidth test of one size at one end.
pub fn bandwidth(
    message_bytes: u32,
    messages: u64,
    nanoseconds: u64,
    peak: Option<f64>,
    intervals: Option<Intervals>,
) -> SizeResult {
    let seconds = nanoseconds.max(1) as f64 / 1e9;
    let messages_per_second = messages as f64 / seconds;
    let gbps = |messages_per_second: f64| messages_per_second * f64::from(message_bytes) * 8.0 / 1e9;
    SizeResult {
        message_bytes,
        messages,
        seconds,
        bandwidth: Some(Bandwidth {
            average_gbps: gbps(messages_per_second),
            peak_gbps: peak.map(gbps),
            messages_per_second,
            intervals,
        }),
        latency: None,
    }
}
