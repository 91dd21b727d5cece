//! Which SQL: statements by their DB time; those that are not shown are summed.

use super::page::{Page, Table, percent};
use crate::group::query_id;
use crate::number::{Amounts, counted, duration};
use crate::report::Report;
use crate::statement_counts::{CountedBy, CountedStatement, StatementCounts};
use crate::statement_text::cell;
use crate::sums::Sums;
use crate::sums::percent as percent_of;
use crate::top_sql::{NoStatements, StatementTime};

/// Statements shown individually.
const STATEMENTS: usize = 10;
/// Characters of a statement's text.
const TEXT: usize = 120;
/// pgss_ProcessUtility in contrib/pg_stat_statements.
const OWN_NUMBER: &str = "* dbtime's fingerprint of the text: pg_stat_statements removes the id of a utility statement on its \
     first execution, and a prepared one has none from then on.";

pub(super) fn render(report: &Report, page: &mut Page) {
    let top = match &report.top_sql {
        Ok(top) => top,
        Err(NoStatements::NotRecorded) => return,
        Err(NoStatements::WithoutIds) => {
            page.paragraph(
                "The SQL is not known: the server does not compute query ids. 'compute_query_id = on' makes \
                 it do so (a reload is enough), and so does pg_stat_statements.",
            );
            return;
        }
    };
    let amounts = Amounts::of(&report.meta);
    page.heading(&format!(
        "SQL by DB time ({}; AAS = average active sessions)",
        amounts.unit()
    ));
    let id_is = match report.meta.database.has_fingerprints() {
        true => "fingerprint",
        false => "query",
    };
    // If it applies to all of them, the heading of the column says so.
    let marks = !report.meta.database.has_fingerprints();
    let counts = &top.counts;
    let mut heads = vec!["DB time", "%", "AAS", "on CPU", "disk"];
    if !counts.is_empty() {
        heads.extend(match counts.by() {
            CountedBy::Server => &["calls", "rows", "per call"][..],
            CountedBy::Trace => &["executions", "per execution"],
            CountedBy::Commands => &["commands", "per command"],
        });
    }
    let mut table = Table::new(&[id_is, "statement", "main wait"], &heads);
    let elapsed = report.elapsed_ns();
    let numbers = |sums: &Sums| {
        let aas = (elapsed > 0).then(|| sums.total_ns() as f64 / elapsed as f64);
        [
            amounts.cell(sums.total_ns()),
            percent(percent_of(sums.total_ns(), top.db_time_ns)),
            aas.map_or_else(String::new, |aas| format!("{aas:.2}")),
            amounts.cell(sums.on_cpu_ns()),
            amounts.cell(sums.state_ns(dbtime_model::State::Disk)),
        ]
    };
    let (shown, rest) = top.statements.split_at(top.statements.len().min(STATEMENTS));
    for statement in shown {
        let wait = &statement.main_wait;
        let share = percent(percent_of(statement.main_wait_ns, statement.sums.total_ns()));
        let text = cell(statement.id, statement.text.as_deref(), TEXT);
        let mut cells = vec![id(statement, marks), text, format!("{wait} {share} %")];
        cells.extend(numbers(&statement.sums));
        if !counts.is_empty() {
            cells.extend(counted_cells(statement.counted, counts));
        }
        table.row(cells);
    }
    if !rest.is_empty() {
        let mut sums = Sums::default();
        rest.iter().for_each(|statement| sums.merge(&statement.sums));
        table.rule();
        let mut cells = vec![String::new(), counted(rest.len(), "other"), String::new()];
        cells.extend(numbers(&sums));
        cells.resize(3 + heads.len(), String::new());
        table.row(cells);
    }
    page.table(&table);
    if marks && shown.iter().any(|statement| statement.has_fingerprint) {
        page.paragraph(OWN_NUMBER);
    }
    if !counts.is_empty() {
        page.paragraph(&told_of(counts));
    }
}

/// Calls, rows if they are counted, and time per call; `~` if none was counted.
fn counted_cells(of: Option<CountedStatement>, counts: &StatementCounts) -> Vec<String> {
    let number = |number: u128| match counts.are_at_least() {
        true => format!(">={number}"),
        false => number.to_string(),
    };
    let mut cells = vec![of.map(|of| number(of.calls))];
    if counts.by() == CountedBy::Server {
        cells.push(of.and_then(|of| of.rows).map(number));
    }
    cells.push(of.and_then(|of| of.average_ns()).map(duration));
    let cells = cells.into_iter();
    cells
        .map(|cell| cell.unwrap_or_else(|| "~".to_string()))
        .collect()
}

/// Where calls and rows come from, and what is missing.
fn told_of(counts: &StatementCounts) -> String {
    let all = counts.all().calls;
    let mut text = match counts.by() {
        CountedBy::Server => format!(
            "Calls, rows and time per call: pg_stat_statements, which counts executions of the whole server when they end (in all {}), \
             and times neither parsing nor the commit after an END; ~ = it counted none.",
            counted(all, "call")
        ),
        CountedBy::Trace => format!(
            "Executions: EXEC calls of the trace, at any depth (in all {}); ~ = none.",
            counted(all, "execution")
        ),
        CountedBy::Commands => format!(
            "Commands and time per command: client commands, each one counted (in all {}); ~ = none. A \
             message with several statements is one command, of the last one; preparing a statement counts \
             as one, too. The time of a command includes parsing, and waiting for a CPU before it: in DB time \
             these are of no statement.",
            counted(all, "command")
        ),
    };
    let unknown = counts.of_unknown().calls;
    let missing = [
        (
            unknown > 0 && counts.by() == CountedBy::Server,
            format!("for {} the statement is not known", counted(unknown, "call")),
        ),
        (
            counts.events_lost() > 0,
            format!(
                "the recorder had no room for {}, some of which may have been commands",
                counted(counts.events_lost(), "single event")
            ),
        ),
        (
            counts.evictions() > 0,
            "it evicted statements to make room for others".to_string(),
        ),
        (counts.resets() > 0, "it was reset".to_string()),
    ];
    let missing: Vec<String> = missing
        .into_iter()
        .filter_map(|(is_so, why)| is_so.then_some(why))
        .collect();
    if !missing.is_empty() {
        text += &format!(" There may have been more (>=): {}.", missing.join(", and "));
    }
    text
}

/// `marks`: ids that are not the server's get a star.
fn id(statement: &StatementTime, marks: bool) -> String {
    match (&statement.sql_id, statement.id) {
        (Some(sql_id), _) => sql_id.clone(),
        (None, 0) => String::new(),
        (None, id) if marks && statement.has_fingerprint => format!("{}*", query_id(id)),
        (None, id) => query_id(id),
    }
}
