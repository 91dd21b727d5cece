//! Call paths with their durations: the tree of all calls merged, functions, and callees of a function.

use std::collections::{BTreeMap, HashMap};

use dbtime_model::latency::kind;
use dbtime_model::{ActivityRow, Frame, LatencyRow};
use serde::{Serialize, Serializer};

use super::{STATES, module_of};
use crate::dimensions::Dimensions;
use crate::histogram::Histogram;
use crate::kernel_layers::{is_call_root, is_foreign_root};

/// Durations of the calls of a function, or at a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    /// All of them.
    pub histogram: Histogram,
    /// The shortest, nanoseconds; none when it was not recorded.
    pub min_ns: Option<u64>,
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Numbers {
            count: u128,
            total_ns: u128,
            min_ns: Option<u64>,
            avg_ns: Option<u128>,
            p50_ns: Option<u64>,
            p99_ns: Option<u64>,
            max_ns: u64,
        }
        let all = &self.histogram;
        let numbers = Numbers {
            count: all.count(),
            total_ns: all.sum_ns(),
            min_ns: self.min_ns,
            avg_ns: all.mean_ns(),
            p50_ns: all.quantile(0.5),
            p99_ns: all.quantile(0.99),
            max_ns: all.max_ns(),
        };
        numbers.serialize(to)
    }
}

impl Durations {
    fn add(&mut self, row: &LatencyRow) {
        self.histogram
            .add(row.from_ns, row.to_ns, row.count, row.sum_ns, row.max_ns);
        // 0 = not recorded, unless that is all that the bucket can hold.
        self.shorter((row.min_ns > 0 || row.to_ns <= 1).then_some(row.min_ns));
    }

    fn merge(&mut self, other: &Durations) {
        self.histogram.merge(&other.histogram);
        self.shorter(other.min_ns);
    }

    fn shorter(&mut self, min_ns: Option<u64>) {
        self.min_ns = match (self.min_ns, min_ns) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

/// A call path: a function under its callers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathDurations {
    /// Its function.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// Callers above it.
    pub depth: usize,
    /// On a CPU in the function itself, nanoseconds.
    pub own_ns: u128,
    /// Off CPU at this path, nanoseconds.
    pub off_ns: u128,
    /// All of them, or of the callees below if it is not a function: nanoseconds.
    #[serde(rename = "inclusive_ns")]
    pub total_ns: u128,
    /// Nanoseconds of callees that are not shown.
    pub hidden_ns: u128,
    /// Durations of its calls.
    #[serde(flatten)]
    pub durations: Durations,
}

/// All calls merged.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PathTree {
    /// Callers before callees, longest callees first.
    pub paths: Vec<PathDurations>,
    /// Call paths that are not shown.
    #[serde(skip)]
    pub others: usize,
}

/// A function, by any caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionDurations {
    /// Its name.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// On a CPU in the function itself, nanoseconds.
    pub own_ns: u128,
    /// Off CPU in the function itself, nanoseconds.
    pub off_ns: u128,
    /// Time from its outermost calls to their returns, nanoseconds: recursion counts once.
    #[serde(rename = "inclusive_ns")]
    pub total_ns: u128,
    /// Durations of its calls.
    #[serde(flatten)]
    pub durations: Durations,
}

/// A function that another one calls directly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChildOf {
    /// Its name.
    pub function: String,
    /// Module it is in; empty for the kernel itself.
    pub module: String,
    /// Durations of these calls.
    #[serde(flatten)]
    pub durations: Durations,
}

/// What a function calls directly. Its total is its own time, its time off CPU, and that of the children.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChildrenOf {
    /// The function.
    pub function: String,
    /// Durations of its calls.
    #[serde(flatten)]
    pub durations: Durations,
    /// On a CPU in the function itself, nanoseconds.
    pub own_ns: u128,
    /// Off CPU in the function itself, nanoseconds.
    pub off_ns: u128,
    /// What it calls, longest first.
    pub children: Vec<ChildOf>,
}

/// A node of the tree.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) symbol: String,
    pub(super) module: String,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    pub(super) durations: Durations,
    /// Indexed as [`STATES`].
    pub(super) own: [u128; STATES.len()],
    /// Counted for a function that was called, otherwise the sum of what is below.
    pub(super) total_ns: u128,
    pub(super) children: Vec<usize>,
}

impl Node {
    fn on_cpu_ns(&self) -> u128 {
        // What is not known to be off CPU is the function's own.
        self.own[0] + self.own[STATES.len() - 1]
    }

    fn off_ns(&self) -> u128 {
        self.own[1..STATES.len() - 1].iter().sum()
    }
}

/// All paths of a trace.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub(super) nodes: Vec<Node>,
    pub(super) roots: Vec<usize>,
    places: HashMap<(Option<usize>, String, String), usize>,
    stacks: HashMap<u64, Option<usize>>,
}

impl Paths {
    pub(super) fn add_own(&mut self, row: &ActivityRow, dimensions: &Dimensions) {
        if let Some(node) = self.node(row.kernel_stack.0, dimensions) {
            let state = STATES.iter().position(|state| *state == row.state);
            self.nodes[node].own[state.unwrap_or(STATES.len() - 1)] += u128::from(row.ns);
        }
    }

    pub(super) fn add_durations(&mut self, row: &LatencyRow, dimensions: &Dimensions) {
        if *row.kind == *kind::FUNCTION
            && let Some(node) = self.node(row.stack.0, dimensions)
        {
            self.nodes[node].durations.add(row);
        }
    }

    /// Adds an amount other than time at a path, as if it were time on a CPU.
    pub(super) fn add_amount<F: AsRef<Frame>>(&mut self, frames: &[F], amount: u64) {
        let leaf = frames
            .iter()
            .fold(None, |at, frame| Some(self.below(at, frame.as_ref())));
        if let Some(node) = leaf {
            self.nodes[node].own[0] += u128::from(amount);
        }
    }

    fn node(&mut self, stack: u64, dimensions: &Dimensions) -> Option<usize> {
        if let Some(node) = self.stacks.get(&stack) {
            return *node;
        }
        let frames = dimensions.stack(dbtime_model::StackId(stack)).unwrap_or(&[]);
        let mut at = None;
        for frame in frames {
            at = Some(self.below(at, frame));
        }
        self.stacks.insert(stack, at);
        at
    }

    fn below(&mut self, parent: Option<usize>, frame: &Frame) -> usize {
        let module = module_of(frame);
        let key = (parent, frame.symbol.clone(), module.to_string());
        if let Some(node) = self.places.get(&key) {
            return *node;
        }
        let node = self.nodes.len();
        self.nodes.push(Node {
            symbol: frame.symbol.clone(),
            module: module.to_string(),
            parent,
            depth: parent.map_or(0, |parent| self.nodes[parent].depth + 1),
            ..Node::default()
        });
        match parent {
            Some(parent) => self.nodes[parent].children.push(node),
            None => self.roots.push(node),
        }
        self.places.insert(key, node);
        node
    }

    /// Computes totals when all rows are there. Parents have smaller numbers than their children.
    pub(super) fn add_up(&mut self) {
        for node in (0..self.nodes.len()).rev() {
            let below: u128 = self.nodes[node]
                .children
                .iter()
                .map(|child| self.nodes[*child].total_ns)
                .sum();
            let here = &mut self.nodes[node];
            here.total_ns = match here.durations.histogram.count() {
                0 => here.own.iter().sum::<u128>() + below,
                _ => here.durations.histogram.sum_ns(),
            };
        }
        let mut children: Vec<Vec<usize>> = self.nodes.iter().map(|node| node.children.clone()).collect();
        for of in children.iter_mut().chain(std::iter::once(&mut self.roots)) {
            of.sort_by(|one, other| {
                let key = |node: &usize| {
                    (
                        std::cmp::Reverse(self.nodes[*node].total_ns),
                        &self.nodes[*node].symbol,
                    )
                };
                key(one).cmp(&key(other))
            });
        }
        for (node, children) in self.nodes.iter_mut().zip(children) {
            node.children = children;
        }
    }

    /// The roots of calls, without those of what merely hit them.
    pub(super) fn call_roots(&self) -> impl Iterator<Item = &Node> {
        let roots = self.roots.iter().map(|root| &self.nodes[*root]);
        roots.filter(|root| is_call_root(&root.symbol))
    }

    /// Every path of calls, with the names from its root down.
    pub(super) fn each_of_calls(&self) -> impl Iterator<Item = (Vec<String>, &Node)> {
        self.nodes.iter().filter_map(|node| {
            let mut names = vec![node.symbol.clone()];
            let mut above = node.parent;
            while let Some(at) = above {
                names.push(self.nodes[at].symbol.clone());
                above = self.nodes[at].parent;
            }
            names.reverse();
            is_call_root(&names[0]).then_some((names, node))
        })
    }

    /// Total of a root that is not the work of calls, by name.
    pub(super) fn foreign_ns(&self, name: &str) -> u128 {
        let roots = self.roots.iter().map(|root| &self.nodes[*root]);
        roots
            .filter(|root| root.symbol == name)
            .map(|root| root.total_ns)
            .sum()
    }

    /// This node and everything below it.
    pub(super) fn each(&self, node: usize, take: &mut dyn FnMut(&Node)) {
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            take(&self.nodes[node]);
            open.extend(&self.nodes[node].children);
        }
    }

    /// Functions, sorted by own time or by total.
    pub(super) fn functions(&self, by_own: bool) -> Vec<FunctionDurations> {
        let nodes = self.nodes.iter().filter(|node| !is_foreign_root(&node.symbol));
        let mut functions = self.added_up(nodes);
        functions.sort_by_key(|of| {
            std::cmp::Reverse(if by_own {
                of.own_ns + of.off_ns
            } else {
                of.total_ns
            })
        });
        functions
    }

    /// Functions that calls run, without those only run by interrupts.
    pub(super) fn functions_of_calls(&self) -> Vec<FunctionDurations> {
        self.added_up(self.each_of_calls().map(|(_, node)| node))
    }

    fn added_up<'a>(&self, nodes: impl Iterator<Item = &'a Node>) -> Vec<FunctionDurations> {
        let mut functions: BTreeMap<(&str, &str), FunctionDurations> = BTreeMap::new();
        for node in nodes {
            let sum = functions
                .entry((&node.symbol, &node.module))
                .or_insert_with(|| FunctionDurations {
                    function: node.symbol.clone(),
                    module: node.module.clone(),
                    durations: Durations::default(),
                    total_ns: 0,
                    own_ns: 0,
                    off_ns: 0,
                });
            sum.durations.merge(&node.durations);
            sum.own_ns += node.on_cpu_ns();
            sum.off_ns += node.off_ns();
            if !self.is_below_itself(node) {
                sum.total_ns += node.total_ns;
            }
        }
        functions.into_values().collect()
    }

    fn is_below_itself(&self, node: &Node) -> bool {
        let mut above = node.parent;
        while let Some(at) = above {
            if self.nodes[at].symbol == node.symbol && self.nodes[at].module == node.module {
                return true;
            }
            above = self.nodes[at].parent;
        }
        false
    }

    /// What a function calls; none if it is not in the trace.
    pub(super) fn children(&self, function: &str) -> Option<ChildrenOf> {
        let mut answer = ChildrenOf {
            function: function.to_string(),
            durations: Durations::default(),
            own_ns: 0,
            off_ns: 0,
            children: Vec::new(),
        };
        let mut children: BTreeMap<(&str, &str), Durations> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| node.symbol == function) {
            answer.durations.merge(&node.durations);
            answer.own_ns += node.on_cpu_ns();
            answer.off_ns += node.off_ns();
            for child in node.children.iter().map(|child| &self.nodes[*child]) {
                let sum = children.entry((&child.symbol, &child.module)).or_default();
                sum.merge(&child.durations);
            }
        }
        answer.children = children
            .into_iter()
            .map(|((function, module), durations)| ChildOf {
                function: function.to_string(),
                module: module.to_string(),
                durations,
            })
            .collect();
        answer
            .children
            .sort_by_key(|child| std::cmp::Reverse(child.durations.histogram.sum_ns()));
        (answer.durations.histogram.count() > 0).then_some(answer)
    }

    /// The tree, down to `depth` levels, limited to the `top` paths with the most time.
    pub(super) fn tree(&self, top: usize, depth: Option<usize>) -> PathTree {
        let mut longest: Vec<usize> = (0..self.nodes.len())
            .filter(|node| depth.is_none_or(|depth| self.nodes[*node].depth < depth))
            .collect();
        longest.sort_by_key(|node| (std::cmp::Reverse(self.nodes[*node].total_ns), *node));
        longest.truncate(top);
        let mut shown = vec![false; self.nodes.len()];
        for node in longest {
            // A caller without time of its own is still shown with its callee.
            let mut at = Some(node);
            while let Some(node) = at.filter(|node| !shown[*node]) {
                shown[node] = true;
                at = self.nodes[node].parent;
            }
        }
        let mut tree = PathTree {
            paths: Vec::new(),
            others: shown.iter().filter(|shown| !**shown).count(),
        };
        let mut open: Vec<usize> = self
            .roots
            .iter()
            .rev()
            .copied()
            .filter(|root| shown[*root])
            .collect();
        while let Some(at) = open.pop() {
            let node = &self.nodes[at];
            let hidden = node.children.iter().filter(|child| !shown[**child]);
            tree.paths.push(PathDurations {
                function: node.symbol.clone(),
                module: node.module.clone(),
                depth: node.depth,
                durations: node.durations.clone(),
                total_ns: node.total_ns,
                own_ns: node.on_cpu_ns(),
                off_ns: node.off_ns(),
                hidden_ns: hidden.map(|child| self.nodes[*child].total_ns).sum(),
            });
            open.extend(node.children.iter().rev().filter(|child| shown[**child]));
        }
        tree
    }
}
