//! What an import of one file gathers, and how the files become one result.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;

use dbtime_model::recording::{
    Clock, CollectorMeta, CoveredPeriod, DatabaseMeta, HostMeta, ImportedFile, Meta, Note, SCHEMA_VERSION,
    Scheduling, SqlTrace, Unit,
};
use dbtime_model::{
    ActivityRow, CounterRow, Frame, LatencyRow, Rows, SessionId, SessionRow, SpanRow, StackId, StackRow,
    StatementRow, stack_id,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::Options;
use crate::oracle_trace::{MAX_BOUND_EXECUTIONS, MAX_STATEMENTS, MAX_TEXTS, MAX_UNLIKE};
use crate::periods::Periods;

/// Rows, and frames of stacks, that are handed on at a time.
const BATCH: usize = 16_384;

/// Most single events kept of a file: bounds the memory of matching files with each other.
const MAX_SPANS: u64 = 1_000_000;

const SECOND_US: i64 = 1_000_000;

/// What was imported, without the rows: they were handed on.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What is said about the rows.
    pub meta: Meta,
    /// What could not be read or understood, in sentences; also in the notes of `meta`.
    pub problems: Vec<String>,
}

/// What the rows of a file are: files that differ in this cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Samples, not measured from start to end.
    pub sampled: bool,
    /// What they count.
    pub unit: Unit,
    /// The clock of their moments.
    pub clock: Clock,
}

impl Default for Measure {
    /// Exact times of day.
    fn default() -> Measure {
        Measure {
            sampled: false,
            unit: Unit::Time,
            clock: Clock::Utc,
        }
    }
}

/// What one file gives. Importers add to it.
#[derive(Debug)]
pub struct Import {
    options: Options,
    has_idle_cpu: bool,
    stacks: HashSet<StackId>,
    rows: Rows,
    /// Frames of the stacks in them.
    frames: usize,
    spans: u64,
    to: SyncSender<Rows>,
    description: Description,
}

/// What is known of one or several files besides activity, latencies, counters and stacks.
#[derive(Debug, Default)]
pub(crate) struct Description {
    measure: Measure,
    rate_hz: Option<u32>,
    reasons: Vec<String>,
    sessions: HashMap<SessionId, SessionRow>,
    statements: HashMap<u64, StatementRow>,
    files: Vec<ImportedFile>,
    problems: Vec<String>,
    host: HostMeta,
    database: DatabaseMeta,
    scheduling: Option<Scheduling>,
    /// When the first thing in a file began, microseconds since the Unix epoch, if no session says so.
    begins_us: Option<i64>,
    /// Number of files with an exact start, whatever sessions say.
    exact_begins: usize,
    /// When the last thing in a file ended, microseconds since the Unix epoch: for files that say so exactly.
    ends_us: Vec<i64>,
    /// Of files that cover only some periods.
    periods: Periods,
    /// How many of the files are of that kind.
    files_of_periods: usize,
}

impl Import {
    pub(crate) fn new(options: &Options, to: SyncSender<Rows>) -> Import {
        Import {
            options: options.clone(),
            has_idle_cpu: false,
            stacks: HashSet::new(),
            rows: Rows::default(),
            frames: 0,
            spans: 0,
            to,
            description: Description::default(),
        }
    }

    /// The same, with whether another thread may help.
    pub(crate) fn with_idle_cpu(mut self, has_idle_cpu: bool) -> Import {
        self.has_idle_cpu = has_idle_cpu;
        self
    }

    /// True if another thread may help: there is a CPU for it.
    pub(crate) fn has_idle_cpu(&self) -> bool {
        self.has_idle_cpu
    }

    /// What the user knows.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Sets what the rows of the file are; by default, exact times of day.
    pub(crate) fn set_measure(&mut self, measure: Measure) {
        self.description.measure = measure;
    }

    /// Samples per second of the file; there is none if files differ.
    pub(crate) fn rate(&mut self, hz: u32) {
        self.description.rate(hz);
    }

    /// What was traced, in words that say more than the name of the file.
    pub(crate) fn set_target(&mut self, target: &str) {
        self.description.database.target = target.to_string();
    }

    /// Something that a reader of the numbers should know, once.
    pub(crate) fn reason(&mut self, reason: &str) {
        self.description.reason(reason);
    }

    /// Adds a stack, root first, once.
    pub(crate) fn stack(&mut self, frames: Vec<Frame>) -> StackId {
        let id = stack_id(&frames);
        if !frames.is_empty() && self.stacks.insert(id) {
            self.frames += frames.len();
            self.rows.stacks.push(StackRow { id, frames });
            self.hand_on(BATCH);
        }
        id
    }

    /// The session of this identity: files that name the same one continue it.
    pub(crate) fn session(&mut self, identity: &str, mut row: SessionRow) -> SessionId {
        let id = session_id(identity);
        row.id = id;
        self.description.session(row);
        id
    }

    /// Adds rows of facts, whatever their table.
    pub(crate) fn rows(&mut self, rows: Rows) {
        self.rows.append(rows);
        self.hand_on(BATCH);
    }

    /// The file has context switches.
    pub(crate) fn scheduling(&mut self, scheduling: Scheduling) {
        self.description.scheduling = Some(scheduling);
    }

    /// Adds a row of activity.
    pub(crate) fn activity(&mut self, row: ActivityRow) {
        self.rows.activity.push(row);
        self.hand_on(BATCH);
    }

    /// Adds latencies.
    pub(crate) fn latency(&mut self, row: LatencyRow) {
        self.rows.latency.push(row);
        self.hand_on(BATCH);
    }

    /// Adds a single event; those beyond [`MAX_SPANS`] of a file are left out, which is reported.
    pub(crate) fn span(&mut self, row: SpanRow) {
        self.spans += 1;
        if self.spans <= MAX_SPANS {
            self.rows.spans.push(row);
            self.hand_on(BATCH);
        }
    }

    /// Adds a counter.
    pub(crate) fn counter(&mut self, row: CounterRow) {
        self.rows.counters.push(row);
        self.hand_on(BATCH);
    }

    /// Adds a statement, or what another file says about it.
    pub(crate) fn statement(&mut self, row: StatementRow) {
        self.description.statement(row);
    }

    /// The host that the file is about.
    pub(crate) fn host(&mut self) -> &mut HostMeta {
        &mut self.description.host
    }

    /// The database that the file is about.
    pub(crate) fn database(&mut self, product: &str, version: &str) {
        self.description.database.product = product.to_string();
        self.description.database.version = version.to_string();
    }

    /// The file says who held internal locks.
    pub(crate) fn has_held_locks(&mut self) {
        self.description.database.held_locks = true;
    }

    /// When the first thing in the file began; by default, when the first session began.
    pub(crate) fn begins(&mut self, us: i64) {
        self.description.begins_us = Some(us);
    }

    /// When the first thing in the file began and the last one ended, by a clock finer than seconds.
    pub(crate) fn spans(&mut self, (begin_us, end_us): (i64, i64)) {
        self.begins(begin_us);
        self.description.exact_begins = 1;
        self.ends(end_us);
    }

    /// When the last thing in the file ended, exactly; by default, the end of the last second of its rows.
    pub(crate) fn ends(&mut self, us: i64) {
        self.description.ends_us.push(us);
    }

    /// The file covers this period and others that are added, but nothing between them.
    pub(crate) fn period(&mut self, period: CoveredPeriod) {
        self.description.periods.add(period);
        self.description.files_of_periods = 1;
    }

    /// The file covers no time at all: it does not hide the gaps of others.
    pub(crate) fn no_period(&mut self) {
        self.description.files_of_periods = 1;
    }

    /// What the file was.
    pub(crate) fn file(&mut self, file: ImportedFile) {
        self.description.problems.extend(problems(&file));
        self.description.files.push(file);
    }

    /// Something could not be read.
    pub(crate) fn problem(&mut self, problem: String) {
        self.description.problems.push(problem);
    }

    fn hand_on(&mut self, at_least: usize) {
        if self.rows.len() + self.frames >= at_least {
            self.frames = 0;
            // If the receiver has gone, the reader of the file is stopped by other means.
            let _ = self.to.send(std::mem::take(&mut self.rows));
        }
    }

    /// Ends with the file, which was of this format.
    pub(crate) fn finish(mut self, format: &str) -> Description {
        let left_out = self.spans.saturating_sub(MAX_SPANS);
        if left_out > 0 {
            let path = self.description.path();
            self.description.problems.push(format!(
                "{}: {left_out} single events beyond the first {MAX_SPANS} are not matched with those of other files",
                path.display()
            ));
        }
        self.hand_on(1);
        for file in &mut self.description.files {
            file.format = format.to_string();
        }
        self.description
    }
}

/// Which session has this identity.
pub(crate) fn session_id(identity: &str) -> SessionId {
    SessionId(xxh3_64(identity.as_bytes()).max(1))
}

/// What two files say about context switches: what only one of them knows is not known of both.
fn together(one: &Scheduling, other: &Scheduling) -> Scheduling {
    Scheduling {
        switches: one.switches.saturating_add(other.switches),
        kept: one.kept.saturating_add(other.kept),
        lost: one.lost.saturating_add(other.lost),
        without_begin: one.without_begin.saturating_add(other.without_begin),
        idle_switches: one.idle_switches.saturating_add(other.idle_switches),
        missed: one.missed.saturating_add(other.missed),
        first_ns: one.first_ns.min(other.first_ns),
        last_ns: one.last_ns.max(other.last_ns),
        cpus: one.cpus.max(other.cpus),
        has_wakers: one.has_wakers && other.has_wakers,
        has_occupants: one.has_occupants && other.has_occupants,
        has_migrations: one.has_migrations && other.has_migrations,
        has_states: one.has_states && other.has_states,
    }
}

impl Description {
    fn rate(&mut self, hz: u32) {
        let known = *self.rate_hz.get_or_insert(hz);
        self.rate_hz = Some(if known == hz { hz } else { 0 });
    }

    fn reason(&mut self, reason: &str) {
        if !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_string());
        }
    }

    /// The first file.
    pub(crate) fn path(&self) -> PathBuf {
        self.files
            .first()
            .map(|file| PathBuf::from(&file.path))
            .unwrap_or_default()
    }

    /// True if the rows of both can be added.
    pub(crate) fn goes_with(&self, other: &Description) -> bool {
        self.files.is_empty() || self.measure == other.measure
    }

    /// Adds the description of the next file.
    pub(crate) fn append(&mut self, other: Description) {
        self.measure = other.measure;
        if let Some(hz) = other.rate_hz {
            self.rate(hz);
        }
        other.reasons.iter().for_each(|reason| self.reason(reason));
        other.sessions.into_values().for_each(|row| self.session(row));
        other.statements.into_values().for_each(|row| self.statement(row));
        self.scheduling = match (self.scheduling.take(), other.scheduling) {
            (Some(one), Some(other)) => Some(together(&one, &other)),
            (one, other) => one.or(other),
        };
        // If there are several, the names of the files are used instead.
        let target = match self.files.is_empty() || self.database.target == other.database.target {
            true => other.database.target.clone(),
            false => String::new(),
        };
        self.files.extend(other.files);
        self.problems.extend(other.problems);
        // A file without a release does not override one that has it.
        let held_locks = self.database.held_locks || other.database.held_locks;
        if !other.database.version.is_empty() || self.database.product.is_empty() {
            self.database = other.database;
        }
        self.database.held_locks = held_locks;
        self.database.target = target;
        self.begins_us = self.begins_us.into_iter().chain(other.begins_us).min();
        self.exact_begins += other.exact_begins;
        self.ends_us.extend(other.ends_us);
        self.periods.append(other.periods);
        self.files_of_periods += other.files_of_periods;
        if other.host != HostMeta::default() {
            self.host = other.host;
        }
    }

    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    fn session(&mut self, row: SessionRow) {
        let known = self.sessions.entry(row.id).or_insert_with(|| row.clone());
        known.started = known.started.min(row.started);
    }

    fn statement(&mut self, row: StatementRow) {
        let Some(known) = self.statements.get_mut(&row.id) else {
            self.statements.insert(row.id, row);
            return;
        };
        if known.text.is_empty() {
            known.text = row.text;
        }
        if known.sql_id.is_empty() {
            known.sql_id = row.sql_id;
        }
        if known.hash_value == 0 {
            known.hash_value = row.hash_value;
        }
        known.alike = known.alike.saturating_add(row.alike);
        known.user_id = known.user_id.or(row.user_id);
        known.command = known.command.or(row.command);
        known.depth = known.depth.into_iter().chain(row.depth).min();
        for set in row.binds {
            match known.binds.iter_mut().find(|of| of.values == set.values) {
                Some(sum) => {
                    sum.executions = sum.executions.saturating_add(set.executions);
                    sum.elapsed_us = sum.elapsed_us.saturating_add(set.elapsed_us);
                    sum.rows = sum.rows.saturating_add(set.rows);
                }
                None => known.binds.push(set),
            }
        }
        let room = MAX_BOUND_EXECUTIONS.saturating_sub(known.bound_executions.len());
        known
            .bound_executions
            .extend(row.bound_executions.into_iter().take(room));
        known.bound_execution_count = known
            .bound_execution_count
            .saturating_add(row.bound_execution_count);
        for step in row.plan_steps {
            let same = |of: &&mut dbtime_model::PlanStep| (of.plan, of.id) == (step.plan, step.id);
            match known.plan_steps.iter_mut().find(same) {
                Some(sum) => sum.add(&step),
                None => known.plan_steps.push(step),
            }
        }
        for caller in row.callers {
            match known
                .callers
                .iter_mut()
                .find(|of| of.statement == caller.statement)
            {
                Some(sum) => {
                    sum.calls = sum.calls.saturating_add(caller.calls);
                    sum.elapsed_us = sum.elapsed_us.saturating_add(caller.elapsed_us);
                }
                None => known.callers.push(caller),
            }
        }
    }

    /// Sessions and statements as rows, in a fixed order.
    pub(crate) fn take_rows(&mut self) -> Rows {
        let mut rows = Rows {
            sessions: std::mem::take(&mut self.sessions).into_values().collect(),
            statements: std::mem::take(&mut self.statements).into_values().collect(),
            ..Rows::default()
        };
        rows.sessions.sort_by_key(|row| (row.started, row.id));
        rows.statements.sort_by_key(|row| row.id);
        rows
    }

    /// What is said about the rows, given their sessions and the last second of activity.
    pub(crate) fn finish(mut self, sessions: &[SessionRow], last_us: Option<i64>, engine: &str) -> Imported {
        // Rows are where their time ended: what was imported began earlier.
        let begins = sessions.iter().map(|row| row.started).chain(self.begins_us);
        let begin_us = match self.begins_us {
            Some(begin_us) if self.exact_begins == self.files.len() => begin_us,
            _ => begins.min().unwrap_or(0),
        };
        let is_exact = !self.files.is_empty() && self.ends_us.len() == self.files.len();
        let start_us = if is_exact {
            begin_us
        } else {
            begin_us.div_euclid(SECOND_US) * SECOND_US
        };
        let end_us = match self.measure.clock {
            Clock::None => start_us,
            Clock::Utc | Clock::Relative if is_exact => {
                self.ends_us.iter().copied().max().unwrap_or(start_us)
            }
            Clock::Utc | Clock::Relative => last_us.map_or(start_us, |last| last.saturating_add(SECOND_US)),
        };
        self.problems.extend(twins(&self.files));
        let names: Vec<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let target = match self.database.target.is_empty() {
            true => names.join(" "),
            false => self.database.target,
        };
        let note = |text: &String| Note {
            time_us: start_us,
            text: text.clone(),
        };
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us,
            end_us,
            complete: true,
            host: self.host,
            database: DatabaseMeta {
                target,
                ..self.database
            },
            collector: CollectorMeta {
                tier: if self.measure.sampled { "sampled" } else { "exact" }.to_string(),
                rate_hz: self.rate_hz.unwrap_or(0),
                engine: format!("imported: {engine}"),
                reasons: self.reasons,
                unit: self.measure.unit,
                clock: self.measure.clock,
                ..CollectorMeta::default()
            },
            notes: self.problems.iter().map(note).collect(),
            // If a file covers all of its time, the periods of the others are not all there is.
            periods: match self.files_of_periods == self.files.len() {
                true => self.periods.finish(),
                false => Vec::new(),
            },
            files: self.files,
            scheduling: self.scheduling,
            ..Meta::default()
        };
        Imported {
            meta,
            problems: self.problems,
        }
    }
}

/// Traces that say the same from the first line to the last.
fn twins(files: &[ImportedFile]) -> Vec<String> {
    let mut known: HashMap<_, Vec<&ImportedFile>> = HashMap::new();
    let mut told = Vec::new();
    for file in files {
        let Some(trace) = &file.sql_trace else { continue };
        let alike = known
            .entry((file.lines, trace.first_tim_us, trace.last_tim_us, trace.wait_us))
            .or_default();
        if let Some(twin) = alike.iter().find(|of| of.sql_trace == file.sql_trace)
            && trace.calls + trace.waits > 0
        {
            told.push(format!(
                "{} and {} are the same trace: what is in it counts twice",
                twin.path, file.path
            ));
        }
        alike.push(file);
    }
    told
}

/// A call that began this long before its trace is reported.
const WORTH_TELLING_US: u64 = 100_000;

/// What a user should know about an SQL trace, in sentences.
fn trace_problems(path: &str, lines: u64, trace: &SqlTrace) -> Vec<String> {
    let mut told = Vec::new();
    if trace.size_limited {
        told.push(format!(
            "{path}: the database stopped writing at its size limit (max_dump_file_size); what came later is missing"
        ));
    }
    for other in &trace.continued_from {
        told.push(format!(
            "{path}: what came before is in {other}: give both files to see all of it"
        ));
    }
    for other in &trace.continues_in {
        told.push(format!(
            "{path}: what came later is in {other}: give both files to see all of it"
        ));
    }
    if trace.begun_before_us >= WORTH_TELLING_US {
        told.push(format!(
            "{path}: the call on line {} had begun {}.{:03} s before the first line of its session: its \
             waits in that time are not in the trace, and count as CPU or as unaccounted",
            trace.begun_before_line,
            trace.begun_before_us / 1_000_000,
            trace.begun_before_us / 1_000 % 1_000
        ));
    }
    if trace.statements_alike > 0 {
        told.push(format!(
            "{path}: {} statements beyond the first {MAX_STATEMENTS} are counted with one that differs only in \
            literals: --each-literal does not show them",
            trace.statements_alike
        ));
    }
    if trace.further_statements > 0 {
        told.push(format!(
            "{path}: {} statements beyond the first {MAX_UNLIKE} are counted as one: {}",
            trace.further_statements,
            StatementRow::FURTHER
        ));
    }
    if trace.texts_left_out > 0 {
        told.push(format!(
            "{path}: texts of {} statements are left out: earlier texts already take {} MB",
            trace.texts_left_out,
            MAX_TEXTS >> 20
        ));
    }
    if trace.cut_lines > 0 {
        told.push(format!(
            "{path}: truncated lines, not counted: {}, the first is line {}",
            trace.cut_lines, trace.first_cut_line
        ));
    }
    if trace.ends_in_text {
        told.push(format!("{path}: the file ends inside the text of a statement"));
    } else if trace.ends_in_line {
        told.push(format!(
            "{path}: the last line, {lines}, has no newline: the file was truncated there, or is still \
             being written"
        ));
    }
    if trace.clock_wraps > 0 {
        told.push(format!(
            "{path}: the clock of the trace has 32 bits and wrapped {}: times continue across it",
            times(trace.clock_wraps)
        ));
    }
    if trace.clock_steps > 0 {
        told.push(format!(
            "{path}: the clock of the trace goes back {}, by {}.{:06} s in all: times continue from where \
             it was, and how much time passed there is not known",
            times(trace.clock_steps),
            trace.clock_steps_us / 1_000_000,
            trace.clock_steps_us % 1_000_000
        ));
    }
    told
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_string(),
        n => format!("{n} times"),
    }
}

/// What a user should know about a file, in sentences.
fn problems(file: &ImportedFile) -> Vec<String> {
    let path = &file.path;
    let mut problems = match &file.sql_trace {
        Some(trace) => trace_problems(path, file.lines, trace),
        None => Vec::new(),
    };
    if file.unknown_lines > 0 {
        let first: Vec<String> = file
            .first_unknown
            .iter()
            .map(|line| format!("{path}:{}: {}", line.number, line.text.trim()))
            .collect();
        problems.push(format!(
            "{path}: {} of {} lines not understood and skipped: {}",
            file.unknown_lines,
            file.lines,
            first.join("; ")
        ));
    }
    problems
}

/// Lines that were not understood: counted, and the first few kept.
pub(crate) fn unknown_line(file: &mut ImportedFile, number: u64, text: &[u8]) {
    const KEPT: usize = 5;
    const TEXT: usize = 120;
    file.unknown_lines += 1;
    if file.first_unknown.len() < KEPT {
        let text = &text[..text.len().min(TEXT)];
        file.first_unknown.push(dbtime_model::recording::UnknownLine {
            number,
            text: String::from_utf8_lossy(text).into_owned(),
        });
    }
}

/// A file of which nothing is known yet.
pub(crate) fn file(path: &Path) -> ImportedFile {
    ImportedFile {
        path: path.display().to_string(),
        ..ImportedFile::default()
    }
}
