//! What the tables of a recording are in a store: in which file a row is, and where in it.

use dbtime_model::{
    ActivityRow, CauseRow, CommentRow, CounterRow, HeldLockRow, LatencyRow, LockRow, SessionRow, SpanRow,
    StackRow, StatementRow, SwitchRow, Table, Timed,
};

use crate::text::Text;

/// A row of which a store knows when it was.
pub(crate) trait Fact: Table + Text {
    /// Microseconds since the Unix epoch.
    fn moment_us(&self) -> i64;

    /// Brings rows of an hour into the order in which they are stored.
    fn order(rows: &mut [Self])
    where
        Self: Sized;
}

/// By time, of a second by session: what a reader leaves out is a period, as a rule.
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

/// Their order is that of events, and means something.
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

    /// Takes what another row says of the same id: the one that a report would take.
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
