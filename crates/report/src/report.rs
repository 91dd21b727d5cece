//! The report: every answer about a recording, from one pass over its rows.

use dbtime_model::State;
use dbtime_model::choice::did_you_mean;
use dbtime_model::recording::{BytesRead, Meta};

use crate::alike_statements::AlikeStatements;
use crate::connecting::{Connecting, ConnectingBuilder};
use crate::cost_of_looking::{CALLS_TIER, CalibrationOf, CostBuilder, CostOfLooking};
use crate::database_view::{DatabaseView, DatabaseViewBuilder, Who};
use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::group::Dimension;
use crate::latency::scan as scan_latency;
use crate::ledger::{Ledger, LedgerBuilder, Section};
use crate::load::Source;
use crate::number::Amounts;
use crate::quality::{LossCounters, Quality};
use crate::saturation::{Saturation, SaturationBuilder};
use crate::scan::{Period, is_foreground, scan};
use crate::sched::{Sched, SchedBuilder, scan_switches};
use crate::sessions::{Sessions, SessionsBuilder};
use crate::stacks::{StackProfile, StacksBuilder};
use crate::statement_counts::StatementCounts;
use crate::system_calls::{SystemCalls, SystemCallsBuilder, has_system_calls};
use crate::timeline::WidthError;
use crate::top_sql::{NoStatements, TopSql, TopSqlBuilder};
use crate::trace::{Trace, TraceBuilder, TraceOptions, has_trace};
use crate::transactions::{EndedTransactions, Transactions};
use crate::waits_in_calls::{WaitsInCalls, waits_in_calls};
use crate::who_was_there;
use crate::work::{CountedWork, WorkUnit};

/// What a report is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Which rows count.
    pub filter: Filter,
    /// What the ledger is grouped by.
    pub by: Vec<Dimension>,
    /// How many stacks to show.
    pub stacks: usize,
    /// How many of the longest delays of context switches to show.
    pub longest_delays: usize,
    /// How an SQL trace is shown.
    pub trace: TraceOptions,
    /// What looking costs on the recorded host, if that is known.
    pub calibration: Option<CalibrationOf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            filter: Filter::default(),
            by: vec![Dimension::Wait],
            stacks: 5,
            longest_delays: 10,
            trace: TraceOptions::default(),
            calibration: None,
        }
    }
}

/// Why there is no report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The filter names sessions that are not in the recording.
    #[error(
        "no session with pid {} in this recording; it has {}{}",
        list(pids),
        or_nothing(recorded),
        if *more { " …" } else { "" }
    )]
    NoSuchSession {
        /// Those that are not in it.
        pids: Vec<u32>,
        /// Those that are.
        recorded: Vec<String>,
        /// There are more than these.
        more: bool,
    },
    /// Each part of the filter matches something, but no session matches all of them.
    #[error(
        "no session in this recording matches {chosen}; it has {}{}",
        or_nothing(recorded),
        if *more { " …" } else { "" }
    )]
    NoSessionOfAll {
        /// What was asked for.
        chosen: String,
        /// Sessions by what was asked for; those that match most of it first.
        recorded: Vec<String>,
        /// There are more than these.
        more: bool,
    },
    /// The filter names a value that no session or statement has.
    #[error(
        "no {} with {dimension} '{value}' in this recording; it has {}{}",
        if dimension.is_of_sessions() { "session" } else { "statement" },
        or_nothing(recorded),
        if *more { " …".to_string() } else { did_you_mean(value, &unquoted(recorded)) }
    )]
    NoSuchFact {
        /// The dimension.
        dimension: Dimension,
        /// What was asked for.
        value: String,
        /// The values there are, quoted.
        recorded: Vec<String>,
        /// There are more than these.
        more: bool,
    },
    /// The filter names a wait event that does not occur.
    #[error(
        "no time in wait '{wait}' in the selected part of this recording; it has {}{}",
        or_nothing(recorded),
        did_you_mean(wait, &names_of_waits(recorded))
    )]
    NoSuchWait {
        /// What was asked for.
        wait: String,
        /// What there is.
        recorded: Vec<String>,
    },
    /// The filter names a state that does not occur.
    #[error(
        "no time in state '{state}' in the selected part of this recording; it has {}",
        or_nothing(recorded)
    )]
    NoSuchState {
        /// What was asked for.
        state: State,
        /// What there is.
        recorded: Vec<&'static str>,
    },
    /// The filter names a statement that does not occur.
    #[error(
        "no time in query {id} in the selected part of this recording; it has {}{}",
        or_nothing(recorded),
        if *more { " …" } else { "" }
    )]
    NoSuchStatement {
        /// What was asked for.
        id: i64,
        /// The largest ones there are.
        recorded: Vec<String>,
        /// There are more than these.
        more: bool,
    },
    /// The filter leaves no whole second.
    #[error("the period is empty: it must end at least one second after it begins")]
    EmptyPeriod,
    /// The recording has no context switches.
    #[error("no context switches in this recording; 'dbtime sched -o' records them")]
    NoSwitches,
    /// No latency of this kind was recorded.
    #[error("no latencies of kind '{kind}' in this recording; it has {}{}", recorded.join(", "), did_you_mean(kind, recorded))]
    NoSuchKind {
        /// What was asked for.
        kind: String,
        /// What there is.
        recorded: Vec<String>,
    },
    /// No event has one of these names.
    #[error(
        "no latencies of {} in this recording; it has {}{}",
        names.join(", "),
        or_nothing(recorded),
        if *more { " …".to_string() } else { did_you_mean(&names.join(", "), recorded) }
    )]
    NoSuchEvent {
        /// What was asked for.
        names: Vec<String>,
        /// What there is.
        recorded: Vec<String>,
        /// There are more than these.
        more: bool,
    },
    /// No function of this name is in the kernel trace.
    #[error("no function {0} in this trace; --functions lists them")]
    NoSuchFunction(String),
    /// No call of this number is kept (0 = none at all).
    #[error("{}", match .0 { 0 => "no call is kept in full in this trace".to_string(), n => format!("call {n} is not one of those kept in full") })]
    NoSuchCall(u64),
    /// What commands did is summed over sessions, for whole commands.
    #[error(
        "what commands did is summed for whole commands, over all sessions: filter by --query, --from and \
         --to, not by session, wait or state"
    )]
    CommandsAreWhole,
    /// A timeline needs timestamps.
    #[error("no timeline: the file has no timestamps")]
    NoMoments,
    /// A timeline needs a duration.
    #[error("no timeline: the recording, or the selected part of it, has no duration")]
    NoLength,
    /// There are no such buckets.
    #[error(transparent)]
    Buckets(#[from] WidthError),
    /// Causes were requested both as frames and as levels.
    #[error(
        "--causes draws who was waited for as frames: omit it, or omit --by cause and --by root, which draw \
         one level of it"
    )]
    CausesTwice,
    /// A heat map shows one kind of latency.
    #[error("a heat map shows one kind of latency: choose one with --kind; this recording has {}", .0.join(", "))]
    ChooseKind(Vec<String>),
}

fn or_nothing<T: AsRef<str>>(recorded: &[T]) -> String {
    match recorded {
        [] => "nothing".to_string(),
        names => names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", "),
    }
}

/// Class, event, and both, of waits that read as `Class:Event`.
fn names_of_waits(waits: &[String]) -> Vec<&str> {
    let parts = waits.iter().flat_map(|wait| wait.split(':'));
    parts.chain(waits.iter().map(String::as_str)).collect()
}

fn unquoted(names: &[String]) -> Vec<&str> {
    names.iter().map(|name| name.trim_matches('\'')).collect()
}

fn list(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(", ")
}

/// All answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// What the recording says about itself.
    pub meta: Meta,
    /// What was read for it; none when that is not counted, as for a recording on disk.
    pub read: Option<BytesRead>,
    /// Which rows count.
    pub filter: Filter,
    /// The time the report covers.
    pub period: Period,
    /// Time by group and state.
    pub ledger: Ledger,
    /// The same from the database's point of view.
    pub database_view: DatabaseView,
    /// What it cost to start and end sessions; none if there were none, or if the filter leaves out a part of that.
    pub connecting: Option<Connecting>,
    /// Transactions that ended; none when they are not known.
    pub transactions: Option<EndedTransactions>,
    /// How long sessions of clients waited for a CPU; none when the recording counts no time.
    pub saturation: Option<Saturation>,
    /// DB time by statement, or why there is none.
    pub top_sql: Result<TopSql, NoStatements>,
    /// Time by session.
    pub sessions: Sessions,
    /// Time by stack.
    pub stacks: StackProfile,
    /// What an SQL trace says; none when the recording was made of something else.
    pub trace: Option<Trace>,
    /// Context switches; none when the recording was made of something else.
    pub sched: Option<Sched>,
    /// What traces of system calls say; none when the recording was made of something else.
    pub system_calls: Option<SystemCalls>,
    /// Waits and system calls beside each other; none when the files were not traces of both.
    pub waits_in_calls: Option<WaitsInCalls>,
    /// How much of it is overhead of the tool that recorded it; none without a calibration that applies.
    pub cost_of_looking: Option<CostOfLooking>,
    /// How far to trust it.
    pub quality: Quality,
}

impl Report {
    /// Wall-clock time that the report covers, nanoseconds.
    pub fn elapsed_ns(&self) -> u128 {
        self.period.elapsed_ns()
    }

    /// Time of foreground sessions outside of idle waits, and in the run queue inside of them, nanoseconds.
    pub fn db_time_ns(&self) -> u128 {
        self.ledger.db_time_ns()
    }

    /// Average active sessions: DB time by elapsed time; none when no time passed, or the recording counts no time.
    pub fn average_active_sessions(&self) -> Option<f64> {
        let elapsed = self.elapsed_ns();
        let are_times = Amounts::of(&self.meta).are_times();
        (elapsed > 0 && are_times).then(|| self.db_time_ns() as f64 / elapsed as f64)
    }

    /// True when the time comes from an SQL trace alone, which does not know what the operating system did.
    pub fn is_trace_without_states(&self) -> bool {
        self.trace.is_some() && !self.ledger.total().knows_states()
    }

    /// True when the stacks are not sampled: files that have the stack of every interval.
    pub fn has_exact_stacks(&self) -> bool {
        !self.meta.files.is_empty() && self.meta.collector.tier == "exact"
    }

    /// True when no time of any session was recorded, and no call of a trace: for recursive calls whose caller is not in the trace, only
    /// the statement is known.
    pub fn is_empty(&self) -> bool {
        let has_calls = |trace: &Trace| !trace.statements.is_empty() || !trace.events.is_empty();
        let has_system_calls = |of: &SystemCalls| !of.calls.is_empty() || !of.others.is_empty();
        self.ledger.total().total_ns() == 0
            && !self.trace.as_ref().is_some_and(has_calls)
            && !self.system_calls.as_ref().is_some_and(has_system_calls)
    }
}

/// Answers every question of a report in one pass over the rows.
///
/// # Errors
/// The filter names a session or a period that is not there. Parts of the recording that cannot be read are not an error:
/// [`Quality::problems`] lists them.
pub fn report(source: &Source, options: &Options) -> Result<Report, ReportError> {
    let mut dimensions = load(source, &options.filter)?;
    let mut ledger = LedgerBuilder::new(&options.by, source, &mut dimensions);
    let mut database_view = DatabaseViewBuilder::default();
    let mut saturation = SaturationBuilder::default();
    let mut top_sql = TopSqlBuilder::default();
    let mut sessions = SessionsBuilder::default();
    let mut connecting = ConnectingBuilder::default();
    let mut stacks = StacksBuilder::default();
    let mut unsampled_ns = 0;
    let mut samples = 0;
    let mut system_calls = has_system_calls(source.meta()).then(SystemCallsBuilder::default);
    let mut trace = has_trace(source.meta()).then(TraceBuilder::default);
    let mut work = CountedWork::default();
    let mut transactions = Transactions::default();
    let mut losses = LossCounters::default();
    let mut statement_counts = StatementCounts::default();
    let counter_problems = source.counters(|row| {
        losses.add(row);
        if options.filter.takes_time(row.time) && is_foreground(row.session, &mut dimensions, &options.filter)
        {
            work.add_counter(row);
            transactions.add_counter(row);
        }
        saturation.add_counter(row, &options.filter);
        statement_counts.add_counter(row, &options.filter);
        sessions.add_counter(row, &mut dimensions, &options.filter);
        if let Some(trace) = &mut trace {
            trace.add_counter(row, &mut dimensions, &options.filter);
        }
        if let Some(calls) = &mut system_calls {
            calls.add_counter(row, &mut dimensions, &options.filter);
        }
    });
    transactions.settle(source.meta().start_us, &mut dimensions);
    let scan = scan(source, &mut dimensions, &options.filter, |activity| {
        trace.iter_mut().for_each(|trace| trace.add_activity(activity));
        ledger.add(activity);
        database_view.add(activity);
        saturation.add(activity);
        if trace.is_none() {
            top_sql.add(activity);
        }
        sessions.add(activity);
        connecting.add(activity);
        stacks.add(activity);
        system_calls.iter_mut().for_each(|calls| calls.add(activity.row));
        if activity.section == Section::DbTime {
            transactions.add_activity(activity.row);
        }
        samples += u128::from(activity.row.samples);
        if activity.not_sampled {
            unsampled_ns += u128::from(activity.row.ns);
        }
    });
    scan.check(&options.filter)?;
    let mut latency_problems = Vec::new();
    // Commands are read only without the server's own counts, which also include nested statements and rows.
    if statement_counts.is_empty() && source.meta().collector.tier == CALLS_TIER {
        let (commands, problems) = StatementCounts::read_commands(source, &mut dimensions, &options.filter);
        statement_counts = commands;
        latency_problems = problems;
    }
    let calibration = options.calibration.as_ref();
    let mut cost = calibration.and_then(|of| CostBuilder::new(of, source.meta()));
    if trace.is_some() || cost.is_some() || system_calls.is_some() {
        let scan = scan_latency(source, &mut dimensions, &options.filter, |row, _, is_selected| {
            if is_selected {
                trace.iter_mut().for_each(|trace| trace.add_latency(row));
                cost.iter_mut().for_each(|cost| cost.add(row));
                system_calls.iter_mut().for_each(|calls| calls.add_latency(row));
            }
        });
        latency_problems.extend(scan.problems);
    }
    let groups = trace.as_ref().map_or_else(AlikeStatements::none, |trace| {
        trace.groups(&options.trace, &dimensions)
    });
    let trace = trace.map(|trace| {
        trace.finish(
            source.meta(),
            &options.trace,
            &options.filter,
            &groups,
            &mut dimensions,
        )
    });
    let are_times = Amounts::of(source.meta()).are_times();
    let system_calls = system_calls.map(|calls| calls.finish(&dimensions, are_times));
    let waits_in_calls = waits_in_calls(source, &mut dimensions, &options.filter);
    let sched = source.meta().scheduling.as_ref().map(|facts| {
        let mut sched = SchedBuilder::new(options.longest_delays);
        let scan = scan_latency(source, &mut dimensions, &options.filter, |row, _, is_selected| {
            if is_selected {
                sched.add_latency(row);
            }
        });
        latency_problems.extend(scan.problems);
        latency_problems.extend(source.counters(|row| {
            if options.filter.takes_time(row.time)
                && options.filter.takes_session(dimensions.session(row.session))
                && options.filter.takes_statement(row.statement)
            {
                sched.add_counter(row);
            }
        }));
        let add = |row: &_| sched.add_switch(row);
        latency_problems.extend(scan_switches(source, &mut dimensions, &options.filter, add));
        sched.finish(facts, &mut dimensions)
    });
    let ledger = ledger.finish(&groups, &mut dimensions);
    let connecting = connecting.finish(scan.period, &options.filter, &dimensions);
    let top_sql = top_sql.finish(statement_counts, &dimensions);
    let sessions = sessions.finish(&mut dimensions);
    let stacks = stacks.finish(options.stacks, &dimensions);

    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scan.problems);
    problems.extend(counter_problems);
    for problem in latency_problems {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    let mut quality = losses.quality(source.meta(), problems);
    // An importer need not fill in what can be counted.
    quality.samples = quality.samples.max(samples);
    quality.unsampled_ns = unsampled_ns;
    let ledger_total = ledger.total();
    quality.pooled_ns = ledger_total.pooled_ns();
    quality.accounted_ns = ledger_total.total_ns();
    let transactions = (are_times && trace.is_none() && transactions.are_known(&mut dimensions))
        .then(|| work.count(WorkUnit::Transaction))
        .and_then(|count| {
            EndedTransactions::of(
                count,
                &options.filter,
                ledger.db_time_ns(),
                scan.period.elapsed_ns(),
            )
        });
    quality.missing_stacks_ns = stacks.missing_ns;
    quality.sessions_not_described = dimensions.sessions_not_described();
    Ok(Report {
        meta: source.meta().clone(),
        read: source.bytes_read(),
        filter: options.filter.clone(),
        period: scan.period,
        ledger,
        database_view: database_view.finish(Who::of(source.meta())),
        connecting,
        transactions,
        saturation: are_times.then(|| saturation.finish(source.meta(), scan.period.elapsed_ns())),
        top_sql,
        sessions,
        stacks,
        trace,
        sched,
        system_calls,
        waits_in_calls,
        cost_of_looking: cost.and_then(|cost| cost.finish(quality.accounted_ns)),
        quality,
    })
}

/// Loads what the ids stand for, and checks the filter against it.
pub(crate) fn load(source: &Source, filter: &Filter) -> Result<Dimensions, ReportError> {
    if filter.is_empty_period() {
        return Err(ReportError::EmptyPeriod);
    }
    let dimensions = source.dimensions();
    who_was_there::check(filter, &dimensions)?;
    Ok(dimensions)
}
