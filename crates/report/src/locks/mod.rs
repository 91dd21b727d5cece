//! Who held locks in the server's lock table (PostgreSQL: heavyweight locks, as in pg_locks), and who waited for them.
//!
//! The recorder samples the table several times a second, and keeps what matters. So times are those that samples stand for; and the
//! longest time that somebody held a lock is the longest that was seen without a break.

mod names;
mod target;
mod waited;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use arcstr::ArcStr;
use dbtime_model::counter::{self, lock_looks};
use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{LockRow, SessionId, SessionState, State, Wait};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::fields;
use crate::filter::Filter;
use crate::load::Source;
use crate::scan::Scan;
use names::Names;
pub use target::LockTarget;
pub use waited::{LockShare, WaitedLock};
pub(crate) use waited::{WaitOfStatement, WaitedLocks};

/// Class of the waits for such a lock; the event is named after what is locked.
pub(crate) const CLASS: &str = "Lock";

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LockReport {
    /// False: the recording has no lock table.
    pub recorded: bool,
    /// How often it was sampled.
    pub looks: u128,
    /// Time that these samples stand for, nanoseconds.
    pub looked_ns: u128,
    /// Locks that were dropped because the server changed them while they were read; counted each time.
    pub torn: u128,
    /// Samples that could not read the table.
    pub not_read: u128,
    /// Locks for which there was no room; counted each time.
    pub without_room: u128,
    /// Locks that were held or waited for: waited for longest first, then held longest.
    pub locks: Vec<HeavyLock>,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeavyLock {
    /// What it is on.
    #[serde(flatten)]
    pub target: LockTarget,
    /// Time in which sessions held it, nanoseconds. Concurrent holds, and several modes, add up.
    pub held_ns: u128,
    /// The longest that one session was seen to hold it in one mode without a break, nanoseconds: it may have held it for longer.
    pub longest_held_ns: u64,
    /// Time in which sessions waited for it, nanoseconds. Concurrent waits add up.
    pub waited_ns: u128,
    /// The longest wait as reported by the server, up to the last sample that found the session waiting, nanoseconds.
    pub longest_waited_ns: u64,
    /// Sessions that waited.
    pub waiters: usize,
    /// Who held it, then who waited, longest first.
    pub requests: Vec<LockRequest>,
}

/// How a session held a lock or waited for it, while in one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockRequest {
    /// Its process; none: it has none, see [`LockRequest::prepared`].
    pub pid: Option<u32>,
    /// The id of the prepared transaction that holds it; none: a process holds it.
    pub prepared: Option<u32>,
    /// False: a process that is not recorded; nothing more is known about it.
    pub recorded: bool,
    /// Kind of process; empty if not known.
    pub backend_type: ArcStr,
    /// Whose.
    pub user: String,
    /// Mode.
    pub mode: ArcStr,
    /// It held the lock; else it waited for it.
    pub granted: bool,
    /// For some of the time the lock was recorded with the session (fast path), where nobody can wait for it.
    pub fast_path: bool,
    /// What it executed, or had executed last; 0 = not known.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// The session's state according to the database.
    pub session_state: SessionState,
    /// Nanoseconds.
    pub ns: u128,
    /// Samples behind it.
    pub looks: u128,
    /// See [`HeavyLock::longest_held_ns`] and [`HeavyLock::longest_waited_ns`], nanoseconds.
    pub longest_ns: u64,
}

/// What requests are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    session: SessionId,
    pid: u32,
    prepared: Option<u32>,
    mode: ArcStr,
    granted: bool,
    statement: u64,
    session_state: SessionState,
}

#[derive(Default)]
struct Sum {
    ns: u128,
    looks: u128,
    longest_ns: u64,
    fast_path: bool,
}

impl Sum {
    fn add(&mut self, more: &Sum) {
        self.ns += more.ns;
        self.looks += more.looks;
        self.longest_ns = self.longest_ns.max(more.longest_ns);
        self.fast_path |= more.fast_path;
    }
}

/// Who held each lock, and who waited for it.
type Uses = BTreeMap<LockTarget, BTreeMap<Key, Sum>>;

/// What to tell the user if the lock table was not sampled.
pub(crate) fn why_not_recorded(meta: &Meta) -> Option<&'static str> {
    // Nobody expects it of files of other tools.
    meta.files.is_empty().then_some(
        "The lock table (heavyweight locks, pg_locks) is not in this recording: older versions did not \
         record it, nor does '--collector proc'.",
    )
}

/// Adds up who held which lock, and who waited for it.
pub(crate) fn locks(
    source: &Source,
    filter: &Filter,
    dimensions: &mut Dimensions,
    scanned: &mut Scan,
) -> (LockReport, Vec<Problem>) {
    let mut report = LockReport {
        recorded: source.meta().database.locks,
        ..LockReport::default()
    };
    if !report.recorded {
        return (report, Vec::new());
    }
    let mut problems = source.counters(|row| {
        if row.source == counter::LOCK_LOOKS && filter.takes_time(row.time) {
            let value = u128::from(row.value.unsigned_abs());
            match row.name.as_str() {
                lock_looks::LOOKS => report.looks += value,
                lock_looks::NS => report.looked_ns += value,
                lock_looks::TORN => report.torn += value,
                lock_looks::NOT_READ => report.not_read += value,
                lock_looks::WITHOUT_ROOM => report.without_room += value,
                _ => {}
            }
        }
    });
    let mut all = Uses::new();
    let mut other_waiters = Uses::new();
    problems.extend(source.locks(|row| {
        let of_session = (row.session != SessionId::RECORDER).then(|| dimensions.session(row.session));
        if let Some(session) = of_session {
            scanned.meet_lock(row, filter, session);
        }
        if !filter.takes_time(row.time) || !takes_wait(filter, row) {
            return;
        }
        let is_chosen = of_session.map_or(filter.takes_all_sessions(), |session| {
            filter.takes_session(session)
        }) && filter.takes_statement(row.statement);
        let sums = match (is_chosen, row.granted) {
            (true, _) => &mut all,
            (false, false) => &mut other_waiters,
            (false, true) => return,
        };
        let target = match of_session {
            Some(session) => LockTarget::of_session(row, session),
            None => LockTarget::of(row),
        };
        let key = Key {
            session: row.session,
            pid: row.pid,
            prepared: row.prepared,
            mode: row.mode.clone(),
            granted: row.granted,
            statement: row.statement,
            session_state: row.session_state,
        };
        let of_lock = sums.entry(target).or_default();
        of_lock.entry(key).or_default().add(&Sum {
            ns: row.ns.into(),
            looks: row.looks.into(),
            longest_ns: row.longest_ns,
            fast_path: row.fast_path,
        });
    }));
    // Who waits for a lock that a chosen session holds waits for that session.
    for (target, uses) in &mut all {
        if uses.keys().any(|key| key.granted)
            && let Some(waiters) = other_waiters.remove(target)
        {
            uses.extend(waiters);
        }
    }
    report.locks = together(all)
        .into_iter()
        .map(|(target, uses)| lock(target, uses, dimensions))
        .collect();
    report.locks.sort_by_key(|lock| {
        Reverse((
            lock.waited_ns,
            lock.longest_waited_ns,
            lock.longest_held_ns,
            lock.held_ns,
        ))
    });
    (report, problems)
}

/// A waiter's wait event is known, and that it sleeps; for a holder neither is recorded here.
pub(crate) fn takes_wait(filter: &Filter, row: &LockRow) -> bool {
    match row.granted {
        true => filter.waits.is_empty() && filter.states.is_empty(),
        false => filter.takes(&wait_of(row), State::Sleep),
    }
}

/// The wait event of those who wait for it.
pub(crate) fn wait_of(row: &LockRow) -> Wait {
    Wait::event(CLASS, &row.kind, false)
}

/// Merges the uses of each lock under its different names, and those of locks that samples met too briefly to say for how long each was
/// held and waited for, see [`LockTarget::seen_briefly`].
fn together(all: Uses) -> Uses {
    let mut names = Names::default();
    all.keys().for_each(|target| names.learn(target));
    let named = renamed(all, |mut target, _| {
        names.complete(&mut target);
        target
    });
    renamed(named, |target, uses| {
        let is_brief = |sum: &Sum| target.is_met_briefly(sum.ns, sum.looks, sum.longest_ns.into());
        let several = uses
            .values()
            .all(is_brief)
            .then(|| target.seen_briefly())
            .flatten();
        several.unwrap_or(target)
    })
}

/// Adds up those that get the same name.
fn renamed(all: Uses, name: impl Fn(LockTarget, &BTreeMap<Key, Sum>) -> LockTarget) -> Uses {
    let mut locks = Uses::new();
    for (target, uses) in all {
        let of_lock = locks.entry(name(target, &uses)).or_default();
        for (key, sum) in uses {
            of_lock.entry(key).or_default().add(&sum);
        }
    }
    locks
}

fn lock(target: LockTarget, uses: BTreeMap<Key, Sum>, dimensions: &mut Dimensions) -> HeavyLock {
    let mut lock = HeavyLock {
        target,
        held_ns: 0,
        longest_held_ns: 0,
        waited_ns: 0,
        longest_waited_ns: 0,
        waiters: 0,
        requests: Vec::new(),
    };
    let mut waiters = BTreeSet::new();
    for (key, sum) in uses {
        let (ns, longest_ns) = match key.granted {
            true => (&mut lock.held_ns, &mut lock.longest_held_ns),
            false => (&mut lock.waited_ns, &mut lock.longest_waited_ns),
        };
        *ns += sum.ns;
        *longest_ns = sum.longest_ns.max(*longest_ns);
        if !key.granted {
            waiters.insert((key.session, key.pid));
        }
        let is_recorded = key.session != SessionId::RECORDER;
        let (pid, backend_type, user) = match is_recorded {
            true => {
                let session = dimensions.session(key.session);
                (session.pid, session.backend_type.0.clone(), session.user.clone())
            }
            false => (key.pid, ArcStr::new(), String::new()),
        };
        lock.requests.push(LockRequest {
            pid: (pid != 0).then_some(pid),
            prepared: key.prepared,
            recorded: is_recorded || key.prepared.is_some(),
            backend_type,
            user,
            mode: key.mode,
            granted: key.granted,
            fast_path: sum.fast_path,
            statement: key.statement,
            text: dimensions.statement(key.statement).map(str::to_string),
            session_state: key.session_state,
            ns: sum.ns,
            looks: sum.looks,
            longest_ns: sum.longest_ns,
        });
    }
    lock.waiters = waiters.len();
    lock.requests.sort_by_key(|of| {
        (
            Reverse(of.granted),
            Reverse(of.ns),
            Reverse(of.longest_ns),
            of.pid,
        )
    });
    lock
}
