//! The internal locks that sessions hold, as samples found them; each set of locks is kept once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use arcstr::ArcStr;
use dbtime_model::{HeldLockRow, SessionId};

use crate::accounting::Spent;

/// Maximum number of sets remembered with the addresses and pages of their locks. A busy server has a lock for each of its buffers, and
/// many more pages: beyond this, sets that differ only in these become one, until unused sets are next forgotten.
const MOST_SETS: usize = 50_000;
/// Maximum number of sets in any case: further ones are treated as if they could not be read.
const MOST_SETS_IN_ALL: usize = 60_000;

/// If there is no room, sets that nobody held for this long are forgotten: a second is reported a few seconds later at most.
const UNUSED: Duration = Duration::from_secs(60);

/// A page of a file, as the database numbers both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawPage {
    pub(crate) tablespace: u32,
    /// 0 = of no single database.
    pub(crate) database: u32,
    /// Number of the relation's files.
    pub(crate) file: u32,
    /// Which of them: 0 = the relation itself.
    pub(crate) fork: u32,
    pub(crate) block: u32,
}

impl RawPage {
    /// From the five numbers in the order of the fields; None if it was not read.
    pub(crate) fn of([tablespace, database, file, fork, block]: [u32; 5]) -> Option<RawPage> {
        (file != 0).then_some(RawPage {
            tablespace,
            database,
            file,
            fork,
            block,
        })
    }
}

/// A lock that a session holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawLock {
    /// What it is, as the database numbers it.
    pub(crate) kind: u16,
    /// 0 = not known.
    pub(crate) address: u64,
    /// Nobody else can hold it.
    pub(crate) exclusive: bool,
    /// The page that it belongs to; None: none, or not known.
    pub(crate) page: Option<RawPage>,
}

/// The locks that a session holds at one moment: the number of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HeldId(u32);

impl HeldId {
    /// It holds none.
    pub(crate) const NONE: HeldId = HeldId(0);
    /// They could not be read.
    pub(crate) const NOT_READ: HeldId = HeldId(u32::MAX);
}

/// What a database says about a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockName {
    /// As the wait event of a session that waits for it.
    pub(crate) name: ArcStr,
    /// See [`HeldLockRow::number`].
    pub(crate) number: Option<u32>,
    /// See [`HeldLockRow::file`].
    pub(crate) file: ArcStr,
    /// See [`HeldLockRow::block`].
    pub(crate) block: Option<u32>,
}

/// A lock of a set, as rows have it.
#[derive(Debug, Clone, Default)]
struct HeldLock {
    named: LockName,
    address: u64,
    exclusive: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks(RefCell<Sets>);

#[derive(Debug)]
struct Sets {
    numbers: HashMap<Vec<RawLock>, HeldId>,
    sets: HashMap<HeldId, Set>,
    /// The last number that was assigned.
    last: u32,
    /// When unused sets were last forgotten.
    swept: Instant,
}

#[derive(Debug)]
struct Set {
    locks: Vec<HeldLock>,
    /// Since the last sweep.
    is_used: bool,
}

impl Default for Sets {
    fn default() -> Sets {
        Sets {
            numbers: HashMap::new(),
            sets: HashMap::new(),
            last: 0,
            swept: Instant::now(),
        }
    }
}

impl Sets {
    fn known(&mut self, locks: &[RawLock]) -> Option<HeldId> {
        let number = *self.numbers.get(locks)?;
        self.sets.get_mut(&number)?.is_used = true;
        Some(number)
    }

    /// Forgets what nobody has held since the last time.
    fn sweep(&mut self) {
        self.sets
            .retain(|_, set| std::mem::replace(&mut set.is_used, false));
        self.numbers.retain(|_, number| self.sets.contains_key(number));
        self.swept = Instant::now();
    }

    /// The next number that no set has.
    fn next(&mut self) -> HeldId {
        loop {
            self.last = self.last.wrapping_add(1);
            let number = HeldId(self.last);
            let is_free = number != HeldId::NONE && number != HeldId::NOT_READ;
            if is_free && !self.sets.contains_key(&number) {
                return number;
            }
        }
    }
}

impl HeldLocks {
    /// The number of a set. `name`: what the database says about a lock.
    pub(crate) fn number(&self, locks: &[RawLock], name: impl Fn(RawLock) -> LockName) -> HeldId {
        if locks.is_empty() {
            return HeldId::NONE;
        }
        let mut sets = self.0.borrow_mut();
        let mut locks = locks.to_vec();
        // The order in which they were taken makes no difference.
        locks.sort_unstable();
        if let Some(number) = sets.known(&locks) {
            return number;
        }
        if sets.sets.len() >= MOST_SETS && sets.swept.elapsed() >= UNUSED {
            sets.sweep();
        }
        if sets.sets.len() >= MOST_SETS {
            locks
                .iter_mut()
                .for_each(|lock| (lock.address, lock.page) = (0, None));
            locks.sort_unstable();
            if let Some(number) = sets.known(&locks) {
                return number;
            }
        }
        if sets.sets.len() >= MOST_SETS_IN_ALL {
            return HeldId::NOT_READ;
        }
        let held = locks.iter().map(|lock| HeldLock {
            named: name(*lock),
            address: lock.address,
            exclusive: lock.exclusive,
        });
        let set = Set {
            locks: held.collect(),
            is_used: true,
        };
        let number = sets.next();
        sets.sets.insert(number, set);
        sets.numbers.insert(locks, number);
        number
    }

    /// The server has changed: addresses now mean other locks.
    pub(crate) fn forget_addresses(&self) {
        self.0.borrow_mut().numbers.clear();
    }

    /// Adds a row for each lock that the session held during this time. If the locks could not be read, adds one that says so, unless the
    /// session was idle.
    pub(crate) fn add_rows(
        &self,
        (time, session, spent): (i64, SessionId, &Spent),
        ns: u64,
        samples: u64,
        rows: &mut Vec<HeldLockRow>,
    ) {
        if spent.held == HeldId::NONE {
            return;
        }
        let row = |lock: &HeldLock| HeldLockRow {
            time,
            session,
            statement: spent.statement,
            lock: lock.named.name.clone(),
            number: lock.named.number,
            address: lock.address,
            file: ArcStr::clone(&lock.named.file),
            relation: ArcStr::new(),
            block: lock.named.block,
            exclusive: lock.exclusive,
            mode_unknown: false,
            wait_class: spent.wait.class.clone(),
            wait_event: spent.wait.event.clone(),
            state: spent.state,
            kernel_stack: spent.kernel_stack,
            user_stack: spent.user_stack,
            ns,
            samples,
            gets: 0,
        };
        match self.0.borrow_mut().sets.get_mut(&spent.held) {
            Some(set) => {
                set.is_used = true;
                rows.extend(set.locks.iter().map(row));
            }
            None if spent.wait.idle => {}
            None => rows.push(row(&HeldLock::default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::{NO_STACK, SessionState, State, Wait};

    use super::*;

    fn lock(kind: u16, address: u64) -> RawLock {
        RawLock {
            kind,
            address,
            exclusive: true,
            page: None,
        }
    }

    fn name(lock: RawLock) -> LockName {
        LockName {
            name: format!("L{}", lock.kind).into(),
            number: (lock.address != 0).then_some(lock.address as u32),
            ..LockName::default()
        }
    }

    fn spent(held: HeldId) -> Spent {
        Spent {
            wait: Wait::none(),
            statement: 0,
            plan: 0,
            session_state: SessionState::None,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            held,
            comment: dbtime_model::comment::NONE,
        }
    }

    #[test]
    fn a_set_has_one_number_in_whatever_order() {
        let held = HeldLocks::default();
        let (one, two) = (lock(1, 16), lock(2, 32));
        let number = held.number(&[one, two], name);
        assert_eq!(held.number(&[two, one], name), number);
        assert_ne!(held.number(&[one], name), number);
        assert_eq!(held.number(&[], name), HeldId::NONE);
        // After a restart the same address may be another lock.
        held.forget_addresses();
        assert_ne!(held.number(&[two, one], name), number);
    }

    #[test]
    fn what_nobody_had_for_a_while_makes_room() {
        let held = HeldLocks::default();
        let (used, unused) = (
            held.number(&[lock(1, 16)], name),
            held.number(&[lock(1, 32)], name),
        );
        held.0.borrow_mut().sweep();
        // A session holds it all the time.
        let rows = |id| {
            let mut rows = Vec::new();
            held.add_rows((5, SessionId(1), &spent(id)), 7, 1, &mut rows);
            rows
        };
        assert_eq!(rows(used)[0].address, 16);
        held.0.borrow_mut().sweep();
        assert_eq!(rows(used)[0].address, 16);
        assert_eq!(held.number(&[lock(1, 16)], name), used);
        // What the other one was is no longer known, and its number is not reused.
        let forgotten = rows(unused);
        assert_eq!((&*forgotten[0].lock, forgotten[0].ns), ("", 7));
        assert_ne!(held.number(&[lock(1, 48)], name), unused);
    }

    #[test]
    fn what_has_no_room_is_remembered_by_kind_and_no_further() {
        let held = HeldLocks::default();
        for address in 1..=MOST_SETS as u64 {
            assert_ne!(held.number(&[lock(1, address)], name), HeldId::NOT_READ);
        }
        let next = [40, 41].map(|bit| held.number(&[lock(1, 1 << bit)], name));
        assert!(next[0] != HeldId::NOT_READ && next[0] == next[1]);
        // It is then unknown which of them it is.
        let mut rows = Vec::new();
        held.add_rows((5, SessionId(1), &spent(next[0])), 7, 1, &mut rows);
        let said: Vec<_> = rows
            .iter()
            .map(|row| (&*row.lock, row.number, row.address, row.ns))
            .collect();
        assert_eq!(said, [("L1", None, 0, 7)]);
        let kinds = [2..20_000_u16, 20_000..20_001]
            .map(|kinds| kinds.map(|kind| held.number(&[lock(kind, 1)], name)).last());
        assert_eq!(kinds, [Some(HeldId::NOT_READ); 2]);
    }
}
