//! Who had locks of the server's lock table (PostgreSQL: heavyweight locks, as pg_locks lists them), and who waited for them.
//!
//! The recorder looks at the table some times a second, and keeps what matters. So times are those that looks stand for; and of a lock
//! that somebody had, the longest time is what was seen of it without a break.

mod names;
mod target;
mod waited;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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

/// Class of the waits for such a lock; the event is called as what is locked.
pub(crate) const CLASS: &str = "Lock";

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LockReport {
    /// False: the recording does not have the lock table.
    pub recorded: bool,
    /// How often it was looked at.
    pub looks: u128,
    /// Time that these looks stand for, nanoseconds.
    pub looked_ns: u128,
    /// Locks that were dropped because the server changed them while they were read, each time that it did.
    pub torn: u128,
    /// Looks that could not read the table.
    pub not_read: u128,
    /// Locks for which there was no room, each time that there was none.
    pub without_room: u128,
    /// What was had or waited for, that which was waited for longest first, then that which was had longest.
    pub locks: Vec<HeavyLock>,
}

/// A lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeavyLock {
    /// What it is on.
    #[serde(flatten)]
    pub target: LockTarget,
    /// Time in which sessions had it, nanoseconds. Of several at the same time, and of several modes, it sums.
    pub held_ns: u128,
    /// The longest that one session was seen to have it in one mode without a break, nanoseconds: it may have had it for longer.
    pub longest_held_ns: u64,
    /// Time in which sessions waited for it, nanoseconds. Of several at the same time it sums.
    pub waited_ns: u128,
    /// The longest that one waited, by what the server says, up to the last look that found it waiting, nanoseconds.
    pub longest_waited_ns: u64,
    /// Sessions that waited.
    pub waiters: usize,
    /// Who had it, then who waited, the longest first.
    pub requests: Vec<LockRequest>,
}

/// How a session had a lock or waited for it, while it was in one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockRequest {
    /// Its process; none: there is none, see [`LockRequest::prepared`].
    pub pid: Option<u32>,
    /// The id of the transaction that was prepared, and that has it; none: a process has it.
    pub prepared: Option<u32>,
    /// False: a process that is not recorded; nothing more is known of it.
    pub recorded: bool,
    /// What kind of process; empty where it is not known.
    pub backend_type: String,
    /// Whose.
    pub user: String,
    /// Mode.
    pub mode: String,
    /// It had the lock; else it waited for it.
    pub granted: bool,
    /// For some of the time the lock was noted with the session, where nobody can wait for it.
    pub fast_path: bool,
    /// What it executed, or had executed last; 0 = not known.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// What the database says of the session.
    pub session_state: SessionState,
    /// Nanoseconds.
    pub ns: u128,
    /// Looks that this rests on.
    pub looks: u128,
    /// See [`HeavyLock::longest_held_ns`] and [`HeavyLock::longest_waited_ns`], nanoseconds.
    pub longest_ns: u64,
}

/// What is told apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    session: SessionId,
    pid: u32,
    prepared: Option<u32>,
    mode: String,
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

/// What to say where nobody looked.
pub(crate) fn why_not_recorded(meta: &Meta) -> Option<&'static str> {
    // Of files nobody expects them.
    meta.files.is_empty().then_some(
        "The lock table (heavyweight locks, pg_locks) is not in this recording: older versions did not \
         record it, nor does '--collector proc'.",
    )
}

/// Adds up who had which lock, and who waited for it.
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
    let mut all: BTreeMap<LockTarget, BTreeMap<Key, Sum>> = BTreeMap::new();
    problems.extend(source.locks(|row| {
        let of_session = (row.session != SessionId::RECORDER).then(|| dimensions.session(row.session));
        if let Some(session) = of_session {
            scanned.meet_lock(row, filter, session);
        }
        let is_chosen = filter.takes_time(row.time)
            && of_session.map_or(filter.takes_all_sessions(), |session| {
                filter.takes_session(session)
            })
            && filter.takes_statement(row.statement)
            && takes_wait(filter, row);
        if !is_chosen {
            return;
        }
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
        let sums = all.entry(target).or_default();
        sums.entry(key).or_default().add(&Sum {
            ns: row.ns.into(),
            looks: row.looks.into(),
            longest_ns: row.longest_ns,
            fast_path: row.fast_path,
        });
    }));
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

/// Of whoever waits it is known in which wait event, and that it sleeps; of whoever has a lock neither is recorded with it.
pub(crate) fn takes_wait(filter: &Filter, row: &LockRow) -> bool {
    match row.granted {
        true => filter.waits.is_empty() && filter.states.is_empty(),
        false => filter.takes(&wait_of(row), State::Sleep),
    }
}

/// The wait event of who waits for it.
pub(crate) fn wait_of(row: &LockRow) -> Wait {
    Wait::event(CLASS, &row.kind, false)
}

/// Of each lock all that had it, by whatever names these know it; and those that looks met too briefly to say for how long each was had and
/// waited for as one, see [`LockTarget::seen_briefly`].
fn together(all: BTreeMap<LockTarget, BTreeMap<Key, Sum>>) -> BTreeMap<LockTarget, BTreeMap<Key, Sum>> {
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

/// Adds up those that are given the same name.
fn renamed(
    all: BTreeMap<LockTarget, BTreeMap<Key, Sum>>,
    name: impl Fn(LockTarget, &BTreeMap<Key, Sum>) -> LockTarget,
) -> BTreeMap<LockTarget, BTreeMap<Key, Sum>> {
    let mut locks: BTreeMap<LockTarget, BTreeMap<Key, Sum>> = BTreeMap::new();
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
            false => (key.pid, String::new(), String::new()),
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
