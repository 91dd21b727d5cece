//! Block I/O latencies of the whole host, by device and operation, in intervals.
//!
//! The unit is the request: what the block layer sends to a device with a request queue. Devices stacked on such devices
//! (md, device mapper) pass their I/O on and are only seen at the bottom; those that have requests of their own and still
//! sit on another device (loop, request-based device mapper) are left out unless named, because their I/O would count
//! twice.

use std::collections::BTreeMap;
use std::fs;

use dbtime_model::latency::{bounds_of, kind};
use dbtime_model::{BlockOperation, LatencyRow, SessionId};

use crate::bpf::{BlockFilter, BlockLosses, BlockPrograms};
use crate::clock::{Clock, monotonic_ns};
use crate::{CollectError, devices, privilege, process};

/// Which requests count, and when their latency begins.
#[derive(Debug, Clone, Default)]
pub struct BlockOptions {
    /// Names of disks; empty: all that are not stacked on another.
    pub devices: Vec<String>,
    /// Empty: all.
    pub operations: Vec<BlockOperation>,
    /// Processes that submit the I/O; empty: all.
    pub pids: Vec<u32>,
    /// A latency begins when the request enters the queue, not when it is issued to the device.
    pub with_queue: bool,
}

/// Measures until it is dropped; nothing stays in the kernel.
pub struct BlockLatency {
    programs: BlockPrograms,
    clock: Clock,
    begin_ns: u64,
    /// Up to `begin_ns`.
    losses: BlockLosses,
    named: Vec<u32>,
    reasons: Vec<String>,
    with_queue: bool,
}

/// What was done between two points in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockInterval {
    /// Microseconds since the Unix epoch.
    pub begin_us: i64,
    /// Microseconds since the Unix epoch.
    pub end_us: i64,
    /// Nanoseconds between the two.
    pub elapsed_ns: u64,
    /// Rows of the kind `block`; `time` is the start of the interval.
    pub rows: Vec<LatencyRow>,
    /// Bytes of the same requests.
    pub volumes: Vec<BlockVolume>,
    /// Requests of stacked devices that were not named, by device: they are in none of the rows.
    pub left_out: BTreeMap<String, u64>,
    /// Requests of any disk that completed, but were issued before the measurement began: they are in none of the rows.
    pub without_begin: u64,
    /// Requests of any disk that could not be counted: no room, or their completion was not seen.
    pub lost: u64,
}

/// Bytes of the requests of one device and operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockVolume {
    /// Name of the disk.
    pub device: String,
    /// As `LatencyRow::name`.
    pub name: String,
    /// Bytes read, written or discarded.
    pub bytes: u64,
}

impl BlockLatency {
    /// Begins to measure.
    ///
    /// # Errors
    /// A device or process does not exist, or the kernel does not allow the measurement.
    pub fn start(options: &BlockOptions) -> Result<BlockLatency, CollectError> {
        let named: Vec<u32> = options
            .devices
            .iter()
            .map(|name| devices::by_name(name))
            .collect::<Result<_, _>>()?;
        options.pids.iter().try_for_each(|pid| check_process(*pid))?;
        privilege::check_programs()?;
        if !options.pids.is_empty() {
            privilege::check_pid_namespace()?;
        }
        let (programs, reasons) = BlockPrograms::load(&BlockFilter {
            devices: named.clone(),
            operations: options.operations.iter().map(|o| number_of(*o)).collect(),
            pids: options.pids.clone(),
            with_queue: options.with_queue,
        })?;
        Ok(BlockLatency {
            with_queue: programs.with_queue,
            programs,
            clock: Clock::start(),
            begin_ns: monotonic_ns(),
            losses: BlockLosses::default(),
            named,
            reasons,
        })
    }

    /// What this kernel lacks, and what that means.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    /// True if latencies begin in the queue: asked for, and supported by this kernel.
    pub fn with_queue(&self) -> bool {
        self.with_queue
    }

    /// Ends an interval and begins the next; returns what was done in the one that has ended. Takes a few milliseconds.
    ///
    /// # Errors
    /// The kernel did not hand over the data.
    pub fn interval(&mut self) -> Result<BlockInterval, CollectError> {
        let end_ns = monotonic_ns();
        self.programs.end_interval()?;
        let (cells, volumes) = self.programs.take()?;
        let losses = self.programs.losses()?;
        let begin_us = self.clock.wall_us(self.begin_ns);
        let mut interval = BlockInterval {
            begin_us,
            end_us: self.clock.wall_us(end_ns),
            elapsed_ns: end_ns - self.begin_ns,
            without_begin: losses.without_begin - self.losses.without_begin,
            lost: losses.lost - self.losses.lost,
            ..BlockInterval::default()
        };
        self.begin_ns = end_ns;
        self.losses = losses;
        let mut known = BTreeMap::new();
        for cell in cells {
            let device = known
                .entry(cell.device)
                .or_insert_with(|| self.describe(cell.device));
            if device.is_left_out {
                *interval.left_out.entry(device.name.clone()).or_default() += cell.count;
                continue;
            }
            let (from_ns, to_ns) = bounds_of(cell.bucket);
            interval.rows.push(LatencyRow {
                time: begin_us,
                session: SessionId(0),
                kind: kind::BLOCK.into(),
                name: operation_of(cell.operation).as_str().into(),
                device: device.name.as_str().into(),
                from_ns,
                to_ns,
                count: cell.count,
                sum_ns: cell.sum_ns,
                max_ns: cell.max_ns,
                ..LatencyRow::default()
            });
        }
        for volume in volumes {
            let device = known
                .entry(volume.device)
                .or_insert_with(|| self.describe(volume.device));
            if !device.is_left_out {
                interval.volumes.push(BlockVolume {
                    device: device.name.clone(),
                    name: operation_of(volume.operation).to_string(),
                    bytes: volume.bytes,
                });
            }
        }
        Ok(interval)
    }

    /// Looked up again in every interval: devices come and go, and their numbers with them.
    fn describe(&self, device: u32) -> Device {
        Device {
            name: devices::name(device),
            is_left_out: self.named.is_empty() && devices::is_stacked(device),
        }
    }
}

struct Device {
    name: String,
    is_left_out: bool,
}

/// Position in [`BlockOperation::ALL`], counted from 1: `enum dbt_operation` of `bpf/dbtime.h`.
fn number_of(operation: BlockOperation) -> u32 {
    operation as u32 + 1
}

/// Inverse of [`number_of`].
pub(crate) fn operation_of(number: u32) -> BlockOperation {
    BlockOperation::ALL
        .into_iter()
        .find(|operation| number_of(*operation) == number)
        .unwrap_or(BlockOperation::Other)
}

/// The kernel knows which process submitted I/O, not which thread: a thread's id would never match.
fn check_process(pid: u32) -> Result<(), CollectError> {
    let status =
        fs::read_to_string(process::path(pid, "status")).map_err(|_| CollectError::NoProcess(pid))?;
    let process = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))
        .and_then(|value| value.trim().parse::<u32>().ok());
    match process {
        Some(process) if process != pid => Err(CollectError::Thread { pid, process }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_numbered_as_in_the_kernel() {
        for (number, operation) in (1..).zip(BlockOperation::ALL) {
            assert_eq!(number_of(operation), number);
            assert_eq!(operation_of(number), operation);
        }
        assert_eq!(operation_of(99), BlockOperation::Other);
    }
}
