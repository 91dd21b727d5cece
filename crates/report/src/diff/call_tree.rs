//! The call tree of both sides, walked but never held in memory: in sorted order, stacks with a common beginning are neighbours, so
//! only the callers of one stack are open at a time. The tree may have a hundred times as many nodes as there are stacks.

use super::changes::{Atom, add};
use crate::function::FunctionId;

/// A callee with at least this part of its caller's difference is shown in its place.
const CARRIES_ALL: f64 = 0.9;

/// A node, by the first stack that has it and the number of functions from the root. Ordered as the stacks are, callers first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId {
    atom: usize,
    depth: usize,
}

impl NodeId {
    /// Its functions, root first.
    pub(super) fn path(self, atoms: &[Atom]) -> &[FunctionId] {
        &atoms[self.atom].path[..self.depth]
    }
}

/// What is known of a node.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) values: [u128; 2],
    /// Of these, the time that is not the host's.
    pub(super) tested: [u128; 2],
    /// Of `values`, those of stacks that end here.
    pub(super) own: [u128; 2],
    /// The differences of the callees that have grown and shrunk most.
    most_grown: f64,
    most_shrunk: f64,
}

impl Node {
    /// Whether a single callee has most of its difference, which is given.
    pub(super) fn is_carried_on(&self, difference: f64) -> bool {
        let carried = match difference > 0.0 {
            true => self.most_grown,
            false => self.most_shrunk,
        };
        carried * difference > 0.0 && carried.abs() >= CARRIES_ALL * difference.abs()
    }
}

/// Passes on every node, callees before their caller. `difference` is that of values.
pub(super) fn each_node(atoms: &[Atom], difference: impl Fn([u128; 2]) -> f64, mut take: impl FnMut(&Node)) {
    let mut order: Vec<usize> = (0..atoms.len()).collect();
    order.sort_unstable_by(|one, other| {
        let path = |at: &usize| &atoms[*at].path;
        path(one).cmp(path(other)).then_with(|| one.cmp(other))
    });
    let mut open: Vec<Node> = Vec::new();
    let mut close = |open: &mut Vec<Node>, depth: usize| {
        while open.len() > depth {
            let Some(node) = open.pop() else { break };
            take(&node);
            if let Some(caller) = open.last_mut() {
                let own = difference(node.values);
                caller.most_grown = caller.most_grown.max(own);
                caller.most_shrunk = caller.most_shrunk.min(own);
                add(&mut caller.values, node.values);
                add(&mut caller.tested, node.tested);
                caller.id.atom = caller.id.atom.min(node.id.atom);
            }
        }
    };
    let mut above: &[FunctionId] = &[];
    for at in order {
        let atom = &atoms[at];
        let in_common = above
            .iter()
            .zip(&atom.path)
            .take_while(|(one, other)| one == other);
        close(&mut open, in_common.count());
        for depth in open.len() + 1..=atom.path.len() {
            open.push(Node {
                id: NodeId { atom: at, depth },
                values: [0; 2],
                tested: [0; 2],
                own: [0; 2],
                most_grown: 0.0,
                most_shrunk: 0.0,
            });
        }
        if let Some(leaf) = open.last_mut() {
            add(&mut leaf.own, atom.values);
            add(&mut leaf.values, atom.values);
            if atom.is_tested {
                add(&mut leaf.tested, atom.values);
            }
            leaf.id.atom = leaf.id.atom.min(at);
        }
        above = &atom.path;
    }
    close(&mut open, 0);
}
