//! Call paths as a tree: each function of a stack is below its caller, and stacks share their common paths.

use std::collections::HashMap;
use std::hash::Hash;

use crate::function::Function;

/// Stands for the stacks that are left out.
const LEFT_OUT: &str = "[stack left out of this page]";
/// There is nothing above it.
pub(super) const ROOT: u32 = u32::MAX;

/// A tree with limits on the number of functions and on the bytes of their names. Functions with the same key are the same.
#[derive(Debug)]
pub(super) struct Paths<K> {
    most_nodes: usize,
    most_text: usize,
    text: usize,
    children: HashMap<(u32, u32), u32>,
    /// Caller of each node, which precedes it, and its function.
    nodes: Vec<(u32, u32)>,
    functions: Vec<Function>,
    numbers: HashMap<K, u32>,
    left_out: Option<u32>,
}

impl<K: Hash + Eq + Clone> Paths<K> {
    pub(super) fn new(most_nodes: usize, most_text: usize) -> Paths<K> {
        Paths {
            most_nodes,
            most_text,
            text: 0,
            children: HashMap::new(),
            nodes: Vec::new(),
            functions: Vec::new(),
            numbers: HashMap::new(),
            left_out: None,
        }
    }

    /// The leaf of a path, given root first; that of all left-out stacks if there is no room for it.
    pub(super) fn leaf(&mut self, path: &[K], name: impl Fn(&K) -> Function) -> u32 {
        if !self.has_room(path, &name) {
            return self.left_out();
        }
        let mut node = ROOT;
        for key in path {
            let number = *self.numbers.entry(key.clone()).or_insert_with(|| {
                let function = name(key);
                self.text += size(&function);
                self.functions.push(function);
                (self.functions.len() - 1) as u32
            });
            node = *self.children.entry((node, number)).or_insert_with(|| {
                self.nodes.push((node, number));
                (self.nodes.len() - 1) as u32
            });
        }
        node
    }

    /// The leaf of the stacks that are left out.
    pub(super) fn left_out(&mut self) -> u32 {
        *self.left_out.get_or_insert_with(|| {
            self.functions.push(Function {
                name: LEFT_OUT.to_string(),
                module: String::new(),
                kernel: false,
            });
            self.nodes.push((ROOT, (self.functions.len() - 1) as u32));
            (self.nodes.len() - 1) as u32
        })
    }

    /// Whether this node stands for the stacks that are left out.
    pub(super) fn is_left_out(&self, node: u32) -> bool {
        self.left_out == Some(node)
    }

    /// Callers and functions of all nodes, and the functions.
    pub(super) fn into_parts(self) -> (Vec<(u32, u32)>, Vec<Function>) {
        (self.nodes, self.functions)
    }

    fn has_room(&self, path: &[K], name: impl Fn(&K) -> Function) -> bool {
        let mut node = ROOT;
        let known = path
            .iter()
            .take_while(|key| {
                let next = self
                    .numbers
                    .get(key)
                    .and_then(|number| self.children.get(&(node, *number)));
                node = next.copied().unwrap_or(ROOT);
                next.is_some()
            })
            .count();
        let new_text: usize = path[known..]
            .iter()
            .filter(|key| !self.numbers.contains_key(key))
            .map(|key| size(&name(key)))
            .sum();
        self.nodes.len() + path.len() - known <= self.most_nodes && self.text + new_text <= self.most_text
    }
}

fn size(function: &Function) -> usize {
    function.name.len() + function.module.len()
}
