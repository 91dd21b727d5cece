//! Times that a file reports only as a whole, such as samples over some seconds: all of their rows are in the last second.

use std::collections::BTreeMap;

use dbtime_model::recording::CoveredPeriod;

use super::recorded::RecordedSeconds;

/// Begin and end of each, microseconds since the Unix epoch, by its last second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ToldTimes(BTreeMap<i64, (i64, i64)>);

impl ToldTimes {
    pub(super) fn of(periods: &[CoveredPeriod]) -> ToldTimes {
        let mut times: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for period in periods {
            // Rows of those with the same last second cannot be told apart.
            let time = times
                .entry(period.last_second_us())
                .or_insert((period.from_us, period.to_us));
            *time = (time.0.min(period.from_us), time.1.max(period.to_us));
        }
        ToldTimes(times)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time whose rows are in this second; none if there is no such time.
    pub(super) fn with(&self, second_us: i64) -> Option<(i64, i64)> {
        // If there are many, neighbours are merged into one, whose last second is the later one's.
        let (_, time) = self.0.range(second_us..).next()?;
        (time.0 <= second_us).then_some(*time)
    }

    /// Marks all of them as recorded.
    pub(super) fn see(&self, recorded: &mut RecordedSeconds) {
        for (last_second_us, (from_us, to_us)) in &self.0 {
            let us = to_us.saturating_sub(*from_us).max(0).unsigned_abs();
            recorded.see(*last_second_us, u128::from(us) * 1_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn rows_are_of_the_time_in_whose_last_second_they_stand() {
        let period = |from: i64, to: i64| CoveredPeriod {
            from_us: from * SECOND,
            to_us: to * SECOND,
            elapsed_ns: (to - from).unsigned_abs() * 1_000_000_000,
        };
        let times = ToldTimes::of(&[period(0, 5), period(10, 20), period(12, 20)]);
        let with = |second: i64| times.with(second * SECOND);
        assert_eq!(with(4), Some((0, 5 * SECOND)));
        assert_eq!(with(19), Some((10 * SECOND, 20 * SECOND)));
        // In one that was merged from two.
        assert_eq!(with(15), Some((10 * SECOND, 20 * SECOND)));
        assert_eq!((with(7), with(20)), (None, None));
        assert!(!times.is_empty() && ToldTimes::of(&[]).is_empty());
    }
}
