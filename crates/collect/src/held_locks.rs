//! The internal locks that sessions have, as samples found them: each set of locks once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use dbtime_model::HeldLockRow;

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
#[derive(Debug, Clone)]
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
        let named: Vec<LockName> = locks.iter().map(|lock| name(*lock)).collect();
        if sets.sets.len() >= MOST_SETS {
            locks.iter_mut().for_each(|lock| lock.address = 0);
            if let Some(&number) = sets.numbers.get(&locks) {
                return number;
            }
        }
        if sets.sets.len() >= MOST_SETS_IN_ALL {
            return HeldId::NOT_READ;
        }
        let held = locks.iter().zip(named).map(|(lock, named)| HeldLock {
            named,
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

    /// Adds a row for each lock of a set: like this one, but for what is said of the lock. Where it could not be read, this one.
    pub(crate) fn add_rows(&self, held: HeldId, row: &HeldLockRow, rows: &mut Vec<HeldLockRow>) {
        if held == HeldId::NOT_READ {
            rows.push(row.clone());
            return;
        }
        let sets = self.0.borrow();
        let Some(set) = held.0.checked_sub(1).and_then(|n| sets.sets.get(n as usize)) else {
            return;
        };
        rows.extend(set.iter().map(|lock| HeldLockRow {
            lock: lock.named.name.to_string(),
            number: lock.named.number,
            address: lock.address,
            exclusive: lock.exclusive,
            ..row.clone()
        }));
    }
}

#[cfg(test)]
mod tests {
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
            number: None,
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
        let kinds = [2..20_000_u16, 20_000..20_001]
            .map(|kinds| kinds.map(|kind| held.number(&[lock(kind, 1)], name)).last());
        assert_eq!(kinds, [Some(HeldId::NOT_READ); 2]);
    }
}
