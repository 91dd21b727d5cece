//! Every lock in a server's lock table, as pg_locks lists them: who holds it or waits for it, read from the server's shared memory without
//! a connection.
//!
//! None of the server's own locks are taken, so it may change what is being read. The locks of each process are in lists (`myProcLocks`),
//! which are followed; each entry is read twice, with its lock and its process, and is dropped and counted if the two reads differ or if it
//! does not point back. `LOCK`, `PROCLOCK` and `LOCKTAG` (src/include/storage/lock.h) are the same from PostgreSQL 14 to 18. Predicate
//! locks (`SIReadLock`), which nobody waits for, are in another table, which is not read.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::lock_words::{self, EXCLUSIVE, MODES, TAG};
use super::proc_array::{FRONT, FastPath, HEAD, LISTS, ProcArray, SLOTS};
use super::proc_entries::ProcEntries;
use super::record_fields::{address, is_pointer, number};
use crate::lock_requests::{LockRequest, LockTarget, Whose};
use crate::memory;

/// Bytes of a `PROCLOCK` up to the end of its link in the list of its process, and the offset of that link.
const PROCLOCK: usize = 64;
const LINK: usize = 48;
/// Offsets in it: the lock, the process, and the modes that are held.
const LOCK: usize = 0;
const PROCESS: usize = 8;
const HELD: usize = 24;
/// Bytes of it that are compared: those three.
const COMPARED: usize = 28;
/// Offsets from `waitLock` to the request, its mode and its start.
const WAIT_REQUEST: usize = 8;
const WAIT_MODE: usize = 16;
const WAIT_START: usize = 24;
/// `USER_LOCKMETHOD`: a lock that may outlive its transaction.
const USER_LOCK: u8 = 2;
/// Requests read in one pass at most.
const MOST: usize = 20_000;
/// Places read in one system call: `IOV_MAX` is 1024.
const AT_ONCE: usize = 512;
/// Bytes read in one pass at most of the locks that processes keep in their own records (fast path).
const MOST_NOTED: usize = 16 << 20;
/// Time limit of one pass.
const PATIENCE: Duration = Duration::from_millis(30);
/// Microseconds from the Unix epoch to PostgreSQL's.
const EPOCH_US: i64 = 946_684_800_000_000;
/// A wait that seems longer than this has a wrong start time.
const LONGEST_WAIT_US: i64 = 10 * 365 * 86_400 * 1_000_000;

/// What one pass found; pids are those by which the server knows its processes.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) requests: Vec<LockRequest>,
    pub(super) torn: u64,
    pub(super) without_room: u64,
}

/// A link in a list of a process.
#[derive(Clone, Copy)]
struct Link {
    /// Which process.
    place: usize,
    /// Address of the list's head, and of the link.
    head: u64,
    at: u64,
}

/// A `PROCLOCK` that was read once.
struct First {
    place: usize,
    at: u64,
    bytes: Vec<u8>,
}

/// Reads all locks of these processes; none if they cannot be read. `newcomers`: as for [`ProcEntries::read`].
pub(super) fn look(array: &ProcArray, processes: &mut ProcEntries, newcomers: &[u32]) -> Option<Found> {
    let begin = Instant::now();
    processes.read(array, newcomers)?;
    let own = |place: usize| processes.of(array, place);
    let used = processes.used();
    let mut found = Found::default();
    let links = used.iter().flat_map(|&place| {
        (0..LISTS).filter_map(move |list| {
            let at = array.lists + list * HEAD;
            let head = array.address(place) + at as u64;
            let next = address(own(place), at + 8);
            // A process that has never used a list has no links.
            (next != head && next != 0).then_some(Link {
                place,
                head,
                at: next,
            })
        })
    });
    let firsts = follow(array, links.collect(), begin, &mut found);
    found.take_twice(array, own, &firsts);
    if let Ok(fast_path) = array.fast_path {
        found.take_fast_path(array, fast_path, own, used);
    }
    Some(found)
}

/// Follows all lists at once, link by link.
fn follow(array: &ProcArray, mut links: Vec<Link>, begin: Instant, found: &mut Found) -> Vec<First> {
    let mut firsts = Vec::new();
    let mut seen = HashSet::new();
    while !links.is_empty() {
        let room = MOST.saturating_sub(firsts.len());
        if links.len() > room || begin.elapsed() > PATIENCE {
            found.without_room += (links.len() - room.min(links.len())).max(1) as u64;
            links.truncate(room);
            if begin.elapsed() > PATIENCE {
                break;
            }
        }
        let wanted: Vec<(u64, usize)> = links
            .iter()
            .map(|link| (link.at.wrapping_sub(LINK as u64), PROCLOCK))
            .collect();
        let mut next = Vec::new();
        for (link, bytes) in links.iter().zip(read_each(array.postmaster, &wanted)) {
            // A link seen before means an endless list; one that was freed meanwhile leads nowhere.
            let is_own = |bytes: &Vec<u8>| {
                address(bytes, PROCESS) == array.address(link.place)
                    && is_pointer(address(bytes, LOCK))
                    && is_pointer(address(bytes, LINK + 8))
                    && seen.insert(link.at)
            };
            let Some(bytes) = bytes.filter(is_own) else {
                found.torn += 1;
                continue;
            };
            let at = address(&bytes, LINK + 8);
            if at != link.head {
                next.push(Link { at, ..*link });
            }
            firsts.push(First {
                place: link.place,
                at: link.at.wrapping_sub(LINK as u64),
                bytes,
            });
        }
        links = next;
    }
    firsts
}

impl Found {
    /// Reads locks, requests and processes again, and keeps what has not changed.
    fn take_twice<'a>(&mut self, array: &ProcArray, own: impl Fn(usize) -> &'a [u8], firsts: &[First]) {
        let pid = array.postmaster;
        let locks: Vec<u64> = distinct(firsts.iter().map(|first| address(&first.bytes, LOCK)));
        let tags = |locks: &[u64]| -> Vec<Option<Vec<u8>>> {
            let wanted: Vec<(u64, usize)> = locks.iter().map(|&lock| (lock, TAG)).collect();
            read_each(pid, &wanted)
        };
        let before = tags(&locks);
        let again: Vec<(u64, usize)> = firsts.iter().map(|first| (first.at, PROCLOCK)).collect();
        let again = read_each(pid, &again);
        let places = distinct(firsts.iter().map(|first| first.place as u64));
        let fronts: Vec<(u64, usize)> = places
            .iter()
            .map(|&place| (array.address(place as usize), FRONT))
            .collect();
        let fronts: HashMap<u64, Vec<u8>> = places
            .iter()
            .copied()
            .zip(read_each(pid, &fronts))
            .filter_map(|(place, front)| Some((place, front?)))
            .collect();
        let after = tags(&locks);
        let targets: HashMap<u64, (LockTarget, u8)> = locks
            .iter()
            .zip(before.into_iter().zip(after))
            .filter_map(|(&lock, tags)| {
                let (Some(one), Some(other)) = tags else {
                    return None;
                };
                let tag: &[u8; TAG] = one.first_chunk()?;
                let is_same = one == other;
                is_same.then_some((lock, (lock_words::target(tag)?, tag[15])))
            })
            .collect();
        let now_us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as i64);
        for (first, again) in firsts.iter().zip(again) {
            let lock = address(&first.bytes, LOCK);
            let is_same = again.is_some_and(|again| again[..COMPARED] == first.bytes[..COMPARED]);
            let (Some(&(target, method)), Some(front), true) =
                (targets.get(&lock), fronts.get(&(first.place as u64)), is_same)
            else {
                self.torn += 1;
                continue;
            };
            let process = own(first.place);
            let Some(whose) = whose(array, first.place, process, front) else {
                self.torn += 1;
                continue;
            };
            let (_, transaction) = array.virtualxid();
            let request = LockRequest {
                whose,
                target,
                mode: "",
                granted: true,
                fast_path: false,
                transaction: match (whose, method) {
                    (Whose::Process(_), method) if method != USER_LOCK => number(front, transaction),
                    _ => 0,
                },
                waited_ns: None,
            };
            let held = number(&first.bytes, HELD);
            let modes = MODES.iter().enumerate().skip(1);
            let granted = modes.filter(|(mode, _)| held >> mode & 1 != 0);
            let before = self.requests.len();
            self.requests
                .extend(granted.map(|(_, mode)| LockRequest { mode, ..request }));
            // What a prepared transaction waited for has no meaning.
            if matches!(whose, Whose::Process(_))
                && let Some((mode, since_us)) = wanted(array, process, front, (lock, first.at))
            {
                let age_us = now_us.saturating_sub(since_us.saturating_add(EPOCH_US));
                self.requests.push(LockRequest {
                    mode,
                    granted: false,
                    waited_ns: (since_us != 0 && (-1_000_000..LONGEST_WAIT_US).contains(&age_us))
                        .then(|| age_us.max(0) as u64 * 1_000),
                    ..request
                });
            }
            // A request neither granted nor waited for is about to be.
            if self.requests.len() == before {
                self.torn += 1;
            }
        }
    }

    /// Takes the locks that processes keep in their own records.
    fn take_fast_path<'a>(
        &mut self,
        array: &ProcArray,
        fast_path: FastPath,
        own: impl Fn(usize) -> &'a [u8],
        used: &[usize],
    ) {
        let (_, transaction) = array.virtualxid();
        let mut in_transaction: Vec<usize> = used
            .iter()
            .copied()
            .filter(|&place| place < array.processes && number(own(place), transaction) != 0)
            .collect();
        let most = MOST_NOTED / (fast_path.groups.unwrap_or(1) * (8 + 4 * SLOTS));
        self.without_room += in_transaction.len().saturating_sub(most) as u64;
        in_transaction.truncate(most);
        // Of each process: the modes, the relations, and the lock on its own transaction.
        let virtualxid = |place: usize| (array.address(place) + fast_path.virtualxid as u64, 8);
        let noted = |place: usize| -> [(u64, usize); 2] {
            let process = own(place);
            match fast_path.groups {
                None => [
                    (array.address(place) + fast_path.bits as u64, 8),
                    (array.address(place) + fast_path.relations as u64, 4 * SLOTS),
                ],
                Some(groups) => [
                    (address(process, fast_path.bits), 8 * groups),
                    (address(process, fast_path.relations), 4 * SLOTS * groups),
                ],
            }
        };
        let read = || {
            let wanted: Vec<(u64, usize)> = in_transaction
                .iter()
                .flat_map(|&place| {
                    let [bits, relations] = noted(place);
                    [bits, relations, virtualxid(place)]
                })
                .collect();
            read_each(array.postmaster, &wanted)
        };
        let (first, again) = (read(), read());
        let fronts: Vec<(u64, usize)> = in_transaction
            .iter()
            .map(|&place| (array.address(place), FRONT))
            .collect();
        let fronts = read_each(array.postmaster, &fronts);
        let both = first.chunks_exact(3).zip(again.chunks_exact(3)).zip(fronts);
        for (&place, ((first, again), front)) in in_transaction.iter().zip(both) {
            let process = own(place);
            let (Some(front), [Some(bits), Some(relations), Some(itself)]) = (front, first) else {
                self.torn += 1;
                continue;
            };
            let [Some(bits_again), Some(relations_again), Some(itself_again)] = again else {
                self.torn += 1;
                continue;
            };
            let Some(whose) = whose(array, place, process, &front) else {
                self.torn += 1;
                continue;
            };
            let request = |target, mode| LockRequest {
                whose,
                target,
                mode,
                granted: true,
                fast_path: true,
                transaction: number(&front, transaction),
                waited_ns: None,
            };
            let database = number(&front, array.database());
            for slot in 0..relations.len() / 4 {
                // Three bits per slot, sixteen slots per group.
                let modes = |bits: &[u8]| address(bits, slot / SLOTS * 8) >> (3 * (slot % SLOTS)) & 7;
                let relation = number(relations, 4 * slot);
                let held = modes(bits);
                if held == 0 && modes(bits_again) == 0 {
                    continue;
                }
                if held != modes(bits_again) || relation != number(relations_again, 4 * slot) {
                    self.torn += 1;
                    continue;
                }
                let target = lock_words::relation(database, relation);
                let modes = (0..3).filter(|mode| held >> mode & 1 != 0);
                self.requests
                    .extend(modes.map(|mode| request(target, MODES[mode + 1])));
            }
            let has_itself = |itself: &[u8]| itself.first() == Some(&1);
            match (has_itself(itself), itself == itself_again) {
                (true, true) => {
                    let (process, _) = array.virtualxid();
                    let target = lock_words::virtualxid(number(&front, process), number(itself, 4));
                    self.requests.push(request(target, MODES[EXCLUSIVE]));
                }
                (_, false) => self.torn += 1,
                (false, true) => {}
            }
        }
    }
}

/// Whose it is, if both reads agree: by the server's own pid, or by the transaction.
fn whose(array: &ProcArray, place: usize, process: &[u8], front: &[u8]) -> Option<Whose> {
    let same = |at: usize| (number(process, at) == number(front, at)).then(|| number(front, at));
    match place < array.processes {
        true => same(array.pid).filter(|pid| *pid != 0).map(Whose::Process),
        false => same(array.transactionid()).map(Whose::Prepared),
    }
}

/// The mode in which a process waited for this lock with this request in both reads, and since when, in microseconds since PostgreSQL's
/// epoch (0 = the server has not set it yet).
fn wanted(
    array: &ProcArray,
    process: &[u8],
    front: &[u8],
    (lock, request): (u64, u64),
) -> Option<(&'static str, i64)> {
    let at = array.wait();
    let waits = |bytes: &[u8]| {
        let is_this = (address(bytes, at), address(bytes, at + WAIT_REQUEST)) == (lock, request);
        is_this.then(|| number(bytes, at + WAIT_MODE) as usize)
    };
    let (one, other) = (waits(process)?, waits(front)?);
    let mode = MODES.get(one).filter(|mode| !mode.is_empty() && one == other)?;
    Some((mode, address(front, at + WAIT_START).cast_signed()))
}

fn distinct(all: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}

/// Reads each of these places, in batches; none for one that cannot be read.
fn read_each(pid: u32, wanted: &[(u64, usize)]) -> Vec<Option<Vec<u8>>> {
    let mut all = Vec::with_capacity(wanted.len());
    for some in wanted.chunks(AT_ONCE) {
        let mut read: Vec<Vec<u8>> = some.iter().map(|&(_, bytes)| vec![0; bytes]).collect();
        let mut parts: Vec<(u64, &mut [u8])> = some
            .iter()
            .zip(&mut read)
            .map(|(&(address, _), bytes)| (address, bytes.as_mut_slice()))
            .collect();
        if memory::read(pid, &mut parts).is_ok() {
            all.extend(read.into_iter().map(Some));
            continue;
        }
        let one = |(&(address, _), mut bytes): (&(u64, usize), Vec<u8>)| {
            let read = memory::read(pid, &mut [(address, &mut bytes)]);
            read.ok().map(|()| bytes)
        };
        all.extend(some.iter().zip(read).map(one));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `PGPROC` as in 14 to 16, cut off after what is read.
    const STEP: usize = 640;
    const LISTS_AT: usize = 184;
    const PID: usize = 64;
    const WAIT: usize = LISTS_AT - 72;
    const FAST: FastPath = FastPath {
        bits: 464,
        relations: 472,
        virtualxid: 536,
        groups: None,
    };

    /// A server's memory, mocked up in our own: two processes and a prepared transaction, one lock, and requests for it.
    struct Memory {
        processes: Vec<u64>,
        lock: Box<[u64; 3]>,
        requests: Vec<[u64; PROCLOCK / 8]>,
    }

    fn address_of<T>(record: &T) -> u64 {
        std::ptr::from_ref(record) as u64
    }

    impl Memory {
        /// Process 1000 holds the lock in these modes; 1001 waits for it in mode 7; the prepared transaction 700 holds it in mode 1.
        fn of(held: &[u32]) -> Memory {
            let mut memory = Memory {
                processes: vec![0; 3 * STEP / 8],
                // A relation.
                lock: Box::new([5 | 16384 << 32, 0, 0]),
                requests: vec![[0; PROCLOCK / 8]; 3],
            };
            memory.lock[1] = 1 << 56;
            let lock = address_of(&*memory.lock);
            let bits = |modes: &[u32]| modes.iter().fold(0_u64, |bits, mode| bits | 1 << mode);
            for (place, held) in [bits(held), 0, bits(&[1])].into_iter().enumerate() {
                let own = memory.processes.as_ptr() as u64 + (place * STEP) as u64;
                let request = address_of(&memory.requests[place]);
                let front = place * STEP / 8;
                for list in 0..LISTS {
                    let at = LISTS_AT + list * HEAD;
                    let link = match list {
                        3 => request + LINK as u64,
                        _ => own + at as u64,
                    };
                    memory.processes[front + at / 8] = link;
                    memory.processes[front + at / 8 + 1] = link;
                }
                let head = own + (LISTS_AT + 3 * HEAD) as u64;
                memory.requests[place] = [lock, own, own, held, 0, 0, head, head];
                if place < 2 {
                    memory.processes[front + PID / 8] = 1000 + place as u64;
                    // The local part of its virtual transaction.
                    memory.processes[front + PID / 8 - 1] = 9 << 32;
                } else {
                    memory.processes[front + PID / 8 - 2] = 700 << 32;
                }
                if place == 1 {
                    memory.processes[front + WAIT / 8] = lock;
                    memory.processes[front + WAIT / 8 + 1] = request;
                    memory.processes[front + WAIT / 8 + 2] = 7;
                }
            }
            memory
        }

        fn array(&self) -> ProcArray {
            ProcArray::made_by_hand(
                std::process::id(),
                (0, self.processes.as_ptr() as u64),
                (STEP, 2, 1),
                (LISTS_AT, PID),
                FAST,
            )
        }

        fn look(&self) -> Found {
            look(&self.array(), &mut ProcEntries::default(), &[]).expect("our own memory")
        }
    }

    /// Owner, mode, and whether it is granted.
    fn said(found: &Found) -> Vec<(Whose, &'static str, bool)> {
        let requests = found.requests.iter();
        requests
            .map(|request| (request.whose, request.mode, request.granted))
            .collect()
    }

    #[test]
    fn who_has_and_who_waits_is_seen_and_no_process_has_what_is_prepared() {
        let found = Memory::of(&[3, 5]).look();
        assert_eq!(
            said(&found),
            [
                (Whose::Process(1000), "RowExclusiveLock", true),
                (Whose::Process(1000), "ShareLock", true),
                (Whose::Process(1001), "ExclusiveLock", false),
                (Whose::Prepared(700), "AccessShareLock", true),
            ]
        );
        assert_eq!((found.torn, found.without_room), (0, 0));
        let target = lock_words::relation(5, 16384);
        assert!(found.requests.iter().all(|request| request.target == target));
        // The server has not set the start of the wait.
        assert!(found.requests.iter().all(|request| request.waited_ns.is_none()));
    }

    #[test]
    fn for_how_long_is_waited_the_server_says_unless_it_cannot_be() {
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
        for (since_us, expected) in [
            (now_us - 5_000_000, Some(5)),
            (now_us + 60_000_000, None),
            (0, None),
        ] {
            let mut memory = Memory::of(&[5]);
            let place = (STEP + WAIT) / 8 + 3;
            memory.processes[place] = match since_us {
                0 => 0,
                since => (since - EPOCH_US).cast_unsigned(),
            };
            let found = memory.look();
            let waits = found.requests.iter().find(|request| !request.granted).unwrap();
            assert_eq!(waits.waited_ns.map(|ns| ns / 1_000_000_000), expected);
        }
    }

    #[test]
    fn what_a_process_notes_with_itself_is_seen() {
        let mut memory = Memory::of(&[5]);
        // The relation 16390 in two modes in the third slot, and its own transaction.
        memory.processes[FAST.bits / 8] = 0b011 << 6;
        memory.processes[FAST.relations / 8 + 1] = 16390;
        memory.processes[FAST.virtualxid / 8] = 1 | 9 << 32;
        memory.processes[PID / 8 + 1] = 4 << 32;
        memory.processes[PID / 8 + 2] = 5;
        let found = memory.look();
        let fast: Vec<_> = found
            .requests
            .iter()
            .filter(|request| request.fast_path)
            .map(|request| (request.target, request.mode))
            .collect();
        assert_eq!(
            fast,
            [
                (lock_words::relation(5, 16390), "AccessShareLock"),
                (lock_words::relation(5, 16390), "RowShareLock"),
                (lock_words::virtualxid(4, 9), "ExclusiveLock"),
            ]
        );
    }

    #[test]
    fn memory_that_is_hostile_names_nobody_for_whom_nothing_points_back() {
        let others = |found: &Found| {
            let all = said(found);
            all.iter()
                .filter(|(whose, ..)| *whose != Whose::Process(1000))
                .count()
        };
        for wrong in [0, 1, 8, 64, u64::MAX, u64::MAX - 7, 1 << 40] {
            // The lock, and the process.
            for field in [0, 1] {
                let mut memory = Memory::of(&[5]);
                memory.requests[0][field] = wrong;
                let found = memory.look();
                assert_eq!(
                    (said(&found).len(), others(&found)),
                    (2, 2),
                    "{field}: {wrong:#x}"
                );
                assert!(found.torn > 0);
            }
            // A link that leads elsewhere.
            let mut memory = Memory::of(&[5]);
            memory.requests[0][7] = wrong;
            let found = memory.look();
            assert_eq!(others(&found), 2, "{wrong:#x}");
            for word in [LISTS_AT / 8 + 1, LISTS_AT / 8 + 7] {
                let mut memory = Memory::of(&[5]);
                memory.processes[word] = wrong;
                assert_eq!(others(&memory.look()), 2, "{wrong:#x}");
            }
            // A kind that does not exist.
            let mut memory = Memory::of(&[5]);
            memory.lock[1] = 0x77 << 48 | 1 << 56;
            assert_eq!(said(&memory.look()), []);
        }
        // A list without an end.
        let mut memory = Memory::of(&[5]);
        let own = address_of(&memory.requests[0]) + LINK as u64;
        memory.requests[0][7] = own;
        let found = memory.look();
        assert_eq!((said(&found).len(), found.torn), (3, 1));
        // One that is neither held nor waited for.
        let found = Memory::of(&[]).look();
        assert_eq!((said(&found).len(), found.torn), (2, 1));
    }
}
