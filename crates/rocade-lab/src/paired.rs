//! What can be said of two things that were measured in pairs, one right after the other: the median of the pairs'
//! ratios and an interval for it. Owns no measuring.

/// The median of ratios, and between which two of them the true one lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Middle one of the ratios, or the mean of the two in the middle.
    pub median: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

/// So few ratios have no such interval: all of five may lie above the true median once in 32 times.
pub const LEAST: usize = 6;

/// By the sign test's order statistics (Conover, Practical Nonparametric Statistics, 3.2), which asks nothing of how the
/// ratios are distributed. None of fewer than [`LEAST`].
pub fn interval(ratios: &[f64]) -> Option<Interval> {
    let mut sorted = ratios.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let outside = beyond(count)?;
    Some(Interval {
        median: f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]),
        lower: sorted[outside],
        upper: sorted[count - 1 - outside],
    })
}

/// How many may be left out at each end: the most of which a fair coin shows as few heads in 2.5 % of all cases at most.
fn beyond(count: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut at_most = 0.0;
    let mut left_out = None;
    for heads in 0..count {
        at_most += chance;
        if at_most > 0.025 {
            break;
        }
        left_out = Some(heads);
        chance *= (count - heads) as f64 / (heads + 1) as f64;
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_left_out_at_each_end_as_tables_of_the_sign_test_say() {
        let seen: Vec<_> = [5, 6, 8, 9, 11, 12, 15, 20, 25].map(beyond).into();
        let wanted = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(3), Some(5), Some(7)];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn the_interval_is_of_the_ratios_and_holds_their_median() {
        let ratios = [1.2, 0.5, 0.9, 1.0, 1.1, 0.95, 7.0, 1.05, 0.98];
        assert_eq!(interval(&ratios), Some(Interval { median: 1.0, lower: 0.9, upper: 1.2 }));
        let even = interval(&ratios[..6]).unwrap();
        assert_eq!((even.lower, even.upper), (0.5, 1.2));
        assert!((even.median - 0.975).abs() < 1e-12);
        assert_eq!(interval(&ratios[..5]), None);
    }
}
