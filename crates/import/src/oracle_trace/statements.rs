//! What a trace says about statements: sums by plan, steps of plans, and who called whom.

use crate::samples::Table;
use dbtime_model::counter::{ORACLE, oracle};
use dbtime_model::literals::signature;
use dbtime_model::recording::SqlTrace;
use dbtime_model::{Caller, CounterRow, PlanStep, StatementRow};

use xxhash_rust::xxh3::xxh3_64;

use super::binds::OfStatement;
use super::cursors::Pending;
use super::elapsed::{Called, Share};
use super::record::{CallKind, CallLine, StatLine};
use super::views::signed;

/// Steps kept of the plans of one statement.
const MAX_STEPS: usize = 4_096;

/// Most statements of a file kept individually, whatever they are.
pub(crate) const MAX_STATEMENTS: usize = 5_000;

/// Most statements of a file kept individually if they differ in more than literals.
pub(crate) const MAX_UNLIKE: usize = 20_000;

/// Most plans of a file whose steps are kept.
const MAX_PLANS: usize = 20_000;

/// Most bytes of texts kept of a file.
pub(crate) const MAX_TEXTS: usize = 64 << 20;

/// Most statements remembered with the one that they are counted with; others count again if they are parsed again.
const MAX_REMEMBERED: usize = 1 << 20;

/// A statement and one of its plans (0 = not known).
pub(super) type PlanKey = (u64, u64);

/// Sums of calls of one kind, in the order of [`oracle::CALL_SUMS`].
pub(super) type CallSums = [u64; oracle::CALL_SUMS.len()];

/// Sums of calls and waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StatementSums {
    pub parse: CallSums,
    pub exec: CallSums,
    pub fetch: CallSums,
    pub own_elapsed_us: i64,
    pub own_cpu_us: i64,
    pub wait_us: u64,
    pub idle_us: u64,
    pub assumed_wait_us: u64,
}

impl StatementSums {
    /// Adds a PARSE, EXEC or FETCH call, and its own share, in microseconds.
    pub(super) fn call(&mut self, of: &CallLine<'_>, e: u64, c: u64, share: &Share) {
        let sums = match of.kind {
            CallKind::Parse => &mut self.parse,
            CallKind::Exec => &mut self.exec,
            CallKind::Fetch => &mut self.fetch,
            CallKind::Close | CallKind::Other | CallKind::Lob => return,
        };
        add(sums, &sums_of(of, e, c));
        self.own_elapsed_us = self.own_elapsed_us.saturating_add(share.elapsed);
        self.own_cpu_us = self.own_cpu_us.saturating_add(share.cpu);
    }

    /// Adds what was pending.
    pub(super) fn add(&mut self, pending: &Pending) {
        add(&mut self.parse, &pending.parse);
        self.own_elapsed_us = self.own_elapsed_us.saturating_add(pending.own_elapsed_us);
        self.own_cpu_us = self.own_cpu_us.saturating_add(pending.own_cpu_us);
        self.wait_us = self.wait_us.saturating_add(pending.wait_us);
        self.idle_us = self.idle_us.saturating_add(pending.idle_us);
        self.assumed_wait_us = self.assumed_wait_us.saturating_add(pending.assumed_wait_us);
    }

    /// Removes a wait that was added; false if it is not there.
    pub(super) fn take_wait(&mut self, us: u64) -> bool {
        let is_there = self.wait_us >= us;
        if is_there {
            self.wait_us -= us;
        }
        is_there
    }

    /// Hands on the counters that are not 0.
    pub(super) fn close(self, (statement, plan): PlanKey, second_us: i64, mut take: impl FnMut(CounterRow)) {
        let mut counter = |name: &str, value: i64| {
            if value != 0 {
                take(CounterRow {
                    time: second_us,
                    statement,
                    plan,
                    source: ORACLE.into(),
                    name: name.into(),
                    value,
                    ..CounterRow::default()
                });
            }
        };
        let mut all = self.parse;
        add(&mut all, &self.exec);
        add(&mut all, &self.fetch);
        for (names, sums) in [
            (oracle::CALL_SUMS, &all),
            (oracle::PARSE_SUMS, &self.parse),
            (oracle::FETCH_SUMS, &self.fetch),
        ] {
            for (name, value) in names.into_iter().zip(sums) {
                counter(name, signed(*value));
            }
        }
        let [executions, ..] = self.exec;
        counter(oracle::EXECUTIONS, signed(executions));
        counter(oracle::OWN_ELAPSED_US, self.own_elapsed_us);
        counter(oracle::OWN_CPU_US, self.own_cpu_us);
        counter(oracle::WAIT_US, signed(self.wait_us));
        counter(oracle::IDLE_US, signed(self.idle_us));
        counter(oracle::ASSUMED_WAIT_US, signed(self.assumed_wait_us));
    }
}

impl Pending {
    /// Adds a PARSE call, and its own share, in microseconds.
    pub(super) fn parse(&mut self, of: &CallLine<'_>, e: u64, c: u64, share: &Share) {
        self.is_touched = true;
        add(&mut self.parse, &sums_of(of, e, c));
        self.own_elapsed_us = self.own_elapsed_us.saturating_add(share.elapsed);
        self.own_cpu_us = self.own_cpu_us.saturating_add(share.cpu);
    }
}

/// A call, in the order of [`oracle::CALL_SUMS`].
fn sums_of(of: &CallLine<'_>, e: u64, c: u64) -> CallSums {
    [1, e, c, of.r, of.cr, of.cu, of.p, of.mis]
}

fn add(sums: &mut CallSums, other: &CallSums) {
    for (sum, more) in sums.iter_mut().zip(other) {
        *sum = sum.saturating_add(*more);
    }
}

/// The same for two statements that differ only in literals.
fn signature_hash(text: &str) -> u64 {
    xxh3_64(signature(text).as_bytes())
}

/// Identity of the statements that are counted as one.
fn further_statements() -> u64 {
    xxh3_64(StatementRow::FURTHER.as_bytes())
}

/// Which statement called which.
#[derive(Debug, Default)]
pub(super) struct Callers(Table<(u64, u64), Called>);

impl Callers {
    /// Calls of a statement were made in one of another statement.
    pub(super) fn add(&mut self, statement: u64, caller: u64, called: Called) {
        self.0.entry((statement, caller)).or_default().add(called);
    }

    /// Hands on who was called by whom.
    pub(super) fn finish(self, mut take: impl FnMut(u64, Caller)) {
        for ((statement, caller), called) in self.0 {
            let caller = Caller {
                statement: caller,
                calls: called.calls,
                elapsed_us: called.us,
            };
            take(statement, caller);
        }
    }
}

/// What `PARSING IN CURSOR` says about a statement besides its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parsed {
    pub hash_value: u64,
    pub user: Option<u32>,
    pub depth: u32,
    pub command: Option<u32>,
}

/// Texts and plans of the statements of a file.
#[derive(Debug, Default)]
pub(super) struct Statements {
    rows: Table<u64, StatementRow>,
    steps: Table<PlanKey, Table<u64, PlanStep>>,
    /// Bytes of the texts in `rows`.
    texts: usize,
    texts_left_out: u64,
    /// Once there are too many: the first statement with a signature, by a hash of it.
    first_alike: Table<u64, u64>,
    /// Statements that are counted with another one.
    counted_as: Table<u64, u64>,
}

impl Statements {
    /// The statement that this one is counted with: usually itself.
    pub(super) fn counted_as(&self, id: u64) -> u64 {
        self.counted_as.get(&id).copied().unwrap_or(id)
    }

    /// The statement that a parsed one is counted with. Beyond [`MAX_STATEMENTS`], it is one that differs only in literals, if there is
    /// one.
    fn place(&mut self, id: u64, text: &[u8]) -> u64 {
        if let Some(of) = self.counted_as.get(&id) {
            return *of;
        }
        if self.rows.len() < MAX_STATEMENTS || self.rows.contains_key(&id) {
            return id;
        }
        if self.first_alike.is_empty() {
            for row in self.rows.values() {
                let first = self
                    .first_alike
                    .entry(signature_hash(&row.text))
                    .or_insert(row.id);
                *first = row.id.min(*first);
            }
        }
        let signature = signature_hash(String::from_utf8_lossy(text).trim_end());
        let of = match self.first_alike.get(&signature) {
            Some(first) => *first,
            None if self.rows.len() < MAX_UNLIKE => {
                self.first_alike.insert(signature, id);
                return id;
            }
            None => further_statements(),
        };
        if self.counted_as.len() < MAX_REMEMBERED {
            self.counted_as.insert(id, of);
        }
        let row = self.rows.entry(of).or_default();
        row.id = of;
        row.alike += 1;
        if of == further_statements() && row.text.is_empty() {
            row.text = StatementRow::FURTHER.to_string();
        }
        of
    }

    /// Reports which statements are not kept individually.
    pub(super) fn tell(&self, trace: &mut SqlTrace) {
        let of = |row: &StatementRow| row.alike;
        let further = self.rows.get(&further_statements()).map_or(0, of);
        trace.further_statements = further;
        trace.statements_alike = self.rows.values().map(of).sum::<u64>() - further;
        trace.texts_left_out = self.texts_left_out;
    }

    /// A statement was parsed; its first text stays. Returns the statement that it is counted with.
    pub(super) fn text(&mut self, id: u64, sql_id: &[u8], text: &[u8], parsed: Parsed) -> u64 {
        let place = self.place(id, text);
        let is_itself = place == id;
        let id = place;
        let row = self.rows.entry(id).or_default();
        row.id = id;
        if row.hash_value == 0 && is_itself {
            row.hash_value = parsed.hash_value;
        }
        row.user_id = row.user_id.or(parsed.user);
        row.command = row.command.or(parsed.command);
        row.depth = Some(row.depth.map_or(parsed.depth, |depth| depth.min(parsed.depth)));
        if row.sql_id.is_empty() && is_itself {
            row.sql_id = String::from_utf8_lossy(sql_id).into_owned();
        }
        if row.text.is_empty() && is_itself {
            if self.texts + text.len() <= MAX_TEXTS {
                self.texts += text.len();
                row.text = String::from_utf8_lossy(text).trim_end().to_string();
            } else {
                self.texts_left_out += 1;
            }
        }
        id
    }

    /// A step of a plan.
    pub(super) fn step(&mut self, (statement, plan): PlanKey, line: &StatLine<'_>) {
        if self.steps.len() >= MAX_PLANS && !self.steps.contains_key(&(statement, plan)) {
            return;
        }
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

    /// A statement was executed with values of bind variables.
    pub(super) fn bound(&mut self, statement: u64, of: OfStatement) {
        let row = self.rows.entry(statement).or_default();
        row.id = statement;
        row.binds = of.sets;
        row.bound_executions = of.executions;
        row.bound_execution_count = of.count;
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
