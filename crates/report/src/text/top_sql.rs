//! Which SQL: statements by their DB time; those that are not shown are summed.

use super::page::{Page, Table, percent};
use crate::group::query_id;
use crate::number::{Amounts, counted};
use crate::report::Report;
use crate::statement_text::cell;
use crate::sums::Sums;
use crate::sums::percent as percent_of;
use crate::top_sql::{NoStatements, StatementTime};

/// Statements shown one by one.
const STATEMENTS: usize = 10;
/// Characters of a text.
const TEXT: usize = 120;

pub(super) fn render(report: &Report, page: &mut Page) {
    let top = match &report.top_sql {
        Ok(top) => top,
        Err(NoStatements::NotRecorded) => return,
        Err(NoStatements::WithoutIds) => {
            page.paragraph(
                "Which SQL is not known: the server does not compute query ids. 'compute_query_id = on' makes it do so (a reload is \
                 enough), and so does pg_stat_statements.",
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
    let mut table = Table::new(
        &[id_is, "statement", "main wait"],
        &["DB time", "%", "AAS", "on CPU", "disk"],
    );
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
        let mut cells = vec![id(statement), text, format!("{wait} {share} %")];
        cells.extend(numbers(&statement.sums));
        table.row(cells);
    }
    if !rest.is_empty() {
        let mut sums = Sums::default();
        rest.iter().for_each(|statement| sums.merge(&statement.sums));
        table.rule();
        let mut cells = vec![String::new(), counted(rest.len(), "other"), String::new()];
        cells.extend(numbers(&sums));
        table.row(cells);
    }
    page.table(&table);
}

fn id(statement: &StatementTime) -> String {
    match (&statement.sql_id, statement.id) {
        (Some(sql_id), _) => sql_id.clone(),
        (None, 0) => String::new(),
        (None, id) => query_id(id),
    }
}
