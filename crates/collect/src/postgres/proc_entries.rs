//! The `PGPROC`s of a server as they were last read: those in use, and now and then all of them. In most servers most are unused, and
//! reading all of them is most of the cost of reading the lock table (110 KB for a hundred connections, 0.3 to 0.7 ms with cold caches).
//! The memory of a new process says which one it has.

use std::time::{Duration, Instant};

use super::proc_array::ProcArray;
use super::record_fields::number;
use crate::memory;

/// How long a new process takes to get its place, unless its client is slow.
const BEGINS: Duration = Duration::from_secs(2);
/// New processes that are asked for their place at a time; if there are more, all places are read.
const ASKED: usize = 64;
/// How often all of them are read: a process may have started unnoticed.
const ALL_EVERY: Duration = Duration::from_secs(10);
/// Parts that are read in one system call: `IOV_MAX` is 1024.
const MOST_PARTS: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ProcEntries {
    /// Of all of them. Too large to allocate each time.
    bytes: Vec<u8>,
    /// Which of them are in use, or were when all were read, in order.
    used: Vec<usize>,
    /// When all were read.
    all: Option<Instant>,
    /// New processes whose place is not known yet, and since when they have been waited for.
    awaited: Vec<(u32, Instant)>,
}

impl ProcEntries {
    /// Reads those in use. `newcomers`: processes that have started since the last time. None: they cannot be read.
    pub(super) fn read(&mut self, array: &ProcArray, newcomers: &[u32]) -> Option<()> {
        let now = Instant::now();
        self.awaited.retain(|(_, since)| now < *since + BEGINS);
        self.awaited.extend(newcomers.iter().map(|&pid| (pid, now)));
        let mut parts = None;
        if self.all.is_some_and(|all| now < all + ALL_EVERY) && self.awaited.len() <= ASKED {
            self.find_awaited(array);
            parts = Some(self.parts()).filter(|parts| parts.len() <= MOST_PARTS);
        }
        let Some(parts) = parts else {
            self.all = None;
            self.bytes.resize(array.len() * array.step, 0);
            memory::read(array.postmaster, &mut [(array.first, &mut self.bytes)]).ok()?;
            let is_used = |place: &usize| {
                // What follows those of processes has no pid.
                *place >= array.processes || number(self.of(array, *place), array.pid) != 0
            };
            self.used = (0..array.len()).filter(is_used).collect();
            self.all = Some(now);
            return Some(());
        };
        let mut rest = self.bytes.as_mut_slice();
        let mut end = 0;
        let mut wanted = Vec::with_capacity(parts.len());
        for (first, behind) in parts {
            let (_, from) = rest.split_at_mut((first - end) * array.step);
            let (bytes, others) = from.split_at_mut((behind - first) * array.step);
            wanted.push((array.address(first), bytes));
            (rest, end) = (others, behind);
        }
        if wanted.is_empty() {
            return Some(());
        }
        memory::read(array.postmaster, &mut wanted).ok()
    }

    /// Asks new processes for their places. One that is gone, or cannot be read, is not asked again.
    fn find_awaited(&mut self, array: &ProcArray) {
        let before = self.used.len();
        self.awaited
            .retain(|(pid, _)| match array.place_of_process(*pid) {
                Ok(Some(place)) => {
                    self.used.push(place);
                    false
                }
                Ok(None) => true,
                Err(_) => false,
            });
        if self.used.len() > before {
            self.used.sort_unstable();
            self.used.dedup();
        }
    }

    /// One of them.
    pub(super) fn of<'a>(&'a self, array: &ProcArray, place: usize) -> &'a [u8] {
        &self.bytes[place * array.step..][..array.step]
    }

    /// Those that were in use.
    pub(super) fn used(&self) -> &[usize] {
        &self.used
    }

    /// First and end of each run of neighbours that are in use.
    fn parts(&self) -> Vec<(usize, usize)> {
        let neighbours = self.used.chunk_by(|one, other| one + 1 == *other);
        neighbours
            .filter_map(|run| Some((*run.first()?, run.last()? + 1)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::proc_array::FastPath;
    use super::*;

    const STEP: usize = 512;
    const PID: usize = 64;

    /// An array with one prepared transaction, in our own memory; `own`: where we have the address of ours.
    fn array(memory: &[u8], own: &u64) -> ProcArray {
        let fast_path = FastPath {
            bits: 0,
            relations: 0,
            virtualxid: 0,
            groups: None,
        };
        let processes = memory.len() / STEP - 1;
        ProcArray::made_by_hand(
            std::process::id(),
            (std::ptr::from_ref(own) as u64, memory.as_ptr() as u64),
            (STEP, processes, 1),
            (184, PID),
            fast_path,
        )
    }

    fn set(memory: &mut [u8], place: usize, at: usize, value: u8) {
        memory[place * STEP + at] = value;
    }

    #[test]
    fn those_in_use_are_read_and_that_of_whoever_has_begun() {
        let mut memory = vec![0; 8 * STEP];
        for place in [1, 2, 5] {
            set(&mut memory, place, PID, 100);
        }
        let mut own = 0;
        let mut entries = ProcEntries::default();
        entries.read(&array(&memory, &own), &[]).unwrap();
        assert_eq!(entries.used(), [1, 2, 5, 7]);
        assert_eq!(entries.parts(), [(1, 3), (5, 6), (7, 8)]);
        // Changes in these are seen; in another one only once a new process is announced.
        for place in 0..8 {
            set(&mut memory, place, 8, 10 + place as u8);
        }
        set(&mut memory, 3, PID, 100);
        let of = |entries: &ProcEntries, array: &ProcArray| {
            Vec::from_iter((0..8).map(|place| entries.of(array, place)[8]))
        };
        let before = array(&memory, &own);
        entries.read(&before, &[]).unwrap();
        assert_eq!(of(&entries, &before), [0, 11, 12, 0, 0, 15, 0, 17]);
        assert_eq!(entries.used(), [1, 2, 5, 7]);
        // A new process may get its place only later.
        entries.read(&before, &[std::process::id()]).unwrap();
        assert_eq!(entries.used(), [1, 2, 5, 7]);
        own = before.address(3);
        let after = array(&memory, &own);
        entries.read(&after, &[]).unwrap();
        assert_eq!(of(&entries, &after), [0, 11, 12, 13, 0, 15, 0, 17]);
        assert_eq!(entries.used(), [1, 2, 3, 5, 7]);
        assert!(entries.awaited.is_empty());
    }

    #[test]
    fn where_very_many_begin_and_now_and_then_all_are_read() {
        let mut memory = vec![0; 3 * STEP];
        let own = 0;
        let mut entries = ProcEntries::default();
        entries.read(&array(&memory, &own), &[]).unwrap();
        assert_eq!(entries.used(), [2]);
        set(&mut memory, 0, PID, 1);
        // A process that is gone has no place.
        entries.read(&array(&memory, &own), &[u32::MAX >> 1]).unwrap();
        assert_eq!(entries.used(), [2]);
        entries
            .read(&array(&memory, &own), &[std::process::id(); ASKED + 1])
            .unwrap();
        assert_eq!(entries.used(), [0, 2]);
        set(&mut memory, 1, PID, 1);
        entries.awaited.clear();
        entries.read(&array(&memory, &own), &[]).unwrap();
        assert_eq!(entries.used(), [0, 2]);
        entries.all = Some(Instant::now() - ALL_EVERY);
        entries.read(&array(&memory, &own), &[]).unwrap();
        assert_eq!(entries.used(), [0, 1, 2]);
        // If nothing can be read, nothing is known.
        let mut nowhere = array(&memory, &own);
        nowhere.first = 16;
        entries.all = None;
        assert!(entries.read(&nowhere, &[]).is_none());
        assert!(entries.read(&nowhere, &[]).is_none());
    }
}
