//! What an Oracle SQL trace says, by the rules of well-known tools: parsetrc.pl, TVD$XTAT, TKPROF.
//!
//! Sums come from counters and latencies, so they can be restricted to sessions and seconds; what is only known about whole files comes
//! from `meta.files`.

mod application;
mod breakdown;
mod event;
mod files;
mod outcome;
mod place;
mod plan;
mod profile;
mod recursion;
mod statement;
mod throughput;

use dbtime_model::latency::kind;
use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{CounterRow, LatencyRow, counter};

use crate::alike_statements::AlikeStatements;
use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::group::Dimension;
use crate::io::USUAL_THRESHOLDS_US;
use crate::load::Source;
use crate::scan::Activity;
use application::ApplicationsBuilder;
pub use application::{Application, ApplicationTime};
pub use breakdown::{CallView, DoubleCounted, IntervalView};
use event::EventsBuilder;
pub(crate) use event::bare_name;
pub use event::{EventGuess, IoSize, IoSizes, PARSETRC_LABELS, TracedEvent, parsetrc_counts};
pub use files::{FileGap, FileInFlight, TraceFacts, TraceFile};
use outcome::OutcomesBuilder;
pub use outcome::{StatementError, Transactions};
use place::PlacesBuilder;
pub use place::WaitPlace;
pub use plan::{PlanStepTime, StatementPlan};
use profile::ProfilesBuilder;
pub use profile::{ProfileEvent, StatementProfile};
pub use recursion::RecursiveCall;
use statement::StatementsBuilder;
pub use statement::{CallSums, CallerCalls, TracedStatement};
use throughput::ThroughputBuilder;
pub use throughput::{Throughput, ThroughputSecond, ThroughputSpan};

/// How a trace is reported.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceOptions {
    /// Reads faster than these are guessed to come from the page cache, from the storage's cache; microseconds.
    pub thresholds_us: [u64; 2],
    /// Size of a database block, bytes: not in a trace.
    pub block_bytes: u64,
    /// How many events, sizes and statements to show individually in text.
    pub top: usize,
    /// Show the plans of these statements in text.
    pub plans: bool,
    /// Show statements individually even if they differ in literals only.
    pub each_literal: bool,
    /// Show the values of bind variables in text, if they were imported.
    pub binds: bool,
}

impl Default for TraceOptions {
    fn default() -> TraceOptions {
        TraceOptions {
            thresholds_us: USUAL_THRESHOLDS_US,
            block_bytes: 8192,
            top: 10,
            plans: false,
            each_literal: false,
            binds: false,
        }
    }
}

/// What an SQL trace says. All of it is exact except [`Trace::guesses`].
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// How it is reported.
    pub options: TraceOptions,
    /// The traces it was made from, as a whole.
    pub files: Vec<TraceFile>,
    /// What is known about all of them together; none when only a part is selected.
    pub facts: Option<TraceFacts>,
    /// By the rule of parsetrc.pl.
    pub call_view: CallView,
    /// By the rule of TVD$XTAT; none when only a part of the files is selected.
    pub interval_view: Option<IntervalView>,
    /// What is known to be in two numbers at once.
    pub double_counted: DoubleCounted,
    /// Wait events, the largest sum of time first.
    pub events: Vec<TracedEvent>,
    /// Multi-block and direct reads by size; events ordered by time.
    pub io_sizes: Vec<IoSizes>,
    /// Guesses, by latency alone, of where reads come from.
    pub guesses: Vec<EventGuess>,
    /// Statements by plan, longest elapsed time first.
    pub statements: Vec<TracedStatement>,
    /// Who called whom, top down.
    pub recursion: Vec<RecursiveCall>,
    /// Own time of statements by event, longest first.
    pub profiles: Vec<StatementProfile>,
    /// Errors of statements, most frequent first.
    pub errors: Vec<StatementError>,
    /// How transactions ended.
    pub transactions: Transactions,
    /// Waits by object.
    pub objects: Vec<WaitPlace>,
    /// Waits by file.
    pub database_files: Vec<WaitPlace>,
    /// By service, module, action and client id.
    pub applications: Vec<Application>,
    /// I/O on data files and temporary files.
    pub throughput: Throughput,
}

impl Trace {
    /// Sum of the waits of all events, idle ones included, microseconds.
    pub fn events_us(&self) -> i128 {
        self.events.iter().map(TracedEvent::total_us).sum()
    }

    /// Elapsed time of the calls as shown by tools that do not correct clocks of 1,024 ns, like TKPROF; none unless all files have such
    /// a clock and are selected. Each call was rounded to a microsecond.
    pub fn uncorrected_elapsed_us(&self) -> Option<i128> {
        let are_all = self.files.iter().all(|file| file.trace.counts_1024_ns);
        (self.facts.is_some() && are_all && !self.files.is_empty())
            .then(|| self.call_view.elapsed_us * 1_000 / 1_024)
    }

    /// The time that the resource profile splits, microseconds: CPU, events and unaccounted time.
    pub fn profile_us(&self) -> i128 {
        self.call_view.cpu_us + self.events_us() + self.call_view.unaccounted_us()
    }
}

/// Whether a recording was made from SQL traces.
pub(crate) fn has_trace(meta: &Meta) -> bool {
    meta.files.iter().any(|file| file.sql_trace.is_some())
}

/// Whether it is a counter of a trace that the filter lets through.
fn is_taken(row: &CounterRow, dimensions: &mut Dimensions, filter: &Filter) -> bool {
    row.source == counter::ORACLE
        && filter.takes_time(row.time)
        && filter.takes_session(dimensions.session(row.session))
}

/// Which statements are merged if time is grouped by these, as in [`TraceBuilder::groups`], for callers that need nothing else of a
/// trace.
pub(crate) fn alike_by(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    by: &[Dimension],
    each_literal: bool,
) -> (AlikeStatements, Vec<Problem>) {
    let by_statement = by
        .iter()
        .any(|dimension| matches!(dimension, Dimension::Statement | Dimension::SqlId));
    if !by_statement || each_literal || !has_trace(source.meta()) {
        return (AlikeStatements::none(), Vec::new());
    }
    let mut statements = StatementsBuilder::default();
    let problems = source.counters(|row| {
        if is_taken(row, dimensions, filter) {
            statements.add(row);
        }
    });
    let alike = AlikeStatements::by_literals(statements.ids(), dimensions);
    (alike, problems)
}

/// Adds up rows to a [`Trace`].
#[derive(Default)]
pub(crate) struct TraceBuilder {
    call_view: CallView,
    double_counted: DoubleCounted,
    events: EventsBuilder,
    statements: StatementsBuilder,
    profiles: ProfilesBuilder,
    outcomes: OutcomesBuilder,
    places: PlacesBuilder,
    applications: ApplicationsBuilder,
    throughput: ThroughputBuilder,
}

impl TraceBuilder {
    /// Adds activity that the filter lets through.
    pub(crate) fn add_activity(&mut self, activity: &Activity<'_>) {
        self.profiles.add(activity);
    }

    /// Adds a latency that the filter lets through.
    pub(crate) fn add_latency(&mut self, row: &LatencyRow) {
        if *row.kind == *kind::WAIT {
            self.events.add(row);
        }
    }

    /// Adds a counter if the filter lets it through.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, dimensions: &mut Dimensions, filter: &Filter) {
        if !is_taken(row, dimensions, filter) {
            return;
        }
        self.call_view.add(row);
        self.double_counted.add(row);
        self.applications.add(row);
        self.statements.add(row);
        self.outcomes.add(row);
        self.places.add(row);
        self.throughput.add(row);
    }

    /// Which statements are merged.
    pub(crate) fn groups(&self, options: &TraceOptions, dimensions: &Dimensions) -> AlikeStatements {
        match options.each_literal {
            true => AlikeStatements::none(),
            false => AlikeStatements::by_literals(self.statements.ids(), dimensions),
        }
    }

    pub(crate) fn finish(
        self,
        meta: &Meta,
        options: &TraceOptions,
        filter: &Filter,
        groups: &AlikeStatements,
        dimensions: &mut Dimensions,
    ) -> Trace {
        let is_whole = *filter == Filter::default();
        let files = files::files(meta);
        let statements = self.statements.finish(groups, dimensions);
        let (transactions, errors) = self.outcomes.finish(dimensions);
        let (objects, database_files) = self.places.finish();
        let (events, io_sizes) = self.events.finish();
        Trace {
            facts: is_whole.then(|| TraceFacts::of(&files, dimensions)),
            interval_view: is_whole.then(|| IntervalView::of(&files)),
            files,
            call_view: self.call_view,
            double_counted: self.double_counted,
            guesses: event::guesses(&events, options.thresholds_us),
            events,
            io_sizes,
            recursion: recursion::tree(&statements),
            statements,
            profiles: self.profiles.finish(groups, dimensions),
            errors,
            transactions,
            objects,
            database_files,
            applications: self.applications.finish(dimensions),
            throughput: self.throughput.finish(options.block_bytes),
            options: options.clone(),
        }
    }
}
