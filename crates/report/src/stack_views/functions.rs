//! Every function, wherever it was called from.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::{CallPaths, Sort};
use crate::function::{Function, FunctionId, Functions};
use crate::sums::percent;

/// Time of one function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionTime {
    /// The function.
    #[serde(flatten)]
    pub function: Function,
    /// Nanoseconds in it, including those without a CPU after it was preempted.
    pub self_ns: u128,
    /// Nanoseconds in it and in all that it called; counted once, however often it is on a stack.
    pub total_ns: u128,
    /// `self_ns` as a part of everything, in percent.
    pub self_percent: f64,
    /// `total_ns` as a part of everything, in percent.
    pub total_percent: f64,
    /// Samples of `total_ns`.
    pub samples: u128,
}

/// Functions, by the time in them or by [`Sort::Total`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionTimes {
    /// Those with the most of it first.
    pub functions: Vec<FunctionTime>,
    /// Part of everything that is spent in code without a name, in percent.
    #[serde(skip)]
    pub without_name_percent: f64,
    /// Functions that are not among them.
    #[serde(rename = "other_functions")]
    pub others: usize,
    /// Their time in themselves, nanoseconds.
    #[serde(rename = "other_functions_self_ns")]
    pub others_self_ns: u128,
}

/// A function; code without a name is distinguished by the nearest function above it that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionKey {
    function: FunctionId,
    below: Option<FunctionId>,
}

impl FunctionKey {
    /// Its name.
    pub(crate) fn name(self, functions: &Functions) -> Function {
        let function = functions.get(self.function).clone();
        match self.below {
            Some(caller) => Function {
                name: format!("{} below {}", function.name, functions.get(caller).name),
                ..function
            },
            None => function,
        }
    }
}

/// The functions of a call path, distinguished in this way.
pub(crate) fn function_keys(path: &[FunctionId], functions: &Functions) -> Vec<FunctionKey> {
    let mut caller = None;
    path.iter()
        .map(|id| {
            let function = functions.get(*id);
            if function.is_named() {
                caller = Some(*id);
            }
            FunctionKey {
                function: *id,
                below: caller.filter(|_| function.is_code_without_name()),
            }
        })
        .collect()
}

/// Adds up by function, and shows the `top` hottest.
pub(super) fn add_up(paths: &CallPaths, top: usize, sort: Sort) -> FunctionTimes {
    #[derive(Default)]
    struct Times {
        self_ns: u128,
        total_ns: u128,
        samples: u128,
    }
    let mut times: HashMap<FunctionKey, Times> = HashMap::new();
    let mut all_ns = 0;
    for (path, _, sums) in &paths.paths {
        all_ns += sums.total_ns();
        let mut path = function_keys(path, &paths.functions);
        // The time without a CPU is that of the function that was interrupted.
        let is_work = |key: &&FunctionKey| !paths.functions.get(key.function).is_preemption();
        if let Some(leaf) = path.iter().rev().find(is_work).or(path.last()) {
            times.entry(*leaf).or_default().self_ns += sums.total_ns();
        }
        path.sort_unstable();
        path.dedup();
        for key in path {
            let times = times.entry(key).or_default();
            times.total_ns += sums.total_ns();
            times.samples += sums.samples;
        }
    }
    let mut functions: Vec<FunctionTime> = times
        .into_iter()
        .map(|(key, times)| FunctionTime {
            function: key.name(&paths.functions),
            self_ns: times.self_ns,
            total_ns: times.total_ns,
            self_percent: percent(times.self_ns, all_ns).unwrap_or(0.0),
            total_percent: percent(times.total_ns, all_ns).unwrap_or(0.0),
            samples: times.samples,
        })
        .collect();
    functions.sort_unstable_by(|one, other| {
        let key = |time: &FunctionTime| match sort {
            Sort::Own => (Reverse(time.self_ns), Reverse(time.total_ns)),
            Sort::Total => (Reverse(time.total_ns), Reverse(time.self_ns)),
        };
        key(one)
            .cmp(&key(other))
            .then_with(|| one.function.cmp(&other.function))
    });
    let without_name: u128 = functions
        .iter()
        .filter(|time| time.function.is_code_without_name())
        .map(|time| time.self_ns)
        .sum();
    let rest = functions.split_off(top.min(functions.len()));
    FunctionTimes {
        without_name_percent: percent(without_name, all_ns).unwrap_or(0.0),
        functions,
        others: rest.len(),
        others_self_ns: rest.iter().map(|time| time.self_ns).sum(),
    }
}
