//! Who was waited for, in two recordings.

use super::causes::{what, with_statement};
use super::diff::{if_any, signed, verdict};
use super::page::{Page, Table};
use crate::causes::{CausePart, no_session};
use crate::diff::{CauseChange, Change, Diff, Place, WaitingStatement, grown_first, largest_first};
use crate::group::query_id;
use crate::number::counted;
use crate::statement_text::beginning;

/// Characters of the text of a statement that waited.
const TEXT: usize = 40;

pub(super) fn render(diff: &Diff, page: &mut Page) {
    let causes = match &diff.causes {
        Ok(causes) => causes,
        // If both are silent there is nothing to compare; if one is, the user will look for it.
        Err(silent) if silent.len() == 1 => {
            page.heading(&format!(
                "Who was waited for is not compared: {} does not record it.",
                silent[0]
            ));
            return;
        }
        Err(_) => return,
    };
    let mut differing: Vec<&CauseChange> = causes
        .changes
        .iter()
        .filter(|cause| cause.change.difference != 0.0)
        .collect();
    if differing.is_empty() {
        return;
    }
    page.heading(&format!(
        "Who was waited for (blocked time per {}, largest growth first)",
        diff.unit
    ));
    let mut table = Table::new(
        &["wait event", "most of it in", "waited for"],
        &["GOOD", "BAD", "difference", "% of DB time", "significant"],
    );
    // By size, not growth: what shrank most must not be left out.
    largest_first(&mut differing, |cause| &cause.change);
    let count = diff.top.min(differing.len());
    let (shown, rest) = differing.split_at_mut(count);
    grown_first(shown, |cause| &cause.change);
    for cause in &*shown {
        let wait = match &cause.change.place {
            Place::Wait(wait) => wait.to_string(),
            _ => String::new(),
        };
        let mut cells = vec![wait, waiting(cause), waited_for(&cause.cause)];
        cells.extend(numbers(
            cause.change.per_unit,
            cause.change.difference,
            cause.change.percent,
            diff,
        ));
        cells.push(verdict(cause.change.verdict));
        table.row(cells);
    }
    if !rest.is_empty() {
        let sum = |of: &dyn Fn(&Change) -> f64| rest.iter().map(|cause| of(&cause.change)).sum::<f64>();
        let mut cells = row_of(&counted(rest.len(), "other"));
        cells.extend(numbers(
            [0, 1].map(|side| sum(&|change| change.per_unit[side])),
            sum(&|change| change.difference),
            sum(&|change| change.percent),
            diff,
        ));
        cells.push(String::new());
        table.row(cells);
    }
    table.rule();
    let mut cells = row_of("blocked DB time");
    let total = &causes.total;
    cells.extend(numbers(total.per_unit, total.difference, total.percent, diff));
    cells.push(String::new());
    table.row(cells);
    page.table(&table);
}

/// The text cells of a row that is a sum.
fn row_of(name: &str) -> Vec<String> {
    let mut cells = vec![String::new(); 3];
    cells[0] = name.to_string();
    cells
}

fn numbers(per_unit: [f64; 2], difference: f64, percent: f64, diff: &Diff) -> [String; 4] {
    [
        if_any(per_unit[0], diff.unit),
        if_any(per_unit[1], diff.unit),
        signed(difference, diff.unit),
        format!("{percent:+.1}"),
    ]
}

/// Who it was, what it was doing, and what it executed.
fn waited_for(cause: &CausePart) -> String {
    match &cause.root {
        None => no_session(cause.kind).to_string(),
        Some(root) => with_statement(format!("{}, {}", root.backend_type, what(cause)), root),
    }
}

/// The waiters' statement with most of the difference.
fn waiting(cause: &CauseChange) -> String {
    let is_along = |difference: f64| difference * cause.change.difference > 0.0;
    let most = cause
        .statements
        .iter()
        .filter(|statement| is_along(statement.change.difference))
        .max_by(|one, other| {
            let size = |of: &WaitingStatement| of.change.difference.abs();
            size(one).total_cmp(&size(other))
        });
    let Some(most) = most else {
        return String::new();
    };
    match (&most.change.place, &most.text) {
        (Place::Statement(0), _) => "no query known".to_string(),
        (_, Some(text)) => beginning(text, TEXT),
        (Place::Statement(id), None) => format!("query {}", query_id(*id)),
        _ => String::new(),
    }
}
