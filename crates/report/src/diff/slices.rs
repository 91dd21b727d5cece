//! The slices of time of one side, which the test draws from.

use dbtime_model::recording::Meta;

use super::noise::MOST_SLICES;
use crate::filter::{Filter, SECOND_US};
use crate::scan::Period;

/// Slices of equal length, whole seconds if there are few, without those in which nothing was recorded; or snapshots of a file, neighbours
/// merged if there are many.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slices {
    /// The last second of each that has rows, and how much of it was recorded, in seconds.
    all: Vec<(i64, f64)>,
    are_snapshots: bool,
}

impl Slices {
    pub(super) fn of(period: Period, meta: &Meta, filter: &Filter) -> Slices {
        let snapshots = snapshots(meta, filter);
        let are_snapshots = !snapshots.is_empty();
        Slices {
            all: match are_snapshots {
                true => snapshots,
                false => of_equal_length(period, meta),
            },
            are_snapshots,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether they are snapshots of a file.
    pub(super) fn are_snapshots(&self) -> bool {
        self.are_snapshots
    }

    /// The slice of a row of this second; rows outside of the period count in the nearest slice.
    pub(super) fn of_time(&self, time_us: i64) -> usize {
        let at = self
            .all
            .partition_point(|(last, _)| last.saturating_add(SECOND_US) <= time_us);
        at.min(self.count() - 1)
    }

    /// Recorded time of each slice, in seconds.
    pub(super) fn elapsed(&self) -> Vec<f64> {
        self.all.iter().map(|(_, seconds)| *seconds).collect()
    }
}

/// One at least.
fn of_equal_length(period: Period, meta: &Meta) -> Vec<(i64, f64)> {
    let first = period.from_us.div_euclid(SECOND_US);
    let end = period.to_us.saturating_add(SECOND_US - 1).div_euclid(SECOND_US);
    let seconds = end.saturating_sub(first).max(1);
    let count = usize::try_from(seconds).unwrap_or(MOST_SLICES).min(MOST_SLICES);
    // The first second that is not in an earlier slice.
    let bound = |slice: usize| {
        let count = count as i128;
        let second = (slice as i128 * i128::from(seconds) + count - 1).div_euclid(count);
        let us = (i128::from(first) + second) * i128::from(SECOND_US);
        i64::try_from(us).unwrap_or(i64::MAX)
    };
    let mut slices: Vec<(i64, f64)> = (0..count)
        .map(|slice| {
            let (begin, end) = (bound(slice), bound(slice + 1));
            let (from, to) = (begin.max(period.from_us), end.min(period.to_us));
            let us = i128::from(to) - i128::from(from) - i128::from(meta.gaps_us(from, to));
            (end.saturating_sub(SECOND_US), us.max(0) as f64 / SECOND_US as f64)
        })
        .collect();
    if slices.iter().any(|(_, seconds)| *seconds > 0.0) {
        slices.retain(|(_, seconds)| *seconds > 0.0);
    }
    slices
}

/// The snapshots that the filter lets through, by their last seconds.
fn snapshots(meta: &Meta, filter: &Filter) -> Vec<(i64, f64)> {
    let mut all: Vec<(i64, f64)> = Vec::new();
    for period in &meta.periods {
        let last = period.last_second_us();
        let seconds = period.elapsed_ns as f64 / 1e9;
        match all.last_mut().filter(|(of, _)| *of == last) {
            // Rows in the same second cannot be separated.
            Some((_, sum)) => *sum += seconds,
            None if filter.takes_time(last) => all.push((last, seconds)),
            None => {}
        }
    }
    let together = all.len().div_ceil(MOST_SLICES).max(1);
    let groups = all.chunks(together).map(|group| {
        let seconds = group.iter().map(|(_, seconds)| seconds).sum();
        (group[group.len() - 1].0, seconds)
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::{CoveredPeriod, Gap};

    use super::*;
    use crate::diff::noise::MOST_SLICES;

    fn of(from_us: i64, to_us: i64) -> Slices {
        let period = Period {
            from_us,
            to_us,
            ..Period::default()
        };
        Slices::of(period, &Meta::default(), &Filter::default())
    }

    #[test]
    fn slices_share_the_period_out() {
        for (from_us, to_us) in [
            (300_000, 4_300_000),
            (0, 1),
            (5_000_000, 605_500_000),
            (0, 61_000_000),
        ] {
            let slices = of(from_us, to_us);
            let sum: f64 = slices.elapsed().iter().sum();
            assert!(
                (sum - (to_us - from_us) as f64 / 1e6).abs() < 1e-6,
                "{from_us} {to_us}"
            );
            assert_eq!(slices.of_time(from_us), 0);
            assert_eq!(slices.of_time(to_us - 1), slices.count() - 1);
            assert_eq!(
                (slices.of_time(i64::MIN), slices.of_time(i64::MAX)),
                (0, slices.count() - 1)
            );
        }
        assert_eq!(of(300_000, 4_300_000).count(), 5);
    }

    /// What is in a slice happened in its elapsed time.
    #[test]
    fn a_second_is_in_the_slice_that_has_its_time() {
        let slices = of(0, 100_000_000);
        let mut seconds = vec![0.0; slices.count()];
        for second in 0..100 {
            seconds[slices.of_time(second * SECOND_US)] += 1.0;
        }
        assert_eq!(seconds, slices.elapsed());
    }

    #[test]
    fn time_without_a_recording_is_in_no_slice() {
        let period = Period {
            from_us: 0,
            to_us: 10 * SECOND_US,
            ..Period::default()
        };
        let meta = Meta {
            gaps: vec![Gap {
                from_us: 2_500_000,
                to_us: 8_000_000,
            }],
            ..Meta::default()
        };
        let slices = Slices::of(period, &meta, &Filter::default());
        assert_eq!(slices.elapsed(), [1.0, 1.0, 0.5, 1.0, 1.0]);
        let of_seconds: Vec<usize> = [0, 1, 2, 8, 9]
            .map(|second| slices.of_time(second * SECOND_US))
            .into();
        assert_eq!(of_seconds, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn snapshots_are_slices_whatever_lies_between_them() {
        let snapshot = |number: i64| CoveredPeriod {
            from_us: number * 1_000 * SECOND_US,
            to_us: (number * 1_000 + 5) * SECOND_US,
            elapsed_ns: 4_900_000_000,
        };
        let slices_of = |count: i64, filter: &Filter| {
            let meta = Meta {
                periods: (0..count).map(snapshot).collect(),
                ..Meta::default()
            };
            let period = Period {
                from_us: 0,
                to_us: count * 1_000 * SECOND_US,
                ..Period::default()
            };
            Slices::of(period, &meta, filter)
        };
        let slices = slices_of(3, &Filter::default());
        assert_eq!((slices.count(), slices.elapsed()), (3, vec![4.9; 3]));
        for number in 0..3 {
            assert_eq!(slices.of_time(snapshot(number).last_second_us()), number as usize);
        }
        // Rows outside of all snapshots go to the first or last one.
        assert_eq!((slices.of_time(0), slices.of_time(i64::MAX)), (0, 2));
        let second = Filter {
            from_us: Some(1_000 * SECOND_US),
            to_us: Some(2_000 * SECOND_US),
            ..Filter::default()
        };
        assert_eq!(slices_of(3, &second).count(), 1);
        let many = slices_of(1_000, &Filter::default());
        assert!(many.count() <= MOST_SLICES && many.count() > MOST_SLICES / 2);
        let sum: f64 = many.elapsed().iter().sum();
        assert!((sum - 4_900.0).abs() < 1e-6, "{sum}");
    }
}
