//! Who waits behind whom: blocked time as trees, each with the session at its root that everybody in it waited for in the end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use arcstr::ArcStr;
use dbtime_model::{CauseKind, CauseLink, SessionId, Wait};

use super::divide::{Blocked, Divided};
use super::one_lock::OneLock;
use super::parts::{CausePart, Parts};
use crate::dimensions::Dimensions;
use crate::locks::WaitedLock;

/// A root and all that waited behind it. The times of all roots sum to the blocked time.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// What the waits ended at.
    pub kind: CauseKind,
    /// Who it is; none = no session.
    pub who: Option<Who>,
    /// What it did while others waited for it, largest first: parts of [`Chain::behind_ns`].
    pub doing: Vec<CausePart>,
    /// How long all of those behind waited, nanoseconds.
    pub behind_ns: u128,
    /// Direct waiters, longest waits first.
    pub behind: Vec<Waiting>,
}

/// A waiting session, and what it mostly waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Who it is.
    pub who: Who,
    /// Its wait events and statements, by time; statement 0 = not known. They sum to `ns`.
    pub waits: Vec<(Wait, u64, u128)>,
    /// Text of the first statement; none when it was not read.
    pub text: Option<String>,
    /// The lock of the server's lock table that the first wait was for; none: not for such a lock, for several, or not known.
    pub lock: Option<WaitedLock>,
    /// How long it waited here itself, nanoseconds; 0 = it only appears in the waits of those behind it.
    pub ns: u128,
    /// How long all sessions behind it waited: the sum of `behind` and `beyond`.
    pub behind_ns: u128,
    /// Its direct waiters.
    pub behind: Vec<Waiting>,
    /// Sessions behind it that are too deep to be shown individually.
    pub beyond: Beyond,
}

/// Sessions that are not shown individually.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beyond {
    /// How many.
    pub sessions: usize,
    /// How long they waited, nanoseconds.
    pub ns: u128,
}

/// Who a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// Its pid.
    pub pid: u32,
    /// Kind of process.
    pub backend_type: ArcStr,
    /// Who was logged in.
    pub user: String,
    /// The client program, by its own account.
    pub application: String,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pid = self.pid;
        match (self.user.as_str(), self.application.as_str()) {
            ("", _) => write!(f, "pid {pid}, {}", self.backend_type),
            (user, "") => write!(f, "pid {pid}, {user}"),
            (user, application) => write!(f, "pid {pid}, {user}, {application}"),
        }
    }
}

/// Builds trees from parts of blocked time.
#[derive(Default)]
pub(super) struct Trees(BTreeMap<(Option<SessionId>, Option<CauseKind>), Tree>);

#[derive(Default)]
struct Tree {
    doing: Parts,
    behind: BTreeMap<SessionId, Node>,
}

#[derive(Default)]
struct Node {
    /// The session's own waits, by wait event and statement.
    own: BTreeMap<(Wait, u64), u128>,
    behind: BTreeMap<SessionId, Node>,
}

impl Trees {
    /// Adds a part of the time that a session was blocked.
    pub(super) fn add(&mut self, of: &Blocked, part: &Divided<'_>, dimensions: &mut Dimensions) {
        let last: Option<&CauseLink> = part.chain.last();
        // A session at the root is one root whatever it did; roots that are no session: one for each kind.
        let key = match last {
            Some(link) => (Some(link.session), None),
            None => (None, Some(part.kind)),
        };
        let tree = self.0.entry(key).or_default();
        tree.doing.add(part, dimensions);
        let mut behind = &mut tree.behind;
        for link in part.chain.iter().rev().skip(1) {
            behind = &mut behind.entry(link.session).or_default().behind;
        }
        let own = &mut behind.entry(of.session).or_default().own;
        *own.entry((of.wait(), of.statement)).or_default() += part.ns;
    }

    /// The trees, largest first. `depth`: levels of waiting sessions to show, not counting the root; none = all.
    pub(super) fn finish(
        self,
        depth: Option<usize>,
        one_lock: &OneLock,
        dimensions: &mut Dimensions,
    ) -> Vec<Chain> {
        let depth = depth.unwrap_or(usize::MAX);
        let mut chains: Vec<Chain> = self
            .0
            .into_iter()
            .map(|((session, _), tree)| {
                let behind = waiting(tree.behind, depth, one_lock, dimensions);
                let doing = tree.doing.finish();
                Chain {
                    kind: doing.first().map_or(CauseKind::Unknown, |part| part.kind),
                    who: session.map(|id| who(id, dimensions)),
                    doing,
                    behind_ns: behind.iter().map(|one| one.ns + one.behind_ns).sum(),
                    behind,
                }
            })
            .collect();
        chains.sort_by_key(|chain| Reverse(chain.behind_ns));
        chains
    }
}

fn waiting(
    nodes: BTreeMap<SessionId, Node>,
    depth: usize,
    one_lock: &OneLock,
    dimensions: &mut Dimensions,
) -> Vec<Waiting> {
    let mut all: Vec<Waiting> = nodes
        .into_iter()
        .map(|(id, mut node)| {
            let mut beyond = Beyond::default();
            if depth <= 1 {
                beyond = all_of(&std::mem::take(&mut node.behind));
            }
            let behind = waiting(node.behind, depth.saturating_sub(1), one_lock, dimensions);
            let mut waits: Vec<(Wait, u64, u128)> = node
                .own
                .into_iter()
                .map(|((wait, statement), ns)| (wait, statement, ns))
                .collect();
            waits.sort_by_key(|(.., ns)| Reverse(*ns));
            let statement = waits.first().map_or(0, |(_, statement, _)| *statement);
            let lock = waits
                .first()
                .and_then(|(wait, statement, _)| one_lock.of(&(id, (wait.clone(), *statement))));
            Waiting {
                who: who(id, dimensions),
                ns: waits.iter().map(|(.., ns)| ns).sum(),
                waits,
                text: dimensions.statement(statement).map(str::to_string),
                lock: lock.cloned(),
                behind_ns: beyond.ns + behind.iter().map(|one| one.ns + one.behind_ns).sum::<u128>(),
                behind,
                beyond,
            }
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.ns + one.behind_ns));
    all
}

/// Counts the sessions in these trees, and how long they waited.
fn all_of(nodes: &BTreeMap<SessionId, Node>) -> Beyond {
    fn add(nodes: &BTreeMap<SessionId, Node>, sessions: &mut BTreeSet<SessionId>) -> u128 {
        nodes
            .iter()
            .map(|(id, node)| {
                sessions.insert(*id);
                node.own.values().sum::<u128>() + add(&node.behind, sessions)
            })
            .sum()
    }
    let mut sessions = BTreeSet::new();
    let ns = add(nodes, &mut sessions);
    Beyond {
        sessions: sessions.len(),
        ns,
    }
}

pub(super) fn who(id: SessionId, dimensions: &mut Dimensions) -> Who {
    let session = dimensions.session(id);
    Who {
        pid: session.pid,
        backend_type: session.backend_type.0.clone(),
        user: session.user.clone(),
        application: session.application.clone(),
    }
}
