//! Cursors of a session: which statement a cursor number stands for, and which plan it runs.

use super::statements::{PlanKey, StatementSums};
use crate::samples::Table;

/// The latest `PARSING IN CURSOR` of a cursor number. Numbers are reused.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// 0 = never parsed in the trace.
    pub statement: u64,
    pub dep: u32,
    /// The plan it ran last; 0 = none, or not told.
    pub plan: u64,
    /// The values of the bind variables of its execution, see [`super::binds::BindSets`].
    pub bind_set: Option<usize>,
    /// Calls and waits of which it is not known yet with which plan they were made.
    pub pending: StatementSums,
}

impl Cursor {
    /// Takes what is pending, for the plan that the cursor ran last.
    pub(super) fn settle(&mut self) -> Option<(PlanKey, StatementSums)> {
        let pending = std::mem::take(&mut self.pending);
        (pending != StatementSums::default()).then_some(((self.statement, self.plan), pending))
    }
}

/// All cursors of a session.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    all: Vec<Cursor>,
    by_number: Table<u64, usize>,
    /// The one that was asked for before: neighbours are often alike.
    last: Option<(u64, usize)>,
}

impl Cursors {
    /// The cursor of this number.
    pub(super) fn get(&mut self, number: u64) -> &mut Cursor {
        let at = match self.last {
            Some((last, at)) if last == number => at,
            _ => {
                let all = &mut self.all;
                let at = *self.by_number.entry(number).or_insert_with(|| {
                    all.push(Cursor::default());
                    all.len() - 1
                });
                self.last = Some((number, at));
                at
            }
        };
        &mut self.all[at]
    }

    pub(super) fn all(&mut self) -> &mut [Cursor] {
        &mut self.all
    }
}
