//! What the server itself counted of single statements: executions, rows and time.
//!
//! It counts for the whole server, so that nothing is known of it where sessions, waits or states are chosen. Statements that ran
//! inside of others are left out: the others have their time.

use std::collections::HashMap;

use dbtime_model::counter::{self, statement_counts as names};
use dbtime_model::{CounterRow, SessionId};
use serde::Serialize;

use crate::filter::Filter;

/// Of one statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CountedStatement {
    /// Executions that ended.
    pub calls: u128,
    /// Rows that they returned or changed.
    pub rows: u128,
    /// How long they took, nanoseconds.
    pub execution_ns: u128,
}

impl CountedStatement {
    /// How long one of them took, nanoseconds; none where none ended.
    pub fn average_ns(&self) -> Option<u128> {
        self.execution_ns.checked_div(self.calls)
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementCounts {
    by_statement: HashMap<u64, CountedStatement>,
    evictions: i64,
    resets: i64,
}

impl StatementCounts {
    /// Adds what is about statements, and what the filter does not leave out.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, filter: &Filter) {
        let is_of_server = row.source == counter::SERVER_STATISTICS && row.session == SessionId::RECORDER;
        let is_whole = filter.takes_all_sessions() && filter.waits.is_empty() && filter.states.is_empty();
        if !is_of_server || !is_whole || !filter.takes_time(row.time) {
            return;
        }
        match row.name.as_str() {
            names::EVICTIONS => self.evictions = self.evictions.saturating_add(row.value),
            names::RESETS => self.resets = self.resets.saturating_add(row.value),
            name @ (names::CALLS | names::ROWS | names::EXECUTION_NS) => {
                let of = self.by_statement.entry(row.statement).or_default();
                let sum = match name {
                    names::CALLS => &mut of.calls,
                    names::ROWS => &mut of.rows,
                    _ => &mut of.execution_ns,
                };
                *sum += u128::from(row.value.max(0).unsigned_abs());
            }
            _ => {}
        }
    }

    /// What is known of this statement.
    pub fn of(&self, statement: u64) -> Option<CountedStatement> {
        self.by_statement
            .get(&statement)
            .copied()
            .filter(|_| statement != 0)
    }

    /// Of all statements.
    pub fn all(&self) -> CountedStatement {
        let mut all = CountedStatement::default();
        for of in self.by_statement.values() {
            all.calls += of.calls;
            all.rows += of.rows;
            all.execution_ns += of.execution_ns;
        }
        all
    }

    /// Of `all`, what is not known by statement: of those with less time than others, and of those that the user who asked may not see.
    pub fn of_unknown(&self) -> CountedStatement {
        self.by_statement.get(&0).copied().unwrap_or_default()
    }

    /// Nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.by_statement.is_empty()
    }

    /// Some of it is missing, or not known by statement: what is known of a statement is the least that there was.
    pub fn are_at_least(&self) -> bool {
        self.evictions > 0 || self.resets > 0 || self.of_unknown().calls > 0
    }

    /// How often statements were thrown out to make room for others.
    pub fn evictions(&self) -> i64 {
        self.evictions
    }

    /// How often counting began anew.
    pub fn resets(&self) -> i64 {
        self.resets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(statement: u64, name: &str, value: i64) -> CounterRow {
        CounterRow {
            statement,
            source: counter::SERVER_STATISTICS.to_string(),
            name: name.to_string(),
            value,
            ..CounterRow::default()
        }
    }

    #[test]
    fn what_ran_inside_of_others_and_what_is_of_chosen_sessions_is_left_out() {
        let mut counts = StatementCounts::default();
        let rows = [
            row(7, names::CALLS, 3),
            row(7, names::CALLS, 2),
            row(7, names::EXECUTION_NS, 500),
            row(7, "pg_stat_statements.nested.calls", 100),
            row(0, "pg_stat_wal.wal_records", 9),
        ];
        let add = |counts: &mut StatementCounts, filter: &Filter| {
            rows.iter().for_each(|row| counts.add_counter(row, filter));
        };
        let chosen = Filter {
            sessions: vec![4711],
            ..Filter::default()
        };
        add(&mut counts, &chosen);
        assert!(counts.is_empty());
        add(&mut counts, &Filter::default());
        let of = counts.of(7).expect("it was counted");
        assert_eq!((of.calls, of.rows, of.average_ns()), (5, 0, Some(100)));
        assert!(!counts.are_at_least());
        counts.add_counter(&row(0, names::CALLS, 1), &Filter::default());
        assert!(counts.are_at_least() && counts.of(0).is_none());
        assert_eq!(counts.all().calls, 6);
    }
}
