//! The ledger: elapsed time by wait event (or any other dimensions) and by operating-system state.
//!
//! Time is conserved: every nanosecond of the rows that went in is in exactly one row of exactly one section.

use std::cmp::Reverse;

use dbtime_model::{BackendType, State, Wait};

use crate::alike_statements::AlikeStatements;
use crate::causes::ByCause;
use crate::dimensions::Dimensions;
use crate::fast_map::FastMap;
use crate::group::{Dimension, GroupKey, not_recorded};
use crate::load::Source;
use crate::scan::Activity;
use crate::sums::Sums;

/// Whether time is part of DB time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Foreground sessions, outside of idle waits, and in the run queue inside of them: what users wait for.
    DbTime,
    /// Foreground sessions that wait for work.
    Idle,
    /// Processes that work for the server itself, idle or not.
    Background,
}

impl Section {
    /// Every section, in the order of reports.
    pub const ALL: [Section; 3] = [Section::DbTime, Section::Idle, Section::Background];

    /// The section of a session's time in an idle wait or outside of one. A client's session that is ready to run inside an
    /// idle wait has been woken, usually by a command: it has no CPU to run it, and the client waits.
    pub fn of(backend_type: &BackendType, idle: bool, state: State) -> Section {
        match (backend_type.is_foreground(), idle && state != State::Runnable) {
            (true, false) => Section::DbTime,
            (true, true) => Section::Idle,
            (false, _) => Section::Background,
        }
    }

    /// The word used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Section::DbTime => "db_time",
            Section::Idle => "idle",
            Section::Background => "background",
        }
    }
}

/// Whether a session had something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rest {
    /// It had; true for all of DB time.
    None,
    /// It waited for work. All of [`Section::Idle`] is this or the next one.
    Idle,
    /// It waited for its client while its transaction was open: others may have waited for its locks.
    IdleInTransaction,
}

impl Rest {
    pub(crate) fn of(activity: &Activity<'_>) -> Rest {
        match activity.section != Section::DbTime && activity.wait.idle {
            true if activity.row.session_state.is_idle_in_transaction() => Rest::IdleInTransaction,
            true => Rest::Idle,
            false => Rest::None,
        }
    }

    /// True for both kinds.
    pub fn is_idle(self) -> bool {
        self != Rest::None
    }
}

/// Time of one group.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerRow {
    /// Whether it is part of DB time.
    pub section: Section,
    /// Whether the session had something to do.
    pub rest: Rest,
    /// The group: one text for each dimension of [`Ledger::by`].
    pub labels: Vec<String>,
    /// The wait, when time is grouped by wait.
    pub wait: Option<Wait>,
    /// Time per state.
    pub sums: Sums,
}

/// Time per group and state, in three sections.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// What time is grouped by.
    pub by: Vec<Dimension>,
    /// Section by section; within it the largest first, or in order of time when grouped by second.
    pub rows: Vec<LedgerRow>,
    sums: [Sums; Section::ALL.len()],
}

impl Ledger {
    /// Dimensions of [`Ledger::by`] about which the recording says nothing.
    pub fn not_recorded(&self) -> Vec<Dimension> {
        not_recorded(&self.by, self.rows.iter().map(|row| row.labels.as_slice()))
    }

    /// Rows of one section.
    pub fn section(&self, section: Section) -> impl Iterator<Item = &LedgerRow> {
        self.rows.iter().filter(move |row| row.section == section)
    }

    /// Sum of one section.
    pub fn sum(&self, section: Section) -> &Sums {
        &self.sums[section as usize]
    }

    /// Sum of everything.
    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        for sums in &self.sums {
            total.merge(sums);
        }
        total
    }

    /// DB time in nanoseconds: see [`Section::DbTime`].
    pub fn db_time_ns(&self) -> u128 {
        self.sum(Section::DbTime).total_ns()
    }
}

/// Adds rows up to a [`Ledger`].
pub(crate) struct LedgerBuilder {
    by: Vec<Dimension>,
    by_cause: ByCause,
    groups: FastMap<(Section, Rest, GroupKey), Sums>,
}

impl LedgerBuilder {
    pub(crate) fn new(by: &[Dimension], source: &Source, dimensions: &mut Dimensions) -> LedgerBuilder {
        LedgerBuilder {
            by: by.to_vec(),
            by_cause: ByCause::of(source, dimensions, by),
            groups: FastMap::default(),
        }
    }

    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        let LedgerBuilder { by, by_cause, groups } = self;
        by_cause.each(activity, |activity| {
            let key = (activity.section, Rest::of(activity), GroupKey::of(by, activity));
            groups.entry(key).or_default().take(activity);
        });
    }

    /// `alike`: statements that are treated as one.
    pub(crate) fn finish(mut self, alike: &AlikeStatements, dimensions: &mut Dimensions) -> Ledger {
        if !alike.is_none() {
            for ((section, rest, key), sums) in std::mem::take(&mut self.groups) {
                self.groups
                    .entry((section, rest, key.grouped(alike)))
                    .or_default()
                    .merge(&sums);
            }
        }
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.sort_unstable_by(
            |((section, rest, key), sums), ((other_section, other_rest, other_key), other)| {
                section
                    .cmp(other_section)
                    .then_with(|| key.second().cmp(&other_key.second()))
                    .then_with(|| Reverse(sums.total_ns()).cmp(&Reverse(other.total_ns())))
                    .then_with(|| (rest, key).cmp(&(other_rest, other_key)))
            },
        );
        let mut sums: [Sums; Section::ALL.len()] = Default::default();
        let rows = groups
            .into_iter()
            .map(|((section, rest, key), row_sums)| {
                sums[section as usize].merge(&row_sums);
                LedgerRow {
                    section,
                    rest,
                    labels: key.labels(alike, dimensions),
                    wait: key.wait().cloned(),
                    sums: row_sums,
                }
            })
            .collect();
        Ledger {
            by: self.by,
            rows,
            sums,
        }
    }
}
