//! Turns what statistics of Oracle sessions grew by in an interval into rows: common to all importers of such snapshots.
//!
//! # Rows
//! Counters have the source `snapper`. Those that are times are activity as well: waits, CPU, and what the database counts beyond both,
//! which is `unaccounted`. As in every import, all of it is put into the second in which the interval ended. Time of the interval beyond
//! the database's own times has no row: it is not known what it was.

use dbtime_model::counter::{self, snapper};
use dbtime_model::{ActivityRow, CounterRow, Fidelity, NO_STACK, SessionId, SessionState, State, Wait};

use crate::Import;

const SECOND_US: i64 = 1_000_000;

/// CPU in V$SESS_TIME_MODEL: of foreground sessions, and of background processes.
const CPU: [&str; 2] = ["DB CPU", "background cpu time"];

/// The times that this CPU is part of.
const ELAPSED: [&str; 2] = ["DB time", "background elapsed time"];

/// What a number is, in the three views that have numbers of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Statistic,
    Time,
    Wait,
}

/// Something that grew.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Growth<'a> {
    /// In its own unit.
    Statistic { name: &'a str, value: i64 },
    /// A part of the time model.
    Time { name: &'a str, us: i64 },
    /// Waits for an event; their number, if known.
    Wait {
        name: &'a str,
        wait: &'a Wait,
        us: i64,
        waits: Option<i64>,
    },
}

/// When it grew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    /// Microseconds since the Unix epoch.
    pub begin_us: i64,
    pub end_us: i64,
    /// How long it was, if known.
    pub elapsed_ns: Option<i64>,
    /// All that grew is known. If not, waits may be missing, so nothing is said about time beyond those that are there.
    pub is_whole: bool,
}

/// A session and what is known of its time in an interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionTime {
    id: SessionId,
    elapsed_us: i128,
    cpu_us: i128,
    wait_us: i128,
}

impl SessionTime {
    /// Nothing grew yet.
    pub(crate) fn new(id: SessionId) -> SessionTime {
        SessionTime {
            id,
            elapsed_us: 0,
            cpu_us: 0,
            wait_us: 0,
        }
    }
}

impl Interval {
    /// Adds the rows of what grew.
    pub(crate) fn grew(&self, of: &mut SessionTime, growth: Growth<'_>, into: &mut Import) {
        match growth {
            Growth::Statistic { name, value } => self.counter(of.id, snapper::STATISTIC, name, value, into),
            Growth::Time { name, us } => {
                self.counter(of.id, snapper::TIME_US, name, us, into);
                if CPU.contains(&name) {
                    of.cpu_us += i128::from(us.max(0));
                    self.activity(of.id, &Wait::none(), State::Cpu, us.into(), 0, into);
                } else if ELAPSED.contains(&name) {
                    of.elapsed_us += i128::from(us);
                }
            }
            Growth::Wait {
                name,
                wait,
                us,
                waits,
            } => {
                if us != 0 {
                    self.counter(of.id, snapper::WAIT_US, name, us, into);
                }
                if let Some(waits) = waits {
                    self.counter(of.id, snapper::WAITS, name, waits, into);
                }
                if !wait.idle {
                    of.wait_us += i128::from(us.max(0));
                }
                let count = u64::try_from(waits.unwrap_or(0)).unwrap_or(0);
                self.activity(of.id, wait, State::Unknown, us.into(), count, into);
            }
        }
    }

    /// Adds the rows of the session's time as a whole.
    pub(crate) fn ended(&self, of: &SessionTime, into: &mut Import) {
        // What the whole instance counts belongs to no session.
        if of.id == SessionId::RECORDER {
            return;
        }
        if let Some(elapsed_ns) = self.elapsed_ns {
            self.counter(of.id, counter::ELAPSED_NS, "", elapsed_ns, into);
        }
        if self.is_whole {
            let beyond = of.elapsed_us - of.cpu_us - of.wait_us;
            let unaccounted = Wait::event(Wait::UNKNOWN, "unaccounted", false);
            self.activity(of.id, &unaccounted, State::Unknown, beyond, 0, into);
        }
    }

    /// An interval that ends exactly with a second is in that second, not in the next one.
    fn last_second(&self) -> i64 {
        second_of(self.end_us.saturating_sub(1).max(self.begin_us))
    }

    fn counter(&self, session: SessionId, prefix: &str, name: &str, value: i64, into: &mut Import) {
        into.counter(CounterRow {
            time: self.last_second(),
            session,
            source: counter::SNAPPER.into(),
            name: format!("{prefix}{name}").into(),
            value,
            ..CounterRow::default()
        });
    }

    fn activity(
        &self,
        session: SessionId,
        wait: &Wait,
        state: State,
        us: i128,
        count: u64,
        into: &mut Import,
    ) {
        if us <= 0 || session == SessionId::RECORDER {
            return;
        }
        into.activity(ActivityRow {
            time: self.last_second(),
            session,
            statement: 0,
            plan: 0,
            wait_class: wait.class.clone(),
            wait_event: wait.event.clone(),
            idle: wait.idle,
            state,
            session_state: SessionState::None,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: u64::try_from(us).unwrap_or(u64::MAX).saturating_mul(1000),
            count,
            samples: 0,
            fidelity: Fidelity::Exact,
            pooled: false,
        });
    }
}

fn second_of(time_us: i64) -> i64 {
    time_us.div_euclid(SECOND_US).saturating_mul(SECOND_US)
}
