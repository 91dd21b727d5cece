//! The sessions and statements that others waited for, and what they did meanwhile.
//!
//! A session waiting behind a chain waits for every link of it. So the times of all blockers sum to more than the blocked time; those
//! of the roots, plus what led to no session, sum to it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use dbtime_model::{CauseKind, CauseLink, SessionId, StateGroup, Wait};

use super::chains::{Who, who};
use super::divide::{Blocked, Divided};
use super::one_lock::{OneLock, Waiter, waiter};
use super::parts::{Doing, Root, root};
use crate::dimensions::Dimensions;
use crate::locks::{self, LockShare};

/// A session for which others waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// Which session it is.
    pub who: Who,
    /// Sessions that waited for it.
    pub waiters: usize,
    /// For how long, nanoseconds.
    pub ns: u128,
    /// Of that, while it was blocked itself: the cause is further down the chain.
    pub blocked_ns: u128,
    /// Of that, while it was the root of the chain.
    pub root_ns: u128,
    /// Locks of the server's lock table that its direct waiters wanted, as far as known, largest first. They sum to no more than `ns`.
    pub locks: Vec<LockShare>,
    /// What it did meanwhile, largest first. Sums to `ns`.
    pub doing: Vec<Meanwhile>,
}

/// A statement that others waited for: the blocking sessions were executing it, or were idle in a transaction after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingStatement {
    /// Its id; 0 = none was known, or none was executed.
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// The sessions that executed it, or had executed it last.
    pub sessions: usize,
    /// Sessions that waited for these.
    pub waiters: usize,
    /// For how long, nanoseconds. A wait for several of them, one after the other, counts once.
    pub ns: u128,
    /// Of that, while one of them was the root of the chain.
    pub root_ns: u128,
    /// As [`Blocker::locks`].
    pub locks: Vec<LockShare>,
    /// What they did meanwhile, largest first. Sums to `ns`.
    pub doing: Vec<Meanwhile>,
}

/// What a session did while others waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meanwhile {
    /// What they waited for in the end; none when this session was itself waiting for another one.
    pub end: Option<CauseKind>,
    /// The session, or one of several that did the same.
    pub did: Root,
    /// Nanoseconds.
    pub ns: u128,
}

/// Adds up parts of blocked time by blocker.
#[derive(Default)]
pub(super) struct Blockers {
    sessions: BTreeMap<SessionId, Blocking>,
    statements: BTreeMap<u64, Blocking>,
}

#[derive(Default)]
struct Blocking {
    sessions: BTreeSet<SessionId>,
    waiters: BTreeSet<SessionId>,
    ns: u128,
    blocked_ns: u128,
    root_ns: u128,
    /// Direct waiters, in waits for locks, by second.
    for_locks: BTreeMap<(Waiter, i64), u128>,
    doing: BTreeMap<(Option<CauseKind>, Doing), Meanwhile>,
}

impl Blockers {
    pub(super) fn add(&mut self, of: &Blocked, part: &Divided<'_>, dimensions: &mut Dimensions) {
        for (place, link) in part.chain.iter().enumerate() {
            let end = (place + 1 == part.chain.len()).then_some(part.kind);
            let did = root(link, dimensions);
            let next = (waiter(of, part.chain, place), of.time.unwrap_or_default());
            // What is in the chain more than once counts at its last place only.
            let behind = &part.chain[place + 1..];
            if behind.iter().all(|other| other.session != link.session) {
                let blocking = self.sessions.entry(link.session).or_default();
                blocking.add(of.session, link, (end, &did), part.ns);
                blocking.was_next(&next, part.ns);
            }
            if behind.iter().all(|other| other.statement != link.statement) {
                let blocking = self.statements.entry(link.statement).or_default();
                blocking.add(of.session, link, (end, &did), part.ns);
                blocking.was_next(&next, part.ns);
            }
        }
    }

    /// The sessions that others waited for longest come first.
    pub(super) fn sessions(&mut self, one_lock: &OneLock, dimensions: &mut Dimensions) -> Vec<Blocker> {
        let sessions = std::mem::take(&mut self.sessions).into_iter();
        let mut blockers: Vec<Blocker> = sessions
            .map(|(id, of)| Blocker {
                who: who(id, dimensions),
                waiters: of.waiters.len(),
                ns: of.ns,
                blocked_ns: of.blocked_ns,
                root_ns: of.root_ns,
                locks: one_lock.shares(&of.for_locks),
                doing: of.doing(),
            })
            .collect();
        blockers.sort_by_key(|blocker| (Reverse(blocker.ns), blocker.who.pid));
        blockers
    }

    /// Likewise, for statements.
    pub(super) fn statements(
        &mut self,
        one_lock: &OneLock,
        dimensions: &Dimensions,
    ) -> Vec<BlockingStatement> {
        let statements = std::mem::take(&mut self.statements).into_iter();
        let mut blocking: Vec<BlockingStatement> = statements
            .map(|(statement, of)| BlockingStatement {
                statement,
                text: dimensions.statement(statement).map(str::to_string),
                sessions: of.sessions.len(),
                waiters: of.waiters.len(),
                ns: of.ns,
                root_ns: of.root_ns,
                locks: one_lock.shares(&of.for_locks),
                doing: of.doing(),
            })
            .collect();
        blocking.sort_by_key(|of| Reverse(of.ns));
        blocking
    }
}

impl Blocking {
    fn add(&mut self, waits: SessionId, link: &CauseLink, (end, did): (Option<CauseKind>, &Root), ns: u128) {
        self.sessions.insert(link.session);
        self.waiters.insert(waits);
        self.ns += ns;
        if end.is_some() {
            self.root_ns += ns;
        }
        let wait = Wait::event(&link.wait_class, &link.wait_event, false);
        // If it waits for its client it is the root: nobody in the database can do anything about that.
        if link.state.group() == Some(StateGroup::Blocked) && wait.class != "Client" {
            self.blocked_ns += ns;
        }
        let meanwhile = self.doing.entry((end, did.doing())).or_insert_with(|| Meanwhile {
            end,
            did: did.clone(),
            ns: 0,
        });
        meanwhile.ns += ns;
        // An arbitrary one, but the same every time.
        if *did < meanwhile.did {
            meanwhile.did.clone_from(did);
        }
    }

    /// Adds a direct waiter in a second.
    fn was_next(&mut self, next: &(Waiter, i64), ns: u128) {
        let ((_, (wait, _)), _) = next;
        if *wait.class == *locks::CLASS {
            *self.for_locks.entry(next.clone()).or_default() += ns;
        }
    }

    fn doing(self) -> Vec<Meanwhile> {
        let mut doing: Vec<Meanwhile> = self.doing.into_values().collect();
        doing.sort_by_key(|meanwhile| Reverse(meanwhile.ns));
        doing
    }
}
