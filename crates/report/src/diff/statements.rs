//! Which statement changed, and into which waits and states its time went.
//!
//! Divided by transactions where both sides counted them, however the rest is divided: in a closed loop a statement that became
//! slower takes as much of each second as it did. Where the server counted executions of single statements they stand beside it. The
//! differences of all statements, and of what belongs to none, sum to that of DB time. They have a test of their own, of the same kind.

use std::collections::BTreeMap;

use dbtime_model::{State, Wait};

use super::answer::{Change, Place, StatementChange, Statements, Verdict};
use super::changes::{Changes, Pair};
use super::conclusion::{amount, per_words};
use super::headline::rate;
use super::side::Side;
use super::verdicts::{BySlice, give_verdicts};
use super::{Per, SMALLEST_SHARE, common_factor};
use crate::function::Functions;
use crate::group::query_id;
use crate::statement_text::beginning;
use crate::work::WorkUnit;

/// An increase is named before a decrease that is not more than twice as large.
const GROWTH_COUNTS: f64 = 0.5;
/// What one side has less of than this part of the other it hardly has.
const HARDLY: f64 = 0.2;
/// A second place is named when the first has less than this part of the difference …
const MOST: f64 = 0.7;
/// … and the second at least this.
const MUCH: f64 = 0.2;
/// Characters of a text in the sentence.
const TEXT: usize = 60;

/// Both sides of a statement.
#[derive(Default)]
struct Both {
    all: Pair,
    cells: BTreeMap<(Wait, State), Pair>,
}

/// Compares both sides by statement; none when one of them knows no statement.
pub(super) fn compare(
    sides: &[Side; 2],
    changes: &Changes,
    functions: &Functions,
    per: &Per,
) -> Option<Statements> {
    if !sides.iter().all(Side::knows_statements) {
        return None;
    }
    let transactions = [0, 1].map(|side| sides[side].work.count(WorkUnit::Transaction) as f64);
    let per_transaction = (per.unit == WorkUnit::Second && transactions.iter().all(|count| *count > 0.0))
        .then(|| Per::new(sides, WorkUnit::Transaction, transactions, false));
    let per = per_transaction.as_ref().unwrap_or(per);
    let factor = common_factor::estimate(changes, per, functions);

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
    let smallest = SMALLEST_SHARE * changes.scale(per);
    let tested = statements
        .iter_mut()
        .map(|(id, both)| (&mut both.all, slices.remove(id).unwrap_or_default()));
    give_verdicts(tested, per, factor, smallest);
    for both in statements.values_mut() {
        both.all.judge_untested(per, smallest);
    }

    let mut answer: Vec<StatementChange> = statements
        .into_iter()
        .map(|(id, both)| {
            // Good or bad: whichever has a text.
            let known = |of: &dyn Fn(&Side) -> Option<String>| sides.iter().find_map(of);
            let mut cells: Vec<Change> = both
                .cells
                .into_iter()
                .map(|((wait, state), pair)| changes.change(Place::Cell(wait, state), &pair, None, per))
                .collect();
            sort(&mut cells, |cell| cell);
            let counted = [0, 1].map(|n| sides[n].counts.of(id));
            let calls = |n: usize| {
                counted[n]
                    .filter(|_| per.work[n] > 0.0)
                    .map(|of| of.calls as f64 / per.work[n])
            };
            StatementChange {
                counted,
                calls_per_unit: [calls(0), calls(1)],
                change: changes.change(Place::Statement(id), &both.all, None, per),
                sql_id: known(&|side| side.dimensions.sql_id(id).map(str::to_string)),
                text: known(&|side| side.dimensions.statement(id).map(str::to_string)),
                cells,
            }
        })
        .collect();
    sort(&mut answer, |statement| &statement.change);
    Some(Statements {
        per: per.unit,
        are_counted: sides.iter().all(|side| !side.counts.is_empty()),
        are_at_least: sides.iter().any(|side| side.counts.are_at_least()),
        sentence: named(&answer, per.unit),
        total: changes.total(per),
        changes: answer,
    })
}

/// The largest difference first; equal ones stay in the order of their ids and names.
fn sort<T>(all: &mut [T], change: impl Fn(&T) -> &Change) {
    all.sort_by(|one, other| {
        let size = |of: &T| change(of).difference.abs();
        size(other).total_cmp(&size(one))
    });
}

/// The statement that changed most, if any did by more than noise.
fn named(statements: &[StatementChange], unit: WorkUnit) -> String {
    let significant = |sign: f64| {
        statements.iter().find(move |statement| {
            let change = &statement.change;
            change.verdict == Verdict::Significant
                && change.place != Place::Statement(0)
                && change.difference * sign > 0.0
        })
    };
    let size = |of: Option<&StatementChange>| of.map_or(0.0, |of| of.change.difference.abs());
    let (grown, shrunk) = (significant(1.0), significant(-1.0));
    let named = if size(grown) >= GROWTH_COUNTS * size(shrunk) {
        grown
    } else {
        shrunk
    };
    named.map_or_else(String::new, |statement| sentence(statement, unit))
}

fn sentence(statement: &StatementChange, unit: WorkUnit) -> String {
    let change = &statement.change;
    let [good, bad] = change.per_unit;
    let id = match (&statement.sql_id, &change.place) {
        (Some(sql_id), _) => sql_id.clone(),
        (None, Place::Statement(id)) => query_id(*id),
        (None, _) => String::new(),
    };
    let text = statement.text.as_deref().map_or_else(String::new, |text| {
        format!(" ({})", beginning(text, TEXT).trim_end_matches(';'))
    });
    let per = per_words(unit);
    let how = if good <= 0.0 {
        format!("is new in BAD, with {} {per}", amount(bad, unit))
    } else if bad <= 0.0 {
        format!("is not in BAD, and took {} {per} in GOOD", amount(good, unit))
    } else {
        format!(
            "takes {} {} {per} ({} in GOOD, {} in BAD: {} times)",
            amount(change.difference.abs(), unit),
            if change.difference > 0.0 { "more" } else { "less" },
            amount(good, unit),
            amount(bad, unit),
            rate(bad / good)
        )
    };
    format!("Query {id}{text} {how}{}.", whereto(statement))
}

/// Into which waits and states most of it went (or from which it came), and what that means.
fn whereto(statement: &StatementChange) -> String {
    let whole = statement.change.difference;
    let parts: Vec<(&Change, f64)> = statement
        .cells
        .iter()
        .map(|cell| (cell, cell.difference / whole))
        .filter(|(_, part)| *part > 0.0)
        .take(2)
        .collect();
    let Some((first, part)) = parts.first() else {
        return String::new();
    };
    let mut text = format!(", {} of that in {}", in_percent(*part), cell_name(first));
    if let Some((second, more)) = parts.get(1)
        && *part < MOST
        && *more >= MUCH
    {
        text += &format!(", {} in {}", in_percent(*more), cell_name(second));
    }
    text + meaning(first).unwrap_or_default()
}

fn in_percent(part: f64) -> String {
    format!("{:.0} %", (part * 100.0).min(100.0))
}

fn cell_name(cell: &Change) -> String {
    match &cell.place {
        Place::Cell(wait, state) => format!("{wait}, {state}"),
        _ => String::new(),
    }
}

/// What it means that a statement has more (or less) time in a cell; none where the cell says it itself.
fn meaning(cell: &Change) -> Option<&'static str> {
    let Place::Cell(wait, state) = &cell.place else {
        return None;
    };
    let [good, bad] = cell.per_unit;
    let is_read = wait.event.to_ascii_lowercase().contains("read");
    match (state, &*wait.class) {
        (State::Disk, _) if is_read && good <= HARDLY * bad => Some(": its reads now come from the device"),
        (State::Disk, _) if is_read && bad <= HARDLY * good => {
            Some(": its reads hardly come from the device any longer")
        }
        (State::Disk, _) if is_read && bad > good => Some(": it waits longer for reads from the device"),
        (State::Sleep, "Lock") if good <= HARDLY * bad => Some(": it now waits for locks of other sessions"),
        _ => None,
    }
}
