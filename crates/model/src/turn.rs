//! Turns of tasks (a stay off CPU, then a stay on a CPU) become rows: of the ledger, of latencies, of switches. Recorded and
//! imported turns are treated alike.

use std::collections::HashMap;

use arcstr::ArcStr;

use crate::latency::{bounds_of, bucket_of, kind};
use crate::{
    ActivityRow, CounterRow, Fidelity, LatencyRow, NO_STACK, Rows, SessionId, SessionState, State, SwitchRow,
    Wait, WaitKind, counter,
};

/// Nanoseconds per second.
const SECOND_NS: i64 = 1_000_000_000;
/// Microseconds per second.
const SECOND_US: i64 = 1_000_000;

/// A turn, see [`SwitchRow`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// See [`SwitchRow::session`].
    pub session: SessionId,
    /// See [`SwitchRow::time_ns`].
    pub time_ns: i64,
    /// See [`SwitchRow::cpu`].
    pub cpu: u32,
    /// See [`SwitchRow::wait_ns`].
    pub wait_ns: Option<u64>,
    /// See [`SwitchRow::delay_ns`].
    pub delay_ns: Option<u64>,
    /// See [`SwitchRow::run_ns`].
    pub run_ns: Option<u64>,
    /// See [`SwitchRow::wait_state`].
    pub wait_state: State,
    /// Wait event in which it had left its CPU.
    pub wait: Wait,
    /// See [`SwitchRow::state`].
    pub state: State,
    /// See [`SwitchRow::waker`].
    pub waker: ArcStr,
    /// How often it was moved while it was off CPU.
    pub migrations: u64,
    /// See [`SwitchRow::migrated`].
    pub migrated: bool,
    /// See [`SwitchRow::priority`].
    pub priority: Option<i32>,
    /// Who had the CPU during the delay, and for how many nanoseconds; each name once.
    pub instead: Vec<(ArcStr, u64)>,
    /// See [`SwitchRow::statement`].
    pub statement: u64,
    /// See [`SwitchRow::wait_statement`].
    pub wait_statement: u64,
    /// State of the session when it previously left its CPU. States that it went through while it ran are not observed.
    pub wait_session_state: SessionState,
}

/// To whom a part of a turn belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Whose {
    session: SessionId,
    statement: u64,
    session_state: SessionState,
}

/// Where time belongs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cell {
    second: i64,
    whose: Whose,
    wait: Wait,
    state: State,
}

/// Latencies of one kind and name that fell into one bucket.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LatencyCell {
    second: i64,
    session: SessionId,
    statement: u64,
    kind: &'static str,
    name: ArcStr,
    bucket: u16,
}

#[derive(Debug, Default)]
struct Sum {
    count: u64,
    ns: u64,
    max_ns: u64,
    min_ns: u64,
}

impl Sum {
    fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.count += 1;
        self.ns = self.ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
    }
}

/// Sums up turns. Time is conserved: each known part of a turn is in the ledger once, in the second in which it ended.
#[derive(Debug, Default)]
pub struct Turns {
    activity: HashMap<Cell, Sum>,
    latency: HashMap<LatencyCell, Sum>,
    counters: HashMap<(i64, SessionId, u64, &'static str), i64>,
    switches: Vec<SwitchRow>,
    /// Names that latencies use for the wait events and states seen so far.
    events: HashMap<Wait, ArcStr>,
    states: HashMap<State, ArcStr>,
    /// Turns added, see [`crate::recording::Scheduling::switches`].
    pub switches_seen: u64,
    /// Of these, how many became a row.
    pub switches_kept: u64,
    /// See [`crate::recording::Scheduling::without_begin`].
    pub without_begin: u64,
}

impl Turns {
    /// Adds a turn; `keep`: also as a row of its own.
    pub fn add(&mut self, turn: Turn, keep: bool) {
        let run_end = turn.time_ns;
        let run_begin = run_end.saturating_sub_unsigned(turn.run_ns.unwrap_or(0));
        let delay_begin = run_begin.saturating_sub_unsigned(turn.delay_ns.unwrap_or(0));
        let before = Whose {
            session: turn.session,
            statement: turn.wait_statement,
            session_state: turn.wait_session_state,
        };
        let running = Whose {
            session: turn.session,
            statement: turn.statement,
            session_state: SessionState::None,
        };
        let event = self.event_name(&turn.wait);
        self.switches_seen += 1;
        *self.counter(run_end, running, counter::SWITCHES) += 1;
        self.moved_while(run_end, before, turn.migrations);
        if let Some(ns) = turn.wait_ns.filter(|_| turn.wait_state != State::Runnable) {
            self.time(delay_begin, before, &turn.wait, turn.wait_state, ns);
            self.latency(
                delay_begin,
                before,
                kind::WAIT,
                &event,
                ns.saturating_add(turn.delay_ns.unwrap_or(0)),
            );
            if !turn.waker.is_empty() {
                self.latency(delay_begin, before, kind::WAKER, &turn.waker, ns);
            }
        }
        if let Some(ns) = turn.delay_ns {
            self.time(run_begin, before, &turn.wait, State::Runnable, ns);
            self.latency(run_begin, before, kind::SCHED, &event, ns);
            for (name, ns) in &turn.instead {
                self.latency(run_begin, before, kind::INSTEAD, name, *ns);
            }
        }
        match turn.run_ns {
            Some(ns) => {
                let state = ArcStr::clone(
                    self.states
                        .entry(turn.state)
                        .or_insert_with(|| turn.state.as_str().into()),
                );
                // The wait events that it went through meanwhile were not observed.
                self.time(run_end, running, &Wait::not_recorded(), State::Cpu, ns);
                self.latency(run_end, running, kind::RUN, &state, ns);
            }
            None => self.without_begin += 1,
        }
        if keep {
            self.switches_kept += 1;
            self.switches.push(SwitchRow {
                session: turn.session,
                time_ns: turn.time_ns,
                cpu: turn.cpu,
                wait_ns: turn.wait_ns,
                delay_ns: turn.delay_ns,
                run_ns: turn.run_ns,
                wait_state: turn.wait_state,
                wait_class: turn.wait.class.clone(),
                wait_event: turn.wait.event.clone(),
                state: turn.state,
                waker: turn.waker.to_string(),
                migrated: turn.migrated,
                priority: turn.priority,
                statement: turn.statement,
                wait_statement: turn.wait_statement,
            });
        }
    }

    /// A task was moved to another CPU `times` times, outside a turn.
    pub fn moved(&mut self, time_ns: i64, session: SessionId, times: u64) {
        let nothing = Whose {
            session,
            statement: 0,
            session_state: SessionState::None,
        };
        self.moved_while(time_ns, nothing, times);
    }

    fn moved_while(&mut self, time_ns: i64, whose: Whose, times: u64) {
        if times > 0 {
            let sum = self.counter(time_ns, whose, counter::MIGRATIONS);
            *sum = sum.saturating_add(i64::try_from(times).unwrap_or(i64::MAX));
        }
    }

    /// Rows that [`Turns::take`] would return, of activity, latencies and switches.
    pub fn len(&self) -> usize {
        self.activity.len() + self.latency.len() + self.switches.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes only the rows of switches: they are wanted at once, whereas sums get smaller if more is added up.
    pub fn take_switches(&mut self) -> Vec<SwitchRow> {
        std::mem::take(&mut self.switches)
    }

    /// Rows of all that was added since the last call, in a fixed order.
    pub fn take(&mut self) -> Rows {
        let mut activity: Vec<ActivityRow> = std::mem::take(&mut self.activity)
            .into_iter()
            .map(|(cell, sum)| ActivityRow {
                time: cell.second.saturating_mul(SECOND_US),
                session: cell.whose.session,
                statement: cell.whose.statement,
                plan: 0,
                wait_class: cell.wait.class.clone(),
                wait_event: cell.wait.event.clone(),
                idle: cell.wait.is_idle_in(cell.whose.session_state),
                state: cell.state,
                kernel_stack: NO_STACK,
                user_stack: NO_STACK,
                comment: 0,
                ns: sum.ns,
                count: sum.count,
                samples: 0,
                fidelity: Fidelity::Exact,
                pooled: false,
                session_state: cell.whose.session_state,
            })
            .collect();
        activity.sort_by(|a, b| {
            let by = |row: &ActivityRow| {
                (
                    row.time,
                    row.session,
                    row.state,
                    row.statement,
                    row.session_state as u8,
                )
            };
            let waits = || (&a.wait_class, &a.wait_event).cmp(&(&b.wait_class, &b.wait_event));
            by(a).cmp(&by(b)).then_with(waits)
        });
        let mut latency: Vec<LatencyRow> = std::mem::take(&mut self.latency)
            .into_iter()
            .map(|(cell, sum)| {
                let (from_ns, to_ns) = bounds_of(cell.bucket);
                LatencyRow {
                    time: cell.second.saturating_mul(SECOND_US),
                    session: cell.session,
                    statement: cell.statement,
                    kind: cell.kind.into(),
                    name: cell.name,
                    from_ns,
                    to_ns,
                    count: sum.count,
                    sum_ns: sum.ns,
                    max_ns: sum.max_ns,
                    min_ns: sum.min_ns,
                    ..LatencyRow::default()
                }
            })
            .collect();
        latency.sort_by(|a, b| {
            (a.time, a.session, &a.kind, &a.name, a.statement, a.from_ns).cmp(&(
                b.time,
                b.session,
                &b.kind,
                &b.name,
                b.statement,
                b.from_ns,
            ))
        });
        let mut counters: Vec<CounterRow> = std::mem::take(&mut self.counters)
            .into_iter()
            .map(|((second, session, statement, name), value)| CounterRow {
                time: second.saturating_mul(SECOND_US),
                session,
                statement,
                source: counter::KERNEL.into(),
                name: name.into(),
                value,
                ..CounterRow::default()
            })
            .collect();
        counters.sort_by(|a, b| {
            (a.time, a.session, &a.name, a.statement).cmp(&(b.time, b.session, &b.name, b.statement))
        });
        Rows {
            activity,
            latency,
            counters,
            switches: std::mem::take(&mut self.switches),
            ..Rows::default()
        }
    }

    fn counter(&mut self, end_ns: i64, whose: Whose, name: &'static str) -> &mut i64 {
        let second = end_ns.div_euclid(SECOND_NS);
        let key = (second, whose.session, whose.statement, name);
        self.counters.entry(key).or_default()
    }

    fn time(&mut self, end_ns: i64, whose: Whose, wait: &Wait, state: State, ns: u64) {
        let cell = Cell {
            second: end_ns.div_euclid(SECOND_NS),
            whose,
            wait: wait.clone(),
            state,
        };
        self.activity.entry(cell).or_default().add(ns);
    }

    fn latency(&mut self, end_ns: i64, whose: Whose, kind: &'static str, name: &ArcStr, ns: u64) {
        let cell = LatencyCell {
            second: end_ns.div_euclid(SECOND_NS),
            session: whose.session,
            statement: whose.statement,
            kind,
            name: ArcStr::clone(name),
            bucket: bucket_of(ns),
        };
        self.latency.entry(cell).or_default().add(ns);
    }

    /// The name of a wait event in latencies: see [`LatencyRow::name`].
    fn event_name(&mut self, wait: &Wait) -> ArcStr {
        if let Some(name) = self.events.get(wait) {
            return ArcStr::clone(name);
        }
        let name: ArcStr = match wait.kind() {
            WaitKind::None => Wait::NONE.into(),
            WaitKind::Event | WaitKind::Unknown => format!("{}:{}", wait.class, wait.event).into(),
        };
        self.events.insert(wait.clone(), ArcStr::clone(&name));
        name
    }
}
