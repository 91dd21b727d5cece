//! The `PGPROC`s of a server as they were read last: all of them while sessions begin, and now and then; in between those that were in
//! use. Most are not, in most servers, and to read them all is most of what a look at the lock table costs (110 KB for a hundred
//! connections, 0.3 to 0.7 ms where caches are cold).

use std::time::{Duration, Instant};

use super::proc_array::ProcArray;
use super::record_fields::number;
use crate::memory;

/// For so long all of them are read when a session has begun: it takes a while until it has its place.
const BEGINS: Duration = Duration::from_millis(300);
/// So often all of them are read: somebody may have begun whom nobody told of.
const ALL_EVERY: Duration = Duration::from_secs(10);
/// Parts that are read in one system call: `IOV_MAX` is 1024.
const MOST_PARTS: usize = 512;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ProcEntries {
    /// Of all. It is too large to be had for nothing each time.
    bytes: Vec<u8>,
    /// Which of them were in use when all were read, in order.
    used: Vec<usize>,
    /// When that was.
    all: Option<Instant>,
    /// How many sessions have begun, and when the last one was told of.
    begun: Option<(u64, Instant)>,
}

impl ProcEntries {
    /// Reads those in use. `begun`: how many sessions have begun so far. None: they cannot be read.
    pub(super) fn read(&mut self, array: &ProcArray, begun: u64) -> Option<()> {
        let now = Instant::now();
        let (_, since) = *self.begun.insert(
            self.begun
                .filter(|known| known.0 == begun)
                .unwrap_or((begun, now)),
        );
        let is_known = |all: &Instant| *all >= since + BEGINS && now < *all + ALL_EVERY;
        let parts = self.all.filter(is_known).map(|_| self.parts());
        let Some(parts) = parts.filter(|parts| parts.len() <= MOST_PARTS) else {
            self.all = None;
            self.bytes.resize(array.len() * array.step, 0);
            memory::read(array.postmaster, &mut [(array.first, &mut self.bytes)]).ok()?;
            let is_used = |place: &usize| {
                // What is behind those of processes has no pid.
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

    /// Of so many processes and one prepared transaction, in our own memory.
    fn array(memory: &[u8]) -> ProcArray {
        let fast_path = FastPath {
            bits: 0,
            relations: 0,
            virtualxid: 0,
            groups: None,
        };
        let processes = memory.len() / STEP - 1;
        let first = memory.as_ptr() as u64;
        ProcArray::made_by_hand(
            std::process::id(),
            first,
            (STEP, processes, 1),
            (184, PID),
            fast_path,
        )
    }

    fn began_long_ago(begun: u64) -> ProcEntries {
        ProcEntries {
            begun: Some((begun, Instant::now() - 2 * ALL_EVERY)),
            ..ProcEntries::default()
        }
    }

    fn set(memory: &mut [u8], place: usize, at: usize, value: u8) {
        memory[place * STEP + at] = value;
    }

    #[test]
    fn those_in_use_are_read_and_whoever_is_new_when_sessions_have_begun() {
        let mut memory = vec![0; 8 * STEP];
        for place in [1, 2, 5] {
            set(&mut memory, place, PID, 100);
        }
        let mut entries = began_long_ago(3);
        entries.read(&array(&memory), 3).unwrap();
        assert_eq!(entries.used(), [1, 2, 5, 7]);
        assert_eq!(entries.parts(), [(1, 3), (5, 6), (7, 8)]);
        // What these do is seen; of another one not before somebody has begun.
        for place in 0..8 {
            set(&mut memory, place, 8, 10 + place as u8);
        }
        set(&mut memory, 3, PID, 100);
        let array = array(&memory);
        entries.read(&array, 3).unwrap();
        let of = |entries: &ProcEntries| Vec::from_iter((0..8).map(|place| entries.of(&array, place)[8]));
        assert_eq!(of(&entries), [0, 11, 12, 0, 0, 15, 0, 17]);
        assert_eq!(entries.used(), [1, 2, 5, 7]);
        entries.read(&array, 4).unwrap();
        assert_eq!(of(&entries), [10, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(entries.used(), [1, 2, 3, 5, 7]);
        // Whoever has begun may get his place only now.
        set(&mut memory, 6, PID, 100);
        entries.read(&array, 4).unwrap();
        assert_eq!(entries.used(), [1, 2, 3, 5, 6, 7]);
    }

    #[test]
    fn all_are_read_now_and_then_and_where_nothing_can_be_read_nothing_is_known() {
        let mut memory = vec![0; 3 * STEP];
        let mut entries = began_long_ago(1);
        entries.read(&array(&memory), 1).unwrap();
        assert_eq!(entries.used(), [2]);
        set(&mut memory, 0, PID, 1);
        entries.read(&array(&memory), 1).unwrap();
        assert_eq!(entries.used(), [2]);
        entries.all = Some(Instant::now() - ALL_EVERY);
        entries.read(&array(&memory), 1).unwrap();
        assert_eq!(entries.used(), [0, 2]);
        let mut nowhere = array(&memory);
        nowhere.first = 16;
        assert!(entries.read(&nowhere, 2).is_none());
        assert!(entries.read(&nowhere, 2).is_none());
    }
}
