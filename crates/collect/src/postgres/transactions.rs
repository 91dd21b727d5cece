//! Counts the transactions of each session without a connection, from the session's own memory.
//!
//! Every transaction of a backend takes the next number of a counter of its own (`GetNextLocalTransactionId` in
//! src/backend/storage/ipc/sinvaladt.c): `PGPROC.lxid` has it while the transaction lasts, 0 in between; the counter,
//! `nextLocalTransactionId`, is static and has no symbol. Its place is found by looking: while a session is in a transaction,
//! the counter is one more than `lxid`. Numbers of the executable's data that were so at several moments, with several
//! values, leave one place; it is the same in all sessions. Where `lxid` lies in PGPROC is told by the pid beside it.
//!
//! Nothing is written; each look is a few bytes of a process's own, private memory.

use std::collections::{BTreeSet, HashMap};

use crate::executable::Executable;
use crate::{memory, process};

/// PGPROC begins with what is looked at.
const PGPROC_BYTES: usize = 192;
/// More data than this no server has (PostgreSQL 15: 350 KB).
const MOST_DATA: u64 = 8 << 20;
/// The place is believed after so many looks that found it, with so many different numbers.
const LOOKS: usize = 6;
const NUMBERS: usize = 4;
/// Looks that are taken before it is given up.
const MOST_LOOKS: usize = 500;
/// So many places are read one by one.
const FEW: usize = 512;
/// After a look the number of the transaction is read so often at most, until there is one.
const TRIES: usize = 50;
/// Sessions looked at in one go.
const SESSIONS_AT_ONCE: usize = 32;

/// Where in PGPROC the pid of the session and its local transaction number lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    pid: usize,
    lxid: usize,
}

/// What is known of the counter's place.
#[derive(Debug)]
enum Place {
    /// Offsets in the data that it may have; none = not looked yet.
    Looking {
        candidates: Option<Vec<u32>>,
        numbers: BTreeSet<u32>,
        looks: usize,
    },
    /// Its address.
    Found(u64),
    /// It cannot be told.
    Unknown,
}

/// The transactions of one server's sessions.
pub(super) struct Transactions {
    /// Address of the pointer `MyProc`.
    my_proc: u64,
    /// Data of the executable in memory: begin and length.
    data: (u64, u64),
    /// Since PostgreSQL 17 the number stands behind the pid.
    is_behind_pid: bool,
    place: Place,
    /// Last number of each session.
    last: HashMap<u32, u32>,
    next: usize,
}

impl Transactions {
    /// Of the server whose postmaster this is; none when its executable does not tell.
    pub(super) fn of(postmaster: u32, major: u32) -> Option<Transactions> {
        let executable = Executable::of(postmaster).ok()?;
        let [my_proc] = executable.symbols(["MyProc"]).ok()?;
        Some(Transactions {
            my_proc: my_proc?.address,
            data: executable.data().ok().filter(|(_, bytes)| *bytes <= MOST_DATA)?,
            is_behind_pid: major >= 17,
            place: Place::Looking {
                candidates: None,
                numbers: BTreeSet::new(),
                looks: 0,
            },
            last: HashMap::new(),
            next: 0,
        })
    }

    /// Whether the counter's place is neither known nor given up.
    pub(super) fn is_sought(&self) -> bool {
        matches!(self.place, Place::Looking { .. })
    }

    /// Looks for the counter in these sessions. Call it some times a second, as long as it is sought. True when it has just been
    /// found.
    pub(super) fn look(&mut self, pids: &[u32]) -> bool {
        if !self.is_sought() {
            return false;
        }
        for _ in 0..pids.len().min(SESSIONS_AT_ONCE) {
            self.next = (self.next + 1) % pids.len();
            let pid = pids[self.next];
            if let Some((lxid, found)) = self.candidates_in(pid) {
                self.narrow(lxid, found);
            }
        }
        matches!(self.place, Place::Found(_))
    }

    /// By how many transactions each of these sessions has grown since the last call; 0 for those seen for the first time.
    /// None: it is not known, or not yet.
    pub(super) fn count(&mut self, pids: &[u32]) -> Option<Vec<(u32, u32)>> {
        let Place::Found(address) = self.place else {
            return None;
        };
        let mut growth = Vec::with_capacity(pids.len());
        for &pid in pids {
            let Ok(number) = memory::read_u32(pid, address) else {
                continue;
            };
            // A process that has only just been forked has its parent's 0 or 1.
            if number <= 1 {
                continue;
            }
            let last = self.last.insert(pid, number).unwrap_or(number);
            growth.push((pid, number.wrapping_sub(last)));
        }
        Some(growth)
    }

    /// The session has ended; its pid may come back as another one.
    pub(super) fn forget(&mut self, pid: u32) {
        self.last.remove(&pid);
    }

    /// The number of the transaction that a session is in, and the places in the data that the counter may have: of those that
    /// are left, or of all.
    fn candidates_in(&self, pid: u32) -> Option<(u32, Vec<u32>)> {
        let before = self.lxid(pid).filter(|lxid| *lxid != 0)?;
        let left = match &self.place {
            Place::Looking { candidates, .. } => candidates.as_deref().filter(|left| left.len() <= FEW),
            Place::Found(_) | Place::Unknown => return None,
        };
        let words: Vec<(u32, u32)> = match left {
            Some(left) => {
                let mut words = vec![[0; 4]; left.len()];
                let mut parts: Vec<(u64, &mut [u8])> = Vec::with_capacity(left.len());
                for (place, word) in left.iter().zip(&mut words) {
                    parts.push((self.data.0 + u64::from(*place), word));
                }
                memory::read(pid, &mut parts).ok()?;
                let words = words.into_iter().map(u32::from_ne_bytes);
                left.iter().copied().zip(words).collect()
            }
            None => {
                let mut data = vec![0; usize::try_from(self.data.1).ok()?];
                memory::read(pid, &mut [(self.data.0, &mut data)]).ok()?;
                let word = |word: &[u8]| word.try_into().map_or(0, u32::from_ne_bytes);
                let words = data.chunks_exact(4).map(word);
                (0..).step_by(4).zip(words).collect()
            }
        };
        // Reading takes longer than a short transaction: it may be another one by now, or none for a moment.
        let after = (0..TRIES).find_map(|_| self.lxid(pid).filter(|lxid| *lxid != 0))?;
        let fits = |word: u32| (before + 1..=after.saturating_add(1)).contains(&word);
        let places = words.into_iter().filter(|(_, word)| fits(*word));
        Some((before, places.map(|(place, _)| place).collect()))
    }

    fn lxid(&self, pid: u32) -> Option<u32> {
        let mut pointer = [0; 8];
        memory::read(pid, &mut [(self.my_proc, &mut pointer)]).ok()?;
        let mut proc = [0; PGPROC_BYTES];
        memory::read(pid, &mut [(u64::from_ne_bytes(pointer), &mut proc)]).ok()?;
        let layout = layout(&proc, process::innermost_pid(pid)?, self.is_behind_pid)?;
        let word = proc.get(layout.lxid..layout.lxid + 4)?;
        Some(u32::from_ne_bytes(word.try_into().ok()?))
    }

    fn narrow(&mut self, lxid: u32, found: Vec<u32>) {
        let Place::Looking {
            candidates,
            numbers,
            looks,
        } = &mut self.place
        else {
            return;
        };
        *looks += 1;
        numbers.insert(lxid);
        let left = match candidates.take() {
            None => found,
            Some(mut left) => {
                left.retain(|place| found.contains(place));
                left
            }
        };
        self.place = match left[..] {
            [] => Place::Unknown,
            [only] if *looks >= LOOKS && numbers.len() >= NUMBERS => {
                Place::Found(self.data.0 + u64::from(only))
            }
            _ if *looks >= MOST_LOOKS => Place::Unknown,
            _ => {
                *candidates = Some(left);
                return;
            }
        };
    }
}

/// Finds the pid in PGPROC: the last of the words that are equal to it, as its latch has it too.
fn layout(proc: &[u8], pid: u32, is_behind_pid: bool) -> Option<Layout> {
    let at = proc
        .chunks_exact(4)
        .rposition(|word| word == pid.to_ne_bytes())?
        .checked_mul(4)?;
    // 14 to 16: …, lxid, pid. From 17 on: pid, pgxactoff, procNumber, lxid.
    let lxid = match is_behind_pid {
        false => at.checked_sub(4)?,
        true => at + 12,
    };
    Some(Layout { pid: at, lxid })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_number_lies_before_the_pid_or_behind_it() {
        // …, latch with its owner, xid, xmin, lxid, pid, pgxactoff
        let proc = words(&[9, 9, 1, 0, 1, 4711, 700, 690, 55, 4711, 3]);
        assert_eq!(layout(&proc, 4711, false), Some(Layout { pid: 36, lxid: 32 }));
        // …, latch with its owner, xid, xmin, pid, pgxactoff, procNumber, lxid
        let proc = words(&[9, 9, 1, 0, 1, 4711, 700, 690, 4711, 3, 12, 55]);
        assert_eq!(layout(&proc, 4711, true), Some(Layout { pid: 32, lxid: 44 }));
        assert_eq!(layout(&proc, 4712, true), None);
    }

    #[test]
    fn the_place_that_always_fits_is_believed_and_no_other() {
        let mut transactions = Transactions {
            my_proc: 0,
            data: (0x1000, 64),
            is_behind_pid: false,
            place: Place::Looking {
                candidates: None,
                numbers: BTreeSet::new(),
                looks: 0,
            },
            last: HashMap::new(),
            next: 0,
        };
        for (look, lxid) in [7, 7, 8, 9, 10].into_iter().enumerate() {
            transactions.narrow(lxid, vec![8, 16 + 4 * look as u32]);
            assert!(transactions.is_sought());
        }
        transactions.narrow(11, vec![8]);
        assert!(!transactions.is_sought());
        assert!(matches!(transactions.place, Place::Found(0x1008)));
    }
}
