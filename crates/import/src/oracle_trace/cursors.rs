//! Cursors of a session: which statement a cursor number stands for, and which plan it runs.

use super::binds::SetOf;
use super::dense::Dense;
use super::events::EventId;
use super::statements::{CallSums, PlanKey};

/// All cursors of a session by their numbers.
pub(super) type Cursors = Dense<u64, Cursor>;

/// The latest `PARSING IN CURSOR` of a cursor number. Numbers are reused.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// 0 = never parsed in the trace.
    pub statement: u64,
    pub dep: u32,
    /// The plan it ran last; 0 = none, or not told.
    pub plan: u64,
    /// The values of the bind variables of its execution, see [`super::binds::BoundExecutions`].
    pub bind_set: Option<SetOf>,
    /// Calls and waits of which it is not known yet with which plan they were made.
    pub pending: Pending,
    pub places: Places,
}

/// Where the sums of a cursor's statement were found last: with some cursors in turn, as of an application, it saves the look-ups.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    pub statement: usize,
    pub own: usize,
    /// By a part of the number of the event.
    waits: [usize; 4],
}

impl Places {
    #[inline]
    pub(super) fn wait(&mut self, event: EventId) -> &mut usize {
        &mut self.waits[event.number() % 4]
    }
}

/// What waits for the plan that its cursor runs next: waits, and parses that say no plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Something was added, if only nothing: most calls have nothing to settle.
    pub is_touched: bool,
    pub parse: CallSums,
    pub own_elapsed_us: i64,
    pub own_cpu_us: i64,
    pub wait_us: u64,
    pub idle_us: u64,
    pub assumed_wait_us: u64,
}

impl Cursor {
    /// The cursor waited; `is_idle`: for the client's next message.
    #[inline]
    pub(super) fn waited(&mut self, us: u64, is_idle: bool) {
        let pending = &mut self.pending;
        pending.is_touched = true;
        let sum = if is_idle {
            &mut pending.idle_us
        } else {
            &mut pending.wait_us
        };
        *sum = sum.saturating_add(us);
    }

    /// The plan that the cursor ran last, and what is pending for it; none when nothing is.
    pub(super) fn settle(&mut self) -> Option<(PlanKey, Pending)> {
        if !self.pending.is_touched {
            return None;
        }
        let pending = Pending {
            is_touched: false,
            ..std::mem::take(&mut self.pending)
        };
        (pending != Pending::default()).then_some(((self.statement, self.plan), pending))
    }
}
