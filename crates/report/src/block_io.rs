//! Block I/O of the host over some time: how long requests took. Input: rows of kind `block`. Output: tables by
//! operation, for all disks together or for each. Sums are exact; quantiles are accurate to 1 %.

use std::collections::BTreeMap;

use dbtime_model::{BlockOperation, LatencyRow};

use crate::histogram::Histogram;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// Requests of some kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockRequests {
    /// Their latencies.
    pub latencies: Histogram,
    /// Bytes read, written or discarded.
    pub bytes: u128,
}

impl BlockRequests {
    fn merge(&mut self, other: &BlockRequests) {
        self.latencies.merge(&other.latencies);
        self.bytes += other.bytes;
    }
}

/// Block I/O of an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockIo {
    /// Microseconds since the Unix epoch.
    pub begin_us: i64,
    /// Nanoseconds.
    pub elapsed_ns: u64,
    /// Requests per disk that are in none of the tables, because the disk is stacked on another one.
    pub left_out: BTreeMap<String, u64>,
    /// Requests of any disk that had been issued before the measurement began: in none of the tables.
    pub without_begin: u64,
    /// Requests of any disk that could not be counted.
    pub lost: u64,
    disks: BTreeMap<String, BTreeMap<BlockOperation, BlockRequests>>,
}

/// The requests of one disk, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockTable {
    /// None = all disks together.
    pub disk: Option<String>,
    /// By operation; only those that occurred.
    pub operations: BTreeMap<BlockOperation, BlockRequests>,
    /// All operations.
    pub total: BlockRequests,
}

impl BlockIo {
    /// Without any requests yet.
    pub fn new(begin_us: i64, elapsed_ns: u64) -> BlockIo {
        BlockIo {
            begin_us,
            elapsed_ns,
            ..BlockIo::default()
        }
    }

    /// Adds requests.
    pub fn add(&mut self, row: &LatencyRow) {
        self.requests(&row.device, &row.name).latencies.add(
            row.from_ns,
            row.to_ns,
            row.count,
            row.sum_ns,
            row.max_ns,
        );
    }

    /// Adds the bytes of requests of a disk and operation.
    pub fn add_bytes(&mut self, disk: &str, operation: &str, bytes: u64) {
        self.requests(disk, operation).bytes += u128::from(bytes);
    }

    /// Appends the interval that followed.
    pub fn append(&mut self, next: &BlockIo) {
        self.elapsed_ns += next.elapsed_ns;
        self.without_begin += next.without_begin;
        self.lost += next.lost;
        for (disk, count) in &next.left_out {
            *self.left_out.entry(disk.clone()).or_default() += count;
        }
        for (disk, operations) in &next.disks {
            let mine = self.disks.entry(disk.clone()).or_default();
            for (operation, requests) in operations {
                mine.entry(*operation).or_default().merge(requests);
            }
        }
    }

    /// True when no request is in any table.
    pub fn is_empty(&self) -> bool {
        self.disks.is_empty()
    }

    /// One table of all disks, or one of each.
    pub fn tables(&self, per_disk: bool) -> Vec<BlockTable> {
        if per_disk {
            return self
                .disks
                .iter()
                .map(|(disk, operations)| table(Some(disk.clone()), operations))
                .collect();
        }
        let mut all: BTreeMap<BlockOperation, BlockRequests> = BTreeMap::new();
        for (operation, requests) in self.disks.values().flatten() {
            all.entry(*operation).or_default().merge(requests);
        }
        vec![table(None, &all)]
    }

    /// `number` as a rate per second over this interval.
    pub fn per_second(&self, number: u128) -> f64 {
        if self.elapsed_ns == 0 {
            return 0.0;
        }
        number as f64 * SECOND_NS / self.elapsed_ns as f64
    }

    fn requests(&mut self, disk: &str, operation: &str) -> &mut BlockRequests {
        let operation = operation.parse().unwrap_or(BlockOperation::Other);
        let disk = self.disks.entry(disk.to_string()).or_default();
        disk.entry(operation).or_default()
    }
}

fn table(disk: Option<String>, operations: &BTreeMap<BlockOperation, BlockRequests>) -> BlockTable {
    let mut total = BlockRequests::default();
    for requests in operations.values() {
        total.merge(requests);
    }
    BlockTable {
        disk,
        operations: operations.clone(),
        total,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use dbtime_model::SessionId;
    use dbtime_model::latency::{bounds_of, bucket_of, kind};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn row(disk: &str, operation: &str, ns: u64, count: u64) -> LatencyRow {
        let (from_ns, to_ns) = bounds_of(bucket_of(ns));
        LatencyRow {
            time: 0,
            session: SessionId(0),
            kind: kind::BLOCK.into(),
            name: operation.into(),
            device: disk.into(),
            from_ns,
            to_ns,
            count,
            sum_ns: ns * count,
            max_ns: ns,
            ..LatencyRow::default()
        }
    }

    proptest! {
        #[test]
        fn however_it_is_split_it_sums_to_all(
            requests in prop::collection::vec((0..3usize, 0..5usize, 0..10_000_000u64, 1..100u64), 1..50),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut intervals = [BlockIo::new(0, 1_000), BlockIo::new(1, 500)];
            let cut = cut.index(requests.len());
            for (n, (disk, operation, ns, count)) in requests.iter().enumerate() {
                let (disk, operation) = (["a", "b", "c"][*disk], BlockOperation::ALL[*operation].as_str());
                let io = &mut intervals[usize::from(n >= cut)];
                io.add(&row(disk, operation, *ns, *count));
                io.add_bytes(disk, operation, *count * 512);
            }
            let [mut whole, next] = intervals;
            whole.append(&next);
            prop_assert_eq!(whole.elapsed_ns, 1_500);
            let count: u128 = requests.iter().map(|(.., count)| u128::from(*count)).sum();
            let sum: u128 = requests.iter().map(|(_, _, ns, count)| u128::from(ns * count)).sum();
            for per_disk in [false, true] {
                let tables = whole.tables(per_disk);
                let total = |value: &dyn Fn(&BlockRequests) -> u128| -> u128 {
                    tables.iter().map(|table| value(&table.total)).sum()
                };
                let by_operation: u128 = tables
                    .iter()
                    .flat_map(|table| table.operations.values())
                    .map(|requests| requests.latencies.count())
                    .sum();
                prop_assert_eq!(total(&|r| r.latencies.count()), count);
                prop_assert_eq!(by_operation, count);
                prop_assert_eq!(total(&|r| r.latencies.sum_ns()), sum);
                prop_assert_eq!(total(&|r| r.bytes), count * 512);
            }
        }
    }
}
