//! How often sessions acquired internal locks of their server and waited for them, and how long they held them, counted at every use.
//!
//! Recordings have none of this: what they have is sampled ([`HeldLockRow`](crate::HeldLockRow)). Every use costs something, so this
//! is only observed for some seconds.

use std::ops::AddAssign;

use arcstr::ArcStr;

use crate::{SessionId, StackId};

/// Uses of one lock by one session, requested at one place in the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockUse {
    /// Whose.
    pub session: SessionId,
    /// Name of the lock: that of the wait event of those who wait for it.
    pub lock: String,
    /// Which of the locks of this name, if the database numbers them.
    pub number: Option<u32>,
    /// Its address in the server's memory; 0 = those of this name are not told apart, for lack of room.
    pub address: u64,
    /// See [`HeldLockRow::file`](crate::HeldLockRow::file).
    pub file: ArcStr,
    /// See [`HeldLockRow::relation`](crate::HeldLockRow::relation).
    pub relation: ArcStr,
    /// See [`HeldLockRow::block`](crate::HeldLockRow::block).
    pub block: Option<u32>,
    /// Nobody else can hold it meanwhile.
    pub exclusive: bool,
    /// Who requested it and, if known, who called that one.
    pub user_stack: StackId,
    /// What the session executed then; 0 = not known, or nothing.
    pub statement: u64,
    /// What was counted.
    pub sums: LockUseSums,
}

/// What was counted over some uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockUseSums {
    /// How often it was acquired.
    pub gets: u64,
    /// Of these, how often the session had to wait, according to the server itself; plus waits after which it did not acquire it.
    pub waited: u64,
    /// From request to acquisition, of those that waited, nanoseconds.
    pub wait_ns: u64,
    /// The longest of these.
    pub max_wait_ns: u64,
    /// How often it was requested only if free, and it was not.
    pub refused: u64,
    /// How often it was held: gets, and holds that had begun before.
    pub holds: u64,
    /// For how long it was held, nanoseconds, not counting what is before the beginning or after the end of the time that counts.
    pub hold_ns: u64,
    /// The longest of these.
    pub max_hold_ns: u64,
}

impl AddAssign for LockUseSums {
    fn add_assign(&mut self, other: LockUseSums) {
        self.gets += other.gets;
        self.waited += other.waited;
        self.wait_ns += other.wait_ns;
        self.max_wait_ns = self.max_wait_ns.max(other.max_wait_ns);
        self.refused += other.refused;
        self.holds += other.holds;
        self.hold_ns += other.hold_ns;
        self.max_hold_ns = self.max_hold_ns.max(other.max_hold_ns);
    }
}

/// All uses of internal locks of a server in some seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockUses {
    /// What was counted.
    pub uses: Vec<LockUse>,
    /// The time that counts, microseconds since the Unix epoch.
    pub from_us: i64,
    /// Its end.
    pub to_us: i64,
    /// How long it is, nanoseconds.
    pub elapsed_ns: u64,
    /// For how long the probes were attached, nanoseconds: from a moment before that time to a moment after.
    pub probed_ns: u64,
    /// How often they were hit in that time, in every process of the executable.
    pub hits: u64,
    /// Of these, in other servers.
    pub hits_of_others: u64,
    /// What a hit costs the process, as measured on this host, nanoseconds.
    pub hit_ns: u64,
    /// Uses for which there was no room.
    pub lost: u64,
    /// Locks that were released and had been acquired before the probes were attached: for how long they were held is not known.
    pub without_get: u64,
    /// Holds that are counted only as gets, of sessions that held more locks at a time than are kept.
    pub holds_without_room: u64,
    /// Why it ended early.
    pub stopped: Option<String>,
}

impl LockUses {
    /// Probes that a use hits: where the lock is requested, and where it is released.
    pub const HITS_OF_A_USE: u64 = 2;

    /// What the probes cost, as a fraction of one CPU.
    pub fn cost(&self) -> f64 {
        self.cost_of(self.hits)
    }

    /// What they cost in other servers, as a fraction of one CPU.
    pub fn cost_of_others(&self) -> f64 {
        self.cost_of(self.hits_of_others)
    }

    /// What a use costs the process that makes it, nanoseconds.
    pub fn use_ns(&self) -> u64 {
        LockUses::HITS_OF_A_USE * self.hit_ns
    }

    fn cost_of(&self, hits: u64) -> f64 {
        hits as f64 * self.hit_ns as f64 / self.probed_ns.max(1) as f64
    }
}
