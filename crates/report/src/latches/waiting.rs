//! Who waited for a lock, and where in the code: by session and statement, and by the function that wanted the lock.
//!
//! Spinlocks have no names and say nothing of who has them. Who has waited for one for so long that it sleeps between two tries is in
//! the wait event Timeout:SpinDelay (since PostgreSQL 16): all of them stand here under one name, told apart by the code that wants them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use dbtime_model::{SessionId, Wait};
use serde::Serialize;

use super::holding::{CodeTime, by_time, innermost};
use crate::dimensions::Dimensions;
use crate::fields;
use crate::scan::Activity;
use crate::stacks::frames;

/// Class of the waits for internal locks, whose events are the names of these.
const CLASS: &str = "LWLock";
/// Wait event of who sleeps because a spinlock is not free.
const SPIN_DELAY: (&str, &str) = ("Timeout", "SpinDelay");
/// What all spinlocks are called.
pub(super) const SPINLOCKS: &str = "spinlocks";
/// Functions in which a lock is waited for: who called the outermost of them wanted it.
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
    /// What they are.
    pub backend_type: String,
    /// What they executed; 0 = not known, or nothing.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Who wanted it in the code, with what had called that, the outermost first; that with the most time first. Of time without a stack
    /// it is not known.
    pub code: Vec<CodeTime>,
    /// Nanoseconds.
    pub ns: u128,
}

#[derive(Default)]
struct Sum {
    pids: BTreeSet<u32>,
    code: HashMap<Vec<Arc<str>>, u128>,
    ns: u128,
}

/// Adds up who waited for one lock.
#[derive(Default)]
pub(super) struct Waitings {
    sessions: BTreeSet<SessionId>,
    /// By what they are, and what they executed.
    by: BTreeMap<(String, u64), Sum>,
}

/// The lock that is waited for in this wait event, if it is one.
pub(super) fn wanted(wait: &Wait) -> Option<&str> {
    match (&*wait.class, &*wait.event) {
        (CLASS, name) => Some(name),
        SPIN_DELAY => Some(SPINLOCKS),
        _ => None,
    }
}

/// True of waits for internal locks, spinlocks among them.
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

    /// The longest first.
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

/// Without the functions in which a lock is taken, and what these call.
fn who_wanted(mut frames: Vec<Arc<str>>) -> Vec<Arc<str>> {
    if let Some(taking) = frames.iter().position(|frame| TAKING.contains(&&**frame)) {
        frames.truncate(taking);
    }
    frames
}
