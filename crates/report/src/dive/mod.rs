//! What a system call does inside the kernel: from a trace of functions, or of tracepoints.
//!
//! Durations are inclusive: they contain callees and their time off CPU, but no interrupt and no preemption that hit the
//! function; these have trees of their own. `own` is a function's time on a CPU without everything that it called.

mod difference;
mod one_call;
mod paths;
mod samples;
mod summary;

use std::collections::BTreeMap;

use dbtime_model::recording::{KernelTrace, Meta, Problem};
use dbtime_model::{Fidelity, Frame, State};
use serde::Serialize;

pub use difference::{DiveChange, DiveDiff, DiveSide, dive_diff};
pub use one_call::{CallChoice, SpanLine, TracedCall};
pub use paths::{ChildOf, ChildrenOf, Durations, FunctionDurations, PathDurations, PathTree};
pub use samples::{SampledFunction, SampledInterval, SampledPath, TimerSamples};
pub use summary::{CallSummary, LayerPart};

use crate::dimensions::Dimensions;
use crate::fields;
use crate::filter::Filter;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Period, check_statements, finish};
use paths::Paths;
use samples::Samples;

/// Possible states of time inside calls, in the order of reports.
pub(crate) const STATES: [State; 6] = [
    State::Kernel,
    State::Runnable,
    State::Disk,
    State::Sleep,
    State::Stopped,
    State::Unknown,
];

/// A view of a trace of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiveView {
    /// Calls, layers, the functions with the most time.
    Summary,
    /// All calls merged: every call path.
    Tree,
    /// Every function, by any caller.
    Functions,
    /// What a function calls directly.
    Children(String),
    /// One call from start to end.
    Call(CallChoice),
}

/// Options of a report about a trace of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct DiveOptions {
    /// Which rows count: period, sessions and statements.
    pub filter: Filter,
    /// The view.
    pub view: DiveView,
    /// How many of the longest to show.
    pub top: usize,
    /// How many levels of a tree, or of a call; none = all.
    pub depth: Option<usize>,
}

/// The answer to a [`DiveView`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum DiveAnswer {
    /// [`DiveView::Summary`]: functions by their own time.
    #[serde(rename = "functions")]
    Summary(Vec<FunctionDurations>),
    /// [`DiveView::Tree`]
    #[serde(rename = "tree")]
    Tree(PathTree),
    /// [`DiveView::Functions`]
    #[serde(rename = "functions")]
    Functions(Vec<FunctionDurations>),
    /// [`DiveView::Children`]
    #[serde(untagged)]
    Children(ChildrenOf),
    /// [`DiveView::Call`]
    #[serde(untagged)]
    Call(TracedCall),
}

/// A trace of the kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiveReport {
    /// What the recording says about itself.
    #[serde(serialize_with = "fields::meta")]
    pub meta: Meta,
    /// Which rows count.
    #[serde(skip)]
    pub filter: Filter,
    /// The time it covers.
    #[serde(skip)]
    pub period: Period,
    /// What is known about the trace as a whole.
    pub trace: KernelTrace,
    /// Calls by their function, most time first.
    pub calls: Vec<CallSummary>,
    /// Time in interrupts that hit the calls or came around them, nanoseconds.
    pub interrupts_ns: u128,
    /// Time in which calls were preempted, nanoseconds.
    pub preemption_ns: u128,
    /// Time of the calls by layer of the kernel and by state, largest first. Sums to that of `calls`.
    pub layers: Vec<LayerPart>,
    /// Where a timer found the calls; none without a timer.
    pub samples: Option<TimerSamples>,
    /// The answer.
    #[serde(flatten)]
    pub answer: DiveAnswer,
    /// Number of functions or paths that are not shown.
    #[serde(rename = "not_shown")]
    pub others: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Whether a recording was made from a trace of the kernel.
pub fn has_kernel_trace(meta: &Meta) -> bool {
    meta.files.iter().any(|file| file.kernel_trace.is_some())
}

/// Reads a trace of the kernel.
///
/// # Errors
/// The filter names a session or a period that is not there, or the view names a function or a call that is not.
pub fn dive(source: &Source, options: &DiveOptions) -> Result<DiveReport, ReportError> {
    let Read {
        paths,
        samples,
        period,
        mut dimensions,
        mut problems,
    } = read(source, &options.filter)?;
    let (calls, interrupts_ns, preemption_ns) = summary::calls(&paths);
    let layers = summary::layers(&paths);
    let mut others = 0;
    let mut functions = |by_own: bool| {
        let mut functions = paths.functions(by_own);
        others = functions.len().saturating_sub(options.top);
        functions.truncate(options.top);
        functions
    };
    let answer = match &options.view {
        DiveView::Summary => DiveAnswer::Summary(functions(true)),
        DiveView::Functions => DiveAnswer::Functions(functions(false)),
        DiveView::Tree => {
            let tree = paths.tree(options.top, options.depth);
            others = tree.others;
            DiveAnswer::Tree(tree)
        }
        DiveView::Children(name) => DiveAnswer::Children(
            paths
                .children(name)
                .ok_or_else(|| ReportError::NoSuchFunction(name.clone()))?,
        ),
        DiveView::Call(choice) => DiveAnswer::Call(one_call::one_call(
            source,
            choice,
            options,
            &mut dimensions,
            &mut problems,
        )?),
    };
    let trace = known(source.meta());
    Ok(DiveReport {
        samples: samples.answer(&trace, options.top, options.depth),
        meta: source.meta().clone(),
        filter: options.filter.clone(),
        period,
        trace,
        calls,
        interrupts_ns,
        preemption_ns,
        layers,
        answer,
        others,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// All rows of a trace.
struct Read {
    paths: Paths,
    samples: Samples,
    period: Period,
    dimensions: Dimensions,
    problems: Vec<Problem>,
}

fn read(source: &Source, filter: &Filter) -> Result<Read, ReportError> {
    let mut dimensions = load(source, filter)?;
    let mut paths = Paths::default();
    let mut samples = Samples::default();
    let mut seconds: Option<(i64, i64)> = None;
    let mut problems = Vec::new();
    let mut statements: BTreeMap<u64, u128> = BTreeMap::new();
    problems.extend(source.activity(|row| {
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        if !filter.takes_time(row.time) || !filter.takes_session(dimensions.session(row.session)) {
            return;
        }
        if !filter.statements.is_empty() {
            *statements.entry(row.statement).or_default() += u128::from(row.ns);
        }
        if filter.takes_statement(row.statement) {
            match row.fidelity {
                Fidelity::Exact => paths.add_own(row, &dimensions),
                Fidelity::Sampled => samples.add(row, &dimensions),
            }
        }
    }));
    check_statements(filter, &statements)?;
    problems.extend(source.latency(|row| {
        let is_chosen = filter.takes_time(row.time) && filter.takes_statement(row.statement);
        if is_chosen && filter.takes_session(dimensions.session(row.session)) {
            paths.add_durations(row, &dimensions);
        }
    }));
    let scan = finish(source.meta(), filter, seconds, problems);
    paths.add_up();
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scan.problems);
    Ok(Read {
        paths,
        samples,
        period: scan.period,
        dimensions,
        problems,
    })
}

/// What is known about all traces of a recording.
fn known(meta: &Meta) -> KernelTrace {
    let mut sum = KernelTrace::default();
    let mut tracers: Vec<&str> = Vec::new();
    for trace in meta.files.iter().filter_map(|file| file.kernel_trace.as_ref()) {
        if !tracers.contains(&trace.tracer.as_str()) {
            tracers.push(&trace.tracer);
        }
        sum.calls += trace.calls;
        sum.kept_calls += trace.kept_calls;
        sum.cut_calls += trace.cut_calls;
        sum.lost_events += trace.lost_events;
        sum.has_switches |= trace.has_switches;
        sum.sample_period_ns = sum.sample_period_ns.max(trace.sample_period_ns);
        sum.samples += trace.samples;
        sum.sampled_calls += trace.sampled_calls;
        sum.samples_elsewhere += trace.samples_elsewhere;
        sum.samples_missing += trace.samples_missing;
    }
    sum.tracer = tracers.join(", ");
    sum
}

/// The module of a function; empty for the kernel itself.
fn module_of(frame: &Frame) -> &str {
    match frame.module.trim_matches(['[', ']']) {
        "kernel" => "",
        module => module,
    }
}

/// A function as traces write it: `NAME`, or `NAME [MODULE]`.
pub(crate) fn named(function: &str, module: &str) -> String {
    match module {
        "" => function.to_string(),
        module => format!("{function} [{module}]"),
    }
}
