//! Who waited for a lock, and where in the code: by session and statement, and by the function that wanted the lock.
//!
//! Spinlocks have no names, and nothing says who holds them. A session that has waited for one so long that it sleeps between tries has
//! the wait event Timeout:SpinDelay (since PostgreSQL 16): all are listed here under one name, separated by the code that wants them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use arcstr::ArcStr;
use dbtime_model::{SessionId, Wait};
use serde::Serialize;

use super::holding::{CodeTime, by_time, innermost};
use crate::dimensions::Dimensions;
use crate::fields;
use crate::scan::Activity;
use crate::stacks::frames;

/// Class of the waits for internal locks; the events are named after the locks.
const CLASS: &str = "LWLock";
/// Wait event of sessions that sleep because a spinlock is not free.
const SPIN_DELAY: (&str, &str) = ("Timeout", "SpinDelay");
/// The common name of all spinlocks.
pub(super) const SPINLOCKS: &str = "spinlocks";
/// Functions in which a lock is waited for: the caller of the outermost one wanted it.
const TAKING: [&str; 7] = [
    "LWLockAcquire",
    "LWLockAcquireOrWait",
    "LWLockWaitForVar",
    "LWLockQueueSelf",
    "s_lock",
    "perform_spin_delay",
    "PGSemaphoreLock",
];

/// Time in which sessions waited for a lock while they executed the same statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatchWaiting {
    /// Pids of these sessions.
    pub pids: BTreeSet<u32>,
    /// Their kind of process.
    pub backend_type: ArcStr,
    /// The statement; 0 = not known, or none.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// The functions that wanted it, with their callers, outermost first; largest first. Not known for time without a stack.
    pub code: Vec<CodeTime>,
    /// Nanoseconds.
    pub ns: u128,
}

#[derive(Default)]
struct Sum {
    pids: BTreeSet<u32>,
    code: HashMap<Vec<ArcStr>, u128>,
    ns: u128,
}

/// Adds up who waited for one lock.
#[derive(Default)]
pub(super) struct Waitings {
    sessions: BTreeSet<SessionId>,
    /// By kind of process and statement.
    by: BTreeMap<(ArcStr, u64), Sum>,
}

/// The lock that this wait event is for, if it is for one.
pub(super) fn wanted(wait: &Wait) -> Option<&str> {
    match (&*wait.class, &*wait.event) {
        (CLASS, name) => Some(name),
        SPIN_DELAY => Some(SPINLOCKS),
        _ => None,
    }
}

/// Whether it is a wait for an internal lock, spinlocks included.
pub fn is_for_latch(wait: &Wait) -> bool {
    wanted(wait).is_some()
}

impl Waitings {
    pub(super) fn add(&mut self, activity: &Activity<'_>) {
        let (row, session) = (activity.row, activity.session);
        self.sessions.insert(row.session);
        let key = (session.backend_type.0.clone(), row.statement);
        let sum = self.by.entry(key).or_default();
        sum.pids.insert(session.pid);
        sum.ns += u128::from(row.ns);
        let code = innermost(who_wanted(frames(row.user_stack, activity.dimensions)));
        if !code.is_empty() {
            *sum.code.entry(code).or_default() += u128::from(row.ns);
        }
    }

    /// Sessions that waited.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn ns(&self) -> u128 {
        self.by.values().map(|sum| sum.ns).sum()
    }

    /// Longest first.
    pub(super) fn finish(self, dimensions: &Dimensions) -> Vec<LatchWaiting> {
        let waitings = self
            .by
            .into_iter()
            .map(|((backend_type, statement), sum)| LatchWaiting {
                pids: sum.pids,
                backend_type,
                statement,
                text: dimensions.statement(statement).map(str::to_string),
                code: by_time(sum.code),
                ns: sum.ns,
            });
        let mut waitings: Vec<LatchWaiting> = waitings.collect();
        waitings.sort_by_key(|waiting| Reverse(waiting.ns));
        waitings
    }
}

/// Removes the functions that take a lock, and their callees.
fn who_wanted(mut frames: Vec<ArcStr>) -> Vec<ArcStr> {
    if let Some(taking) = frames.iter().position(|frame| TAKING.contains(&&**frame)) {
        frames.truncate(taking);
    }
    frames
}
