//! Rows as they come, added up by snapshot. The number of distinct sums is bounded.

use std::collections::{BTreeMap, HashSet};

use dbtime_model::recording::Meta;
use dbtime_model::{ActivityRow, CounterRow, NO_STACK, OneWindow, Rows, SessionId, Timed, comment};
use dbtime_report::{Dimensions, is_for_latch};

/// Most sums kept at a time: some 300 MB.
const MOST_SUMS: usize = 1_000_000;
/// Most sessions kept at a time: some 50 MB.
const MOST_SESSIONS: usize = 100_000;
/// Most statements whose texts are kept.
const MOST_STATEMENTS: usize = 20_000;
/// Most stacks kept: some 200 MB if each is as deep as possible.
const MOST_STACKS: usize = 20_000;

/// See the module. Snapshots follow each other without a gap.
pub(super) struct Windows {
    /// Begin of the first snapshot.
    first_us: i64,
    /// Begin of the next snapshot.
    begin_us: i64,
    length_us: i64,
    /// What comes after this belongs to no snapshot.
    end_us: i64,
    /// By their begin.
    open: BTreeMap<i64, OneWindow>,
    /// What the rows refer to. Snapshots share it.
    described: Dimensions,
    kept: Kept,
    keeps_stacks: bool,
    /// Of the server.
    host: String,
    data_directory: String,
    late_ns: u128,
    is_late: bool,
    without_room_ns: u128,
    is_full: bool,
}

/// What to do with rows whose snapshot has been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// They belong to none: each snapshot covers its own time.
    IsLeftOut,
    /// They belong to the next one: what matters is the sum of all.
    IsInTheNext,
}

/// What is kept of rows besides their sums.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// Statements.
    pub statements: bool,
    /// Which counters.
    pub counters: fn(&CounterRow) -> bool,
    /// Rows whose snapshot has been shown.
    pub late: Late,
}

impl Windows {
    /// `stacks`: those of held locks, and of waits for them, are kept.
    pub(super) fn new(begin_us: i64, length_us: i64, kept: Kept, stacks: bool, meta: &Meta) -> Windows {
        Windows {
            first_us: begin_us,
            begin_us,
            length_us,
            end_us: i64::MAX,
            open: BTreeMap::new(),
            described: Dimensions::default(),
            kept,
            keeps_stacks: stacks,
            host: meta.host.name.clone(),
            data_directory: meta.database.data_directory.clone(),
            late_ns: 0,
            is_late: false,
            without_room_ns: 0,
            is_full: false,
        }
    }

    /// The begin of the next snapshot, microseconds since the Unix epoch.
    pub(super) fn begin_us(&self) -> i64 {
        self.begin_us
    }

    /// Time that came too late for its snapshot, nanoseconds; none: nothing did.
    pub(super) fn late_ns(&self) -> Option<u128> {
        self.is_late.then_some(self.late_ns)
    }

    /// Time that is in no snapshot, nanoseconds: it came too late, or there was no room.
    pub(super) fn missing_ns(&self) -> u128 {
        self.late_ns + self.without_room_ns
    }

    /// True when there were more sums than are kept.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// The end of the next snapshot, microseconds since the Unix epoch.
    pub(super) fn next_end_us(&self) -> i64 {
        self.begin_us.saturating_add(self.length_us).min(self.end_us)
    }

    /// The end of the last one.
    pub(super) fn end_us(&self) -> i64 {
        self.end_us
    }

    /// The last snapshot ends at this moment (microseconds since the Unix epoch, in the future), if not before.
    pub(super) fn end_at(&mut self, end_us: i64) {
        self.end_us = self.end_us.min(end_us).max(self.begin_us);
    }

    /// True when there is no snapshot left.
    pub(super) fn are_over(&self) -> bool {
        self.begin_us >= self.end_us
    }

    /// Takes rows as they were recorded.
    pub(super) fn add(&mut self, mut rows: Rows) {
        self.describe(&mut rows);
        // Nothing is late as long as there is a next snapshot to take it.
        let shown = match self.kept.late {
            Late::IsInTheNext if !self.are_over() => 0..0,
            _ => self.first_us..self.begin_us,
        };
        for row in &rows.activity {
            if shown.contains(&row.time) {
                self.late_ns += u128::from(row.ns);
                self.is_late = true;
            }
        }
        self.is_late |= rows.counters.iter().any(|row| shown.contains(&row.time))
            || rows.latency.iter().any(|row| shown.contains(&row.time))
            || rows.held_locks.iter().any(|row| shown.contains(&row.time))
            || rows.locks.iter().any(|row| shown.contains(&row.time));
        let mut parts: BTreeMap<i64, Rows> = BTreeMap::new();
        // Nobody asks here for the stacks of all time, nor for requests, and without them there are few distinct rows. Waits for an
        // internal lock are shown with the code that wants it.
        let keeps_stacks = self.keeps_stacks;
        let activity = rows.activity.into_iter().map(|row| ActivityRow {
            kernel_stack: NO_STACK,
            user_stack: match keeps_stacks && is_for_latch(&row.wait()) {
                true => row.user_stack,
                false => NO_STACK,
            },
            comment: comment::NONE,
            ..row
        });
        self.divide(activity, &mut parts, |rows| &mut rows.activity);
        let is_kept = self.kept.counters;
        let counters = rows.counters.into_iter().filter(is_kept);
        self.divide(counters, &mut parts, |rows| &mut rows.counters);
        self.divide(rows.latency, &mut parts, |rows| &mut rows.latency);
        let held_locks = rows.held_locks.into_iter().map(|mut row| {
            row.kernel_stack = NO_STACK;
            if !keeps_stacks {
                row.user_stack = NO_STACK;
            }
            row
        });
        self.divide(held_locks, &mut parts, |rows| &mut rows.held_locks);
        self.divide(rows.locks, &mut parts, |rows| &mut rows.locks);
        for (begin, rows) in parts {
            let kept: usize = self.open.values().map(OneWindow::len).sum();
            let window = self.open.entry(begin).or_default();
            let room = MOST_SUMS.saturating_sub(kept) + window.len();
            let left = window.add(rows, room);
            self.is_full |= !left.is_empty();
            self.without_room_ns += left.activity.iter().map(|row| u128::from(row.ns)).sum::<u128>();
        }
    }

    /// The next snapshot: its begin and end (microseconds since the Unix epoch), its rows and what they refer to. `live`: the sessions
    /// that exist now.
    pub(super) fn next(&mut self, live: impl Iterator<Item = SessionId>) -> (i64, i64, Rows, Dimensions) {
        let from_us = self.begin_us;
        let to_us = self.next_end_us();
        self.begin_us = to_us;
        let window = self.open.remove(&from_us).unwrap_or_default();
        let described = self.described.clone();
        self.forget_ended(live);
        (from_us, to_us, window.finish(), described)
    }

    /// Notes what the rows refer to, as far as it is kept.
    fn describe(&mut self, rows: &mut Rows) {
        let described = &mut self.described;
        for row in std::mem::take(&mut rows.sessions) {
            if described.has_session(row.id) || described.count_sessions() < MOST_SESSIONS {
                described.learn_session(row, &self.host, &self.data_directory);
            } else {
                self.is_full = true;
            }
        }
        for row in rows.statements.iter().filter(|_| self.kept.statements) {
            if described.statement_row(row.id).is_some() || described.count_statements() < MOST_STATEMENTS {
                described.learn_statement(row);
            }
        }
        for row in rows.stacks.iter().filter(|_| self.keeps_stacks) {
            if described.count_stacks() < MOST_STACKS {
                described.learn_stack(row);
            }
        }
    }

    fn forget_ended(&mut self, live: impl Iterator<Item = SessionId>) {
        let needed = self.open.values().flat_map(OneWindow::sessions);
        let needed: HashSet<SessionId> = needed.chain(live).collect();
        self.described.retain_sessions(|id| needed.contains(&id));
    }

    /// Divides rows among snapshots; rows of seconds that no snapshot covers are left out.
    fn divide<R: Timed>(
        &self,
        rows: impl IntoIterator<Item = R>,
        parts: &mut BTreeMap<i64, Rows>,
        table: fn(&mut Rows) -> &mut Vec<R>,
    ) {
        for mut row in rows {
            if self.kept.late == Late::IsInTheNext && (self.first_us..self.begin_us).contains(&row.time()) {
                row.set_time(self.begin_us);
            }
            let since = row.time() - self.begin_us;
            if since >= 0 && row.time() < self.end_us {
                let begin = self.begin_us + since / self.length_us * self.length_us;
                row.set_time(begin);
                table(parts.entry(begin).or_default()).push(row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::{Fidelity, SessionState, State, StatementRow};

    use super::*;

    const SECOND_US: i64 = 1_000_000;

    fn second(second: i64, ns: u64) -> Rows {
        let row = ActivityRow {
            time: second * SECOND_US,
            session: SessionId(1),
            statement: 7,
            plan: 0,
            session_state: SessionState::Active,
            wait_class: "CPU".into(),
            wait_event: "CPU".into(),
            idle: false,
            state: State::User,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns,
            count: 0,
            samples: 1,
            fidelity: Fidelity::Sampled,
            pooled: false,
        };
        Rows {
            activity: vec![row],
            statements: vec![StatementRow {
                id: 7,
                ..StatementRow::default()
            }],
            ..Rows::default()
        }
    }

    /// Contents of the next snapshot: its begin in seconds, its time, its number of statements.
    fn next(windows: &mut Windows) -> (i64, u64, usize) {
        let (from_us, _, rows, described) = windows.next(std::iter::empty());
        let ns = rows.activity.iter().map(|row| row.ns).sum();
        (from_us / SECOND_US, ns, described.count_statements())
    }

    fn windows(late: Late) -> Windows {
        let kept = Kept {
            statements: late == Late::IsLeftOut,
            counters: |_| true,
            late,
        };
        let mut windows = Windows::new(10 * SECOND_US, SECOND_US, kept, false, &Meta::default());
        windows.end_at(13 * SECOND_US);
        // Time before the first snapshot is not wanted.
        windows.add(second(9, 100));
        windows.add(second(10, 1));
        windows
    }

    #[test]
    fn what_is_late_is_in_the_next_one_where_the_sum_matters() {
        let mut windows = windows(Late::IsInTheNext);
        assert_eq!(next(&mut windows), (10, 1, 0));
        windows.add(second(10, 2));
        windows.add(second(11, 4));
        windows.add(second(12, 8));
        assert_eq!(next(&mut windows), (11, 6, 0));
        windows.add(second(10, 16));
        windows.add(second(9, 100));
        assert_eq!(next(&mut windows), (12, 24, 0));
        assert_eq!((windows.late_ns(), windows.missing_ns()), (None, 0));
        // There is no next snapshot.
        windows.add(second(11, 32));
        windows.add(second(13, 100));
        assert_eq!((windows.late_ns(), windows.missing_ns()), (Some(32), 32));
    }

    #[test]
    fn the_last_text_of_a_statement_counts() {
        let mut windows = windows(Late::IsLeftOut);
        for text in ["[one of these] a; b", "b", ""] {
            let mut rows = second(10, 1);
            rows.statements[0].text = text.to_string();
            windows.add(rows);
        }
        let (.., described) = windows.next(std::iter::empty());
        assert_eq!(described.statement(7), Some("b"));
    }

    #[test]
    fn what_is_late_is_in_no_other_snapshot() {
        let mut windows = windows(Late::IsLeftOut);
        assert_eq!(next(&mut windows), (10, 1, 1));
        windows.add(second(10, 2));
        windows.add(second(11, 4));
        assert_eq!(next(&mut windows), (11, 4, 1));
        assert_eq!((windows.late_ns(), windows.missing_ns()), (Some(2), 2));
    }
}
