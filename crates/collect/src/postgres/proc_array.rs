//! A server's records of its processes and prepared transactions: the array of `PGPROC`s (src/include/storage/proc.h) in its shared memory,
//! read from the postmaster, which has it from the start.
//!
//! `ProcGlobal`, `PreparedXactProcs` and `max_prepared_xacts` are exported, so a stripped server has them too; the size of a `PGPROC`
//! follows from the first two. Its fields are recognized by their contents in all of them: sixteen lists that begin and end at themselves
//! (`myProcLocks`), one more (`lockGroupMembers`), the pids of processes whose pid is known. Fields at a fixed distance from those in
//! PostgreSQL 14 to 18 are checked where possible.

use std::io;
use std::ops::Range;

use super::backend_status::BackendStatus;
use super::record_fields::{address, is_pointer, number, place_of_pid};
use super::wait_events::WaitEventNames;
use crate::executable::Executable;
use crate::{memory, process};

/// Processes and prepared transactions of a server, at most: `MAX_BACKENDS` of each.
const MOST: u64 = 1 << 18;
/// Bytes of all of them that are read at most.
const MOST_BYTES: u64 = 64 << 20;
/// Possible sizes of a `PGPROC`.
const STEPS: Range<u64> = 512..4096;
/// Offset in `PROC_HDR` of the number of processes; its first field is the address of the first one's `PGPROC`.
const COUNT: u64 = 32;
/// `NUM_LOCK_PARTITIONS`: lists of locks per process.
pub(super) const LISTS: usize = 16;
/// Bytes of a list's head.
pub(super) const HEAD: usize = 16;
/// Bytes from `waitLock` to the lists of locks: the same from 14 to 18.
const WAIT_BEFORE_LISTS: usize = 72;
/// First bytes of a `PGPROC`, which contain all that is read a second time.
pub(super) const FRONT: usize = 256;
/// Processes that are asked for their pid and their database.
const WITNESSES: usize = 8;
/// First version in which the two parts of a virtual transaction id are together.
const VXID_TOGETHER: u32 = 17;
/// First version in which fast-path locks have an array of their own.
const FAST_PATH_BESIDE: u32 = 18;
/// Slots in a group of such locks.
pub(super) const SLOTS: usize = 16;
/// Groups of them at most: `FP_LOCK_GROUPS_PER_BACKEND_MAX`.
const MOST_GROUPS: u64 = 1024;
/// Bits of `fpLockBits` that are used.
const FAST_BITS: u32 = 48;

/// Where the `PGPROC`s of one server are, and their layout.
#[derive(Debug)]
pub(super) struct ProcArray {
    pub(super) postmaster: u32,
    /// Address of `MyProc`, which points to a process's own.
    own: u64,
    /// Address of the first.
    pub(super) first: u64,
    /// Size of one.
    pub(super) step: usize,
    /// How many belong to processes.
    pub(super) processes: usize,
    /// How many belong to prepared transactions; these follow.
    prepared: usize,
    /// Offset of `myProcLocks`.
    pub(super) lists: usize,
    /// Offset of `pid`.
    pub(super) pid: usize,
    /// From 17 on: the two parts of a virtual transaction id are together.
    vxid_together: bool,
    /// Where fast-path locks are, or why they are not seen.
    pub(super) fast_path: Result<FastPath, &'static str>,
}

/// Where a process keeps its weak relation locks, and the lock on its own virtual transaction; nobody waits for these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FastPath {
    /// Offsets of the modes and of the relations in the `PGPROC`, or of the addresses of both.
    pub(super) bits: usize,
    pub(super) relations: usize,
    /// Offset of the flag that it holds the lock on its virtual transaction, followed by which one that is.
    pub(super) virtualxid: usize,
    /// Groups of slots at these addresses; none: the slots are in the `PGPROC`.
    pub(super) groups: Option<usize>,
}

impl ProcArray {
    /// For the server with this postmaster, with the layout found in these of its processes.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(super) fn of(
        (postmaster, major): (u32, u32),
        processes: &[u32],
        status: Option<BackendStatus>,
    ) -> Result<ProcArray, &'static str> {
        const NOT_EXPORTED: &str = "the server does not say where its processes are listed";
        const NOT_READ: &str = "the list of the server's processes cannot be read";
        let executable = Executable::of(postmaster).map_err(|_| "the server's executable cannot be read")?;
        let [global, prepared, most_prepared, own] = executable
            .symbols(["ProcGlobal", "PreparedXactProcs", "max_prepared_xacts", "MyProc"])
            .map_err(|_| NOT_EXPORTED)?
            .map(|symbol| symbol.map(|symbol| symbol.address));
        let (Some(global), Some(prepared), Some(most_prepared), Some(own)) =
            (global, prepared, most_prepared, own)
        else {
            return Err(NOT_EXPORTED);
        };
        let number = |address: u64| memory::read_u64(postmaster, address).map_err(|_| NOT_READ);
        let count = |address: u64| memory::read_u32(postmaster, address).map_err(|_| NOT_READ);
        let header = number(global)?;
        let (first, behind) = (number(header)?, number(prepared)?);
        let processes_of_all = u64::from(count(header.saturating_add(COUNT))?);
        let prepared_of_all = u64::from(count(most_prepared)?);
        const OTHER: &str = "this build of the server lists its processes in an unknown way";
        if !(1..=MOST).contains(&processes_of_all) || prepared_of_all > MOST {
            return Err(OTHER);
        }
        let length = behind.checked_sub(first).ok_or(OTHER)?;
        let step = length / processes_of_all;
        if !length.is_multiple_of(processes_of_all) || !step.is_multiple_of(8) || !STEPS.contains(&step) {
            return Err(OTHER);
        }
        if (processes_of_all + prepared_of_all) * step > MOST_BYTES {
            return Err("the server has more processes than dbtime reads");
        }
        let mut array = ProcArray {
            postmaster,
            own,
            first,
            step: step as usize,
            processes: processes_of_all as usize,
            prepared: prepared_of_all as usize,
            lists: 0,
            pid: 0,
            vxid_together: major >= VXID_TOGETHER,
            fast_path: Err("not looked for"),
        };
        let mut bytes = vec![0; array.len() * array.step];
        memory::read(postmaster, &mut [(first, &mut bytes)]).map_err(|_| NOT_READ)?;
        array.lists = array
            .place_of_lists(&bytes)
            .ok_or("the lists of locks of the server's processes are not where they should be")?;
        array.pid = array
            .place_of_pid(processes)
            .ok_or("the pids of the server's processes are not where they should be")?;
        array.fast_path = array.place_of_fast_path(&bytes, major, processes, status);
        Ok(array)
    }

    /// With a known layout: addresses of `MyProc` and of the first; size, processes, prepared transactions; offsets of the lists and of the
    /// pid.
    #[cfg(test)]
    pub(super) fn made_by_hand(
        postmaster: u32,
        (own, first): (u64, u64),
        (step, processes, prepared): (usize, usize, usize),
        (lists, pid): (usize, usize),
        fast_path: FastPath,
    ) -> ProcArray {
        ProcArray {
            postmaster,
            own,
            first,
            step,
            processes,
            prepared,
            lists,
            pid,
            vxid_together: false,
            fast_path: Ok(fast_path),
        }
    }

    /// How many there are, in use or not.
    pub(super) fn len(&self) -> usize {
        self.processes + self.prepared
    }

    /// Address of one.
    pub(super) fn address(&self, place: usize) -> u64 {
        self.first + (place * self.step) as u64
    }

    /// Offset of `waitLock`, which is followed by `waitProcLock`, `waitLockMode` and `waitStart`.
    pub(super) fn wait(&self) -> usize {
        self.lists - WAIT_BEFORE_LISTS
    }

    /// Offset of its transaction id, if it has one.
    pub(super) fn transactionid(&self) -> usize {
        self.pid - if self.vxid_together { 8 } else { 12 }
    }

    /// Offsets of the two parts of its virtual transaction id.
    pub(super) fn virtualxid(&self) -> (usize, usize) {
        match self.vxid_together {
            true => (self.pid + 8, self.pid + 12),
            false => (self.pid + 12, self.pid - 4),
        }
    }

    /// Offset of its database id.
    pub(super) fn database(&self) -> usize {
        self.pid + 16
    }

    /// An empty list begins and ends at itself.
    fn is_list(&self, bytes: &[u8], place: usize, at: usize) -> bool {
        let own = self.address(place) + at as u64;
        let (back, on) = (address(bytes, at), address(bytes, at + 8));
        (back == own && on == own) || (back != own && on != own && is_pointer(back) && is_pointer(on))
    }

    fn is_empty_list(&self, bytes: &[u8], place: usize, at: usize) -> bool {
        let own = self.address(place) + at as u64;
        (address(bytes, at), address(bytes, at + 8)) == (own, own)
    }

    /// The only offset at which all processes have this many lists in a row, which in at least one of them are all empty. Prepared
    /// transactions are not checked: in their `PGPROC`s, fields that they do not need are 0.
    fn lists_at(&self, bytes: &[u8], within: Range<usize>, lists: usize) -> Option<usize> {
        let mut places = within.step_by(8).filter(|&at| {
            let all = |place: usize, is: fn(&ProcArray, &[u8], usize, usize) -> bool| {
                let own = &bytes[place * self.step..][..self.step];
                (0..lists).all(|list| is(self, own, place, at + list * HEAD))
            };
            (0..self.processes).all(|place| all(place, ProcArray::is_list))
                && (0..self.processes).any(|place| all(place, ProcArray::is_empty_list))
        });
        let found = places.next()?;
        places.next().is_none().then_some(found)
    }

    fn place_of_lists(&self, bytes: &[u8]) -> Option<usize> {
        // What is read a second time comes before them.
        let last = FRONT.min(self.step.checked_sub(LISTS * HEAD)?);
        // From `WAIT_BEFORE_LISTS` on, in steps of eight bytes.
        self.lists_at(bytes, WAIT_BEFORE_LISTS..last, LISTS)
    }

    /// Index of a process's own, according to the process; none: it has none, or none yet.
    ///
    /// # Errors
    /// As for [`memory::read`].
    pub(super) fn place_of_process(&self, pid: u32) -> io::Result<Option<usize>> {
        let record = memory::read_u64(pid, self.own)?;
        let step = self.step as u64;
        let behind = record.checked_sub(self.first);
        let is_one = |behind: &u64| behind.is_multiple_of(step) && behind / step < self.len() as u64;
        Ok(behind.filter(is_one).map(|behind| (behind / step) as usize))
    }

    /// The process's own `PGPROC`.
    fn of_process(&self, pid: u32) -> Option<Vec<u8>> {
        let place = self.place_of_process(pid).ok()??;
        let mut bytes = vec![0; self.step];
        let read = memory::read(pid, &mut [(self.address(place), &mut bytes)]);
        read.ok().map(|()| bytes)
    }

    fn place_of_pid(&self, processes: &[u32]) -> Option<usize> {
        let records = processes
            .iter()
            .filter_map(|&pid| Some((process::innermost_pid(pid)?, self.of_process(pid)?)));
        // The transaction id comes before it.
        place_of_pid(records.take(WITNESSES), self.wait()).filter(|place| *place >= 12)
    }

    fn place_of_fast_path(
        &self,
        bytes: &[u8],
        major: u32,
        processes: &[u32],
        status: Option<BackendStatus>,
    ) -> Result<FastPath, &'static str> {
        // Fast-path locks are kept without their database.
        let status = status.ok_or("sessions do not say in which database they are")?;
        let databases = processes.iter().filter_map(|&pid| {
            let of_entry = status.database(pid).filter(|database| *database != 0)?;
            let record = self.of_process(pid)?;
            Some((of_entry, number(&record, self.database())))
        });
        if databases.take(WITNESSES).any(|(one, other)| one != other) {
            return Err("the databases of the server's processes are not where they should be");
        }
        const OTHER: &str = "this build of the server keeps them in an unknown place";
        let members = self.lists_at(bytes, self.lists + LISTS * HEAD..self.step - HEAD, 1);
        let members = members.ok_or(OTHER)?;
        let place = match major >= FAST_PATH_BESIDE {
            true => FastPath {
                bits: members - 32,
                relations: members - 24,
                virtualxid: members - 16,
                groups: Some(0),
            },
            false => FastPath {
                bits: members - 88,
                relations: members - 80,
                virtualxid: members - 16,
                groups: None,
            },
        };
        // The LWLock that protects them comes before them, and begins with its kind.
        let guard = place.bits.checked_sub(16).ok_or(OTHER)?;
        let (names, _) = WaitEventNames::for_major(major);
        let all = || (0..self.processes).map(|place| &bytes[place * self.step..][..self.step]);
        let is_guarded = all().all(|own| {
            let kind = number(own, guard) & 0xffff;
            let name = names.decode(LWLOCK | kind);
            name.is_some_and(|(_, name)| name == GUARD)
        });
        if !is_guarded {
            return Err(OTHER);
        }
        if place.groups.is_none() {
            let is_meant = |own: &[u8]| address(own, place.bits) >> FAST_BITS == 0;
            return all().all(is_meant).then_some(place).ok_or(OTHER);
        }
        // The relations of a process follow its modes.
        let groups = |own: &[u8]| {
            let (bits, relations) = (address(own, place.bits), address(own, place.relations));
            let length = relations.checked_sub(bits).filter(|_| is_pointer(bits))?;
            let groups = length / 8;
            let is_meant = length.is_multiple_of(8) && groups.is_power_of_two() && groups <= MOST_GROUPS;
            is_meant.then_some(groups as usize)
        };
        let of_first = all().next().and_then(groups).ok_or(OTHER)?;
        let is_same = all().all(|own| groups(own) == Some(of_first));
        is_same
            .then_some(FastPath {
                groups: Some(of_first),
                ..place
            })
            .ok_or(OTHER)
    }
}

/// `PG_WAIT_LWLOCK`, with the kind of lock in the other bits (src/include/utils/wait_event.h).
const LWLOCK: u32 = 0x0100_0000;
/// The kind of LWLock that protects fast-path locks.
const GUARD: &str = "LockFastPath";
