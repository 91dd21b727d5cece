//! How a recording stands, once a second: for who watches it.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime_collect::Collector;
use dbtime_model::{ActivityRow, BackendType, SessionId};
use dbtime_report::Section;

const SECOND_US: i64 = 1_000_000;
/// The average is of so many seconds: long enough to be read, short enough to follow what happens.
const AVERAGED_S: i64 = 5;
/// Rows of a second have come by then.
const LATE_S: i64 = 1;

/// What there is by now.
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

/// Adds up the last seconds.
pub(super) struct Watch {
    start_us: i64,
    due: Duration,
    /// Rows that wait to be taken and have been looked at.
    seen: usize,
    /// DB time by second.
    db_time_ns: BTreeMap<i64, u64>,
}

impl Watch {
    pub(super) fn new(start_us: i64) -> Watch {
        Watch {
            start_us,
            due: Duration::ZERO,
            seen: 0,
            db_time_ns: BTreeMap::new(),
        }
    }

    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        elapsed >= self.due
    }

    pub(super) fn look(&mut self, collector: &Collector, elapsed: Duration, bytes: u64) -> Standing {
        self.due = Duration::from_secs(elapsed.as_secs() + 1);
        self.add_new(collector);
        let now_us = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| i64::try_from(now.as_micros()).unwrap_or(i64::MAX));
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

    /// All rows that wait are taken in the next moment.
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
                *self.db_time_ns.entry(row.time).or_default() += row.ns;
            }
        }
    }

    /// Of the last seconds of which all rows have come.
    fn average(&mut self, now_us: i64) -> Option<f64> {
        let end = (now_us.div_euclid(SECOND_US) - LATE_S) * SECOND_US;
        let begin = end - AVERAGED_S * SECOND_US;
        self.db_time_ns = self.db_time_ns.split_off(&begin);
        let recorded_us = end - begin.max(self.start_us);
        let ns: u64 = self.db_time_ns.range(..end).map(|(_, ns)| ns).sum();
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
            wait_class: "IO".to_string(),
            wait_event: "DataFileRead".to_string(),
            idle,
            state: State::Disk,
            session_state: SessionState::default(),
            kernel_stack: dbtime_model::NO_STACK,
            user_stack: dbtime_model::NO_STACK,
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
            (SessionId(1), BackendType(BackendType::CLIENT.to_string())),
            (SessionId(2), BackendType(BackendType::POSTMASTER.to_string())),
        ]);
        let mut watch = Watch::new(100 * SECOND_US + SECOND_US / 2);
        assert_eq!(watch.average(101 * SECOND_US), None);
        watch.add(
            &[
                row(100, 1, false, 500_000_000),
                row(100, 2, false, 500_000_000),
                row(101, 1, true, 1_000_000_000),
            ],
            &kinds,
        );
        // Half of a second and a whole one, in the first of which it was at work.
        assert_eq!(watch.average(103 * SECOND_US), Some(0.5 / 1.5));
        for second in 102..120 {
            watch.add(&[row(second, 1, false, 2_000_000_000)], &kinds);
        }
        assert_eq!(watch.average(120 * SECOND_US), Some(2.0));
        assert!(watch.db_time_ns.len() <= 7, "{:?}", watch.db_time_ns);
    }
}
