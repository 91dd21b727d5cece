//! Errors of statements, and how transactions ended.

use super::sql_line;
use crate::group::statement_name;
use crate::text::page::{Page, Table};
use crate::trace::{Trace, Transactions};

pub(super) fn render(trace: &Trace, page: &mut Page) {
    let Transactions {
        commits,
        rollbacks,
        read_only,
    } = trace.transactions;
    if commits + rollbacks + read_only > 0 {
        page.heading(&format!(
            "Transactions: {commits} committed, {rollbacks} rolled back, {read_only} ended without a change"
        ));
    }
    if trace.errors.is_empty() {
        return;
    }
    page.heading("Errors");
    let mut table = Table::new(&["error", "at", "statement", "text"], &["count"]);
    for error in trace.errors.iter().take(trace.options.top) {
        let mut text = sql_line(error.text.as_deref());
        if text.chars().count() > 60 {
            text = text.chars().take(60).collect();
        }
        table.row(vec![
            format!("ORA-{:05}", error.code),
            if error.at_parse { "parse" } else { "run time" }.to_string(),
            match error.is_nameless() {
                true => String::new(),
                false => statement_name(error.id, error.sql_id.as_deref(), error.hash_value),
            },
            text,
            error.count.to_string(),
        ]);
    }
    page.table(&table);
    let others = trace.errors.len().saturating_sub(trace.options.top);
    if others > 0 {
        page.line(&format!("  {others} others: --top N shows more"));
    }
}
