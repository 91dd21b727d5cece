//! Read calls by where their data came from, for arbitrary groups.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use dbtime_model::{LatencyRow, latency};

use crate::histogram::Histogram;

/// Where the data of a read came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadSource {
    /// See [`latency::source::PAGE_CACHE`].
    PageCache,
    /// See [`latency::source::READAHEAD`].
    Readahead,
    /// See [`latency::source::DEVICE`].
    Device,
    /// See [`latency::source::OTHER_TASK`].
    OtherTask,
    /// The recording does not say.
    Unknown,
}

impl ReadSource {
    /// Every source, in the order of reports.
    pub const ALL: [ReadSource; 5] = [
        ReadSource::PageCache,
        ReadSource::Readahead,
        ReadSource::Device,
        ReadSource::OtherTask,
        ReadSource::Unknown,
    ];

    pub(crate) fn of(row: &LatencyRow) -> ReadSource {
        match &*row.source {
            latency::source::PAGE_CACHE => ReadSource::PageCache,
            latency::source::READAHEAD => ReadSource::Readahead,
            latency::source::DEVICE => ReadSource::Device,
            latency::source::OTHER_TASK => ReadSource::OtherTask,
            _ => ReadSource::Unknown,
        }
    }

    /// The words used in recordings, in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            ReadSource::PageCache => latency::source::PAGE_CACHE,
            ReadSource::Readahead => latency::source::READAHEAD,
            ReadSource::Device => latency::source::DEVICE,
            ReadSource::OtherTask => latency::source::OTHER_TASK,
            ReadSource::Unknown => "[unknown]",
        }
    }

    /// Whether the call waited for a device; none if not known.
    pub fn waited_for_device(self) -> Option<bool> {
        match self {
            ReadSource::PageCache | ReadSource::Readahead => Some(false),
            ReadSource::Device | ReadSource::OtherTask => Some(true),
            ReadSource::Unknown => None,
        }
    }
}

/// Read calls, exact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSums {
    /// Bytes that were returned.
    pub bytes: u128,
    /// How many there were and how long they took.
    pub latency: Histogram,
}

impl ReadSums {
    fn add(&mut self, row: &LatencyRow) {
        // Only a fabricated recording saturates.
        let bytes = u128::from(row.bytes) * u128::from(row.count);
        self.bytes = self.bytes.saturating_add(bytes);
        self.latency
            .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
    }

    fn merge(&mut self, other: &ReadSums) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.latency.merge(&other.latency);
    }
}

/// Read calls by source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads {
    /// All of them.
    pub all: ReadSums,
    /// By source, those that occurred.
    pub by_source: BTreeMap<ReadSource, ReadSums>,
}

impl Reads {
    pub(crate) fn add(&mut self, row: &LatencyRow) {
        self.all.add(row);
        self.by_source.entry(ReadSource::of(row)).or_default().add(row);
    }

    fn merge(&mut self, other: &Reads) {
        self.all.merge(&other.all);
        for (source, sums) in &other.by_source {
            self.by_source.entry(*source).or_default().merge(sums);
        }
    }

    /// Number of calls.
    pub fn count(&self) -> u128 {
        self.all.latency.count()
    }
}

/// Read calls of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGroup<K> {
    /// What they have in common.
    pub key: K,
    /// The calls.
    pub reads: Reads,
}

/// The groups with the most time, and the sum of the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGroups<K> {
    /// Largest sum of time first.
    pub top: Vec<ReadGroup<K>>,
    /// Groups that are not listed.
    pub others: usize,
    /// Their calls.
    pub others_reads: Reads,
}

impl<K: Ord + Hash> ReadGroups<K> {
    pub(crate) fn of(groups: HashMap<K, Reads>, top: usize) -> ReadGroups<K> {
        let mut groups: Vec<ReadGroup<K>> = groups
            .into_iter()
            .map(|(key, reads)| ReadGroup { key, reads })
            .collect();
        groups.sort_unstable_by(|a, b| {
            let time = |group: &ReadGroup<K>| Reverse(group.reads.all.latency.sum_ns());
            time(a).cmp(&time(b)).then_with(|| a.key.cmp(&b.key))
        });
        let others = groups.split_off(top.min(groups.len()));
        let mut others_reads = Reads::default();
        others.iter().for_each(|group| others_reads.merge(&group.reads));
        ReadGroups {
            top: groups,
            others: others.len(),
            others_reads,
        }
    }
}
