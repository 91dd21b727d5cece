//! The rows of a recording. One struct per table; `docs/SCHEMA.md` is written from this file.

use arcstr::ArcStr;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::{BackendType, Frame, Session, SessionId, SessionState, StackId, State, Wait};

/// How a number was obtained. The two are never added without saying so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fidelity {
    /// Measured from beginning to end.
    Exact,
    /// An exact total, split by samples.
    Sampled,
}

/// In this second this session spent `ns` in this wait event and state, at these stacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ActivityRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Whose time it is.
    pub session: SessionId,
    /// What it executed; 0 = not known.
    pub statement: u64,
    /// The plan that it was executed with, as the database calls it; 0 = the database says none, or that is not known. Since 1.18.
    #[serde(default)]
    pub plan: i64,
    /// See [`Wait::class`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_class: ArcStr,
    /// See [`Wait::event`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_event: ArcStr,
    /// See [`Wait::idle`].
    pub idle: bool,
    /// What the operating system says.
    pub state: State,
    /// What the database says about the session as a whole. Since 1.5.
    #[serde(default)]
    pub session_state: SessionState,
    /// Kernel stack, 0 = none.
    pub kernel_stack: StackId,
    /// User stack, 0 = none.
    pub user_stack: StackId,
    /// What the comment of the statement said in the execution of that time: see [`CommentRow::id`]; or [`comment::NONE`],
    /// [`comment::UNKNOWN`]. Since 1.12.
    #[serde(default)]
    pub comment: u64,
    /// Nanoseconds; 0 in all rows when the recording counts something else ([`crate::recording::Unit`]).
    pub ns: u64,
    /// How often the interval occurred; 0 when the source samples. What was counted, when the unit of the recording is
    /// [`crate::recording::Unit::Counts`].
    pub count: u64,
    /// Samples the row rests on; 0 when exact, or when only the kernel's total is known.
    pub samples: u64,
    /// Exact or sampled.
    pub fidelity: Fidelity,
    /// The session was too short to be sampled often: this part of its exact total was split by samples of other sessions of its kind, not
    /// by its own. Since 1.4.
    #[serde(default)]
    pub pooled: bool,
}

impl ActivityRow {
    /// The wait of this row.
    pub fn wait(&self) -> Wait {
        Wait::event(&self.wait_class, &self.wait_event, self.idle)
    }
}

/// `count` events of this kind fell into this latency bucket in this second.
///
/// A busy second has a hundred thousand of them: rows of the same event share its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LatencyRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Whose events; 0 = of no session.
    pub session: SessionId,
    /// See [`crate::latency::kind`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub kind: ArcStr,
    /// What the session executed, as in [`ActivityRow::statement`]; 0 = not known, or it does not apply. For commands since 1.6, for what
    /// `dbtime sched` measures since 1.16, for all others since 1.17.
    #[serde(default)]
    pub statement: u64,
    /// As [`ActivityRow::plan`]. Since 1.18.
    #[serde(default)]
    pub plan: i64,
    /// Name of the event: `class:event` of a wait (`CPU` = in none), system call, block operation (`read`, `write` …).
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub name: ArcStr,
    /// Block device, empty when it does not apply.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub device: ArcStr,
    /// Bytes of the request, 0 when it does not apply.
    pub bytes: u64,
    /// Blocks of the database that were read or written, 0 when it does not apply. A source that reports blocks does not say how large
    /// they are.
    #[serde(default)]
    pub blocks: u64,
    /// See [`crate::latency::source`]; empty when it does not apply.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub source: ArcStr,
    /// File that was read, relative to the data directory if it is there; empty when not known.
    #[serde(default, deserialize_with = "crate::word::deserialize")]
    pub file: ArcStr,
    /// The relation that the file belongs to, as `schema.name`; for long values that are stored apart `schema.name (toast)`, for their
    /// index `schema.name (toast index)`. Empty if it belongs to none, or that is not known. Since 1.14.
    #[serde(default, deserialize_with = "crate::word::deserialize")]
    pub relation: ArcStr,
    /// Lower bound of the bucket in nanoseconds; see [`crate::latency::bounds_of`].
    pub from_ns: u64,
    /// Upper bound of the bucket in nanoseconds, exclusive.
    pub to_ns: u64,
    /// Events in the bucket.
    pub count: u64,
    /// Sum of their latencies in nanoseconds.
    pub sum_ns: u64,
    /// The longest of them in nanoseconds.
    pub max_ns: u64,
    /// The shortest of them in nanoseconds; 0 = not recorded. Since 1.3.
    #[serde(default)]
    pub min_ns: u64,
    /// Where in the code: the call path of a kernel function; 0 when it does not apply. Since 1.3.
    #[serde(default)]
    pub stack: StackId,
}

/// One event, kept whole: a function call inside a traced system call, a system call, a wait. Of many, only some are kept;
/// all of them are in the sums and the latencies. Since 1.3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanRow {
    /// Whose event.
    pub session: SessionId,
    /// See [`span::kind`].
    pub kind: String,
    /// Name of the system call or `class:event` of the wait; empty for functions and intervals, whose name is the leaf of
    /// `stack`.
    pub name: String,
    /// Call path, root first; 0 when it does not apply.
    pub stack: StackId,
    /// The traced call it belongs to: the first one of a recording has number 1; 0 when it belongs to none.
    pub call: u64,
    /// How deep inside that call, 0 = the call itself.
    pub depth: u32,
    /// When it began: nanoseconds on the clock of the recording, since the Unix epoch where that is the time of day.
    pub start_ns: i64,
    /// How long it took.
    pub ns: u64,
    /// What the operating system says about it: `kernel` for functions (what is inside them has spans of its own).
    pub state: State,
    /// What the session executed, as [`ActivityRow::statement`]; for a traced call, when it began. Since 1.18.
    #[serde(default)]
    pub statement: u64,
}

/// Words of the `spans` table.
pub mod span {
    /// What the values of `SpanRow::kind` mean.
    pub mod kind {
        /// A kernel function, from entry to return.
        pub const FUNCTION: &str = "function";
        /// A stay off CPU inside the function whose path it has.
        pub const OFF_CPU: &str = "off_cpu";
        /// From one tracepoint to the next; the leaf of `stack` names both.
        pub const INTERVAL: &str = "interval";
        /// A timer sample: a moment, not a length. The leaf of `stack` names the interval that it fell into.
        pub const SAMPLE: &str = "sample";
        /// A system call.
        pub const SYSCALL: &str = "syscall";
        /// A database wait.
        pub const WAIT: &str = "wait";
    }
}

/// A turn of a task, kept whole: a stay off CPU and the stay on a CPU that followed, up to the switch that ended it. The
/// columns are those of `perf sched timehist`, whose wait time is `wait_ns` and `delay_ns` together. Since 1.3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchRow {
    /// Whose turn.
    pub session: SessionId,
    /// When it left its CPU: nanoseconds on the clock of the recording, since the Unix epoch where that is the time of day.
    pub time_ns: i64,
    /// CPU that it left.
    pub cpu: u32,
    /// How long it was not runnable before: from when it left its CPU until it was woken. None: the beginning was not seen.
    pub wait_ns: Option<u64>,
    /// How long it was then ready to run and did not; the whole stay off CPU if it had been preempted. None: not known.
    pub delay_ns: Option<u64>,
    /// How long it then ran. None: the beginning was not seen.
    pub run_ns: Option<u64>,
    /// What the operating system says about `wait_ns`; `runnable` if it had not gone to sleep.
    pub wait_state: State,
    /// Wait event in which it had left its CPU, see [`Wait::class`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_class: ArcStr,
    /// See [`Wait::event`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_event: ArcStr,
    /// In which state it left its CPU at `time_ns`: `runnable` = it was preempted, or yielded.
    pub state: State,
    /// Who ended the sleep; empty = nobody, or not known.
    pub waker: String,
    /// It came back on another CPU than the one it had left, or was moved while it was off CPU.
    pub migrated: bool,
    /// The kernel's own priority: 0 to 99 real time (99 - it is `chrt`'s), 100 to 139 normal (it - 120 is the nice value),
    /// below 0 deadline. None: not known.
    pub priority: Option<i32>,
    /// What the session executed when it left its CPU at `time_ns`, or had executed last: the time that it ran belongs to this. As
    /// [`ActivityRow::statement`]. Since 1.16.
    #[serde(default)]
    pub statement: u64,
    /// What it executed when it had left its CPU before; 0 also where it waited for a command. Since 1.16.
    #[serde(default)]
    pub wait_statement: u64,
}

/// In so many samples of this second the session was blocked in this wait event and state, and this is what it waited for: who ended the
/// wait, and what that one was doing when the sample was taken, followed further if it was blocked itself. The samples of a session,
/// statement, wait event and state divide the time that [`ActivityRow`]s have for them. Since 1.7.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CauseRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Who waited.
    pub session: SessionId,
    /// What it executed, as in [`ActivityRow::statement`].
    pub statement: u64,
    /// See [`Wait::class`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_class: ArcStr,
    /// See [`Wait::event`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_event: ArcStr,
    /// What the operating system says about it.
    pub state: State,
    /// What the chain ended at.
    pub kind: CauseKind,
    /// Who was waited for, and whom that one waited for in turn. Empty if the wait was not for a session.
    pub chain: Vec<CauseLink>,
    /// Samples.
    pub samples: u64,
}

/// In this second this session held an internal lock of the server (PostgreSQL: an LWLock) for `ns`, in this wait event and state at these
/// stacks. A session with several at a time has a row for each: those of different locks sum to more than the time. Since 1.10.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldLockRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Who held it.
    pub session: SessionId,
    /// What it executed, as in [`ActivityRow::statement`].
    pub statement: u64,
    /// Name of the lock, or of several alike: that of the wait event of those who wait for it. Empty: which it held, and whether it held
    /// one, could not be read; so much of its time is not known.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub lock: ArcStr,
    /// Which of several alike, from 0, if the database numbers them (PostgreSQL: partitions).
    pub number: Option<u32>,
    /// Its address in the server's memory; 0 = not known. In dynamic shared memory each process has its own address.
    pub address: u64,
    /// File with the page that it protects, relative to the data directory, without segment number. Empty: it protects no page, or that is
    /// not known. Since 1.15.
    #[serde(default, deserialize_with = "crate::word::deserialize")]
    pub file: ArcStr,
    /// The relation that the file belongs to, as in [`LatencyRow::relation`]. Since 1.15.
    #[serde(default, deserialize_with = "crate::word::deserialize")]
    pub relation: ArcStr,
    /// The page, counted from 0 over all segments of the file. Since 1.15.
    #[serde(default)]
    pub block: Option<u32>,
    /// Nobody else could hold it at the time; otherwise others that only read could, or see [`HeldLockRow::mode_unknown`].
    pub exclusive: bool,
    /// The source does not say whether anyone else could. Since 1.12.
    #[serde(default)]
    pub mode_unknown: bool,
    /// See [`Wait::class`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_class: ArcStr,
    /// See [`Wait::event`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_event: ArcStr,
    /// What the operating system says about the session.
    pub state: State,
    /// See [`ActivityRow::kernel_stack`].
    pub kernel_stack: StackId,
    /// See [`ActivityRow::user_stack`].
    pub user_stack: StackId,
    /// Nanoseconds: the part of the session's time in this wait event and state that the samples with the lock stand for.
    pub ns: u64,
    /// Samples.
    pub samples: u64,
    /// How often the lock was acquired, as far as samples saw it and the source tells one time from the next: each time counts where a
    /// sample first saw it. 0 if the source does not tell. Since 1.12.
    #[serde(default)]
    pub gets: u64,
}

/// In this second this session held, or waited for, a lock of the server's lock table (PostgreSQL: a row of `pg_locks`, whose columns
/// these are) for `ns`. Found by looking at that table some times a second; see [`LockRow::looks`]. Since 1.13.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Who. [`SessionId::RECORDER`]: no session that is recorded, see [`LockRow::prepared`] and [`LockRow::pid`].
    pub session: SessionId,
    /// The pid of a process that is not recorded; 0 = it is recorded, or there is none.
    pub pid: u32,
    /// Id of a transaction that was prepared for two-phase commit: no process holds the lock. None: a process holds it.
    pub prepared: Option<u32>,
    /// The statement that it executed, or the last one where [`LockRow::session_state`] says that it executed none. 0 = not known.
    pub statement: u64,
    /// What the database says about the session as a whole.
    pub session_state: SessionState,
    /// What is locked, as the database calls it (PostgreSQL: `pg_locks.locktype`).
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub kind: ArcStr,
    /// Database, 0 = of no database in particular.
    pub database: Option<u32>,
    /// Relation.
    pub relation: Option<u32>,
    /// Its name, as in [`LatencyRow::relation`]; empty when it is not known. Since 1.14.
    #[serde(default)]
    pub relation_name: String,
    /// Page of it.
    pub page: Option<u32>,
    /// Row on the page.
    pub tuple: Option<u32>,
    /// Virtual transaction, as PostgreSQL writes it; empty = it is none.
    pub virtualxid: String,
    /// Transaction.
    pub transactionid: Option<u32>,
    /// Catalogue of an object; for an advisory lock, the upper half of its key.
    pub classid: Option<u32>,
    /// Object; for an advisory lock, the lower half of its key.
    pub objid: Option<u32>,
    /// Part of the object; for an advisory lock, 1 = one key, 2 = two.
    pub objsubid: Option<u32>,
    /// The mode that it held or wanted, as the database calls it.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub mode: ArcStr,
    /// It held the lock; otherwise it waited for it.
    pub granted: bool,
    /// The lock was kept with the session, where nobody can wait for it, and not in the shared table.
    pub fast_path: bool,
    /// Nanoseconds: each look that found it so stands for the time since the previous look.
    pub ns: u64,
    /// Looks.
    pub looks: u64,
    /// For a lock that was held, how long it had been seen without a break at the last of these looks, nanoseconds: from the recorder's
    /// first look that found it, so it was held at least this long. For one that was waited for, how long the server says the wait had
    /// lasted.
    pub longest_ns: u64,
}

/// What somebody who was waited for was doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CauseLink {
    /// Who.
    pub session: SessionId,
    /// What it executed.
    pub statement: u64,
    /// What the database says about it as a whole.
    pub session_state: SessionState,
    /// See [`Wait::class`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_class: ArcStr,
    /// See [`Wait::event`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub wait_event: ArcStr,
    /// What the operating system says about it; `cpu` = it was not off CPU.
    pub state: State,
    /// See [`ActivityRow::kernel_stack`]. Since 1.8.
    #[serde(default)]
    pub kernel_stack: StackId,
    /// See [`ActivityRow::user_stack`]. Since 1.8.
    #[serde(default)]
    pub user_stack: StackId,
}

/// Where following a wait to its cause ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CauseKind {
    /// At a session that was not blocked: it ran, or waited for a CPU; or at one that somebody had stopped.
    Session,
    /// At a device: somebody slept for block I/O.
    Device,
    /// At a timer that expired.
    Timer,
    /// At a client that had to send or receive something.
    Client,
    /// At a process that is no session of the database.
    Process,
    /// At a prepared transaction of which no process is left. Since 1.8.
    Prepared,
    /// Between two servers that are both recorded, neither of which had anything to do for it: what they send was on its way. Since 1.12.
    Network,
    /// At a server on another host, or on the way there. Since 1.12.
    #[serde(rename = "other_host")]
    OtherHost,
    /// It is not known.
    Unknown,
}

impl CauseKind {
    /// Every kind.
    pub const ALL: [CauseKind; 9] = [
        CauseKind::Session,
        CauseKind::Device,
        CauseKind::Timer,
        CauseKind::Client,
        CauseKind::Process,
        CauseKind::Prepared,
        CauseKind::Network,
        CauseKind::OtherHost,
        CauseKind::Unknown,
    ];

    /// The word for it, as in recordings.
    pub const fn as_str(self) -> &'static str {
        match self {
            CauseKind::Session => "session",
            CauseKind::Device => "device",
            CauseKind::Timer => "timer",
            CauseKind::Client => "client",
            CauseKind::Process => "process",
            CauseKind::Prepared => "prepared",
            CauseKind::Network => "network",
            CauseKind::OtherHost => "other_host",
            CauseKind::Unknown => "unknown",
        }
    }
}

/// A source says that this named value grew by `value` in this second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CounterRow {
    /// Start of the second, microseconds since the Unix epoch.
    pub time: i64,
    /// Whose value; 0 = of no session.
    pub session: SessionId,
    /// Of which statement; 0 = of none in particular.
    #[serde(default)]
    pub statement: u64,
    /// Of which of its plans, by the database's own hash; 0 = not known.
    #[serde(default)]
    pub plan: u64,
    /// Who reports it: `kernel`, `dbtime`, a database.
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub source: ArcStr,
    /// Name of the value, unit included where it has one (`on_cpu_ns`).
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub name: ArcStr,
    /// Growth since the previous row.
    pub value: i64,
}

/// Names of the counters that dbtime itself knows.
pub mod counter {
    /// Source of what the kernel's accounting says.
    pub const KERNEL: &str = "kernel";
    /// Source of what the recorder says about itself.
    pub const DBTIME: &str = "dbtime";
    /// `kernel`: time that passed for the session while it was recorded.
    pub const ELAPSED_NS: &str = "elapsed_ns";
    /// `kernel`: `sum_exec_runtime`.
    pub const ON_CPU_NS: &str = "on_cpu_ns";
    /// `kernel`: `sched_info.run_delay`, with the open interval.
    pub const RUN_QUEUE_NS: &str = "run_queue_ns";
    /// `dbtime`: rows dropped because the session ran while it was read.
    pub const TORN: &str = "torn";
    /// `dbtime`: rows kept without their stacks for the same reason.
    pub const TORN_STACK: &str = "torn_stack";
    /// `dbtime`: passes that found the session pushed off its CPU by the sampler itself; left out.
    pub const DISPLACED: &str = "displaced";
    /// `dbtime`: samples whose wait was over before the session could be looked at: the wait event is that of another wait that
    /// ended.
    pub const STOOD_IN: &str = "stood_in";
    /// `dbtime`, exact tier: context switches that were not seen. They made the interval that the next one closed longer; no time is
    /// missing.
    pub const MISSED: &str = "missed_switch";
    /// A database's: transactions that ended.
    pub const TRANSACTIONS: &str = "transactions";
    /// Source of [`TRANSACTIONS`] that are read from the memory of PostgreSQL's sessions.
    pub const SESSION_MEMORY: &str = "PostgreSQL, session memory";
    /// Source of levels: values at a moment rather than growth. Only in snapshots of live sessions, never in a recording.
    pub const LEVEL: &str = "level";
    /// `level`: how much a session has.
    pub mod level {
        /// Private memory that is in RAM (/proc/PID/status: RssAnon).
        pub const RSS_ANON_BYTES: &str = "rss_anon_bytes";
        /// Memory that is swapped out (VmSwap).
        pub const SWAP_BYTES: &str = "swap_bytes";
    }
    /// Source of what PostgreSQL itself counts, under the names of its views: of no session in particular if it counts for the whole
    /// server.
    pub const SERVER_STATISTICS: &str = "PostgreSQL, statistics";
    /// What pg_stat_statements says about statements; the source is [`SERVER_STATISTICS`]. Of no session, as it counts for the whole
    /// server. Names are those of its columns, with `_ns` appended to times. Since 1.12.
    pub mod statement_counts {
        /// What names begin with; statement 0 stands for all that are not reported one by one.
        pub const PREFIX: &str = "pg_stat_statements.";
        /// What names begin with if the statement ran inside another one, whose numbers include these.
        pub const NESTED: &str = "pg_stat_statements.nested.";
        /// Executions that ended.
        pub const CALLS: &str = "pg_stat_statements.calls";
        /// Rows that they returned or changed.
        pub const ROWS: &str = "pg_stat_statements.rows";
        /// How long they took.
        pub const EXECUTION_NS: &str = "pg_stat_statements.total_exec_time_ns";
        /// How often statements were evicted to make room for others: what was counted for them since is missing.
        pub const EVICTIONS: &str = "pg_stat_statements_info.dealloc";
        /// Seconds in which the counts, or those of some statements, were reset: what was counted since the previous answer is missing.
        /// dbtime's own name.
        pub const RESETS: &str = "pg_stat_statements_info.resets";
    }
    /// A database's: executions of statements that clients requested.
    pub const EXECUTIONS: &str = "executions";
    /// `kernel`: calls in a kernel trace that are there from beginning to end.
    pub const TRACED_CALLS: &str = "traced_calls";
    /// `dbtime`: samples whose wait event could not be read.
    pub const WAIT_NOT_READ: &str = "wait_not_read";
    /// `dbtime`: samples whose wait event is a number that the database does not know.
    pub const WAIT_UNKNOWN: &str = "wait_unknown";
    /// `kernel`: turns of a task, see [`super::SwitchRow`].
    pub const SWITCHES: &str = "switches";
    /// `kernel`: how often the task was moved to another CPU.
    pub const MIGRATIONS: &str = "migrations";
    /// Source of what all CPUs of the host did; its names are in [`host`].
    pub const HOST: &str = "host";

    /// Of no session: what the CPUs did, whoever had them. Since 1.19.
    pub mod host {
        /// Time that passed, times the number of CPUs, nanoseconds.
        pub const CPUS_NS: &str = "cpus_ns";
        /// Of it: a CPU was idle.
        pub const IDLE_NS: &str = "idle_ns";
        /// Of it: the hypervisor gave a CPU to others.
        pub const STOLEN_NS: &str = "stolen_ns";
        /// Timer samples in a process that is not recorded; its name follows.
        pub const SAMPLES: &str = "samples:";
    }

    /// Source of what an Oracle SQL trace says; its names are in [`oracle`].
    pub const ORACLE: &str = "oracle";

    /// Source of what the output of strace says; its names are in [`calls`].
    pub const STRACE: &str = "strace";
    /// Source of what the output of perf trace says; its names are in [`calls`].
    pub const PERF_TRACE: &str = "perf trace";

    /// Names of what the kernel counts for every task; the source is [`KERNEL`]. They are those of /proc where it has them.
    /// Since 1.11.
    pub mod task {
        /// CPU in user mode, as /proc/PID/stat divides it: by the kernel's ticks.
        pub const UTIME_NS: &str = "utime_ns";
        /// CPU in kernel mode, likewise.
        pub const STIME_NS: &str = "stime_ns";
        /// How often it gave up its CPU voluntarily.
        pub const VOLUNTARY_SWITCHES: &str = "voluntary_ctxt_switches";
        /// How often its CPU was taken away.
        pub const INVOLUNTARY_SWITCHES: &str = "nonvoluntary_ctxt_switches";
        /// Page faults without I/O.
        pub const MINOR_FAULTS: &str = super::calls::MINOR_FAULTS;
        /// Page faults with I/O.
        pub const MAJOR_FAULTS: &str = super::calls::MAJOR_FAULTS;
        /// Bytes that read and similar calls returned, from the page cache, a socket, a pipe or a device.
        pub const RCHAR: &str = "rchar";
        /// Bytes that write and similar calls took.
        pub const WCHAR: &str = "wchar";
        /// Calls of read and similar ones.
        pub const SYSCR: &str = "syscr";
        /// Calls of write and similar ones.
        pub const SYSCW: &str = "syscw";
        /// Bytes that it caused to be read from a device.
        pub const READ_BYTES: &str = "read_bytes";
        /// Bytes that it made dirty, to be written to a device.
        pub const WRITE_BYTES: &str = "write_bytes";
        /// Of these, what was discarded before it was written.
        pub const CANCELLED_WRITE_BYTES: &str = "cancelled_write_bytes";
        /// Time in which it waited for block I/O, where the kernel counts it (`kernel.task_delayacct`).
        pub const BLKIO_DELAY_NS: &str = "blkio_delay_ns";
    }

    /// Source of what Tanel Poder's Snapper says; its names are in [`snapper`].
    pub const SNAPPER: &str = "snapper";

    /// What snapshots of an Oracle session say. Names that end in a colon are followed by Oracle's. Since 1.11.
    pub mod snapper {
        /// Growth of a statistic (V$SESSTAT), in its own unit.
        pub const STATISTIC: &str = "stat:";
        /// Growth of a part of the time model (V$SESS_TIME_MODEL), in microseconds.
        pub const TIME_US: &str = "time_us:";
        /// Time waited for an event (V$SESSION_EVENT and the wait in progress), in microseconds.
        pub const WAIT_US: &str = "wait_us:";
        /// Waits for an event.
        pub const WAITS: &str = "waits:";
    }

    /// Source of what the rows of [`crate::LockRow`] rest on; its names are in [`lock_looks`].
    pub const LOCK_LOOKS: &str = "lock table";

    /// Of no session: how the server's lock table was read. Since 1.13.
    pub mod lock_looks {
        /// Looks.
        pub const LOOKS: &str = "looks";
        /// Time that they stand for, nanoseconds: each for that since the previous look, unless that was a standstill.
        pub const NS: &str = "looked_ns";
        /// Locks that were dropped because the server changed them while they were read.
        pub const TORN: &str = "torn";
        /// Looks that could not read the table.
        pub const NOT_READ: &str = "not_read";
        /// Locks for which there was no room: more than are read in a look, or kept.
        pub const WITHOUT_ROOM: &str = "without_room";
    }

    /// Source of what samples of held locks rest on (imported: V$LATCHHOLDER); its names are in [`latch_samples`].
    pub const LATCH_SAMPLES: &str = "latch samples";

    /// Of no session. Since 1.12.
    pub mod latch_samples {
        /// How often holders of locks were looked up.
        pub const SAMPLES: &str = "samples";
        /// Time that these samples stand for, nanoseconds, without gaps.
        pub const NS: &str = "sampled_ns";
    }

    /// What traces of system calls say. Names that end in a colon are followed by that of the system call or signal.
    pub mod calls {
        /// Calls that ended.
        pub const CALLS: &str = "calls:";
        /// Of these, those that returned an error.
        pub const ERRORS: &str = "errors:";
        /// Of these, those for which the trace does not say how long they took.
        pub const UNTIMED: &str = "untimed:";
        /// Signals that were delivered.
        pub const SIGNALS: &str = "signals:";
        /// Page faults without I/O.
        pub const MINOR_FAULTS: &str = "minor_faults";
        /// Page faults with I/O.
        pub const MAJOR_FAULTS: &str = "major_faults";
    }

    /// What an Oracle SQL trace (event 10046) says: the names that its importer and reports both know. Rules and units
    /// are in `docs/SCHEMA.md`.
    pub mod oracle {
        /// `e` of the PARSE, EXEC and FETCH calls that are inside no other call of the trace. This and the next three are of no statement.
        /// A call adds its own value minus what the calls inside it have added, so a value may be negative.
        pub const CALL_ELAPSED_US: &str = "call_elapsed_us";
        /// `c` of the same calls.
        pub const CALL_CPU_US: &str = "call_cpu_us";
        /// All waits except those for the client's next message.
        pub const CALL_WAIT_US: &str = "call_wait_us";
        /// Waits for the client's next message.
        pub const CALL_IDLE_US: &str = "call_idle_us";
        /// Of the waits except those for the client's next message, what is in none of these calls. Since 1.4.
        pub const WAIT_OUTSIDE_CALLS_US: &str = "wait_outside_calls_us";
        /// EXEC calls of depth 0: what the client asked to execute. Since 1.19.
        pub const OUTER_EXECUTIONS: &str = "outer_executions";
        /// CPU of calls for which their waits leave no room: it was used inside them. Only for clocks that count CPU in steps below 1 ms.
        pub const CPU_INSIDE_WAITS_NS: &str = "cpu_inside_waits_ns";
        /// CPU for which there is no room in its call, waits included, nor in the calls beside it. Negative: calls report less CPU than
        /// those inside them. Since 1.4.
        pub const CPU_BEYOND_CALLS_NS: &str = "cpu_beyond_calls_ns";
        /// Waits and calls that add up to more than the call they are in.
        pub const WAITS_BEYOND_CALLS_NS: &str = "waits_beyond_calls_ns";
        /// PARSE, EXEC and FETCH calls. This and the next thirteen are by statement and plan.
        pub const CALLS: &str = "calls";
        /// Of these, EXEC.
        pub const EXECUTIONS: &str = "executions";
        /// `e` of the calls, the statements called inside included.
        pub const ELAPSED_US: &str = "elapsed_us";
        /// `c` of the calls, the statements called inside included.
        pub const CPU_US: &str = "cpu_us";
        /// `e` of the calls minus that of the calls inside them. Since 1.4.
        pub const OWN_ELAPSED_US: &str = "own_elapsed_us";
        /// `c` of the calls minus that of the calls inside them. Since 1.4.
        pub const OWN_CPU_US: &str = "own_cpu_us";
        /// Its own waits except those for the client's next message.
        pub const WAIT_US: &str = "wait_us";
        /// Its own waits for the client's next message.
        pub const IDLE_US: &str = "idle_us";
        /// Of both, waits of cursor #0 that were assigned to the preceding statement because no call says whose they are. Since 1.4.
        pub const ASSUMED_WAIT_US: &str = "assumed_wait_us";
        /// Rows processed.
        pub const ROWS: &str = "rows";
        /// Blocks got in consistent mode.
        pub const CONSISTENT_GETS: &str = "consistent_gets";
        /// Blocks got in current mode.
        pub const CURRENT_GETS: &str = "current_gets";
        /// Blocks read.
        pub const PHYSICAL_READS: &str = "physical_reads";
        /// Misses in the library cache.
        pub const MISSES: &str = "misses";
        /// What is summed up over calls.
        pub const CALL_SUMS: [&str; 8] = [
            CALLS,
            ELAPSED_US,
            CPU_US,
            ROWS,
            CONSISTENT_GETS,
            CURRENT_GETS,
            PHYSICAL_READS,
            MISSES,
        ];
        /// The same for PARSE calls alone. What belongs neither to these nor to FETCH belongs to EXEC. Since 1.4.
        pub const PARSE_SUMS: [&str; 8] = [
            "parse_calls",
            "parse_elapsed_us",
            "parse_cpu_us",
            "parse_rows",
            "parse_consistent_gets",
            "parse_current_gets",
            "parse_physical_reads",
            "parse_misses",
        ];
        /// The same for FETCH calls alone. Since 1.4.
        pub const FETCH_SUMS: [&str; 8] = [
            "fetch_calls",
            "fetch_elapsed_us",
            "fetch_cpu_us",
            "fetch_rows",
            "fetch_consistent_gets",
            "fetch_current_gets",
            "fetch_physical_reads",
            "fetch_misses",
        ];
        /// Errors of a statement at run time (`ERROR` lines), followed by their number. Since 1.4.
        pub const ERRORS: &str = "errors:";
        /// Statements that could not be parsed, followed by the number of the error. Since 1.4.
        pub const PARSE_ERRORS: &str = "parse_errors:";
        /// Transactions committed that had changed something. This and the next two are by second, of no statement. Since 1.4.
        pub const COMMITS: &str = "commits";
        /// Transactions rolled back. Since 1.4.
        pub const ROLLBACKS: &str = "rollbacks";
        /// Transactions that had changed nothing, however they ended. Since 1.4.
        pub const READ_ONLY_ENDS: &str = "read_only_ends";
        /// Waits by object, followed by `OBJ#:EVENT`. Since 1.4.
        pub const OBJECT_WAITS: &str = "object_waits:";
        /// Their time.
        pub const OBJECT_WAIT_US: &str = "object_wait_us:";
        /// Blocks that they moved.
        pub const OBJECT_BLOCKS: &str = "object_blocks:";
        /// Waits by file, followed by `FILE#:EVENT`. Since 1.4.
        pub const FILE_WAITS: &str = "file_waits:";
        /// Their time.
        pub const FILE_WAIT_US: &str = "file_wait_us:";
        /// Blocks that they moved.
        pub const FILE_BLOCKS: &str = "file_blocks:";
        /// Waits for reads of data files and temporary files. This and the next three are by second, of no statement.
        pub const READS: &str = "reads";
        /// Blocks that they read.
        pub const READ_BLOCKS: &str = "read_blocks";
        /// Waits for writes of data files and temporary files.
        pub const WRITES: &str = "writes";
        /// Blocks that they wrote.
        pub const WRITTEN_BLOCKS: &str = "written_blocks";
        /// From the beginning of the first call or wait to the last `tim`. This and the next three are in the last second of the session.
        pub const INTERVAL_DURATION_US: &str = "interval_duration_us";
        /// `c` of the calls that are inside no other call of the trace, except CLOSE.
        pub const INTERVAL_CPU_US: &str = "interval_cpu_us";
        /// All waits.
        pub const INTERVAL_WAIT_US: &str = "interval_wait_us";
        /// Duration minus both.
        pub const INTERVAL_UNACCOUNTED_US: &str = "interval_unaccounted_us";
    }
}

/// A session, once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Identity in this recording.
    pub id: SessionId,
    /// See [`Session::pid`].
    pub pid: u32,
    /// When the process started, microseconds since the Unix epoch.
    pub started: i64,
    /// See [`Session::backend_type`].
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub backend_type: ArcStr,
    /// See [`Session::user`].
    pub user: String,
    /// See [`Session::database`].
    pub database: String,
    /// See [`Session::client`].
    pub client: String,
    /// See [`Session::leader_pid`].
    pub leader_pid: u32,
    /// See [`Session::title`].
    pub title: String,
    /// See [`Session::service`].
    #[serde(default)]
    pub service: String,
    /// See [`Session::module`].
    #[serde(default)]
    pub module: String,
    /// See [`Session::action`].
    #[serde(default)]
    pub action: String,
    /// See [`Session::client_id`].
    #[serde(default)]
    pub client_id: String,
    /// See [`Session::sid`]. Since 1.4.
    #[serde(default)]
    pub sid: String,
    /// See [`Session::application`]. Since 1.5.
    #[serde(default)]
    pub application: String,
    /// See [`Session::host`]. Not in the file: each recording is of one.
    #[serde(skip)]
    pub host: String,
    /// See [`Session::server`]. Not in the file either.
    #[serde(skip)]
    pub server: String,
}

impl From<Session> for SessionRow {
    fn from(session: Session) -> SessionRow {
        SessionRow {
            id: session.id,
            pid: session.pid,
            started: session.started_us,
            backend_type: session.backend_type.0,
            user: session.user,
            database: session.database,
            client: session.client,
            leader_pid: session.leader_pid,
            title: session.title,
            application: session.application,
            service: session.service,
            module: session.module,
            action: session.action,
            client_id: session.client_id,
            sid: session.sid,
            host: session.host,
            server: session.server,
        }
    }
}

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Session {
        Session {
            id: row.id,
            pid: row.pid,
            started_us: row.started,
            backend_type: BackendType(row.backend_type),
            user: row.user,
            database: row.database,
            client: row.client,
            leader_pid: row.leader_pid,
            title: row.title,
            application: row.application,
            service: row.service,
            module: row.module,
            action: row.action,
            client_id: row.client_id,
            sid: row.sid,
            host: row.host,
            server: row.server,
        }
    }
}

/// A stack, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// [`crate::stack_id`] of the frames.
    pub id: StackId,
    /// Root first.
    pub frames: Vec<Frame>,
}

/// A statement, once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatementRow {
    /// Identity: the database's own id of the normalised statement, or a hash of the name it has there.
    pub id: u64,
    /// Text; empty when not known.
    pub text: String,
    /// The identity is dbtime's fingerprint of the text: the database gave it no id. Since 1.17.
    #[serde(default)]
    pub is_fingerprint: bool,
    /// Name in the database (Oracle: `sql_id`); empty when there is none.
    #[serde(default)]
    pub sql_id: String,
    /// Steps of its plans, as far as the source tells.
    #[serde(default)]
    pub plan_steps: Vec<PlanStep>,
    /// Statements in whose calls it ran; the rest of its calls had no caller, or an unknown one.
    #[serde(default)]
    pub callers: Vec<Caller>,
    /// The name it had in the database before it had an `sql_id` (Oracle: hash value); 0 = not known. Since 1.4.
    #[serde(default)]
    pub hash_value: u64,
    /// The user who parsed it, by the database's number; 0 is SYS. Since 1.4.
    #[serde(default)]
    pub user_id: Option<u32>,
    /// The least depth at which it was parsed: more than 0 is recursive. Since 1.4.
    #[serde(default)]
    pub depth: Option<u32>,
    /// Kind of command, by the database's number. Since 1.4.
    #[serde(default)]
    pub command: Option<u32>,
    /// Further statements that differ from it in literals only and are counted with it, because the source has too many to keep
    /// each. Since 1.4.
    #[serde(default)]
    pub alike: u64,
    /// Values that its bind variables had, where requested. Since 1.4.
    #[serde(default)]
    pub binds: Vec<BindSet>,
    /// The first of these executions, one by one. Since 1.4.
    #[serde(default)]
    pub bound_executions: Vec<BoundExecution>,
    /// All executions with values that the source reports. Since 1.4.
    #[serde(default)]
    pub bound_execution_count: u64,
}

impl StatementRow {
    /// Text of the row of all statements for which an import had no room.
    pub const FURTHER: &str = "[further statements]";
}

/// What an application says about a request in the comments of its statements (sqlcommenter), once: equal values have equal ids in every
/// recording. What it does not say is empty. Since 1.12.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommentRow {
    /// Hash of the values, above [`comment::UNKNOWN`].
    pub id: u64,
    /// Trace of the request, 32 hexadecimal digits (of `traceparent`); [`comment::MORE`] where there were more than are kept.
    pub trace_id: String,
    /// Span in it that issued the statement, 16 hexadecimal digits (of `traceparent`).
    pub span_id: String,
    /// `application`; not what the connection calls itself ([`Session::application`]).
    pub application: String,
    /// `controller`.
    pub controller: String,
    /// `action`.
    pub action: String,
    /// `route`.
    pub route: String,
}

impl CommentRow {
    /// The values and their hash. None if there is no value.
    pub fn of(values: CommentRow) -> Option<CommentRow> {
        let texts = values.texts();
        if texts.iter().all(|text| text.is_empty()) {
            return None;
        }
        let mut hash = Xxh3::new();
        for text in texts {
            hash.update(&(text.len() as u32).to_le_bytes());
            hash.update(text.as_bytes());
        }
        Some(CommentRow {
            id: hash.digest().max(comment::UNKNOWN + 1),
            ..values
        })
    }

    fn texts(&self) -> [&String; 6] {
        [
            &self.trace_id,
            &self.span_id,
            &self.application,
            &self.controller,
            &self.action,
            &self.route,
        ]
    }

    /// Bytes of its texts.
    pub fn text(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }
}

/// Words of [`ActivityRow::comment`] and the `comments` table.
pub mod comment {
    /// The statement has no such comment, or there is no statement.
    pub const NONE: u64 = 0;
    /// It is not known: the text could not be read while it was executed, or the time belongs to no sample.
    pub const UNKNOWN: u64 = 1;
    /// Stands for values of which there were more than are kept.
    pub const MORE: &str = "[more than are kept]";
}

/// An execution of a statement, and the values of its bind variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundExecution {
    /// When it ended, microseconds since the Unix epoch.
    pub time_us: i64,
    /// Elapsed time without the fetches that followed, microseconds.
    pub elapsed_us: u64,
    /// By position; one for which the source has no value (null) is missing.
    pub values: Vec<BoundValue>,
}

/// The value of a bind variable.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BoundValue {
    /// Number of the variable, as the source counts.
    pub position: u32,
    /// As the source writes it, quotes included; long ones are cut.
    pub value: String,
}

/// Executions of a statement with the same values of its bind variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindSet {
    /// Values in the order of the variables, as the source writes them, without quotes; long ones are cut, those without one (null)
    /// are empty.
    pub values: Vec<String>,
    /// Executions.
    pub executions: u64,
    /// Elapsed time of these and of the fetches that followed, microseconds.
    pub elapsed_us: u64,
    /// Rows.
    pub rows: u64,
}

/// A step of a plan: what it did over all executions that the source reports, including the steps below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Which plan, by the database's own hash; 0 = not known.
    pub plan: u64,
    /// Number of the step in its plan, from 1.
    pub id: u64,
    /// The step it belongs to; 0 = none, it is the root.
    pub parent: u64,
    /// Operation with its object (`TABLE ACCESS FULL ORDERS`).
    pub operation: String,
    /// How often the source reported it.
    pub executions: u64,
    /// Rows it returned.
    pub rows: u64,
    /// Blocks got in consistent mode.
    pub consistent_gets: u64,
    /// Blocks read.
    pub physical_reads: u64,
    /// Blocks written.
    pub physical_writes: u64,
    /// Elapsed time, microseconds.
    pub elapsed_us: u64,
}

impl PlanStep {
    /// Adds what the same step did in other executions.
    pub fn add(&mut self, other: &PlanStep) {
        for (sum, more) in [
            (&mut self.executions, other.executions),
            (&mut self.rows, other.rows),
            (&mut self.consistent_gets, other.consistent_gets),
            (&mut self.physical_reads, other.physical_reads),
            (&mut self.physical_writes, other.physical_writes),
            (&mut self.elapsed_us, other.elapsed_us),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Calls of a statement that were made on behalf of another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The other one.
    pub statement: u64,
    /// Calls.
    pub calls: u64,
    /// Their elapsed time, microseconds.
    pub elapsed_us: u64,
}

/// Rows of every table: what a collector or an importer hands on, and what a segment holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// See [`ActivityRow`].
    pub activity: Vec<ActivityRow>,
    /// See [`LatencyRow`].
    pub latency: Vec<LatencyRow>,
    /// See [`CounterRow`].
    pub counters: Vec<CounterRow>,
    /// See [`SessionRow`].
    pub sessions: Vec<SessionRow>,
    /// See [`StackRow`].
    pub stacks: Vec<StackRow>,
    /// See [`StatementRow`].
    pub statements: Vec<StatementRow>,
    /// See [`SpanRow`].
    pub spans: Vec<SpanRow>,
    /// See [`SwitchRow`].
    pub switches: Vec<SwitchRow>,
    /// See [`CauseRow`].
    pub causes: Vec<CauseRow>,
    /// See [`HeldLockRow`].
    pub held_locks: Vec<HeldLockRow>,
    /// See [`LockRow`].
    pub locks: Vec<LockRow>,
    /// See [`CommentRow`].
    pub comments: Vec<CommentRow>,
}

impl Rows {
    /// Number of rows in all tables.
    pub fn len(&self) -> usize {
        self.activity.len()
            + self.latency.len()
            + self.counters.len()
            + self.sessions.len()
            + self.stacks.len()
            + self.statements.len()
            + self.spans.len()
            + self.switches.len()
            + self.causes.len()
            + self.held_locks.len()
            + self.locks.len()
            + self.comments.len()
    }

    /// What they weigh in memory, in rows: a frame of a stack is as large as a row.
    pub fn weight(&self) -> usize {
        let frames: usize = self.stacks.iter().map(|stack| stack.frames.len()).sum();
        self.len() + frames
    }

    /// About how many bytes they take in memory; texts that rows share do not count.
    pub fn bytes(&self) -> usize {
        /// A text of one word, with what the allocator needs.
        const WORD: usize = 32;
        let links: usize = self.causes.iter().map(|row| row.chain.len()).sum();
        let words = 2 * self.activity.len()
            + 2 * self.counters.len()
            + 6 * self.sessions.len()
            + 2 * self.spans.len()
            + 3 * self.switches.len()
            + 2 * self.causes.len()
            + 2 * links
            + 3 * self.held_locks.len()
            + 3 * self.locks.len()
            + 6 * self.comments.len();
        let frames: usize = self.stacks.iter().map(|row| row.frames.len()).sum();
        size_of_val(&*self.activity)
            + size_of_val(&*self.latency)
            + size_of_val(&*self.counters)
            + size_of_val(&*self.sessions)
            + size_of_val(&*self.stacks)
            + size_of_val(&*self.statements)
            + size_of_val(&*self.spans)
            + size_of_val(&*self.switches)
            + size_of_val(&*self.causes)
            + size_of_val(&*self.held_locks)
            + size_of_val(&*self.locks)
            + size_of_val(&*self.comments)
            + links * size_of::<CauseLink>()
            + frames * size_of::<Frame>()
            + words * WORD
            + self.text()
    }

    /// Rows of the table that has most.
    pub(crate) fn most_of_a_table(&self) -> usize {
        let lengths = [
            self.activity.len(),
            self.latency.len(),
            self.counters.len(),
            self.sessions.len(),
            self.stacks.len(),
            self.statements.len(),
            self.spans.len(),
            self.switches.len(),
            self.causes.len(),
            self.held_locks.len(),
            self.locks.len(),
            self.comments.len(),
        ];
        lengths.into_iter().max().unwrap_or(0)
    }

    /// Bytes of the texts that can be long: of frames, statements, comments and titles.
    pub(crate) fn text(&self) -> usize {
        let frames = self.stacks.iter().flat_map(|stack| &stack.frames);
        let of_frames: usize = frames
            .map(|frame| frame.symbol.len() + frame.module.len() + frame.build_id.len())
            .sum();
        let of_statements: usize = self.statements.iter().map(|row| row.text.len()).sum();
        let of_sessions: usize = self.sessions.iter().map(|row| row.title.len()).sum();
        let of_comments: usize = self.comments.iter().map(CommentRow::text).sum();
        of_frames + of_statements + of_sessions + of_comments
    }

    /// Appends the rows of another value to these.
    pub fn append(&mut self, mut other: Rows) {
        // They need not be copied.
        if self.is_empty() {
            *self = other;
            return;
        }
        self.activity.append(&mut other.activity);
        self.latency.append(&mut other.latency);
        self.counters.append(&mut other.counters);
        self.sessions.append(&mut other.sessions);
        self.stacks.append(&mut other.stacks);
        self.statements.append(&mut other.statements);
        self.spans.append(&mut other.spans);
        self.switches.append(&mut other.switches);
        self.causes.append(&mut other.causes);
        self.held_locks.append(&mut other.held_locks);
        self.locks.append(&mut other.locks);
        self.comments.append(&mut other.comments);
    }

    /// True when there is no row at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The recording that a row belongs to, where several are read as one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// No other has this number.
    pub number: u64,
    /// See [`Session::host`].
    pub host: String,
    /// See [`Session::server`].
    pub server: String,
}

impl Whose {
    fn session(&self, id: SessionId) -> SessionId {
        id.of_recording(self.number)
    }
}

/// A row type that has a table.
pub trait Table: Serialize + DeserializeOwned + Send {
    /// Folder of the table inside a recording.
    const NAME: &'static str;

    /// Columns that hold moments (stored as UTC timestamps).
    const MOMENTS: &'static [&'static str] = &[];

    /// It is read as part of several recordings: sessions get identities that no other recording has.
    fn come_from(&mut self, whose: &Whose);
}

/// A row of a session that belongs to a second.
pub trait Timed: Table {
    /// Start of the second, microseconds since the Unix epoch.
    fn time(&self) -> i64;
    /// Puts it into another second.
    fn set_time(&mut self, time: i64);
    /// Whose it is; 0 = of no session.
    fn session(&self) -> SessionId;
}

macro_rules! timed {
    ($($row:ty),+) => {$(
        impl Timed for $row {
            fn time(&self) -> i64 {
                self.time
            }

            fn set_time(&mut self, time: i64) {
                self.time = time;
            }

            fn session(&self) -> SessionId {
                self.session
            }
        }
    )+};
}

timed!(
    ActivityRow,
    LatencyRow,
    CounterRow,
    CauseRow,
    HeldLockRow,
    LockRow
);

impl Table for ActivityRow {
    const NAME: &'static str = "activity";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for LatencyRow {
    const NAME: &'static str = "latency";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for CauseRow {
    const NAME: &'static str = "causes";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
        for link in &mut self.chain {
            link.session = whose.session(link.session);
        }
    }
}

impl Table for HeldLockRow {
    const NAME: &'static str = "held_locks";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for LockRow {
    const NAME: &'static str = "locks";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for CounterRow {
    const NAME: &'static str = "counters";
    const MOMENTS: &'static [&'static str] = &["time"];

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for SessionRow {
    const NAME: &'static str = "sessions";
    const MOMENTS: &'static [&'static str] = &["started"];

    fn come_from(&mut self, whose: &Whose) {
        self.id = whose.session(self.id);
        self.host.clone_from(&whose.host);
        self.server.clone_from(&whose.server);
    }
}

impl Table for StackRow {
    const NAME: &'static str = "stacks";

    fn come_from(&mut self, _: &Whose) {}
}

impl Table for StatementRow {
    const NAME: &'static str = "statements";

    fn come_from(&mut self, _: &Whose) {}
}

impl Table for CommentRow {
    const NAME: &'static str = "comments";

    fn come_from(&mut self, _: &Whose) {}
}

impl Table for SpanRow {
    const NAME: &'static str = "spans";

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}

impl Table for SwitchRow {
    const NAME: &'static str = "switches";

    fn come_from(&mut self, whose: &Whose) {
        self.session = whose.session(self.session);
    }
}
