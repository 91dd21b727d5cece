//! Two traces of the kernel: functions that only one of them calls, and where a call takes longer.
//!
//! Everything is per call, so that traces of different lengths can be compared. Which functions run is exact; how long
//! they take varies from call to call, so a difference of times is shown with the number of calls behind it, and not
//! called significant. Interrupts and preemption are not the work of a call and are left out.

use std::collections::BTreeMap;

use dbtime_model::recording::KernelTrace;
use serde::Serialize;

use super::paths::Paths;
use super::{known, named, read};
use crate::filter::Filter;
use crate::load::Source;
use crate::report::ReportError;

/// One of the two traces.
#[derive(Debug, Clone, PartialEq)]
pub struct DiveSide {
    /// File or recording.
    pub target: String,
    /// What is known about the trace as a whole.
    pub trace: KernelTrace,
    /// Mean duration of a call without interrupts and preemption, nanoseconds.
    pub call_ns: f64,
}

/// A function, or a call path, in both. Numbers are per call: GOOD, then BAD.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiveChange {
    /// The function, preceded by its callers if it is a path.
    pub path: Vec<String>,
    /// How often it was called.
    pub calls: [f64; 2],
    /// Own time, on a CPU or off it, nanoseconds.
    pub own_ns: [f64; 2],
    /// Including callees, nanoseconds.
    pub total_ns: [f64; 2],
}

impl DiveChange {
    /// How much more own time it takes in BAD, nanoseconds per call.
    pub fn own_more_ns(&self) -> f64 {
        self.own_ns[1] - self.own_ns[0]
    }
}

/// What differs.
#[derive(Debug, Clone, PartialEq)]
pub struct DiveDiff {
    /// GOOD, then BAD.
    pub sides: [DiveSide; 2],
    /// Functions that only this side calls, most own time first.
    pub only: [Vec<DiveChange>; 2],
    /// How many of these are not shown.
    pub only_others: [usize; 2],
    /// Functions that both call, largest difference of own time first.
    pub functions: Vec<DiveChange>,
    /// Call paths, largest difference of own time first.
    pub paths: Vec<DiveChange>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Compares two traces of the kernel.
///
/// # Errors
/// A filter names a session or a period that is not there; a side has no call.
pub fn dive_diff(
    good: (&Source, &Filter),
    bad: (&Source, &Filter),
    top: usize,
) -> Result<DiveDiff, ReportError> {
    let mut sums = Vec::with_capacity(2);
    let mut sides = Vec::with_capacity(2);
    let mut problems = Vec::new();
    for (source, filter) in [good, bad] {
        let read = read(source, filter)?;
        problems.extend(read.problems.iter().map(|problem| problem.0.clone()));
        let trace = known(source.meta());
        if trace.calls == 0 {
            return Err(ReportError::NoSuchCall(0));
        }
        let calls = trace.calls as f64;
        let all: u128 = read.paths.call_roots().map(|root| root.total_ns).sum();
        sides.push(DiveSide {
            target: source.meta().database.target.clone(),
            call_ns: all as f64 / calls,
            trace,
        });
        sums.push((functions(&read.paths, calls), paths(&read.paths, calls)));
    }
    let Ok([good, bad]) = <[DiveSide; 2]>::try_from(sides) else {
        // Cannot happen: two were pushed.
        return Err(ReportError::NoSuchCall(0));
    };
    let mut functions = Vec::new();
    let mut only = [Vec::new(), Vec::new()];
    for (is_in, change) in merged([&sums[0].0, &sums[1].0]) {
        match is_in {
            [true, false] => only[0].push(change),
            [false, true] => only[1].push(change),
            _ => functions.push(change),
        }
    }
    let paths = merged([&sums[0].1, &sums[1].1]);
    let mut paths: Vec<DiveChange> = paths.map(|(_, change)| change).collect();
    let by_difference = |changes: &mut Vec<DiveChange>| {
        changes.sort_by(|one, other| other.own_more_ns().abs().total_cmp(&one.own_more_ns().abs()));
        let shown = changes.len().min(top);
        changes.split_off(shown).len()
    };
    by_difference(&mut functions);
    by_difference(&mut paths);
    let only_others = only.each_mut().map(by_difference);
    Ok(DiveDiff {
        sides: [good, bad],
        only,
        only_others,
        functions,
        paths,
        problems,
    })
}

/// Per call: how often, own time, total.
type Sums = BTreeMap<Vec<String>, [f64; 3]>;

fn functions(paths: &Paths, calls: f64) -> Sums {
    let per_call = |value: u128| value as f64 / calls;
    paths
        .functions_of_calls()
        .into_iter()
        .map(|of| {
            let name = named(&of.function, &of.module);
            let count = of.durations.histogram.count();
            (
                vec![name],
                [count, of.own_ns + of.off_ns, of.total_ns].map(per_call),
            )
        })
        .collect()
}

fn paths(paths: &Paths, calls: f64) -> Sums {
    let per_call = |value: u128| value as f64 / calls;
    paths
        .each_of_calls()
        .map(|(names, node)| {
            let count = node.durations.histogram.count();
            (names, [count, node.own.iter().sum(), node.total_ns].map(per_call))
        })
        .collect()
}

/// Everything on either side, and on which of them. A function only known from stacks is included without a counted call.
fn merged(sides: [&Sums; 2]) -> impl Iterator<Item = ([bool; 2], DiveChange)> {
    let mut changes: BTreeMap<&Vec<String>, [Option<[f64; 3]>; 2]> = BTreeMap::new();
    for (side, sums) in sides.into_iter().enumerate() {
        for (path, numbers) in sums {
            changes.entry(path).or_default()[side] = Some(*numbers);
        }
    }
    changes.into_iter().map(|(path, sides)| {
        let of = |number: usize| sides.map(|side| side.map_or(0.0, |numbers| numbers[number]));
        let change = DiveChange {
            path: path.clone(),
            calls: of(0),
            own_ns: of(1),
            total_ns: of(2),
        };
        (sides.map(|side| side.is_some()), change)
    })
}
