//! What an SQL trace says. Microseconds are whole numbers, as in the trace.

use dbtime_model::recording::UnknownLine;
use dbtime_model::{BindSet, BoundExecution};
use serde::{Serialize, Serializer};

use crate::fields::timestamp;
use crate::histogram::{Bucket, Histogram};
use crate::trace::{
    Application, CallSums, CallView, CallerCalls, EventGuess, FileGap, FileInFlight, IntervalView,
    PlanStepTime, RecursiveCall, StatementError, StatementProfile, Throughput, Trace, TraceFile, TracedEvent,
    TracedStatement, Transactions, WaitPlace,
};

#[derive(Serialize)]
pub(super) struct TraceJson<'a> {
    files: usize,
    lines: Option<u128>,
    unknown_lines: Option<u128>,
    first_tim: Option<i64>,
    last_tim: Option<i64>,
    size_limited_files: Option<usize>,
    file_list: Vec<FileJson<'a>>,
    call_view: CallView,
    /// None when only a part of the trace is selected: an interval cannot be cut.
    interval_view: Option<IntervalView>,
    cpu_inside_waits_ns: i128,
    cpu_beyond_calls_ns: i128,
    waits_beyond_calls_ns: i128,
    facts: Option<FactsJson>,
    transactions: &'a Transactions,
    errors: &'a [StatementError],
    events: &'a [TracedEvent],
    io_sizes: Vec<IoSizeJson<'a>>,
    sources: SourcesJson<'a>,
    statements: Vec<StatementJson<'a>>,
    statement_profiles: &'a [StatementProfile],
    objects: &'a [WaitPlace],
    database_files: &'a [WaitPlace],
    recursion: &'a [RecursiveCall],
    by_application: &'a [Application],
    throughput: ThroughputJson<'a>,
    gaps: Option<GapsJson<'a>>,
    in_flight: Option<Vec<InFlightJson<'a>>>,
}

#[derive(Serialize)]
struct FactsJson {
    waits: u128,
    calls: u128,
    sessions_us: i128,
    uncorrected_us: Option<i128>,
    uncorrected_elapsed_us: Option<i128>,
    cpu_step_us: u64,
    calls_without_outer: u128,
    calls_without_outer_us: u128,
}

#[derive(Serialize)]
struct FileJson<'a> {
    path: &'a str,
    format: &'a str,
    lines: u64,
    unknown_lines: u64,
    first_unknown: &'a [UnknownLine],
    first_tim: Option<i64>,
    last_tim: Option<i64>,
    begin_us: Option<i64>,
    cpu_us: i64,
    wait_us: i64,
    size_limited: bool,
    gaps: u64,
    gaps_us: u64,
    counts_1024_ns: bool,
    clock_wraps: u64,
    clock_steps: u64,
    clock_steps_us: u64,
    cut_lines: u64,
    ends_in_line: bool,
    continued_from: &'a [String],
    continues_in: &'a [String],
}

#[derive(Serialize)]
pub(crate) struct CallViewJson {
    elapsed_us: i128,
    cpu_us: i128,
    wait_us: i128,
    idle_us: i128,
    wait_outside_us: i128,
    unaccounted_us: i128,
}

#[derive(Serialize)]
pub(crate) struct IntervalViewJson {
    duration_us: i128,
    cpu_us: i128,
    wait_us: i128,
    unaccounted_us: i128,
}

#[derive(Serialize)]
struct IoSizeJson<'a> {
    event: &'a str,
    /// None if the trace does not say.
    blocks: Option<u64>,
    #[serde(flatten)]
    latency: LatencyJson,
}

#[derive(Serialize)]
struct LatencyJson {
    count: u128,
    total_us: u128,
    max_us: u64,
    histogram: Vec<BucketJson>,
}

#[derive(Serialize)]
struct BucketJson {
    from_us: u64,
    count: u128,
    total_us: u128,
}

#[derive(Serialize)]
struct SourcesJson<'a> {
    fidelity: &'static str,
    thresholds_us: [u64; 2],
    events: Vec<EventSourcesJson<'a>>,
}

#[derive(Serialize)]
struct EventSourcesJson<'a> {
    event: &'a str,
    sources: Vec<SourceJson>,
}

#[derive(Serialize)]
struct SourceJson {
    source: &'static str,
    count: u128,
    total_us: u128,
}

#[derive(Serialize)]
struct StatementJson<'a> {
    /// A string, because not every reader keeps 64 bits of a number; none if the trace does not give the statement.
    id: Option<String>,
    sql_id: Option<&'a str>,
    plan_hash: Option<u64>,
    text: Option<&'a str>,
    hash_value: Option<u64>,
    variants: usize,
    user_id: Option<u32>,
    depth: Option<u32>,
    parse: CallSums,
    execute: CallSums,
    fetch: CallSums,
    own_elapsed_us: i128,
    own_cpu_us: i128,
    assumed_wait_us: i128,
    binds: &'a [BindSet],
    bound_executions: &'a [BoundExecution],
    bound_execution_count: u64,
    calls: i128,
    executions: i128,
    elapsed_us: i128,
    cpu_us: i128,
    wait_us: i128,
    missing_us: i128,
    idle_us: i128,
    rows: i128,
    consistent_gets: i128,
    current_gets: i128,
    physical_reads: i128,
    misses: i128,
    called_us: i128,
    callers: &'a [CallerCalls],
    plan: Vec<PlanStepJson<'a>>,
}

#[derive(Serialize)]
struct PlanStepJson<'a> {
    id: u64,
    parent: u64,
    depth: usize,
    operation: &'a str,
    executions: u64,
    rows: u64,
    consistent_gets: u64,
    physical_reads: u64,
    physical_writes: u64,
    elapsed_us: u64,
    own_us: i128,
}

#[derive(Serialize)]
struct ThroughputJson<'a> {
    block_bytes: u64,
    seconds: SecondsJson<'a>,
}

/// Created one at a time during writing: a long trace has a great many of them.
struct SecondsJson<'a>(&'a Throughput);

impl Serialize for SecondsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SecondsJson(throughput) = self;
        serializer.collect_seq(throughput.seconds().map(|second| SecondJson {
            time: timestamp(second.time_us),
            reads: second.reads,
            read_blocks: second.read_blocks,
            read_bytes: throughput.bytes(second.read_blocks),
            writes: second.writes,
            written_blocks: second.written_blocks,
            written_bytes: throughput.bytes(second.written_blocks),
        }))
    }
}

#[derive(Serialize)]
struct SecondJson {
    time: Option<String>,
    reads: i128,
    read_blocks: i128,
    read_bytes: i128,
    writes: i128,
    written_blocks: i128,
    written_bytes: i128,
}

#[derive(Serialize)]
struct GapsJson<'a> {
    count: u128,
    total_us: u128,
    longest: Vec<GapJson<'a>>,
}

#[derive(Serialize)]
struct GapJson<'a> {
    path: &'a str,
    line: u64,
    session: &'a str,
    from: Option<String>,
    us: u64,
}

#[derive(Serialize)]
struct InFlightJson<'a> {
    path: &'a str,
    session: &'a str,
    cursor: u64,
    sql_id: Option<&'a str>,
    hash_value: Option<u64>,
    depth: Option<u32>,
    waits: u64,
    wait_us: u64,
    line: u64,
    calls: u64,
    call_us: u64,
}

impl<'a> From<&'a Trace> for TraceJson<'a> {
    fn from(trace: &'a Trace) -> TraceJson<'a> {
        let facts = trace.facts.as_ref();
        TraceJson {
            files: trace.files.len(),
            lines: facts.map(|facts| facts.lines),
            unknown_lines: facts.map(|facts| facts.unknown_lines),
            first_tim: facts.and_then(|facts| facts.first_tim_us),
            last_tim: facts.and_then(|facts| facts.last_tim_us),
            size_limited_files: facts.map(|facts| facts.size_limited),
            file_list: trace.files.iter().map(FileJson::from).collect(),
            call_view: trace.call_view,
            interval_view: trace.interval_view,
            cpu_inside_waits_ns: trace.double_counted.cpu_inside_waits_ns,
            cpu_beyond_calls_ns: trace.double_counted.cpu_beyond_calls_ns,
            waits_beyond_calls_ns: trace.double_counted.waits_beyond_calls_ns,
            facts: facts.map(|facts| FactsJson {
                waits: facts.waits,
                calls: facts.calls,
                sessions_us: facts.sessions_us,
                uncorrected_us: facts.uncorrected_us,
                uncorrected_elapsed_us: trace.uncorrected_elapsed_us(),
                cpu_step_us: facts.cpu_step_us,
                calls_without_outer: facts.calls_without_outer,
                calls_without_outer_us: facts.calls_without_outer_us,
            }),
            transactions: &trace.transactions,
            errors: &trace.errors,
            events: &trace.events,
            io_sizes: trace
                .io_sizes
                .iter()
                .flat_map(|event| {
                    event.sizes.iter().map(|size| IoSizeJson {
                        event: &event.event,
                        blocks: (size.blocks != 0).then_some(size.blocks),
                        latency: (&size.latency).into(),
                    })
                })
                .collect(),
            sources: SourcesJson {
                fidelity: "guessed",
                thresholds_us: trace.options.thresholds_us,
                events: trace.guesses.iter().map(EventSourcesJson::from).collect(),
            },
            statements: trace.statements.iter().map(StatementJson::from).collect(),
            statement_profiles: &trace.profiles,
            objects: &trace.objects,
            database_files: &trace.database_files,
            recursion: &trace.recursion,
            by_application: &trace.applications,
            throughput: (&trace.throughput).into(),
            gaps: facts.map(|facts| GapsJson {
                count: facts.gaps,
                total_us: facts.gaps_us,
                longest: facts.longest_gaps.iter().map(GapJson::from).collect(),
            }),
            in_flight: facts.map(|facts| facts.in_flight.iter().map(InFlightJson::from).collect()),
        }
    }
}

impl<'a> From<&'a TraceFile> for FileJson<'a> {
    fn from(TraceFile { file, trace }: &'a TraceFile) -> FileJson<'a> {
        FileJson {
            path: &file.path,
            format: &file.format,
            lines: file.lines,
            unknown_lines: file.unknown_lines,
            first_unknown: &file.first_unknown,
            first_tim: trace.first_tim_us,
            last_tim: trace.last_tim_us,
            begin_us: trace.begin_us,
            cpu_us: trace.cpu_us,
            wait_us: trace.wait_us,
            size_limited: trace.size_limited,
            gaps: trace.gaps,
            gaps_us: trace.gaps_us,
            counts_1024_ns: trace.counts_1024_ns,
            clock_wraps: trace.clock_wraps,
            clock_steps: trace.clock_steps,
            clock_steps_us: trace.clock_steps_us,
            cut_lines: trace.cut_lines,
            ends_in_line: trace.ends_in_line,
            continued_from: &trace.continued_from,
            continues_in: &trace.continues_in,
        }
    }
}

impl From<CallView> for CallViewJson {
    fn from(view: CallView) -> CallViewJson {
        CallViewJson {
            elapsed_us: view.elapsed_us,
            cpu_us: view.cpu_us,
            wait_us: view.wait_us,
            idle_us: view.idle_us,
            wait_outside_us: view.wait_outside_us,
            unaccounted_us: view.unaccounted_us(),
        }
    }
}

impl From<IntervalView> for IntervalViewJson {
    fn from(view: IntervalView) -> IntervalViewJson {
        IntervalViewJson {
            duration_us: view.duration_us,
            cpu_us: view.cpu_us,
            wait_us: view.wait_us,
            unaccounted_us: view.unaccounted_us(),
        }
    }
}

/// Sums and bounds in whole microseconds, as in the trace.
pub(crate) fn whole_microseconds<S: Serializer>(latency: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    LatencyJson::from(latency).serialize(to)
}

impl From<&Histogram> for LatencyJson {
    fn from(latency: &Histogram) -> LatencyJson {
        let bucket = |bucket: Bucket| BucketJson {
            from_us: bucket.from_us,
            count: bucket.count,
            total_us: bucket.sum_ns / 1_000,
        };
        LatencyJson {
            count: latency.count(),
            total_us: latency.sum_ns() / 1_000,
            max_us: latency.max_ns() / 1_000,
            histogram: latency
                .power_of_two_us()
                .into_iter()
                .filter(|bucket| bucket.count > 0)
                .map(bucket)
                .collect(),
        }
    }
}

impl<'a> From<&'a EventGuess> for EventSourcesJson<'a> {
    fn from(guess: &'a EventGuess) -> EventSourcesJson<'a> {
        EventSourcesJson {
            event: &guess.event,
            sources: guess
                .guessed
                .iter()
                .map(|(guessed, count, sum_ns)| SourceJson {
                    source: guessed.as_str(),
                    count: *count,
                    total_us: sum_ns / 1_000,
                })
                .collect(),
        }
    }
}

impl<'a> From<&'a TracedStatement> for StatementJson<'a> {
    fn from(statement: &'a TracedStatement) -> StatementJson<'a> {
        StatementJson {
            id: (statement.id != 0).then(|| statement.id.to_string()),
            sql_id: statement.sql_id.as_deref(),
            plan_hash: statement.plan_hash,
            text: statement.text.as_deref(),
            hash_value: (statement.hash_value != 0).then_some(statement.hash_value),
            variants: statement.variants,
            user_id: statement.user_id,
            depth: statement.depth,
            parse: statement.parse,
            execute: statement.exec(),
            fetch: statement.fetch,
            own_elapsed_us: statement.own_elapsed_us,
            own_cpu_us: statement.own_cpu_us,
            assumed_wait_us: statement.assumed_wait_us,
            binds: &statement.binds,
            bound_executions: &statement.bound_executions,
            bound_execution_count: statement.bound_execution_count,
            calls: statement.all.calls,
            executions: statement.executions,
            elapsed_us: statement.all.elapsed_us,
            cpu_us: statement.all.cpu_us,
            wait_us: statement.wait_us,
            missing_us: statement.missing_us(),
            idle_us: statement.idle_us,
            rows: statement.all.rows,
            consistent_gets: statement.all.consistent_gets,
            current_gets: statement.all.current_gets,
            physical_reads: statement.all.physical_reads,
            misses: statement.all.misses,
            called_us: statement.called_us,
            callers: &statement.callers,
            plan: statement.plan.steps.iter().map(PlanStepJson::from).collect(),
        }
    }
}

impl<'a> From<&'a PlanStepTime> for PlanStepJson<'a> {
    fn from(PlanStepTime { step, depth, own_us }: &'a PlanStepTime) -> PlanStepJson<'a> {
        PlanStepJson {
            id: step.id,
            parent: step.parent,
            depth: *depth,
            operation: &step.operation,
            executions: step.executions,
            rows: step.rows,
            consistent_gets: step.consistent_gets,
            physical_reads: step.physical_reads,
            physical_writes: step.physical_writes,
            elapsed_us: step.elapsed_us,
            own_us: *own_us,
        }
    }
}

impl<'a> From<&'a Throughput> for ThroughputJson<'a> {
    fn from(throughput: &'a Throughput) -> ThroughputJson<'a> {
        ThroughputJson {
            block_bytes: throughput.block_bytes,
            seconds: SecondsJson(throughput),
        }
    }
}

impl<'a> From<&'a FileGap> for GapJson<'a> {
    fn from(FileGap { path, gap }: &'a FileGap) -> GapJson<'a> {
        GapJson {
            path,
            line: gap.line,
            session: &gap.session,
            from: timestamp(gap.from_us),
            us: gap.us,
        }
    }
}

impl<'a> From<&'a FileInFlight> for InFlightJson<'a> {
    fn from(of: &'a FileInFlight) -> InFlightJson<'a> {
        let call = &of.call;
        InFlightJson {
            path: &of.path,
            session: &call.session,
            cursor: call.cursor,
            sql_id: of.sql_id.as_deref(),
            hash_value: (of.hash_value != 0).then_some(of.hash_value),
            depth: call.depth,
            waits: call.waits,
            wait_us: call.wait_us,
            line: call.line,
            calls: call.calls,
            call_us: call.call_us,
        }
    }
}
