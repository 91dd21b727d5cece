//! Commands by latency, and the ledgers of ranges of them.

use serde::Serialize;

use std::collections::BTreeMap;

use dbtime_model::{State, Wait};

use crate::fields;

/// With fewer commands, the middle half and the slowest hundredth are not worth comparing.
const FEWEST: u64 = 20;
/// Share of the slow ones.
const SLOWEST: f64 = 0.01;
/// Bounds of the middle half.
const MIDDLE: (f64, f64) = (0.25, 0.75);

/// What commands of a range of latencies spent their time on: the rows sum to their mean latency.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeLedger {
    /// How many there are: buckets at both ends count in part.
    pub commands: f64,
    /// Mean latency, nanoseconds.
    pub mean_ns: f64,
    /// The most first.
    pub rows: Vec<RangeRow>,
}

/// One line of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RangeRow {
    /// Wait event.
    #[serde(serialize_with = "fields::text")]
    pub wait: Wait,
    /// What the operating system says.
    pub state: State,
    /// Mean over all commands of the range, nanoseconds.
    pub ns: f64,
}

/// Commands by the lower bound of their bucket.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    count: u64,
    sum_ns: u64,
    parts: BTreeMap<(Wait, State), u64>,
}

impl Ranges {
    pub(super) fn add_whole(&mut self, from_ns: u64, count: u64, sum_ns: u64) {
        let bucket = self.0.entry(from_ns).or_default();
        bucket.count = bucket.count.saturating_add(count);
        bucket.sum_ns = bucket.sum_ns.saturating_add(sum_ns);
    }

    pub(super) fn add_part(&mut self, from_ns: u64, wait: &Wait, state: State, ns: u64) {
        let bucket = self.0.entry(from_ns).or_default();
        let part = bucket.parts.entry((wait.clone(), state)).or_default();
        *part = part.saturating_add(ns);
    }

    /// The middle half, and the slowest hundredth but at least one; none if there are too few.
    pub(super) fn median_and_slow(&self) -> (Option<RangeLedger>, Option<RangeLedger>) {
        let count: u64 = self.0.values().map(|bucket| bucket.count).sum();
        if count < FEWEST {
            return (None, None);
        }
        let all = count as f64;
        let slowest = (all * SLOWEST).max(1.0);
        (
            Some(self.ledger(all * MIDDLE.0, all * MIDDLE.1)),
            Some(self.ledger(all - slowest, all)),
        )
    }

    /// For the commands from this rank to that, by latency.
    fn ledger(&self, from: f64, to: f64) -> RangeLedger {
        let (mut before, mut commands, mut whole) = (0.0, 0.0, 0.0);
        let mut parts: BTreeMap<(Wait, State), f64> = BTreeMap::new();
        for bucket in self.0.values().filter(|bucket| bucket.count > 0) {
            let count = bucket.count as f64;
            let inside = to.min(before + count) - from.max(before);
            before += count;
            if inside <= 0.0 {
                continue;
            }
            let share = inside / count;
            commands += inside;
            whole += bucket.sum_ns as f64 * share;
            for (key, ns) in &bucket.parts {
                *parts.entry(key.clone()).or_default() += *ns as f64 * share;
            }
        }
        // Parts for which there was no room in the kernel.
        let known: f64 = parts.values().sum();
        if whole - known > whole * 1e-9 {
            *parts.entry((Wait::not_read(), State::Unknown)).or_default() += whole - known;
        }
        let mut rows: Vec<RangeRow> = parts
            .into_iter()
            .map(|((wait, state), ns)| RangeRow {
                wait,
                state,
                ns: ns / commands,
            })
            .collect();
        rows.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        RangeLedger {
            commands,
            mean_ns: whole / commands,
            rows,
        }
    }
}

/// Rows of two ledgers, added up by `key`: nanoseconds in each, the largest increase in the second first.
pub(super) fn side_by_side<K: Ord>(
    first: &RangeLedger,
    second: &RangeLedger,
    key: impl Fn(&RangeRow) -> K,
) -> Vec<(K, f64, f64)> {
    let mut sums: BTreeMap<K, (f64, f64)> = BTreeMap::new();
    for row in &first.rows {
        sums.entry(key(row)).or_default().0 += row.ns;
    }
    for row in &second.rows {
        sums.entry(key(row)).or_default().1 += row.ns;
    }
    let mut rows: Vec<(K, f64, f64)> = sums.into_iter().map(|(key, (a, b))| (key, a, b)).collect();
    rows.sort_by(|(_, a, b), (_, c, d)| (d - c).total_cmp(&(b - a)));
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_that_ends_inside_a_bucket_has_a_part_of_it() {
        let mut ranges = Ranges::default();
        let cpu = Wait::none();
        let lock = Wait::event("Lock", "tuple", false);
        ranges.add_whole(1_000, 150, 150_000);
        ranges.add_part(1_000, &cpu, State::Cpu, 150_000);
        ranges.add_whole(9_000, 50, 500_000);
        ranges.add_part(9_000, &cpu, State::Cpu, 50_000);
        ranges.add_part(9_000, &lock, State::Sleep, 450_000);
        let (median, slow) = ranges.median_and_slow();
        let (median, slow) = (median.expect("enough"), slow.expect("enough"));
        assert_eq!((median.commands, median.mean_ns), (100.0, 1_000.0));
        assert_eq!((slow.commands, slow.mean_ns), (2.0, 10_000.0));
        assert_eq!((slow.rows[0].wait.clone(), slow.rows[0].ns), (lock, 9_000.0));
    }

    #[test]
    fn few_commands_are_not_compared() {
        let mut ranges = Ranges::default();
        ranges.add_whole(1_000, FEWEST - 1, 150_000);
        assert_eq!(ranges.median_and_slow(), (None, None));
    }

    #[test]
    fn time_without_parts_is_unknown() {
        let mut ranges = Ranges::default();
        ranges.add_whole(1_000, 100, 100_000);
        ranges.add_part(1_000, &Wait::none(), State::Cpu, 60_000);
        let (median, _) = ranges.median_and_slow();
        let rows = median.expect("enough").rows;
        let unknown = rows.iter().find(|row| row.state == State::Unknown);
        assert!(
            (unknown.expect("it is there").ns - 400.0).abs() < 1e-6,
            "{rows:?}"
        );
    }

    proptest! {
        #[test]
        fn the_rows_of_a_range_sum_to_the_mean_latency(
            buckets in prop::collection::vec((1u64..1_000, prop::collection::vec(0u64..1_000_000, 3)), 1..30)
        ) {
            let mut ranges = Ranges::default();
            let states = [State::Cpu, State::Disk, State::Sleep];
            for (n, (count, parts)) in buckets.iter().enumerate() {
                let from_ns = 1_000 * n as u64;
                ranges.add_whole(from_ns, *count, parts.iter().sum());
                for (state, ns) in states.into_iter().zip(parts) {
                    ranges.add_part(from_ns, &Wait::none(), state, *ns);
                }
            }
            let count: u64 = buckets.iter().map(|(count, _)| count).sum();
            if let (Some(median), Some(slow)) = ranges.median_and_slow() {
                prop_assert!((median.commands - count as f64 / 2.0).abs() < 1e-6);
                prop_assert!((slow.commands - (count as f64 / 100.0).max(1.0)).abs() < 1e-6);
                for ledger in [median, slow] {
                    let sum: f64 = ledger.rows.iter().map(|row| row.ns).sum();
                    prop_assert!((sum - ledger.mean_ns).abs() <= 1e-6 * ledger.mean_ns.max(1.0));
                }
            }
        }
    }
}
