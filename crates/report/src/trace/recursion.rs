//! Who called whom: statements that ran inside calls of others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::TracedStatement;
use crate::fields;

/// Deeper calls are shown at this depth.
const MAX_DEPTH: usize = 32;

/// A line of the tree: a statement below the one that called it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecursiveCall {
    /// Calls above it; 0 = called by the client, or by an unknown caller.
    pub depth: usize,
    /// See [`TracedStatement::id`].
    #[serde(serialize_with = "fields::text")]
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// See [`TracedStatement::hash_value`].
    #[serde(serialize_with = "fields::known")]
    pub hash_value: u64,
    /// Its text.
    #[serde(skip)]
    pub text: Option<String>,
    /// Calls: at depth 0 all of its calls, further down those on behalf of the line above.
    pub calls: i128,
    /// Their elapsed time, microseconds.
    pub elapsed_us: i128,
    /// Its callees are shown elsewhere, as they are only shown once.
    #[serde(skip)]
    pub is_continued: bool,
}

/// What a statement did in total, and who called it.
#[derive(Default)]
struct Node<'a> {
    first: Option<&'a TracedStatement>,
    calls: i128,
    elapsed_us: i128,
}

/// The tree, top down, longest first. Statements that take no part in recursion are not in it.
pub(super) fn tree(statements: &[TracedStatement]) -> Vec<RecursiveCall> {
    let mut nodes: BTreeMap<u64, Node<'_>> = BTreeMap::new();
    for statement in statements {
        let node = nodes.entry(statement.id).or_default();
        node.first.get_or_insert(statement);
        node.calls += statement.all.calls;
        node.elapsed_us += statement.all.elapsed_us;
    }
    // By caller: the callee, number of calls, and their time.
    let mut called: HashMap<u64, Vec<(u64, i128, i128)>> = HashMap::new();
    for (id, node) in &nodes {
        for caller in node.first.map_or(&[][..], |statement| &statement.callers) {
            called.entry(caller.id).or_default().push((
                *id,
                i128::from(caller.calls),
                i128::from(caller.elapsed_us),
            ));
        }
    }
    for calls in called.values_mut() {
        calls.sort_by_key(|(id, calls, elapsed_us)| (Reverse(*elapsed_us), Reverse(*calls), *id));
    }
    let mut callers: Vec<u64> = called.keys().copied().collect();
    callers.sort_by_key(|id| {
        let node = nodes.get(id);
        (
            // A statement that was called is below its caller; if all were called, the longest comes first.
            node.and_then(|node| node.first)
                .is_some_and(|first| !first.callers.is_empty()),
            Reverse(node.map_or(0, |node| node.elapsed_us)),
            *id,
        )
    });
    let mut lines = Vec::new();
    let mut shown = BTreeSet::new();
    for root in callers {
        if shown.contains(&root) {
            continue;
        }
        let (calls, elapsed_us) = nodes
            .get(&root)
            .map_or((0, 0), |node| (node.calls, node.elapsed_us));
        // Lines still to be written, the next one last: an explicit stack, as a trace may be arbitrarily deep.
        let mut open = vec![(0, root, calls, elapsed_us)];
        while let Some((depth, id, calls, elapsed_us)) = open.pop() {
            let below = called.get(&id).map_or(&[][..], Vec::as_slice);
            let is_new = shown.insert(id);
            let first = nodes.get(&id).and_then(|node| node.first);
            lines.push(RecursiveCall {
                depth,
                id,
                sql_id: first.and_then(|statement| statement.sql_id.clone()),
                hash_value: first.map_or(0, |statement| statement.hash_value),
                text: first.and_then(|statement| statement.text.clone()),
                calls,
                elapsed_us,
                is_continued: !is_new && !below.is_empty(),
            });
            if is_new {
                let depth = (depth + 1).min(MAX_DEPTH);
                open.extend(
                    below
                        .iter()
                        .rev()
                        .map(|(id, calls, us)| (depth, *id, *calls, *us)),
                );
            }
        }
    }
    lines
}
