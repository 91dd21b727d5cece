//! Which part of a distribution accounts for the difference between two averages.
//!
//! With `m` the average of the faster recording, a bucket contributes
//!
//! ```text
//! Σ (latency − m) of its events in the slower one / all events there − the same for the faster one
//! ```
//!
//! Because both recordings have all of their events in some bucket, the contributions add up to the difference of the
//! averages, whatever `m` is; with this `m`, events as long as the average of the faster one contribute nothing.
//!
//! The part that is named is the tail in which the slower recording is ahead the most: at its bound, the share of
//! events that are at least as long exceeds that of the faster one by the most (the place of the one-sided Smirnov
//! statistic).

use super::{ComparedEvent, bucket_bounds};
use crate::histogram::Histogram;
use crate::latency::kind_noun;
use crate::number::duration;

/// Averages that differ by less than this part of the larger one are called about the same.
const SAME: f64 = 0.05;
/// With fewer events nothing much can be said.
const FEW: u128 = 30;

/// Two recordings of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Numbers of the recordings in [`super::Comparison::sources`].
    pub of: [usize; 2],
    /// Averages in nanoseconds, in the same order; none without events.
    pub mean_ns: [Option<f64>; 2],
    /// Buckets in which either has events, the shortest first; empty unless both have some.
    pub buckets: Vec<BucketDifference>,
    /// The part in which the slower one is ahead the most; none when there is no such part.
    pub tail: Option<Tail>,
    /// All of it in a sentence.
    pub sentence: String,
}

/// A power of two in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BucketDifference {
    /// Lower bound in microseconds.
    pub from_us: u64,
    /// Upper bound in microseconds, exclusive.
    pub to_us: u64,
    /// Share of each recording's events that it holds, in percent.
    pub percent: [f64; 2],
    /// What it contributes to the average of the first minus that of the second, nanoseconds.
    pub contribution_ns: f64,
}

/// Events of a bucket and of all above it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Lower bound in microseconds.
    pub from_us: u64,
    /// Part of the events of each recording, in percent.
    pub percent: [f64; 2],
    /// Part of the difference of the averages that it accounts for, in percent; over 100 when shorter events offset
    /// some of it.
    pub percent_of_difference: f64,
}

fn mean_ns(latency: &Histogram) -> Option<f64> {
    (latency.count() > 0).then(|| latency.sum_ns() as f64 / latency.count() as f64)
}

impl Difference {
    pub(super) fn of(event: &ComparedEvent, of: [usize; 2], labels: [&str; 2]) -> Difference {
        let latencies = of.map(|index| &event.latencies[index]);
        let mean_ns = latencies.map(mean_ns);
        let (buckets, tail) = match mean_ns {
            [Some(first), Some(second)] => {
                let buckets = buckets(latencies, first.min(second));
                let tail = tail(&buckets, first - second);
                (buckets, tail)
            }
            _ => (Vec::new(), None),
        };
        let mut difference = Difference {
            of,
            mean_ns,
            buckets,
            tail,
            sentence: String::new(),
        };
        difference.sentence = difference.words(event, latencies, labels);
        difference
    }

    /// The first average minus the second, nanoseconds; none unless both have events.
    pub fn difference_ns(&self) -> Option<f64> {
        Some(self.mean_ns[0]? - self.mean_ns[1]?)
    }

    fn words(&self, event: &ComparedEvent, latencies: [&Histogram; 2], labels: [&str; 2]) -> String {
        let name = &event.name;
        let noun = kind_noun(&event.kind, name);
        let [first, second] = match self.mean_ns {
            [Some(first), Some(second)] => [first, second],
            [None, None] => return format!("{name}: in neither of the two."),
            means => {
                let only = usize::from(means[0].is_none());
                return format!(
                    "{name}: only in {}: {} of them, {} in all.",
                    labels[only],
                    latencies[only].count(),
                    duration(latencies[only].sum_ns())
                );
            }
        };
        let mut text = format!(
            "{name}: {} in {}, {} in {} on average",
            duration(first.round() as u128),
            labels[0],
            duration(second.round() as u128),
            labels[1]
        );
        let difference = first - second;
        if difference.abs() <= SAME * first.max(second) {
            text += ", about the same";
        } else {
            text += "; ";
            text += &match &self.tail {
                None => "within the same powers of two".to_string(),
                Some(tail) => tail.words(noun, labels),
            };
        }
        text.push('.');
        let one = |count, label| format!(" Only {count} of them in {label}: that may be chance.");
        text += &match latencies.map(|latency| Some(latency.count()).filter(|count| *count < FEW)) {
            [None, None] => String::new(),
            [Some(first), None] => one(first, labels[0]),
            [None, Some(second)] => one(second, labels[1]),
            [Some(first), Some(second)] => {
                format!(" There are only {first} and {second} of them: that may be chance.")
            }
        };
        text
    }
}

impl Tail {
    fn words(&self, noun: &str, labels: [&str; 2]) -> String {
        let part = match self.percent_of_difference {
            percent if percent > 100.5 => {
                format!("more than all of the difference ({percent:.0} %: shorter ones take some back)")
            }
            percent => format!("{percent:.0} % of the difference"),
        };
        format!(
            "{noun} of {} and more are {} in {} and {} in {} and make {part}",
            duration(u128::from(self.from_us) * 1_000),
            share(self.percent[0]),
            labels[0],
            share(self.percent[1]),
            labels[1],
        )
    }
}

/// A part in percent, with one decimal if it is close to 0 or 100.
fn share(percent: f64) -> String {
    if percent == 0.0 || percent == 100.0 || (1.0..=99.0).contains(&percent) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

fn buckets(latencies: [&Histogram; 2], reference_ns: f64) -> Vec<BucketDifference> {
    let bounds = bucket_bounds(&latencies);
    let parts = latencies.map(|latency| {
        let buckets = latency.power_of_two_us();
        let all = latency.count() as f64;
        let part = |from_us: u64| {
            buckets
                .iter()
                .find(|bucket| bucket.from_us == from_us)
                .map_or((0.0, 0.0), |bucket| {
                    let count = bucket.count as f64;
                    (count / all, (bucket.sum_ns as f64 - count * reference_ns) / all)
                })
        };
        bounds
            .iter()
            .map(|(from_us, _)| part(*from_us))
            .collect::<Vec<_>>()
    });
    let [first, second] = parts;
    bounds
        .iter()
        .zip(first.iter().zip(&second))
        .map(|((from_us, to_us), (first, second))| BucketDifference {
            from_us: *from_us,
            to_us: *to_us,
            percent: [100.0 * first.0, 100.0 * second.0],
            contribution_ns: first.1 - second.1,
        })
        .collect()
}

/// The tail in which the slower recording, the first if `difference_ns` is above zero, is ahead the most.
fn tail(buckets: &[BucketDifference], difference_ns: f64) -> Option<Tail> {
    let mut longest: Option<(f64, Tail)> = None;
    let mut percent = [0.0, 0.0];
    let mut contribution_ns = 0.0;
    // Without the shortest bucket: a tail from there on is everything.
    for bucket in buckets.iter().skip(1).rev() {
        percent = [percent[0] + bucket.percent[0], percent[1] + bucket.percent[1]];
        contribution_ns += bucket.contribution_ns;
        let ahead = (percent[0] - percent[1]) * difference_ns.signum();
        if ahead > longest.map_or(1e-9, |(most, _)| most) {
            let tail = Tail {
                from_us: bucket.from_us,
                percent,
                percent_of_difference: 100.0 * contribution_ns / difference_ns,
            };
            longest = Some((ahead, tail));
        }
    }
    longest.map(|(_, tail)| tail).filter(|_| difference_ns != 0.0)
}
