//! A trace of the kernel. Times in nanoseconds.

use serde::Serialize;

use super::MetaJson;
use crate::dive::{DiveAnswer, DiveReport, Durations, FunctionDurations, TimerSamples};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    meta: MetaJson<'a>,
    trace: &'a dbtime_model::recording::KernelTrace,
    calls: Vec<CallsJson<'a>>,
    interrupts_ns: u128,
    preemption_ns: u128,
    layers: Vec<LayerJson<'a>>,
    /// null: there was no timer.
    samples: Option<SamplesJson<'a>>,
    #[serde(flatten)]
    answer: AnswerJson<'a>,
    not_shown: usize,
    problems: &'a [String],
}

#[derive(Serialize)]
struct DurationsJson {
    count: u128,
    total_ns: u128,
    min_ns: Option<u64>,
    avg_ns: Option<u128>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: u64,
}

impl From<&Durations> for DurationsJson {
    fn from(of: &Durations) -> DurationsJson {
        DurationsJson {
            count: of.histogram.count(),
            total_ns: of.histogram.sum_ns(),
            min_ns: of.min_ns,
            avg_ns: of.histogram.mean_ns(),
            p50_ns: of.histogram.quantile(0.5),
            p99_ns: of.histogram.quantile(0.99),
            max_ns: of.histogram.max_ns(),
        }
    }
}

#[derive(Serialize)]
struct CallsJson<'a> {
    function: &'a str,
    #[serde(flatten)]
    durations: DurationsJson,
    states: std::collections::BTreeMap<&'static str, u128>,
}

#[derive(Serialize)]
struct LayerJson<'a> {
    layer: &'a str,
    state: &'static str,
    ns: u128,
}

/// What a timer found the calls at, in samples.
#[derive(Serialize)]
struct SamplesJson<'a> {
    period_ns: u64,
    own: u128,
    interrupts: u128,
    preemption: u128,
    tracing: u128,
    functions: Vec<SampledFunctionJson<'a>>,
    functions_not_shown: usize,
    intervals: Vec<SampledIntervalJson<'a>>,
    intervals_not_shown: usize,
    paths: Vec<SampledPathJson<'a>>,
    paths_not_shown: usize,
}

#[derive(Serialize)]
struct SampledFunctionJson<'a> {
    function: &'a str,
    module: &'a str,
    own: u128,
    total: u128,
}

#[derive(Serialize)]
struct SampledIntervalJson<'a> {
    interval: &'a str,
    samples: u128,
}

#[derive(Serialize)]
struct SampledPathJson<'a> {
    function: &'a str,
    module: &'a str,
    depth: usize,
    own: u128,
    total: u128,
}

fn samples(of: &TimerSamples) -> SamplesJson<'_> {
    SamplesJson {
        period_ns: of.period_ns,
        own: of.own,
        interrupts: of.interrupts,
        preemption: of.preemption,
        tracing: of.tracing,
        functions: of
            .functions
            .iter()
            .map(|of| SampledFunctionJson {
                function: &of.function,
                module: &of.module,
                own: of.own,
                total: of.total,
            })
            .collect(),
        functions_not_shown: of.other_functions,
        intervals: of
            .intervals
            .iter()
            .map(|of| SampledIntervalJson {
                interval: &of.interval,
                samples: of.samples,
            })
            .collect(),
        intervals_not_shown: of.other_intervals,
        paths: of
            .paths
            .iter()
            .map(|of| SampledPathJson {
                function: &of.function,
                module: &of.module,
                depth: of.depth,
                own: of.own,
                total: of.total,
            })
            .collect(),
        paths_not_shown: of.other_paths,
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnswerJson<'a> {
    Functions {
        functions: Vec<FunctionJson<'a>>,
    },
    Tree {
        tree: Vec<PathJson<'a>>,
    },
    Children {
        function: &'a str,
        #[serde(flatten)]
        durations: DurationsJson,
        own_ns: u128,
        off_ns: u128,
        children: Vec<ChildJson<'a>>,
    },
    Call {
        call: u64,
        pid: u32,
        task: &'a str,
        ns: u64,
        spans: Vec<SpanJson<'a>>,
    },
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    function: &'a str,
    module: &'a str,
    own_ns: u128,
    off_ns: u128,
    /// From outermost calls to their returns: recursion counts once.
    inclusive_ns: u128,
    #[serde(flatten)]
    durations: DurationsJson,
}

#[derive(Serialize)]
struct PathJson<'a> {
    function: &'a str,
    module: &'a str,
    depth: usize,
    own_ns: u128,
    off_ns: u128,
    inclusive_ns: u128,
    hidden_ns: u128,
    #[serde(flatten)]
    durations: DurationsJson,
}

#[derive(Serialize)]
struct ChildJson<'a> {
    function: &'a str,
    module: &'a str,
    #[serde(flatten)]
    durations: DurationsJson,
}

#[derive(Serialize)]
struct SpanJson<'a> {
    function: &'a str,
    module: &'a str,
    depth: u32,
    from_ns: i64,
    ns: u64,
    /// Off CPU in this state.
    off: Option<&'static str>,
    /// A moment at which a timer found the task in this function.
    sample: bool,
    /// Of an interrupt, or preemption; of a sample, or the tracer.
    foreign: bool,
}

fn functions(functions: &[FunctionDurations]) -> Vec<FunctionJson<'_>> {
    functions
        .iter()
        .map(|of| FunctionJson {
            function: &of.function,
            module: &of.module,
            own_ns: of.own_ns,
            off_ns: of.off_ns,
            inclusive_ns: of.total_ns,
            durations: (&of.durations).into(),
        })
        .collect()
}

pub(super) fn document(report: &DiveReport) -> Document<'_> {
    Document {
        meta: MetaJson::from(&report.meta),
        trace: &report.trace,
        calls: report
            .calls
            .iter()
            .map(|call| CallsJson {
                function: &call.function,
                durations: (&call.durations).into(),
                states: call
                    .states
                    .iter()
                    .map(|(state, ns)| (state.as_str(), *ns))
                    .collect(),
            })
            .collect(),
        interrupts_ns: report.interrupts_ns,
        preemption_ns: report.preemption_ns,
        layers: report
            .layers
            .iter()
            .map(|part| LayerJson {
                layer: &part.layer,
                state: part.state.as_str(),
                ns: part.ns,
            })
            .collect(),
        samples: report.samples.as_ref().map(samples),
        answer: match &report.answer {
            DiveAnswer::Summary(of) | DiveAnswer::Functions(of) => AnswerJson::Functions {
                functions: functions(of),
            },
            DiveAnswer::Tree(tree) => AnswerJson::Tree {
                tree: tree
                    .paths
                    .iter()
                    .map(|path| PathJson {
                        function: &path.function,
                        module: &path.module,
                        depth: path.depth,
                        own_ns: path.own_ns,
                        off_ns: path.off_ns,
                        inclusive_ns: path.total_ns,
                        hidden_ns: path.hidden_ns,
                        durations: (&path.durations).into(),
                    })
                    .collect(),
            },
            DiveAnswer::Children(of) => AnswerJson::Children {
                function: &of.function,
                durations: (&of.durations).into(),
                own_ns: of.own_ns,
                off_ns: of.off_ns,
                children: of
                    .children
                    .iter()
                    .map(|child| ChildJson {
                        function: &child.function,
                        module: &child.module,
                        durations: (&child.durations).into(),
                    })
                    .collect(),
            },
            DiveAnswer::Call(call) => AnswerJson::Call {
                call: call.number,
                pid: call.pid,
                task: &call.task,
                ns: call.ns,
                spans: call
                    .spans
                    .iter()
                    .map(|span| SpanJson {
                        function: &span.function,
                        module: &span.module,
                        depth: span.depth,
                        from_ns: span.from_ns,
                        ns: span.ns,
                        off: span.off.map(|state| state.as_str()),
                        sample: span.is_sample,
                        foreign: span.is_foreign,
                    })
                    .collect(),
            },
        },
        not_shown: report.others,
        problems: &report.problems,
    }
}
