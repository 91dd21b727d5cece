//! The state of a recording, once a second, for those who watch it.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::time::Duration;

use dbtime_collect::Collector;
use dbtime_model::{ActivityRow, BackendType, SessionId};
use dbtime_report::Section;
use serde::{Deserialize, Serialize};

use super::measure::Measure;
use crate::time_of_day::now_us;

const SECOND_US: i64 = 1_000_000;
/// Seconds in the average: enough to be readable, few enough to follow what happens.
const AVERAGED_S: i64 = 5;
/// By then the rows of a second have arrived.
const LATE_S: i64 = 1;
/// The same for callers that act on it.
const SURELY_LATE_S: i64 = 2;

/// The state so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Time since it began.
    pub elapsed: Duration,
    /// Sessions of clients, and others that work for them.
    pub sessions: usize,
    /// Average active sessions of the last seconds, as reports count them; none until there is a whole second.
    pub active: Option<f64>,
    /// Samples.
    pub samples: u64,
    /// Written so far.
    pub bytes: u64,
}

/// A second that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watched {
    /// Its begin, microseconds since the Unix epoch.
    pub second_us: i64,
    /// Average sessions, for each measure that is watched.
    pub sessions: Vec<f64>,
}

/// Adds up the last seconds.
pub(super) struct Watch {
    start_us: i64,
    due: Duration,
    /// How many of the rows that wait to be taken have been counted.
    seen: usize,
    measures: Vec<Measure>,
    /// The first second whose measurements have not been reported.
    untold_us: i64,
    /// By second.
    seconds: BTreeMap<i64, Second>,
}

#[derive(Debug, Default)]
struct Second {
    db_time_ns: u64,
    /// DB time that counts for each measure.
    measured_ns: Vec<u64>,
}

impl Watch {
    pub(super) fn new(start_us: i64, measures: &[Measure]) -> Watch {
        Watch {
            start_us,
            due: Duration::ZERO,
            seen: 0,
            measures: measures.to_vec(),
            // The first whole one.
            untold_us: (start_us.div_euclid(SECOND_US) + 1) * SECOND_US,
            seconds: BTreeMap::new(),
        }
    }

    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.due
    }

    pub(super) fn look(&mut self, collector: &Collector, elapsed: Duration, bytes: u64) -> Standing {
        self.due = Duration::from_secs(elapsed.as_secs() + 1);
        self.add_new(collector);
        let now_us = now_us();
        Standing {
            elapsed,
            sessions: collector
                .sessions()
                .filter(|(_, kind)| kind.is_foreground())
                .count(),
            active: self.average(now_us),
            samples: collector.samples(),
            bytes,
        }
    }

    /// Seconds that are over, each once. To be called right after [`Watch::look`], which forgets old ones.
    pub(super) fn take_watched(&mut self) -> Vec<Watched> {
        if self.measures.is_empty() {
            return Vec::new();
        }
        self.watched(now_us())
    }

    fn watched(&mut self, now_us: i64) -> Vec<Watched> {
        let end_us = (now_us.div_euclid(SECOND_US) - SURELY_LATE_S) * SECOND_US;
        // After a standstill, seconds that were forgotten are not reported.
        let untold_us = end_us.max(self.untold_us);
        let first_us = mem::replace(&mut self.untold_us, untold_us);
        let from_us = first_us.max(end_us - AVERAGED_S * SECOND_US);
        let average = |ns: u64| ns as f64 / 1e9;
        (from_us..end_us)
            .step_by(SECOND_US as usize)
            .map(|second_us| Watched {
                second_us,
                sessions: match self.seconds.get(&second_us) {
                    Some(second) => second.measured_ns.iter().map(|&ns| average(ns)).collect(),
                    None => vec![0.0; self.measures.len()],
                },
            })
            .collect()
    }

    /// To be called right before all waiting rows are taken.
    pub(super) fn rows_are_taken(&mut self, collector: &Collector) {
        self.add_new(collector);
        self.seen = 0;
    }

    fn add_new(&mut self, collector: &Collector) {
        let rows = collector.rows();
        let ended = rows
            .sessions
            .iter()
            .map(|row| (row.id, BackendType(row.backend_type.clone())));
        let kinds: HashMap<SessionId, BackendType> = collector.sessions().chain(ended).collect();
        let new = rows.activity.get(self.seen..).unwrap_or_default();
        self.seen = rows.activity.len();
        self.add(new, &kinds);
    }

    fn add(&mut self, rows: &[ActivityRow], kinds: &HashMap<SessionId, BackendType>) {
        for row in rows {
            let is_db_time = |kind| Section::of(kind, row.idle, row.state) == Section::DbTime;
            if kinds.get(&row.session).is_some_and(is_db_time) {
                let second = self.seconds.entry(row.time).or_default();
                second.db_time_ns += row.ns;
                second.measured_ns.resize(self.measures.len(), 0);
                for (sum, measure) in second.measured_ns.iter_mut().zip(&self.measures) {
                    if measure.takes(row) {
                        *sum += row.ns;
                    }
                }
            }
        }
    }

    /// Over the last seconds whose rows have all arrived.
    fn average(&mut self, now_us: i64) -> Option<f64> {
        let end = (now_us.div_euclid(SECOND_US) - LATE_S) * SECOND_US;
        let begin = end - AVERAGED_S * SECOND_US;
        self.seconds = self
            .seconds
            .split_off(&(begin - (SURELY_LATE_S - LATE_S) * SECOND_US));
        let recorded_us = end - begin.max(self.start_us);
        let recorded = self.seconds.range(begin..end);
        let ns: u64 = recorded.map(|(_, second)| second.db_time_ns).sum();
        (recorded_us >= SECOND_US).then(|| ns as f64 / 1e3 / recorded_us as f64)
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::{Fidelity, SessionState, State};

    use super::*;

    fn row(second: i64, session: u64, idle: bool, ns: u64) -> ActivityRow {
        ActivityRow {
            time: second * SECOND_US,
            session: SessionId(session),
            statement: 0,
            plan: 0,
            wait_class: "IO".into(),
            wait_event: "DataFileRead".into(),
            idle,
            state: State::Disk,
            session_state: SessionState::default(),
            kernel_stack: dbtime_model::NO_STACK,
            user_stack: dbtime_model::NO_STACK,
            comment: 0,
            ns,
            count: 0,
            samples: 1,
            fidelity: Fidelity::Sampled,
            pooled: false,
        }
    }

    #[test]
    fn the_average_is_of_the_last_whole_seconds_of_clients_that_work() {
        let kinds = HashMap::from([
            (SessionId(1), BackendType(BackendType::CLIENT.into())),
            (SessionId(2), BackendType(BackendType::POSTMASTER.into())),
        ]);
        let mut watch = Watch::new(100 * SECOND_US + SECOND_US / 2, &[]);
        assert_eq!(watch.average(101 * SECOND_US), None);
        watch.add(
            &[
                row(100, 1, false, 500_000_000),
                row(100, 2, false, 500_000_000),
                row(101, 1, true, 1_000_000_000),
            ],
            &kinds,
        );
        // Half a second and a whole one; it was at work in the first.
        assert_eq!(watch.average(103 * SECOND_US), Some(0.5 / 1.5));
        for second in 102..120 {
            watch.add(&[row(second, 1, false, 2_000_000_000)], &kinds);
        }
        assert_eq!(watch.average(120 * SECOND_US), Some(2.0));
        assert!(watch.seconds.len() <= 8, "{:?}", watch.seconds);
    }

    #[test]
    fn each_second_is_told_once_when_it_is_over() {
        let kinds = HashMap::from([(SessionId(1), BackendType(BackendType::CLIENT.into()))]);
        let measures = ["active", "wait=io", "wait=IO:WALSync", "run_queue", "query=-1"];
        let measures: Vec<Measure> = measures.iter().map(|text| text.parse().expect(text)).collect();
        let mut watch = Watch::new(100 * SECOND_US, &measures);
        let mut other = row(101, 1, false, 500_000_000);
        other.state = State::Runnable;
        other.wait_class = "CPU".into();
        other.statement = u64::MAX;
        watch.add(&[row(101, 1, false, 2_000_000_000), other], &kinds);
        assert_eq!(watch.watched(103 * SECOND_US), []);
        let told = watch.watched(105 * SECOND_US);
        let seconds: Vec<i64> = told.iter().map(|told| told.second_us / SECOND_US).collect();
        assert_eq!(seconds, [101, 102]);
        assert_eq!(told[0].sessions, [2.5, 2.0, 0.0, 0.5, 0.5]);
        assert_eq!(told[1].sessions, [0.0; 5]);
        assert_eq!(watch.watched(105 * SECOND_US), []);
        // A clock that is set back, and a standstill.
        assert_eq!(watch.watched(50 * SECOND_US), []);
        assert_eq!(watch.watched(200 * SECOND_US).len(), 5);
    }
}
