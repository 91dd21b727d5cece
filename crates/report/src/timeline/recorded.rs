//! Which parts of a period were recorded. Where nothing was, a timeline has a gap, not zero.

use std::collections::BTreeMap;

use dbtime_model::recording::Gap;

use super::buckets::Buckets;
use crate::filter::SECOND_US;
use crate::scan::Period;

/// The seconds that have rows, with the longest time in each.
#[derive(Debug, Default)]
pub(super) struct RecordedSeconds {
    /// The longest row of any session, in the period or not.
    seen: BTreeMap<i64, u128>,
    /// The most time of a session in all of its rows, among sessions that are drawn.
    placed: BTreeMap<i64, u128>,
}

impl RecordedSeconds {
    /// There is a row of this second, with this time.
    pub(super) fn see(&mut self, time_us: i64, ns: u128) {
        longest(&mut self.seen, time_us, ns);
    }

    /// This much time of a session in this second was put into buckets.
    pub(super) fn place(&mut self, time_us: i64, ns: u128) {
        longest(&mut self.placed, time_us, ns);
    }

    /// The gaps between them, of at least a second, and those that are `known`, in order.
    pub(super) fn gaps(&self, buckets: &Buckets, period: Period, known: &[Gap]) -> Vec<Period> {
        let (begin, end) = (i128::from(period.from_us), i128::from(period.to_us));
        let seen = self
            .seen
            .iter()
            .map(|(time, ns)| buckets.lies_anywhere(*time, *ns));
        let placed = self
            .placed
            .iter()
            .map(|(time, ns)| buckets.lies(*time, *ns, true));
        let mut recorded: Vec<(i128, i128)> = seen
            .chain(placed)
            .map(|(from, to)| (from.max(begin), to.min(end)))
            .filter(|(from, to)| from < to)
            .collect();
        recorded.sort_unstable();
        let mut gaps: Vec<Period> = known
            .iter()
            .map(|gap| (gap.from_us.max(period.from_us), gap.to_us.min(period.to_us)))
            .filter(|(from, to)| from < to)
            .map(between)
            .collect();
        let mut until = begin;
        for (from, to) in recorded.into_iter().chain([(end, end)]) {
            if from - until >= SECOND_US.into() {
                let us = |moment: i128| i64::try_from(moment).unwrap_or(i64::MAX);
                gaps.push(between((us(until), us(from))));
            }
            until = until.max(to);
        }
        united(gaps)
    }
}

fn between((from_us, to_us): (i64, i64)) -> Period {
    Period {
        from_us,
        to_us,
        ..Period::default()
    }
}

/// In order, without overlaps.
fn united(mut gaps: Vec<Period>) -> Vec<Period> {
    gaps.sort_unstable_by_key(|gap| gap.from_us);
    let mut united: Vec<Period> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        match united.last_mut().filter(|last| gap.from_us <= last.to_us) {
            Some(last) => last.to_us = last.to_us.max(gap.to_us),
            None => united.push(gap),
        }
    }
    united
}

fn longest(of: &mut BTreeMap<i64, u128>, time_us: i64, ns: u128) {
    let longest = of.entry(time_us).or_default();
    *longest = ns.max(*longest);
}

/// How much of a bucket was recorded, nanoseconds.
pub(super) fn recorded_ns(bucket: Period, gaps: &[Period]) -> u128 {
    // They are in order and do not overlap.
    let first = gaps.partition_point(|gap| gap.to_us <= bucket.from_us);
    let gaps = gaps[first..].iter().take_while(|gap| gap.from_us < bucket.to_us);
    let missing: u128 = gaps
        .map(|gap| between((gap.from_us.max(bucket.from_us), gap.to_us.min(bucket.to_us))).elapsed_ns())
        .sum();
    bucket.elapsed_ns() - missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::BucketWidth;

    const SECOND: i64 = SECOND_US;

    fn period(from: i64, to: i64) -> Period {
        Period {
            from_us: from * SECOND,
            to_us: to * SECOND,
            ..Period::default()
        }
    }

    fn gaps(seconds: &[(i64, u128)], whole: Period) -> Vec<Period> {
        let mut recorded = RecordedSeconds::default();
        for (second, ns) in seconds {
            recorded.see(second * SECOND, *ns);
        }
        let buckets = Buckets::new(whole, BucketWidth::Seconds(5), 1).expect("they are few");
        recorded.gaps(&buckets, whole, &[])
    }

    #[test]
    fn seconds_without_rows_are_gaps() {
        let rows: Vec<(i64, u128)> = (0..20).filter(|n| !(7..12).contains(n)).map(|n| (n, 0)).collect();
        let whole = period(0, 20);
        let found = gaps(&rows, whole);
        assert_eq!(found, [period(7, 12)]);
        let of_buckets =
            [period(0, 5), period(5, 10), period(10, 15)].map(|bucket| recorded_ns(bucket, &found));
        assert_eq!(of_buckets, [5, 2, 3].map(|seconds: u128| seconds * 1_000_000_000));
        assert_eq!(gaps(&[(0, 0), (1, 0)], whole), [period(2, 20)]);
        assert_eq!(gaps(&[], whole), [whole]);
        // What was before and after the chosen part is not part of it.
        assert_eq!(gaps(&rows, period(8, 11)), [period(8, 11)]);
    }

    #[test]
    fn of_a_second_that_was_recorded_in_part_the_rest_is_a_gap() {
        let mut recorded = RecordedSeconds::default();
        for second in [0, 1, 8, 9] {
            recorded.see(second * SECOND, 0);
        }
        let whole = period(0, 10);
        let buckets = Buckets::new(whole, BucketWidth::Seconds(5), 1).expect("they are few");
        let known =
            [(1_300_000, 8_600_000), (9_900_000, 20_000_000)].map(|(from_us, to_us)| Gap { from_us, to_us });
        let found = recorded.gaps(&buckets, whole, &known);
        assert_eq!(
            found,
            [(1_300_000, 8_600_000), (9_900_000, 10_000_000)].map(between)
        );
    }

    #[test]
    fn a_wait_that_ended_after_ten_seconds_is_no_gap() {
        let found = gaps(&[(9, 10_000_000_000), (19, 8_500_000_000)], period(0, 20));
        let expected = Period {
            from_us: 10 * SECOND,
            to_us: 11_500_000,
            ..Period::default()
        };
        assert_eq!(found, [expected]);
        // It ended after the chosen part.
        assert_eq!(gaps(&[(9, 10_000_000_000)], period(2, 5)), []);
    }
}
