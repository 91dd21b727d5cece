//! `meta.json`: what was recorded, how, and what is known to be missing.

use serde::{Deserialize, Serialize};

/// Version of the tables and of `meta.json`. A reader accepts any minor version of its own major version.
pub const SCHEMA_VERSION: &str = "1.19";

/// Contents of `meta.json`. Fields that a reader does not know are ignored, so minor versions may add some.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: String,
    /// Version of dbtime that wrote it.
    pub dbtime: String,
    /// When recording began, microseconds since the Unix epoch.
    pub start_us: i64,
    /// When the last segment ended, microseconds since the Unix epoch.
    pub end_us: i64,
    /// False while recording, and forever if the recorder was killed.
    pub complete: bool,
    /// Files of other tools are being imported into it, or were until the import was killed: what there is of it means nothing. Since
    /// 1.5.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub importing: bool,
    /// Where it was recorded.
    pub host: HostMeta,
    /// What was recorded.
    pub database: DatabaseMeta,
    /// How it was recorded.
    pub collector: CollectorMeta,
    /// What is on disk.
    pub segments: Segments,
    /// What is known to be missing or doubtful.
    pub quality: Quality,
    /// What the recording cost.
    pub cost: Cost,
    /// Files it was made of; empty when it was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<ImportedFile>,
    /// Periods that the rows cover, in order, if that is not everything from beginning to end: snapshots in a file. Each row is in the
    /// last second of its period. At most [`CoveredPeriod::MOST`]. Since 1.18.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub periods: Vec<CoveredPeriod>,
    /// For a recording of context switches: what the rows do not tell. Since 1.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
    /// Remarkable events, in order: server stopped, segment not written …
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Time that is counted twice in recordings that are read as one: sentences that are among the notes, too.
    #[serde(skip)]
    pub counted_twice: Vec<String>,
    /// Time between beginning and end that none of the recordings covers that are read as one, in order.
    #[serde(skip)]
    pub gaps: Vec<Gap>,
}

/// Time without a recording: from and to, microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When it began.
    pub from_us: i64,
    /// When it ended.
    pub to_us: i64,
}

impl Meta {
    /// How much of a time (microseconds since the Unix epoch) lies in [gaps](Meta::gaps), microseconds.
    pub fn gaps_us(&self, from_us: i64, to_us: i64) -> u64 {
        // They are in order and do not overlap.
        let first = self.gaps.partition_point(|gap| gap.to_us <= from_us);
        let gaps = self.gaps[first..].iter().take_while(|gap| gap.from_us < to_us);
        gaps.map(|gap| gap.to_us.min(to_us).saturating_sub(gap.from_us.max(from_us)))
            .map(|us| us.max(0).unsigned_abs())
            .sum()
    }
}

/// A period that rows cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredPeriod {
    /// When it began, microseconds since the Unix epoch; to the second if its source has whole seconds.
    pub from_us: i64,
    /// When it ended.
    pub to_us: i64,
    /// How long it was, nanoseconds: what growth and times in it are divided by. Less than its span if neighbours were merged.
    pub elapsed_ns: u64,
}

impl CoveredPeriod {
    /// How many are kept of a recording. If there are more, neighbours are merged: their total length stays known.
    pub const MOST: usize = 4096;

    /// The last second that it overlaps, in which its rows are: microseconds since the Unix epoch.
    pub fn last_second_us(&self) -> i64 {
        const SECOND_US: i64 = 1_000_000;
        let last_us = self.to_us.saturating_sub(1).max(self.from_us);
        last_us.div_euclid(SECOND_US).saturating_mul(SECOND_US)
    }

    /// The periods of several sources, in order of time: time that two of them cover passed once. Periods of one source follow one
    /// another, even if their ends, which are whole seconds, suggest otherwise.
    pub fn of_several(sources: impl IntoIterator<Item = Vec<CoveredPeriod>>) -> Vec<CoveredPeriod> {
        let mut all: Vec<(CoveredPeriod, usize)> = Vec::new();
        for (source, periods) in sources.into_iter().enumerate() {
            all.extend(periods.into_iter().map(|period| (period, source)));
        }
        all.sort_by_key(|(period, source)| (period.to_us, period.from_us, *source));
        let mut merged: Vec<CoveredPeriod> = Vec::with_capacity(all.len());
        // Sources of the last of these.
        let mut told_by: Vec<usize> = Vec::new();
        for (period, source) in all {
            match merged.last_mut() {
                Some(last) if !told_by.contains(&source) && last.is_same_time(&period) => {
                    *last = last.with(&period);
                    told_by.push(source);
                }
                _ => {
                    merged.push(period);
                    told_by = vec![source];
                }
            }
        }
        CoveredPeriod::bounded(merged)
    }

    /// As many as are kept: neighbours are merged until there are so few. The sum of their times stays the same.
    pub fn bounded(mut all: Vec<CoveredPeriod>) -> Vec<CoveredPeriod> {
        all.sort_by_key(|period| (period.to_us, period.from_us));
        while all.len() > CoveredPeriod::MOST {
            let pairs = all.chunks(2).map(|pair| CoveredPeriod {
                from_us: pair.iter().map(|one| one.from_us).min().unwrap_or_default(),
                to_us: pair.iter().map(|one| one.to_us).max().unwrap_or_default(),
                elapsed_ns: pair
                    .iter()
                    .fold(0, |sum: u64, one| sum.saturating_add(one.elapsed_ns)),
            });
            all = pairs.collect();
        }
        all
    }

    fn overlap_us(&self, other: &CoveredPeriod) -> i64 {
        let from_us = self.from_us.max(other.from_us);
        self.to_us.min(other.to_us).saturating_sub(from_us).max(0)
    }

    /// More than half of the shorter one is in the other.
    fn is_same_time(&self, other: &CoveredPeriod) -> bool {
        let length_us = |period: &CoveredPeriod| period.to_us.saturating_sub(period.from_us);
        2 * i128::from(self.overlap_us(other)) > i128::from(length_us(self).min(length_us(other)).max(0))
    }

    fn with(&self, other: &CoveredPeriod) -> CoveredPeriod {
        let overlap_ns = self.overlap_us(other).unsigned_abs().saturating_mul(1_000);
        let sum_ns = self.elapsed_ns.saturating_add(other.elapsed_ns);
        CoveredPeriod {
            from_us: self.from_us.min(other.from_us),
            to_us: self.to_us.max(other.to_us),
            elapsed_ns: sum_ns
                .saturating_sub(overlap_ns)
                .max(self.elapsed_ns)
                .max(other.elapsed_ns),
        }
    }
}

/// The host that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostMeta {
    /// Host name.
    pub name: String,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// Machine architecture, as `uname -m`.
    pub arch: String,
    /// CPUs online.
    pub cpus: u32,
}

/// The database that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DatabaseMeta {
    /// Product, for example `PostgreSQL`.
    pub product: String,
    /// Version, as far as it is known without asking the server: when the recording began.
    pub version: String,
    /// Versions that it came back as, in order. Since 1.18.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later_versions: Vec<LaterVersion>,
    /// Data directory of the server; empty when not known.
    pub data_directory: String,
    /// Executable of the server: when the recording began.
    pub executable: String,
    /// What was requested: `server`, or `pid N`.
    pub target: String,
    /// Data directories of the standbys whose receiving and replaying processes are recorded too. Since 1.12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub standbys: Vec<String>,
    /// What the ids of statements are: the server's own (`query_id`), or dbtime's fingerprint of the text where the server gives none
    /// (`fingerprint`); empty = not known, that is, the server's own: before 1.9 there were no others. Since 1.9.
    pub statement_ids: String,
    /// Processes whose entries, in which the server says what each executes, were found to agree with what is known otherwise: process,
    /// database, state, where texts are. 0 = none could be checked, or what they execute is not recorded. Since 1.17.
    #[serde(default)]
    pub entries_checked: u32,
    /// Samples tell which internal locks a session holds ([`crate::HeldLockRow`]). Since 1.10.
    pub held_locks: bool,
    /// The server's lock table was read ([`crate::LockRow`]). Since 1.13.
    pub locks: bool,
}

/// What a server that ended while it was recorded came back as.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaterVersion {
    /// From when on it was recorded, microseconds since the Unix epoch.
    pub from_us: i64,
    /// Its version.
    pub version: String,
    /// Its executable.
    pub executable: String,
}

impl DatabaseMeta {
    /// The same for a part of the recording's time: from `from_us` up to, but not including, `until_us` (microseconds since the Unix
    /// epoch).
    #[must_use]
    pub fn between(mut self, from_us: i64, until_us: i64) -> DatabaseMeta {
        let begun = self
            .later_versions
            .iter()
            .take_while(|later| later.from_us <= from_us);
        let begun = begun.count();
        if let Some(first) = self.later_versions.drain(..begun).next_back() {
            (self.version, self.executable) = (first.version, first.executable);
        }
        self.later_versions.retain(|later| later.from_us < until_us);
        self
    }

    /// All versions that it had, in order.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        let later = self.later_versions.iter().map(|later| later.version.as_str());
        std::iter::once(self.version.as_str()).chain(later)
    }

    /// The same in words: `17.2, then 18.1`.
    pub fn versions_in_short(&self) -> String {
        self.versions().collect::<Vec<_>>().join(", then ")
    }

    /// Product and versions in words: `PostgreSQL 17.2, then 18.1`; empty when they are not known.
    pub fn in_short(&self) -> String {
        let named = format!("{} {}", self.product, self.versions_in_short());
        named.trim().to_string()
    }

    /// [`DatabaseMeta::statement_ids`]: the server's own.
    pub const QUERY_ID: &'static str = "query_id";
    /// [`DatabaseMeta::statement_ids`]: dbtime's fingerprint of the text.
    pub const FINGERPRINT: &'static str = "fingerprint";

    /// True if statements have dbtime's fingerprints in place of the server's ids.
    pub fn has_fingerprints(&self) -> bool {
        self.statement_ids == DatabaseMeta::FINGERPRINT
    }
}

/// How it was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectorMeta {
    /// `sampled`, `exact` (at switches) or `exact-calls` (at system calls too).
    pub tier: String,
    /// Samples per second and session.
    pub rate_hz: u32,
    /// Mechanisms in use, in words.
    pub engine: String,
    /// What this host lacks, and what was done instead.
    pub reasons: Vec<String>,
    /// What the rows of `activity` count. Since 1.2.
    pub unit: Unit,
    /// What the moments in the rows are. Since 1.2.
    pub clock: Clock,
    /// Rows cover windows of so many seconds, each timed at the beginning of its window; at the beginning of the recording there may be
    /// rows of single seconds. 0 means 1. Since 1.4.
    pub resolution_s: u32,
    /// What the kernel counts for every task is in `counters` ([`crate::counter::task`]). Since 1.11.
    pub task_counts: bool,
    /// Recordings of one recorder that follow one another without a gap have this in common, on their host; empty: it is the only
    /// one. Since 1.11.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub series: String,
    /// The condition that made a flight recorder start it beside a continuous recording; empty: none did. Since 1.11.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub flight: String,
}

impl CollectorMeta {
    /// Begin and end of the time that a row of a moment may stand for; all in microseconds since the Unix epoch.
    pub fn window_at(&self, moment_us: i64) -> (i64, i64) {
        let length = i64::from(self.resolution_s.max(1)) * 1_000_000;
        let begin = moment_us.div_euclid(length).saturating_mul(length);
        (begin, begin.saturating_add(length))
    }

    /// A period (none = without that end) that cuts no row: with rows of single seconds both ends are rounded down, so that a second belongs
    /// to one of two adjacent periods; with longer ones it is extended to whole ones.
    pub fn whole_windows(&self, from_us: Option<i64>, to_us: Option<i64>) -> (Option<i64>, Option<i64>) {
        let end = |to: i64| match self.window_at(to) {
            (begin, _) if begin == to || self.resolution_s <= 1 => begin,
            (_, end) => end,
        };
        (from_us.map(|from| self.window_at(from).0), to_us.map(end))
    }
}

/// What the rows of `activity` count: the column that has the weight of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Time, in `ns`.
    #[default]
    Time,
    /// Samples, in `samples`: the source does not say how much time one stands for. `ns` is 0.
    Samples,
    /// Something that the source counted without saying what, in `count`. `ns` is 0.
    Counts,
}

/// What the moments in the rows are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Time of day, UTC.
    #[default]
    Utc,
    /// Seconds of a clock whose beginning is not known, such as those since boot: only differences mean anything.
    Relative,
    /// The source has no times: all rows are at 0.
    None,
}

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Segments {
    /// Number of the last complete segment; files with a higher number are not part of the recording.
    pub last: u64,
    /// Rows written per table, over all segments.
    pub rows: std::collections::BTreeMap<String, u64>,
    /// Segments that are in one file, in order. Since 1.4.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Merged>,
}

/// Segments that share one file of each table: that of the last of them or, as long as it is there, a file of its number that ends in
/// `.merged`. Files of the others do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// Number of the first of them.
    pub first: u64,
    /// Number of the last of them.
    pub last: u64,
}

impl Merged {
    /// Whether a segment is one of them.
    pub fn contains(&self, segment: u64) -> bool {
        (self.first..=self.last).contains(&segment)
    }
}

/// What is known to be missing or doubtful, over the whole recording. What belongs to a session is in the
/// `counters` table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quality {
    /// Samples taken.
    pub samples: u64,
    /// Samples dropped because the session ran while it was read.
    pub torn: u64,
    /// Samples kept without their stacks for the same reason.
    pub torn_stacks: u64,
    /// Passes over a session left out because the sampler itself had pushed it off its CPU.
    pub displaced: u64,
    /// Samples of waits that were over before the session could be looked at: their state is known, their wait event is that of
    /// another wait of the session that ended. Since 1.11.
    pub stood_in: u64,
    /// Samples lost because the buffer to user space was full.
    pub lost: u64,
    /// Samples whose wait event could not be read.
    pub waits_not_read: u64,
    /// Samples for which it could not be read whether their statement has a comment that says which request it is for
    /// ([`crate::CommentRow`]). Since 1.12.
    pub comments_not_read: u64,
    /// User stacks taken that reach the outermost function.
    pub stacks_complete: u64,
    /// User stacks cut because they have more frames than are kept.
    pub stacks_truncated: u64,
    /// User stacks that end at a frame whose caller was not found.
    pub stacks_broken: u64,
    /// Unwinding tables, address spaces and mappings for which the recorder had no room.
    pub unwind_without_room: u64,
    /// Stacks, each time one was taken, for which the recorder had no room: it keeps only so many new ones.
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
    /// Latencies of single events for which there was no room.
    pub latencies_lost: u64,
    /// Sessions for which the recorder had no room.
    pub sessions_not_recorded: u64,
    /// Rows that were dropped because the disk did not take them in time.
    pub rows_dropped: u64,
    /// Time of sessions that was in them, nanoseconds.
    pub dropped_ns: u64,
    /// Time of sessions up to their ends for which the kernel's last numbers never came: it is in no row. Nanoseconds. Since 1.17.
    #[serde(default)]
    pub missing_ns: u64,
}

impl Quality {
    /// Each number of both, combined by `put_together`.
    #[must_use]
    pub fn with(&self, other: &Quality, put_together: fn(u64, u64) -> u64) -> Quality {
        let both = |of: fn(&Quality) -> u64| put_together(of(self), of(other));
        Quality {
            samples: both(|q| q.samples),
            torn: both(|q| q.torn),
            torn_stacks: both(|q| q.torn_stacks),
            displaced: both(|q| q.displaced),
            stood_in: both(|q| q.stood_in),
            lost: both(|q| q.lost),
            waits_not_read: both(|q| q.waits_not_read),
            comments_not_read: both(|q| q.comments_not_read),
            stacks_complete: both(|q| q.stacks_complete),
            stacks_truncated: both(|q| q.stacks_truncated),
            stacks_broken: both(|q| q.stacks_broken),
            unwind_without_room: both(|q| q.unwind_without_room),
            stacks_without_room: both(|q| q.stacks_without_room),
            unresolved_frames: both(|q| q.unresolved_frames),
            frames: both(|q| q.frames),
            late_passes: both(|q| q.late_passes),
            failed_passes: both(|q| q.failed_passes),
            passes: both(|q| q.passes),
            latencies_lost: both(|q| q.latencies_lost),
            sessions_not_recorded: both(|q| q.sessions_not_recorded),
            rows_dropped: both(|q| q.rows_dropped),
            dropped_ns: both(|q| q.dropped_ns),
            missing_ns: both(|q| q.missing_ns),
        }
    }

    /// What was added since an earlier look at the same recorder. Distinct frames are those of its whole life: a frame that was seen
    /// before is not counted again.
    #[must_use]
    pub fn since(&self, earlier: &Quality) -> Quality {
        Quality {
            unresolved_frames: self.unresolved_frames,
            frames: self.frames,
            ..self.with(earlier, u64::saturating_sub)
        }
    }
}

/// What the recording cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// CPU of the recorder's own threads, nanoseconds (user and kernel).
    pub cpu_ns: u64,
    /// Of that, the sampler thread's.
    pub sampler_cpu_ns: u64,
    /// Largest resident set of the recorder, bytes.
    pub max_rss_bytes: u64,
    /// Bytes of all segments.
    pub bytes_written: u64,
    /// Kernel memory of the unwinding tables.
    pub unwind_table_bytes: u64,
    /// Time spent building them, nanoseconds.
    pub unwind_build_ns: u64,
    /// What the programs in the kernel cost: each timer sample, and the probes, measured now and then.
    pub programs: Vec<ProgramCost>,
}

impl Cost {
    /// What was added since an earlier look at the same recorder; memory is the largest of its whole life.
    #[must_use]
    pub fn since(&self, earlier: &Cost) -> Cost {
        let programs = self.programs.iter().map(|program| {
            let before = earlier.programs.iter().find(|other| other.name == program.name);
            ProgramCost {
                name: program.name.clone(),
                runs: program.runs.saturating_sub(before.map_or(0, |other| other.runs)),
                ns: program.ns.saturating_sub(before.map_or(0, |other| other.ns)),
            }
        });
        Cost {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            sampler_cpu_ns: self.sampler_cpu_ns.saturating_sub(earlier.sampler_cpu_ns),
            max_rss_bytes: self.max_rss_bytes,
            bytes_written: self.bytes_written.saturating_sub(earlier.bytes_written),
            unwind_table_bytes: self.unwind_table_bytes,
            unwind_build_ns: self.unwind_build_ns.saturating_sub(earlier.unwind_build_ns),
            programs: programs.collect(),
        }
    }
}

/// Run time of a program in the kernel, by the kernel's own count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramCost {
    /// Tracepoint it is attached to, or `timer sample`.
    pub name: String,
    /// Runs that were measured.
    pub runs: u64,
    /// Nanoseconds they took, including the kernel's own counting (some ten each).
    pub ns: u64,
}

/// A remarkable event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When, microseconds since the Unix epoch.
    pub time_us: i64,
    /// What.
    pub text: String,
}

/// A file of another tool that became part of the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedFile {
    /// Where it was.
    pub path: String,
    /// What it was, in words.
    pub format: String,
    /// Lines in it.
    pub lines: u64,
    /// Lines that were not understood.
    pub unknown_lines: u64,
    /// The first few of them.
    pub first_unknown: Vec<UnknownLine>,
    /// For an SQL trace: what the rows do not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql_trace: Option<SqlTrace>,
    /// For a kernel trace (ftrace): what the rows do not tell. Since 1.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_trace: Option<KernelTrace>,
}

/// What is known about a kernel trace as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelTrace {
    /// `function_graph`, or `tracepoints` when only those were traced.
    pub tracer: String,
    /// Calls that are there from beginning to end.
    pub calls: u64,
    /// Of these, how many are kept whole in the table of spans.
    pub kept_calls: u64,
    /// Calls whose beginning or end is missing, or in which events were lost: left out.
    pub cut_calls: u64,
    /// Events that the kernel says it lost.
    pub lost_events: u64,
    /// Context switches were traced: time off CPU is measured. Otherwise it is the gap before `finish_task_switch`.
    pub has_switches: bool,
    /// Period of the timer that sampled the kernel stack of the task, in its CPU time, nanoseconds. 0 = there was no timer.
    pub sample_period_ns: u64,
    /// Samples inside the calls that are there from beginning to end.
    pub samples: u64,
    /// Of these calls, those that have a sample.
    pub sampled_calls: u64,
    /// Samples outside them: in other calls, or in none.
    pub samples_elsewhere: u64,
    /// Samples that are missing: there was no room for them, or they had no stack.
    pub samples_missing: u64,
}

/// What is known about context switches as a whole, and what their source does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduling {
    /// Turns of tasks; all are in the sums, the latencies and the counters.
    pub switches: u64,
    /// Of these, how many are kept whole in the table of switches.
    pub kept: u64,
    /// Turns that were not reported because the buffer to user space was full.
    pub lost: u64,
    /// Turns whose stay on a CPU has no beginning: it was not seen, or the clock went back.
    pub without_begin: u64,
    /// Switches from the idle task: they are in no table. perf counts them in its total.
    pub idle_switches: u64,
    /// Switches that were not seen. Recorded: by the kernel's count of each task's switches; the turn that follows is two in one, no
    /// time is missing. Imported: turns at whose beginning another task got the CPU; as in perf, they begin there.
    pub missed: u64,
    /// Moment of the first switch, of any task, nanoseconds on the clock of the recording.
    pub first_ns: i64,
    /// Moment of the last one.
    pub last_ns: i64,
    /// CPUs that were seen.
    pub cpus: u32,
    /// It is known who ended a sleep.
    pub has_wakers: bool,
    /// It is known who had the CPU during scheduling delays.
    pub has_occupants: bool,
    /// Moves to other CPUs are reported.
    pub has_migrations: bool,
    /// The source says in which state a task left its CPU.
    pub has_states: bool,
}

/// A line that was not understood.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnknownLine {
    /// Counts from 1.
    pub number: u64,
    /// Its beginning.
    pub text: String,
}

/// What is known about an SQL trace as a whole. Times in microseconds of its own clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SqlTrace {
    /// First moment in it.
    pub first_tim_us: Option<i64>,
    /// Last moment in it.
    pub last_tim_us: Option<i64>,
    /// The earliest beginning of a call or wait; none if it has none.
    pub begin_us: Option<i64>,
    /// CPU of the calls that are inside no other call of the trace, except CLOSE.
    pub cpu_us: i64,
    /// All waits, idle ones included.
    pub wait_us: i64,
    /// Sum of the same interval of each session in it. More than that of the file: sessions overlap. Since 1.4.
    pub sessions_us: i64,
    /// Waits in it. Since 1.4.
    pub waits: u64,
    /// Calls in it. Since 1.4.
    pub calls: u64,
    /// Recursive calls whose outer call is not in it, although the trace went on at depth 0. Since 1.4.
    pub calls_without_outer: u64,
    /// Their elapsed time. Since 1.4.
    pub calls_without_outer_us: u64,
    /// Granularity of CPU times: 1,000 or 10,000 if all values are multiples of it, 1 if it is finer, 0 = not known. Since 1.4.
    pub cpu_step_us: u64,
    /// Its clock counts units of 1,024 ns: times are corrected, and those of tools that do not correct them are shorter by
    /// 2.34 %. Since 1.4.
    pub counts_1024_ns: bool,
    /// How often a 32-bit clock wrapped around. Since 1.4.
    pub clock_wraps: u64,
    /// How often a clock was set back otherwise. Since 1.4.
    pub clock_steps: u64,
    /// By how much in all. Since 1.4.
    pub clock_steps_us: u64,
    /// Lines that are cut off: they are not counted. Since 1.4.
    pub cut_lines: u64,
    /// Number of the first of them. Since 1.4.
    pub first_cut_line: u64,
    /// The last line has no end. Since 1.4.
    pub ends_in_line: bool,
    /// It ends inside the text of a statement. Since 1.4.
    pub ends_in_text: bool,
    /// Files that it says it continues. Since 1.4.
    pub continued_from: Vec<String>,
    /// Files that it says continue it. Since 1.4.
    pub continues_in: Vec<String>,
    /// Statements that are counted with one that differs from them in literals only, because there are too many. Since 1.4.
    pub statements_alike: u64,
    /// Statements that are counted as one although they differ, because there are too many. Since 1.4.
    pub further_statements: u64,
    /// Statements whose text was left out, because there is too much of it. Since 1.4.
    pub texts_left_out: u64,
    /// The database stopped writing at its size limit.
    pub size_limited: bool,
    /// Periods of a second or more that no line covers.
    pub gaps: u64,
    /// How long all of them were.
    pub gaps_us: u64,
    /// The longest of them, the longest first.
    pub longest_gaps: Vec<TraceGap>,
    /// How long before the first line of its session a call had begun, at most; waits of that time are not in the trace. Since 1.19.
    pub begun_before_us: u64,
    /// The line of that call. Since 1.19.
    pub begun_before_line: u64,
    /// Calls that had not ended when the trace did.
    pub in_flight: Vec<CallInFlight>,
}

/// A period about which a trace says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceGap {
    /// The line that ends it.
    pub line: u64,
    /// `sid.serial` of the session; empty when the trace does not say.
    pub session: String,
    /// When it began, microseconds since the Unix epoch.
    pub from_us: i64,
    /// How long it was, microseconds.
    pub us: u64,
}

/// A call that had not ended when the trace did: its waits, or calls below it, are there, but its end is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallInFlight {
    /// `sid.serial` of the session; empty when the trace does not say.
    pub session: String,
    /// Number of its cursor; 0 = not known.
    pub cursor: u64,
    /// Identity of its statement; 0 = not known.
    pub statement: u64,
    /// Depth of the call; none when not known.
    pub depth: Option<u32>,
    /// Waits it had made.
    pub waits: u64,
    /// How long they took, microseconds.
    pub wait_us: u64,
    /// The line of the last of them.
    pub line: u64,
    /// Calls made in it that had ended. Since 1.4.
    pub calls: u64,
    /// Their elapsed time, microseconds. Since 1.4.
    pub call_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_cuts_no_row() {
        const SECOND: i64 = 1_000_000;
        let whole = |resolution_s, from: i64, to: i64| {
            let collector = CollectorMeta {
                resolution_s,
                ..CollectorMeta::default()
            };
            collector.whole_windows(Some(from), Some(to))
        };
        for resolution_s in [0, 1] {
            assert_eq!(
                whole(resolution_s, 14 * SECOND + 1, 27 * SECOND + 1),
                (Some(14 * SECOND), Some(27 * SECOND))
            );
        }
        assert_eq!(
            whole(10, 14 * SECOND, 27 * SECOND),
            (Some(10 * SECOND), Some(30 * SECOND))
        );
        assert_eq!(
            whole(10, 20 * SECOND, 30 * SECOND),
            (Some(20 * SECOND), Some(30 * SECOND))
        );
        assert_eq!(CollectorMeta::default().whole_windows(None, None), (None, None));
        whole(10, i64::MIN, i64::MAX);
    }

    #[test]
    fn product_and_versions_are_named_in_short() {
        let mut database = DatabaseMeta {
            product: "PostgreSQL".to_string(),
            version: "17.2".to_string(),
            ..DatabaseMeta::default()
        };
        assert_eq!(database.in_short(), "PostgreSQL 17.2");
        database.later_versions = ["18.1", "18.2"]
            .map(|version| LaterVersion {
                version: version.to_string(),
                ..LaterVersion::default()
            })
            .to_vec();
        assert_eq!(database.in_short(), "PostgreSQL 17.2, then 18.1, then 18.2");
        assert_eq!(database.versions_in_short(), "17.2, then 18.1, then 18.2");
        assert_eq!(DatabaseMeta::default().in_short(), "");
    }

    #[test]
    fn a_part_of_the_time_has_the_versions_of_its_time() {
        let later = |from_us, version: &str| LaterVersion {
            from_us,
            version: version.to_string(),
            executable: format!("/{version}/postgres"),
        };
        let whole = DatabaseMeta {
            version: "16.1".to_string(),
            executable: "/16.1/postgres".to_string(),
            later_versions: vec![later(100, "17.2"), later(200, "18.1")],
            ..DatabaseMeta::default()
        };
        let versions = |from_us, until_us| {
            let part = whole.clone().between(from_us, until_us);
            assert_eq!(part.executable, format!("/{}/postgres", part.version));
            part.versions().map(str::to_string).collect::<Vec<_>>()
        };
        assert_eq!(versions(0, 1_000), ["16.1", "17.2", "18.1"]);
        // A moment that is not part of it, and one that is.
        assert_eq!(versions(0, 100), ["16.1"]);
        assert_eq!(versions(100, 200), ["17.2"]);
        assert_eq!(versions(150, 201), ["17.2", "18.1"]);
        assert_eq!(versions(200, 201), ["18.1"]);
    }
}
