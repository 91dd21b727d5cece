//! A dive as one page: the tree of all calls merged, and functions, as far as there is room.

use std::collections::HashMap;

use super::MOST_NAMES;
use super::difference::bound;
use crate::dive::{
    DiveAnswer, DiveOptions, DiveReport, DiveView, FunctionDurations, PathDurations, TimerSamples, dive,
    named,
};
use crate::filter::Filter;
use crate::function::Function;
use crate::kernel_layers::is_call_root;
use crate::load::Source;
use crate::report::ReportError;

/// Most call paths, and functions: those with the most time.
const MOST_ROWS: usize = 100_000;

/// Everything on a page about a dive.
#[derive(Debug)]
pub struct DivePage {
    /// What the report says about the trace as a whole.
    pub(super) report: DiveReport,
    /// Names of rows, each once.
    pub(super) names: Vec<Function>,
    /// Callers before callees, each with the number of its name.
    pub(super) paths: Vec<(u32, PathDurations)>,
    /// Functions, each with the number of its name.
    pub(super) functions: Vec<(u32, FunctionDurations)>,
    /// Time of all calls: 100 % of all shares.
    pub(super) calls_ns: u128,
    /// Call paths, functions and others without room.
    pub(super) left_out: LeftOut,
}

/// Number of rows without room.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) paths: usize,
    pub(super) functions: usize,
    /// Functions and intervals of timer samples, and kinds of calls.
    pub(super) others: usize,
}

impl DivePage {
    /// Whether nothing was traced.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// What could not be read.
    pub fn problems(&self) -> &[String] {
        &self.report.problems
    }
}

/// What a page shows of a trace of the kernel.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn dive_page(source: &Source, filter: &Filter) -> Result<DivePage, ReportError> {
    let ask = |view: DiveView| {
        let options = DiveOptions {
            filter: filter.clone(),
            view,
            top: MOST_ROWS,
            depth: None,
        };
        dive(source, &options)
    };
    let mut left_out = LeftOut::default();
    let mut names = Names::default();

    let of_functions = ask(DiveView::Functions)?;
    left_out.functions = of_functions.others;
    let mut functions = Vec::new();
    if let DiveAnswer::Functions(all) = of_functions.answer {
        // Those with the most time come first, so that there is room for their names.
        for function in all {
            match names.number(&function.function, &function.module) {
                Some(name) => functions.push((name, function)),
                None => left_out.functions += 1,
            }
        }
    }

    let mut report = ask(DiveView::Tree)?;
    left_out.paths = report.others;
    let answer = std::mem::replace(&mut report.answer, DiveAnswer::Summary(Vec::new()));
    let all = match answer {
        DiveAnswer::Tree(tree) => tree.paths,
        _ => Vec::new(),
    };
    let is_call = |path: &&PathDurations| path.depth == 0 && is_call_root(&path.function);
    let calls_ns = all.iter().filter(is_call).map(|path| path.total_ns).sum();
    let (paths, without_room) = with_names(all, &mut names);
    left_out.paths += without_room;

    left_out.others = bound(&mut report.calls, |call| call.function.len());
    if let Some(samples) = &mut report.samples {
        left_out.others += bound_samples(samples);
    }
    Ok(DivePage {
        report,
        names: names.list,
        paths,
        functions,
        calls_ns,
        left_out,
    })
}

/// Call paths with the numbers of their names, except those whose names or nodes do not fit, and everything below these.
fn with_names(all: Vec<PathDurations>, names: &mut Names) -> (Vec<(u32, PathDurations)>, usize) {
    let mut paths: Vec<(u32, PathDurations)> = Vec::new();
    // Indices of the path above and its callers.
    let mut above: Vec<usize> = Vec::new();
    let mut left_out = 0;
    let mut left_out_below = usize::MAX;
    for path in all {
        if path.depth > left_out_below {
            left_out += 1;
            continue;
        }
        left_out_below = usize::MAX;
        above.truncate(path.depth);
        let name = names.number(&path.function, &path.module);
        // Callers that are only shown for their callees make the tree larger than requested.
        match name.filter(|_| paths.len() < MOST_ROWS) {
            Some(name) => {
                above.push(paths.len());
                paths.push((name, path));
            }
            None => {
                left_out += 1;
                left_out_below = path.depth;
                if let Some(caller) = above.last() {
                    paths[*caller].1.hidden_ns += path.total_ns;
                }
            }
        }
    }
    (paths, left_out)
}

/// Keeps the functions and intervals with the most samples. Their call paths are not on the page.
fn bound_samples(samples: &mut TimerSamples) -> usize {
    samples.paths.clear();
    let functions = bound(&mut samples.functions, |of| of.function.len() + of.module.len());
    samples.other_functions += functions;
    let intervals = bound(&mut samples.intervals, |of| of.interval.len());
    samples.other_intervals += intervals;
    samples.other_functions + samples.other_intervals
}

/// Numbered names, as many as there is room for.
#[derive(Default)]
struct Names {
    numbers: HashMap<String, u32>,
    list: Vec<Function>,
    bytes: usize,
}

impl Names {
    fn number(&mut self, function: &str, module: &str) -> Option<u32> {
        let name = named(function, module);
        if let Some(number) = self.numbers.get(&name) {
            return Some(*number);
        }
        if self.bytes + name.len() > MOST_NAMES {
            return None;
        }
        self.bytes += name.len();
        self.list.push(Function {
            name: function.to_string(),
            module: module.to_string(),
            kernel: true,
        });
        let number = (self.list.len() - 1) as u32;
        self.numbers.insert(name, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dive::Durations;

    fn path(function: &str, depth: usize, total_ns: u128) -> PathDurations {
        PathDurations {
            function: function.to_string(),
            module: String::new(),
            depth,
            own_ns: 0,
            off_ns: 0,
            total_ns,
            hidden_ns: 0,
            durations: Durations::default(),
        }
    }

    #[test]
    fn what_has_no_room_for_its_name_goes_with_all_below_it() {
        let long = "x".repeat(MOST_NAMES);
        let tree = vec![
            path("call", 0, 10),
            path(&long, 1, 6),
            path("read", 2, 5),
            path("lock", 1, 4),
            path("spin", 2, 3),
        ];
        let mut names = Names::default();
        let (paths, left_out) = with_names(tree, &mut names);
        let shown: Vec<&str> = paths.iter().map(|(_, path)| path.function.as_str()).collect();
        assert_eq!((shown, left_out), (vec!["call", "lock", "spin"], 2));
        assert_eq!(paths[0].1.hidden_ns, 6);
    }

    #[test]
    fn a_tree_is_cut_after_so_many_paths() {
        let tree = (0..MOST_ROWS + 3).map(|_| path("call", 0, 1)).collect();
        let (paths, left_out) = with_names(tree, &mut Names::default());
        assert_eq!((paths.len(), left_out), (MOST_ROWS, 3));
    }
}
