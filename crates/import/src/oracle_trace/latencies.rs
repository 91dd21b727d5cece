//! Distributions of waits: one histogram for each event, number of blocks and statement.

use arcstr::ArcStr;
use dbtime_model::latency::kind;
use dbtime_model::{LatencyRow, SessionId};

use super::dense::Dense;
use super::events::{EventId, Events};

/// Buckets per power of two of microseconds.
const PARTS: u64 = 8;
const PART_BITS: u32 = PARTS.ilog2();

/// Most histograms kept before they become rows: bounds the memory of a trace with ever new events.
const MAX_HISTOGRAMS: usize = 8_192;

/// All waits of a session since rows were made of them.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    /// Buckets by event, number of blocks and statement.
    histograms: Dense<(EventId, u64, u64), Vec<Bucket>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    count: u64,
    sum_us: u64,
    max_us: u64,
}

impl Latencies {
    /// Adds a wait. `statement`: 0 = not known.
    #[inline]
    pub(super) fn add(&mut self, event: EventId, blocks: u64, statement: u64, us: u64) {
        let buckets = self.histograms.get((event, blocks, statement));
        let bucket = bucket_of(us);
        if buckets.len() <= bucket {
            buckets.resize(bucket + 1, Bucket::default());
        }
        let bucket = &mut buckets[bucket];
        bucket.count += 1;
        bucket.sum_us = bucket.sum_us.saturating_add(us);
        bucket.max_us = bucket.max_us.max(us);
    }

    /// A wait that was added turns out to be another statement's. If it has become a row already, it stays.
    pub(super) fn move_wait(&mut self, event: EventId, blocks: u64, (from, to): (u64, u64), us: u64) {
        let bucket = bucket_of(us);
        let buckets = self.histograms.find((event, blocks, from));
        let Some(bucket) = buckets.and_then(|buckets| buckets.get_mut(bucket)) else {
            return;
        };
        if bucket.count > 0 {
            bucket.count -= 1;
            bucket.sum_us = bucket.sum_us.saturating_sub(us);
            self.add(event, blocks, to, us);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.histograms.len()
    }

    /// True if they should become rows to save memory.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.histograms.len() >= MAX_HISTOGRAMS
    }

    /// Turns them into rows of this second.
    pub(super) fn close(&mut self, second_us: i64, events: &Events, mut take: impl FnMut(LatencyRow)) {
        let kind: ArcStr = kind::WAIT.into();
        for ((event, blocks, statement), buckets) in self.histograms.drain() {
            let wait = &events.get(event).wait;
            let name: ArcStr = format!("{}:{}", wait.class, wait.event).into();
            for (bucket, counted) in (0..).zip(&buckets).filter(|(_, b)| b.count > 0) {
                let (from_us, to_us) = bounds_of(bucket);
                take(LatencyRow {
                    time: second_us,
                    session: SessionId::default(),
                    kind: ArcStr::clone(&kind),
                    statement,
                    name: ArcStr::clone(&name),
                    blocks,
                    from_ns: from_us * 1_000,
                    to_ns: to_us * 1_000,
                    count: counted.count,
                    sum_ns: counted.sum_us.saturating_mul(1_000),
                    max_ns: counted.max_us * 1_000,
                    ..LatencyRow::default()
                });
            }
        }
    }
}

/// Number of the bucket of a wait. A power of two has a bucket for each microsecond, but no more than [`PARTS`]: so buckets nest in the
/// powers of two of microseconds by which other tools count.
#[inline]
fn bucket_of(us: u64) -> usize {
    if us < PARTS {
        return us as usize;
    }
    let power = us.ilog2();
    (u64::from(power - PART_BITS + 1) * PARTS + ((us >> (power - PART_BITS)) & (PARTS - 1))) as usize
}

/// Bounds of a bucket in microseconds, the upper one exclusive.
fn bounds_of(bucket: u64) -> (u64, u64) {
    if bucket < PARTS {
        return (bucket, bucket + 1);
    }
    let shift = bucket / PARTS - 1;
    let from = (PARTS + bucket % PARTS) << shift;
    (from, from + (1 << shift))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::reader::MAX_US;
    use super::*;

    proptest! {
        #[test]
        fn a_wait_lies_in_its_bucket_and_the_bucket_in_a_power_of_two(us in 0..=MAX_US) {
            let (from, to) = bounds_of(bucket_of(us) as u64);
            prop_assert!(from <= us && us < to);
            if us > 0 {
                prop_assert!(from >= 1 << us.ilog2() && to <= 2 << us.ilog2());
            } else {
                prop_assert_eq!((from, to), (0, 1));
            }
            prop_assert!(to.checked_mul(1_000).is_some());
        }
    }
}
