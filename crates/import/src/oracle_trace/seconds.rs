//! Adds up what happened in a session and turns it into rows: second by second or, if single seconds are not needed, once.

use std::fmt::Display;

use dbtime_model::counter::{ORACLE, oracle};
use dbtime_model::{ActivityRow, CounterRow, Fidelity, NO_STACK, SessionId, State};

use super::cursors::Pending;
use super::dense::Dense;
use super::elapsed::CountedAs;
use super::events::{Direction, EventId, Events};
use super::latencies::Latencies;
use super::statements::{PlanKey, StatementSums};
use super::views::{CallView, signed};
use crate::Import;

const SECOND_US: i64 = 1_000_000;

/// Most cells kept before they become rows, whatever the time: bounds the memory of a damaged trace.
const MAX_CELLS: usize = 16_384;

/// How many additions pass until the number of cells is checked again: each adds a few.
const LOOKED_AT_EVERY: u32 = 256;

/// Calls in which a step of a coarse CPU clock may find room: as many as a step of 10 ms can hold.
const MAX_ROOMY: usize = 256;

/// Sums of one session.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    second_us: Option<i64>,
    /// Additions since the number of cells was checked.
    added: u32,
    /// By event and statement.
    waits: Dense<(EventId, u64), Sum>,
    /// By statement.
    own: Dense<u64, Own>,
    /// What is added up over seconds; none if each of them gets rows of its own.
    summed: Option<Summed>,
    open: Counters,
    latencies: Latencies,
    statements: Dense<PlanKey, StatementSums>,
    /// Unaccounted time of the last calls of the open second, by statement: room for CPU that a coarse clock counted later.
    roomy: Vec<(u64, u64)>,
    named: Dense<Named, i64>,
    objects: Dense<(i64, EventId), PlaceSums>,
    files: Dense<(u64, EventId), PlaceSums>,
}

/// Activity summed over seconds. The first one has rows of its own: they show when a session begins.
#[derive(Debug, Default)]
struct Summed {
    first_us: Option<i64>,
    first: Dense<(EventId, u64), Sum>,
    activity: Dense<(EventId, u64), Sum>,
    /// The last second that is in it.
    last_us: i64,
}

/// Counters that are named after what they count, by statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Named {
    /// Statement and number of an error at run time.
    Error(u64, u64),
    /// Statement and number of an error at parse time.
    ParseError(u64, u64),
}

#[derive(Debug, Clone, Copy, Default)]
struct PlaceSums {
    waits: u64,
    us: u64,
    blocks: u64,
}

impl PlaceSums {
    fn add(&mut self, us: u64, blocks: u64) {
        self.waits += 1;
        self.us = self.us.saturating_add(us);
        self.blocks = self.blocks.saturating_add(blocks);
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    us: u64,
    count: u64,
}

impl Sum {
    /// Removes one that was added; false if it is not there.
    fn take(&mut self, us: u64) -> bool {
        let is_there = self.count > 0 && self.us >= us;
        if is_there {
            self.count -= 1;
            self.us -= us;
        }
        is_there
    }

    fn merge(&mut self, other: Sum) {
        self.us = self.us.saturating_add(other.us);
        self.count += other.count;
    }

    fn add(&mut self, us: u64) {
        self.us = self.us.saturating_add(us);
        self.count += 1;
    }
}

/// The part of a statement's calls that is not waits.
#[derive(Debug, Default)]
struct Own {
    cpu: Sum,
    unaccounted: Sum,
}

/// Counters of one second.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub call_view: CallView,
    pub cpu_inside_waits_us: u64,
    pub cpu_beyond_calls_us: i64,
    pub waits_beyond_calls_us: u64,
    pub outer_executions: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pub read_only_ends: u64,
    io: BlocksMoved,
}

/// I/O of one second.
#[derive(Debug, Default)]
struct BlocksMoved {
    reads: u64,
    read_blocks: u64,
    writes: u64,
    written_blocks: u64,
}

impl Seconds {
    /// `summed`: single seconds are not needed.
    pub(super) fn new(summed: bool) -> Seconds {
        Seconds {
            summed: summed.then(Summed::default),
            ..Seconds::default()
        }
    }

    /// True if nothing has been added since rows were made.
    pub(super) fn is_empty(&self) -> bool {
        self.second_us.is_none()
    }

    /// True if rows have to be made before anything can be added in the second of this moment, microseconds since the
    /// Unix epoch.
    #[inline]
    pub(super) fn is_over(&mut self, time_us: i64) -> bool {
        let Some(second) = self.second_us else {
            return false;
        };
        self.added += 1;
        if self.added >= LOOKED_AT_EVERY {
            self.added = 0;
            if self.is_full() {
                return true;
            }
        }
        !(second..second.saturating_add(SECOND_US)).contains(&time_us)
    }

    /// Opens the second of this moment; whatever was open has become rows.
    #[inline]
    pub(super) fn open(&mut self, time_us: i64) {
        if self.second_us.is_none() {
            self.second_us = Some(second_of(time_us));
        }
    }

    /// Adds a wait.
    #[inline]
    pub(super) fn wait(&mut self, event: EventId, statement: u64, us: u64, place: &mut usize) {
        self.waits.get_near((event, statement), place).add(us);
    }

    /// A wait that ended in this second turns out to be this statement's. False if it is not here, or not any more.
    pub(super) fn move_wait(&mut self, wait: &CountedAs, to: u64) -> bool {
        let (from, moved) = ((wait.event, wait.by.0), (wait.event, to));
        let cells = std::iter::once(&mut self.waits);
        let summed = self.summed.iter_mut();
        let mut cells = cells.chain(summed.flat_map(|summed| [&mut summed.activity, &mut summed.first]));
        let is_here = cells.any(|cells| {
            let is_here = cells.find(from).is_some_and(|sum| sum.take(wait.us));
            if is_here {
                cells.get(moved).add(wait.us);
            }
            is_here
        });
        if is_here {
            self.latencies
                .move_wait(wait.event, wait.blocks, (wait.by.0, to), wait.us);
        }
        is_here
    }

    /// Removes it from the sums of the statement that it was counted for; false if it is not there.
    pub(super) fn take_from_statement(&mut self, wait: &CountedAs) -> bool {
        let sums = self.statements.find(wait.by);
        sums.is_some_and(|sums| sums.take_wait(wait.us))
    }

    /// True if this moment is in the open second, or if seconds are summed.
    pub(super) fn has(&self, time_us: i64) -> bool {
        self.summed.is_some() || self.second_us == Some(second_of(time_us))
    }

    pub(super) fn are_summed(&self) -> bool {
        self.summed.is_some()
    }

    /// Adds a part of a call: its CPU, and what is unaccounted.
    pub(super) fn call(&mut self, statement: u64, cpu_us: u64, unaccounted_us: u64, place: &mut usize) {
        if cpu_us == 0 && unaccounted_us == 0 {
            return;
        }
        let own = self.own.get_near(statement, place);
        if cpu_us > 0 {
            own.cpu.add(cpu_us);
        }
        if unaccounted_us > 0 {
            own.unaccounted.add(unaccounted_us);
            if self.roomy.len() >= MAX_ROOMY {
                self.roomy.drain(..MAX_ROOMY / 2);
            }
            self.roomy.push((statement, unaccounted_us));
        }
    }

    /// Turns unaccounted time of the last calls into CPU, the last one first, up to `wanted_us`. Returns how much.
    pub(super) fn earlier_cpu(&mut self, wanted_us: u64) -> u64 {
        let mut left = wanted_us;
        while left > 0
            && let Some((statement, room)) = self.roomy.last_mut()
        {
            let (statement, moved) = (*statement, left.min(*room));
            *room -= moved;
            if *room == 0 {
                self.roomy.pop();
            }
            left -= moved;
            let own = self.own.get(statement);
            own.unaccounted.us = own.unaccounted.us.saturating_sub(moved);
            own.cpu.us = own.cpu.us.saturating_add(moved);
            own.cpu.count = own.cpu.count.max(1);
        }
        wanted_us - left
    }

    /// Counts something that has a name of its own.
    pub(super) fn named(&mut self, named: Named) {
        *self.named.get(named) += 1;
    }

    /// Adds a wait for so many blocks of an object (−1 = none).
    #[inline]
    pub(super) fn object(&mut self, object: i64, event: EventId, us: u64, blocks: u64) {
        self.objects.get((object, event)).add(us, blocks);
    }

    /// Adds a wait for so many blocks of a file.
    #[inline]
    pub(super) fn file(&mut self, file: u64, event: EventId, us: u64, blocks: u64) {
        self.files.get((file, event)).add(us, blocks);
    }

    /// Adds a wait to the latencies. `statement`: 0 = not known. `io`: with blocks, on files of the database.
    #[inline]
    pub(super) fn latency(&mut self, event: EventId, statement: u64, io: Option<(Direction, u64)>, us: u64) {
        let blocks = io.map_or(0, |(_, blocks)| blocks);
        self.latencies.add(event, blocks, statement, us);
        let (count, moved) = match io {
            Some((Direction::Read, _)) => (&mut self.open.io.reads, &mut self.open.io.read_blocks),
            Some((Direction::Write, _)) => (&mut self.open.io.writes, &mut self.open.io.written_blocks),
            None => return,
        };
        *count += 1;
        *moved = moved.saturating_add(blocks);
    }

    /// Sums of calls and waits of a statement with one of its plans.
    #[inline]
    pub(super) fn statement(&mut self, key: PlanKey, place: &mut usize) -> &mut StatementSums {
        self.statements.get_near(key, place)
    }

    /// Adds what was pending until it was known with which plan a cursor runs.
    #[inline]
    pub(super) fn settled(&mut self, settled: Option<(PlanKey, Pending)>) {
        if let Some((key, pending)) = settled {
            self.statements.get(key).add(&pending);
        }
    }

    pub(super) fn counters(&mut self) -> &mut Counters {
        &mut self.open
    }

    /// Number of cells.
    pub(super) fn cells(&self) -> usize {
        self.waits.len()
            + self.own.len()
            + self.statements.len()
            + self.named.len()
            + self.objects.len()
            + self.files.len()
            + self.latencies.len()
    }

    fn is_full(&self) -> bool {
        self.waits.len() >= MAX_CELLS
            || self.own.len() >= MAX_CELLS
            || self.statements.len() >= MAX_CELLS
            || self.named.len() >= MAX_CELLS
            || self.objects.len() >= MAX_CELLS
            || self.files.len() >= MAX_CELLS
            || self
                .summed
                .as_ref()
                .is_some_and(|summed| summed.activity.len() + summed.first.len() >= MAX_CELLS)
            || self.latencies.is_full()
    }

    /// Turns the open second into rows; if seconds are summed, their sums, if `all` is set or there are too many. `is_settled`: none of it
    /// can turn out to be another statement's.
    pub(super) fn close(
        &mut self,
        session: SessionId,
        events: &Events,
        into: &mut Import,
        (all, is_settled): (bool, bool),
    ) {
        let Some(second_us) = self.second_us else { return };
        let all = all || self.summed.is_none() || self.is_full();
        self.second_us = None;
        self.roomy.clear();
        self.close_activity(second_us, session, events, into, (all, is_settled));
        self.close_io(second_us, session, into);
        if all {
            self.close_counters(second_us, session, into);
            self.latencies.close(second_us, events, |row| {
                into.latency(dbtime_model::LatencyRow { session, ..row })
            });
            for (key, sums) in self.statements.drain_sorted() {
                sums.close(key, second_us, |row| into.counter(CounterRow { session, ..row }));
            }
            self.close_named(second_us, session, events, into);
        }
    }

    fn close_activity(
        &mut self,
        second_us: i64,
        session: SessionId,
        events: &Events,
        into: &mut Import,
        (all, is_settled): (bool, bool),
    ) {
        let mut row = |time, ((event, statement), sum): ((EventId, u64), Sum)| {
            let wait = &events.get(event).wait;
            into.activity(ActivityRow {
                time,
                session,
                statement,
                plan: 0,
                wait_class: wait.class.clone(),
                wait_event: wait.event.clone(),
                idle: wait.idle,
                state: if event == Events::CPU {
                    State::Cpu
                } else {
                    State::Unknown
                },
                kernel_stack: NO_STACK,
                user_stack: NO_STACK,
                comment: 0,
                ns: sum.us.saturating_mul(1_000),
                count: sum.count,
                samples: 0,
                fidelity: Fidelity::Exact,
                pooled: false,
                session_state: dbtime_model::SessionState::None,
            });
        };
        let cells = cells(&mut self.own, &mut self.waits);
        let Some(summed) = &mut self.summed else {
            let mut cells: Vec<_> = cells.collect();
            cells.sort_unstable_by_key(|(key, _)| *key);
            cells.into_iter().for_each(|cell| row(second_us, cell));
            return;
        };
        for (key, sum) in cells {
            let first_us = *summed.first_us.get_or_insert(second_us);
            match first_us == second_us {
                true => summed.first.get(key).merge(sum),
                false => {
                    summed.activity.get(key).merge(sum);
                    summed.last_us = second_us;
                }
            }
        }
        let Some(first_us) = summed.first_us else { return };
        if all || is_settled {
            summed.first.drain_sorted().for_each(|cell| row(first_us, cell));
        }
        if all {
            summed.first_us = None;
            let last_us = summed.last_us;
            summed.activity.drain_sorted().for_each(|cell| row(last_us, cell));
        }
    }

    /// I/O always stays in its second: it is shown second by second.
    fn close_io(&mut self, second_us: i64, session: SessionId, into: &mut Import) {
        let io = std::mem::take(&mut self.open.io);
        let counters = [
            (oracle::READS, signed(io.reads)),
            (oracle::READ_BLOCKS, signed(io.read_blocks)),
            (oracle::WRITES, signed(io.writes)),
            (oracle::WRITTEN_BLOCKS, signed(io.written_blocks)),
        ];
        count(second_us, session, into, &counters);
    }

    fn close_counters(&mut self, second_us: i64, session: SessionId, into: &mut Import) {
        let open = std::mem::take(&mut self.open);
        let ns = |us: u64| signed(us.saturating_mul(1_000));
        let view = &open.call_view;
        let counters = [
            (oracle::CALL_ELAPSED_US, view.elapsed_us),
            (oracle::CALL_CPU_US, view.cpu_us),
            (oracle::CALL_WAIT_US, view.wait_us),
            (oracle::CALL_IDLE_US, view.idle_us),
            (oracle::WAIT_OUTSIDE_CALLS_US, view.wait_outside_us),
            (oracle::CPU_INSIDE_WAITS_NS, ns(open.cpu_inside_waits_us)),
            (
                oracle::CPU_BEYOND_CALLS_NS,
                open.cpu_beyond_calls_us.saturating_mul(1_000),
            ),
            (oracle::WAITS_BEYOND_CALLS_NS, ns(open.waits_beyond_calls_us)),
            (oracle::OUTER_EXECUTIONS, signed(open.outer_executions)),
            (oracle::COMMITS, signed(open.commits)),
            (oracle::ROLLBACKS, signed(open.rollbacks)),
            (oracle::READ_ONLY_ENDS, signed(open.read_only_ends)),
        ];
        count(second_us, session, into, &counters);
    }

    fn close_named(&mut self, second_us: i64, session: SessionId, events: &Events, into: &mut Import) {
        let mut counter = |statement: u64, name: String, value: i64| {
            if value != 0 {
                into.counter(CounterRow {
                    time: second_us,
                    session,
                    statement,
                    source: ORACLE.into(),
                    name: name.into(),
                    value,
                    ..CounterRow::default()
                });
            }
        };
        for (named, count) in self.named.drain_sorted() {
            let (statement, name) = match named {
                Named::Error(statement, code) => (statement, format!("{}{code}", oracle::ERRORS)),
                Named::ParseError(statement, code) => (statement, format!("{}{code}", oracle::PARSE_ERRORS)),
            };
            counter(statement, name, count);
        }
        let mut place = |names: [&str; 3], number: &dyn Display, event: EventId, sums: PlaceSums| {
            let event = &events.get(event).wait.event;
            for (name, value) in names.into_iter().zip([sums.waits, sums.us, sums.blocks]) {
                counter(0, format!("{name}{number}:{event}"), signed(value));
            }
        };
        let names = [
            oracle::OBJECT_WAITS,
            oracle::OBJECT_WAIT_US,
            oracle::OBJECT_BLOCKS,
        ];
        for ((object, event), sums) in self.objects.drain_sorted() {
            place(names, &object, event, sums);
        }
        let names = [oracle::FILE_WAITS, oracle::FILE_WAIT_US, oracle::FILE_BLOCKS];
        for ((file, event), sums) in self.files.drain_sorted() {
            place(names, &file, event, sums);
        }
    }
}

/// Takes the sums of a second by event and statement: CPU, unaccounted, waits.
fn cells(
    own: &mut Dense<u64, Own>,
    waits: &mut Dense<(EventId, u64), Sum>,
) -> impl Iterator<Item = ((EventId, u64), Sum)> {
    let own = own.drain().flat_map(|(statement, own)| {
        let cpu = (own.cpu.count > 0).then_some(((Events::CPU, statement), own.cpu));
        // All of it may have become CPU.
        let unaccounted =
            (own.unaccounted.us > 0).then_some(((Events::UNACCOUNTED, statement), own.unaccounted));
        [cpu, unaccounted].into_iter().flatten()
    });
    // They may have turned out to be another statement's.
    own.chain(waits.drain().filter(|(_, sum)| sum.count > 0))
}

/// Counters of a session in a second; those that did not grow get no row.
pub(super) fn count(second_us: i64, session: SessionId, into: &mut Import, counters: &[(&str, i64)]) {
    for (name, value) in counters.iter().filter(|(_, value)| *value != 0) {
        into.counter(CounterRow {
            time: second_us,
            session,
            source: ORACLE.into(),
            name: (*name).into(),
            value: *value,
            ..CounterRow::default()
        });
    }
}

/// Start of the second of a moment, microseconds since the Unix epoch.
#[inline]
pub(super) fn second_of(time_us: i64) -> i64 {
    time_us.div_euclid(SECOND_US).saturating_mul(SECOND_US)
}
