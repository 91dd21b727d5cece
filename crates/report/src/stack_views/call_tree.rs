//! The call tree: every call path with the time of itself and of all that it called.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::CallPaths;
use crate::function::{Function, FunctionId};
use crate::sums::percent;

/// A call path: a function under its callers.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTreeNode {
    /// The function.
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
#[derive(Debug, Clone, PartialEq)]
pub struct CallTree {
    /// Every caller before its callees, the hottest of these first.
    pub nodes: Vec<CallTreeNode>,
    /// Call paths that are not shown.
    pub others: usize,
    /// Roots that are not shown, nanoseconds.
    pub hidden_roots_ns: u128,
}

#[derive(Default)]
struct Node {
    total_ns: u128,
    self_ns: u128,
    samples: u128,
    children: Vec<usize>,
}

/// Adds children into their parents, and shows the `top` hottest call paths down to `depth` levels. A caller is as hot
/// as its hottest callee at least, so what is shown is a tree.
pub(super) fn add_up(paths: &CallPaths, top: usize, depth: Option<usize>) -> CallTree {
    // The first node stands for all roots; it is no function.
    let mut nodes = vec![Node::default()];
    let mut functions: Vec<Option<FunctionId>> = vec![None];
    let mut depths = vec![0];
    let mut places: HashMap<(usize, FunctionId), usize> = HashMap::new();
    for (path, _, sums) in &paths.paths {
        let mut at = 0;
        nodes[at].total_ns += sums.total_ns();
        for id in path {
            let next = *places.entry((at, *id)).or_insert_with(|| {
                nodes.push(Node::default());
                functions.push(Some(*id));
                depths.push(depths[at] + 1);
                let new = nodes.len() - 1;
                nodes[at].children.push(new);
                new
            });
            at = next;
            nodes[at].total_ns += sums.total_ns();
            nodes[at].samples += sums.samples;
        }
        nodes[at].self_ns += sums.total_ns();
    }
    let name = |node: usize| functions[node].map(|id| paths.functions.get(id));
    // The root is level 0; a callee never comes before its caller, because equal times stand in the order of depth.
    let mut hottest: Vec<usize> = (1..nodes.len())
        .filter(|node| depth.is_none_or(|depth| depths[*node] <= depth))
        .collect();
    hottest.sort_by(|one, other| {
        let key = |node: usize| (Reverse(nodes[node].total_ns), depths[node]);
        key(*one)
            .cmp(&key(*other))
            .then_with(|| name(*one).cmp(&name(*other)))
    });
    hottest.truncate(top);
    let shown: HashSet<usize> = hottest.iter().copied().collect();
    let mut tree = CallTree {
        nodes: Vec::with_capacity(shown.len()),
        others: nodes.len() - 1 - shown.len(),
        hidden_roots_ns: hidden_ns(&nodes, 0, &shown),
    };
    // Depth first; the stack holds what is still to be shown, the next one last.
    let mut open = vec![0];
    while let Some(node) = open.pop() {
        if let Some(function) = name(node) {
            let Node {
                total_ns,
                self_ns,
                samples,
                ..
            } = nodes[node];
            tree.nodes.push(CallTreeNode {
                function: function.clone(),
                depth: depths[node] - 1,
                total_ns,
                self_ns,
                total_percent: percent(total_ns, nodes[0].total_ns).unwrap_or(0.0),
                self_percent: percent(self_ns, nodes[0].total_ns).unwrap_or(0.0),
                samples,
                hidden_ns: hidden_ns(&nodes, node, &shown),
            });
        }
        let mut children: Vec<usize> = nodes[node]
            .children
            .iter()
            .copied()
            .filter(|child| shown.contains(child))
            .collect();
        children.sort_by(|one, other| {
            (nodes[*one].total_ns, name(*other)).cmp(&(nodes[*other].total_ns, name(*one)))
        });
        open.extend(children);
    }
    tree
}

fn hidden_ns(nodes: &[Node], node: usize, shown: &HashSet<usize>) -> u128 {
    nodes[node]
        .children
        .iter()
        .filter(|child| !shown.contains(child))
        .map(|child| nodes[*child].total_ns)
        .sum()
}
