//! The wait events of reads in the ledger: a wait starts before its call and ends after it.

use dbtime_model::{StateGroup, Wait, WaitKind};

use crate::ledger::Section;
use crate::scan::Activity;

/// What the ledger has for the wait events in which reads were made, including anything else done in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadWaits {
    /// DB time in these events, nanoseconds.
    pub db_time_ns: u128,
    /// Of that, in the run queue.
    pub run_queue_ns: u128,
    /// Reads in these events, nanoseconds.
    pub reads_ns: u128,
}

impl ReadWaits {
    /// Adds reads in a wait event, or in none.
    pub(super) fn add_reads(&mut self, event: &str, ns: u128) {
        if event != Wait::NONE && !event.starts_with(Wait::UNKNOWN) {
            self.reads_ns += ns;
        }
    }

    /// `is_of_reads`: whether there were reads in this wait event.
    pub(super) fn add(&mut self, activity: &Activity<'_>, is_of_reads: impl Fn(&str) -> bool) {
        if activity.section != Section::DbTime
            || activity.wait.kind() != WaitKind::Event
            || !is_of_reads(&activity.wait.to_string())
        {
            return;
        }
        let ns = u128::from(activity.row.ns);
        self.db_time_ns += ns;
        if activity.row.state.group() == Some(StateGroup::RunQueue) {
            self.run_queue_ns += ns;
        }
    }

    /// Time in these events before and after reads, nanoseconds; none if samples have less than the reads took.
    pub fn beside_ns(&self) -> Option<u128> {
        self.db_time_ns.checked_sub(self.reads_ns)
    }
}
