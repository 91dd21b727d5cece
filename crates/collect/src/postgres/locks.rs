//! Who blocks a session that waits for a lock, as pg_blocking_pids reports it: from the server's lock table, read in the memory of the
//! waiting session, without a connection.
//!
//! `MyProc`, which is exported, points to the server's record of a process (`PGPROC` in src/include/storage/proc.h). Its layout depends on
//! the version, so fields are recognized by their contents: the pid, in several processes; and, next to each other, the lock that it waits
//! for and its own request, which points back to the lock and to it. `LOCK` and `PROCLOCK` (src/include/storage/lock.h) are the same from
//! 14 to 18. None of the server's locks are taken: what does not point back was changed meanwhile, and is not used.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::record_fields::{address, is_pointer, number, place_of_pid};
use crate::database::Holder;
use crate::executable::Executable;
use crate::{memory, process};

/// Bytes of `PGPROC` that are searched for its pid and for what it waits for.
const PROC: usize = 512;
/// Bytes of `PROCLOCK` that are read.
const PROCLOCK: usize = 48;
/// Offsets in `LOCK`: the list of requests, and the queue of waiters.
const REQUESTS: u64 = 24;
const QUEUE: u64 = 40;
/// Offsets in `PROCLOCK`: the leader of the lock group that it is for, the modes that are held, its link in the list of requests.
const LEADER: usize = 16;
const HELD: usize = 24;
const LINK: u64 = 32;
/// Requests read of one lock at most.
const MOST_REQUESTS: usize = 20_000;
/// How long the lock table is read at a time.
const PATIENCE: Duration = Duration::from_millis(30);
/// Processes from which the offset of the pid is found.
const WITNESSES: usize = 3;

/// Conflicting modes, as bits, by the number of a lock's mode (`LockConflicts` in src/backend/storage/lmgr/lock.c; the table in the
/// documentation, 13.3).
const CONFLICTS: [u32; 9] = [
    0,
    1 << 8,
    1 << 7 | 1 << 8,
    1 << 5 | 1 << 6 | 1 << 7 | 1 << 8,
    1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8,
    1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8,
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8,
    0b1_1111_1100,
    0b1_1111_1110,
];

/// The lock table of one server.
pub(super) struct LockTable {
    /// Address of `MyProc`, the same in all processes.
    pointer: u64,
    /// Offset of `pid` in `PGPROC`.
    pid: u64,
    /// Offset of `waitLock` in it, once a session was seen waiting.
    wait: Cell<Option<usize>>,
}

/// A session's request that is not granted.
struct Request {
    /// Its `PGPROC`.
    process: u64,
    lock: u64,
    mode: u32,
    leader: u64,
}

/// What is known of a lock.
#[derive(Default)]
struct Lock {
    /// Who holds it: `PGPROC`, that of the leader of its group, and the modes.
    holders: Vec<(u64, u64, u32)>,
    /// Who waits for it, in order: `PGPROC`, and the mode.
    queue: Vec<(u64, u32)>,
}

impl LockTable {
    /// For the server with this postmaster, with the layout found in these of its processes; none if it is not found.
    pub(super) fn of(postmaster: u32, processes: &[u32]) -> Option<LockTable> {
        let [symbol] = Executable::of(postmaster).ok()?.symbols(["MyProc"]).ok()?;
        let pointer = symbol?.address;
        let records = processes
            .iter()
            .filter_map(|&pid| Some((process::innermost_pid(pid)?, own_record(pid, pointer)?.1)));
        Some(LockTable {
            pointer,
            pid: place_of_pid(records.take(WITNESSES), PROC)? as u64,
            wait: Cell::new(None),
        })
    }

    /// Who blocks each of these sessions that waits for a lock. `host_pid`: the pid on this host for one that the server knows.
    pub(super) fn blockers(
        &self,
        waiting: &[u32],
        host_pid: impl Fn(u32) -> Option<u32>,
    ) -> Vec<(u32, Vec<Holder>)> {
        let mut locks: HashMap<u64, Option<Lock>> = HashMap::new();
        let begin = Instant::now();
        let mut blockers = Vec::new();
        for &pid in waiting {
            if begin.elapsed() > PATIENCE {
                break;
            }
            let Some(request) = self.request(pid) else {
                continue;
            };
            let lock = locks
                .entry(request.lock)
                .or_insert_with(|| self.lock(pid, request.lock));
            let Some(lock) = lock else {
                continue;
            };
            let holders =
                lock.blockers_of(&request).into_iter().filter_map(|process| {
                    match memory::read_u32(pid, process.checked_add(self.pid)?).ok()? {
                        0 => Some(Holder::Prepared),
                        named => host_pid(named).map(Holder::Process),
                    }
                });
            let holders: Vec<Holder> = holders.collect();
            // It may have been granted meanwhile.
            let is_waiting = self.request(pid).is_some_and(|now| now.lock == request.lock);
            if is_waiting && !holders.is_empty() {
                blockers.push((pid, holders));
            }
        }
        blockers
    }

    /// What a process waits for; none if it waits for no lock.
    fn request(&self, pid: u32) -> Option<Request> {
        let (process, bytes) = own_record(pid, self.pointer)?;
        let places = match self.wait.get() {
            Some(place) => place..place + 1,
            None => 0..PROC - 24,
        };
        places
            .step_by(8)
            .find_map(|place| self.request_at(pid, process, &bytes, place))
    }

    /// The request at this offset, if it points back.
    fn request_at(&self, pid: u32, process: u64, bytes: &[u8], place: usize) -> Option<Request> {
        let (lock, own) = (address(bytes, place), address(bytes, place + 8));
        if !is_pointer(lock) || !is_pointer(own) {
            return None;
        }
        let mut request = [0; PROCLOCK];
        memory::read(pid, &mut [(own, &mut request)]).ok()?;
        let mode = number(bytes, place + 16);
        if (address(&request, 0), address(&request, 8)) != (lock, process)
            || !(1..CONFLICTS.len() as u32).contains(&mode)
        {
            return None;
        }
        self.wait.set(Some(place));
        Some(Request {
            process,
            lock,
            mode,
            leader: address(&request, LEADER),
        })
    }

    /// Reads a lock; none if it was changed meanwhile.
    fn lock(&self, pid: u32, at: u64) -> Option<Lock> {
        let mut lock = Lock::default();
        list(pid, at + REQUESTS, |node| {
            let mut request = [0; PROCLOCK];
            memory::read(pid, &mut [(node.checked_sub(LINK)?, &mut request)]).ok()?;
            let held = number(&request, HELD);
            if held != 0 {
                let holder = (address(&request, 8), address(&request, LEADER), held);
                lock.holders.push(holder);
            }
            (address(&request, 0) == at).then(|| address(&request, LINK as usize + 8))
        })?;
        let place = self.wait.get()?;
        // A `PGPROC` begins with its link in the queue.
        list(pid, at + QUEUE, |process| {
            let mut bytes = [0; PROC];
            memory::read(pid, &mut [(process, &mut bytes)]).ok()?;
            lock.queue.push((process, number(&bytes, place + 16)));
            (address(&bytes, place) == at).then(|| address(&bytes, 8))
        })?;
        Some(lock)
    }
}

impl Lock {
    /// Who must release it, or, if nobody must, who is ahead in the queue and gets it first. Processes of one lock group do not wait for
    /// each other.
    fn blockers_of(&self, request: &Request) -> Vec<u64> {
        let conflicts = CONFLICTS[request.mode as usize];
        let blocks =
            |&&(_, leader, held): &&(u64, u64, u32)| held & conflicts != 0 && leader != request.leader;
        let holders: Vec<u64> = self
            .holders
            .iter()
            .filter(blocks)
            .map(|&(process, ..)| process)
            .collect();
        if !holders.is_empty() {
            return holders;
        }
        let ahead = self
            .queue
            .iter()
            .take_while(|(process, _)| *process != request.process);
        let comes_first = ahead.filter(|(_, mode)| *mode < 32 && conflicts >> mode & 1 != 0);
        comes_first.map(|&(process, _)| process).collect()
    }
}

/// Follows a list of the server: `visit` gets the address of each link, and returns that of the next. None if a link was invalid, or there
/// are too many.
fn list(pid: u32, head: u64, mut visit: impl FnMut(u64) -> Option<u64>) -> Option<()> {
    let mut node = memory::read_u64(pid, head.checked_add(8)?).ok()?;
    // A queue that was never used has no links.
    if node == 0 {
        return Some(());
    }
    for _ in 0..MOST_REQUESTS {
        if node == head {
            return Some(());
        }
        node = visit(node)?;
    }
    None
}

/// The record of a process, and its address.
fn own_record(pid: u32, pointer: u64) -> Option<(u64, [u8; PROC])> {
    let record = memory::read_u64(pid, pointer)
        .ok()
        .filter(|record| *record != 0)?;
    let mut bytes = [0; PROC];
    memory::read(pid, &mut [(record, &mut bytes)]).ok()?;
    Some((record, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u64 = 64;
    const WAIT: usize = 112;
    const SHARE: u32 = 5;
    const EXCLUSIVE: u32 = 7;

    /// A server's memory, mocked up in our own: records of processes, one lock, and requests for it.
    struct Memory {
        pointer: Box<u64>,
        processes: Vec<[u64; PROC / 8]>,
        lock: Box<[u64; 8]>,
        requests: Vec<[u64; 6]>,
    }

    fn address_of<const N: usize>(record: &[u64; N]) -> u64 {
        record.as_ptr() as u64
    }

    impl Memory {
        /// Processes with these pids: the modes that they hold, and the one that they wait for (0 = none), in order. The last one is
        /// examined.
        fn of(processes: &[(u32, &[u32], u32)]) -> Memory {
            let mut memory = Memory {
                pointer: Box::new(0),
                processes: processes.iter().map(|_| [0; PROC / 8]).collect(),
                lock: Box::new([0; 8]),
                requests: processes.iter().map(|_| [0; 6]).collect(),
            };
            let lock = address_of(&memory.lock);
            let links: Vec<u64> = memory
                .requests
                .iter()
                .map(|request| address_of(request) + LINK)
                .collect();
            let waiting = processes
                .iter()
                .zip(&memory.processes)
                .filter(|((.., mode), _)| *mode != 0);
            let queue: Vec<u64> = waiting.map(|(_, record)| address_of(record)).collect();
            let after = |list: &[u64], head: u64, of: u64| {
                let place = list.iter().position(|link| *link == of);
                list.get(place.map_or(0, |place| place + 1))
                    .copied()
                    .unwrap_or(head)
            };
            memory.lock[4] = after(&links, lock + REQUESTS, 0);
            memory.lock[6] = after(&queue, lock + QUEUE, 0);
            for (place, &(pid, held, mode)) in processes.iter().enumerate() {
                let request = address_of(&memory.requests[place]);
                let record = &mut memory.processes[place];
                let own = address_of(record);
                record[PID as usize / 8] = u64::from(pid);
                if mode != 0 {
                    record[1] = after(&queue, lock + QUEUE, own);
                    record[WAIT / 8] = lock;
                    record[WAIT / 8 + 1] = request;
                    record[WAIT / 8 + 2] = u64::from(mode);
                }
                let held = held.iter().fold(0u64, |bits, mode| bits | 1 << mode);
                let next = after(&links, lock + REQUESTS, request + LINK);
                memory.requests[place] = [lock, own, own, held, 0, next];
                *memory.pointer = own;
            }
            memory
        }

        fn blockers(&self) -> Vec<Holder> {
            let table = LockTable {
                pointer: &raw const *self.pointer as u64,
                pid: PID,
                wait: Cell::new(None),
            };
            let mut blockers = table.blockers(&[std::process::id()], Some);
            blockers.pop().map(|(_, holders)| holders).unwrap_or_default()
        }
    }

    #[test]
    fn who_holds_it_blocks_and_else_who_is_ahead_in_the_queue() {
        let both = Memory::of(&[
            (1, &[SHARE], 0),
            (2, &[1], 0),
            (0, &[SHARE, 1], 0),
            (9, &[], EXCLUSIVE),
        ]);
        assert_eq!(both.blockers(), [Holder::Process(1), Holder::Prepared]);
        // Readers do not block a reader; the one ahead that wants it exclusively does, the one behind does not.
        let queue = Memory::of(&[(1, &[1], 0), (2, &[], 8), (3, &[], 1), (9, &[], 1)]);
        assert_eq!(queue.blockers(), [Holder::Process(2)]);
        assert_eq!(
            Memory::of(&[(1, &[SHARE], 0), (9, &[1], 0)]).blockers(),
            [],
            "it does not wait"
        );
    }

    #[test]
    fn memory_that_is_changed_meanwhile_or_hostile_names_nobody() {
        let scene = || Memory::of(&[(1, &[EXCLUSIVE], 0), (9, &[], SHARE)]);
        assert_eq!(scene().blockers(), [Holder::Process(1)]);
        for wrong in [0, 1, 8, u64::MAX, u64::MAX - 8] {
            for place in [0, 1, 5] {
                let mut memory = scene();
                memory.requests[0][place] = wrong;
                assert_eq!(memory.blockers(), [], "request {place}: {wrong:#x}");
            }
            for place in [4, 6] {
                let mut memory = scene();
                memory.lock[place] = wrong;
                memory.blockers();
            }
        }
        // A list without an end.
        let mut memory = scene();
        let first = address_of(&memory.requests[0]) + LINK;
        memory.requests[0][5] = first;
        assert_eq!(memory.blockers(), []);
    }
}
