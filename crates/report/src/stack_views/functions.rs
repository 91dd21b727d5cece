//! Every function, wherever it was called from.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::CallPaths;
use crate::function::{Function, FunctionId};
use crate::sums::percent;

/// Time of one function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTime {
    /// Which one.
    pub function: Function,
    /// Nanoseconds in it.
    pub self_ns: u128,
    /// Nanoseconds in it and in all that it called; once, however often it is on a stack.
    pub total_ns: u128,
    /// `self_ns` as a part of everything, in percent.
    pub self_percent: f64,
    /// `total_ns` as a part of everything, in percent.
    pub total_percent: f64,
    /// Samples of `total_ns`.
    pub samples: u128,
}

/// Functions, by the time in them.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTimes {
    /// Those with the most time in themselves first.
    pub functions: Vec<FunctionTime>,
    /// Functions that are not among them.
    pub others: usize,
    /// Time in themselves of those, nanoseconds.
    pub others_self_ns: u128,
}

/// Adds up by function, and shows the `top` hottest.
pub(super) fn add_up(paths: &CallPaths, top: usize) -> FunctionTimes {
    #[derive(Default)]
    struct Times {
        self_ns: u128,
        total_ns: u128,
        samples: u128,
    }
    let mut times: HashMap<FunctionId, Times> = HashMap::new();
    let mut all_ns = 0;
    for (path, _, sums) in &paths.paths {
        all_ns += sums.total_ns();
        if let Some(leaf) = path.last() {
            times.entry(*leaf).or_default().self_ns += sums.total_ns();
        }
        let mut once = path.clone();
        once.sort_unstable();
        once.dedup();
        for id in once {
            let times = times.entry(id).or_default();
            times.total_ns += sums.total_ns();
            times.samples += sums.samples;
        }
    }
    let mut functions: Vec<FunctionTime> = times
        .into_iter()
        .map(|(id, times)| FunctionTime {
            function: paths.functions.get(id).clone(),
            self_ns: times.self_ns,
            total_ns: times.total_ns,
            self_percent: percent(times.self_ns, all_ns).unwrap_or(0.0),
            total_percent: percent(times.total_ns, all_ns).unwrap_or(0.0),
            samples: times.samples,
        })
        .collect();
    functions.sort_unstable_by(|one, other| {
        let key = |time: &FunctionTime| (Reverse(time.self_ns), Reverse(time.total_ns));
        key(one)
            .cmp(&key(other))
            .then_with(|| one.function.cmp(&other.function))
    });
    let rest = functions.split_off(top.min(functions.len()));
    FunctionTimes {
        functions,
        others: rest.len(),
        others_self_ns: rest.iter().map(|time| time.self_ns).sum(),
    }
}
