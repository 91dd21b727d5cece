//! Statements of a trace, by plan. All times in microseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use dbtime_model::counter::oracle;
use dbtime_model::{CounterRow, StatementRow};

use super::plan::StatementPlan;
use crate::load::Dimensions;

/// A statement with one of its plans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedStatement {
    /// Identity in the recording; 0 = calls and waits whose statement the trace does not say.
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// Hash of the plan; none when not known.
    pub plan_hash: Option<u64>,
    /// Its text.
    pub text: Option<String>,
    /// PARSE, EXEC and FETCH calls.
    pub calls: i128,
    /// Of these, EXEC.
    pub executions: i128,
    /// Elapsed time of the calls, the statements called inside included.
    pub elapsed_us: i128,
    /// CPU of the calls, the statements called inside included.
    pub cpu_us: i128,
    /// Its own waits but for the client's next message.
    pub wait_us: i128,
    /// Its own waits for the client's next message.
    pub idle_us: i128,
    /// Rows processed.
    pub rows: i128,
    /// Blocks got in consistent mode.
    pub consistent_gets: i128,
    /// Blocks got in current mode.
    pub current_gets: i128,
    /// Blocks read.
    pub physical_reads: i128,
    /// Misses in the library cache.
    pub misses: i128,
    /// Elapsed time of the statements that its calls made, with whatever plan: a part of the elapsed time of all of its plans.
    pub called_us: i128,
    /// Statements in whose calls it ran, the longest first.
    pub callers: Vec<CallerCalls>,
    /// What the steps of the plan did.
    pub plan: StatementPlan,
}

/// Calls made on behalf of another statement.
#[derive(Debug, Clone, PartialEq)]
pub struct CallerCalls {
    /// The other one, see [`TracedStatement::id`].
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Their elapsed time.
    pub elapsed_us: u64,
}

impl TracedStatement {
    /// What is left of elapsed time by CPU and its own waits. Includes the waits of the statements that it called; below
    /// zero when CPU was used inside waits.
    pub fn missing_us(&self) -> i128 {
        self.elapsed_us - self.cpu_us - self.wait_us
    }

    fn counter(&mut self, name: &str) -> Option<&mut i128> {
        Some(match name {
            oracle::CALLS => &mut self.calls,
            oracle::EXECUTIONS => &mut self.executions,
            oracle::ELAPSED_US => &mut self.elapsed_us,
            oracle::CPU_US => &mut self.cpu_us,
            oracle::WAIT_US => &mut self.wait_us,
            oracle::IDLE_US => &mut self.idle_us,
            oracle::ROWS => &mut self.rows,
            oracle::CONSISTENT_GETS => &mut self.consistent_gets,
            oracle::CURRENT_GETS => &mut self.current_gets,
            oracle::PHYSICAL_READS => &mut self.physical_reads,
            oracle::MISSES => &mut self.misses,
            _ => return None,
        })
    }
}

/// Adds counters up to statements.
#[derive(Default)]
pub(super) struct StatementsBuilder(BTreeMap<(u64, u64), TracedStatement>);

impl StatementsBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        // Only counters of statements make an entry.
        if TracedStatement::default().counter(&row.name).is_some()
            && let Some(sum) = self
                .0
                .entry((row.statement, row.plan))
                .or_default()
                .counter(&row.name)
        {
            *sum += i128::from(row.value);
        }
    }

    pub(super) fn finish(mut self, dimensions: &Dimensions) -> Vec<TracedStatement> {
        let ids: BTreeSet<u64> = self.0.keys().map(|(id, _)| *id).collect();
        let mut called: HashMap<u64, i128> = HashMap::new();
        for row in ids.iter().filter_map(|id| dimensions.statement_row(*id)) {
            for caller in &row.callers {
                *called.entry(caller.statement).or_default() += i128::from(caller.elapsed_us);
            }
            // What the trace says of a plan is shown even when it tells of no call that used it.
            for step in &row.plan_steps {
                self.0.entry((row.id, step.plan)).or_default();
            }
        }
        let mut statements: Vec<TracedStatement> = self
            .0
            .into_iter()
            .map(|((id, plan), sums)| {
                let row = dimensions.statement_row(id);
                TracedStatement {
                    id,
                    sql_id: dimensions.sql_id(id).map(str::to_string),
                    plan_hash: (plan != 0).then_some(plan),
                    text: dimensions.statement(id).map(str::to_string),
                    called_us: called.get(&id).copied().unwrap_or(0),
                    callers: row.map_or_else(Vec::new, |row| callers(row, dimensions)),
                    plan: row.map_or_else(StatementPlan::default, |row| StatementPlan::of(row, plan)),
                    ..sums
                }
            })
            .collect();
        statements.sort_by_key(|one| {
            (
                Reverse(one.elapsed_us),
                Reverse(one.wait_us),
                Reverse(one.idle_us),
                one.id,
                one.plan_hash,
            )
        });
        statements
    }
}

fn callers(row: &StatementRow, dimensions: &Dimensions) -> Vec<CallerCalls> {
    let mut callers: Vec<CallerCalls> = row
        .callers
        .iter()
        .map(|caller| CallerCalls {
            id: caller.statement,
            sql_id: dimensions.sql_id(caller.statement).map(str::to_string),
            calls: caller.calls,
            elapsed_us: caller.elapsed_us,
        })
        .collect();
    callers.sort_by_key(|caller| (Reverse(caller.elapsed_us), Reverse(caller.calls), caller.id));
    callers
}
