//! Adds up what happened in a session and makes rows of it: activity and counters by second, latencies and sums of
//! statements at longer intervals.

use crate::samples::Table;
use dbtime_model::counter::{ORACLE, oracle};
use dbtime_model::{ActivityRow, CounterRow, Fidelity, NO_STACK, SessionId, State};

use super::events::{Direction, EventId, Events};
use super::latencies::Latencies;
use super::statements::{PlanKey, StatementSums};
use super::views::{CallView, signed};
use crate::Import;

const SECOND_US: i64 = 1_000_000;

/// Latencies and sums of statements become rows at the end of the second in which they have become so many …
const EVENTS_PER_SLOT: u64 = 1_024;

/// … or so old. A row costs more than a line of the trace, and a busy trace has many buckets and statements a second.
const SLOT_US: i64 = 60 * SECOND_US;

/// Cells that are kept before rows are made of them, whatever the time: bounds the memory of a damaged trace.
const MAX_CELLS: usize = 16_384;

/// What is added up of one session.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    second_us: Option<i64>,
    slot_us: i64,
    activity: Table<(EventId, u64), Sum>,
    open: Counters,
    latencies: Latencies,
    statements: Table<PlanKey, StatementSums>,
}

#[derive(Debug, Default)]
struct Sum {
    ns: u64,
    count: u64,
}

/// Counters of one second.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub call_view: CallView,
    pub cpu_inside_waits_us: u64,
    pub waits_beyond_calls_us: u64,
    reads: u64,
    read_blocks: u64,
    writes: u64,
    written_blocks: u64,
}

impl Seconds {
    /// True when nothing has been added since rows were made.
    pub(super) fn is_empty(&self) -> bool {
        self.second_us.is_none()
    }

    /// True when rows have to be made before anything can be added in the second of this moment, microseconds since the
    /// Unix epoch.
    pub(super) fn is_over(&self, time_us: i64) -> bool {
        self.second_us.is_some_and(|second| second != second_of(time_us)) || self.is_full()
    }

    /// Opens the second of this moment; whatever was open has become rows.
    pub(super) fn open(&mut self, time_us: i64) {
        if self.second_us.is_none() {
            let second = second_of(time_us);
            self.second_us = Some(second);
            if self.latencies.events == 0 && self.statements.is_empty() {
                self.slot_us = second;
            }
        }
    }

    /// Adds time to a row; no time, no row.
    pub(super) fn add(&mut self, event: EventId, statement: u64, us: u64) {
        let sum = self.activity.entry((event, statement)).or_default();
        sum.ns = sum.ns.saturating_add(us.saturating_mul(1_000));
        sum.count += 1;
    }

    /// Adds a wait to the latencies. `blocks`: of I/O on files of the database.
    pub(super) fn latency(&mut self, event: EventId, io: Option<(Direction, u64)>, us: u64) {
        let blocks = io.map_or(0, |(_, blocks)| blocks);
        self.latencies.add(event, blocks, us);
        let (count, moved) = match io {
            Some((Direction::Read, _)) => (&mut self.open.reads, &mut self.open.read_blocks),
            Some((Direction::Write, _)) => (&mut self.open.writes, &mut self.open.written_blocks),
            None => return,
        };
        *count += 1;
        *moved = moved.saturating_add(blocks);
    }

    /// Adds what calls and waits of a statement sum up to.
    pub(super) fn statement(&mut self, key: PlanKey, sums: &StatementSums) {
        self.statements.entry(key).or_default().add(sums);
    }

    pub(super) fn counters(&mut self) -> &mut Counters {
        &mut self.open
    }

    fn is_full(&self) -> bool {
        self.activity.len() >= MAX_CELLS || self.statements.len() >= MAX_CELLS || self.latencies.is_full()
    }

    /// Makes rows of the open second, and of the rest when it is time for that or when `all` is asked for.
    pub(super) fn close(&mut self, session: SessionId, events: &Events, into: &mut Import, all: bool) {
        let Some(second_us) = self.second_us else { return };
        let all = all
            || self.is_full()
            || self.latencies.events >= EVENTS_PER_SLOT
            || second_us.saturating_sub(self.slot_us) >= SLOT_US;
        self.second_us = None;
        let mut sums: Vec<_> = self.activity.drain().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        for ((event, statement), sum) in sums {
            let wait = &events.get(event).wait;
            into.activity(ActivityRow {
                time: second_us,
                session,
                statement,
                wait_class: wait.class.to_string(),
                wait_event: wait.event.to_string(),
                idle: wait.idle,
                state: if event == Events::CPU {
                    State::Cpu
                } else {
                    State::Unknown
                },
                kernel_stack: NO_STACK,
                user_stack: NO_STACK,
                ns: sum.ns,
                count: sum.count,
                samples: 0,
                fidelity: Fidelity::Exact,
            });
        }
        let open = std::mem::take(&mut self.open);
        let ns = |us: u64| signed(us.saturating_mul(1_000));
        let view = &open.call_view;
        let counters = [
            (oracle::CALL_ELAPSED_US, view.elapsed_us),
            (oracle::CALL_CPU_US, view.cpu_us),
            (oracle::CALL_WAIT_US, view.wait_us),
            (oracle::CALL_IDLE_US, view.idle_us),
            (oracle::CPU_INSIDE_WAITS_NS, ns(open.cpu_inside_waits_us)),
            (oracle::WAITS_BEYOND_CALLS_NS, ns(open.waits_beyond_calls_us)),
            (oracle::READS, signed(open.reads)),
            (oracle::READ_BLOCKS, signed(open.read_blocks)),
            (oracle::WRITES, signed(open.writes)),
            (oracle::WRITTEN_BLOCKS, signed(open.written_blocks)),
        ];
        count(second_us, session, into, &counters);
        if all {
            self.latencies.close(second_us, events, |row| {
                into.latency(dbtime_model::LatencyRow { session, ..row })
            });
            let mut statements: Vec<_> = self.statements.drain().collect();
            statements.sort_unstable_by_key(|(key, _)| *key);
            for (key, sums) in statements {
                sums.close(key, second_us, |row| into.counter(CounterRow { session, ..row }));
            }
        }
    }
}

/// Counters of a session in a second; those that did not grow get no row.
pub(super) fn count(second_us: i64, session: SessionId, into: &mut Import, counters: &[(&str, i64)]) {
    for (name, value) in counters.iter().filter(|(_, value)| *value != 0) {
        into.counter(CounterRow {
            time: second_us,
            session,
            source: ORACLE.to_string(),
            name: (*name).to_string(),
            value: *value,
            ..CounterRow::default()
        });
    }
}

/// Start of the second of a moment, microseconds since the Unix epoch.
pub(super) fn second_of(time_us: i64) -> i64 {
    time_us.div_euclid(SECOND_US).saturating_mul(SECOND_US)
}
