//! Puts the time of sessions into buckets: what of it was when, as far as rows tell.
//!
//! A session does one thing at a time. If its rows of a second have more time than the second, the long ones among them began
//! before it: they are laid end to end, the shortest last, back from the end of the second.

use crate::fast_map::FastMap;

use dbtime_model::SessionId;

use super::buckets::{Buckets, microseconds};
use super::recorded::RecordedSeconds;
use super::told::ToldTimes;

/// Maximum number of cells to keep until the rows of their second are complete. Rows of a second are close together in a
/// recording; any that are not are placed separately.
const OPEN_CELLS: usize = 100_000;

/// When the time of the rows of a second was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// In that second: several tasks may have more time than passed.
    Second,
    /// In it, except what one session has beyond it: that was before.
    Back,
    /// In the time that is reported as a whole and ends with it.
    Told(ToldTimes),
}

/// Time by group, in one second of a session.
type Second = FastMap<u32, u128>;

/// Adds up time by bucket and group.
pub(super) struct Placement<'a> {
    buckets: &'a Buckets,
    reach: Reach,
    open: FastMap<(SessionId, i64), Second>,
    cells: usize,
    recorded: &'a mut RecordedSeconds,
    sums: FastMap<(usize, u32), u128>,
    before_ns: u128,
}

impl<'a> Placement<'a> {
    /// `recorded` learns how far back the time of each second goes.
    pub(super) fn new(
        buckets: &'a Buckets,
        reach: Reach,
        recorded: &'a mut RecordedSeconds,
    ) -> Placement<'a> {
        Placement {
            buckets,
            reach,
            open: FastMap::default(),
            cells: 0,
            recorded,
            sums: FastMap::default(),
            before_ns: 0,
        }
    }

    /// Adds time of a session in this second and group.
    pub(super) fn add(&mut self, session: SessionId, time_us: i64, group: u32, ns: u64) {
        let second = self.open.entry((session, time_us)).or_default();
        let cells = second.len();
        *second.entry(group).or_default() += u128::from(ns);
        self.cells += second.len() - cells;
        if self.cells > OPEN_CELLS {
            self.place();
        }
    }

    /// Time by bucket and group, and what lies before the first bucket.
    pub(super) fn finish(mut self) -> (FastMap<(usize, u32), u128>, u128) {
        self.place();
        (self.sums, self.before_ns)
    }

    fn place(&mut self) {
        for ((_, time_us), second) in std::mem::take(&mut self.open) {
            let all: u128 = second.values().sum();
            let (begin, end) = self.buckets.window(time_us);
            let is_long = self.reach == Reach::Back && end.saturating_sub(microseconds(all)) < begin;
            if self.reach == Reach::Back {
                self.recorded.place(time_us, all);
            }
            let told = match &self.reach {
                Reach::Told(times) => times.with(time_us),
                Reach::Second | Reach::Back => None,
            };
            let evenly = match told {
                Some((from_us, to_us)) => self.buckets.between(from_us, to_us),
                None => self.buckets.lies(time_us, 0, false),
            };
            let mut cells: Vec<(u128, u32)> = second.into_iter().map(|(group, ns)| (ns, group)).collect();
            cells.sort_unstable();
            let mut laid = 0u128;
            for (ns, group) in cells {
                let lies = match is_long {
                    true => (
                        end.saturating_sub(microseconds(laid + ns)),
                        end.saturating_sub(microseconds(laid)),
                    ),
                    false => evenly,
                };
                laid += ns;
                let sums = &mut self.sums;
                self.before_ns += self.buckets.share(lies, ns, |bucket, part| {
                    *sums.entry((bucket, group)).or_default() += part;
                });
            }
        }
        self.cells = 0;
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::CoveredPeriod;
    use proptest::prelude::*;

    use super::*;
    use crate::scan::Period;
    use crate::timeline::BucketWidth;

    const SECOND: i64 = 1_000_000;
    const MS: u64 = 1_000_000;

    fn buckets(seconds: i64, width_s: u32) -> Buckets {
        let period = Period {
            from_us: 0,
            to_us: seconds * SECOND,
            ..Period::default()
        };
        Buckets::new(period, BucketWidth::Seconds(width_s), 1).expect("they are few")
    }

    /// Rows of one session: second, group and milliseconds. Returns milliseconds by bucket of a second and group, and those
    /// before.
    fn placed(rows: &[(i64, u32, u64)], reach: Reach) -> (Vec<[u128; 2]>, u128) {
        let buckets = buckets(12, 1);
        let mut recorded = RecordedSeconds::default();
        let mut placement = Placement::new(&buckets, reach, &mut recorded);
        for (second, group, ms) in rows {
            placement.add(SessionId(1), second * SECOND, *group, ms * MS);
        }
        let (sums, before) = placement.finish();
        let ms = u128::from(MS);
        let of = |bucket, group| sums.get(&(bucket, group)).copied().unwrap_or(0) / ms;
        (
            (0..12).map(|bucket| [of(bucket, 0), of(bucket, 1)]).collect(),
            before / ms,
        )
    }

    #[test]
    fn a_session_is_never_more_than_one() {
        // A wait of 4.5 s and 0.3 s of CPU after it, written when they ended.
        let (found, before) = placed(&[(8, 0, 4_500), (8, 1, 300)], Reach::Back);
        let mut expected = vec![[0, 0]; 12];
        expected[4..9].copy_from_slice(&[[800, 0], [1_000, 0], [1_000, 0], [1_000, 0], [700, 300]]);
        assert_eq!((found, before), (expected, 0));
    }

    #[test]
    fn samples_of_several_tasks_stay_in_their_second() {
        let (found, before) = placed(&[(8, 0, 3_000), (8, 1, 300)], Reach::Second);
        assert_eq!((found[8], before), ([3_000, 300], 0));
    }

    #[test]
    fn what_is_told_of_some_seconds_is_spread_over_them() {
        let period = |from: i64, to: i64| CoveredPeriod {
            from_us: from * SECOND,
            to_us: to * SECOND,
            ..CoveredPeriod::default()
        };
        let times = || Reach::Told(ToldTimes::of(&[period(-2, 2), period(4, 9)]));
        // More time than one session has: samples of several.
        let (found, before) = placed(&[(8, 0, 10_000), (8, 1, 500)], times());
        let mut expected = vec![[0, 0]; 12];
        expected[4..9].fill([2_000, 100]);
        assert_eq!((found, before), (expected, 0));
        // What was before the part that is drawn.
        let (found, before) = placed(&[(1, 0, 4_000)], times());
        assert_eq!((found[0], found[1], before), ([1_000, 0], [1_000, 0], 2_000));
        // In no time that is reported.
        let (found, before) = placed(&[(11, 1, 700)], times());
        assert_eq!((found[11], before), ([0, 700], 0));
    }

    #[test]
    fn what_began_before_is_not_pressed_into_the_first_bucket() {
        let (found, before) = placed(&[(1, 0, 5_000)], Reach::Back);
        assert_eq!((found[0], found[1], before), ([1_000, 0], [1_000, 0], 3_000));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nobody_is_two(
            rows in prop::collection::vec((0i64..12, 0u32..4, 0u64..6_000), 1..20), is_long: bool,
        ) {
            let buckets = buckets(12, 1);
            let mut recorded = RecordedSeconds::default();
            let reach = if is_long { Reach::Back } else { Reach::Second };
            let mut placement = Placement::new(&buckets, reach, &mut recorded);
            for (number, (second, group, ms)) in rows.iter().enumerate() {
                placement.add(SessionId(number as u64), second * SECOND, *group, ms * MS);
            }
            let (sums, before) = placement.finish();
            let all: u64 = rows.iter().map(|(_, _, ms)| ms * MS).sum();
            prop_assert_eq!(sums.values().sum::<u128>() + before, u128::from(all));
            if is_long {
                prop_assert!(sums.values().all(|ns| *ns <= rows.len() as u128 * 1_000_000_000));
            }
        }
    }
}
