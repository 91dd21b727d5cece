//! Distribution of latencies: rows of `latency` in, quantiles and a power-of-two histogram out.
//!
//! Buckets of a recording (1/64 of a power of two in nanoseconds) are kept as they are, so histograms add up exactly,
//! in any order. Shown buckets are coarser: powers of two in microseconds. 1 µs is not a power of two in nanoseconds,
//! so some recorded buckets straddle a shown bound; such a bucket is assigned whole, by its middle: splitting it would
//! be a guess. So a latency can appear in the neighbouring bucket only if it is within 1 % of the bound.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::fields::ns_as_us;

/// Nanoseconds in a microsecond.
const MICROSECOND_NS: u64 = 1_000;

/// Counted latencies. Sums are 128 bits wide: no recording can make them overflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By bounds in nanoseconds, the upper one exclusive.
    buckets: BTreeMap<(u64, u64), Counted>,
    total: Counted,
}

/// Events of one bucket, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counted {
    count: u128,
    sum_ns: u128,
    max_ns: u64,
}

impl Counted {
    fn add(&mut self, other: &Counted) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Bucket of a histogram as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Lower bound in microseconds: 0 or a power of two.
    pub from_us: u64,
    /// Upper bound in microseconds, exclusive: the next power of two.
    pub to_us: u64,
    /// Events.
    pub count: u128,
    /// Sum of their latencies in nanoseconds.
    pub sum_ns: u128,
}

impl Histogram {
    /// Adds `count` events that fell between `from_ns` and `to_ns` (exclusive), with their sum and the longest of them,
    /// all in nanoseconds.
    pub fn add(&mut self, from_ns: u64, to_ns: u64, count: u64, sum_ns: u64, max_ns: u64) {
        if count == 0 {
            return;
        }
        let more = Counted {
            count: count.into(),
            sum_ns: sum_ns.into(),
            max_ns,
        };
        self.buckets.entry((from_ns, to_ns)).or_default().add(&more);
        self.total.add(&more);
    }

    /// Adds all events of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (bounds, more) in &other.buckets {
            self.buckets.entry(*bounds).or_default().add(more);
        }
        self.total.add(&other.total);
    }

    /// Events.
    pub fn count(&self) -> u128 {
        self.total.count
    }

    /// Sum of all latencies in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.total.sum_ns
    }

    /// The longest latency in nanoseconds; 0 without events.
    pub fn max_ns(&self) -> u64 {
        self.total.max_ns
    }

    /// Mean latency in nanoseconds; none without events.
    pub fn mean_ns(&self) -> Option<u128> {
        self.sum_ns().checked_div(self.count())
    }

    /// The latency in nanoseconds that a fraction `q` (0 to 1) of the events does not exceed, accurate to 1 %: the
    /// middle of its bucket, and never more than the longest latency there. None without events.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count() == 0 {
            return None;
        }
        let rank = ((q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u128).clamp(1, self.count());
        if rank == self.count() {
            return Some(self.max_ns());
        }
        let mut seen = 0;
        self.buckets.iter().find_map(|(bounds, counted)| {
            seen += counted.count;
            (seen >= rank).then(|| middle(*bounds).min(counted.max_ns))
        })
    }

    /// [`Histogram::quantile`] in microseconds.
    pub(crate) fn quantile_us(&self, q: f64) -> Option<f64> {
        self.quantile(q).map(|ns| ns_as_us(ns.into()))
    }

    /// The longest latency in microseconds; none without events.
    pub(crate) fn longest_us(&self) -> Option<f64> {
        self.quantile_us(1.0)
    }

    /// The mean latency in whole nanoseconds, as microseconds; none without events.
    pub(crate) fn mean_us(&self) -> Option<f64> {
        self.mean_ns().map(ns_as_us)
    }

    /// The buckets as they were recorded, by their middle in nanoseconds: events, and the sum of their latencies in
    /// nanoseconds.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = (u64, u128, u128)> + '_ {
        self.buckets
            .iter()
            .map(|(bounds, counted)| (middle(*bounds), counted.count, counted.sum_ns))
    }

    /// The histogram as it is shown: 0 to 1 µs, 1 to 2, 2 to 4 and so on, without gaps from the first bucket that has
    /// events to the last.
    pub fn power_of_two_us(&self) -> Vec<Bucket> {
        let mut shown: BTreeMap<u32, Counted> = BTreeMap::new();
        for (bounds, counted) in &self.buckets {
            shown.entry(power_of(middle(*bounds))).or_default().add(counted);
        }
        let (Some((first, _)), Some((last, _))) = (shown.first_key_value(), shown.last_key_value()) else {
            return Vec::new();
        };
        (*first..=*last)
            .map(|power| {
                let counted = shown.get(&power).copied().unwrap_or_default();
                Bucket {
                    from_us: if power == 0 { 0 } else { 1 << (power - 1) },
                    to_us: 1 << power,
                    count: counted.count,
                    sum_ns: counted.sum_ns,
                }
            })
            .collect()
    }
}

/// Middle of a bucket, nanoseconds; the upper bound is exclusive.
pub(crate) fn middle((from_ns, to_ns): (u64, u64)) -> u64 {
    from_ns.midpoint(to_ns.saturating_sub(1).max(from_ns))
}

/// The power of two in microseconds that a latency is below: 0 = below 1 µs.
fn power_of(ns: u64) -> u32 {
    (ns / MICROSECOND_NS).checked_ilog2().map_or(0, |power| power + 1)
}

#[cfg(test)]
mod tests {
    use dbtime_model::latency::{bounds_of, bucket_of};
    use proptest::prelude::*;

    use super::*;

    fn histogram(latencies: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for ns in latencies {
            let (from, to) = bounds_of(bucket_of(*ns));
            histogram.add(from, to, 1, *ns, *ns);
        }
        histogram
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        // As many short as long ones: from nanoseconds to half an hour.
        let latency =
            (0..41u32, any::<u64>()).prop_map(|(power, random)| (1 << power) + random % (1 << power));
        prop::collection::vec(latency.prop_map(|ns: u64| ns.min((1 << 41) - 1)), 1..300)
    }

    #[test]
    fn without_events_there_is_nothing() {
        let mut histogram = Histogram::default();
        histogram.add(0, 1, 0, 0, 0);
        assert_eq!(histogram, Histogram::default());
        assert_eq!((histogram.quantile(0.5), histogram.mean_ns()), (None, None));
        assert_eq!(histogram.power_of_two_us(), []);
    }

    #[test]
    fn shown_buckets_are_powers_of_two_without_gaps() {
        let shown = histogram(&[400, 500, 5_000, 5_000_000]).power_of_two_us();
        assert_eq!((shown[0].from_us, shown[0].to_us, shown[0].count), (0, 1, 2));
        assert_eq!((shown[1].from_us, shown[1].to_us, shown[1].count), (1, 2, 0));
        assert_eq!((shown[3].from_us, shown[3].to_us, shown[3].count), (4, 8, 1));
        let last = shown.last().expect("buckets");
        assert_eq!((last.from_us, last.to_us, last.count), (4096, 8192, 1));
        assert_eq!((last.sum_ns, shown[0].sum_ns), (5_000_000, 900));
        assert!(shown.windows(2).all(|pair| pair[0].to_us == pair[1].from_us));
    }

    #[test]
    fn buckets_of_any_recording_are_taken() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX, 0, u64::MAX, u64::MAX, u64::MAX);
        histogram.add(u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        histogram.add(7, 3, 1, 0, 0);
        assert_eq!(histogram.count(), 2 * u128::from(u64::MAX) + 1);
        assert_eq!(histogram.quantile(0.5), Some(u64::MAX));
        let shown = histogram.power_of_two_us();
        assert_eq!(
            shown.iter().map(|bucket| bucket.count).sum::<u128>(),
            histogram.count()
        );
    }

    proptest! {
        #[test]
        fn merging_is_exact_and_in_any_order(latencies in latencies(), at in any::<prop::sample::Index>()) {
            let whole = histogram(&latencies);
            let (left, right) = latencies.split_at(at.index(latencies.len()));
            let (mut one, mut other) = (histogram(left), histogram(right));
            let copy = one.clone();
            one.merge(&histogram(right));
            other.merge(&copy);
            prop_assert_eq!(&one, &whole);
            prop_assert_eq!(&other, &whole);
            prop_assert_eq!(whole.count(), latencies.len() as u128);
            prop_assert_eq!(whole.sum_ns(), latencies.iter().copied().map(u128::from).sum::<u128>());
            prop_assert_eq!(Some(whole.max_ns()), latencies.iter().copied().max());
        }

        #[test]
        fn quantiles_are_within_a_percent_of_the_true_ones(mut latencies in latencies(), q in 0.0..=1.0) {
            let quantile = histogram(&latencies).quantile(q).expect("events");
            latencies.sort_unstable();
            let rank = (q * latencies.len() as f64).ceil() as usize;
            let truth = latencies[rank.max(1) - 1];
            prop_assert!(quantile.abs_diff(truth) as f64 <= truth as f64 * 0.01, "{quantile} {truth}");
            prop_assert!(quantile <= *latencies.last().expect("events"));
        }

        #[test]
        fn what_is_shown_sums_to_all_and_is_within_a_percent_of_its_bounds(latencies in latencies()) {
            let whole = histogram(&latencies);
            let shown = whole.power_of_two_us();
            prop_assert_eq!(shown.iter().map(|bucket| bucket.count).sum::<u128>(), whole.count());
            prop_assert_eq!(shown.iter().map(|bucket| bucket.sum_ns).sum::<u128>(), whole.sum_ns());
            for ns in latencies {
                let alone = histogram(&[ns]).power_of_two_us();
                prop_assert_eq!(alone.len(), 1);
                let (from, to) = (alone[0].from_us * 1000, alone[0].to_us * 1000);
                prop_assert!(ns as f64 >= from as f64 * 0.99 && ns as f64 <= to as f64 * 1.01);
            }
        }
    }
}
