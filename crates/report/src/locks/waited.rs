//! Which locks sessions waited for: what samples of the lock table found, for the blocked time of the ledger.
//!
//! A sample stands for the time since the previous one. A session never gets more of that than it was blocked in that wait event and
//! statement; if it gets less, the rest is not known. A wait that was shorter than what its samples stand for is not assigned to a lock:
//! many such waits together take as long as their samples stand for, a single one does not.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use dbtime_model::recording::Problem;
use dbtime_model::{LockRow, SessionId, Wait};
use serde::Serialize;

use super::names::Names;
use super::target::{ROW, TRANSACTION};
use super::{LockTarget, wait_of};
use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::load::Source;

/// A lock that somebody waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct WaitedLock {
    /// What it is on.
    #[serde(flatten)]
    pub target: LockTarget,
    /// If a transaction is waited for: the row that it has changed. The waiter has locked the row meanwhile, to be the next to have it.
    /// Without page and number: one of several rows of that relation. None: not seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<LockTarget>,
}

impl WaitedLock {
    /// See [`LockTarget::seen_briefly`].
    fn seen_briefly(self) -> WaitedLock {
        match self.target.seen_briefly() {
            Some(target) => WaitedLock {
                target,
                row: self.row.and_then(|row| row.seen_briefly()),
            },
            None => self,
        }
    }
}

/// `transactionid 741 (tuple (12,3) of public.orders in shop)`
impl fmt::Display for WaitedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.row {
            Some(row) => write!(f, "{} ({row})", self.target),
            None => write!(f, "{}", self.target),
        }
    }
}

/// The part of blocked time that was spent waiting for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockShare {
    /// The lock.
    pub lock: WaitedLock,
    /// Sessions that waited for it.
    pub sessions: usize,
    /// Nanoseconds.
    pub ns: u128,
}

impl LockShare {
    /// Largest first. `sums`: sessions, and nanoseconds.
    pub(crate) fn sorted(sums: BTreeMap<&WaitedLock, (usize, u128)>) -> Vec<LockShare> {
        let shares = sums.into_iter().map(|(lock, (sessions, ns))| LockShare {
            lock: lock.clone(),
            sessions,
            ns,
        });
        let mut shares: Vec<LockShare> = shares.collect();
        shares.sort_by_key(|share| Reverse(share.ns));
        shares
    }
}

/// Samples that found a session waiting for a lock.
#[derive(Debug, Clone, Default)]
struct Looks {
    /// The nanoseconds that they stand for, by time.
    ns: BTreeMap<i64, u128>,
    count: u128,
    /// The longest wait as reported by the server at the last of its samples, nanoseconds.
    longest_ns: u128,
}

impl Looks {
    fn all_ns(&self) -> u128 {
        self.ns.values().sum()
    }

    /// At a time; none: at all of them.
    fn ns_at(&self, time: Option<i64>) -> u128 {
        time.map_or_else(|| self.all_ns(), |time| self.ns.get(&time).copied().unwrap_or(0))
    }

    fn add(&mut self, more: Looks) {
        for (time, ns) in more.ns {
            *self.ns.entry(time).or_default() += ns;
        }
        self.count += more.count;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
    }
}

type Found = BTreeMap<WaitedLock, Looks>;

/// A wait event, in a statement.
pub(crate) type WaitOfStatement = (Wait, u64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WaitedLocks(BTreeMap<WaitOfStatement, BTreeMap<SessionId, Found>>);

impl WaitedLocks {
    /// Those of all sessions in the time of the filter; and what could not be read.
    pub(crate) fn read(
        source: &Source,
        filter: &Filter,
        dimensions: &mut Dimensions,
    ) -> (WaitedLocks, Vec<Problem>) {
        if !source.meta().database.locks {
            return Default::default();
        }
        let is_meant = |row: &LockRow| row.session != SessionId::RECORDER && filter.takes_time(row.time);
        // The row locked by a session in a second and statement, if it is one, or several of one relation.
        let mut rows: HashMap<(SessionId, i64, u64), Option<LockTarget>> = HashMap::new();
        source.locks(|row| {
            if row.granted && row.kind == ROW && is_meant(row) {
                let target = LockTarget::of_session(row, dimensions.session(row.session));
                let known = rows
                    .entry((row.session, row.time, row.statement))
                    .or_insert_with(|| Some(target.clone()));
                *known = known.take().and_then(|known| known.row_in_common(&target));
            }
        });
        let mut all = WaitedLocks::default();
        let problems = source.locks(|row| {
            if row.granted || row.ns == 0 || !is_meant(row) {
                return;
            }
            let target = LockTarget::of_session(row, dimensions.session(row.session));
            let locked = (row.kind == TRANSACTION)
                .then(|| rows.get(&(row.session, row.time, row.statement)))
                .flatten();
            let lock = WaitedLock {
                target,
                row: locked.cloned().flatten(),
            };
            let sessions = all.0.entry((wait_of(row), row.statement)).or_default();
            let found = sessions.entry(row.session).or_default();
            found.entry(lock).or_default().add(Looks {
                ns: BTreeMap::from([(row.time, row.ns.into())]),
                count: row.looks.into(),
                longest_ns: row.longest_ns.into(),
            });
        });
        all.name();
        (all, problems)
    }

    /// Gives all locks the names that any of them has.
    fn name(&mut self) {
        let mut names = Names::default();
        let locks = self
            .0
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::keys);
        for lock in locks {
            names.learn(&lock.target);
            lock.row.iter().for_each(|row| names.learn(row));
        }
        for found in self.0.values_mut().flat_map(BTreeMap::values_mut) {
            *found = together(std::mem::take(found), &names);
        }
    }

    /// Passes on what samples stand for, second by second: the wait, session, lock, time and nanoseconds.
    pub(crate) fn each(&self, mut take: impl FnMut(&WaitOfStatement, SessionId, &WaitedLock, i64, u128)) {
        for (wait, sessions) in &self.0 {
            for (session, found) in sessions {
                for (lock, looks) in found {
                    let at_each = looks.ns.iter();
                    at_each.for_each(|(time, ns)| take(wait, *session, lock, *time, *ns));
                }
            }
        }
    }

    /// The locks that sessions waited for in this wait. `blocked`: for how long each was blocked in it; the result sums to no more.
    pub(crate) fn of(&self, wait: &WaitOfStatement, blocked: &BTreeMap<SessionId, u128>) -> Vec<LockShare> {
        let mut sums: BTreeMap<&WaitedLock, (usize, u128)> = BTreeMap::new();
        for (session, found) in self.0.get(wait).into_iter().flatten() {
            let blocked_ns = blocked.get(session).copied().unwrap_or(0);
            let looked_ns: u128 = found.values().map(Looks::all_ns).sum();
            for (lock, looks) in found {
                let ns = match looked_ns > blocked_ns {
                    true => looks.all_ns().saturating_mul(blocked_ns) / looked_ns,
                    false => looks.all_ns(),
                };
                if ns > 0 {
                    let sum = sums.entry(lock).or_default();
                    sum.0 += 1;
                    sum.1 += ns;
                }
            }
        }
        LockShare::sorted(sums)
    }

    /// The one lock that a session waited for when blocked in this wait for `blocked_ns`, in a second or in all of them; none: there were
    /// several, or half of the time is not known.
    pub(crate) fn only(
        &self,
        wait: &WaitOfStatement,
        session: SessionId,
        time: Option<i64>,
        blocked_ns: u128,
    ) -> Option<&WaitedLock> {
        let found = self.0.get(wait)?.get(&session)?;
        let mut looked = found
            .iter()
            .map(|(lock, looks)| (lock, looks.ns_at(time)))
            .filter(|(_, ns)| *ns > 0);
        match (looked.next(), looked.next()) {
            (Some((lock, ns)), None) => {
                (lock.target.is_one() && ns.saturating_mul(2) > blocked_ns).then_some(lock)
            }
            _ => None,
        }
    }
}

/// Completes names. And if a session waited for a transaction because of one row, that was the reason all the time.
fn together(found: Found, names: &Names) -> Found {
    let complete = |(mut lock, looks): (WaitedLock, Looks)| {
        names.complete(&mut lock.target);
        lock.row.iter_mut().for_each(|row| names.complete(row));
        (lock, looks)
    };
    let found: Vec<(WaitedLock, Looks)> = found.into_iter().map(complete).collect();
    let mut rows: BTreeMap<LockTarget, BTreeSet<LockTarget>> = BTreeMap::new();
    for (lock, _) in &found {
        let of_lock = rows.entry(lock.target.clone()).or_default();
        of_lock.extend(lock.row.clone());
    }
    let mut sums = Found::new();
    for (mut lock, looks) in found {
        if let Some(row) = the_row(&rows[&lock.target]) {
            lock.row = Some(row.clone());
        }
        if lock
            .target
            .is_met_briefly(looks.all_ns(), looks.count, looks.longest_ns)
        {
            lock = lock.seen_briefly();
        }
        sums.entry(lock).or_default().add(looks);
    }
    sums
}

/// The one row of these: if only its relation is known at some times, the one known at others.
fn the_row(rows: &BTreeSet<LockTarget>) -> Option<&LockTarget> {
    let first = rows.first()?;
    let is_one_relation = rows
        .iter()
        .all(|row| row.whose_relation() == first.whose_relation());
    let mut exact = rows.iter().filter(|row| row.page.is_some());
    match (is_one_relation, exact.next(), exact.next()) {
        (true, row @ Some(_), None) => row,
        (true, None, _) => Some(first),
        _ => None,
    }
}
