//! The last seconds of an ongoing recording, or some of one that is replayed: rows in memory, by second.
//!
//! A report asks questions of a [`Source`]. [`Recent::source`] is one of some of these seconds, so what is asked while rows arrive is
//! what would be asked of the recording. What is kept is bounded, whatever arrives.

use std::collections::BTreeMap;
use std::sync::Arc;

use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{Described, LatencyRow, Rows, Timed};

use crate::dimensions::Dimensions;
use crate::filter::SECOND_US;
use crate::load::{SharedRows, Source};

/// Maximum number of rows of activity, counters, causes and locks to keep: some 100 MB.
const MOST_ROWS: usize = 400_000;
/// Maximum number of latency rows to keep: some 60 MB. If single events are counted, they outnumber all others, and go first.
const MOST_LATENCIES: usize = 300_000;
/// Waits are followed seconds after they were sampled: until then, samples of the surrounding seconds stand for the same waits.
const CAUSES_LATE_US: i64 = 15 * SECOND_US;
/// Maximum number of frames of stacks to keep: some 100 MB.
const MOST_FRAMES: usize = 400_000;
/// Maximum number of sessions, statements and comments to keep although no kept row refers to them.
const MOST_OTHERS: usize = 20_000;

/// See the module.
#[derive(Debug)]
pub struct Recent {
    meta: Meta,
    keep_us: i64,
    seconds: BTreeMap<i64, Second>,
    /// How often rows were added.
    additions: u64,
    described: Dimensions,
    rows: usize,
    latencies: usize,
    is_cut: bool,
    /// End of what was forgotten: rows that arrive late for that time would be only a part of it.
    forgotten_us: i64,
    /// The same for latencies.
    latencies_forgotten_us: i64,
}

/// Rows of a second, which sources may share.
#[derive(Debug, Default)]
struct Second {
    rows: Arc<Rows>,
    /// The addition that changed them last.
    changed: u64,
}

/// Tables to include besides activity and counters: no screen needs all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoreTables {
    /// Who was waited for.
    pub causes: bool,
    /// Single events.
    pub latencies: bool,
    /// Internal locks.
    pub held_locks: bool,
    /// Those of the server's lock table.
    pub locks: bool,
}

impl MoreTables {
    /// Every table.
    pub const ALL: MoreTables = MoreTables {
        causes: true,
        latencies: true,
        held_locks: true,
        locks: true,
    };
}

/// Number of rows of a second that count. Latencies are counted separately.
fn weight(rows: &Rows) -> usize {
    rows.activity.len() + rows.counters.len() + rows.causes.len() + rows.held_locks.len() + rows.locks.len()
}

/// What the rows of these seconds refer to.
fn named<'a>(seconds: impl Iterator<Item = &'a Second>) -> Described {
    seconds.fold(Described::default(), |mut named, second| {
        named.add(second.rows.refers_to());
        named
    })
}

impl Recent {
    /// No rows yet. `keep_s`: seconds to keep; fewer are kept if they have too many rows.
    pub fn new(meta: Meta, keep_s: i64) -> Recent {
        Recent {
            meta,
            keep_us: keep_s.saturating_mul(SECOND_US),
            seconds: BTreeMap::new(),
            additions: 0,
            described: Dimensions::default(),
            rows: 0,
            latencies: 0,
            is_cut: false,
            forgotten_us: i64::MIN,
            latencies_forgotten_us: i64::MIN,
        }
    }

    /// The rows of a source from one moment to another (microseconds since the Unix epoch): the last of them, if there are too many. The
    /// second value is what could not be read.
    pub fn of(source: &Source, from_us: i64, to_us: i64) -> (Recent, Vec<Problem>) {
        let mut recent = Recent::new(source.meta().clone(), i64::MAX);
        let is_meant = |time: i64| (from_us..to_us).contains(&time);
        let mut problems = source.activity(|row| {
            if is_meant(row.time) {
                recent.put(row.clone(), |second| &mut second.activity);
                recent.keep_within_bounds();
            }
        });
        problems.extend(source.counters(|row| {
            if is_meant(row.time) {
                recent.put(row.clone(), |second| &mut second.counters);
                recent.keep_within_bounds();
            }
        }));
        problems.extend(source.causes(|row| {
            if is_meant(row.time) {
                recent.put(row.clone(), |second| &mut second.causes);
                recent.keep_within_bounds();
            }
        }));
        problems.extend(source.locks(|row| {
            if is_meant(row.time) {
                recent.put(row.clone(), |second| &mut second.locks);
                recent.keep_within_bounds();
            }
        }));
        problems.extend(source.latency(|row| {
            if is_meant(row.time) {
                recent.add_latency(row.clone());
                recent.keep_within_bounds();
            }
        }));
        let mentioned = named(recent.seconds.values());
        let (rows, more) = source.rows_of_dimensions(
            |id| mentioned.sessions.contains(&id),
            |id| mentioned.stacks.contains(&id),
            |id| mentioned.statements.contains(&id),
            |id| mentioned.comments.contains(&id),
        );
        problems.extend(more);
        recent.add(source.meta().clone(), rows);
        (recent, problems)
    }

    /// Adds rows, and forgets those that are too old. `meta`: what the recording says about itself by now.
    pub fn add(&mut self, meta: Meta, rows: Rows) {
        self.meta = meta;
        self.additions += 1;
        for row in rows.activity {
            self.put(row, |second| &mut second.activity);
        }
        for row in rows.counters {
            self.put(row, |second| &mut second.counters);
        }
        for row in rows.causes {
            self.put(row, |second| &mut second.causes);
        }
        for row in rows.held_locks {
            self.put(row, |second| &mut second.held_locks);
        }
        for row in rows.locks {
            self.put(row, |second| &mut second.locks);
        }
        rows.latency.into_iter().for_each(|row| self.add_latency(row));
        let described = &mut self.described;
        let Meta { host, database, .. } = &self.meta;
        for row in rows.sessions {
            described.learn_session(row, &host.name, &database.data_directory);
        }
        (rows.stacks.iter()).for_each(|row| described.learn_stack(row));
        (rows.statements.iter()).for_each(|row| described.learn_statement(row));
        (rows.comments.iter()).for_each(|row| described.learn_comment(row));
        if let Some(newest) = self.seconds.keys().next_back().copied() {
            let old = newest.saturating_sub(self.keep_us);
            while self.oldest_us().is_some_and(|oldest| oldest <= old) {
                self.drop_oldest();
            }
        }
        self.keep_within_bounds();
        self.forget_unmentioned();
    }

    /// What the recording says about itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// True when seconds were forgotten because there were too many rows.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The first second that is kept, microseconds since the Unix epoch.
    pub fn oldest_us(&self) -> Option<i64> {
        self.seconds.keys().next().copied()
    }

    /// The last one.
    pub fn newest_us(&self) -> Option<i64> {
        self.seconds.keys().next_back().copied()
    }

    /// The moment from which on all latencies that arrived are kept, microseconds since the Unix epoch; none: nothing was forgotten.
    pub fn latencies_since_us(&self) -> Option<i64> {
        (self.latencies_forgotten_us > i64::MIN).then_some(self.latencies_forgotten_us)
    }

    /// The rows from one moment to another (microseconds since the Unix epoch), for any question about the included tables.
    pub fn source(&self, from_us: i64, to_us: i64, more: MoreTables) -> Source {
        let around_us = if more.causes { CAUSES_LATE_US } else { 0 };
        let around = from_us.saturating_sub(around_us)..to_us.saturating_add(around_us);
        let seconds = (from_us < to_us).then(|| self.seconds.range(around));
        let shared = seconds.into_iter().flatten().map(|(time, second)| SharedRows {
            rows: Arc::clone(&second.rows),
            is_in_time: (from_us..to_us).contains(time),
            more,
        });
        Source::shared(self.meta.clone(), shared.collect(), self.described.clone())
    }

    /// Copies of all rows that are kept, with what describes them.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for second in self.seconds.values() {
            rows.append(Rows::clone(&second.rows));
        }
        rows.append(self.descriptions_of(&rows.refers_to()));
        rows
    }

    /// How often rows were added.
    pub fn additions(&self) -> u64 {
        self.additions
    }

    /// The first second (microseconds since the Unix epoch) that got rows after this number of additions.
    pub fn changed_since(&self, additions: u64) -> Option<i64> {
        let mut changed = (self.seconds.iter()).filter(|(_, second)| second.changed > additions);
        changed.next().map(|(time, _)| *time)
    }

    /// Rows that describe these, as far as they are kept.
    pub fn descriptions_of(&self, wanted: &Described) -> Rows {
        self.described.descriptions_of(wanted)
    }

    fn put<T: Timed>(&mut self, row: T, table: impl Fn(&mut Rows) -> &mut Vec<T>) {
        if row.time() >= self.forgotten_us {
            self.rows += 1;
            table(self.second(row.time())).push(row);
        }
    }

    fn add_latency(&mut self, row: LatencyRow) {
        if row.time >= self.forgotten_us.max(self.latencies_forgotten_us) {
            self.latencies += 1;
            self.second(row.time).latency.push(row);
        }
    }

    /// Rows of a second, for adding one.
    fn second(&mut self, time: i64) -> &mut Rows {
        let second = self.seconds.entry(time).or_default();
        second.changed = self.additions;
        Arc::make_mut(&mut second.rows)
    }

    fn drop_oldest(&mut self) {
        if let Some((time, second)) = self.seconds.pop_first() {
            self.rows -= weight(&second.rows);
            self.latencies -= second.rows.latency.len();
            self.forgotten_us = time.saturating_add(1);
        }
    }

    fn keep_within_bounds(&mut self) {
        while self.rows > MOST_ROWS && self.seconds.len() > 1 {
            self.drop_oldest();
            self.is_cut = true;
        }
        while self.latencies > MOST_LATENCIES
            && let Some((time, second)) =
                (self.seconds.iter_mut()).find(|(_, second)| !second.rows.latency.is_empty())
        {
            self.latencies -= second.rows.latency.len();
            Arc::make_mut(&mut second.rows).latency = Vec::new();
            self.latencies_forgotten_us = time.saturating_add(SECOND_US);
        }
    }

    /// A stack is described once, and may recur much later: what no row refers to is kept as long as there is room.
    fn forget_unmentioned(&mut self) {
        if self.described.depth_of_stacks() <= MOST_FRAMES && self.described.most_entities() <= MOST_OTHERS {
            return;
        }
        loop {
            self.described.retain(&named(self.seconds.values()));
            if self.described.depth_of_stacks() <= MOST_FRAMES || self.seconds.len() <= 1 {
                return;
            }
            self.drop_oldest();
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::{
        ActivityRow, CauseRow, Fidelity, Frame, NO_STACK, SessionId, SessionRow, SessionState, StackId,
        StackRow, State, stack_id,
    };

    use super::*;
    use crate::report::{Options, report};

    fn activity(second: i64, session: u64, stack: StackId) -> ActivityRow {
        ActivityRow {
            time: second * SECOND_US,
            session: SessionId(session),
            statement: 7,
            plan: 0,
            wait_class: "IO".into(),
            wait_event: "DataFileRead".into(),
            idle: false,
            state: State::Disk,
            session_state: SessionState::default(),
            kernel_stack: NO_STACK,
            user_stack: stack,
            comment: 0,
            ns: 1_000_000_000,
            count: 0,
            samples: 99,
            fidelity: Fidelity::Sampled,
            pooled: false,
        }
    }

    fn session(id: u64) -> SessionRow {
        SessionRow {
            id: SessionId(id),
            pid: 4_700 + id as u32,
            backend_type: "client backend".into(),
            ..SessionRow::default()
        }
    }

    fn stack(depth: usize, name: &str) -> StackRow {
        let frames: Vec<Frame> = (0..depth)
            .map(|at| Frame {
                symbol: format!("{name}{at}"),
                module: "postgres".to_string(),
                build_id: String::new(),
                offset: at as u64,
            })
            .collect();
        StackRow {
            id: stack_id(&frames),
            frames,
        }
    }

    fn meta(end_s: i64) -> Meta {
        Meta {
            end_us: end_s * SECOND_US,
            ..Meta::default()
        }
    }

    #[test]
    fn the_last_seconds_are_kept_and_any_of_them_can_be_asked() {
        let mut recent = Recent::new(meta(0), 300);
        for second in 0..1_000 {
            let mut rows = Rows {
                activity: vec![activity(second, 1, NO_STACK)],
                ..Rows::default()
            };
            if second == 0 {
                rows.sessions.push(session(1));
            }
            recent.add(meta(second + 1), rows);
        }
        assert_eq!(
            (recent.oldest_us(), recent.newest_us()),
            (Some(700 * SECOND_US), Some(999 * SECOND_US))
        );
        assert!(!recent.is_cut());
        let source = recent.source(990 * SECOND_US, 995 * SECOND_US, MoreTables::default());
        let options = Options {
            filter: crate::Filter {
                from_us: Some(990 * SECOND_US),
                to_us: Some(995 * SECOND_US),
                ..crate::Filter::default()
            },
            ..Options::default()
        };
        let report = report(&source, &options).expect("a report");
        assert_eq!(report.db_time_ns(), 5_000_000_000);
        assert_eq!(report.average_active_sessions(), Some(1.0));
        assert_eq!(report.sessions.0[0].pid, Some(4_701));
    }

    #[test]
    fn a_late_row_stands_in_its_second() {
        let mut recent = Recent::new(meta(0), 300);
        for second in [5, 7, 6] {
            recent.add(
                meta(9),
                Rows {
                    activity: vec![activity(second, 1, NO_STACK)],
                    ..Rows::default()
                },
            );
        }
        let mut times = Vec::new();
        recent
            .source(6 * SECOND_US, 8 * SECOND_US, MoreTables::default())
            .activity(|row| times.push(row.time / SECOND_US));
        assert_eq!(times, [6, 7]);
        let additions = recent.additions();
        assert_eq!(recent.changed_since(additions), None);
        for second in [7, 8, 6] {
            let rows = Rows {
                activity: vec![activity(second, 1, NO_STACK)],
                ..Rows::default()
            };
            recent.add(meta(9), rows);
        }
        assert_eq!(recent.changed_since(additions), Some(6 * SECOND_US));
        assert_eq!(recent.changed_since(additions + 1), Some(6 * SECOND_US));
        assert_eq!(recent.changed_since(additions + 3), None);
    }

    #[test]
    fn causes_and_latencies_are_kept_with_what_describes_them() {
        use dbtime_model::{CauseKind, CauseLink};
        let mut recent = Recent::new(meta(0), 300);
        let link = CauseLink {
            session: SessionId(2),
            statement: 8,
            session_state: SessionState::default(),
            wait_class: "".into(),
            wait_event: "".into(),
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
        };
        let latency = |second: i64| LatencyRow {
            time: second * SECOND_US,
            count: 1,
            ..LatencyRow::default()
        };
        recent.add(
            meta(6),
            Rows {
                activity: vec![activity(5, 1, NO_STACK)],
                causes: vec![CauseRow {
                    time: 5 * SECOND_US,
                    session: SessionId(1),
                    statement: 7,
                    wait_class: "IO".into(),
                    wait_event: "DataFileRead".into(),
                    state: State::Disk,
                    kind: CauseKind::Session,
                    chain: vec![link],
                    samples: 1,
                }],
                latency: vec![latency(5)],
                sessions: vec![session(1), session(2)],
                ..Rows::default()
            },
        );
        let rows = recent.rows();
        assert_eq!(
            (rows.causes.len(), rows.latency.len(), rows.sessions.len()),
            (1, 1, 2)
        );
        let (mut causes, mut latencies) = (0, 0);
        let source = recent.source(0, i64::MAX, MoreTables::default());
        source.causes(|_| causes += 1);
        source.latency(|_| latencies += 1);
        assert_eq!((causes, latencies), (0, 0));
        // Causes are found later than the waits they explain; latencies are not.
        let source = recent.source(0, 5 * SECOND_US, MoreTables::ALL);
        source.causes(|_| causes += 1);
        source.latency(|_| latencies += 1);
        source.activity(|row| panic!("{row:?}"));
        assert_eq!((causes, latencies), (1, 0));
        // If there are too many latencies, only the oldest ones go.
        recent.add(
            meta(8),
            Rows {
                latency: vec![latency(7); MOST_LATENCIES],
                ..Rows::default()
            },
        );
        assert_eq!(recent.latencies_since_us(), Some(6 * SECOND_US));
        recent.add(
            meta(8),
            Rows {
                latency: vec![latency(5)],
                ..Rows::default()
            },
        );
        let rows = recent.rows();
        assert_eq!((rows.activity.len(), rows.latency.len()), (1, MOST_LATENCIES));
        assert!(!recent.is_cut());
    }

    #[test]
    fn of_a_second_that_was_forgotten_no_part_comes_back() {
        let mut recent = Recent::new(meta(0), 2);
        for second in [1, 2, 3, 1] {
            recent.add(
                meta(4),
                Rows {
                    activity: vec![activity(second, 1, NO_STACK)],
                    ..Rows::default()
                },
            );
        }
        assert_eq!(recent.oldest_us(), Some(2 * SECOND_US));
        assert_eq!(recent.rows().activity.len(), 2);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut recent = Recent::new(meta(0), i64::MAX);
        for second in 0..20 {
            let deep = stack(MOST_FRAMES / 10, &format!("f{second}_"));
            recent.add(
                meta(second),
                Rows {
                    activity: vec![activity(second, second as u64, deep.id); MOST_ROWS / 100],
                    stacks: vec![deep],
                    sessions: (0..2_000).map(|n| session(second as u64 * 2_000 + n)).collect(),
                    ..Rows::default()
                },
            );
            assert!(recent.rows <= MOST_ROWS && recent.described.depth_of_stacks() <= MOST_FRAMES);
            assert!(recent.described.most_entities() <= MOST_OTHERS);
        }
        assert_eq!(recent.newest_us(), Some(19 * SECOND_US));
        assert!(
            !recent
                .source(19 * SECOND_US, 20 * SECOND_US, MoreTables::default())
                .dimensions()
                .has_pid(1)
        );
        for second in 20..30 {
            recent.add(
                meta(second),
                Rows {
                    activity: vec![activity(second, 1, NO_STACK); MOST_ROWS / 4],
                    ..Rows::default()
                },
            );
            assert!(recent.rows <= MOST_ROWS);
        }
        assert_eq!(recent.oldest_us(), Some(26 * SECOND_US));
        assert!(recent.is_cut());
    }
}
