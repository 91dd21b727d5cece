//! Rows as they come, added up by snapshot. What is told apart in them has a bound.

use std::collections::{BTreeMap, HashMap, HashSet};

use dbtime_model::{
    ActivityRow, NO_STACK, OneWindow, Rows, SessionId, SessionRow, StackId, StackRow, StatementRow, Timed,
};

/// Sums that are kept at a time: some 300 MB.
const MOST_SUMS: usize = 1_000_000;
/// Sessions that are kept at a time: some 50 MB.
const MOST_SESSIONS: usize = 100_000;
/// Statements whose texts are kept.
const MOST_STATEMENTS: usize = 20_000;
/// Stacks that are kept: some 200 MB where each is as deep as can be.
const MOST_STACKS: usize = 20_000;

/// See the module. A snapshot follows the other without a gap.
pub(super) struct Windows {
    /// Of the first snapshot.
    first_us: i64,
    /// Of the next snapshot.
    begin_us: i64,
    length_us: i64,
    /// What comes after belongs to none.
    end_us: i64,
    /// By their begin.
    open: BTreeMap<i64, OneWindow>,
    sessions: HashMap<SessionId, SessionRow>,
    statements: HashMap<u64, StatementRow>,
    /// None: not even those of held locks are wanted.
    stacks: Option<HashMap<StackId, StackRow>>,
    late_ns: u128,
    is_late: bool,
    is_full: bool,
}

impl Windows {
    /// `with_stacks`: stacks of held locks are kept.
    pub(super) fn new(begin_us: i64, length_us: i64, with_stacks: bool) -> Windows {
        Windows {
            first_us: begin_us,
            begin_us,
            length_us,
            end_us: i64::MAX,
            open: BTreeMap::new(),
            sessions: HashMap::new(),
            statements: HashMap::new(),
            stacks: with_stacks.then(HashMap::new),
            late_ns: 0,
            is_late: false,
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

    /// The last snapshot ends at this moment (microseconds since the Unix epoch), which has not come yet, if not before.
    pub(super) fn end_at(&mut self, end_us: i64) {
        self.end_us = self.end_us.min(end_us).max(self.begin_us);
    }

    /// True when there is no snapshot left.
    pub(super) fn are_over(&self) -> bool {
        self.begin_us >= self.end_us
    }

    /// Takes rows as they were recorded.
    pub(super) fn add(&mut self, rows: Rows) {
        for row in rows.sessions {
            if self.sessions.len() < MOST_SESSIONS || self.sessions.contains_key(&row.id) {
                self.sessions.insert(row.id, row);
            } else {
                self.is_full = true;
            }
        }
        for row in rows.statements {
            let known = self.statements.get(&row.id);
            // One whose text could not be read at first comes again with it.
            let has_more = known.is_none_or(|known| known.text.is_empty());
            if has_more && (known.is_some() || self.statements.len() < MOST_STATEMENTS) {
                self.statements.insert(row.id, row);
            }
        }
        let shown = self.first_us..self.begin_us;
        for row in &rows.activity {
            if shown.contains(&row.time) {
                self.late_ns += u128::from(row.ns);
                self.is_late = true;
            }
        }
        self.is_late |= rows.counters.iter().any(|row| shown.contains(&row.time))
            || rows.latency.iter().any(|row| shown.contains(&row.time))
            || rows.held_locks.iter().any(|row| shown.contains(&row.time));
        let mut parts: BTreeMap<i64, Rows> = BTreeMap::new();
        if let Some(stacks) = &mut self.stacks {
            for row in rows.stacks {
                if stacks.len() < MOST_STACKS {
                    stacks.insert(row.id, row);
                }
            }
        }
        // Nobody asks for the stacks of all time here, and without them there is little to tell apart.
        let activity = rows.activity.into_iter().map(|row| ActivityRow {
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            ..row
        });
        self.divide(activity, &mut parts, |rows| &mut rows.activity);
        self.divide(rows.counters, &mut parts, |rows| &mut rows.counters);
        self.divide(rows.latency, &mut parts, |rows| &mut rows.latency);
        let held_locks = rows.held_locks.into_iter().map(|mut row| {
            row.kernel_stack = NO_STACK;
            if self.stacks.is_none() {
                row.user_stack = NO_STACK;
            }
            row
        });
        self.divide(held_locks, &mut parts, |rows| &mut rows.held_locks);
        for (begin, rows) in parts {
            let kept: usize = self.open.values().map(OneWindow::len).sum();
            let window = self.open.entry(begin).or_default();
            let room = MOST_SUMS.saturating_sub(kept) + window.len();
            self.is_full |= !window.add(rows, room);
        }
    }

    /// The next snapshot: its begin and end (microseconds since the Unix epoch) and its rows. `live`: the sessions that there are now.
    pub(super) fn next(&mut self, live: &HashSet<SessionId>) -> (i64, i64, Rows) {
        let from_us = self.begin_us;
        let to_us = self.next_end_us();
        self.begin_us = to_us;
        let window = self.open.remove(&from_us).unwrap_or_default();
        let has: HashSet<SessionId> = window.sessions().collect();
        let mut rows = window.finish();
        rows.sessions.extend(
            self.sessions
                .values()
                .filter(|row| has.contains(&row.id))
                .cloned(),
        );
        rows.statements.extend(self.statements.values().cloned());
        rows.stacks
            .extend(self.stacks.iter().flat_map(HashMap::values).cloned());
        let needed: HashSet<SessionId> = self.open.values().flat_map(OneWindow::sessions).collect();
        self.sessions
            .retain(|id, _| live.contains(id) || needed.contains(id));
        (from_us, to_us, rows)
    }

    /// Rows of seconds of which no snapshot is wanted are left out.
    fn divide<R: Timed>(
        &self,
        rows: impl IntoIterator<Item = R>,
        parts: &mut BTreeMap<i64, Rows>,
        table: fn(&mut Rows) -> &mut Vec<R>,
    ) {
        for mut row in rows {
            let since = row.time() - self.begin_us;
            if since >= 0 && row.time() < self.end_us {
                let begin = self.begin_us + since / self.length_us * self.length_us;
                row.set_time(begin);
                table(parts.entry(begin).or_default()).push(row);
            }
        }
    }
}
