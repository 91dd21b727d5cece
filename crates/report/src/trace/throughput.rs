//! I/O on data files and temporary files by second: waits for reads and writes, and the blocks they moved.

use std::collections::BTreeMap;

use dbtime_model::CounterRow;
use dbtime_model::counter::oracle;

use crate::filter::SECOND_US;

/// I/O of a whole trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Throughput {
    /// Size of a block, bytes: what was asked for, because a trace does not say it.
    pub block_bytes: u64,
    /// Seconds with I/O, in order.
    pub seconds: Vec<ThroughputSecond>,
}

/// I/O of one second, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThroughputSecond {
    /// Begin, microseconds since the Unix epoch.
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
    /// Part of a sum that falls on a second, on average.
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
    /// Bytes of so many blocks.
    pub fn bytes(&self, blocks: i128) -> i128 {
        blocks.saturating_mul(i128::from(self.block_bytes))
    }

    /// All of it.
    pub fn sum(&self) -> ThroughputSecond {
        let mut sum = ThroughputSecond::default();
        self.seconds.iter().for_each(|second| sum.add(second));
        sum
    }

    /// The second in which the most blocks were moved.
    pub fn busiest(&self) -> Option<&ThroughputSecond> {
        let moved = |second: &&ThroughputSecond| second.read_blocks.saturating_add(second.written_blocks);
        // Of equals the first.
        self.seconds.iter().rev().max_by_key(moved)
    }

    /// The time from the first second to the last in at most `n` equal spans; those without I/O are left out.
    pub fn spans(&self, n: u32) -> Vec<ThroughputSpan> {
        let (Some(first), Some(last)) = (self.seconds.first(), self.seconds.last()) else {
            return Vec::new();
        };
        let begin = i128::from(first.time_us.div_euclid(SECOND_US));
        let length = i128::from(last.time_us.div_euclid(SECOND_US)) - begin + 1;
        let width = (length - 1) / i128::from(n.max(1)) + 1;
        let mut spans: BTreeMap<i128, ThroughputSecond> = BTreeMap::new();
        for second in &self.seconds {
            let span = (i128::from(second.time_us.div_euclid(SECOND_US)) - begin) / width;
            spans.entry(span).or_default().add(second);
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

/// Adds counters up to [`Throughput`].
#[derive(Default)]
pub(super) struct ThroughputBuilder(BTreeMap<i64, ThroughputSecond>);

impl ThroughputBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        let mut more = ThroughputSecond::default();
        let value = match row.name.as_str() {
            oracle::READS => &mut more.reads,
            oracle::READ_BLOCKS => &mut more.read_blocks,
            oracle::WRITES => &mut more.writes,
            oracle::WRITTEN_BLOCKS => &mut more.written_blocks,
            _ => return,
        };
        *value = i128::from(row.value);
        self.0
            .entry(row.time)
            .or_insert(ThroughputSecond {
                time_us: row.time,
                ..ThroughputSecond::default()
            })
            .add(&more);
    }

    pub(super) fn finish(self, block_bytes: u64) -> Throughput {
        Throughput {
            block_bytes,
            seconds: self.0.into_values().collect(),
        }
    }
}
