//! I/O on data files and temporary files by second: waits for reads and writes, and blocks transferred.

use std::collections::BTreeMap;
use std::slice::ChunkBy;

use dbtime_model::CounterRow;
use dbtime_model::counter::oracle;

use crate::filter::SECOND_US;

/// I/O of a whole trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Size of a block, bytes: as given by the user, because it is not in a trace.
    pub block_bytes: u64,
    /// Ordered by time.
    parts: Vec<Part>,
}

/// I/O of one second in little memory: a long trace has a great many. A second whose sums are too large for it has several parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    time_us: i64,
    /// Reads, blocks read, writes, blocks written.
    moved: [i64; 4],
}

impl Part {
    /// Adds another one; false, with nothing added, if it is of another second or the sum would overflow.
    fn add(&mut self, other: &Part) -> bool {
        let mut sums = self.moved;
        for (sum, more) in sums.iter_mut().zip(other.moved) {
            match sum.checked_add(more) {
                Some(both) if self.time_us == other.time_us => *sum = both,
                _ => return false,
            }
        }
        self.moved = sums;
        true
    }

    fn is_of_same_second(&self, other: &Part) -> bool {
        self.time_us == other.time_us
    }
}

impl From<&Part> for ThroughputSecond {
    fn from(part: &Part) -> ThroughputSecond {
        let [reads, read_blocks, writes, written_blocks] = part.moved.map(i128::from);
        ThroughputSecond {
            time_us: part.time_us,
            reads,
            read_blocks,
            writes,
            written_blocks,
        }
    }
}

/// I/O of one second, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThroughputSecond {
    /// Start, microseconds since the Unix epoch.
    pub time_us: i64,
    /// Waits for reads.
    pub reads: i128,
    /// Blocks they read.
    pub read_blocks: i128,
    /// Waits for writes.
    pub writes: i128,
    /// Blocks they wrote.
    pub written_blocks: i128,
}

/// I/O of several seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThroughputSpan {
    /// Seconds.
    pub seconds: u32,
    /// Their I/O.
    pub sum: ThroughputSecond,
}

impl ThroughputSpan {
    /// Average of a sum per second.
    pub fn per_second(&self, sum: i128) -> f64 {
        sum as f64 / f64::from(self.seconds)
    }
}

impl ThroughputSecond {
    fn add(&mut self, other: &ThroughputSecond) {
        self.reads += other.reads;
        self.read_blocks += other.read_blocks;
        self.writes += other.writes;
        self.written_blocks += other.written_blocks;
    }
}

impl Throughput {
    /// Bytes in this many blocks.
    pub fn bytes(&self, blocks: i128) -> i128 {
        blocks.saturating_mul(i128::from(self.block_bytes))
    }

    /// Seconds with I/O, in order.
    pub fn seconds(&self) -> impl Iterator<Item = ThroughputSecond> {
        let seconds: ChunkBy<'_, Part, _> = self.parts.chunk_by(Part::is_of_same_second);
        seconds.map(|parts| {
            let mut second = ThroughputSecond::from(&parts[0]);
            parts[1..].iter().for_each(|part| second.add(&part.into()));
            second
        })
    }

    /// All of it.
    pub fn sum(&self) -> ThroughputSecond {
        let mut sum = ThroughputSecond::default();
        self.seconds().for_each(|second| sum.add(&second));
        sum
    }

    /// The second in which most blocks were transferred; the first one of equals.
    pub fn busiest(&self) -> Option<ThroughputSecond> {
        let moved = |second: &ThroughputSecond| second.read_blocks.saturating_add(second.written_blocks);
        self.seconds()
            .reduce(|busiest, second| match moved(&second) > moved(&busiest) {
                true => second,
                false => busiest,
            })
    }

    /// The time from the first second to the last in at most `n` equal spans; those without I/O are left out.
    pub fn spans(&self, n: u32) -> Vec<ThroughputSpan> {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return Vec::new();
        };
        let begin = i128::from(first.time_us.div_euclid(SECOND_US));
        let length = i128::from(last.time_us.div_euclid(SECOND_US)) - begin + 1;
        let width = (length - 1) / i128::from(n.max(1)) + 1;
        let mut spans: BTreeMap<i128, ThroughputSecond> = BTreeMap::new();
        for second in self.seconds() {
            let span = (i128::from(second.time_us.div_euclid(SECOND_US)) - begin) / width;
            spans.entry(span).or_default().add(&second);
        }
        spans
            .into_iter()
            .map(|(span, sum)| ThroughputSpan {
                seconds: u32::try_from(width).unwrap_or(u32::MAX),
                sum: ThroughputSecond {
                    time_us: i64::try_from((begin + span * width) * i128::from(SECOND_US))
                        .unwrap_or(i64::MAX),
                    ..sum
                },
            })
            .collect()
    }
}

/// Parts kept before they are sorted and added up for the first time.
const MOST_UNSORTED: usize = 1 << 16;

/// Adds up counters to [`Throughput`].
pub(super) struct ThroughputBuilder {
    parts: Vec<Part>,
    /// Parts of one second may be apart.
    is_unsorted: bool,
    /// Parts are sorted and added up when there are this many.
    most: usize,
}

impl Default for ThroughputBuilder {
    fn default() -> ThroughputBuilder {
        ThroughputBuilder {
            parts: Vec::new(),
            is_unsorted: false,
            most: MOST_UNSORTED,
        }
    }
}

impl ThroughputBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        let which = match row.name.as_str() {
            oracle::READS => 0,
            oracle::READ_BLOCKS => 1,
            oracle::WRITES => 2,
            oracle::WRITTEN_BLOCKS => 3,
            _ => return,
        };
        let mut part = Part {
            time_us: row.time,
            moved: [0; 4],
        };
        part.moved[which] = row.value;
        if let Some(last) = self.parts.last_mut() {
            if last.add(&part) {
                return;
            }
            self.is_unsorted |= last.time_us > part.time_us;
        }
        if self.is_unsorted && self.parts.len() >= self.most {
            self.sort();
            self.most = self.parts.len().saturating_mul(2).max(MOST_UNSORTED);
        }
        self.parts.push(part);
    }

    /// Rows of several files alternate.
    fn sort(&mut self) {
        self.parts.sort_unstable_by_key(|part| part.time_us);
        self.parts.dedup_by(|next, kept| kept.add(next));
        self.is_unsorted = false;
    }

    pub(super) fn finish(mut self, block_bytes: u64) -> Throughput {
        self.sort();
        Throughput {
            block_bytes,
            parts: self.parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn seconds_are_the_sums_of_their_rows_in_whatever_order_they_come(
            rows in prop::collection::vec(
                (0i64..40, 0usize..4, prop_oneof![4 => 0i64..1_000, 1 => any::<i64>()]),
                0..300,
            ),
            most in 1usize..100,
        ) {
            let names = [oracle::READS, oracle::READ_BLOCKS, oracle::WRITES, oracle::WRITTEN_BLOCKS];
            let mut builder = ThroughputBuilder { most, ..ThroughputBuilder::default() };
            let mut expected: BTreeMap<i64, [i128; 4]> = BTreeMap::new();
            for (second, which, value) in rows {
                builder.add(&CounterRow {
                    time: second * SECOND_US,
                    name: names[which].into(),
                    value,
                    ..CounterRow::default()
                });
                expected.entry(second * SECOND_US).or_default()[which] += i128::from(value);
            }
            let throughput = builder.finish(1);
            let seconds: Vec<_> = throughput
                .seconds()
                .map(|of| (of.time_us, [of.reads, of.read_blocks, of.writes, of.written_blocks]))
                .collect();
            prop_assert_eq!(&seconds, &expected.into_iter().collect::<Vec<_>>());
            let most = seconds.iter().map(|(_, of)| of[1] + of[3]).max();
            let first = seconds.iter().find(|(_, of)| Some(of[1] + of[3]) == most);
            prop_assert_eq!(throughput.busiest().map(|of| of.time_us), first.map(|(time, _)| *time));
        }
    }
}
