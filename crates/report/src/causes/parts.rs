//! Parts of blocked time, by what the session that was waited for in the end did meanwhile.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use arcstr::ArcStr;
use dbtime_model::{CauseKind, CauseLink, SessionState, State, StateGroup, Wait};

use super::Divided;
use crate::dimensions::Dimensions;
use crate::stacks::frames;

/// A part of blocked time: where following it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct CausePart {
    /// What it ended at.
    pub kind: CauseKind,
    /// The session it ended at; none when it is not a session.
    pub root: Option<Root>,
    /// Length of the longest chain to the root: 1 = the root was waited for directly.
    pub links: usize,
    /// Where in the code the root was running: innermost functions, largest first. Not known for all of the time.
    pub functions: Vec<(ArcStr, u128)>,
    /// Nanoseconds.
    pub ns: u128,
}

/// Who was waited for in the end, and what it did meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// Whose pid.
    pub pid: u32,
    /// Kind of process.
    pub backend_type: ArcStr,
    /// Who was logged in.
    pub user: String,
    /// What it executed, or had executed last if idle in a transaction; 0 = not known, or nothing.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Its session state according to the database.
    pub session_state: SessionState,
    /// Its own wait event.
    pub wait: Wait,
    /// Its state according to the operating system.
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

/// What sessions that did the same have in common. The wait event only matters for a session that waited for somebody.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Doing {
    backend_type: ArcStr,
    /// As [`Root::statement`].
    pub(crate) statement: u64,
    state: State,
    waited_in: Option<(Wait, SessionState)>,
}

/// Parts whose roots did the same: statement, wait event and state.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseGroup {
    /// All of them, with one of the roots.
    pub part: CausePart,
    /// Pids of the roots.
    pub pids: BTreeSet<u32>,
}

impl CauseGroup {
    pub(crate) fn of(part: CausePart) -> CauseGroup {
        CauseGroup {
            pids: part.root.iter().map(|root| root.pid).collect(),
            part,
        }
    }

    /// Adds parts whose root did the same. The root that represents them stays.
    pub(crate) fn merge(&mut self, other: CauseGroup) {
        self.pids.extend(other.pids);
        let part = &mut self.part;
        part.links = part.links.max(other.part.links);
        merge(&mut part.functions, &other.part.functions);
        part.ns += other.part.ns;
    }
}

/// Adds up parts.
#[derive(Default)]
pub(crate) struct Parts(BTreeMap<(CauseKind, Option<Root>), Sum>);

#[derive(Default)]
struct Sum {
    ns: u128,
    links: usize,
    functions: HashMap<ArcStr, u128>,
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

    /// Largest first.
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

/// Merges parts that differ in the session only. `parts`: largest first; the first one of a group represents it.
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

fn merge(functions: &mut Vec<(ArcStr, u128)>, others: &[(ArcStr, u128)]) {
    let mut sums: HashMap<ArcStr, u128> = functions.drain(..).collect();
    for (function, ns) in others {
        *sums.entry(ArcStr::clone(function)).or_default() += ns;
    }
    functions.extend(sums);
    sort(functions);
}

fn sort(functions: &mut [(ArcStr, u128)]) {
    functions.sort_by(|(one, ns), (other, other_ns)| other_ns.cmp(ns).then_with(|| one.cmp(other)));
}

/// The innermost function of a session that ran: the database's own, not what the kernel did for it.
fn function(link: &CauseLink, dimensions: &Dimensions) -> Option<ArcStr> {
    if link.state.group() != Some(StateGroup::OnCpu) {
        return None;
    }
    let of = |stack| frames(stack, dimensions).pop();
    of(link.user_stack).or_else(|| of(link.kernel_stack))
}

/// The session at the end of a chain, or elsewhere in it.
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
