//! The last seconds of a recording that goes on, or some of one that is played again: rows in memory, by the second.
//!
//! A report asks questions of a [`Source`]. [`Recent::source`] is one of some of these seconds, so what is asked while rows come is what
//! would be asked of the recording. What is kept has a bound, whatever comes.

use std::collections::{BTreeMap, HashMap, HashSet};

use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{
    ActivityRow, CounterRow, NO_STACK, Rows, SessionId, SessionRow, StackId, StackRow, StatementRow,
};

use crate::filter::SECOND_US;
use crate::load::{Source, learn};

/// Rows of activity and counters that are kept: some 100 MB.
const MOST_ROWS: usize = 400_000;
/// Frames of stacks that are kept: some 100 MB.
const MOST_FRAMES: usize = 400_000;
/// Sessions and statements that are kept though no row that is kept has anything of them.
const MOST_OTHERS: usize = 20_000;

/// See the module.
#[derive(Debug)]
pub struct Recent {
    meta: Meta,
    keep_us: i64,
    seconds: BTreeMap<i64, Second>,
    sessions: HashMap<SessionId, SessionRow>,
    stacks: HashMap<StackId, StackRow>,
    statements: HashMap<u64, StatementRow>,
    rows: usize,
    frames: usize,
    is_cut: bool,
}

/// What stands in one second.
#[derive(Debug, Default)]
struct Second {
    activity: Vec<ActivityRow>,
    counters: Vec<CounterRow>,
}

impl Second {
    fn len(&self) -> usize {
        self.activity.len() + self.counters.len()
    }
}

/// What rows of activity are about.
#[derive(Default)]
struct Mentioned {
    sessions: HashSet<SessionId>,
    stacks: HashSet<StackId>,
    statements: HashSet<u64>,
}

impl Mentioned {
    fn of<'a>(seconds: impl Iterator<Item = &'a Second>) -> Mentioned {
        let mut mentioned = Mentioned::default();
        for second in seconds {
            for row in &second.activity {
                mentioned.sessions.insert(row.session);
                mentioned.statements.insert(row.statement);
                mentioned.stacks.insert(row.kernel_stack);
                mentioned.stacks.insert(row.user_stack);
            }
            mentioned
                .sessions
                .extend(second.counters.iter().map(|row| row.session));
        }
        mentioned.stacks.remove(&NO_STACK);
        mentioned
    }
}

impl Recent {
    /// No rows yet. `keep_s`: seconds to keep; fewer are kept when their rows are too many.
    pub fn new(meta: Meta, keep_s: i64) -> Recent {
        Recent {
            meta,
            keep_us: keep_s.saturating_mul(SECOND_US),
            seconds: BTreeMap::new(),
            sessions: HashMap::new(),
            stacks: HashMap::new(),
            statements: HashMap::new(),
            rows: 0,
            frames: 0,
            is_cut: false,
        }
    }

    /// The rows of a source from one moment to another (microseconds since the Unix epoch): the last of them, when they are too many.
    /// The second value is what could not be read.
    pub fn of(source: &Source, from_us: i64, to_us: i64) -> (Recent, Vec<Problem>) {
        let mut recent = Recent::new(source.meta().clone(), i64::MAX);
        let is_meant = |time: i64| (from_us..to_us).contains(&time);
        let mut problems = source.activity(|row| {
            if is_meant(row.time) {
                recent.add_activity(row.clone());
                recent.keep_within_bounds();
            }
        });
        problems.extend(source.counters(|row| {
            if is_meant(row.time) {
                recent.add_counter(row.clone());
                recent.keep_within_bounds();
            }
        }));
        let mentioned = Mentioned::of(recent.seconds.values());
        let (rows, more) = source.rows_of_dimensions(
            |id| mentioned.sessions.contains(&id),
            |id| mentioned.stacks.contains(&id),
            |id| mentioned.statements.contains(&id),
        );
        problems.extend(more);
        recent.add(source.meta().clone(), rows);
        (recent, problems)
    }

    /// Adds rows, and forgets those that are too old. `meta`: what the recording says about itself by now.
    pub fn add(&mut self, meta: Meta, rows: Rows) {
        self.meta = meta;
        rows.activity.into_iter().for_each(|row| self.add_activity(row));
        rows.counters.into_iter().for_each(|row| self.add_counter(row));
        for row in rows.sessions {
            self.sessions.insert(row.id, row);
        }
        for row in &rows.statements {
            learn(&mut self.statements, row);
        }
        for row in rows.stacks {
            self.frames += row.frames.len();
            if let Some(old) = self.stacks.insert(row.id, row) {
                self.frames -= old.frames.len();
            }
        }
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

    /// The rows from one moment to another (microseconds since the Unix epoch), for any question.
    pub fn source(&self, from_us: i64, to_us: i64) -> Source {
        let mut rows = Rows::default();
        if from_us < to_us {
            let seconds = || self.seconds.range(from_us..to_us).map(|(_, second)| second);
            let mentioned = Mentioned::of(seconds());
            for second in seconds() {
                rows.activity.extend_from_slice(&second.activity);
                rows.counters.extend_from_slice(&second.counters);
            }
            rows.sessions = known(&self.sessions, &mentioned.sessions);
            rows.stacks = known(&self.stacks, &mentioned.stacks);
            rows.statements = known(&self.statements, &mentioned.statements);
        }
        Source::memory(self.meta.clone(), rows)
    }

    fn add_activity(&mut self, row: ActivityRow) {
        self.rows += 1;
        self.seconds.entry(row.time).or_default().activity.push(row);
    }

    fn add_counter(&mut self, row: CounterRow) {
        self.rows += 1;
        self.seconds.entry(row.time).or_default().counters.push(row);
    }

    fn drop_oldest(&mut self) {
        if let Some((_, second)) = self.seconds.pop_first() {
            self.rows -= second.len();
        }
    }

    fn keep_within_bounds(&mut self) {
        while self.rows > MOST_ROWS && self.seconds.len() > 1 {
            self.drop_oldest();
            self.is_cut = true;
        }
    }

    /// A stack is described once, and may be met again much later: what no row mentions is kept as long as there is room.
    fn forget_unmentioned(&mut self) {
        if self.frames <= MOST_FRAMES
            && self.sessions.len() <= MOST_OTHERS
            && self.statements.len() <= MOST_OTHERS
        {
            return;
        }
        loop {
            let mentioned = Mentioned::of(self.seconds.values());
            self.sessions.retain(|id, _| mentioned.sessions.contains(id));
            self.statements.retain(|id, _| mentioned.statements.contains(id));
            self.stacks.retain(|id, _| mentioned.stacks.contains(id));
            self.frames = self.stacks.values().map(|stack| stack.frames.len()).sum();
            if self.frames <= MOST_FRAMES || self.seconds.len() <= 1 {
                return;
            }
            self.drop_oldest();
            self.is_cut = true;
        }
    }
}

fn known<I: std::hash::Hash + Eq, T: Clone>(rows: &HashMap<I, T>, ids: &HashSet<I>) -> Vec<T> {
    ids.iter().filter_map(|id| rows.get(id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use dbtime_model::{Fidelity, Frame, SessionState, State, stack_id};

    use super::*;
    use crate::report::{Options, report};

    fn activity(second: i64, session: u64, stack: StackId) -> ActivityRow {
        ActivityRow {
            time: second * SECOND_US,
            session: SessionId(session),
            statement: 7,
            wait_class: "IO".to_string(),
            wait_event: "DataFileRead".to_string(),
            idle: false,
            state: State::Disk,
            session_state: SessionState::default(),
            kernel_stack: NO_STACK,
            user_stack: stack,
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
            backend_type: "client backend".to_string(),
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
        let source = recent.source(990 * SECOND_US, 995 * SECOND_US);
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
            .source(6 * SECOND_US, 8 * SECOND_US)
            .activity(|row| times.push(row.time / SECOND_US));
        assert_eq!(times, [6, 7]);
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
            assert!(recent.rows <= MOST_ROWS && recent.frames <= MOST_FRAMES);
            assert!(recent.sessions.len() <= MOST_OTHERS);
        }
        assert_eq!(recent.newest_us(), Some(19 * SECOND_US));
        assert!(
            !recent
                .source(19 * SECOND_US, 20 * SECOND_US)
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
