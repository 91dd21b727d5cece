//! Two recordings as one page: what `diff` says about them, as far as there is room, and the stacks of both.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::parts::modules_of_functions;
use super::paths::Paths;
use super::{LONGEST_TEXT, MOST_CELLS, MOST_NAMES, MOST_NODES, MOST_TEXT, cut};
use crate::diff::{Change, Diff, Place, grown_first, largest_first};
use crate::function::Function;
use crate::numbered::Numbered;

/// Most differences of a kind: the largest.
const MOST_CHANGES: usize = 1_000;
/// Most bytes of their names.
const MOST_BYTES: usize = 1 << 20;

/// Everything on a page about two recordings.
#[derive(Debug)]
pub struct DifferencePage {
    pub(super) diff: Diff,
    /// Names of the waits of stacks.
    pub(super) waits: Vec<String>,
    /// Caller and function of each node of the call paths.
    pub(super) nodes: Vec<(u32, u32)>,
    pub(super) functions: Vec<Function>,
    /// Modules of the code.
    pub(super) modules: Vec<String>,
    /// For each function its index in them, from 1; 0 = none.
    pub(super) modules_of_functions: Vec<usize>,
    /// Time of stacks: wait, state and leaf; good, and bad scaled to the same amount of work.
    pub(super) stacks: BTreeMap<(u32, u8, u32), [u64; 2]>,
    /// Number of differences without room.
    pub(super) left_out: usize,
}

/// What a page shows of a comparison.
pub fn difference(mut diff: Diff) -> DifferencePage {
    // A single answer: the page has one place for it.
    diff.conclusion = diff.answer();
    if let Ok(causes) = &mut diff.causes {
        causes.sentence.clear();
    }
    let mut stacks = std::mem::take(&mut diff.stacks);
    stacks.sort_by_key(|stack| Reverse(stack.scaled[0].max(stack.scaled[1])));
    let mut waits = Numbered::default();
    let mut tree = Paths::new(MOST_NODES, MOST_NAMES);
    let mut cells: BTreeMap<(u32, u8, u32), [u64; 2]> = BTreeMap::new();
    for stack in &stacks {
        let leaf = match cells.len() < MOST_CELLS {
            true => tree.leaf(&stack.functions, |function| Function::clone(function)),
            false => tree.left_out(),
        };
        let key = (waits.number(stack.wait.to_string()), stack.state as u8, leaf);
        let cell = cells.entry(key).or_default();
        for (sum, part) in cell.iter_mut().zip(stack.scaled) {
            *sum = sum.saturating_add(part);
        }
    }
    let (nodes, functions) = tree.into_parts();
    let (modules, modules_of_functions) = modules_of_functions(&functions);
    let mut left_out = 0;
    for changes in [
        &mut diff.cells,
        &mut diff.waits,
        &mut diff.functions,
        &mut diff.paths,
        &mut diff.modules,
    ] {
        left_out += bound(changes, bytes);
    }
    let mut room = MOST_TEXT;
    if let Some(statements) = &mut diff.statements {
        left_out += bound(&mut statements.changes, |_| 0);
        for statement in &mut statements.changes {
            statement.cells.truncate(MOST_CHANGES / 20);
            shorten(&mut statement.text, &mut room);
        }
    }
    if let Ok(causes) = &mut diff.causes {
        largest_first(&mut causes.changes, |cause| &cause.change);
        left_out += bound(&mut causes.changes, |cause| bytes(&cause.change));
        grown_first(&mut causes.changes, |cause| &cause.change);
        for cause in &mut causes.changes {
            largest_first(&mut cause.statements, |statement| &statement.change);
            cause.statements.truncate(MOST_CHANGES / 100);
            grown_first(&mut cause.statements, |statement| &statement.change);
            let own = cause.cause.root.as_mut().map(|root| &mut root.text);
            let of_waiters = cause.statements.iter_mut().map(|statement| &mut statement.text);
            for text in own.into_iter().chain(of_waiters) {
                shorten(text, &mut room);
            }
        }
    }
    left_out += bound(&mut diff.latencies, |change| {
        change.kind.len() + change.name.len()
    });
    left_out += bound(&mut diff.counters, |change| {
        change.source.len() + change.name.len()
    });
    DifferencePage {
        diff,
        waits: waits.into_values(),
        nodes,
        functions,
        modules: modules.into_values(),
        modules_of_functions,
        stacks: cells,
        left_out,
    }
}

/// Cuts a text to the room there is.
fn shorten(text: &mut Option<String>, room: &mut usize) {
    let short = text.as_deref().map(|text| cut(text, LONGEST_TEXT));
    *text = short.filter(|text| text.len() <= *room);
    *room -= text.as_ref().map_or(0, String::len);
}

/// Keeps the first ones, and returns how many others there were.
pub(super) fn bound<T>(changes: &mut Vec<T>, bytes: impl Fn(&T) -> usize) -> usize {
    let mut room = MOST_BYTES;
    let fit = changes
        .iter()
        .take(MOST_CHANGES)
        .take_while(|change| {
            let left = room.checked_sub(bytes(change));
            room = left.unwrap_or(0);
            left.is_some()
        })
        .count();
    changes.drain(fit..).count()
}

/// Size of the names of a place.
fn bytes(change: &Change) -> usize {
    let function = |function: &Function| function.name.len() + function.module.len();
    match &change.place {
        Place::All | Place::Statement(_) => 0,
        Place::Cell(wait, _) | Place::Wait(wait) => wait.class.len() + wait.event.len(),
        Place::Function(one) => function(one),
        Place::Path(path) => path.iter().map(|one| function(one)).sum(),
        Place::Module(name) => name.len(),
    }
}
