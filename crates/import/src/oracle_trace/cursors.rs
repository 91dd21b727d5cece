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
    /// The plan it ran last; 0 = none, or not given.
    pub plan: u64,
    /// The values of the bind variables of its execution, see [`super::binds::BoundExecutions`].
    pub bind_set: Option<SetOf>,
    /// Calls and waits whose plan is not known yet.
    pub pending: Pending,
    pub places: Places,
}

/// Where the sums of a cursor's statement were last found: saves look-ups if an application uses some cursors in turn.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Places {
    pub statement: usize,
    pub own: usize,
    /// By the number of the event, modulo 4.
    waits: [usize; 4],
}

impl Places {
    #[inline]
    pub(super) fn wait(&mut self, event: EventId) -> &mut usize {
        &mut self.waits[event.number() % 4]
    }
}

/// What waits until its cursor runs a plan: waits, and parses without a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pending {
    /// Something was added, even if it is 0: most calls have nothing to settle.
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

    /// The plan that the cursor ran last, and what is pending for it; none if nothing is.
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
