//! How the tables of a recording are stored: in which file a row is, and where in it.

use dbtime_model::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, SessionRow, SpanRow,
    StackRow, StatementRow, SwitchRow, Table, Timed,
};

use crate::text::Text;

/// A row that has a time.
pub(crate) trait Fact: Table + Text {
    /// Microseconds since the Unix epoch.
    fn moment_us(&self) -> i64;

    /// Sorts rows of an hour into the order in which they are stored.
    fn order(rows: &mut [Self])
    where
        Self: Sized;
}

/// By time, within a second by session: as a rule, readers skip periods.
macro_rules! by_second {
    ($($row:ty),+) => {$(
        impl Fact for $row {
            fn moment_us(&self) -> i64 {
                self.time()
            }

            fn order(rows: &mut [$row]) {
                rows.sort_by_key(|row| (row.time(), row.session()));
            }
        }
    )+};
}

by_second!(
    ActivityRow,
    LatencyRow,
    CounterRow,
    CauseRow,
    HeldLockRow,
    LockRow
);

/// Kept in the order of events, which has a meaning.
impl Fact for SpanRow {
    fn moment_us(&self) -> i64 {
        self.start_ns.div_euclid(1_000)
    }

    fn order(_: &mut [SpanRow]) {}
}

impl Fact for SwitchRow {
    fn moment_us(&self) -> i64 {
        self.time_ns.div_euclid(1_000)
    }

    fn order(_: &mut [SwitchRow]) {}
}

/// A row that says what an id stands for, once for each id.
pub(crate) trait Dimension: Table + Text + Clone {
    fn id(&self) -> u64;

    /// Merges another row of the same id, as a report would.
    fn learn(&mut self, other: Self);
}

impl Dimension for SessionRow {
    fn id(&self) -> u64 {
        self.id.0
    }

    fn learn(&mut self, other: SessionRow) {
        *self = other;
    }
}

impl Dimension for StatementRow {
    fn id(&self) -> u64 {
        self.id
    }

    fn learn(&mut self, other: StatementRow) {
        if self.text.is_empty() || !other.text.is_empty() {
            *self = other;
        }
    }
}

impl Dimension for CommentRow {
    fn id(&self) -> u64 {
        self.id
    }

    fn learn(&mut self, _: CommentRow) {
        // Equal ids are equal values.
    }
}

impl Dimension for StackRow {
    fn id(&self) -> u64 {
        self.id.0
    }

    fn learn(&mut self, _: StackRow) {
        // Equal ids are equal frames.
    }
}
