//! The statement that the first line names, and what is said about it.
//!
//! If it is known how often statements were executed, this is the one that takes longer each time: per transaction or second a statement
//! also has more time if it is merely executed more often, and in a closed loop it has less if it became slow. Time per transaction or
//! second is reported for one that takes as long each time as before.

use dbtime_model::State;

use super::answer::{Change, Place, StatementChange, Verdict};
use super::causes::largest_first;
use super::conclusion::{GROWTH_COUNTS, amount, per_words};
use super::headline::rate;
use super::newcomers::EXPECTED_SAMPLES;
use crate::group::query_id;
use crate::statement_text::beginning;
use crate::work::WorkUnit;

/// If the time of a statement has changed by more than this many times what the change per execution explains, most of the change is in
/// how often it is executed.
const RATHER_OFTEN: f64 = 2.0;
/// A side with less than this part of the other hardly has it.
const HARDLY: f64 = 0.2;
/// A second place is named when the first has less than this part of the difference …
const MOST: f64 = 0.7;
/// … and the second at least this.
const MUCH: f64 = 0.2;
/// A new statement is named if it has this part of DB time.
const LARGE: f64 = 0.2;
/// Characters of a statement's text in the sentence.
const TEXT: usize = 60;

/// A change of a statement, by its best measure.
struct Found<'a> {
    statement: &'a StatementChange,
    change: &'a Change,
    is_per_execution: bool,
    /// What it adds to DB time per unit of work.
    size: f64,
}

impl<'a> Found<'a> {
    fn per_unit(statement: &'a StatementChange) -> Found<'a> {
        Found {
            statement,
            change: &statement.change,
            is_per_execution: false,
            size: statement.change.difference,
        }
    }

    fn per_execution(statement: &'a StatementChange) -> Option<Found<'a>> {
        let change = statement.per_execution.as_ref()?;
        // Executed as often as on the side where it takes longer.
        let often = statement.calls_per_unit[usize::from(change.difference > 0.0)]?;
        Some(Found {
            statement,
            change,
            is_per_execution: true,
            size: change.difference * often,
        })
    }

    /// The more telling of the two, if one is more than noise.
    fn significant(statement: &'a StatementChange) -> Option<Found<'a>> {
        let is_significant = |found: &Found<'_>| found.change.verdict == Verdict::Significant;
        let each = Found::per_execution(statement).filter(is_significant);
        let whole = Some(Found::per_unit(statement)).filter(is_significant);
        match (each, whole) {
            (Some(each), Some(whole)) if whole.size.abs() > RATHER_OFTEN * each.size.abs() => Some(whole),
            (each, whole) => each.or(whole),
        }
    }
}

/// The statement that changed most by more than noise, and true; else the one that is likely to have, and false; else one that is new in
/// BAD, and true: that is no question of its amount. `total`: DB time; `good_samples`: all of GOOD's.
pub(super) fn named(
    statements: &[StatementChange],
    unit: WorkUnit,
    likely: Option<u64>,
    slices: [usize; 2],
    (total, good_samples): (&Change, u128),
) -> (String, bool) {
    let significant = |sign: f64| {
        statements
            .iter()
            .filter(|statement| statement.change.place != Place::Statement(0))
            .filter_map(Found::significant)
            .filter(|found| found.size * sign > 0.0)
            .reduce(|most, found| {
                if found.size.abs() > most.size.abs() {
                    found
                } else {
                    most
                }
            })
    };
    let size = |of: &Option<Found<'_>>| of.as_ref().map_or(0.0, |of| of.size.abs());
    let (grown, shrunk) = (significant(1.0), significant(-1.0));
    let certain = match size(&grown) >= GROWTH_COUNTS * size(&shrunk) {
        true => grown,
        false => shrunk,
    };
    if let Some(found) = certain {
        return (sentence(&found, unit), true);
    }
    let likely = statements
        .iter()
        .find(|statement| likely.is_some_and(|id| statement.change.place == Place::Statement(id)))
        .map(|statement| Found::per_execution(statement).unwrap_or_else(|| Found::per_unit(statement)));
    if let Some(found) = likely {
        return (
            format!("{} {}", sentence(&found, unit), doubt(&found, slices)),
            false,
        );
    }
    match newcomer(statements, total, good_samples) {
        Some(found) => (sentence(&found, unit), true),
        None => (String::new(), false),
    }
}

/// The statement that only BAD executes, if that is a large part of what BAD does, and of what GOOD executed enough is known.
fn newcomer<'a>(statements: &'a [StatementChange], total: &Change, good_samples: u128) -> Option<Found<'a>> {
    let share =
        |statement: &StatementChange, side: usize| statement.change.per_unit[side] / total.per_unit[side];
    // Instead of a text, those that are not told apart have words in brackets.
    let is_unknown = |statement: &StatementChange| {
        let words = statement.text.as_deref();
        statement.change.place == Place::Statement(0) || words.is_some_and(|words| words.starts_with('['))
    };
    if statements
        .iter()
        .any(|statement| is_unknown(statement) && share(statement, 0) >= LARGE)
    {
        return None;
    }
    // The same text may have another id: in another cluster, or after a table was created again (before PostgreSQL 18).
    let is_gone = |statement: &StatementChange, text: &Option<String>| {
        text.is_some() && statement.text == *text && statement.change.values[1] == 0
    };
    let is_new = |statement: &&StatementChange| {
        !is_unknown(statement)
            && statement.change.values[0] == 0
            && statement.per_execution.is_none()
            && share(statement, 1) >= LARGE
            && share(statement, 1) * good_samples as f64 >= EXPECTED_SAMPLES
            && !statements.iter().any(|other| is_gone(other, &statement.text))
    };
    statements
        .iter()
        .filter(is_new)
        .max_by(|one, other| share(one, 1).total_cmp(&share(other, 1)))
        .map(Found::per_unit)
}

/// Why it is only likely.
fn doubt(found: &Found<'_>, [good, bad]: [usize; 2]) -> String {
    let why = match found.change.verdict {
        Verdict::NotTested => "it was executed in too few seconds to tell that from noise".to_string(),
        Verdict::Varies => "the halves of one side differ as much from each other".to_string(),
        _ => format!("not beyond the noise of so few slices of time ({good} and {bad})"),
    };
    format!("Not certain: it is most of the difference of DB time, but {why}.")
}

fn sentence(found: &Found<'_>, unit: WorkUnit) -> String {
    let Found {
        statement,
        change,
        is_per_execution,
        ..
    } = found;
    let [good, bad] = change.per_unit;
    let id = match (&statement.sql_id, &change.place) {
        (Some(sql_id), _) => sql_id.clone(),
        (None, Place::Statement(id)) => query_id(*id),
        (None, _) => String::new(),
    };
    let text = statement.text.as_deref().map_or_else(String::new, |text| {
        format!(" ({})", beginning(text, TEXT).trim_end_matches(';'))
    });
    let by = match is_per_execution {
        true => WorkUnit::Execution,
        false => unit,
    };
    let per = per_words(by);
    // Its executions may be too short to be sampled.
    let is_executed_on_both = statement.per_execution.is_some();
    let how = if good <= 0.0 && !is_executed_on_both {
        format!("is new in BAD, with {} {per}", amount(bad, by))
    } else if bad <= 0.0 && !is_executed_on_both {
        format!("is not in BAD, and took {} {per} in GOOD", amount(good, by))
    } else {
        let side = |value: f64, name: &str| match value > 0.0 {
            true => format!("{} in {name}", amount(value, by)),
            false => format!("nothing seen in {name}"),
        };
        let times = match good > 0.0 && bad > 0.0 {
            true => format!(": {} times", rate(bad / good)),
            false => String::new(),
        };
        let often = match (is_executed_on_both && !is_per_execution, statement.calls_per_unit) {
            (true, [Some(good), Some(bad)]) => format!("; executed {} and {} times", rate(good), rate(bad)),
            _ => String::new(),
        };
        // That of parallel workers is part of it.
        let time = if by == WorkUnit::Sample { "" } else { " DB time" };
        format!(
            "takes {} {}{time} {per} ({}, {}{times}{often})",
            amount(change.difference.abs(), by),
            if change.difference > 0.0 { "more" } else { "less" },
            side(good, "GOOD"),
            side(bad, "BAD"),
        )
    };
    format!(
        "Query {id}{text} {how}{}.",
        whereto(&cells(found), change.difference)
    )
}

/// The cells of the statement, measured as its change is; largest difference first.
fn cells(found: &Found<'_>) -> Vec<Change> {
    let statement = found.statement;
    let mut cells = statement.cells.clone();
    if let (true, [Some(good), Some(bad)]) = (found.is_per_execution, statement.counted) {
        let calls = [good.calls, bad.calls];
        for cell in &mut cells {
            cell.per_unit = [0, 1].map(|n| cell.values[n] as f64 / calls[n] as f64);
            cell.difference = cell.per_unit[1] - cell.per_unit[0];
        }
        largest_first(&mut cells, |cell| cell);
    }
    cells
}

/// Which waits and states most of it went to (or came from), and what that means.
fn whereto(cells: &[Change], whole: f64) -> String {
    let parts: Vec<(&Change, f64)> = cells
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

/// What it means that a statement has more (or less) time in a cell; none if the cell itself says so.
fn meaning(cell: &Change) -> Option<&'static str> {
    let Place::Cell(wait, state) = &cell.place else {
        return None;
    };
    let [good, bad] = cell.per_unit;
    let is_read = wait.event.to_ascii_lowercase().contains("read");
    match (state, &*wait.class) {
        (State::Disk, _) if is_read && good <= HARDLY * bad => Some(": its reads now come from the device"),
        (State::Disk, _) if is_read && bad <= HARDLY * good => {
            Some(": hardly any of its reads come from the device now")
        }
        (State::Disk, _) if is_read && bad > good => Some(": it waits longer for reads from the device"),
        (State::Sleep, "Lock") if good <= HARDLY * bad => Some(": it now waits for locks of other sessions"),
        _ => None,
    }
}
