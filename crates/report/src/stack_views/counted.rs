//! The classic view: equal stacks counted.

use std::collections::HashMap;

use serde::Serialize;

use super::CallPaths;
use crate::function::{Function, FunctionId};
use crate::sums::percent;

/// Time of equal stacks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedStack {
    /// Root first, offsets stripped.
    pub functions: Vec<Function>,
    /// Functions nearer to the root were cut off.
    pub cut: bool,
    /// Nanoseconds.
    pub ns: u128,
    /// Part of all stacks in percent.
    pub percent: f64,
    /// Samples.
    pub samples: u128,
}

/// The hottest stacks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountedStacks {
    /// The hottest last.
    pub stacks: Vec<CountedStack>,
    /// Distinct stacks that are not among them.
    #[serde(rename = "other_stacks")]
    pub others: usize,
    /// Their time in nanoseconds.
    #[serde(rename = "other_stacks_ns")]
    pub others_ns: u128,
}

/// Counts equal stacks, after cutting off all but the `depth` functions at the leaf.
pub(super) fn count(paths: &CallPaths, top: usize, depth: Option<usize>) -> CountedStacks {
    let mut equal: HashMap<(&[FunctionId], bool), (u128, u128)> = HashMap::new();
    let mut total_ns = 0;
    for (path, _, sums) in &paths.paths {
        let from = path.len().saturating_sub(depth.unwrap_or(usize::MAX));
        let (ns, samples) = equal.entry((&path[from..], from > 0)).or_default();
        *ns += sums.total_ns();
        *samples += sums.samples;
        total_ns += sums.total_ns();
    }
    let mut stacks: Vec<CountedStack> = equal
        .into_iter()
        .map(|((path, cut), (ns, samples))| CountedStack {
            functions: path.iter().map(|id| paths.functions.get(*id).clone()).collect(),
            cut,
            ns,
            percent: percent(ns, total_ns).unwrap_or(0.0),
            samples,
        })
        .collect();
    stacks.sort_unstable_by(|one, other| {
        (one.ns, &other.functions, one.cut).cmp(&(other.ns, &one.functions, other.cut))
    });
    let hottest = stacks.split_off(stacks.len().saturating_sub(top));
    CountedStacks {
        others: stacks.len(),
        others_ns: stacks.iter().map(|stack| stack.ns).sum(),
        stacks: hottest,
    }
}
