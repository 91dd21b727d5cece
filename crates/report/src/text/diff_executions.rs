//! How often the statements of a comparison were executed, and how long one execution took.

use super::diff::{if_any, place, signed, verdict};
use super::page::{Page, Table};
use crate::diff::{Place, StatementChange, Statements, rate};
use crate::statement_counts::CountedBy;
use crate::statement_text::cell;
use crate::work::WorkUnit;

/// Characters of a statement's text.
const TEXT: usize = 60;
/// Shown for a number that is not known.
const NOT_KNOWN: &str = "?";

/// For the statements that are shown above.
pub(super) fn render(statements: &Statements, shown: &[&StatementChange], page: &mut Page) {
    let is_known = |of: &&&StatementChange| of.change.place != Place::Statement(0);
    let shown: Vec<&StatementChange> = shown.iter().filter(is_known).copied().collect();
    let (Some(counted_by), [_, ..]) = (statements.counted_by, shown.as_slice()) else {
        return;
    };
    let unit = statements.per;
    page.heading(&format!(
        "Executions of these statements (calls per {unit}; DB time per execution)"
    ));
    let mut table = Table::new(
        &["query", "statement"],
        &[
            "calls GOOD",
            "BAD",
            "per execution GOOD",
            "BAD",
            "difference",
            "significant",
        ],
    );
    let least = if statements.are_at_least { ">=" } else { "" };
    let calls =
        |of: Option<f64>| of.map_or_else(|| "~".to_string(), |calls| format!("{least}{}", rate(calls)));
    for statement in shown {
        let of = &statement.change.place;
        let name = statement.sql_id.clone().unwrap_or_else(|| place(of));
        let text = match of {
            Place::Statement(id) => cell(*id, statement.text.as_deref(), TEXT),
            _ => String::new(),
        };
        let mut cells = vec![name, text];
        cells.extend(statement.calls_per_unit.map(calls));
        cells.extend(match &statement.per_execution {
            Some(of) => [
                if_any(of.per_unit[0], WorkUnit::Execution),
                if_any(of.per_unit[1], WorkUnit::Execution),
                signed(of.difference, WorkUnit::Execution),
                verdict(of.verdict),
            ],
            None => std::array::from_fn(|_| NOT_KNOWN.to_string()),
        });
        table.row(cells);
    }
    page.table(&table);
    page.paragraph(&told_of(counted_by, statements.are_at_least));
}

/// What is counted, and what is missing.
fn told_of(counted_by: CountedBy, are_at_least: bool) -> String {
    let (what, why) = match counted_by {
        CountedBy::Server => (
            "pg_stat_statements, which counts executions of the whole server when they end",
            "it was reset, evicted statements, or counted some without saying which",
        ),
        CountedBy::Trace => (
            "EXEC calls of the trace, at any depth",
            "cursors were parsed before the trace began",
        ),
        CountedBy::Commands => (
            "client commands, each one counted; a message with several statements is one, of the last one",
            "the recorder had no room for some events",
        ),
    };
    let least = match are_at_least {
        true => format!("; >= there may have been more: {why}"),
        false => String::new(),
    };
    format!("Calls: {what}; ~ = none{least}. ? = not known, or a side has none.")
}
