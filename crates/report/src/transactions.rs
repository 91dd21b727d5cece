//! How many transactions client sessions ended, and whether they are counted well enough to divide by them.
//!
//! Those of PostgreSQL are read from the memory of its sessions: what a session did before the first read is not known, and of one that
//! lived for less than a second a good part may be before that.

use std::collections::HashMap;

use dbtime_model::{ActivityRow, CounterRow, SessionId, counter};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::filter::Filter;

/// Largest part of DB time without counted transactions (of sessions too short to be read, or before their first read).
const MOST_NOT_COUNTED: f64 = 0.05;
/// For a session that lived for less than this, nanoseconds, a good part may be before its first read.
const TOO_SHORT_NS: u64 = 1_000_000_000;

/// Transactions of a period.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndedTransactions {
    /// How many ended, in commits and rollbacks, those that only read too.
    pub count: u128,
    /// The same per second of elapsed time.
    pub per_second: f64,
    /// DB time per transaction, nanoseconds.
    pub mean_db_time_ns: f64,
}

impl EndedTransactions {
    /// None: not counted, or the filter leaves out a part of what they did. Nanoseconds.
    pub(crate) fn of(
        count: u128,
        filter: &Filter,
        db_time_ns: u128,
        elapsed_ns: u128,
    ) -> Option<EndedTransactions> {
        (count > 0 && filter.chooses_no_time() && elapsed_ns > 0).then(|| EndedTransactions {
            count,
            per_second: count as f64 * 1e9 / elapsed_ns as f64,
            mean_db_time_ns: db_time_ns as f64 / count as f64,
        })
    }
}

/// Takes the counters of foreground sessions, then their DB time.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// How long sessions that began during the recording were in it: for one that was there for less than a second it is not known how
    /// much of it was counted, only in which second counting began.
    lived: HashMap<SessionId, u64>,
    /// The second from which the transactions of a session are counted.
    counted: HashMap<SessionId, i64>,
    /// DB time, nanoseconds.
    all: u128,
    not_counted: HashMap<SessionId, u128>,
    /// Some are read from the memory of sessions.
    pub(crate) are_of_memory: bool,
}

impl Transactions {
    pub(crate) fn add_counter(&mut self, row: &CounterRow) {
        if row.source == counter::KERNEL && row.name == counter::ELAPSED_NS {
            let of = self.lived.entry(row.session).or_default();
            *of = of.saturating_add(row.value.max(0).unsigned_abs());
        }
        if row.name == counter::TRANSACTIONS {
            let is_of_memory = row.source == counter::SESSION_MEMORY;
            self.are_of_memory |= is_of_memory;
            let from = if is_of_memory { row.time } else { i64::MIN };
            let first = self.counted.entry(row.session).or_insert(from);
            *first = from.min(*first);
        }
    }

    /// All counters were taken. `start_us`: of the recording.
    pub(crate) fn settle(&mut self, start_us: i64, dimensions: &mut Dimensions) {
        for (id, from) in &mut self.counted {
            let is_short = *from > i64::MIN && self.lived.get(id).is_some_and(|ns| *ns < TOO_SHORT_NS);
            if is_short && dimensions.session(*id).started_us > start_us {
                *from = i64::MAX;
            }
        }
    }

    /// DB time of a session.
    pub(crate) fn add_activity(&mut self, row: &ActivityRow) {
        self.all += u128::from(row.ns);
        if self.counted.get(&row.session).is_none_or(|from| row.time < *from) {
            *self.not_counted.entry(row.session).or_default() += u128::from(row.ns);
        }
    }

    /// False if too much DB time is of sessions whose transactions were not counted.
    pub(crate) fn are_known(&self, dimensions: &mut Dimensions) -> bool {
        // Parallel workers do their leaders' work; a source that counts for all sessions at once has the recorder's id.
        let not_counted: u128 = self
            .not_counted
            .iter()
            .filter(|(id, _)| dimensions.session(**id).leader_pid == 0)
            .map(|(_, ns)| ns)
            .sum();
        self.counted.is_empty()
            || self.counted.contains_key(&SessionId::RECORDER)
            || not_counted as f64 <= MOST_NOT_COUNTED * self.all as f64
    }
}
