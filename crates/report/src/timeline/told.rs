//! Times of which a file tells only as a whole, as samples do of some seconds: all of their rows stand in the last second.

use std::collections::BTreeMap;

use dbtime_model::recording::CoveredPeriod;

use super::recorded::RecordedSeconds;
use crate::filter::SECOND_US;

/// Parts that an amount is handed out in, at most: a time may be of hours.
const MOST_PARTS: i64 = 60;

/// Begin and end of each, microseconds since the Unix epoch, by its last second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToldTimes(BTreeMap<i64, (i64, i64)>);

impl ToldTimes {
    pub(super) fn of(periods: &[CoveredPeriod]) -> ToldTimes {
        let mut times: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for period in periods {
            // Rows of those with the same last second are not told apart.
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

    /// The time whose rows stand in this second; none where none is told of.
    pub(super) fn with(&self, second_us: i64) -> Option<(i64, i64)> {
        // Where there are many, neighbours are one, whose last second is the later one's.
        let (_, time) = self.0.range(second_us..).next()?;
        (time.0 <= second_us).then_some(*time)
    }

    /// Hands amounts of rows of this second out to the seconds of the time that they tell of, evenly; to that second where none is told
    /// of. What is handed out sums to the amounts.
    pub(crate) fn spread<const N: usize>(
        &self,
        second_us: i64,
        amounts: [u64; N],
        mut give: impl FnMut(i64, [u64; N]),
    ) {
        let Some((from_us, to_us)) = self.with(second_us).filter(|(from, to)| from < to) else {
            return give(second_us, amounts);
        };
        let second_of = |us: i64| us.div_euclid(SECOND_US) * SECOND_US;
        let (first, last) = (second_of(from_us), second_of(to_us - 1));
        let step = SECOND_US * (((last - first) / SECOND_US) / MOST_PARTS + 1);
        let due = |amount: u64, moment: i64| {
            let passed = (moment.min(to_us) - from_us).unsigned_abs();
            // No more than the amount: a part of it.
            (u128::from(amount) * u128::from(passed) / u128::from((to_us - from_us).unsigned_abs())) as u64
        };
        let mut given = [0; N];
        let mut at = first;
        while at <= last {
            let until = amounts.map(|amount| due(amount, at.saturating_add(step)));
            give(at, std::array::from_fn(|n| until[n] - given[n]));
            given = until;
            at = at.saturating_add(step);
        }
    }

    /// All of them were recorded.
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
        // Of two that became one.
        assert_eq!(with(15), Some((10 * SECOND, 20 * SECOND)));
        assert_eq!((with(7), with(20)), (None, None));
        assert!(!times.is_empty() && ToldTimes::of(&[]).is_empty());
    }

    #[test]
    fn amounts_are_spread_evenly_over_their_time_and_sum_to_the_whole() {
        let period = |from_us: i64, to_us: i64| CoveredPeriod {
            from_us,
            to_us,
            elapsed_ns: 0,
        };
        let times = ToldTimes::of(&[period(500_000, 3_000_000), period(10 * SECOND, 7_210 * SECOND)]);
        let spread = |second: i64, amounts: [u64; 2]| {
            let mut parts = Vec::new();
            times.spread(second * SECOND, amounts, |at, part| {
                parts.push((at / SECOND, part))
            });
            parts
        };
        assert_eq!(spread(2, [50, 3]), [(0, [10, 0]), (1, [20, 1]), (2, [20, 2])]);
        // None is told of.
        assert_eq!(spread(5, [50, 3]), [(5, [50, 3])]);
        let hours = spread(7_209, [7_200, u64::MAX]);
        assert_eq!(hours.len(), 60);
        assert_eq!(hours[59], (10 + 59 * 121, [61, hours[59].1[1]]));
        assert_eq!(
            hours.iter().map(|(_, part)| u128::from(part[1])).sum::<u128>(),
            u64::MAX.into()
        );
    }
}
