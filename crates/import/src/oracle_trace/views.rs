//! How the classic trace tools break down time, by their own rules.

use super::elapsed::Added;

/// As parsetrc.pl: elapsed and CPU of PARSE, EXEC and FETCH of outermost calls; waits of every depth; idle is `SQL*Net message from client`
/// and nothing else. Negative if calls turned out to hold what was reported before.
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
    /// Of the waits that are not idle, the part in none of these calls, microseconds.
    pub wait_outside_us: i64,
}

impl CallView {
    #[inline]
    pub(super) fn call(&mut self, added: &Added) {
        self.elapsed_us = self.elapsed_us.saturating_add(added.elapsed);
        self.cpu_us = self.cpu_us.saturating_add(added.cpu);
        self.wait_outside_us = self.wait_outside_us.saturating_sub(added.waits);
    }
}

/// TVD$XTAT: from the earliest start of a call or wait to the last `tim`; CPU of all outermost calls but CLOSE; all waits, idle ones
/// included. A LOB call, which has no depth, counts like any other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IntervalView {
    /// The least `tim` − `e` and `tim` − `ela`, microseconds; none before there was a call or a wait.
    pub begin_us: Option<i64>,
    /// The last `tim`, microseconds.
    pub end_us: Option<i64>,
    /// Sum of `c`, microseconds.
    pub cpu_us: i64,
    /// Sum of `ela`, microseconds.
    pub wait_us: i64,
}

impl IntervalView {
    /// A line has a `tim`, microseconds.
    #[inline]
    pub(super) fn tick(&mut self, tim: u64) {
        self.end_us = self.end_us.max(Some(signed(tim)));
    }

    /// Something that ended at `tim` took `us` microseconds.
    #[inline]
    pub(super) fn began(&mut self, tim: u64, us: u64) {
        let begin = signed(tim).saturating_sub(signed(us));
        self.begin_us = Some(self.begin_us.map_or(begin, |earliest| earliest.min(begin)));
    }

    /// Another session of the same file.
    pub(super) fn add(&mut self, other: &IntervalView) {
        self.begin_us = self.begin_us.into_iter().chain(other.begin_us).min();
        self.end_us = self.end_us.max(other.end_us);
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.wait_us = self.wait_us.saturating_add(other.wait_us);
    }

    /// End − begin, microseconds; 0 in a trace without calls and waits that say when they ended.
    pub(super) fn duration_us(&self) -> i64 {
        match (self.begin_us, self.end_us) {
            (Some(begin), Some(end)) => end.saturating_sub(begin),
            _ => 0,
        }
    }

    /// Duration − (CPU + waits), microseconds. May be below zero.
    pub(super) fn unaccounted_us(&self) -> i64 {
        self.duration_us()
            .saturating_sub(self.cpu_us.saturating_add(self.wait_us))
    }
}

/// Microseconds as they are added up here.
#[inline]
pub(super) fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}
