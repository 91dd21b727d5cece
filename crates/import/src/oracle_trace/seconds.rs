//! Adds up what happened in one second and makes rows of it.

use std::collections::HashMap;

use dbtime_model::{ActivityRow, CounterRow, Fidelity, NO_STACK, SessionId, State};

use super::counter;
use super::events::{EventId, Events};
use super::views::CallView;

const SECOND_US: i64 = 1_000_000;

/// Rows of one session. The owner fills in the session when it knows which one it is.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    second_us: i64,
    activity: HashMap<(EventId, u64), Sum>,
    open: Counters,
    pub(super) activity_rows: Vec<ActivityRow>,
    pub(super) counter_rows: Vec<CounterRow>,
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
}

impl Seconds {
    /// Opens the second of this moment, microseconds since the Unix epoch.
    pub(super) fn at(&mut self, time_us: i64, events: &Events) -> &mut Seconds {
        let second_us = time_us.div_euclid(SECOND_US).saturating_mul(SECOND_US);
        if second_us != self.second_us {
            self.close(events);
            self.second_us = second_us;
        }
        self
    }

    /// Adds time to a row; no time, no row.
    pub(super) fn add(&mut self, event: EventId, statement: u64, us: u64) {
        let sum = self.activity.entry((event, statement)).or_default();
        sum.ns = sum.ns.saturating_add(us.saturating_mul(1_000));
        sum.count += 1;
    }

    pub(super) fn counters(&mut self) -> &mut Counters {
        &mut self.open
    }

    /// Makes rows of the open second.
    pub(super) fn close(&mut self, events: &Events) {
        let mut sums: Vec<_> = self.activity.drain().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        for ((event, statement), sum) in sums {
            let wait = &events.get(event).wait;
            self.activity_rows.push(ActivityRow {
                time: self.second_us,
                session: SessionId::RECORDER,
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
        let ns = |us: u64| i64::try_from(us.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let call_view = &open.call_view;
        self.count([
            (counter::CALL_ELAPSED_US, call_view.elapsed_us),
            (counter::CALL_CPU_US, call_view.cpu_us),
            (counter::CALL_WAIT_US, call_view.wait_us),
            (counter::CALL_IDLE_US, call_view.idle_us),
            (counter::CPU_INSIDE_WAITS_NS, ns(open.cpu_inside_waits_us)),
            (counter::WAITS_BEYOND_CALLS_NS, ns(open.waits_beyond_calls_us)),
        ]);
    }

    /// Adds counters to the open second; those that did not grow get no row.
    pub(super) fn count<const N: usize>(&mut self, counters: [(&str, i64); N]) {
        for (name, value) in counters.into_iter().filter(|(_, value)| *value != 0) {
            self.counter_rows.push(CounterRow {
                time: self.second_us,
                session: SessionId::RECORDER,
                source: counter::ORACLE.to_string(),
                name: name.to_string(),
                value,
                ..CounterRow::default()
            });
        }
    }
}
