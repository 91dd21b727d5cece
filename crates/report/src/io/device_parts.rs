//! Reads that waited for a device: how their time divides up within the call.

use std::cmp::Reverse;
use std::collections::HashMap;

use dbtime_model::LatencyRow;
use dbtime_model::latency::kind;

use super::reads::ReadSource;

/// Parts of the time of read calls of source `device`, exact, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadParts {
    /// Calls.
    pub reads: u128,
    /// Their time from start to end.
    pub total_ns: u128,
    /// From the first request of the call until one was issued to the device.
    pub queue_ns: u128,
    /// From then until the last request that was waited for was done.
    pub device_ns: u128,
    /// CPU that the calls used in the kernel, anywhere in the call.
    pub cpu_ns: u128,
}

impl ReadParts {
    fn add(&mut self, row: &LatencyRow) {
        let ns = u128::from(row.sum_ns);
        match &*row.kind {
            kind::READ => {
                self.reads += u128::from(row.count);
                self.total_ns += ns;
            }
            kind::READ_QUEUE => self.queue_ns += ns,
            kind::READ_DEVICE => self.device_ns += ns,
            kind::READ_CPU => self.cpu_ns += ns,
            _ => {}
        }
    }

    /// Nanoseconds per read; none without reads.
    pub fn per_read(&self, ns: u128) -> Option<u128> {
        ns.checked_div(self.reads)
    }

    /// What is neither queue nor device nor CPU: wakeup, run queue and anything else. Below zero if CPU was used while a
    /// request was in flight, as that CPU is in two of the parts.
    pub fn rest_ns(&self) -> i128 {
        let signed = |ns: u128| i128::try_from(ns).unwrap_or(i128::MAX);
        signed(self.total_ns) - signed(self.queue_ns) - signed(self.device_ns) - signed(self.cpu_ns)
    }
}

/// The parts for all reads from devices, and for groups of them, most time first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceReads {
    /// All of them.
    pub total: ReadParts,
    /// By block device; empty when the recording does not name it.
    pub by_device: Vec<(String, ReadParts)>,
    /// By bytes that the call returned.
    pub by_size: Vec<(u64, ReadParts)>,
    /// Sizes that are not listed.
    pub sizes_not_shown: usize,
}

/// Adds up rows to [`DeviceReads`].
#[derive(Default)]
pub(super) struct DeviceReadsBuilder {
    total: ReadParts,
    by_device: HashMap<String, ReadParts>,
    by_size: HashMap<u64, ReadParts>,
}

impl DeviceReadsBuilder {
    pub(super) fn add(&mut self, row: &LatencyRow) {
        if ReadSource::of(row) == ReadSource::Device {
            self.total.add(row);
            self.by_device.entry(row.device.to_string()).or_default().add(row);
            self.by_size.entry(row.bytes).or_default().add(row);
        }
    }

    pub(super) fn finish(self, top: usize) -> DeviceReads {
        let mut by_size = ordered(self.by_size);
        let sizes_not_shown = by_size.split_off(top.min(by_size.len())).len();
        DeviceReads {
            total: self.total,
            by_device: ordered(self.by_device),
            by_size,
            sizes_not_shown,
        }
    }
}

fn ordered<K: Ord>(parts: HashMap<K, ReadParts>) -> Vec<(K, ReadParts)> {
    let mut parts: Vec<(K, ReadParts)> = parts.into_iter().collect();
    parts.sort_unstable_by(|(key, parts), (other_key, other)| {
        (Reverse(parts.total_ns), key).cmp(&(Reverse(other.total_ns), other_key))
    });
    parts
}
