//! Statements of a trace, by plan. All times in microseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use dbtime_model::counter::oracle;
use dbtime_model::literals::without_literals;
use dbtime_model::{BindSet, BoundExecution, CounterRow, StatementRow};
use serde::Serialize;

use super::plan::StatementPlan;
use crate::alike_statements::AlikeStatements;
use crate::dimensions::Dimensions;
use crate::fields;

/// Sums of calls of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CallSums {
    /// Calls.
    pub calls: i128,
    /// Elapsed time of the calls, including the statements called from them.
    pub elapsed_us: i128,
    /// CPU of the calls, including the statements called from them.
    pub cpu_us: i128,
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
}

impl CallSums {
    /// In the order of [`oracle::CALL_SUMS`].
    fn fields(&mut self) -> [&mut i128; oracle::CALL_SUMS.len()] {
        [
            &mut self.calls,
            &mut self.elapsed_us,
            &mut self.cpu_us,
            &mut self.rows,
            &mut self.consistent_gets,
            &mut self.current_gets,
            &mut self.physical_reads,
            &mut self.misses,
        ]
    }

    fn field(&mut self, names: [&str; oracle::CALL_SUMS.len()], name: &str) -> Option<&mut i128> {
        let at = names.iter().position(|of| *of == name)?;
        self.fields().into_iter().nth(at)
    }

    fn add(&mut self, mut other: CallSums) {
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum += *more;
        }
    }

    /// Subtracts those of other calls.
    fn without(mut self, mut other: CallSums) -> CallSums {
        for (sum, less) in self.fields().into_iter().zip(other.fields()) {
            *sum -= *less;
        }
        self
    }
}

/// A statement with one of its plans.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedStatement {
    /// Identity in the recording; 0 = calls and waits of a statement that the trace does not give.
    pub id: u64,
    /// Its name in the database; of one of them if there are several statements.
    pub sql_id: Option<String>,
    /// The name it had in the database before `sql_id` existed; 0 = not known.
    pub hash_value: u64,
    /// Number of statements that it stands for: they differ in literals only.
    pub variants: usize,
    /// Hash of the plan; none when not known.
    pub plan_hash: Option<u64>,
    /// Its text; with `?` for the literals if there are several statements.
    pub text: Option<String>,
    /// Number of the user who parsed it; 0 = SYS.
    pub user_id: Option<u32>,
    /// The smallest depth at which it was parsed; more than 0 = recursive.
    pub depth: Option<u32>,
    /// PARSE, EXEC and FETCH calls.
    pub all: CallSums,
    /// PARSE calls alone.
    pub parse: CallSums,
    /// FETCH calls alone.
    pub fetch: CallSums,
    /// EXEC calls.
    pub executions: i128,
    /// Elapsed time of its calls minus that of the calls inside them.
    pub own_elapsed_us: i128,
    /// CPU of its calls minus that of the calls inside them.
    pub own_cpu_us: i128,
    /// Its own waits except for the client's next message.
    pub wait_us: i128,
    /// Its own waits for the client's next message.
    pub idle_us: i128,
    /// Of both, waits of cursor #0 outside of calls: attributed to the statement before them.
    pub assumed_wait_us: i128,
    /// Elapsed time of the statements that its calls made, with any plan: part of the elapsed time of all of its plans.
    pub called_us: i128,
    /// Statements from whose calls it ran, longest first.
    pub callers: Vec<CallerCalls>,
    /// What the steps of the plan did.
    pub plan: StatementPlan,
    /// Values of its bind variables, longest first, if requested: those of all plans.
    pub binds: Vec<BindSet>,
    /// Executions with values of bind variables, the first ones, which are kept, by time: those of all plans.
    pub bound_executions: Vec<BoundExecution>,
    /// Number of all such executions.
    pub bound_execution_count: u64,
}

/// Calls made on behalf of another statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallerCalls {
    /// The other statement, see [`TracedStatement::id`].
    #[serde(serialize_with = "fields::text")]
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Their elapsed time.
    pub elapsed_us: u64,
}

impl TracedStatement {
    /// Elapsed time that is neither CPU nor own waits. Includes the waits of the statements that it called.
    pub fn missing_us(&self) -> i128 {
        self.all.elapsed_us - self.all.cpu_us - self.wait_us
    }

    /// EXEC calls alone; all calls in recordings that do not distinguish kinds of calls.
    pub fn exec(&self) -> CallSums {
        self.all.without(self.parse).without(self.fetch)
    }

    /// Whether it only ran inside calls of other statements.
    pub fn is_recursive(&self) -> bool {
        self.depth.is_some_and(|depth| depth > 0)
    }

    fn counter(&mut self, name: &str) -> Option<&mut i128> {
        Some(match name {
            oracle::EXECUTIONS => &mut self.executions,
            oracle::OWN_ELAPSED_US => &mut self.own_elapsed_us,
            oracle::OWN_CPU_US => &mut self.own_cpu_us,
            oracle::WAIT_US => &mut self.wait_us,
            oracle::IDLE_US => &mut self.idle_us,
            oracle::ASSUMED_WAIT_US => &mut self.assumed_wait_us,
            name => {
                let sums = [
                    (&mut self.all, oracle::CALL_SUMS),
                    (&mut self.parse, oracle::PARSE_SUMS),
                    (&mut self.fetch, oracle::FETCH_SUMS),
                ];
                return sums.into_iter().find_map(|(sums, names)| sums.field(names, name));
            }
        })
    }

    /// Adds another statement of the same group.
    fn merge(&mut self, other: &TracedStatement) {
        self.all.add(other.all);
        self.parse.add(other.parse);
        self.fetch.add(other.fetch);
        for (sum, more) in [
            (&mut self.executions, other.executions),
            (&mut self.own_elapsed_us, other.own_elapsed_us),
            (&mut self.own_cpu_us, other.own_cpu_us),
            (&mut self.wait_us, other.wait_us),
            (&mut self.idle_us, other.idle_us),
            (&mut self.assumed_wait_us, other.assumed_wait_us),
        ] {
            *sum += more;
        }
    }
}

/// Adds up counters to statements.
#[derive(Default)]
pub(super) struct StatementsBuilder(BTreeMap<(u64, u64), TracedStatement>);

impl StatementsBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        // Only counters of statements create an entry.
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

    /// Identities of the statements.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.0.keys().map(|(id, _)| *id)
    }

    pub(super) fn finish(
        mut self,
        groups: &AlikeStatements,
        dimensions: &Dimensions,
    ) -> Vec<TracedStatement> {
        let ids: BTreeSet<u64> = self.ids().collect();
        let mut called: HashMap<u64, i128> = HashMap::new();
        let mut members: BTreeMap<u64, Vec<&StatementRow>> = BTreeMap::new();
        for row in ids.iter().filter_map(|id| dimensions.statement_row(*id)) {
            for caller in &row.callers {
                *called.entry(groups.of(caller.statement)).or_default() += i128::from(caller.elapsed_us);
            }
            // What the trace has of a plan is shown even without a call that used it.
            for step in &row.plan_steps {
                self.0.entry((row.id, step.plan)).or_default();
            }
            members.entry(groups.of(row.id)).or_default().push(row);
        }
        let mut grouped: BTreeMap<(u64, u64), TracedStatement> = BTreeMap::new();
        for ((id, plan), sums) in self.0 {
            grouped.entry((groups.of(id), plan)).or_default().merge(&sums);
        }
        let mut statements: Vec<TracedStatement> = grouped
            .into_iter()
            .map(|((id, plan), sums)| {
                let rows = members.get(&id).map_or(&[][..], Vec::as_slice);
                let variants = groups.size(id, dimensions);
                let text = dimensions.statement(id);
                TracedStatement {
                    id,
                    sql_id: dimensions.sql_id(id).map(str::to_string),
                    hash_value: rows.first().map_or(0, |row| row.hash_value),
                    variants,
                    plan_hash: (plan != 0).then_some(plan),
                    text: text.map(|text| match variants {
                        1 => text.to_string(),
                        _ => without_literals(text),
                    }),
                    user_id: rows.iter().find_map(|row| row.user_id),
                    depth: rows.iter().filter_map(|row| row.depth).min(),
                    called_us: called.get(&id).copied().unwrap_or(0),
                    callers: callers(rows, groups, dimensions),
                    plan: StatementPlan::of(rows, plan),
                    binds: binds(rows),
                    bound_executions: bound_executions(rows),
                    bound_execution_count: rows
                        .iter()
                        .map(|row| row.bound_execution_count)
                        .fold(0, u64::saturating_add),
                    ..sums
                }
            })
            .collect();
        statements.sort_by_key(|one| {
            (
                Reverse(one.all.elapsed_us),
                Reverse(one.wait_us),
                Reverse(one.idle_us),
                one.id,
                one.plan_hash,
            )
        });
        statements
    }
}

fn binds(rows: &[&StatementRow]) -> Vec<BindSet> {
    let mut binds: Vec<BindSet> = rows.iter().flat_map(|row| &row.binds).cloned().collect();
    binds.sort_by_key(|set| Reverse((set.elapsed_us, set.executions)));
    binds
}

fn bound_executions(rows: &[&StatementRow]) -> Vec<BoundExecution> {
    let mut executions: Vec<BoundExecution> = rows
        .iter()
        .flat_map(|row| &row.bound_executions)
        .cloned()
        .collect();
    executions.sort_by_key(|execution| execution.time_us);
    executions
}

fn callers(rows: &[&StatementRow], groups: &AlikeStatements, dimensions: &Dimensions) -> Vec<CallerCalls> {
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for caller in rows.iter().flat_map(|row| &row.callers) {
        let (calls, us) = sums.entry(groups.of(caller.statement)).or_default();
        *calls = calls.saturating_add(caller.calls);
        *us = us.saturating_add(caller.elapsed_us);
    }
    let mut callers: Vec<CallerCalls> = sums
        .into_iter()
        .map(|(id, (calls, elapsed_us))| CallerCalls {
            id,
            sql_id: dimensions.sql_id(id).map(str::to_string),
            calls,
            elapsed_us,
        })
        .collect();
    callers.sort_by_key(|caller| (Reverse(caller.elapsed_us), Reverse(caller.calls), caller.id));
    callers
}
