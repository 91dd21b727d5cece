//! Sessions that waited for the same lock all the time that they were in a wait event and a statement, as far as samples of the lock
//! table show: wherever such a wait is part of a chain, it was for that lock.

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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OneLock(BTreeMap<Waiter, WaitedLock>);

impl OneLock {
    /// `blocked`: for how long each session was blocked in that wait.
    pub(super) fn add(
        &mut self,
        wait: &WaitOfStatement,
        blocked: &BTreeMap<SessionId, u128>,
        looked: &WaitedLocks,
    ) {
        for (session, ns) in blocked {
            if let Some(lock) = looked.only(wait, *session, *ns) {
                self.0.insert((*session, wait.clone()), lock.clone());
            }
        }
    }

    pub(super) fn of(&self, waiter: &Waiter) -> Option<&WaitedLock> {
        self.0.get(waiter)
    }

    /// The locks of these waits, as far as known. `waits`: the nanoseconds of each.
    pub(super) fn shares(&self, waits: &BTreeMap<Waiter, u128>) -> Vec<LockShare> {
        let mut sums: BTreeMap<&WaitedLock, (usize, u128)> = BTreeMap::new();
        let mut counted: BTreeMap<&WaitedLock, SessionId> = BTreeMap::new();
        for (waiter, ns) in waits {
            if let Some(lock) = self.of(waiter) {
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
