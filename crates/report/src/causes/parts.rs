//! Parts of blocked time, by what the one did in the meantime that was waited for in the end.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use dbtime_model::{CauseKind, CauseLink, SessionState, State, StateGroup, Wait};

use super::Divided;
use crate::dimensions::Dimensions;
use crate::stacks::frames;

/// A part of it: where following it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CausePart {
    /// What it ended at.
    pub kind: CauseKind,
    /// At whom; none when at no session.
    pub root: Option<Root>,
    /// How many were waited for one after the other, at most: 1 = the root itself was waited for.
    pub links: usize,
    /// Where in the code the root was that ran: innermost functions, that with the most time first. Not of every part of the time it
    /// is known.
    pub functions: Vec<(Arc<str>, u128)>,
    /// Nanoseconds.
    pub ns: u128,
}

/// Who was waited for in the end, and what it did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// Whose pid.
    pub pid: u32,
    /// Kind of process.
    pub backend_type: String,
    /// Who was logged in.
    pub user: String,
    /// What it executed, or where it is idle in a transaction had executed last; 0 = not known, or nothing.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// What the database says of it as a whole.
    pub session_state: SessionState,
    /// Its own wait event.
    pub wait: Wait,
    /// What the operating system says of it.
    pub state: State,
}

impl Root {
    pub(crate) fn doing(&self) -> Doing {
        let is_blocked = self.state.group() == Some(StateGroup::Blocked);
        Doing {
            backend_type: self.backend_type.clone(),
            statement: self.statement,
            state: self.state,
            waited_in: is_blocked.then(|| (self.wait.clone(), self.session_state)),
        }
    }
}

/// What is equal for those that did the same. In which wait event one was that did not wait for anybody makes no difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Doing {
    backend_type: String,
    /// As [`Root::statement`].
    pub(crate) statement: u64,
    state: State,
    waited_in: Option<(Wait, SessionState)>,
}

/// Parts of which the root did the same: what it executed, its wait event and state.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseGroup {
    /// All of them, with the root of one.
    pub part: CausePart,
    /// Whose they are.
    pub pids: BTreeSet<u32>,
}

impl CauseGroup {
    pub(crate) fn of(part: CausePart) -> CauseGroup {
        CauseGroup {
            pids: part.root.iter().map(|root| root.pid).collect(),
            part,
        }
    }

    /// Adds parts of which the root did the same. The root that stands for all of them stays.
    pub(crate) fn merge(&mut self, other: CauseGroup) {
        self.pids.extend(other.pids);
        let part = &mut self.part;
        part.links = part.links.max(other.part.links);
        merge(&mut part.functions, &other.part.functions);
        part.ns += other.part.ns;
    }
}

/// Adds parts up.
#[derive(Default)]
pub(crate) struct Parts(BTreeMap<(CauseKind, Option<Root>), Sum>);

#[derive(Default)]
struct Sum {
    ns: u128,
    links: usize,
    functions: HashMap<Arc<str>, u128>,
}

impl Parts {
    pub(crate) fn add(&mut self, part: &Divided<'_>, dimensions: &mut Dimensions) {
        let last = part.chain.last();
        let key = (part.kind, last.map(|link| root(link, dimensions)));
        let sum = self.0.entry(key).or_default();
        sum.ns += part.ns;
        sum.links = sum.links.max(part.chain.len());
        if let Some(function) = last.and_then(|link| function(link, dimensions)) {
            *sum.functions.entry(function).or_default() += part.ns;
        }
    }

    /// That with the most time first.
    pub(crate) fn finish(self) -> Vec<CausePart> {
        let parts = self.0.into_iter().map(|((kind, root), sum)| {
            let mut functions = Vec::from_iter(sum.functions);
            sort(&mut functions);
            CausePart {
                kind,
                root,
                links: sum.links,
                functions,
                ns: sum.ns,
            }
        });
        let mut parts: Vec<CausePart> = parts.collect();
        parts.sort_by_key(|part| Reverse(part.ns));
        parts
    }
}

/// Parts that differ in the session only, as one: `parts` have the most first, and the first of them stands for them.
pub(super) fn group(parts: &[CausePart]) -> Vec<CauseGroup> {
    let mut groups: BTreeMap<_, CauseGroup> = BTreeMap::new();
    for part in parts {
        let key = (part.kind, part.root.as_ref().map(Root::doing));
        let group = CauseGroup::of(part.clone());
        match groups.entry(key) {
            Entry::Vacant(place) => {
                place.insert(group);
            }
            Entry::Occupied(place) => place.into_mut().merge(group),
        }
    }
    let mut groups: Vec<CauseGroup> = groups.into_values().collect();
    groups.sort_by_key(|group| Reverse(group.part.ns));
    groups
}

fn merge(functions: &mut Vec<(Arc<str>, u128)>, others: &[(Arc<str>, u128)]) {
    let mut sums: HashMap<Arc<str>, u128> = functions.drain(..).collect();
    for (function, ns) in others {
        *sums.entry(Arc::clone(function)).or_default() += ns;
    }
    functions.extend(sums);
    sort(functions);
}

fn sort(functions: &mut [(Arc<str>, u128)]) {
    functions.sort_by(|(one, ns), (other, other_ns)| other_ns.cmp(ns).then_with(|| one.cmp(other)));
}

/// The innermost function of one that ran: the database's own, not what the kernel did for it.
fn function(link: &CauseLink, dimensions: &Dimensions) -> Option<Arc<str>> {
    if link.state.group() != Some(StateGroup::OnCpu) {
        return None;
    }
    let of = |stack| frames(stack, dimensions).pop();
    of(link.user_stack).or_else(|| of(link.kernel_stack))
}

/// Whoever stands at the end of a chain, or at another place in it.
pub(crate) fn root(link: &CauseLink, dimensions: &mut Dimensions) -> Root {
    let text = dimensions.statement(link.statement).map(str::to_string);
    let session = dimensions.session(link.session);
    Root {
        pid: session.pid,
        backend_type: session.backend_type.0.clone(),
        user: session.user.clone(),
        statement: link.statement,
        text,
        session_state: link.session_state,
        wait: Wait::event(&link.wait_class, &link.wait_event, false),
        state: link.state,
    }
}
