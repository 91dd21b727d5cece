//! The internal locks that sessions have, as samples found them: each set of locks once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use dbtime_model::{HeldLockRow, SessionId};

use crate::accounting::Spent;

/// Sets of locks that are remembered with the addresses of the locks. A busy server has a lock for each of its buffers: beyond that,
/// those that are alike are the same.
const MOST_SETS: usize = 50_000;
/// However it goes, not more than these are remembered: what comes then is as if it could not be read.
const MOST_SETS_IN_ALL: usize = 60_000;

/// A lock that a session has at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RawLock {
    /// What it is, as the database numbers it.
    pub(crate) kind: u16,
    /// Where it lies; 0 = not known.
    pub(crate) address: u64,
    /// Nobody else can have it.
    pub(crate) exclusive: bool,
}

/// The locks that a session has at one moment: the number of a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HeldId(u32);

impl HeldId {
    /// It has none.
    pub(crate) const NONE: HeldId = HeldId(0);
    /// It could not be read.
    pub(crate) const NOT_READ: HeldId = HeldId(u32::MAX);
}

/// What a database says of a lock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockName {
    /// As the wait event of who waits for it.
    pub(crate) name: Rc<str>,
    /// See [`HeldLockRow::number`].
    pub(crate) number: Option<u32>,
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

#[derive(Debug, Default)]
struct Sets {
    numbers: HashMap<Vec<RawLock>, HeldId>,
    /// By number, less one.
    sets: Vec<Vec<HeldLock>>,
}

impl HeldLocks {
    /// The number of a set. `name`: what the database says of a lock.
    pub(crate) fn number(&self, locks: &[RawLock], name: impl Fn(RawLock) -> LockName) -> HeldId {
        if locks.is_empty() {
            return HeldId::NONE;
        }
        let mut sets = self.0.borrow_mut();
        let mut locks = locks.to_vec();
        // In which order they were taken makes no difference.
        locks.sort_unstable();
        if let Some(&number) = sets.numbers.get(&locks) {
            return number;
        }
        if sets.sets.len() >= MOST_SETS {
            locks.iter_mut().for_each(|lock| lock.address = 0);
            locks.sort_unstable();
            if let Some(&number) = sets.numbers.get(&locks) {
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
        let held = held.collect();
        sets.sets.push(held);
        let number = HeldId(sets.sets.len() as u32);
        sets.numbers.insert(locks, number);
        number
    }

    /// The server is another one: addresses mean other locks.
    pub(crate) fn forget_addresses(&self) {
        self.0.borrow_mut().numbers.clear();
    }

    /// Adds a row for each lock that a session had while it spent so much time in this second. Where they could not be read one that
    /// says so; of one without work that does not matter.
    pub(crate) fn add_rows(
        &self,
        (time, session, spent): (i64, SessionId, &Spent),
        ns: u64,
        samples: u64,
        rows: &mut Vec<HeldLockRow>,
    ) {
        if spent.held == HeldId::NONE || (spent.held == HeldId::NOT_READ && spent.wait.idle) {
            return;
        }
        let row = |lock: &HeldLock| HeldLockRow {
            time,
            session,
            statement: spent.statement,
            lock: lock.named.name.to_string(),
            number: lock.named.number,
            address: lock.address,
            exclusive: lock.exclusive,
            mode_unknown: false,
            wait_class: spent.wait.class.to_string(),
            wait_event: spent.wait.event.to_string(),
            state: spent.state,
            kernel_stack: spent.kernel_stack,
            user_stack: spent.user_stack,
            ns,
            samples,
            gets: 0,
        };
        if spent.held == HeldId::NOT_READ {
            rows.push(row(&HeldLock::default()));
        }
        let sets = self.0.borrow();
        let set = spent
            .held
            .0
            .checked_sub(1)
            .and_then(|n| sets.sets.get(n as usize));
        rows.extend(set.into_iter().flatten().map(row));
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
        }
    }

    fn name(lock: RawLock) -> LockName {
        LockName {
            name: format!("L{}", lock.kind).into(),
            number: (lock.address != 0).then_some(lock.address as u32),
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
    fn what_has_no_room_is_remembered_by_kind_and_no_further() {
        let held = HeldLocks::default();
        for address in 1..=MOST_SETS as u64 {
            assert_ne!(held.number(&[lock(1, address)], name), HeldId::NOT_READ);
        }
        let next = [40, 41].map(|bit| held.number(&[lock(1, 1 << bit)], name));
        assert!(next[0] != HeldId::NOT_READ && next[0] == next[1]);
        // Which one of them it is nobody says then.
        let mut rows = Vec::new();
        let spent = Spent {
            wait: Wait::none(),
            statement: 0,
            session_state: SessionState::None,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            held: next[0],
            comment: dbtime_model::comment::NONE,
        };
        held.add_rows((5, SessionId(1), &spent), 7, 1, &mut rows);
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
