//! Buckets of time: how wide they are, where they begin, and which part of a row's time is in which.
//!
//! A row has its second (or its window of several), not an exact time: its time is spread evenly over it. What is longer than its
//! second (an imported wait and a turn of `dbtime sched` are in the second in which they ended; a total without a sample waits for
//! one) extends back from its end ([`super::placement`]).

use crate::filter::SECOND_US;
use crate::round_seconds::round_seconds;
use crate::scan::Period;

/// With more buckets, a picture is not readable any more.
pub(super) const MOST_BUCKETS: i128 = 10_000;

/// How wide the buckets are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketWidth {
    /// At most this many, of a round length.
    AtMost(usize),
    /// This many seconds each.
    Seconds(u32),
}

/// Why such buckets are not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WidthError {
    /// Rows stand for longer times, or would be cut.
    #[error(
        "rows of this recording may stand for {resolution_s} s: buckets must be a multiple of that, not {width_s} s"
    )]
    Finer {
        /// What was asked for.
        width_s: u32,
        /// What a row stands for.
        resolution_s: u32,
    },
    /// There would be too many.
    #[error("{count} buckets of {width_s} s are too many: {MOST_BUCKETS} at most; choose longer ones")]
    TooMany {
        /// What was asked for.
        width_s: u32,
        /// How many it would be.
        count: i128,
    },
}

/// Buckets that begin at multiples of their width since the Unix epoch; the first and the last are cut to the period. All
/// moments are microseconds, in 128 bits: whatever a damaged recording says, they do not overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets {
    from: i128,
    to: i128,
    window: i128,
    width: i128,
}

impl Buckets {
    /// For a period that is not empty. `resolution_s`: what a row stands for.
    pub(crate) fn new(period: Period, width: BucketWidth, resolution_s: u32) -> Result<Buckets, WidthError> {
        let resolution_s = resolution_s.max(1);
        let of_width = |width_s: i64| Buckets {
            from: period.from_us.into(),
            to: period.to_us.into(),
            window: i128::from(resolution_s) * i128::from(SECOND_US),
            width: i128::from(width_s) * i128::from(SECOND_US),
        };
        match width {
            BucketWidth::AtMost(most) => {
                let most = most.max(1) as i128;
                let resolution_s = i64::from(resolution_s);
                let whole = |width_s: i64| width_s.div_euclid(resolution_s).saturating_mul(resolution_s);
                let fits = |buckets: &Buckets| buckets.count() <= most;
                let mut widths =
                    round_seconds().map(|width_s| of_width(whole(width_s.saturating_add(resolution_s - 1))));
                // The widest span all of time: at most two of them are needed.
                Ok(widths.find(fits).unwrap_or_else(|| of_width(i64::MAX)))
            }
            BucketWidth::Seconds(width_s) => {
                let width_s = width_s.max(1);
                if width_s % resolution_s != 0 {
                    return Err(WidthError::Finer {
                        width_s,
                        resolution_s,
                    });
                }
                let buckets = of_width(width_s.into());
                match buckets.count() {
                    count if count > MOST_BUCKETS => Err(WidthError::TooMany { width_s, count }),
                    _ => Ok(buckets),
                }
            }
        }
    }

    fn count(&self) -> i128 {
        (self.to - 1).div_euclid(self.width) - self.from.div_euclid(self.width) + 1
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.count()).unwrap_or(0)
    }

    /// Width of a whole bucket, seconds.
    pub(crate) fn width_s(&self) -> i64 {
        i64::try_from(self.width / i128::from(SECOND_US)).unwrap_or(i64::MAX)
    }

    /// Begin and end of a bucket, cut to the period.
    pub(crate) fn bounds(&self, bucket: usize) -> Period {
        let begin = (self.from.div_euclid(self.width) + bucket as i128) * self.width;
        // Both are within the period, whose ends have 64 bits.
        let us = |moment: i128| i64::try_from(moment).unwrap_or(i64::MAX);
        Period {
            from_us: us(begin.max(self.from)),
            to_us: us((begin + self.width).min(self.to)),
            ..Period::default()
        }
    }

    /// Begin and end of a row's second, or window; the end is in the period, the begin may be before it. Rows outside of the
    /// period count at its ends.
    pub(super) fn window(&self, time_us: i64) -> (i128, i128) {
        let window_of = |moment: i128| moment.div_euclid(self.window) * self.window;
        let begin = window_of(time_us.into()).clamp(window_of(self.from), window_of(self.to - 1));
        (begin, (begin + self.window).min(self.to))
    }

    /// When this time of a row was. `is_long`: what exceeds its second was before it.
    pub(crate) fn lies(&self, time_us: i64, ns: u128, is_long: bool) -> (i128, i128) {
        let (begin, end) = self.window(time_us);
        let from = end.saturating_sub(microseconds(ns));
        match is_long && from < begin {
            true => (from, end),
            // The first second may have begun before the period did.
            false => (begin.max(self.from), end),
        }
    }

    /// A time whose end is in the period, while its begin may be before it.
    pub(super) fn between(&self, from_us: i64, to_us: i64) -> (i128, i128) {
        let end = i128::from(to_us).clamp(self.from + 1, self.to);
        (i128::from(from_us).min(end - 1), end)
    }

    /// Like [`Buckets::lies`], for a row that need not be in the period.
    pub(super) fn lies_anywhere(&self, time_us: i64, ns: u128) -> (i128, i128) {
        let begin = i128::from(time_us).div_euclid(self.window) * self.window;
        let end = begin + self.window;
        (begin.min(end.saturating_sub(microseconds(ns))), end)
    }

    /// Distributes an amount over the buckets in which it was; returns what was before the first.
    pub(crate) fn share(
        &self,
        (begin, end): (i128, i128),
        amount: u128,
        mut give: impl FnMut(usize, u128),
    ) -> u128 {
        // A time without length is in the bucket that ends with it.
        let begin = begin.min(end - 1);
        let length = (end - begin).unsigned_abs();
        // The amount up to a moment; parts are differences of these, so that they add up to the whole.
        let due = |moment: i128| {
            part(
                amount,
                (moment - begin).clamp(0, end - begin).unsigned_abs(),
                length,
            )
        };
        let before = due(self.from);
        let mut given = before;
        let zero = self.from.div_euclid(self.width);
        let first = begin.max(self.from).div_euclid(self.width);
        let last = (end - 1).div_euclid(self.width);
        for bucket in first..=last {
            let until = match bucket == last {
                true => amount,
                false => due((bucket + 1) * self.width),
            };
            if until > given {
                give(usize::try_from(bucket - zero).unwrap_or(0), until - given);
                given = until;
            }
        }
        before
    }
}

/// Whole microseconds.
pub(super) fn microseconds(ns: u128) -> i128 {
    i128::try_from(ns / 1_000).unwrap_or(i128::MAX)
}

/// `amount` × `part` / `whole`, for `part` ≤ `whole`, without overflow.
fn part(amount: u128, part: u128, whole: u128) -> u128 {
    match amount.checked_mul(part) {
        Some(product) => product / whole,
        None => (amount / whole).saturating_mul(part),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = SECOND_US;
    const NS: u128 = 1_000_000_000;

    fn period(from_us: i64, to_us: i64) -> Period {
        Period {
            from_us,
            to_us,
            ..Period::default()
        }
    }

    fn buckets(from_us: i64, to_us: i64, width: BucketWidth, resolution_s: u32) -> Buckets {
        Buckets::new(period(from_us, to_us), width, resolution_s).expect("they are allowed")
    }

    /// What a row gives to each bucket, and what is before them.
    fn shared(buckets: &Buckets, time_us: i64, ns: u128, is_long: bool) -> (Vec<u128>, u128) {
        let mut all = vec![0; buckets.len()];
        let before = buckets.share(buckets.lies(time_us, ns, is_long), ns, |bucket, part| {
            all[bucket] += part;
        });
        (all, before)
    }

    #[test]
    fn the_first_and_the_last_bucket_are_as_long_as_what_was_recorded_of_them() {
        let buckets = buckets(7_300_000, 21_500_000, BucketWidth::Seconds(5), 1);
        let bounds: Vec<Period> = (0..buckets.len()).map(|n| buckets.bounds(n)).collect();
        assert_eq!(
            bounds,
            [
                period(7_300_000, 10_000_000),
                period(10_000_000, 15_000_000),
                period(15_000_000, 20_000_000),
                period(20_000_000, 21_500_000),
            ]
        );
    }

    #[test]
    fn a_period_that_ends_with_a_bucket_has_no_empty_one_after_it() {
        assert_eq!(buckets(0, 10 * SECOND, BucketWidth::Seconds(5), 1).len(), 2);
        assert_eq!(buckets(0, 10 * SECOND + 1, BucketWidth::Seconds(5), 1).len(), 3);
        assert_eq!(
            buckets(9 * SECOND, 9 * SECOND + 1, BucketWidth::Seconds(5), 1).len(),
            1
        );
    }

    #[test]
    fn widths_are_round_and_hold_whole_windows() {
        let width = |seconds: i64, most: usize, resolution_s: u32| {
            buckets(0, seconds * SECOND, BucketWidth::AtMost(most), resolution_s).width_s()
        };
        assert_eq!(
            [
                width(60, 60, 1),
                width(61, 60, 1),
                width(3_600, 60, 1),
                width(86_400, 60, 1)
            ],
            [1, 2, 60, 1_800]
        );
        assert_eq!(
            [width(60, 60, 10), width(1_300, 60, 10), width(100, 60, 7)],
            [10, 30, 7]
        );
        let every = Buckets::new(period(i64::MIN, i64::MAX), BucketWidth::AtMost(60), 3_600);
        assert!(every.expect("always").len() <= 60);
    }

    #[test]
    fn buckets_that_would_cut_a_row_or_are_too_many_are_refused() {
        let refused = |width_s, resolution_s, seconds| {
            Buckets::new(
                period(0, seconds * SECOND),
                BucketWidth::Seconds(width_s),
                resolution_s,
            )
            .err()
        };
        assert_eq!(
            refused(15, 10, 600),
            Some(WidthError::Finer {
                width_s: 15,
                resolution_s: 10
            })
        );
        assert_eq!(refused(20, 10, 600), None);
        assert_eq!(
            refused(1, 1, 86_400),
            Some(WidthError::TooMany {
                width_s: 1,
                count: 86_400
            })
        );
    }

    #[test]
    fn a_row_is_in_the_bucket_of_its_second() {
        let buckets = buckets(7_300_000, 21_500_000, BucketWidth::Seconds(5), 1);
        // 9 is the last second before 10, 10 the first one after.
        assert_eq!(shared(&buckets, 9 * SECOND, NS, true), (vec![NS, 0, 0, 0], 0));
        assert_eq!(shared(&buckets, 10 * SECOND, NS, true), (vec![0, NS, 0, 0], 0));
        // The second in which recording began, all of it.
        assert_eq!(
            shared(&buckets, 7 * SECOND, 700_000_000, true),
            (vec![700_000_000, 0, 0, 0], 0)
        );
        // A row at the end of the period, and rows outside of it, count at its ends.
        assert_eq!(
            shared(&buckets, 22 * SECOND, 1_000, true),
            (vec![0, 0, 0, 1_000], 0)
        );
        assert_eq!(shared(&buckets, 0, 1_000, true), (vec![1_000, 0, 0, 0], 0));
    }

    #[test]
    fn what_is_longer_than_its_second_lies_before_its_end() {
        let buckets = buckets(0, 20 * SECOND, BucketWidth::Seconds(5), 1);
        // Ended in second 11: from 4.0 to 12.0.
        assert_eq!(
            shared(&buckets, 11 * SECOND, 8 * NS, true),
            (vec![NS, 5 * NS, 2 * NS, 0], 0)
        );
        // Several at a time, in samples: all of it was in that second.
        assert_eq!(
            shared(&buckets, 11 * SECOND, 8 * NS, false),
            (vec![0, 0, 8 * NS, 0], 0)
        );
        // It began three seconds before the recording did.
        assert_eq!(
            shared(&buckets, SECOND, 5 * NS, true),
            (vec![2 * NS, 0, 0, 0], 3 * NS)
        );
    }

    #[test]
    fn a_row_of_a_window_is_spread_over_it() {
        let buckets = buckets(0, 60 * SECOND, BucketWidth::Seconds(20), 10);
        assert_eq!(
            shared(&buckets, 10 * SECOND, 10 * NS, true),
            (vec![10 * NS, 0, 0], 0)
        );
        // From 15 to 30: five of fifteen before 20.
        assert_eq!(
            shared(&buckets, 20 * SECOND, 15 * NS, true),
            (vec![5 * NS, 10 * NS, 0], 0)
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost(
            from_us in prop_oneof![0i64..100_000_000, any::<i64>()],
            length_us in 1i64..200_000_000,
            rows in prop::collection::vec((any::<i64>(), prop_oneof![0u128..5_000_000_000, Just(u128::from(u64::MAX))], any::<bool>()), 1..20),
            near in any::<bool>(),
            width in prop_oneof![(1usize..300).prop_map(BucketWidth::AtMost), (10u32..100).prop_map(BucketWidth::Seconds)],
        ) {
            let period = period(from_us, from_us.saturating_add(length_us));
            prop_assume!(period.from_us < period.to_us);
            let buckets = Buckets::new(period, width, 1).expect("they are few");
            for (time, ns, is_long) in rows {
                let time = if near { from_us.saturating_add(time % 250_000_000) } else { time };
                let (parts, before) = shared(&buckets, time, ns, is_long);
                prop_assert_eq!(parts.iter().sum::<u128>() + before, ns);
                let (begin, end) = buckets.lies(time, ns, is_long);
                prop_assert!(begin <= end && end <= period.to_us.into() && end > period.from_us.into());
            }
        }
    }
}
