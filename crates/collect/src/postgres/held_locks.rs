//! Where a PostgreSQL session keeps the list of the LWLocks that it holds, and which locks these are.
//!
//! `held_lwlocks` and `num_held_lwlocks` (src/backend/storage/lmgr/lwlock.c) are static: a stripped server has no symbols for them. But
//! `LWLockHeldByMe`, which is exported, does nothing but search the list, so its code is read for their addresses. Compilers translate it
//! differently, so each pair of addresses that the code allows is checked against the memory of the postmaster.

use std::ops::Range;

use super::page_locks::page_locks;
use crate::database::LockList;
use crate::executable::Executable;
use crate::held_locks::RawLock;
use crate::memory;
use crate::small_code::{StaticData, static_data_of};
use crate::symbols::maps;

/// Bytes of an entry of the list: `LWLockHandle`.
const ENTRY: u64 = 16;
/// `MAX_SIMUL_LWLOCKS`: length of the list.
const MOST_HELD: u32 = 200;
/// `LWLockMode` has three.
const MODES: u32 = 3;
/// Locks of `MainLWLockArray` that are read: there are about two hundred, depending on the version, followed by those of extensions.
const MAIN_LOCKS: usize = 256;
/// Bytes from one of them to the next: `LWLOCK_PADDED_SIZE`.
const MAIN_STEP: u64 = 128;

/// The LWLocks of one server.
#[derive(Debug)]
pub(super) struct ServerLocks {
    /// Where each session has its list.
    pub(super) list: LockList,
    /// Address of the first lock of the server's array; 0 = not known.
    main: u64,
    /// The kinds of these locks, in order.
    kinds: Vec<u16>,
}

impl ServerLocks {
    /// For the server with this postmaster and executable. The postmaster has held locks itself, when it set up its shared memory.
    /// `is_of_page`: whether locks of this kind are those of pages.
    ///
    /// # Errors
    /// Why the list cannot be found.
    pub(super) fn of(
        postmaster: u32,
        executable: &Executable,
        is_of_page: impl Fn(u16) -> bool,
    ) -> Result<ServerLocks, &'static str> {
        let data = static_data_of(executable, "LWLockHeldByMe")
            .ok_or("the server's code does not show where its sessions list them")?;
        let (main, kinds) = main_locks(postmaster, executable).unwrap_or_default();
        let shared: Vec<Range<u64>> = maps::read(postmaster)
            .map_err(|_| "the server's mappings cannot be read")?
            .into_iter()
            .filter(|mapping| mapping.shared)
            .map(|mapping| mapping.start..mapping.end)
            .collect();
        let is_lock = |address: u64| address != main && shared.iter().any(|range| range.contains(&address));
        let list = candidates(&data)
            .into_iter()
            .find(|&list| is_confirmed(list, postmaster, is_lock))
            .ok_or("there is no list of them where the server's code points")?;
        let list = LockList {
            pages: page_locks(postmaster, executable, is_of_page),
            ..list
        };
        Ok(ServerLocks { list, main, kinds })
    }

    /// The number of a lock among its neighbours of the same kind; none if it has none.
    pub(super) fn number(&self, lock: RawLock) -> Option<u32> {
        let behind = lock.address.checked_sub(self.main).filter(|_| self.main != 0)?;
        let place = usize::try_from(behind / MAIN_STEP).ok()?;
        let is_alike = |place: usize| self.kinds.get(place) == Some(&lock.kind);
        if !behind.is_multiple_of(MAIN_STEP) || !is_alike(place) {
            return None;
        }
        let first = (0..place).rev().take_while(|&place| is_alike(place)).last();
        let is_alone = first.is_none() && !is_alike(place + 1);
        (!is_alone).then(|| (place - first.unwrap_or(place)) as u32)
    }
}

/// Where count and list may be, lowest addresses first: what follows the first entry may look like a list, too.
fn candidates(data: &[StaticData]) -> Vec<LockList> {
    let counts = data.iter().filter(|data| data.bytes == 4);
    let mut candidates: Vec<LockList> = counts
        .flat_map(|count| {
            // Its address, or the address of the lock in its first entry.
            let bases = data.iter().filter(|base| matches!(base.bytes, 0 | 8));
            // Code that increments before it compares starts one entry before the list.
            bases.flat_map(|base| {
                [base.address, base.address.saturating_add(ENTRY)].map(|list| LockList {
                    count: count.address,
                    list,
                    pages: None,
                })
            })
        })
        .collect();
    candidates.sort_unstable_by_key(|list| (list.list, list.count));
    candidates
}

/// Whether a process that has held such a lock has its list there. The first entry stays when the lock is released, so it points to a lock
/// in the server's shared memory; not to the first of them all, which nobody uses, and to which a variable next to the list points.
fn is_confirmed(list: LockList, pid: u32, is_lock: impl Fn(u64) -> bool) -> bool {
    let (mut count, mut lock, mut mode) = ([0; 4], [0; 8], [0; 4]);
    let mut parts: [(u64, &mut [u8]); 3] = [
        (list.count, &mut count),
        (list.list, &mut lock),
        (list.list.saturating_add(8), &mut mode),
    ];
    memory::read(pid, &mut parts).is_ok()
        && u32::from_ne_bytes(count) <= MOST_HELD
        && u32::from_ne_bytes(mode) < MODES
        && is_lock(u64::from_ne_bytes(lock))
}

/// Address of the first lock of `MainLWLockArray`, and the kinds of the locks there.
fn main_locks(postmaster: u32, executable: &Executable) -> Option<(u64, Vec<u16>)> {
    let [symbol] = executable.symbols(["MainLWLockArray"]).ok()?;
    let main = memory::read_u64(postmaster, symbol?.address).ok()?;
    let mut locks = vec![0; MAIN_LOCKS * MAIN_STEP as usize];
    memory::read(postmaster, &mut [(main, &mut locks)]).ok()?;
    let kind = |lock: &[u8]| u16::from_ne_bytes([lock[0], lock[1]]);
    Some((main, locks.chunks_exact(MAIN_STEP as usize).map(kind).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_a_kind_are_numbered_from_their_first() {
        let locks = ServerLocks {
            list: LockList {
                count: 0,
                list: 0,
                pages: None,
            },
            main: 0x1000,
            kinds: vec![0, 1, 7, 7, 7, 2],
        };
        let number = |kind, address| {
            let lock = RawLock {
                kind,
                address,
                exclusive: true,
                page: None,
            };
            locks.number(lock)
        };
        assert_eq!(
            [2, 3, 4].map(|n| number(7, 0x1000 + n * MAIN_STEP)),
            [Some(0), Some(1), Some(2)]
        );
        // The only one of its kind, another kind than is there, between two, and outside.
        assert_eq!(number(1, 0x1000 + MAIN_STEP), None);
        assert_eq!(number(9, 0x1000 + 2 * MAIN_STEP), None);
        assert_eq!(number(7, 0x1008 + 2 * MAIN_STEP), None);
        assert_eq!(
            [0, 0x1000 + 99 * MAIN_STEP].map(|address| number(7, address)),
            [None, None]
        );
    }

    #[test]
    fn the_list_lies_where_the_code_says_or_an_entry_behind() {
        let at = |address, bytes| StaticData { address, bytes };
        let lists: Vec<u64> = candidates(&[at(0x900, 4), at(0x100, 0)])
            .into_iter()
            .map(|list| list.list)
            .collect();
        assert_eq!(lists, [0x100, 0x110]);
        let peeled = [at(0x900, 4), at(0x100, 8), at(0x110, 0)];
        assert_eq!(candidates(&peeled)[0].list, 0x100);
        assert_eq!(candidates(&[at(0x900, 4)]), []);
    }
}
