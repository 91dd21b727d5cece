//! Sessions that waited for the same lock all the time that they were in a wait event and a statement, in a second or in the whole
//! period, as far as samples of the lock table show: wherever such a wait is part of a chain, it was for that lock.

use std::collections::BTreeMap;

use dbtime_model::{CauseLink, SessionId, Wait};

use super::divide::Blocked;
use crate::locks::{LockShare, WaitOfStatement, WaitedLock, WaitedLocks};

/// A session in a wait event and a statement.
pub(super) type Waiter = (SessionId, WaitOfStatement);

/// The direct waiter of a link of a chain: the link before it.
pub(super) fn waiter(of: &Blocked, chain: &[CauseLink], place: usize) -> Waiter {
    match place.checked_sub(1).and_then(|before| chain.get(before)) {
        None => (of.session, (of.wait(), of.statement)),
        Some(link) => {
            let wait = Wait::event(&link.wait_class, &link.wait_event, false);
            (link.session, (wait, link.statement))
        }
    }
}

/// For how long each session was blocked in a wait, by second (microseconds since the Unix epoch).
pub(super) type BlockedBySecond = BTreeMap<(SessionId, i64), u128>;

/// The same in the whole period.
pub(super) fn in_all(blocked: &BlockedBySecond) -> BTreeMap<SessionId, u128> {
    let mut sums = BTreeMap::new();
    for ((session, _), ns) in blocked {
        *sums.entry(*session).or_default() += ns;
    }
    sums
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OneLock {
    in_all: BTreeMap<Waiter, WaitedLock>,
    by_second: BTreeMap<(Waiter, i64), WaitedLock>,
}

impl OneLock {
    /// `blocked`: in that wait.
    pub(super) fn add(&mut self, wait: &WaitOfStatement, blocked: &BlockedBySecond, looked: &WaitedLocks) {
        for (session, ns) in in_all(blocked) {
            if let Some(lock) = looked.only(wait, session, None, ns) {
                self.in_all.insert((session, wait.clone()), lock.clone());
            }
        }
        for ((session, time), ns) in blocked {
            if let Some(lock) = looked.only(wait, *session, Some(*time), *ns) {
                let waiter = (*session, wait.clone());
                self.by_second.insert((waiter, *time), lock.clone());
            }
        }
    }

    /// That of the whole period.
    pub(super) fn of(&self, waiter: &Waiter) -> Option<&WaitedLock> {
        self.in_all.get(waiter)
    }

    /// The locks of these waits, as far as known. `waits`: the nanoseconds of each, by second.
    pub(super) fn shares(&self, waits: &BTreeMap<(Waiter, i64), u128>) -> Vec<LockShare> {
        let mut sums: BTreeMap<&WaitedLock, (usize, u128)> = BTreeMap::new();
        let mut counted: BTreeMap<&WaitedLock, SessionId> = BTreeMap::new();
        for (at, ns) in waits {
            let (waiter, _) = at;
            if let Some(lock) = self.by_second.get(at) {
                let sum = sums.entry(lock).or_default();
                sum.1 += ns;
                // Waiters of a session are neighbours in this order.
                if counted.insert(lock, waiter.0) != Some(waiter.0) {
                    sum.0 += 1;
                }
            }
        }
        LockShare::sorted(sums)
    }
}
