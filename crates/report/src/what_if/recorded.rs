//! What a recording says about its clients: their transactions, and what each did with its time, in blocks of time.
//!
//! Only seconds in which the transactions of clients were counted are used, so that time and transactions belong together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arcstr::{ArcStr, literal};
use dbtime_model::{CauseKind, CauseLink, SessionId, SessionState, State, StateGroup, Wait, counter};

use crate::causes::{Blocked, BlockedTime, Samples, is_blocked};
use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::ledger::Section;
use crate::load::Source;
use crate::scan::{Scan, scan};

/// Most blocks that a recording is cut into.
const MOST_BLOCKS: i64 = 60;
/// Row locks are waited for in two events: the first in line waits for the transaction, the others for their turn.
const ROW_LOCK: &str = "transactionid";
const ROW_LOCK_LINE: &str = "tuple";
/// The lock held while flushing the log.
pub(super) const FLUSH_LOCK: &str = "WALWrite";
/// What its holder does meanwhile.
const FLUSHES: [&str; 2] = ["WALSync", "WALWrite"];

/// What a client does with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// It waits for work outside of a transaction.
    Think,
    /// It runs.
    Cpu,
    /// It waits for a CPU.
    RunQueue,
    /// It waits, for no lock.
    Blocked,
    /// It waits for a lock.
    InLine,
}

/// Time spent in the same way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) class: ArcStr,
    pub(super) event: ArcStr,
    pub(super) statement: u64,
    /// Wait event and statement of the session that was waited for in the end; none: no session, or not known.
    pub(super) root: Option<(ArcStr, ArcStr, u64)>,
}

impl Part {
    /// The lock that is waited for.
    pub(super) fn lock(&self) -> Option<&str> {
        (self.kind == Kind::InLine).then(|| lock_of(&self.event))
    }

    /// Whether it is a part of flushing the log oneself.
    pub(super) fn is_flush(&self) -> bool {
        self.class == "IO" && FLUSHES.contains(&self.event.as_str())
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        is_called(&self.class, &self.event, name)
    }
}

/// Whether a name that was typed refers to this wait event.
pub(super) fn is_called(class: &str, event: &str, name: &str) -> bool {
    let wait = Wait::event(class, event, false);
    name.eq_ignore_ascii_case(event) || name.eq_ignore_ascii_case(&wait.to_string())
}

/// The name of the lock that is waited for in this event.
pub(super) fn lock_of(event: &str) -> &str {
    match event {
        ROW_LOCK_LINE => ROW_LOCK,
        other => other,
    }
}

pub(super) fn is_lock(class: &str) -> bool {
    class == "Lock" || class == "LWLock"
}

/// One client in one block of time, nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Share {
    pub(super) transactions: f64,
    pub(super) parts: BTreeMap<Part, f64>,
    /// The parts of that in which an internal lock was held, by its name.
    pub(super) held: BTreeMap<ArcStr, BTreeMap<Part, f64>>,
}

/// What is known of a lock.
#[derive(Debug, Clone, Default)]
pub(super) struct LockFacts {
    /// Its class of waits.
    pub(super) class: ArcStr,
    /// Clients that were seen to wait for it or to be in the way.
    pub(super) users: BTreeSet<SessionId>,
    /// What those in the way did, samples of the waits.
    pub(super) meanwhile: BTreeMap<Part, f64>,
    /// Time in which those in the way were not clients with transactions.
    pub(super) by_others: f64,
    /// All time in which somebody was in the way.
    pub(super) followed: f64,
    /// Locks of this name that were held, by address, and for how long.
    pub(super) addresses: HashMap<u64, f64>,
    /// Time in which it was held to read only.
    pub(super) shared: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// Clients with transactions.
    pub(super) clients: Vec<SessionId>,
    /// By block, then by index of the client.
    pub(super) blocks: Vec<Vec<Share>>,
    /// Mean number of seconds for which each client was recorded, by block.
    pub(super) lengths: Vec<f64>,
    pub(super) locks: BTreeMap<ArcStr, LockFacts>,
    /// Transactions of clients that came or went meanwhile, and of all.
    pub(super) transactions: (f64, f64),
    /// DB time of clients, and of other foreground sessions, nanoseconds.
    pub(super) db_time: (f64, f64),
    /// Of that of the clients, the part of parallel workers.
    pub(super) workers: f64,
    /// Samples of the clients.
    pub(super) samples: u64,
    /// Existing wait events and statements with their DB time, for suggestions.
    pub(super) events: BTreeMap<String, f64>,
    pub(super) statements: BTreeMap<u64, f64>,
}

impl Recorded {
    /// Reads a recording; only seconds in which the transactions of most clients are counted are used.
    pub(super) fn read(source: &Source, dimensions: &mut Dimensions, filter: &Filter) -> (Recorded, Scan) {
        let mut all = Recorded::default();
        let (counted, mut problems) = count(source, dimensions, filter);
        let window = window(&counted);
        let is_in = |time: i64| window.is_some_and(|(from, to)| time > from && time <= to);
        for (session, seconds) in &counted {
            let transactions: u64 = seconds.values().sum();
            let from_begin = seconds.keys().next().copied();
            let to_end = seconds.keys().next_back().copied();
            let is_whole = match (window, from_begin, to_end) {
                (Some((from, to)), Some(first), Some(last)) => {
                    // A second without a transaction has no row.
                    first <= from + 2 * SECOND_US && last >= to - (to - from) / 4
                }
                _ => false,
            };
            if transactions == 0 {
                continue;
            }
            all.transactions.1 += transactions as f64;
            if is_whole {
                all.clients.push(*session);
            } else {
                all.transactions.0 += transactions as f64;
            }
        }
        all.clients.sort_unstable();
        let places: HashMap<SessionId, usize> = all
            .clients
            .iter()
            .enumerate()
            .map(|(place, id)| (*id, place))
            .collect();
        let block_of = all.cut(window);
        for (session, seconds) in &counted {
            if let Some(place) = places.get(session) {
                for (time, value) in seconds {
                    if is_in(*time) {
                        all.blocks[block_of(*time)][*place].transactions += *value as f64;
                    }
                }
            }
        }
        let mut blocked = BlockedTime::default();
        let mut scanned = scan(source, dimensions, filter, |activity| {
            let row = activity.row;
            if !is_in(row.time) || activity.section == Section::Background {
                return;
            }
            let ns = row.ns as f64;
            let is_db_time = activity.section == Section::DbTime;
            if is_db_time {
                *all.events.entry(activity.wait.to_string()).or_default() += ns;
                *all.statements.entry(row.statement).or_default() += ns;
            }
            let Some(place) = places.get(&row.session) else {
                if is_db_time {
                    all.db_time.1 += ns;
                    if activity.session.leader_pid != 0 {
                        all.workers += ns;
                    }
                }
                return;
            };
            all.samples += row.samples;
            if is_db_time {
                all.db_time.0 += ns;
            }
            if is_blocked(activity) {
                return blocked.add(activity);
            }
            let kind = match (is_db_time, row.state.group()) {
                (true, Some(StateGroup::RunQueue)) => Kind::RunQueue,
                (true, Some(StateGroup::OnCpu)) => Kind::Cpu,
                (true, _) => Kind::Blocked,
                (false, _) if row.session_state.is_idle_in_transaction() => Kind::Blocked,
                (false, _) => Kind::Think,
            };
            let part = Part {
                kind,
                class: row.wait_class.clone(),
                event: row.wait_event.clone(),
                statement: row.statement,
                root: None,
            };
            let share = &mut all.blocks[block_of(row.time)][*place];
            *share.parts.entry(part).or_default() += ns;
        });
        let (samples, read) = Samples::read(source);
        problems.extend(read);
        blocked.divide(&samples, dimensions, |key, part, _| {
            let place = places[&key.session];
            let share = &mut all.blocks[block_of(key.time.unwrap_or_default())][place];
            let wait = key.wait();
            let ns = part.ns as f64;
            let root = part
                .chain
                .last()
                .map(|link| (link.wait_class.clone(), link.wait_event.clone(), link.statement));
            let kind = if is_lock(&wait.class) {
                Kind::InLine
            } else {
                Kind::Blocked
            };
            *share.parts.entry(of_blocked(key, &wait, kind, root)).or_default() += ns;
            if kind == Kind::InLine {
                let facts = all.locks.entry(lock_of(&wait.event).into()).or_default();
                facts.class = wait.class.clone();
                facts.meet(
                    lock_of(&wait.event),
                    key.session,
                    part.chain,
                    (part.kind, ns),
                    &places,
                );
            }
        });
        let read = source.held_locks(|row| {
            let Some(place) = places.get(&row.session) else {
                return;
            };
            if !is_in(row.time) || !filter.takes_time(row.time) || row.lock.is_empty() {
                return;
            }
            let ns = row.ns as f64;
            let facts = all.locks.entry(row.lock.clone()).or_default();
            facts.class = literal!("LWLock");
            *facts.addresses.entry(row.address).or_default() += ns;
            if !row.exclusive {
                facts.shared += ns;
            }
            facts.users.insert(row.session);
            let part = did(
                &row.wait_class,
                &row.wait_event,
                row.state,
                SessionState::Active,
                row.statement,
            );
            let share = &mut all.blocks[block_of(row.time)][*place];
            let held = share.held.entry(row.lock.clone()).or_default();
            *held.entry(part).or_default() += ns;
        });
        problems.extend(read);
        scanned.problems.extend(problems);
        let clients = all.clients.len().max(1) as f64;
        let length = |block: &Vec<Share>| {
            block.iter().flat_map(|share| share.parts.values()).sum::<f64>() / clients / 1e9
        };
        all.lengths = all.blocks.iter().map(length).collect();
        (all, scanned)
    }

    /// Cuts the time into blocks; returns the block of a second.
    fn cut(&mut self, window: Option<(i64, i64)>) -> impl Fn(i64) -> usize + use<> {
        let (from, to) = window.unwrap_or_default();
        let seconds = (to - from) / SECOND_US;
        let length = (seconds + MOST_BLOCKS - 1).div_euclid(MOST_BLOCKS).max(1);
        let blocks = usize::try_from((seconds + length - 1) / length)
            .unwrap_or(0)
            .max(1);
        self.blocks = vec![vec![Share::default(); self.clients.len()]; blocks];
        move |time: i64| {
            let second = (time - from) / SECOND_US - 1;
            usize::try_from(second / length).unwrap_or(0).min(blocks - 1)
        }
    }
}

impl LockFacts {
    /// Adds a wait for it.
    fn meet(
        &mut self,
        lock: &str,
        waiter: SessionId,
        chain: &[CauseLink],
        (end, ns): (CauseKind, f64),
        places: &HashMap<SessionId, usize>,
    ) {
        self.users.insert(waiter);
        // Those in line ahead of it do not hold it.
        let in_line = |link: &&CauseLink| {
            is_lock(&link.wait_class)
                && link.state.group() == Some(StateGroup::Blocked)
                && lock_of(&link.wait_event) == lock
        };
        let Some(holder) = chain.iter().find(|link| !in_line(link)) else {
            if end != CauseKind::Unknown {
                self.by_others += ns;
                self.followed += ns;
            }
            return;
        };
        self.followed += ns;
        if places.contains_key(&holder.session) {
            self.users.insert(holder.session);
        } else {
            self.by_others += ns;
        }
        let part = did(
            &holder.wait_class,
            &holder.wait_event,
            holder.state,
            holder.session_state,
            holder.statement,
        );
        *self.meanwhile.entry(part).or_default() += ns;
    }
}

fn of_blocked(key: &Blocked, wait: &Wait, kind: Kind, root: Option<(ArcStr, ArcStr, u64)>) -> Part {
    Part {
        kind,
        class: wait.class.clone(),
        event: wait.event.clone(),
        statement: key.statement,
        root,
    }
}

/// What a lock holder did.
fn did(class: &ArcStr, event: &ArcStr, state: State, session_state: SessionState, statement: u64) -> Part {
    let kind = match state.group() {
        Some(StateGroup::OnCpu | StateGroup::RunQueue) => Kind::Cpu,
        _ if is_lock(class) => Kind::InLine,
        _ => Kind::Blocked,
    };
    Part {
        kind,
        class: class.clone(),
        event: event.clone(),
        // While idle it executes none.
        statement: if session_state.is_idle_in_transaction() {
            0
        } else {
            statement
        },
        root: None,
    }
}

type Counted = BTreeMap<SessionId, BTreeMap<i64, u64>>;

/// Transactions of each session by second. A session's first row says when counting began.
fn count(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
) -> (Counted, Vec<dbtime_model::recording::Problem>) {
    let mut counted = Counted::new();
    let problems = source.counters(|row| {
        if row.name != counter::TRANSACTIONS
            || row.session == SessionId::default()
            || !filter.takes_time(row.time)
            || !filter.takes_session(dimensions.session(row.session))
        {
            return;
        }
        let seconds = counted.entry(row.session).or_default();
        *seconds.entry(row.time).or_default() += row.value.max(0).unsigned_abs();
    });
    (counted, problems)
}

/// The second before the first one in which most sessions were counted, and the one after the last. Counting starts and stops with time
/// accounting.
fn window(counted: &Counted) -> Option<(i64, i64)> {
    let busy = || {
        counted
            .values()
            .filter(|seconds| seconds.values().any(|value| *value > 0))
    };
    let mut firsts: Vec<i64> = busy()
        .filter_map(|seconds| seconds.keys().next().copied())
        .collect();
    firsts.sort_unstable();
    let from = *firsts.get(firsts.len() / 2)?;
    let last = busy()
        .filter_map(|seconds| seconds.keys().next_back().copied())
        .max()?;
    Some((from - SECOND_US, last + SECOND_US))
}
