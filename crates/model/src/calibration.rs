//! What observation costs on a host: how much longer a call takes under each way of observing it.

use serde::{Deserialize, Serialize};

use crate::recording::HostMeta;

/// Value of [`Calibration::format`].
pub const FORMAT: &str = "dbtime calibration 1";

/// Names of the ways of observing.
pub mod look {
    /// No observation.
    pub const NOTHING: &str = "nothing";
    /// The same again: what differs is noise.
    pub const AGAIN: &str = "nothing, again";
    /// The sampled tier.
    pub const SAMPLED: &str = "dbtime record";
    /// The exact tier.
    pub const SWITCH: &str = "dbtime record --exact";
    /// The exact tier at system calls.
    pub const CALLS: &str = "dbtime record --exact=calls";
    /// Tracepoints in a private instance of tracefs.
    pub const TRACEFS: &str = "tracefs: system calls, scheduler";
    /// A dive with tracepoints, their stacks, and timer samples.
    pub const DIVE_TRACEPOINTS: &str = "dbtime dive, tracepoints";
    /// A dive with programs called directly by five functions.
    pub const DIVE_FENTRY: &str = "dbtime dive, fentry/fexit of 5";
    /// A dive with probes at five functions.
    pub const DIVE_PROBES: &str = "dbtime dive, probes at 5";
    /// A dive with the function graph tracer, all functions.
    pub const DIVE_GRAPH: &str = "dbtime dive, function_graph";
    /// strace with the time of each call.
    pub const STRACE: &str = "strace -T";
    /// perf trace.
    pub const PERF_TRACE: &str = "perf trace";
}

/// Names of the calls that are timed.
pub mod workload {
    /// Sleeps for a microsecond under the scheduler's default policy.
    pub const NANOSLEEP: &str = "nanosleep 1 us";
    /// The same under SCHED_RR, priority 99: without timer slack, and ahead of all others.
    pub const NANOSLEEP_RR: &str = "nanosleep 1 us, RR 99";
    /// Reads 8 KB that are in the page cache.
    pub const PREAD: &str = "pread 8 KB, cached";
    /// All of them, in the order of the tables.
    pub const ALL: [&str; 3] = [NANOSLEEP, NANOSLEEP_RR, PREAD];
}

/// A calibration. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calibration {
    /// [`FORMAT`].
    pub format: String,
    /// Version of dbtime that made it.
    pub dbtime: String,
    /// The host that was measured.
    pub host: HostMeta,
    /// Which boot of it, as /proc/sys/kernel/random/boot_id; empty when not known.
    pub boot_id: String,
    /// When, microseconds since the Unix epoch.
    pub time_us: i64,
    /// Fewer rounds and calls.
    pub quick: bool,
    /// Rounds; in each of them every way of observing had its turn.
    pub rounds: u32,
    /// Calls of each kind in a turn.
    pub calls: u32,
    /// What reading the clock costs; a part of every time here.
    pub clock_ns: u64,
    /// Resolution of the clock (clock_getres).
    pub clock_resolution_ns: u64,
    /// How much later than requested a sleep may end (PR_GET_TIMERSLACK).
    pub timer_slack_ns: u64,
    /// Noise by workload.
    pub controls: Vec<Control>,
    /// Each way of observing.
    pub looks: Vec<Look>,
}

/// The noise of a workload: what differs when nothing does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    /// See [`workload`].
    pub workload: String,
    /// Median of [`look::AGAIN`] minus that of [`look::NOTHING`].
    pub difference_ns: i64,
    /// The larger spread of the two between rounds.
    pub spread_ns: u64,
    /// The difference is no larger than the spread.
    pub is_within_spread: bool,
    /// The larger of both: a smaller cost means nothing.
    pub noise_ns: u64,
}

/// A way of observing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// See [`look`].
    pub name: String,
    /// Why it was not measured.
    pub refused: Option<String>,
    /// What each workload took; without those that were refused.
    pub cells: Vec<Cell>,
}

/// How long the calls of a workload took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// See [`workload`].
    pub workload: String,
    /// The shortest call of all rounds.
    pub min_ns: u64,
    /// The lowest of the medians of the rounds.
    pub median_ns: u64,
    /// The highest median minus the lowest.
    pub spread_ns: u64,
    /// The lowest of the 99th percentiles of the rounds.
    pub p99_ns: u64,
    /// The lowest of the means of the rounds.
    pub mean_ns: u64,
    /// Median minus that of [`look::NOTHING`]; none for that itself.
    pub extra_ns: Option<i64>,
}

impl Calibration {
    /// What a workload took under a way of observing; none if that was refused.
    pub fn cell(&self, look: &str, workload: &str) -> Option<&Cell> {
        let look = self.looks.iter().find(|of| of.name == look)?;
        look.cells.iter().find(|cell| cell.workload == workload)
    }

    /// The noise of a workload.
    pub fn control(&self, workload: &str) -> Option<&Control> {
        self.controls.iter().find(|of| of.workload == workload)
    }

    /// True when it is of this host with this kernel.
    pub fn is_of(&self, host: &HostMeta) -> bool {
        !host.name.is_empty() && self.host.name == host.name && self.host.kernel == host.kernel
    }
}
