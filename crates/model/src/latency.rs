//! Buckets of latencies: fine enough for quantiles, the same everywhere, so that histograms add up exactly.
//!
//! As in HdrHistogram: a power of two is divided into 64 equal parts, so that the middle of a bucket is within 0.8 % of
//! every latency in it; below 64 ns each nanosecond has its own. `bpf/latency.bpf.h` computes the same.

/// Parts of a power of two.
const PARTS: u64 = 64;
const PART_BITS: u32 = PARTS.ilog2();
/// Latencies from here on (36 minutes) fall into the last bucket.
const LONGEST_NS: u64 = (1 << 41) - 1;

/// Number of the bucket that a latency falls into.
pub fn bucket_of(ns: u64) -> u16 {
    let ns = ns.min(LONGEST_NS);
    if ns < PARTS {
        return ns as u16;
    }
    let power = ns.ilog2();
    (u64::from(power - PART_BITS + 1) * PARTS + ((ns >> (power - PART_BITS)) & (PARTS - 1))) as u16
}

/// Bounds of a bucket in nanoseconds, the upper one exclusive.
pub fn bounds_of(bucket: u16) -> (u64, u64) {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return (bucket, bucket + 1);
    }
    // A number that came from elsewhere must not shift beyond 64 bits.
    let shift = (bucket / PARTS - 1).min(56);
    let from = (PARTS + bucket % PARTS) << shift;
    (from, from + (1 << shift))
}

/// Bounds of the broad bucket (an eighth of a power of two) that has this one: nanoseconds, the upper one exclusive.
pub fn broad_bounds_of(bucket: u16) -> (u64, u64) {
    let first = bucket & !7;
    (bounds_of(first).0, bounds_of(first.saturating_add(7)).1)
}

/// What the values of `LatencyRow::kind` mean.
pub mod kind {
    /// A wait, from entering the wait event until leaving it; where calls are not traced, one stay off CPU in it.
    pub const WAIT: &str = "wait";
    /// A part of a wait: one system call made in the wait event.
    pub const WAIT_CALL: &str = "wait_call";
    /// A system call.
    pub const SYSCALL: &str = "syscall";
    /// Scheduling delay: from runnable to running; `name` is the wait event at that time.
    pub const SCHED: &str = "sched";
    /// A read call of a session.
    pub const READ: &str = "read";
    /// CPU that a read call used in the kernel.
    pub const READ_CPU: &str = "read_cpu";
    /// Part of a read call before its first request went to the device.
    pub const READ_QUEUE: &str = "read_queue";
    /// Part of a read call from there until its last request was done.
    pub const READ_DEVICE: &str = "read_device";
    /// A block request: from its issue to the device until it was done.
    pub const BLOCK: &str = "block";
    /// A block request before its issue to the device.
    pub const BLOCK_QUEUE: &str = "block_queue";
    /// A sleep, from its beginning until someone ended it; `name` is who did.
    pub const WAKER: &str = "waker";
    /// A stay on a CPU; `name` is the state in which it ended (`runnable` = preempted).
    pub const RUN: &str = "run";
    /// Part of a scheduling delay in which somebody else had the CPU that the task was queued on; `name` is who.
    pub const INSTEAD: &str = "instead";
    /// A kernel function, from entry to return, with its call path in `stack`.
    pub const FUNCTION: &str = "function";
    /// A command of a client: from when the session has it until it asks the client for the next one.
    pub const COMMAND: &str = "command";
    /// The same over all sessions, in buckets of an eighth of a power of two.
    pub const COMMAND_WHOLE: &str = "command_whole";
    /// Time that commands of such a bucket spent in the wait event `name` and the state `source`: no event, `count` is 0.
    pub const COMMAND_PART: &str = "command_part";
    /// An Oracle wait from beginning to end, by probes in the database's functions.
    pub const ORACLE_WAIT: &str = "oracle_wait";
    /// The same wait, as long as the database itself says it took.
    pub const ORACLE_WAIT_DB: &str = "oracle_wait_db";
}

/// What the values of `LatencyRow::source` mean: where the data of a read came from.
pub mod source {
    /// Nothing was requested from a device, nobody was waited for.
    pub const PAGE_CACHE: &str = "page cache";
    /// The call sent a request to a device and slept until it was done, or it was done before the call could.
    pub const DEVICE: &str = "device";
    /// The call sent a request to a device and did not wait for it: its own data was there already.
    pub const READAHEAD: &str = "readahead";
    /// The call slept for data that another task (or an earlier call) had requested.
    pub const OTHER_TASK: &str = "other task";
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        let last = bucket_of(u64::MAX);
        assert_eq!(bounds_of(0), (0, 1));
        for bucket in 1..=last {
            assert_eq!(bounds_of(bucket).0, bounds_of(bucket - 1).1, "{bucket}");
        }
        assert_eq!(bounds_of(last).1, LONGEST_NS + 1);
        bounds_of(u16::MAX);
    }

    #[test]
    fn broad_buckets_follow_each_other_without_gap() {
        let mut until = 0;
        for bucket in (0..=bucket_of(u64::MAX)).step_by(8) {
            let (from, to) = broad_bounds_of(bucket);
            assert_eq!(from, until, "{bucket}");
            assert_eq!(broad_bounds_of(bucket + 7), (from, to));
            until = to;
        }
    }

    proptest! {
        #[test]
        fn a_latency_lies_in_its_bucket_and_within_a_percent_of_its_middle(ns in 0..=LONGEST_NS) {
            let (from, to) = bounds_of(bucket_of(ns));
            prop_assert!(from <= ns && ns < to);
            let middle = (from + to - 1) as f64 / 2.0;
            prop_assert!((middle - ns as f64).abs() <= ns as f64 * 0.008);
        }
    }
}
