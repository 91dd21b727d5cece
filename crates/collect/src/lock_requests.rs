//! Who holds, and who waits for, locks in the server's lock table: what repeated looks find, summed per second.
//!
//! The table does not say since when a lock has been held, so that is what was seen: from the first look that found it to the last,
//! within one transaction. Most locks are held for milliseconds and nobody wants them: only those that matter are kept, with what was
//! seen of them before they did.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;

use arcstr::literal;
use dbtime_model::counter::{self, lock_looks};
use dbtime_model::{CounterRow, LockRow, Rows, SessionId, SessionState};

use crate::clock::Clock;

/// How often the table is looked at: once per this many samples of a session, within these bounds. Asking for fewer samples is asking for
/// less cost.
const SAMPLES: u64 = 10;
const EVERY_NS: RangeInclusive<u64> = 100_000_000..=1_000_000_000;
/// The same after it could not be read.
const AFTER_FAILURE_NS: u64 = 1_000_000_000;
/// Looks may take one part in this many of a CPU; if they take more, they become rarer.
const PART: u64 = 200;
/// A look that takes much longer than others is made up for over several looks, not in one long pause: each time by one part in this many
/// of what is owed.
const SPREAD: u64 = 4;
/// After this long without a look, nobody knows what happened meanwhile.
const STANDSTILL_NS: u64 = 10_000_000_000;
/// A lock held for this long may block others, even if nobody waits yet.
const LONG_NS: u64 = 1_000_000_000;
/// Maximum number of locks followed at a time.
const MOST: usize = 20_000;
/// Maximum number of parts remembered of a lock that does not matter yet: one per second, and per statement in it.
const MOST_PARTS: usize = 20;

/// Which locks are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// None: the table is not looked at.
    None,
    /// Those that somebody waits for, and those held for a second or longer, except those that a transaction holds on itself.
    ThatMatter,
    /// All that looks find.
    All,
}

/// What a lock is on, in the columns of `pg_locks`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct LockTarget {
    pub(crate) kind: &'static str,
    pub(crate) database: Option<u32>,
    pub(crate) relation: Option<u32>,
    pub(crate) page: Option<u32>,
    pub(crate) tuple: Option<u32>,
    pub(crate) virtualxid: Option<(u32, u32)>,
    pub(crate) transactionid: Option<u32>,
    pub(crate) classid: Option<u32>,
    pub(crate) objid: Option<u32>,
    pub(crate) objsubid: Option<u32>,
    /// Every transaction holds one of its own.
    pub(crate) is_usual: bool,
}

/// Whose a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// Of the process with this pid on this host.
    Process(u32),
    /// Of the prepared transaction with this id, which has no process.
    Prepared(u32),
}

/// A lock that somebody holds, or waits for, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockRequest {
    pub(crate) whose: Whose,
    pub(crate) target: LockTarget,
    pub(crate) mode: &'static str,
    pub(crate) granted: bool,
    /// It is noted with the session.
    pub(crate) fast_path: bool,
    /// The session's transaction that it belongs to; 0 for locks that outlive a transaction.
    pub(crate) transaction: u32,
    /// How long it has been waited for, nanoseconds, where the server says so.
    pub(crate) waited_ns: Option<u64>,
}

/// What a session executes, or executed last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) statement: u64,
    pub(crate) session_state: SessionState,
}

/// What one look found.
#[derive(Debug, Default)]
pub(crate) struct LockLook {
    pub(crate) requests: Vec<LockRequest>,
    /// By pid on this host.
    pub(crate) executed: HashMap<u32, Executed>,
    /// Dropped because the server changed them while they were read.
    pub(crate) torn: u64,
    /// Left out: there are too many.
    pub(crate) without_room: u64,
}

/// What identifies a lock that is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    whose: Whose,
    target: LockTarget,
    mode: &'static str,
    granted: bool,
}

/// A lock that somebody holds or waits for without a break, as far as looks can tell.
#[derive(Debug)]
struct Run {
    since_ns: u64,
    /// Number of the last look that found it.
    seen: u64,
    transaction: u32,
    session: Option<SessionId>,
    matters: bool,
    /// What has not been reported yet, in order.
    parts: VecDeque<Part>,
}

/// What was seen of it in a second.
#[derive(Debug)]
struct Part {
    time: i64,
    executed: Executed,
    fast_path: bool,
    ns: u64,
    looks: u64,
    longest_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LockWatch {
    all: bool,
    runs: HashMap<Key, Run>,
    looks: u64,
    /// When the last look was; 0 = there was none, or too long ago.
    looked_ns: u64,
    due_ns: u64,
    /// CPU time of looks that the next pauses are to make up for, nanoseconds.
    owed_ns: u64,
    every_ns: u64,
}

impl LockWatch {
    /// `rate_hz`: samples of a session a second.
    pub(crate) fn new(locks: Locks, rate_hz: u32) -> Option<LockWatch> {
        (locks != Locks::None).then(|| LockWatch {
            all: locks == Locks::All,
            runs: HashMap::new(),
            looks: 0,
            looked_ns: 0,
            due_ns: 0,
            owed_ns: 0,
            every_ns: (SAMPLES * 1_000_000_000 / u64::from(rate_hz.max(1)))
                .clamp(*EVERY_NS.start(), *EVERY_NS.end()),
        })
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.due_ns
    }

    /// True once a look has found out what there is.
    pub(crate) fn has_looked(&self) -> bool {
        self.looks > 0
    }

    /// A look that began at `begun` (CLOCK_MONOTONIC) and took `cpu_ns` of CPU time could not read the table.
    pub(crate) fn take_failure(&mut self, (begun, cpu_ns): (u64, u64), clock: Clock, rows: &mut Rows) {
        self.wait_for_next(begun, cpu_ns);
        self.due_ns = self.due_ns.max(begun + AFTER_FAILURE_NS);
        count(rows, clock.second_us(begun), lock_looks::NOT_READ, 1);
    }

    /// Adds the findings of a look that began at `begun` and took `cpu_ns` of CPU time. `session`: of a pid on this host. Returns the
    /// processes whose locks matter, with their statements.
    pub(crate) fn take(
        &mut self,
        (begun, cpu_ns): (u64, u64),
        look: &LockLook,
        clock: Clock,
        session: impl Fn(u32) -> Option<SessionId>,
        rows: &mut Rows,
    ) -> Vec<(u32, u64)> {
        let passed = begun.saturating_sub(self.looked_ns);
        let goes_on = self.looked_ns != 0 && passed <= STANDSTILL_NS;
        let (ns, before) = match goes_on {
            true => (passed, self.looked_ns),
            false => (0, begun),
        };
        self.looked_ns = begun;
        self.looks += 1;
        let time = clock.second_us(before + (begun - before) / 2);
        let waited: HashSet<LockTarget> = look
            .requests
            .iter()
            .filter(|request| !request.granted)
            .map(|request| request.target)
            .collect();
        let mut without_room = look.without_room;
        let mut executing = Vec::new();
        for request in &look.requests {
            let key = Key {
                whose: request.whose,
                target: request.target,
                mode: request.mode,
                granted: request.granted,
            };
            if !self.runs.contains_key(&key) && self.runs.len() >= MOST {
                without_room += 1;
                continue;
            }
            let run = self.runs.entry(key).or_insert_with(|| Run::begin(begun));
            if !goes_on || run.transaction != request.transaction {
                run.since_ns = begun;
                run.transaction = request.transaction;
            }
            run.seen = self.looks;
            let executed = match request.whose {
                Whose::Process(pid) => {
                    run.session = session(pid).or(run.session);
                    look.executed.get(&pid).copied().unwrap_or_default()
                }
                Whose::Prepared(_) => Executed::default(),
            };
            let seen_ns = begun - run.since_ns;
            run.add(Part {
                time,
                executed,
                fast_path: request.fast_path,
                ns,
                looks: 1,
                longest_ns: request.waited_ns.unwrap_or(seen_ns),
            });
            run.matters |= self.all
                || waited.contains(&request.target)
                || (!request.target.is_usual && seen_ns >= LONG_NS);
            if let (true, Whose::Process(pid)) = (run.matters, request.whose) {
                executing.push((pid, executed.statement));
            }
        }
        let looks = self.looks;
        self.runs.retain(|key, run| {
            let is_over = run.seen != looks;
            if run.matters {
                run.hand_on(key, if is_over { i64::MAX } else { time }, &mut rows.locks);
            }
            !is_over
        });
        for (name, value) in [
            (lock_looks::LOOKS, 1),
            (lock_looks::NS, ns),
            (lock_looks::TORN, look.torn),
            (lock_looks::WITHOUT_ROOM, without_room),
        ] {
            count(rows, time, name, value);
        }
        self.wait_for_next(begun, cpu_ns);
        executing.sort_unstable();
        executing.dedup();
        executing
    }

    /// Reports all that matters: no more looks will come, or what they found is gone.
    pub(crate) fn finish(&mut self, rows: &mut Rows) {
        for (key, mut run) in self.runs.drain() {
            if run.matters {
                run.hand_on(&key, i64::MAX, &mut rows.locks);
            }
        }
        self.looked_ns = 0;
    }

    fn wait_for_next(&mut self, begun: u64, cpu_ns: u64) {
        self.owed_ns = self.owed_ns.saturating_add(cpu_ns);
        let paid_ns = self.owed_ns.div_ceil(SPREAD);
        self.owed_ns -= paid_ns;
        self.due_ns = begun + self.every_ns.max(paid_ns.saturating_mul(PART));
    }
}

impl Run {
    fn begin(now: u64) -> Run {
        Run {
            since_ns: now,
            seen: 0,
            transaction: 0,
            session: None,
            matters: false,
            parts: VecDeque::new(),
        }
    }

    fn add(&mut self, part: Part) {
        if let Some(last) = self.parts.back_mut()
            && (last.time, last.executed, last.fast_path) == (part.time, part.executed, part.fast_path)
        {
            last.ns += part.ns;
            last.looks += part.looks;
            last.longest_ns = last.longest_ns.max(part.longest_ns);
            return;
        }
        if self.parts.len() >= MOST_PARTS && !self.matters {
            self.parts.pop_front();
        }
        self.parts.push_back(part);
    }

    /// Reports the parts before this second.
    fn hand_on(&mut self, key: &Key, before: i64, rows: &mut Vec<LockRow>) {
        while self.parts.front().is_some_and(|part| part.time < before) {
            let Some(part) = self.parts.pop_front() else {
                return;
            };
            let target = key.target;
            rows.push(LockRow {
                time: part.time,
                session: self.session.unwrap_or(SessionId::RECORDER),
                pid: match (key.whose, self.session) {
                    (Whose::Process(pid), None) => pid,
                    _ => 0,
                },
                prepared: match key.whose {
                    Whose::Prepared(transaction) => Some(transaction),
                    Whose::Process(_) => None,
                },
                statement: part.executed.statement,
                session_state: part.executed.session_state,
                kind: target.kind.into(),
                database: target.database,
                relation: target.relation,
                relation_name: String::new(),
                page: target.page,
                tuple: target.tuple,
                virtualxid: target
                    .virtualxid
                    .map_or_else(String::new, |(process, number)| format!("{process}/{number}")),
                transactionid: target.transactionid,
                classid: target.classid,
                objid: target.objid,
                objsubid: target.objsubid,
                mode: key.mode.into(),
                granted: key.granted,
                fast_path: part.fast_path,
                ns: part.ns,
                looks: part.looks,
                longest_ns: part.longest_ns,
            });
        }
    }
}

fn count(rows: &mut Rows, time: i64, name: &str, value: u64) {
    if value > 0 {
        rows.counters.push(CounterRow {
            time,
            session: SessionId::RECORDER,
            source: literal!(counter::LOCK_LOOKS),
            name: name.into(),
            value: i64::try_from(value).unwrap_or(i64::MAX),
            ..CounterRow::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH_NS: u64 = 100_000_000;

    fn relation(oid: u32) -> LockTarget {
        LockTarget {
            kind: "relation",
            database: Some(5),
            relation: Some(oid),
            ..LockTarget::default()
        }
    }

    fn request(pid: u32, target: LockTarget, granted: bool) -> LockRequest {
        LockRequest {
            whose: Whose::Process(pid),
            target,
            mode: "ExclusiveLock",
            granted,
            fast_path: false,
            transaction: 7,
            waited_ns: (!granted).then_some(42),
        }
    }

    /// Looks ten times a second, from the start of a second; `looks`: what each found.
    fn rows(locks: Locks, looks: &[Vec<LockRequest>]) -> Rows {
        let clock = Clock::start();
        let mut watch = LockWatch::new(locks, 99).expect("it is looked");
        let mut rows = Rows::default();
        let begin = clock.next_second(crate::clock::monotonic_ns());
        for (requests, n) in looks.iter().zip(0..) {
            let moment = begin + n * TENTH_NS;
            let look = LockLook {
                requests: requests.clone(),
                ..LockLook::default()
            };
            let session = |pid| (pid < 100).then_some(SessionId(u64::from(pid)));
            watch.take((moment, 0), &look, clock, session, &mut rows);
        }
        watch.finish(&mut rows);
        rows
    }

    /// Of a session: looks, time and longest time, both in tenths of a second.
    fn of(rows: &Rows, session: u64) -> (u64, u64, u64) {
        let rows = rows.locks.iter().filter(|row| row.session == SessionId(session));
        rows.fold((0, 0, 0), |(looks, ns, longest), row| {
            (
                looks + row.looks,
                ns + row.ns / TENTH_NS,
                longest.max(row.longest_ns / TENTH_NS),
            )
        })
    }

    #[test]
    fn what_is_had_shortly_and_nobody_wants_is_not_kept_and_what_is_had_long_is_from_its_begin() {
        let both = vec![request(1, relation(1), true), request(2, relation(2), true)];
        let one = vec![request(2, relation(2), true)];
        let looks: Vec<_> = (0..16)
            .map(|n| if n < 9 { both.clone() } else { one.clone() })
            .collect();
        let found = rows(Locks::ThatMatter, &looks);
        assert_eq!(of(&found, 1), (0, 0, 0));
        assert_eq!(of(&found, 2), (16, 15, 15));
        assert_eq!(of(&rows(Locks::All, &looks), 1), (9, 8, 8));
        let looked: i64 = found
            .counters
            .iter()
            .filter(|row| row.name == "looks")
            .map(|row| row.value)
            .sum();
        assert_eq!(looked, 16);
    }

    #[test]
    fn who_is_waited_for_counts_from_before_that_and_the_server_says_how_long_was_waited() {
        let holds = vec![request(1, relation(1), true)];
        let wanted = vec![request(1, relation(1), true), request(2, relation(1), false)];
        let found = rows(Locks::ThatMatter, &[holds.clone(), holds, wanted]);
        assert_eq!(of(&found, 1), (3, 2, 2));
        assert_eq!(of(&found, 2).0, 1);
        assert_eq!(
            found
                .locks
                .iter()
                .find(|row| !row.granted)
                .map(|row| row.longest_ns),
            Some(42)
        );
    }

    #[test]
    fn another_transaction_and_a_look_without_it_begin_anew() {
        let of_transaction = |transaction| {
            vec![LockRequest {
                transaction,
                ..request(1, relation(1), true)
            }]
        };
        let looks = [
            of_transaction(1),
            of_transaction(1),
            of_transaction(2),
            Vec::new(),
            of_transaction(2),
        ];
        assert_eq!(of(&rows(Locks::All, &looks), 1), (4, 3, 1));
    }

    #[test]
    fn what_a_transaction_has_on_itself_matters_when_somebody_waits_for_it() {
        let itself = LockTarget {
            kind: "transactionid",
            transactionid: Some(9),
            is_usual: true,
            ..LockTarget::default()
        };
        let alone: Vec<_> = (0..30).map(|_| vec![request(1, itself, true)]).collect();
        assert_eq!(rows(Locks::ThatMatter, &alone).locks, []);
        let mut wanted = alone;
        wanted.push(vec![request(1, itself, true), request(2, itself, false)]);
        assert_eq!(of(&rows(Locks::ThatMatter, &wanted), 1), (31, 30, 30));
    }

    #[test]
    fn who_is_not_recorded_is_named_by_pid_and_who_is_no_process_by_its_transaction() {
        let prepared = LockRequest {
            whose: Whose::Prepared(700),
            ..request(1, relation(1), true)
        };
        let found = rows(Locks::All, &[vec![request(4711, relation(1), true), prepared]]);
        let mut named: Vec<_> = found
            .locks
            .iter()
            .map(|row| (row.session, row.pid, row.prepared))
            .collect();
        named.sort();
        assert_eq!(
            named,
            [
                (SessionId::RECORDER, 0, Some(700)),
                (SessionId::RECORDER, 4711, None)
            ]
        );
    }

    #[test]
    fn after_a_standstill_nobody_knows() {
        let clock = Clock::start();
        let mut watch = LockWatch::new(Locks::All, 99).expect("it is looked");
        let mut rows = Rows::default();
        let look = LockLook {
            requests: vec![request(1, relation(1), true)],
            ..LockLook::default()
        };
        let begin = crate::clock::monotonic_ns();
        for moment in [begin, begin + 2 * STANDSTILL_NS] {
            assert!(watch.is_due(moment));
            watch.take((moment, 1_000), &look, clock, |_| None, &mut rows);
            assert!(!watch.is_due(moment + watch.every_ns - 1));
        }
        watch.finish(&mut rows);
        assert_eq!(
            rows.locks.iter().map(|row| (row.ns, row.longest_ns)).max(),
            Some((0, 0))
        );
    }

    #[test]
    fn fewer_samples_are_fewer_looks() {
        for (rate_hz, expected_ns) in [
            (999, 100_000_000),
            (49, 204_081_632),
            (5, 1_000_000_000),
            (0, 1_000_000_000),
        ] {
            let watch = LockWatch::new(Locks::All, rate_hz).expect("it is looked");
            assert_eq!(watch.every_ns, expected_ns, "{rate_hz}");
        }
    }

    #[test]
    fn looks_that_take_long_are_rare_and_one_among_others_does_not_stop_them() {
        const MS: u64 = 1_000_000;
        let pauses = |costs: &dyn Fn(u64) -> u64| -> Vec<u64> {
            let mut watch = LockWatch::new(Locks::All, 99).expect("it is looked");
            let mut now = 1;
            let pause = |look| {
                watch.wait_for_next(now, costs(look));
                let pause = watch.due_ns - now;
                now = watch.due_ns;
                pause
            };
            (0..100).map(pause).collect()
        };
        let sum = |pauses: &[u64]| pauses.iter().sum::<u64>();
        // As often as allowed; each of 1 ms; one of 20 ms among others of which 100 take 10 ms.
        assert_eq!(sum(&pauses(&|_| 10_000)), 100 * 101_010_101);
        let long = pauses(&|_| MS);
        assert!(long.iter().skip(20).all(|pause| *pause >= 199 * MS), "{long:?}");
        let one = pauses(&|look| if look == 10 { 20 * MS } else { 100_000 });
        assert!(sum(&one) >= 200 * 30 * MS, "{one:?}");
        assert!(one.iter().all(|pause| *pause <= 1_100 * MS), "{one:?}");
    }
}
