//! Which statement changed, and into which waits and states its time went.
//!
//! Divided by transactions if both sides counted them, whatever the rest is divided by: in a closed loop a statement that became slower
//! takes as much of each second as before. The differences of all statements, and of what belongs to none, sum to that of DB time. If
//! it is known how often statements were executed, their time per execution is compared, too. All of it has a test of its own, of the
//! same kind.

use std::collections::BTreeMap;

use dbtime_model::{State, Wait};

use super::answer::{Change, Place, StatementChange, Statements};
use super::causes::largest_first;
use super::changes::{Changes, Pair};
use super::executions::Executions;
use super::named_statement::named;
use super::side::Side;
use super::verdicts::{BySlice, Yardstick, give_verdicts};
use super::{Per, common_factor, likely};
use crate::function::Functions;
use crate::work::WorkUnit;

/// Both sides of a statement.
#[derive(Default)]
struct Both {
    all: Pair,
    per_execution: Option<PerExecution>,
    cells: BTreeMap<(Wait, State), Pair>,
}

/// The time of a statement, divided by its own executions.
struct PerExecution {
    pair: Pair,
    per: Per,
}

impl PerExecution {
    /// None if the number of executions is not known on a side.
    fn of(id: u64, all: Pair, executions: [&Executions; 2], slices: [usize; 2]) -> Option<PerExecution> {
        let [good, bad] = [0, 1].map(|n| executions[n].of(id, slices[n]));
        Some(PerExecution {
            pair: all,
            per: Per::counted(WorkUnit::Execution, [good?, bad?]),
        })
    }
}

/// Compares both sides by statement; none if one of them knows no statements. `error`: of the common factor ([`common_factor::error`]).
pub(super) fn compare(
    sides: &[Side; 2],
    changes: &Changes,
    functions: &Functions,
    per: &Per,
    error: Option<f64>,
) -> Option<Statements> {
    if !sides.iter().all(Side::knows_statements) {
        return None;
    }
    let transactions = [0, 1].map(|side| sides[side].work.count(WorkUnit::Transaction) as f64);
    let per_transaction = (per.unit == WorkUnit::Second && transactions.iter().all(|count| *count > 0.0))
        .then(|| Per::new(sides, WorkUnit::Transaction, transactions, false));
    let per = per_transaction.as_ref().unwrap_or(per);
    let factor = common_factor::estimate(changes, per, functions, error);
    let executions = Executions::of_both(sides);
    let all_executions = executions.map(|of| vec![of.counts.all().calls as f64]);
    let all_executions = Per::counted(WorkUnit::Execution, all_executions);
    let each_factor = common_factor::estimate(changes, &all_executions, functions, error);

    let mut statements: BTreeMap<u64, Both> = BTreeMap::new();
    let mut slices: BTreeMap<u64, BySlice> = BTreeMap::new();
    for (n, side) in sides.iter().enumerate() {
        for ((id, wait, state, is_tested), by_slice) in &side.statements {
            let mut values = [0; 2];
            values[n] = by_slice.values().map(|amount| amount.value(per.unit)).sum();
            if *is_tested {
                let of_side = &mut slices.entry(*id).or_default()[n];
                of_side.extend(
                    by_slice
                        .iter()
                        .map(|(slice, amount)| (*slice, amount.value(per.unit) as f64)),
                );
            }
            let tested = if *is_tested { values } else { [0; 2] };
            let both = statements.entry(*id).or_default();
            both.all.add(values, tested);
            let cell = both.cells.entry((wait.clone(), *state)).or_default();
            cell.add(values, tested);
        }
    }
    let counts_of_slices = [0, 1].map(|n| sides[n].slices().count());
    // Samples of unknown length are not the time of an execution.
    if per.unit != WorkUnit::Sample {
        for (id, both) in &mut statements {
            both.per_execution = PerExecution::of(*id, both.all, executions, counts_of_slices);
        }
    }
    let by = Yardstick::new(per, factor, changes);
    let mut tested = Vec::new();
    for (id, both) in &mut statements {
        let by_slice = slices.remove(id).unwrap_or_default();
        if let Some(PerExecution { pair, per }) = &mut both.per_execution {
            let can_be_tested = per.can_be_tested();
            let by_execution = Yardstick::new(per, each_factor, changes);
            match can_be_tested {
                true => tested.push((pair, by_slice.clone(), by_execution)),
                false => by_execution.judge(pair, None),
            }
        }
        tested.push((&mut both.all, by_slice, by));
    }
    give_verdicts(tested.into_iter());
    for both in statements.values_mut() {
        both.all.judge_untested(per, by.smallest);
        if let Some(PerExecution { pair, per }) = &mut both.per_execution {
            pair.judge_untested(per, Yardstick::new(per, each_factor, changes).smallest);
        }
    }
    let candidates = statements.iter().map(|(id, both)| likely::Candidate {
        id: *id,
        all: &both.all,
        measured: both.per_execution.as_ref().map_or(&both.all, |of| &of.pair),
        by: both
            .per_execution
            .as_ref()
            .map_or(by, |of| Yardstick::new(&of.per, each_factor, changes)),
    });
    let likely = likely::find(candidates, changes, per);

    let mut answer: Vec<StatementChange> = statements
        .into_iter()
        .map(|(id, both)| {
            // Good or bad: whichever has the text.
            let known = |of: &dyn Fn(&Side) -> Option<String>| sides.iter().find_map(of);
            let mut cells: Vec<Change> = both
                .cells
                .into_iter()
                .map(|((wait, state), pair)| changes.change(Place::Cell(wait, state), &pair, None, per))
                .collect();
            largest_first(&mut cells, |cell| cell);
            let counted = executions.map(|of| of.counts.of(id));
            let calls = |n: usize| {
                counted[n]
                    .filter(|_| per.work[n] > 0.0)
                    .map(|of| of.calls as f64 / per.work[n])
            };
            let place = Place::Statement(id);
            StatementChange {
                counted,
                calls_per_unit: [calls(0), calls(1)],
                per_execution: both
                    .per_execution
                    .map(|of| changes.change(place.clone(), &of.pair, None, &of.per)),
                change: changes.change(place, &both.all, None, per),
                sql_id: known(&|side| side.dimensions.sql_id(id).map(str::to_string)),
                text: known(&|side| side.dimensions.statement(id).map(str::to_string)),
                cells,
            }
        })
        .collect();
    largest_first(&mut answer, |statement| &statement.change);
    let total = changes.total(per);
    let known = (&total, sides[0].total.samples);
    let (sentence, is_certain) = named(&answer, per.unit, likely, counts_of_slices, known);
    let are_counted = executions.iter().all(|of| !of.counts.is_empty());
    Some(Statements {
        per: per.unit,
        counted_by: are_counted.then(|| executions[0].counts.by()),
        are_at_least: executions.iter().any(|of| of.counts.are_at_least()),
        sentence,
        is_certain,
        total,
        changes: answer,
    })
}
