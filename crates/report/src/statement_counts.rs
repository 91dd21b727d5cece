//! How often individual statements were executed, and how long that took: as counted by pg_stat_statements, as commands of clients, or
//! from an SQL trace.
//!
//! pg_stat_statements counts for the whole server, so it says nothing about chosen sessions; commands are counted by session
//! (`--exact=calls`). Neither is split by wait or state. Statements that ran inside others are left out: their time is in that of the
//! others.

use std::collections::HashMap;

use dbtime_model::counter::{self, statement_counts as names};
use dbtime_model::latency::kind;
use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{CounterRow, LatencyRow, SessionId};
use serde::Serialize;

use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::load::Source;
use crate::scan::is_foreground;

/// Who counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CountedBy {
    /// pg_stat_statements: executions.
    #[default]
    Server,
    /// The recorder: commands of clients. A message with several statements is one command, of the last of them; preparing a statement
    /// is one, too.
    Commands,
    /// An SQL trace: EXEC calls, at any depth.
    Trace,
}

impl CountedBy {
    /// The word used in answers that programs read.
    pub fn as_str(self) -> &'static str {
        match self {
            CountedBy::Server => "pg_stat_statements",
            CountedBy::Commands => "commands",
            CountedBy::Trace => "sql trace",
        }
    }
}

/// Counts of one statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CountedStatement {
    /// Executions, or commands, that ended.
    pub calls: u128,
    /// Rows that they returned or changed; none for commands, where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u128>,
    /// How long they took, nanoseconds: executions without planning, commands from when their sessions received them until they were
    /// done.
    pub execution_ns: u128,
}

impl CountedStatement {
    /// How long one took on average, nanoseconds; none if none ended.
    pub fn average_ns(&self) -> Option<u128> {
        self.execution_ns.checked_div(self.calls)
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatementCounts {
    by: CountedBy,
    by_statement: HashMap<u64, CountedStatement>,
    evictions: i64,
    resets: i64,
    events_lost: u64,
}

impl StatementCounts {
    /// For commands of this recording, none of which is counted yet.
    pub(crate) fn of_commands(meta: &Meta) -> StatementCounts {
        StatementCounts {
            by: CountedBy::Commands,
            events_lost: meta.quality.latencies_lost,
            ..StatementCounts::default()
        }
    }

    /// Commands that the filter lets through, and what could not be read.
    pub(crate) fn read_commands(
        source: &Source,
        dimensions: &mut Dimensions,
        filter: &Filter,
    ) -> (StatementCounts, Vec<Problem>) {
        let mut counts = StatementCounts::of_commands(source.meta());
        let problems = source.latency(|row| {
            if filter.takes_time(row.time) && is_foreground(row.session, dimensions, filter) {
                counts.add_command(row, filter);
            }
        });
        (counts, problems)
    }

    /// Adds a counter of pg_stat_statements, if the filter lets it through; returns the executions in it.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, filter: &Filter) -> u128 {
        let is_of_server = row.source == counter::SERVER_STATISTICS && row.session == SessionId::RECORDER;
        let is_whole = filter.takes_all_sessions() && filter.waits.is_empty() && filter.states.is_empty();
        if !is_of_server || !is_whole || !filter.takes_time(row.time) {
            return 0;
        }
        match row.name.as_str() {
            names::EVICTIONS => self.evictions = self.evictions.saturating_add(row.value),
            names::RESETS => self.resets = self.resets.saturating_add(row.value),
            name @ (names::CALLS | names::ROWS | names::EXECUTION_NS) => {
                let of = self.by_statement.entry(row.statement).or_default();
                let rows = of.rows.get_or_insert_default();
                let sum = match name {
                    names::CALLS => &mut of.calls,
                    names::ROWS => rows,
                    _ => &mut of.execution_ns,
                };
                let value = u128::from(row.value.max(0).unsigned_abs());
                *sum += value;
                if name == names::CALLS {
                    return value;
                }
            }
            _ => {}
        }
        0
    }

    /// Adds a row, if it has commands; the filter must let its time and session through. Returns how many there are in it.
    pub(crate) fn add_command(&mut self, row: &LatencyRow, filter: &Filter) -> u128 {
        let is_whole = filter.waits.is_empty() && filter.states.is_empty();
        if *row.kind != *kind::COMMAND || !is_whole || !filter.takes_statement(row.statement) {
            return 0;
        }
        let of = self.by_statement.entry(row.statement).or_default();
        of.calls += u128::from(row.count);
        of.execution_ns += u128::from(row.sum_ns);
        row.count.into()
    }

    /// Adds a counter of an SQL trace; the filter must let its time and session through. Returns the executions in it.
    pub(crate) fn add_trace(&mut self, row: &CounterRow, filter: &Filter) -> u128 {
        let is_whole = filter.waits.is_empty() && filter.states.is_empty();
        if row.source != counter::ORACLE || !is_whole || !filter.takes_statement(row.statement) {
            return 0;
        }
        let value = u128::from(row.value.max(0).unsigned_abs());
        match row.name.as_str() {
            counter::oracle::EXECUTIONS => {
                self.by = CountedBy::Trace;
                self.by_statement.entry(row.statement).or_default().calls += value;
                value
            }
            counter::oracle::ELAPSED_US => {
                self.by_statement.entry(row.statement).or_default().execution_ns += 1_000 * value;
                0
            }
            _ => 0,
        }
    }

    /// Who counted.
    pub fn by(&self) -> CountedBy {
        self.by
    }

    /// What is known of this statement.
    pub fn of(&self, statement: u64) -> Option<CountedStatement> {
        self.by_statement
            .get(&statement)
            .copied()
            .filter(|_| statement != 0)
    }

    /// Counts of all statements.
    pub fn all(&self) -> CountedStatement {
        let mut all = CountedStatement::default();
        for of in self.by_statement.values() {
            all.calls += of.calls;
            if let Some(rows) = of.rows {
                *all.rows.get_or_insert_default() += rows;
            }
            all.execution_ns += of.execution_ns;
        }
        all
    }

    /// The part of `all` that is not known by statement: statements with less time than others, and those that the user who asked may
    /// not see; commands in which nothing with an id was executed.
    pub fn of_unknown(&self) -> CountedStatement {
        self.by_statement.get(&0).copied().unwrap_or_default()
    }

    /// True when nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.by_statement.is_empty()
    }

    /// How many calls of a statement may be missing at most; none: no bound is known.
    pub(crate) fn may_miss(&self) -> Option<u128> {
        let is_bounded = self.evictions == 0 && self.resets == 0;
        is_bounded.then(|| match self.by {
            CountedBy::Server => self.of_unknown().calls,
            CountedBy::Commands => self.events_lost.into(),
            // Cursors that were parsed before the trace began.
            CountedBy::Trace => self.of_unknown().calls,
        })
    }

    /// True when some of it is missing, or not known by statement: what is known of a statement is a lower bound.
    pub fn are_at_least(&self) -> bool {
        self.may_miss() != Some(0)
    }

    /// How often statements were evicted to make room for others.
    pub fn evictions(&self) -> i64 {
        self.evictions
    }

    /// How often the counters were reset.
    pub fn resets(&self) -> i64 {
        self.resets
    }

    /// Single events for which the recorder had no room, if commands are counted: some of them may have been commands.
    pub fn events_lost(&self) -> u64 {
        self.events_lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(statement: u64, name: &str, value: i64) -> CounterRow {
        CounterRow {
            statement,
            source: counter::SERVER_STATISTICS.into(),
            name: name.into(),
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
            rows.iter()
                .map(|row| counts.add_counter(row, filter))
                .sum::<u128>()
        };
        let chosen = Filter {
            sessions: vec![4711],
            ..Filter::default()
        };
        assert_eq!(add(&mut counts, &chosen), 0);
        assert!(counts.is_empty());
        assert_eq!(add(&mut counts, &Filter::default()), 5);
        let of = counts.of(7).expect("it was counted");
        assert_eq!((of.calls, of.rows, of.average_ns()), (5, Some(0), Some(100)));
        assert!(!counts.are_at_least());
        counts.add_counter(&row(0, names::CALLS, 1), &Filter::default());
        assert!(counts.are_at_least() && counts.of(0).is_none());
        assert_eq!(counts.all().calls, 6);
        assert_eq!(counts.may_miss(), Some(1));
        counts.add_counter(&row(0, names::RESETS, 1), &Filter::default());
        assert_eq!(counts.may_miss(), None);
    }

    #[test]
    fn commands_have_no_rows_and_those_that_are_lost_are_a_bound() {
        let command = |statement, kind: &str| LatencyRow {
            statement,
            kind: kind.into(),
            count: 4,
            sum_ns: 1_000,
            ..LatencyRow::default()
        };
        let rows = [
            command(7, kind::COMMAND),
            command(7, kind::COMMAND_WHOLE),
            command(0, kind::COMMAND),
        ];
        let mut meta = Meta::default();
        let mut counts = StatementCounts::of_commands(&meta);
        let by_wait = Filter {
            waits: vec!["CPU".to_string()],
            ..Filter::default()
        };
        for (filter, expected) in [(by_wait, 0), (Filter::default(), 8)] {
            let added: u128 = rows.iter().map(|row| counts.add_command(row, &filter)).sum();
            assert_eq!(added, expected);
        }
        let of = counts.of(7).expect("it was counted");
        assert_eq!((of.calls, of.rows, of.average_ns()), (4, None, Some(250)));
        assert_eq!((counts.all().calls, counts.all().rows), (8, None));
        // What has no id is not an execution of what has one.
        assert!(!counts.are_at_least() && counts.of_unknown().calls == 4);
        meta.quality.latencies_lost = 3;
        assert_eq!(StatementCounts::of_commands(&meta).may_miss(), Some(3));
    }
}
