//! The call tree: every call path with its own time and that of all it called.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use serde::Serialize;

use super::CallPaths;
use crate::function::{Function, FunctionId, Functions};
use crate::sums::percent;

/// A call path: a function under its callers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTreeNode {
    /// The function.
    #[serde(flatten)]
    pub function: Function,
    /// Callers above it; 0 = a root.
    pub depth: usize,
    /// Nanoseconds here and in all that was called from here.
    pub total_ns: u128,
    /// Nanoseconds here.
    pub self_ns: u128,
    /// `total_ns` as a part of everything, in percent.
    pub total_percent: f64,
    /// `self_ns` as a part of everything, in percent.
    pub self_percent: f64,
    /// Samples of `total_ns`.
    pub samples: u128,
    /// Nanoseconds of callees that are not shown.
    pub hidden_ns: u128,
}

/// Call paths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallTree {
    /// Every caller before its callees, the hottest of these first.
    #[serde(rename = "tree")]
    pub nodes: Vec<CallTreeNode>,
    /// Call paths that are not shown.
    #[serde(rename = "other_call_paths")]
    pub others: usize,
    /// Roots that are not shown, nanoseconds.
    #[serde(skip)]
    pub hidden_roots_ns: u128,
}

/// A call path whose time is known.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    total_ns: u128,
    self_ns: u128,
    samples: u128,
    function: FunctionId,
    /// Callers above it and itself; the root of all is level 0.
    depth: usize,
    /// Numbered in the order in which they begin; 0 = the root of all.
    number: usize,
    caller: usize,
}

/// The colder of two is the larger one. A callee is never hotter than its caller, because equal times are ordered by depth.
struct Coldness<'a>(Node, &'a Functions);

impl Ord for Coldness<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |node: &Node| (Reverse(node.total_ns), node.depth);
        let name = |node: &Self| node.1.get(node.0.function);
        key(&self.0)
            .cmp(&key(&other.0))
            .then_with(|| name(self).cmp(name(other)))
            .then_with(|| self.0.number.cmp(&other.0.number))
    }
}

impl PartialOrd for Coldness<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Coldness<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Coldness<'_> {}

/// Adds children into their parents, and shows the `top` hottest call paths down to `depth` levels. A caller is at least as hot as
/// its hottest callee, so what is shown is a tree.
///
/// Paths are visited in sorted order, so that only those of one stack are open at a time, and only the hottest are kept: millions
/// of call paths need no memory.
pub(super) fn add_up(paths: &CallPaths, top: usize, depth: Option<usize>) -> CallTree {
    let mut order: Vec<usize> = (0..paths.paths.len()).collect();
    order.sort_unstable_by(|one, other| paths.paths[*one].0.cmp(&paths.paths[*other].0));
    let mut hottest = BinaryHeap::new();
    let mut close = |node: Node| {
        if depth.is_some_and(|depth| node.depth > depth) {
            return;
        }
        hottest.push(Coldness(node, &paths.functions));
        if hottest.len() > top {
            hottest.pop();
        }
    };
    let mut count = 0;
    let (mut all_ns, mut without_functions_ns) = (0, 0);
    let mut open: Vec<Node> = Vec::new();
    // A callee that is closed adds to its caller, if it has one.
    let mut close_below = |open: &mut Vec<Node>, depth: usize| {
        while open.len() > depth {
            let Some(node) = open.pop() else { return };
            if let Some(caller) = open.last_mut() {
                caller.total_ns += node.total_ns;
                caller.samples += node.samples;
            }
            close(node);
        }
    };
    for index in order {
        let (path, _, sums) = &paths.paths[index];
        let shared = open
            .iter()
            .zip(path)
            .take_while(|(node, id)| node.function == **id)
            .count();
        close_below(&mut open, shared);
        for id in &path[shared..] {
            count += 1;
            open.push(Node {
                total_ns: 0,
                self_ns: 0,
                samples: 0,
                function: *id,
                depth: open.len() + 1,
                number: count,
                caller: open.last().map_or(0, |caller| caller.number),
            });
        }
        all_ns += sums.total_ns();
        match open.last_mut() {
            Some(node) => {
                node.total_ns += sums.total_ns();
                node.self_ns += sums.total_ns();
                node.samples += sums.samples;
            }
            None => without_functions_ns += sums.total_ns(),
        }
    }
    close_below(&mut open, 0);
    let shown: Vec<Node> = hottest.into_iter().map(|Coldness(node, _)| node).collect();
    shown_tree(shown, &paths.functions, count, all_ns, without_functions_ns)
}

fn shown_tree(
    shown: Vec<Node>,
    functions: &Functions,
    count: usize,
    all_ns: u128,
    without_functions_ns: u128,
) -> CallTree {
    let others = count - shown.len();
    let mut callees: HashMap<usize, Vec<Node>> = HashMap::new();
    for node in shown {
        callees.entry(node.caller).or_default().push(node);
    }
    // The callees of a node, the next one to be shown last; and their time.
    let mut of = |number: usize| {
        let mut callees = callees.remove(&number).unwrap_or_default();
        callees.sort_unstable_by(|one, other| {
            let name = |node: &Node| functions.get(node.function);
            (one.total_ns, name(other)).cmp(&(other.total_ns, name(one)))
        });
        let ns: u128 = callees.iter().map(|node| node.total_ns).sum();
        (callees, ns)
    };
    // Depth first; the stack holds what is still to be shown.
    let (mut open, roots_ns) = of(0);
    let mut tree = CallTree {
        nodes: Vec::new(),
        others,
        hidden_roots_ns: all_ns - without_functions_ns - roots_ns,
    };
    while let Some(node) = open.pop() {
        let (callees, shown_ns) = of(node.number);
        tree.nodes.push(CallTreeNode {
            function: functions.get(node.function).clone(),
            depth: node.depth - 1,
            total_ns: node.total_ns,
            self_ns: node.self_ns,
            total_percent: percent(node.total_ns, all_ns).unwrap_or(0.0),
            self_percent: percent(node.self_ns, all_ns).unwrap_or(0.0),
            samples: node.samples,
            hidden_ns: node.total_ns - node.self_ns - shown_ns,
        });
        open.extend(callees);
    }
    tree
}
