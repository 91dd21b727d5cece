//! What to record, and how.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::bpf::Tier;
use crate::database::Texts;
use crate::lock_requests::Locks;
use crate::postgres::Connect;

/// Samples per second that can be requested.
pub const RATES_HZ: RangeInclusive<u32> = 1..=4999;

/// How long a row can be: the seconds in a window of rows.
pub const RESOLUTIONS_S: RangeInclusive<u32> = 1..=3600;
/// However long windows are, this much at the start of a recording is kept by the second, and is on disk as soon.
pub const WHOLE_SECONDS: Duration = Duration::from_secs(300);

/// What to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The only server on this host.
    OnlyServer,
    /// The server on this data directory.
    Server(PathBuf),
    /// One session. The pid of a postmaster means its server.
    Process(u32),
    /// A process that belongs to no database, and its children: it has no wait events.
    AnyProcess(u32),
    /// The sessions of an Oracle instance that this MAP lists.
    Oracle(PathBuf),
}

/// How sessions are observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// BPF programs.
    #[default]
    Bpf,
    /// A thread that reads /proc and the memory of the processes: the sampled tier only.
    Proc,
}

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to record.
    pub target: Target,
    /// Samples per second and session, in [`RATES_HZ`].
    pub rate_hz: u32,
    /// How sessions are observed.
    pub mechanism: Mechanism,
    /// How exact the times are.
    pub tier: Tier,
    /// Note who ends a sleep; in the exact tiers only.
    pub wakers: bool,
    /// Put probes into Oracle's functions that begin and end a wait; in the exact tiers only.
    pub uprobes: bool,
    /// Put probes into PostgreSQL's functions that acquire and release LWLocks, and count all uses of these.
    pub lock_uses: bool,
    /// Take stacks. Where they are not wanted, recording begins sooner, and samples cost less.
    pub stacks: bool,
    /// Follow waits to what they were for; with BPF programs only.
    pub causes: bool,
    /// What is kept of the texts of statements.
    pub texts: Texts,
    /// Data directories of a server's standbys, whose processes that receive and replay WAL are recorded too.
    pub standbys: Vec<PathBuf>,
    /// Count what the kernel counts for every task: switches, faults, calls, bytes.
    pub task_counts: bool,
    /// Which locks of the server's lock table are recorded.
    pub locks: Locks,
    /// Query the server for what it counts itself; none: no connection is made.
    pub connect: Option<Connect>,
    /// Time is accounted for in its second, with what is known by then: it does not wait for the session's next sample.
    pub at_once: bool,
    /// Seconds in a window of rows, after the first minutes ([`WHOLE_SECONDS`]).
    pub resolution_s: u32,
    /// Use the engine of older kernels even if the better one works.
    pub task_iterator: bool,
}

impl Options {
    /// By samples alone, by the second, without the texts of statements.
    pub fn sampled(target: Target, rate_hz: u32) -> Options {
        Options {
            target,
            rate_hz,
            mechanism: Mechanism::Bpf,
            tier: Tier::Sampled,
            wakers: false,
            uprobes: false,
            lock_uses: false,
            stacks: true,
            causes: true,
            texts: Texts::None,
            standbys: Vec::new(),
            task_counts: false,
            locks: Locks::None,
            connect: None,
            at_once: false,
            resolution_s: 1,
            task_iterator: false,
        }
    }
}

/// Whether there is anything to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Sessions are recorded.
    Recording,
    /// The server has gone, at this moment; it is taken up again when it comes back.
    ServerGone(Instant),
    /// The one session to record has ended.
    Ended,
}
