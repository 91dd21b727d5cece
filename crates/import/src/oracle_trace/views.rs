//! What the classic trace tools break time down into, by their own rules.

/// parsetrc.pl: elapsed and CPU of PARSE, EXEC and FETCH of cursors whose latest `PARSING IN CURSOR` line says
/// depth 0 or that have none; waits of every depth; idle is `SQL*Net message from client` and nothing else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallView {
    /// Sum of `e`, microseconds.
    pub(super) elapsed_us: i64,
    /// Sum of `c`, microseconds.
    pub cpu_us: i64,
    /// Sum of `ela` of every wait that is not idle, microseconds.
    pub wait_us: i64,
    /// Sum of `ela` of `SQL*Net message from client`, microseconds.
    pub idle_us: i64,
}

/// TVD$XTAT: from the begin of the first call to the last `tim`; CPU of all calls of depth 0; all waits, idle ones
/// included. A LOB call, which says no depth, counts as depth 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IntervalView {
    /// `tim` − `e` of the first call, microseconds; none before there was one.
    pub begin_us: Option<i64>,
    /// The last `tim`, microseconds.
    pub end_us: Option<i64>,
    /// Sum of `c`, microseconds.
    pub cpu_us: i64,
    /// Sum of `ela`, microseconds.
    pub wait_us: i64,
}

impl IntervalView {
    /// End − begin, microseconds; 0 in a trace without calls.
    pub(super) fn duration_us(&self) -> i64 {
        match (self.begin_us, self.end_us) {
            (Some(begin), Some(end)) => end.saturating_sub(begin),
            _ => 0,
        }
    }

    /// Duration − (CPU + waits), microseconds. Below zero when CPU was counted inside waits too.
    pub(super) fn unaccounted_us(&self) -> i64 {
        self.duration_us()
            .saturating_sub(self.cpu_us.saturating_add(self.wait_us))
    }
}

/// Microseconds as they are added up here.
pub(super) fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}
