//! The figures as a stock tool prints them (perftest 6.06, print_report_bw and print_report_lat): heading, one row a
//! size, or one number.

use std::fmt::Write;

use rocade_core::pair::perf::message::Unit;
use rocade_core::pair::perf::{Amount, Bandwidth, Measure, Operation, Options, SizeResult, StockLatency};

use super::options::Number;

/// As headings write it: 6.06 calls 2²⁰ bytes MB.
fn name(unit: Unit) -> &'static str {
    match unit {
        Unit::Gigabits => "Gb/sec",
        Unit::Mebibytes => "MB/sec",
    }
}

/// One row's figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Row {
    Bandwidth { bytes: u32, iterations: u64, peak: f64, average: f64, rate_mpps: f64, unit: Unit },
    Latency { bytes: u32, iterations: u64, us: StockLatency },
    Duration { bytes: u32, iterations: u64, average_us: f64, per_second: f64 },
}

/// The line above the rows.
pub(super) fn heading(options: &Options, unit: Unit) -> String {
    match (options.test.measure, options.amount) {
        (Measure::Bandwidth, _) => {
            let unit = name(unit);
            format!(" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n")
        }
        (Measure::Latency, Amount::Iterations(_)) => {
            " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
             t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
                .to_owned()
        }
        (Measure::Latency, Amount::Seconds(_)) => {
            " #bytes        #iterations       t_avg[usec]    tps average\n".to_owned()
        }
    }
}

/// perftest's `-U` and `-H`: a number and a time a line, in the order that they came and sorted.
pub(super) fn render_samples(times: &mut [f64], unsorted: bool, sorted: bool) -> String {
    let mut text = String::new();
    let mut list = |times: &[f64]| {
        text.push_str("#, usec\n");
        for (at, us) in times.iter().enumerate() {
            let _ = writeln!(text, "{}, {}", at + 1, six_digits(*us));
        }
    };
    if unsorted {
        list(times);
    }
    times.sort_unstable_by(f64::total_cmp);
    if sorted {
        list(times);
    }
    text
}

/// C's `%g`, of what is not negative.
fn six_digits(number: f64) -> String {
    let rounded = format!("{number:.5e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
    let places = usize::try_from(5 - exponent).unwrap_or(0);
    without_zeros(&format!("{number:.places$}"))
}

impl Row {
    /// None where the end measured nothing that the tool prints.
    pub(super) fn of(result: &SizeResult, options: &Options, unit: Unit, no_peak: bool) -> Option<Row> {
        let bytes = result.message_bytes;
        if let Some(bandwidth) = &result.bandwidth {
            // The stock tools sum rates of both directions, not messages.
            let iterations = if options.bidirectional { result.messages / 2 } else { result.messages };
            return Some(Row::bandwidth(bytes, iterations, bandwidth, unit, no_peak));
        }
        let latency = result.latency.as_ref()?;
        match (options.amount, latency.stock) {
            (Amount::Iterations(iterations), Some(us)) => Some(Row::Latency { bytes, iterations, us }),
            _ => {
                let (iterations, average_us) = (result.messages, latency.average_us);
                // Round trips of writes and sends take two messages' time, reads one.
                let round_trip_us =
                    if options.test.operation == Operation::Read { 1.0 } else { 2.0 } * average_us;
                let per_second = 1e6 / round_trip_us;
                Some(Row::Duration { bytes, iterations, average_us, per_second })
            }
        }
    }

    fn bandwidth(bytes: u32, iterations: u64, found: &Bandwidth, unit: Unit, no_peak: bool) -> Row {
        Row::Bandwidth {
            bytes,
            iterations,
            peak: found.peak_gbps.filter(|_| !no_peak).map_or(0.0, |peak| peak / unit.gbps()),
            average: found.average_gbps / unit.gbps(),
            rate_mpps: found.messages_per_second / 1e6,
            unit,
        }
    }

    /// Whether two decimals would say nothing of it.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Row::Bandwidth { average, unit: Unit::Gigabits, .. } if *average < 0.1)
    }

    /// The row.
    pub(super) fn render(&self) -> String {
        match self {
            Row::Bandwidth { bytes, iterations, peak, average, rate_mpps, .. } if self.is_slow() => format!(
                " {bytes:<7}    {iterations}           {peak:<7.6}            {average:<7.6}            {rate_mpps:<7.6}\n"
            ),
            Row::Bandwidth { bytes, iterations, peak, average, rate_mpps, .. } => format!(
                " {bytes:<7}    {iterations:<10}       {peak:<7.2}            {average:<7.2}\t\t   {rate_mpps:<7.6}\n"
            ),
            Row::Latency { bytes, iterations, us } => format!(
                " {bytes:<7} {iterations}          {:<7.2}        {:<7.2}      {:<7.2}  \t       {:<7.2}     \t{:<7.2}\t\t{:<7.2} \t\t{:<7.2}\n",
                us.min_us, us.max_us, us.typical_us, us.average_us, us.stdev_us, us.p99_us, us.p99_9_us
            ),
            Row::Duration { bytes, iterations, average_us, per_second } => {
                format!(
                    " {bytes:<7}       {iterations}            {average_us:<7.2}        {per_second:<7.2}\n"
                )
            }
        }
    }

    /// The one number that was asked for.
    pub(super) fn render_number(&self, number: Number) -> String {
        let value = match (self, number) {
            (Row::Bandwidth { rate_mpps, .. }, Number::MessageRate) => *rate_mpps,
            (Row::Bandwidth { average, .. }, _) => *average,
            (Row::Latency { us, .. }, _) => us.average_us,
            (Row::Duration { average_us, .. }, _) => *average_us,
        };
        format!("{value:.6}\n")
    }
}

#[cfg(test)]
mod tests {
    use rocade_core::pair::perf::{Latency, Test};

    use super::*;

    fn options(name: &str) -> Options {
        Options::stock(Test::ALL.into_iter().find(|test| test.name() == name).unwrap())
    }

    fn found(gbps: f64, peak: f64) -> SizeResult {
        SizeResult {
            message_bytes: 65536,
            messages: 5000,
            seconds: 0.0283,
            bandwidth: Some(Bandwidth {
                average_gbps: gbps,
                peak_gbps: Some(peak),
                messages_per_second: gbps * 1e9 / 8.0 / 65536.0,
                intervals: None,
            }),
            latency: None,
        }
    }

    /// The expected rows of this table were printed by printf(3) with perftest's format strings.
    #[test]
    fn bandwidth_rows_are_perftests_byte_for_byte() {
        let one_way = options("write-bw");
        let row =
            |gbps, unit, no_peak| Row::of(&found(gbps, gbps), &one_way, unit, no_peak).unwrap().render();
        assert_eq!(
            row(92.5, Unit::Mebibytes, false),
            " 65536      5000             11026.86            11026.86\t\t   0.176430\n"
        );
        assert_eq!(
            row(92.5, Unit::Gigabits, false),
            " 65536      5000             92.50              92.50  \t\t   0.176430\n"
        );
        assert_eq!(
            row(92.5, Unit::Gigabits, true),
            " 65536      5000             0.00               92.50  \t\t   0.176430\n"
        );
        assert_eq!(
            row(0.0407, Unit::Gigabits, false),
            " 65536      5000           0.040700            0.040700            0.000078\n"
        );
        let both = Options { bidirectional: true, ..one_way };
        let row = Row::of(&found(92.5, 92.5), &both, Unit::Gigabits, false).unwrap().render();
        assert!(row.starts_with(" 65536      2500             92.50  "), "{row}");
    }

    fn latency(stock: Option<StockLatency>) -> SizeResult {
        SizeResult {
            message_bytes: 2,
            messages: 1000,
            seconds: 0.004,
            bandwidth: None,
            latency: Some(Latency {
                min_us: 1.0,
                average_us: 2.0,
                stdev_us: 0.1,
                p50_us: 2.0,
                p90_us: 2.1,
                p99_us: 2.2,
                p99_9_us: 2.3,
                p99_99_us: 2.4,
                max_us: 9.0,
                stock,
            }),
        }
    }

    const STOCK: StockLatency = StockLatency {
        min_us: 1.87,
        max_us: 12.5,
        typical_us: 1.93,
        average_us: 1.9712,
        stdev_us: 0.0,
        p99_us: 2.31,
        p99_9_us: 12.5,
    };

    #[test]
    fn latency_rows_are_perftests_byte_for_byte() {
        let counted = options("write-lat");
        let row = Row::of(&latency(Some(STOCK)), &counted, Unit::Mebibytes, false).unwrap();
        assert_eq!(
            row.render(),
            " 2       1000          1.87           12.50        1.93     \t       1.97        \t0.00   \t\t2.31    \t\t12.50  \n"
        );
        let timed = Options { amount: Amount::Seconds(2), ..counted };
        let row = Row::of(&latency(None), &timed, Unit::Mebibytes, false).unwrap();
        assert_eq!(row.render(), " 2             1000            2.00           250000.00\n");
    }

    #[test]
    fn one_number_is_printed_with_six_decimals() {
        let row = Row::of(&found(92.5, 92.5), &options("write-bw"), Unit::Gigabits, false).unwrap();
        assert_eq!(row.render_number(Number::Bandwidth), "92.500000\n");
        assert_eq!(row.render_number(Number::MessageRate), "0.176430\n");
        let row = Row::of(&latency(Some(STOCK)), &options("write-lat"), Unit::Gigabits, false).unwrap();
        assert_eq!(row.render_number(Number::Latency), "1.971200\n");
    }

    /// As printf(3) writes them with `%g`.
    #[test]
    fn each_time_is_printed_with_six_digits() {
        for (number, wanted) in [
            (1.5, "1.5"),
            (14.6935, "14.6935"),
            (2.0, "2"),
            (316.25049, "316.25"),
            (123_456.7, "123457"),
            (999_999.6, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.0005, "0.0005"),
            (0.00005, "5e-05"),
            (0.0, "0"),
        ] {
            assert_eq!(six_digits(number), wanted);
        }
        let mut times = [2.5, 1.25];
        assert_eq!(
            render_samples(&mut times, true, true),
            "#, usec\n1, 2.5\n2, 1.25\n#, usec\n1, 1.25\n2, 2.5\n"
        );
        assert_eq!(render_samples(&mut [2.5, 1.25], false, true), "#, usec\n1, 1.25\n2, 2.5\n");
    }

    #[test]
    fn headings_name_the_unit() {
        assert_eq!(
            heading(&options("send-bw"), Unit::Mebibytes),
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
        );
        assert!(
            heading(&options("send-bw"), Unit::Gigabits).contains("BW peak[Gb/sec]    BW average[Gb/sec]")
        );
        assert!(heading(&options("read-lat"), Unit::Gigabits).ends_with("   99.9% percentile[usec] \n"));
    }

    #[test]
    fn a_server_that_measured_nothing_has_no_row() {
        let nothing = SizeResult { bandwidth: None, ..found(1.0, 1.0) };
        assert_eq!(Row::of(&nothing, &options("write-bw"), Unit::Gigabits, false), None);
    }
}
