//! What is known about whole trace files, and cannot be told from rows.

use dbtime_model::recording::{CallInFlight, ImportedFile, Meta, SqlTrace, TraceGap};

use crate::dimensions::Dimensions;

/// A file of SQL trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceFile {
    /// Path, lines and what was not understood.
    pub file: ImportedFile,
    /// Its trace.
    pub trace: SqlTrace,
}

/// What is known about all files together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraceFacts {
    /// Lines.
    pub lines: u128,
    /// Lines that were not understood.
    pub unknown_lines: u128,
    /// Lines that were truncated, and do not count.
    pub cut_lines: u128,
    /// The first moment in any of them, microseconds of the trace's own clock.
    pub first_tim_us: Option<i64>,
    /// The last moment in any of them, microseconds of the trace's own clock.
    pub last_tim_us: Option<i64>,
    /// Waits in all of them; 0 although there are calls: they were not traced.
    pub waits: u128,
    /// Calls in all of them.
    pub calls: u128,
    /// Sum of the sessions' intervals, microseconds: more than that of files if sessions overlap.
    pub sessions_us: i128,
    /// Intervals of files with a clock of 1,024 ns, as shown by tools that do not correct it; none if there is no such file.
    pub uncorrected_us: Option<i128>,
    /// The coarsest step in which CPU was counted; 1 = finer than 1 ms, 0 = not known.
    pub cpu_step_us: u64,
    /// Recursive calls whose outer call is not in their trace.
    pub calls_without_outer: u128,
    /// Their elapsed time, microseconds.
    pub calls_without_outer_us: u128,
    /// Files that the database stopped writing at their size limit.
    pub size_limited: usize,
    /// Periods of a second or more without a line.
    pub gaps: u128,
    /// Their sum, microseconds.
    pub gaps_us: u128,
    /// The longest of them.
    pub longest_gaps: Vec<FileGap>,
    /// Calls still in progress when their trace ended.
    pub in_flight: Vec<FileInFlight>,
}

/// A gap and the file it is in.
#[derive(Debug, Clone, PartialEq)]
pub struct FileGap {
    /// Path of the file.
    pub path: String,
    /// The gap.
    pub gap: TraceGap,
}

/// A call in flight and its statement.
#[derive(Debug, Clone, PartialEq)]
pub struct FileInFlight {
    /// Path of the file.
    pub path: String,
    /// The call.
    pub call: CallInFlight,
    /// Name of its statement.
    pub sql_id: Option<String>,
    /// See [`super::TracedStatement::hash_value`].
    pub hash_value: u64,
}

/// The files of a recording that are SQL traces.
pub(super) fn files(meta: &Meta) -> Vec<TraceFile> {
    let trace = |file: &ImportedFile| {
        Some(TraceFile {
            trace: file.sql_trace.clone()?,
            file: file.clone(),
        })
    };
    meta.files.iter().filter_map(trace).collect()
}

impl TraceFacts {
    pub(super) fn of(files: &[TraceFile], dimensions: &Dimensions) -> TraceFacts {
        let mut facts = TraceFacts::default();
        for TraceFile { file, trace } in files {
            facts.lines += u128::from(file.lines);
            facts.unknown_lines += u128::from(file.unknown_lines);
            facts.cut_lines += u128::from(trace.cut_lines);
            facts.first_tim_us = facts.first_tim_us.into_iter().chain(trace.first_tim_us).min();
            facts.last_tim_us = facts.last_tim_us.into_iter().chain(trace.last_tim_us).max();
            facts.waits += u128::from(trace.waits);
            facts.calls += u128::from(trace.calls);
            facts.sessions_us += i128::from(trace.sessions_us);
            facts.cpu_step_us = facts.cpu_step_us.max(trace.cpu_step_us);
            facts.calls_without_outer += u128::from(trace.calls_without_outer);
            facts.calls_without_outer_us += u128::from(trace.calls_without_outer_us);
            if let (true, Some(begin), Some(end)) = (trace.counts_1024_ns, trace.begin_us, trace.last_tim_us)
            {
                let corrected = i128::from(end) - i128::from(begin);
                *facts.uncorrected_us.get_or_insert(0) += corrected * 1_000 / 1_024;
            }
            facts.size_limited += usize::from(trace.size_limited);
            facts.gaps += u128::from(trace.gaps);
            facts.gaps_us += u128::from(trace.gaps_us);
            facts
                .longest_gaps
                .extend(trace.longest_gaps.iter().map(|gap| FileGap {
                    path: file.path.clone(),
                    gap: gap.clone(),
                }));
            facts
                .in_flight
                .extend(trace.in_flight.iter().map(|call| FileInFlight {
                    path: file.path.clone(),
                    call: call.clone(),
                    sql_id: dimensions.sql_id(call.statement).map(str::to_string),
                    hash_value: dimensions.hash_value(call.statement),
                }));
        }
        facts
            .longest_gaps
            .sort_by_key(|gap| std::cmp::Reverse(gap.gap.us));
        facts
    }
}
