//! What a trace says of statements: sums by plan, steps of plans, and who called whom.

use crate::samples::Table;
use dbtime_model::counter::{ORACLE, oracle};
use dbtime_model::{Caller, CounterRow, PlanStep, StatementRow};

use super::record::{CallKind, StatLine};

/// Recursive calls go a few levels deep; deeper ones are damage.
const MAX_DEPTH: usize = 64;

/// Steps kept of the plans of one statement.
const MAX_STEPS: usize = 4_096;

/// A statement and one of its plans (0 = not known).
pub(super) type PlanKey = (u64, u64);

/// Sums of calls and waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StatementSums {
    pub calls: u64,
    pub executions: u64,
    pub elapsed_us: u64,
    pub cpu_us: u64,
    pub wait_us: u64,
    pub idle_us: u64,
    pub rows: u64,
    pub consistent_gets: u64,
    pub current_gets: u64,
    pub physical_reads: u64,
    pub misses: u64,
}

impl StatementSums {
    /// Adds other sums.
    pub(super) fn add(&mut self, other: &StatementSums) {
        let mut mine = self.fields();
        for (mine, (_, theirs)) in mine.iter_mut().zip(other.named()) {
            **mine = mine.saturating_add(theirs);
        }
    }

    fn fields(&mut self) -> [&mut u64; 11] {
        [
            &mut self.calls,
            &mut self.executions,
            &mut self.elapsed_us,
            &mut self.cpu_us,
            &mut self.wait_us,
            &mut self.idle_us,
            &mut self.rows,
            &mut self.consistent_gets,
            &mut self.current_gets,
            &mut self.physical_reads,
            &mut self.misses,
        ]
    }

    /// The sums with the names of their counters, in the order of `fields`.
    fn named(&self) -> [(&'static str, u64); 11] {
        [
            (oracle::CALLS, self.calls),
            (oracle::EXECUTIONS, self.executions),
            (oracle::ELAPSED_US, self.elapsed_us),
            (oracle::CPU_US, self.cpu_us),
            (oracle::WAIT_US, self.wait_us),
            (oracle::IDLE_US, self.idle_us),
            (oracle::ROWS, self.rows),
            (oracle::CONSISTENT_GETS, self.consistent_gets),
            (oracle::CURRENT_GETS, self.current_gets),
            (oracle::PHYSICAL_READS, self.physical_reads),
            (oracle::MISSES, self.misses),
        ]
    }

    /// Hands on the counters that grew.
    pub(super) fn close(self, (statement, plan): PlanKey, second_us: i64, mut take: impl FnMut(CounterRow)) {
        for (name, value) in self.named().into_iter().filter(|(_, value)| *value > 0) {
            take(CounterRow {
                time: second_us,
                statement,
                plan,
                source: ORACLE.to_string(),
                name: name.to_string(),
                value: i64::try_from(value).unwrap_or(i64::MAX),
                ..CounterRow::default()
            });
        }
    }
}

/// Which statement ran which, by the rule that a call stands in the trace behind the calls that were made in it.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// By depth: calls that wait for the end of the call they are in.
    open: Vec<Table<u64, Called>>,
    called: Table<(u64, u64), Called>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Called {
    calls: u64,
    us: u64,
}

impl Called {
    fn add(&mut self, other: Called) {
        self.calls += other.calls;
        self.us = self.us.saturating_add(other.us);
    }
}

impl Calls {
    /// A call of a statement ended.
    pub(super) fn call(&mut self, statement: u64, kind: CallKind, dep: u32, us: u64) {
        let depth = dep as usize;
        if depth >= MAX_DEPTH {
            return;
        }
        if self.open.len() > depth + 1 {
            // What is deeper still has no caller: the call between is not in the trace.
            let (below, deeper) = self.open[depth + 1..].split_at_mut(1);
            for (child, called) in below[0].drain() {
                self.called.entry((child, statement)).or_default().add(called);
            }
            deeper.iter_mut().for_each(Table::clear);
        }
        if depth > 0 && kind.is_parse_exec_fetch() {
            if self.open.len() <= depth {
                self.open.resize_with(depth + 1, Table::default);
            }
            let called = Called { calls: 1, us };
            self.open[depth].entry(statement).or_default().add(called);
        }
    }

    /// True when calls wait for the end of the call they are in.
    pub(super) fn is_open(&self) -> bool {
        self.open.iter().any(|level| !level.is_empty())
    }

    /// Hands on who was called by whom.
    pub(super) fn finish(self, mut take: impl FnMut(u64, Caller)) {
        for ((child, statement), called) in self.called {
            let caller = Caller {
                statement,
                calls: called.calls,
                elapsed_us: called.us,
            };
            take(child, caller);
        }
    }
}

/// Texts and plans of the statements of a file.
#[derive(Debug, Default)]
pub(super) struct Statements {
    rows: Table<u64, StatementRow>,
    steps: Table<PlanKey, Table<u64, PlanStep>>,
}

impl Statements {
    /// A statement was parsed; the first text that is told of it stays.
    pub(super) fn text(&mut self, id: u64, sql_id: &[u8], text: &[u8]) {
        let row = self.rows.entry(id).or_default();
        row.id = id;
        if row.sql_id.is_empty() {
            row.sql_id = String::from_utf8_lossy(sql_id).into_owned();
        }
        if row.text.is_empty() {
            row.text = String::from_utf8_lossy(text).trim_end().to_string();
        }
    }

    /// A step of a plan.
    pub(super) fn step(&mut self, (statement, plan): PlanKey, line: &StatLine<'_>) {
        let steps = self.steps.entry((statement, plan)).or_default();
        if steps.len() >= MAX_STEPS && !steps.contains_key(&line.id) {
            return;
        }
        let step = steps.entry(line.id).or_insert_with(|| PlanStep {
            plan,
            id: line.id,
            parent: line.parent,
            operation: String::from_utf8_lossy(line.operation).into_owned(),
            ..PlanStep::default()
        });
        step.add(&PlanStep {
            executions: 1,
            rows: line.rows,
            consistent_gets: line.consistent_gets,
            physical_reads: line.physical_reads,
            physical_writes: line.physical_writes,
            elapsed_us: line.elapsed_us,
            ..PlanStep::default()
        });
    }

    /// A statement was called by another one.
    pub(super) fn called(&mut self, statement: u64, caller: Caller) {
        let row = self.rows.entry(statement).or_default();
        row.id = statement;
        row.callers.push(caller);
    }

    /// Hands on a row for each statement that has a name, in a fixed order.
    pub(super) fn finish(mut self, mut take: impl FnMut(StatementRow)) {
        for ((statement, _), steps) in self.steps {
            let row = self.rows.entry(statement).or_default();
            row.id = statement;
            row.plan_steps.extend(steps.into_values());
        }
        let mut rows: Vec<StatementRow> = self.rows.into_values().filter(|row| row.id != 0).collect();
        rows.sort_unstable_by_key(|row| row.id);
        for mut row in rows {
            row.plan_steps.sort_by_key(|step| (step.plan, step.id));
            row.callers.sort_by_key(|caller| caller.statement);
            take(row);
        }
    }
}
