//! Timer samples of the kernel stack inside calls: where the task was between two tracepoints. They have no length: samples
//! are counted, and their shares approximate those of CPU time, the better the more there are.

use std::collections::BTreeMap;

use dbtime_model::recording::KernelTrace;
use dbtime_model::{ActivityRow, Frame};
use serde::Serialize;

use super::paths::Paths;
use crate::dimensions::Dimensions;
use crate::kernel_layers::{INTERRUPT_ROOT, PREEMPTION_ROOT, TRACING_ROOT, is_foreign_root};

/// Separates the names of two tracepoints.
const INTERVAL: &str = " → ";

/// Where a timer found the calls, in samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimerSamples {
    /// CPU time of the task between samples, nanoseconds.
    pub period_ns: u64,
    /// In the calls' own work.
    pub own: u128,
    /// In interrupts that hit them.
    pub interrupts: u128,
    /// In preemption.
    pub preemption: u128,
    /// In the tracer while it recorded a tracepoint.
    pub tracing: u128,
    /// The calls' own work by function, most own samples first.
    pub functions: Vec<SampledFunction>,
    /// Functions that are not shown.
    #[serde(rename = "functions_not_shown")]
    pub other_functions: usize,
    /// The calls' own work by the two tracepoints around it, largest first.
    pub intervals: Vec<SampledInterval>,
    /// Intervals that are not shown.
    #[serde(rename = "intervals_not_shown")]
    pub other_intervals: usize,
    /// By call path, callers before callees, most samples first.
    pub paths: Vec<SampledPath>,
    /// Call paths that are not shown.
    #[serde(rename = "paths_not_shown")]
    pub other_paths: usize,
}

/// A function, by any caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampledFunction {
    /// Its name.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// Samples in the function itself.
    pub own: u128,
    /// Samples in it and in what it called: recursion counts once.
    pub total: u128,
}

/// The interval between two tracepoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampledInterval {
    /// The names of both.
    pub interval: String,
    /// Samples.
    pub samples: u128,
}

/// A function under its callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SampledPath {
    /// Its name.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// Callers above it.
    pub depth: usize,
    /// Samples in the function itself.
    pub own: u128,
    /// Samples in it and in what it called there.
    pub total: u128,
}

/// All samples of a trace.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// The amounts are samples.
    paths: Paths,
    intervals: BTreeMap<String, u128>,
}

impl Samples {
    pub(super) fn add(&mut self, row: &ActivityRow, dimensions: &Dimensions) {
        let frames = dimensions.stack(row.kernel_stack).unwrap_or(&[]);
        let (functions, interval) = without_interval(frames);
        self.paths.add_amount(functions, row.samples);
        if !functions
            .first()
            .is_some_and(|root| is_foreign_root(&root.symbol))
        {
            let interval = interval.map_or("", |interval| &interval.symbol);
            *self.intervals.entry(interval.to_string()).or_default() += u128::from(row.samples);
        }
    }

    /// The `top` of each kind; none if the trace had no timer.
    pub(super) fn answer(
        mut self,
        trace: &KernelTrace,
        top: usize,
        depth: Option<usize>,
    ) -> Option<TimerSamples> {
        if trace.sample_period_ns == 0 {
            return None;
        }
        self.paths.add_up();
        let mut functions: Vec<SampledFunction> = self
            .paths
            .functions_of_calls()
            .into_iter()
            .map(|of| SampledFunction {
                function: of.function,
                module: of.module,
                own: of.own_ns,
                total: of.total_ns,
            })
            .collect();
        functions.sort_by_key(|of| std::cmp::Reverse((of.own, of.total)));
        let mut intervals: Vec<SampledInterval> = self
            .intervals
            .into_iter()
            .map(|(interval, samples)| SampledInterval { interval, samples })
            .collect();
        intervals.sort_by_key(|of| std::cmp::Reverse(of.samples));
        let tree = self.paths.tree(top, depth);
        let paths = tree.paths.into_iter().map(|of| SampledPath {
            function: of.function,
            module: of.module,
            depth: of.depth,
            own: of.own_ns,
            total: of.total_ns,
        });
        let (other_functions, other_intervals) = (
            functions.len().saturating_sub(top),
            intervals.len().saturating_sub(top),
        );
        functions.truncate(top);
        intervals.truncate(top);
        Some(TimerSamples {
            period_ns: trace.sample_period_ns,
            own: self.paths.call_roots().map(|root| root.total_ns).sum(),
            interrupts: self.paths.foreign_ns(INTERRUPT_ROOT),
            preemption: self.paths.foreign_ns(PREEMPTION_ROOT),
            tracing: self.paths.foreign_ns(TRACING_ROOT),
            functions,
            other_functions,
            intervals,
            other_intervals,
            paths: paths.collect(),
            other_paths: tree.others,
        })
    }
}

/// The functions of a sample, and the interval that it was in: the leaf of its stack.
pub(super) fn without_interval<F: AsRef<Frame>>(frames: &[F]) -> (&[F], Option<&Frame>) {
    match frames.split_last() {
        Some((leaf, functions)) if leaf.as_ref().symbol.contains(INTERVAL) => {
            (functions, Some(leaf.as_ref()))
        }
        _ => (frames, None),
    }
}
