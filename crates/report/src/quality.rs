//! What is known to be missing or doubtful: for the whole recording, unless a field says otherwise.

use dbtime_model::recording::{Meta, Note, Problem, ProgramCost};
use dbtime_model::{CounterRow, counter};
use serde::{Serialize, Serializer};

use crate::sums::percent;

/// How far a report can be trusted.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Quality {
    /// The recorder ended in an orderly way.
    pub complete: bool,
    /// Samples taken.
    pub samples: u128,
    /// Samples dropped because the session ran while it was read.
    pub torn: u128,
    /// Samples kept without their stacks for the same reason.
    pub torn_stacks: u128,
    /// Passes that left out a session because the sampler itself had pushed it off its CPU.
    pub displaced: u128,
    /// Samples with the wait event of another wait, because their own was over before the session could be read.
    pub stood_in: u128,
    /// Samples lost because the buffer to user space was full.
    pub lost: u128,
    /// Samples whose wait event could not be read.
    pub waits_not_read: u128,
    /// Time in the period into which no sample fell, all sections, nanoseconds.
    pub unsampled_ns: u128,
    /// Time in the period of sessions too short to be sampled individually, split by the samples of others of their kind,
    /// all sections, nanoseconds.
    pub pooled_ns: u128,
    /// Time in the period, all sections, nanoseconds.
    pub accounted_ns: u128,
    /// User stacks that were taken, by where they end.
    #[serde(flatten, serialize_with = "stack_counts")]
    pub stacks: StackCounts,
    /// Unwinding tables, address spaces and mappings for which the recorder had no room.
    pub unwind_without_room: u64,
    /// Stacks for which the recorder had no room, counted each time that one was taken.
    pub stacks_without_room: u64,
    /// Distinct frames that could not be named.
    pub unresolved_frames: u64,
    /// Distinct frames in all.
    pub frames: u64,
    /// Sampler passes that came more than one period late.
    pub late_passes: u64,
    /// Sampler passes that the kernel refused.
    pub failed_passes: u64,
    /// Sampler passes.
    pub passes: u64,
    /// Latencies of single events for which the recorder had no room.
    pub latencies_lost: u64,
    /// Context switches that were missed; the time between is in the interval that the next one closed.
    pub missed_switches: u128,
    /// What the timer's samples and the probes in the database's path cost; in the sampled tier there are no probes.
    pub probes: Vec<Probe>,
    /// Sessions for which the recorder had no room.
    pub sessions_not_recorded: u64,
    /// Rows that were dropped because the disk did not take them in time.
    pub rows_dropped: u64,
    /// Session time in those rows, nanoseconds.
    pub dropped_ns: u64,
    /// Session time up to their ends that is in no row, because the kernel's final numbers never arrived, nanoseconds.
    pub missing_ns: u64,
    /// DB time in the period whose stacks are not in the recording, nanoseconds.
    pub missing_stacks_ns: u128,
    /// Sessions for which only activity was recorded.
    pub sessions_not_described: usize,
    /// CPU that the recorder used, nanoseconds.
    pub recorder_cpu_ns: u64,
    /// The same in percent of one CPU; none when the recording has no length.
    #[serde(skip)]
    pub recorder_percent_of_one_cpu: Option<f64>,
    /// What could not be read.
    pub problems: Vec<String>,
    /// What the host lacked, and what was done instead.
    pub reasons: Vec<String>,
    /// What the recorder noted.
    pub notes: Vec<Note>,
}

/// User stacks by where they end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackCounts {
    /// At the outermost function.
    pub complete: u64,
    /// Cut, because they have more frames than are kept.
    pub truncated: u64,
    /// At a frame whose caller was not found.
    pub broken: u64,
}

fn stack_counts<S: Serializer>(stacks: &StackCounts, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Counts {
        stacks_complete: u64,
        stacks_truncated: u64,
        stacks_broken: u64,
        stacks_complete_percent: Option<f64>,
    }
    let counts = Counts {
        stacks_complete: stacks.complete,
        stacks_truncated: stacks.truncated,
        stacks_broken: stacks.broken,
        stacks_complete_percent: stacks.percent(stacks.complete),
    };
    counts.serialize(to)
}

impl StackCounts {
    /// All of them.
    pub fn all(self) -> u128 {
        u128::from(self.complete) + u128::from(self.truncated) + u128::from(self.broken)
    }

    /// `stacks` in percent of all; none when there are none.
    pub fn percent(self, stacks: u64) -> Option<f64> {
        percent(stacks.into(), self.all())
    }
}

/// A probe and its run time, measured by the kernel for some of its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// Tracepoint it is attached to.
    pub name: String,
    /// Runs that were measured.
    pub runs: u64,
    /// Mean time of a run, nanoseconds; none when there were no runs.
    pub mean_ns: Option<f64>,
}

impl From<&ProgramCost> for Probe {
    fn from(cost: &ProgramCost) -> Probe {
        Probe {
            name: cost.name.clone(),
            runs: cost.runs,
            mean_ns: (cost.runs > 0).then(|| cost.ns as f64 / cost.runs as f64),
        }
    }
}

impl Quality {
    /// Time into which no sample fell, in percent of all time in the period.
    pub fn unsampled_percent(&self) -> Option<f64> {
        percent(self.unsampled_ns, self.accounted_ns)
    }

    /// The same for pooled time.
    pub fn pooled_percent(&self) -> Option<f64> {
        percent(self.pooled_ns, self.accounted_ns)
    }
}

/// Sums what the counters say about the recorder's own losses, session by session.
#[derive(Default)]
pub(crate) struct LossCounters {
    torn: i128,
    torn_stacks: i128,
    displaced: i128,
    stood_in: i128,
    waits_not_read: i128,
    missed_switches: i128,
}

impl LossCounters {
    pub(crate) fn add(&mut self, row: &CounterRow) {
        if row.source != counter::DBTIME {
            return;
        }
        let sum = match row.name.as_str() {
            counter::TORN => &mut self.torn,
            counter::TORN_STACK => &mut self.torn_stacks,
            counter::DISPLACED => &mut self.displaced,
            counter::STOOD_IN => &mut self.stood_in,
            counter::WAIT_NOT_READ => &mut self.waits_not_read,
            counter::MISSED => &mut self.missed_switches,
            _ => return,
        };
        *sum += i128::from(row.value);
    }

    /// The quality according to `meta` and the counters. `meta` is written with each segment, the counters come with the
    /// rows: if they differ, the larger loss is shown.
    pub(crate) fn quality(self, meta: &Meta, problems: Vec<Problem>) -> Quality {
        let told = &meta.quality;
        let larger = |meta: u64, counters: i128| u128::from(meta).max(counters.max(0).unsigned_abs());
        let gaps_us = meta.gaps_us(meta.start_us, meta.end_us);
        let length_us = i128::from(meta.end_us) - i128::from(meta.start_us) - i128::from(gaps_us);
        let length_ns = length_us.max(0).unsigned_abs() * 1_000;
        Quality {
            complete: meta.complete,
            samples: told.samples.into(),
            torn: larger(told.torn, self.torn),
            torn_stacks: larger(told.torn_stacks, self.torn_stacks),
            displaced: larger(told.displaced, self.displaced),
            stood_in: larger(told.stood_in, self.stood_in),
            lost: told.lost.into(),
            waits_not_read: larger(told.waits_not_read, self.waits_not_read),
            stacks: StackCounts {
                complete: told.stacks_complete,
                truncated: told.stacks_truncated,
                broken: told.stacks_broken,
            },
            unwind_without_room: told.unwind_without_room,
            stacks_without_room: told.stacks_without_room,
            unresolved_frames: told.unresolved_frames,
            frames: told.frames,
            late_passes: told.late_passes,
            failed_passes: told.failed_passes,
            passes: told.passes,
            latencies_lost: told.latencies_lost,
            missed_switches: larger(0, self.missed_switches),
            probes: meta.cost.programs.iter().map(Probe::from).collect(),
            sessions_not_recorded: told.sessions_not_recorded,
            rows_dropped: told.rows_dropped,
            dropped_ns: told.dropped_ns,
            missing_ns: told.missing_ns,
            recorder_cpu_ns: meta.cost.cpu_ns,
            recorder_percent_of_one_cpu: percent(meta.cost.cpu_ns.into(), length_ns),
            problems: problems.into_iter().map(|problem| problem.0).collect(),
            notes: meta.notes.clone(),
            reasons: meta.collector.reasons.clone(),
            ..Quality::default()
        }
    }
}
